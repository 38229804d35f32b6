"""Privacy against accuracy, cardinality, time and what was recovered; the Pareto front; differences to the baseline."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.json_data import JsonObject
from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, bound, figure, percent
from simfl.report.figures.privacy import doubling
from simfl.report.measures import BAND_SEEDS, StudyMeasure, few_seeds, interval, measures, seed_column, with_values
from simfl.report.study import COLOURED, Group, Study, eligible, most_clients

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

AXES = ("test_accuracy", "mean_cardinality", "time_s")
MEASURED = ("measured_recovered", "measured_error")


@figure("tradeoff", "What privacy costs", "Privacy", wide=True)
def draw(study: Study) -> Drawn:
    """Each group's semi-strong guarantee for any number of rounds, or of the rounds played where theory knows none
    (worst case: updates that stay the same), against its final accuracy, its cardinality and its simulated time, a row
    of panels for each world: up is better, and so is more accuracy, more cardinality and less time. Whiskers are 95 %
    confidence intervals over the seeds; of fewer than five seeds, and of fewer than ten where a run has collapsed,
    small dots are the seeds themselves.
    """
    return _against_guarantee(study, AXES)


@figure("measured", "What is guaranteed, and what is recovered", "Privacy", wide=True)
def draw_measured(study: Study) -> Drawn:
    """Each group's semi-strong guarantee for any number of rounds, or of the rounds played where theory knows none
    (worst case: updates that stay the same), against what the best of a family of least-squares attacks has recovered
    from the same sums of updates as they really are: clients whose error is below a tenth, and the mean error, 1 being
    that of who guesses nothing. Whiskers as in the figure of what privacy costs.
    """
    return _against_guarantee(study, MEASURED)


GUARANTEE = {
    "guarantee_semi_strong": "Guarantee, any number of rounds (clients)",
    "privacy_semi_strong": "Guarantee, rounds played (clients)",
}
"""What is up in a figure, the first that all groups have: what was played shows policies in too good a light that let
clients be exposed later.
"""


def _against_guarantee(study: Study, names: tuple[str, ...]) -> Drawn:
    """A panel for each of the numbers that the groups have and, where groups meet several worlds, for each of these."""
    from pandas import DataFrame

    known = {measure.name: measure for measure in measures(study)}
    up = next((name for name in GUARANTEE if name in known and all(known[name].by_seed(g) for g in study.groups)),
              "privacy_semi_strong")  # fmt: skip
    rows = {group.label: _row(known, group, names, up) for group in study.groups}
    table = DataFrame(rows.values())
    worlds = few_worlds(study)
    if len(worlds) > 1:
        of = {group.label: name for name, groups in worlds.items() for group in groups}
        table.insert(1, "world", table["group"].map(of))
    panels = [name for name in names if table[name].notna().any() and (table[name].any() or names == MEASURED)]
    if study.single or not table[up].notna().any() or not panels:
        raise NothingToDraw("needs a comparison whose runs have privacy metrics")
    fig, places = grid(len(worlds), len(panels))
    for (world, groups), row_of_axes in zip(worlds.items(), places, strict=True):
        for axes, name in zip(row_of_axes, panels, strict=True):
            for group, shown in with_colours(study, groups):
                _point(axes, shown, rows[group.label], name, up, on_page=len(worlds) == 1)
        row_of_axes[0].set_ylabel(GUARANTEE[up].replace(", ", ",\n" if len(worlds) > 1 else ", "))
        style.title(row_of_axes[0], world)
    for axes, name in zip(places[-1], panels, strict=True):  # which share their limits with those above them
        _say_number(axes, study, known[name])
    for first, *_ in places:
        doubling(first, most_clients(study))
    style.legend(fig, places[0][0], on_page=len(worlds) > 1)
    return fig, table


def _say_number(axes: "Axes", study: Study, measure: StudyMeasure) -> None:
    """The axis of one of the numbers."""
    axes.set_xlabel(measure.label + (" (s)" if measure.name == "time_s" else ""))
    axes.locator_params(axis="x", nbins=6)
    if measure.name == "test_accuracy":
        percent(axes.xaxis)
    bound(axes.xaxis, most=most_clients(study) if measure.name == "mean_cardinality" else None)
    if measure.name in MEASURED:  # all clients, and the error of who guesses nothing
        axes.set_xlim(0, max(most_clients(study) if measure.name == MEASURED[0] else 1.0, axes.get_xlim()[1]))


def _row(known: dict[str, StudyMeasure], group: Group, names: tuple[str, ...], up: str) -> JsonObject:
    row: JsonObject = {"group": group.label}
    dots = any(known[name].shows_dots(group) for name in names if name in known)
    for name in (*names, up):
        values = known[name].over(group) if name in known else interval(())
        row |= {name: values.estimate, f"{name}_ci": values.half_width}
        if name in known and dots:
            row |= {f"{name}_{seed_column(seed)}": value for seed, value in known[name].by_seed(group).items()}
    return row


def _point(axes: "Axes", group: Group, row: JsonObject, name: str, y: str, on_page: bool) -> None:
    """``on_page``: whether the page's own names tell which group it is."""
    number = group.number
    color = style.look(number)["color"]
    whiskers = {"xerr": row[f"{name}_ci"], "yerr": row[f"{y}_ci"]}
    known = {key: value for key, value in whiskers.items() if np.isfinite(value) and not few_seeds(group)}
    seeds = [seed_column(run.seed) for run in group.runs]
    places = [[row.get(f"{axis}_{seed}", np.nan) for seed in seeds] for axis in (name, y)]
    axes.plot(*places, color=color, marker=".", linestyle="none", alpha=0.5,
              gid=f"thin-{style.tag(group)}" if on_page else None)  # fmt: skip
    bar = axes.errorbar(
        row[name], row[y], color=color, linestyle="none", marker=style.MARKERS[(number or 0) % len(style.MARKERS)],
        markersize=6.5, markeredgecolor=style.PAPER, markeredgewidth=0.6, elinewidth=0.8, label=group.label, **known,
    )  # fmt: skip
    bar.lines[0].set_clip_on(False)  # a marker on the border is seen whole
    for artist in bar.get_children() if on_page else ():
        artist.set_gid(style.tag(group))


SHOWN = {"test_accuracy": 1, "privacy_weak_lower": 1, "time_s": -1}
"""What is drawn, and whether more is better or less."""

PRIVACY = {"privacy_weak_lower"}

FEWEST = 3
"""Configurations of which a front says something."""


@figure("pareto", "Pareto front", "Privacy", wide=True)
def draw_pareto(study: Study) -> Drawn:
    """Each configuration's final accuracy, weak guarantee (worst case: updates that stay the same) and simulated time,
    means over its seeds, two at a time.
    Filled: the Pareto front, the configurations that no other of the same world equals or beats in all three.
    """
    from pandas import DataFrame

    known = {measure.name: measure for measure in measures(study)}
    groups = [group for group in study.groups if eligible(group)]
    rows = [{"group": group.label, **{name: known[name].over(group).estimate for name in SHOWN if name in known}}
            for group in groups]  # fmt: skip
    table = DataFrame(rows)
    names = [name for name in SHOWN if name in table and table[name].notna().all() and table[name].nunique() > 1]
    if len(groups) < FEWEST or len(names) < 2:
        raise NothingToDraw(f"needs {FEWEST} configurations that differ in two of accuracy, weak guarantee and time")
    worlds = few_worlds(study)
    of = {group.label: name for name, its in worlds.items() for group in its}
    met = table["group"].map(of)
    values = np.array([SHOWN[name] * table[name] for name in names]).T
    table["front"] = False
    for world in worlds:
        table.loc[met == world, "front"] = front(values[(met == world).to_numpy()])
    pairs = [*combinations(names, 2)]
    fig, places = grid(len(worlds), len(pairs), sharey=False)
    for world, row_of_axes in zip(worlds, places, strict=True):
        for axes, pair in zip(row_of_axes, pairs, strict=True):
            _panel(axes, table[met == world], known, *pair)
        style.title(row_of_axes[0], world)
    for row_of_axes in places:  # rows share their limits, which are set when all points stand
        for axes, (y, x) in zip(row_of_axes, pairs, strict=True):
            _say_pair(axes, known, most_clients(study), y, x, last=row_of_axes is places[-1])
    style.legend(fig, places[0][0], on_page=True)
    if len(worlds) > 1:
        table.insert(1, "world", met)
    return fig, table


def front(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which rows of (n, m), more being better, no other row equals or beats in all and beats in one.

    >>> front(np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 1.0]]))
    array([ True,  True, False])
    """
    beaten = [np.any((values >= one).all(axis=1) & (values > one).any(axis=1)) for one in values]
    return ~np.array(beaten, dtype=bool)


def _panel(axes: "Axes", table: "DataFrame", known: dict[str, StudyMeasure], y: str, x: str) -> None:
    for on_front, face in ((False, "none"), (True, style.SERIES[0])):
        part = table[table["front"] == on_front]
        label = "Pareto front" if on_front else "others"
        points = axes.scatter(part[x], part[y], s=32, facecolors=face, edgecolors=style.SERIES[0], label=label)
        points.set_clip_on(False)
    axes.set_ylabel(known[y].label + (" (clients)" if y in PRIVACY else ""))


def _say_pair(axes: "Axes", known: dict[str, StudyMeasure], clients: int, y: str, x: str, last: bool) -> None:
    """The two axes of a panel, x below the last one of its column."""
    if last:
        axes.set_xlabel(known[x].label + (" (s)" if x == "time_s" else " (clients)" if x in PRIVACY else ""))
    for name, axis in ((x, axes.xaxis), (y, axes.yaxis)):
        if name == "test_accuracy":
            percent(axis)
    if y in PRIVACY:
        doubling(axes, clients)


# -- Panels world by world: who compares points of a figure does so within a panel, with one colour a choice in all

MOST_WORLDS = 12


def few_worlds(study: Study) -> dict[str, tuple[Group, ...]]:
    """The groups by world.

    Raises:
        NothingToDraw: there are more worlds than have room.
    """
    if len(study.by_world) > MOST_WORLDS:
        raise NothingToDraw(f"has room for {MOST_WORLDS} worlds, not {len(study.by_world)}; draw a part by --where")
    return study.by_world


def with_colours(study: Study, groups: tuple[Group, ...]) -> Iterator[tuple[Group, Group]]:
    """The groups of a world, each also as it is drawn: with the name and the colour of its choice."""
    choices = list(dict.fromkeys(map(study.choice_of, study.groups)))
    for group in groups:
        choice = study.choice_of(group)
        number = group.number if len(study.by_world) == 1 else choices.index(choice)
        yield group, replace(group, label=choice, number=number if number is None or number < COLOURED else None)


def grid(worlds: int, panels: int, sharey: bool = True) -> Any:
    """A figure with a row of panels for each world, whose columns share x; all share y if ``sharey``, else columns."""
    several = worlds > 1
    return style.figure(
        worlds, panels, wide=True, height_in=2.2 * worlds if several else 3.1,
        sharey=sharey or ("col" if several else False), sharex="col" if several else False,
    )  # fmt: skip


DIFFERENCES = ("test_accuracy", "time_to_target_s", "clients_in_sum", "fairness_excess")
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
    known = [m for m in with_values(study) if m.name in DIFFERENCES]
    rows = [_difference_row(measure, group, baseline) for measure in known for group in others]
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
                _difference_point(
                    axes, group, place, row.difference / scale.divisor, None if single else row.half / scale.divisor
                )
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


def _difference_point(axes: "Axes", group: Group, place: int, difference: float, half: float | None) -> None:
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


def _difference_row(measure: StudyMeasure, group: Group, baseline: Group) -> JsonObject:
    difference, _ = measure.against(group, baseline)
    names = measure.name, group.label, baseline.label
    row = dict(zip(COLUMNS, (*names, difference.estimate, difference.half_width, difference.count), strict=True))
    if difference.count < BAND_SEEDS or difference.lower is None:
        row |= {seed_column(seed): value for seed, value in _by_seed(measure, group, baseline).items()}
    return row
