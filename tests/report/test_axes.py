"""Axes end where values end: no accuracy above 100 %, no loss below 0, no more clients than there are."""

from dataclasses import replace

import numpy as np
import pandas
import pytest

from simfl.core.column_files import columns_by_name
from simfl.report import draw, style
from simfl.report.figures import NothingToDraw
from simfl.report.figures.base import bound
from tests.support.known_truth import Truth, simulated

ROUNDS = 12


def study_of(values, column, seeds):
    """Groups of which each seed has ``values`` and a seed's own noise in a column of rounds.csv."""
    study = simulated([Truth(), Truth()], np.random.default_rng(0), seeds=seeds, rounds=ROUNDS)
    rng = np.random.default_rng(1)
    for run in study.runs:
        noisy = np.clip(values + rng.normal(0, 0.2 * (np.max(values) + 0.1), ROUNDS), 0, None)
        if column in ("test_accuracy", "fairness_gap"):
            noisy = np.minimum(noisy, 1.0)
        if column == "mean_cardinality":
            noisy = np.minimum(noisy, run.clients)
        table = {"round": np.arange(ROUNDS), "time_s": np.arange(1, ROUNDS + 1) * 1.5, column: noisy}
        run.__dict__["rounds"] = pandas.DataFrame(table)
        run.__dict__["columns"] = columns_by_name()
    return study


@pytest.mark.parametrize("seeds", [1, 2, 5])
@pytest.mark.parametrize(
    ("name", "column", "near", "most"),
    [
        ("accuracy", "test_accuracy", 0.97, 1.0),
        ("accuracy", "test_accuracy", 0.02, 1.0),
        ("accuracy_time", "test_accuracy", 0.97, 1.0),
        ("loss", "train_loss", 0.02, np.inf),
        ("fairness", "fairness_gap", 0.97, 1.0),
        ("cardinality", "mean_cardinality", 39.8, 40),
    ],
)
def test_no_axis_reaches_beyond_what_is_possible(name, column, near, most, seeds):
    fig, table = draw(name, study_of(np.full(ROUNDS, near), column, seeds))
    for axes in fig.axes:
        low, high = axes.get_ylim()
        assert 0 <= low < high <= most and axes.get_xlim()[0] >= 0
        assert low <= table["mean"].min() and table["mean"].max() <= high


@pytest.mark.parametrize("seeds", [2, 5])
def test_nor_do_the_axes_of_scatter_plots(seeds):
    truths = [Truth(accuracy=0.98, cardinality=39.9, guarantee=39), Truth(accuracy=0.03, guarantee=1, time_s=1)]
    study = simulated(truths, np.random.default_rng(0), seeds=seeds)
    fig, _ = draw("tradeoff", study)
    accuracy, cardinality, time_s = fig.axes
    assert 0 <= accuracy.get_xlim()[0] and accuracy.get_xlim()[1] <= 1
    assert cardinality.get_xlim()[1] <= 40 and time_s.get_xlim()[0] >= 0
    assert accuracy.get_ylim()[1] <= 1.1 * 40, "a little room on the logarithmic axis"


def test_an_axis_ends_only_where_it_would_go_too_far():
    with style.settings():
        _, ((axes,),) = style.figure()
    axes.set_ylim(-3, 7)
    bound(axes.yaxis, 0, 10)
    assert axes.get_ylim() == (0, 7)
    bound(axes.yaxis, None, 5)
    assert axes.get_ylim() == (0, 5)
    axes.set_ylim(-3, -1)
    bound(axes.yaxis)
    assert axes.get_ylim() == (-3, -1), "impossible values are seen"


# -- two swept numbers -------------------------------------------------------------------------------

AXES = ("selection.k", "devices.availability.dropout", "selection")


def swept(cells, rest=("",)):
    """A study with a group for each (k, dropout) of ``cells``, and for each choice of ``rest``."""
    pairs = [(cell, other) for other in rest for cell in cells]
    study = simulated([Truth() for _ in pairs], np.random.default_rng(4), seeds=3)
    axes = AXES if len(rest) > 1 else AXES[:2]
    groups = [
        replace(group, values=dict(zip(AXES, (*cell, other), strict=True)))
        for group, (cell, other) in zip(study.groups, pairs, strict=True)
    ]
    return replace(study, axes=axes, groups=tuple(groups))


FULL = [(k, dropout) for k in ("4", "16", "8") for dropout in ("0", "0.2")]


def texts(axes):
    return {text.get_position(): text.get_text() for text in axes.texts}


def test_a_heat_map_has_the_mean_of_every_cell_at_its_place():
    study = swept(FULL)
    fig, table = draw("heat_map", study)
    first = fig.axes[0]
    assert [label.get_text() for label in first.get_xticklabels()] == ["4", "8", "16"], "ascending as numbers"
    assert [label.get_text() for label in first.get_yticklabels()] == ["0", "0.2"]
    assert (first.get_xlabel(), first.get_ylabel()) == ("k", "dropout")
    for group in study.groups:
        mean = 100 * np.mean([run.summary["test_accuracy"] for run in group.runs])
        place = ["4", "8", "16"].index(group.values["selection.k"]), ["0", "0.2"].index(group.values[AXES[1]])
        assert texts(first)[place] == f"{mean:.1f}" and first.get_title(loc="left") == "Accuracy (%)"
        (row,) = table[(table[AXES[0]] == group.values[AXES[0]]) & (table[AXES[1]] == group.values[AXES[1]])
                       & (table.measure == "test_accuracy")].itertuples()  # fmt: skip
        assert (row.mean, row.seeds) == (pytest.approx(mean / 100), 3)
    shown = first.images[0].get_array()[..., 3]
    means = table[table.measure == "test_accuracy"]["mean"].to_numpy().reshape(2, 3)
    np.testing.assert_array_equal(np.argsort(shown, axis=None), np.argsort(means, axis=None))
    assert {axes.get_title(loc="left").split(" (")[0] for axes in fig.axes} == {
        "Accuracy", "Simulated time", "Cardinality", "Semi-strong guarantee",
    }  # fmt: skip


def test_colours_mean_the_same_for_every_choice_of_a_measure():
    study = swept(FULL, ("random", "partition"))
    fig, table = draw("heat_map", study)
    panels = [axes for axes in fig.axes if axes.get_title(loc="left").startswith("Accuracy")]
    assert len(panels) == 2
    shown = np.concatenate([axes.images[0].get_array()[..., 3].ravel() for axes in panels])
    means = table[table.measure == "test_accuracy"]["mean"].to_numpy()
    np.testing.assert_array_equal(np.argsort(shown), np.argsort(means))


def test_cells_without_a_run_say_why():
    from simfl.report.study import PlannedRun

    study = swept(FULL[:-1])  # (8, 0.2) is missing
    failed = PlannedRun("d", {AXES[0]: "32", AXES[1]: "0"}, 0, "failed", "boom")
    fig, table = draw("heat_map", replace(study, members=(failed,)))
    cells = texts(fig.axes[0])
    assert cells[1, 1] == "no run" and cells[3, 0] == "failed" and cells[3, 1] == "no run"
    assert fig.axes[0].images[0].get_array()[1, 1, 3] == 0
    missing = table[table.missing != ""]
    assert missing["mean"].isna().all() and (missing.seeds == 0).all() and len(missing) == 3 * len(fig.axes)


def test_each_other_choice_has_a_panel_of_its_own():
    fig, table = draw("heat_map", swept(FULL, ("random", "partition")))
    titles = [axes.get_title(loc="left").replace("\n", " ") for axes in fig.axes]
    assert titles[:2] == ["Accuracy (%): random", "Accuracy (%): partition"] and len(titles) == 8
    assert set(table.others) == {"random", "partition"}


def test_one_swept_number_has_no_heat_map():
    study = swept([("4", "0"), ("8", "0")])
    with pytest.raises(NothingToDraw, match="two numbers"):
        draw("heat_map", study)
