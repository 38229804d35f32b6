"""The clients: which classes their samples belong to, and how good their models are; paired differences to the
baseline.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfl.core.json_data import JsonObject
from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure, percent
from simfl.report.measures import BAND_SEEDS, StudyMeasure, seed_column, with_values
from simfl.report.study import Group, Run, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABEL = "label "
"""What the columns of clients.csv that count samples begin with."""

CLIENTS = 240
"""Columns at most; of more clients, every n-th."""


@figure("labels", "Labels of the clients", "Learning")
def draw(study: Study) -> Drawn:
    """Training samples of each class at each client, in the first seed: the stronger the colour, the more. Even rows
    mean clients that are alike.
    """
    fig, table = histogram(*_counts(study.groups[0].first))
    if any(axis.split(".")[0] in ("learning", "clients") for axis in study.axes):
        style.title(fig.axes[0], f"{study.groups[0].label} only")
    return fig, table


def histogram(counts: NDArray[np.int64], names: Sequence[str]) -> Drawn:
    """The figure of samples of each client and class, shape (clients, classes), and its table."""
    from matplotlib.ticker import MaxNLocator
    from pandas import DataFrame

    every = -(-len(counts) // CLIENTS)
    shown = counts[::every]
    image = np.empty((*shown.T.shape, 4))
    image[..., :3] = style.CELL
    image[..., 3] = shown.T / max(shown.max(), 1)
    fig, ((axes,),) = style.figure()
    extent = (-every / 2, len(shown) * every - every / 2, -0.5, len(names) - 0.5)
    axes.imshow(image, origin="lower", aspect="auto", interpolation="none", extent=extent)
    axes.grid(False)
    axes.set_xlabel("Client" if every == 1 else f"Client (every {every}th)")
    axes.set_ylabel("Class")
    if len(names) <= 20:
        axes.set_yticks(range(len(names)), names)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.note(axes, f"strongest colour: {shown.max()} samples")
    table = DataFrame(shown, columns=list(names))
    table.insert(0, "client", np.arange(len(shown)) * every)
    return fig, table


def _counts(run: Run) -> tuple[NDArray[np.int64], list[str]]:
    """Samples of each client and class, int64 (clients, classes), and the classes' names."""
    labels = [name for name in run.clients_table.columns if name.startswith(LABEL)]
    if not labels:
        raise NothingToDraw("no labels of the clients were recorded: nothing is learned from data, or there are too "
                            "many clients")  # fmt: skip
    return run.clients_table[labels].to_numpy(dtype=np.int64), [name.removeprefix(LABEL) for name in labels]


MODELS = {"accuracy": "model in use", "trained": "after local training"}
POINTS = 200
"""Points of a curve at most."""


@figure("clients", "Accuracy of the clients", "Learning", wide=True)
def draw_accuracies(study: Study) -> Drawn:
    """Clients by the accuracy of their models on samples of their own at the end of the run: which share of them is no
    better off. Left the model that each uses, right the one that its last local training left. All seeds.
    """
    from pandas import DataFrame, concat

    parts = []
    for group in study.groups:
        measured = [run.accuracies for run in group.runs if run.accuracies is not None]
        for model in MODELS if measured else ():
            values = np.sort(concat(measured)[model].dropna().to_numpy())
            shares = np.arange(1, len(values) + 1) / max(len(values), 1)
            points = np.unique(np.linspace(0, len(values) - 1, POINTS).astype(int)) if len(values) else np.arange(0)
            parts.append(
                DataFrame({"group": group.label, "model": model, "accuracy": values[points], "share": shares[points]})
            )
    table = concat(parts, ignore_index=True) if parts else DataFrame()
    if table.empty:
        raise NothingToDraw("clients' models were not measured; set learning.evaluate.per_client to true")
    fig, (panels,) = style.figure(1, len(MODELS), wide=True, sharey=True)
    for axes, (model, words) in zip(panels, MODELS.items(), strict=True):
        for group in study.groups:
            rows = table[(table.group == group.label) & (table.model == model)]
            if len(rows):
                axes.plot(rows.accuracy, rows.share, drawstyle="steps-post", **style.line_style(group, len(rows)))
        style.title(axes, words)
        axes.set_xlabel("Accuracy on its own samples")
        axes.set_ylim(0, 1.02)
        percent(axes.xaxis)
    panels[0].set_ylabel("Share of the clients")
    percent(panels[0].yaxis)
    style.legend(fig, panels[0])
    return fig, table


SHOWN = ("test_accuracy", "time_to_target_s", "clients_in_sum", "fairness_excess")
MOST_ROWS = 24
COLUMNS = ["measure", "group", "baseline", "difference", "half", "seeds"]


@figure("differences", "Differences to the baseline", "Learning", wide=True)
def draw_differences(study: Study) -> Drawn:
    """Mean difference to the baseline, seed by seed: all groups meet the same availability, latencies and data, so that
    a difference is the group's own. Whiskers are 95 % confidence intervals, each for itself: of twenty between equals,
    expect one that misses the line; of fewer than five pairs, and of fewer than ten where a run has collapsed, small
    dots are the seeds themselves. Groups that share fewer than two seeds with the baseline are left out.
    """
    from pandas import DataFrame

    if not study.choosable:
        raise NothingToDraw("needs a comparison of what the server chooses")
    baseline = study.group(study.baseline)
    others = [g for g in study.groups if g is not baseline and g.number is not None][:MOST_ROWS]
    known = [m for m in with_values(study) if m.name in SHOWN]
    rows = [_row(measure, group, baseline) for measure in known for group in others]
    table = DataFrame(rows, columns=[*COLUMNS, *sorted({name for row in rows for name in row} - {*COLUMNS})])
    if not others or not (table["seeds"] >= 2).any():
        raise NothingToDraw("needs a comparison with at least two seeds")
    fig, (panels,) = style.figure(1, len(known), wide=True, height_in=0.75 + 0.2 * len(others), sharey=True)
    for axes, measure in zip(panels, known, strict=True):
        differences = table[table.measure == measure.name]
        scale = measure.scale(differences.difference.abs())
        for place, (group, row) in enumerate(zip(others, differences.itertuples(), strict=True)):
            if row.seeds >= 2:
                dots = row.seeds < BAND_SEEDS or np.isnan(row.half)
                single = _by_seed(measure, group, baseline).values() if dots else ()
                _seeds(axes, group, place, [value / scale.divisor for value in single])
                _point(axes, group, place, row.difference / scale.divisor, None if single else row.half / scale.divisor)
        axes.axvline(0, color=style.MUTED, linewidth=0.8)
        unit = {"%": "points"}.get(scale.unit, scale.unit)
        style.title(axes, measure.label + (f" ({unit})" if unit else ""))
        axes.grid(axis="y", visible=False)
    panels[0].set_yticks(range(len(others)), [group.label for group in others])
    panels[0].set_ylim(len(others) - 0.4, -0.6)
    for axes in panels:
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    fig.supxlabel(f"difference to {baseline.label}", fontsize=8)
    return fig, table


def _seeds(axes: "Axes", group: Group, place: int, differences: list[float]) -> None:
    """A small dot for each seed's difference."""
    look = {"color": style.look(group.number)["color"], "marker": ".", "linestyle": "none", "alpha": 0.5}
    axes.plot(differences, [place] * len(differences), gid=f"thin-{style.tag(group)}", **look)


def _point(axes: "Axes", group: Group, place: int, difference: float, half: float | None) -> None:
    bar = axes.errorbar(
        difference, place, xerr=half, color=style.look(group.number)["color"], linestyle="none",
        marker=style.MARKERS[(group.number or 0) % len(style.MARKERS)], markersize=5.5,
        markeredgecolor=style.PAPER, markeredgewidth=0.6, elinewidth=1.0,
    )  # fmt: skip
    for artist in bar.get_children():
        artist.set_gid(style.tag(group))


def _by_seed(measure: StudyMeasure, group: Group, baseline: Group) -> dict[int, float]:
    """The difference to the baseline of each seed that both have."""
    ours, theirs = measure.by_seed(group), measure.by_seed(baseline)
    return {seed: ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())}


def _row(measure: StudyMeasure, group: Group, baseline: Group) -> JsonObject:
    difference, _ = measure.against(group, baseline)
    names = measure.name, group.label, baseline.label
    row = dict(zip(COLUMNS, (*names, difference.estimate, difference.half_width, difference.count), strict=True))
    if difference.count < BAND_SEEDS or difference.lower is None:
        row |= {seed_column(seed): value for seed, value in _by_seed(measure, group, baseline).items()}
    return row
