"""Columns of rounds.csv against rounds or simulated time: simfl's own, beside theory, and those of plugins."""

from typing import TYPE_CHECKING

import numpy as np

from simfl.attacks.least_squares import COLUMNS
from simfl.core.columns import ROUND_COLUMNS, unknown
from simfl.report import style
from simfl.report.figures.base import (
    Drawn,
    NothingToDraw,
    bound,
    figure,
    filled_tables,
    line,
    lines,
    one_panel,
    percent,
    tables,
)
from simfl.report.study import Group, Study, most_clients

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@figure("accuracy", "Accuracy against rounds", "Learning")
def draw(study: Study) -> Drawn:
    """Share of the test samples that the global model classifies correctly after each round."""
    return one_panel(study, "test_accuracy", "Test accuracy", adorn=lambda axes: percent(axes.yaxis))


@figure("accuracy_time", "Accuracy against simulated time", "Learning")
def draw_over_time(study: Study) -> Drawn:
    """The same accuracy against the seconds that the simulated devices and network took. A line ends where its
    fastest run ends.
    """
    return one_panel(study, "test_accuracy", "Test accuracy", "time_s", lambda axes: percent(axes.yaxis))


LOSSES = {"train_loss": "Training loss", "test_loss": "Test loss"}


@figure("loss", "Loss", "Learning")
def draw_loss(study: Study) -> Drawn:
    """Mean cross-entropy: of the clients' last local epoch, and of the global model on the test samples."""
    from pandas import concat

    losses = filled_tables(study, LOSSES)
    if not losses:
        raise NothingToDraw("no run has a loss")
    if study.single:
        fig, ((axes,),) = style.figure()
        for number, (column, table) in enumerate(losses.items()):
            line(axes, table, number, LOSSES[column])
        axes.set_ylabel("Cross-entropy")
        bound(axes.yaxis)
        style.legend(fig, axes, on_page=True)
    else:
        fig, (panels,) = style.figure(1, len(losses), sharey=True)
        for axes, (column, table) in zip(panels, losses.items(), strict=True):
            lines(axes, study, table)
            style.title(axes, LOSSES[column])
        panels[0].set_ylabel("Cross-entropy")
        bound(panels[0].yaxis)
        style.legend(fig, panels[0])
    return fig, concat([table.assign(loss=column) for column, table in losses.items()], ignore_index=True)


@figure("cardinality", "Aggregation cardinality", "Participation")
def draw_cardinality(study: Study) -> Drawn:
    """Updates aggregated per round, mean over the rounds so far. Dotted lines across are what theory expects of
    selection and failures; what a deadline costs is not in them.
    """
    table = tables(study, "mean_cardinality")
    table["expected"] = [_expected_cardinality(study.group(label)) for label in table.group]
    fig, ((axes,),) = style.figure()
    lines(axes, study, table)
    for group in study.groups:
        expected = _expected_cardinality(group)
        if group.number is not None and np.isfinite(expected):
            color = style.look(group.number)["color"]
            axes.axhline(expected, color=color, linewidth=0.9, linestyle=":", zorder=1.8, gid=style.tag(group))
    axes.set_ylabel("Updates per round")
    axes.set_ylim(bottom=0)
    bound(axes.yaxis, most=max(most_clients(study), float(table["mean"].max())))  # of a buffer, more than clients
    style.legend(fig, axes)
    return fig, table


def _expected_cardinality(group: Group) -> float:
    """The mean of what theory expects of the group's runs; NaN where it says nothing."""
    known = [value for run in group.runs if (value := run.summary.get("expected_cardinality")) is not None]
    return float(np.mean(known)) if known else np.nan


THEORY = {"recovery_expected": "--", "recovery_uncorrelated": ":", "recovery_floor": ":"}
"""Theory's columns and their dashes; the last one is what older runs call the one before it."""


@figure("recovery", "Recovered updates", "Attacks")
def draw_recovery(study: Study) -> Drawn:
    """Squared error of the updates that a server recovers by solving all sums so far, relative to their own length: 0
    is recovered, 1 no better than guessing nothing. Dashed: what theory expects of the updates and their drift; dotted:
    1 − rank / clients, for uncorrelated updates of equal length without noise; updates that point the same way are
    recovered better.
    """
    from pandas import concat

    measured = tables(study, "recovery_error").assign(column="recovery_error")
    expected = [table.assign(column=column) for column, table in filled_tables(study, THEORY).items()]
    table = concat([measured, *expected], ignore_index=True)
    fig, ((axes,),) = style.figure()
    lines(axes, study, measured)
    for group in study.groups:
        for column, rows in table[table.group == group.label].groupby("column", sort=False):
            if column != "recovery_error" and group.number is not None:
                colour = style.look(group.number)["color"]
                axes.plot(rows["round"], rows["mean"], THEORY[str(column)], color=colour, linewidth=0.9, alpha=0.8,
                          gid=style.tag(group))  # fmt: skip
    axes.set_ylabel("Squared error, relative")
    top = float(table["mean"].max())
    if top > 3:
        axes.set_yscale("symlog", linthresh=1)
        axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylim(bottom=0)
    style.legend(fig, axes)
    return fig, table


@figure("fairness", "Fairness gap", "Participation")
def draw_fairness(study: Study) -> Drawn:
    """Largest minus smallest share of the rounds so far in which a client took part; 0 is perfectly fair."""
    return one_panel(study, "fairness_gap", "Fairness gap", adorn=_bounds)


def _bounds(axes: "Axes") -> None:
    axes.set_ylim(bottom=0)
    bound(axes.yaxis, most=1.0)


ACROSS = 2
"""Panels side by side."""


@figure("plugins", "Columns of plugins", "Plugins", wide=True)
def draw_plugins(study: Study) -> Drawn:
    """Whatever plugins of the scenario report after each round, one panel a column, mean over the seeds."""
    from pandas import concat

    built_in = {column.name for column in (*ROUND_COLUMNS, *COLUMNS)}
    names = dict.fromkeys(name for run in study.runs for name in run.rounds.columns if name not in built_in)
    known = {name: column for run in study.runs for name, column in run.columns.items()}
    filled = {known.get(name) or unknown(name): table for name, table in filled_tables(study, names).items()}
    if not filled:
        raise NothingToDraw("no plugin fills a column of rounds.csv")
    rows = -(-len(filled) // ACROSS)
    fig, grid = style.figure(rows, min(len(filled), ACROSS), wide=True, height_in=0.5 + 2.3 * rows)
    for axes, (column, table) in zip(grid.flat, filled.items(), strict=False):
        lines(axes, study, table)
        style.title(axes, column.heading)
        axes.set_ylabel({"seconds": "s", "bytes": "bytes"}.get(column.unit, ""))
        if column.unit == "share":
            percent(axes.yaxis)
        elif column.unit != "number":
            bound(axes.yaxis)
    for axes in grid.flat[len(filled) :]:
        axes.remove()
    style.legend(fig, grid[0, 0])
    return fig, concat([table.assign(column=column.name) for column, table in filled.items()], ignore_index=True)
