"""World and choice: what a federation meets, and what its server decides. Who compares does so within a world."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from statistics import fmean

from simfl.core.errors import SimflError, suggestion
from simfl.core.json_data import JsonObject
from simfl.experiments.compare.differences import Far, Measured, Values, difference_rows, of_metric
from simfl.experiments.sweep.grid import WORLD, Axis

CHOICES = {"selection", "training", "compression", "secagg", "privacy"}
"""Top-level keys of a scenario that its server decides; all others are its world."""

POOLED = (
    "choice", "baseline", "metric", "worlds", "pairs", "difference", "lower", "upper", "p_value", "interaction_p_value",
)  # fmt: skip
"""Columns of pooled.csv."""


def is_choice(key: str) -> bool:
    """Whether a dotted key is decided by the server."""
    return key.partition(".")[0] in CHOICES


def world_keys(axes: Sequence[Axis], world: Collection[str] = (), choice: Collection[str] = ()) -> list[str]:
    """The keys among those that vary which are the world, in their order.

    Keys that move together, and the overrides of named cases, are the world only if all of them are. Where nothing that
    varies is a choice, the worlds themselves are compared, and none of them is.

    Args:
        axes: what varies, without the seed.
        world, choice: keys that are so whatever they are called.

    Raises:
        SimflError: one of these does not vary.
    """
    keys = [axis.key for axis in axes]
    decided = chosen_keys(axes, world, choice)
    return [key for key in keys if key not in decided] if decided else []


def chosen_keys(axes: Sequence[Axis], world: Collection[str] = (), choice: Collection[str] = ()) -> list[str]:
    """The keys that vary and are not the world; arguments as for :func:`world_keys`."""
    keys = [axis.key for axis in axes]
    others = f"; there are {', '.join(keys)}"
    for key in (*world, *choice):
        if key not in keys:
            raise SimflError(f"{key}: does not vary{suggestion(key, keys) or others}")
        if key in world and key in choice:
            raise SimflError(f"{key}: is either the world or a choice")
    decided = {axis.key for axis in axes if axis.key in choice or (axis.key not in world and any(_choices(axis)))}
    groups = {axis.group for axis in axes if axis.group and axis.key in decided}
    return [axis.key for axis in axes if axis.key in decided or axis.group in groups]


def _choices(axis: Axis) -> Iterable[bool]:
    if not axis.overrides:
        return [is_choice(axis.key)]
    return [is_choice(text.partition("=")[0]) for texts in axis.overrides for text in texts]


def world_name(values: Mapping[str, str]) -> str:
    """A world in words: of what varies in it, the values; a named world by its name alone."""
    return ", ".join(value if key == WORLD else f"{key}={value}" for key, value in values.items())


def pooled_rows(
    results: Mapping[tuple[str, str], Measured], baseline: str, compared: Collection[tuple[str, str]], far: Far
) -> list[JsonObject]:
    """Rows of :data:`POOLED`: what each choice changes, as the mean over worlds, and whether that depends on the world.

    The mean of a seed's differences over all worlds is one value, so that seeds are the pairs. The interaction is
    tested for each two worlds, by the differences of the same seeds, and the smallest p value counted for all
    (Bonferroni).

    Args:
        results: numbers of every run, by world and choice.
        baseline: the choice that others are subtracted from.
        compared: choices and metrics of which there are differences in every world.
        far: metrics in which runs have collapsed.
    """
    worlds = list(dict.fromkeys(world for world, _ in results))
    changes: dict[str, dict[str, list[Values]]] = {}
    for choice, metric in compared:
        values = [(of_metric(results[world, choice], metric), of_metric(results[world, baseline], metric))
                  for world in worlds]  # fmt: skip
        if seeds := sorted(set.intersection(*(set(each) for pair in values for each in pair))):
            changes.setdefault(metric, {})[choice] = [
                {seed: ours[seed] - theirs[seed] for seed in seeds} for ours, theirs in values
            ]
    rows: dict[tuple[str, str], JsonObject] = {}
    for metric, by_choice in changes.items():
        effects = {choice: {seed: fmean(each[seed] for each in by_world) for seed in by_world[0]}
                   for choice, by_world in by_choice.items()}  # fmt: skip
        none = dict.fromkeys((seed for its in effects.values() for seed in its), 0.0)
        for choice, row in difference_rows(effects, none, metric in far):
            pairs = [row for first, second in combinations(by_choice[choice], 2)
                     for _, row in difference_rows({choice: first}, second, metric in far)]  # fmt: skip
            interaction = min(1.0, len(pairs) * min(pair["p_value"] for pair in pairs))
            rows[choice, metric] = {"choice": choice, "baseline": baseline, "metric": metric, "worlds": len(worlds),
                                    **{name: row[name] for name in POOLED if name in row},
                                    "interaction_p_value": interaction}  # fmt: skip
    return [rows[each] for each in compared if each in rows]
