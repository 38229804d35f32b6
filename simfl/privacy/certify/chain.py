"""The chain of a scenario's stages: at which bound each of them adds its noise.

The clients' parts work in the order of the scenario, among them the compression; the server adds its noise to the sum.
A stage's noise is accounted by itself, as if there were no other: whatever else happens to what has been noised already
only processes it, and what happens before is followed by maps. So each noise has an epsilon that holds for
the whole run, and the smallest of them is the run's.
"""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from simfl.core.coverage import compression_place
from simfl.core.scenario_view import ScenarioView, agents_send_own
from simfl.privacy.certify.maps import Bound, Clip, ClipCoordinates, Facts, Map, Scale
from simfl.privacy.stage import Stage


class Beside(NamedTuple):
    """What else is made of updates, before and between the stages.

    Attributes:
        coded: updates are compressed.
        coded_each: each of them by itself.
        changes: what is summed of a client is its own change, which no other client's data have moved.
    """

    coded: bool = False
    coded_each: bool = True
    changes: bool = True

    @classmethod
    def of(cls, setting: ScenarioView) -> "Beside":
        """That of a scenario."""
        compression = setting.compression
        each = setting.learning.per_client and agents_send_own(setting)
        changes = setting.training.keeps_changes and each
        return cls(compression.codes, compression.per_client, changes)


def is_known(stage: Stage) -> bool:
    """Whether it gives maps of all that its client's part does."""
    return all(type(link) is not Map for link in stage.links)


def noise_where(stage: Stage) -> str:
    """Where it adds noise: ``client``, ``share`` or ``server``; empty = nowhere."""
    return "" if stage.adds_noise is None else stage.adds_noise.where


def bound_at(stages: Sequence[Stage], i: int, facts: Sequence[Facts], beside: Beside) -> Bound:
    """How long what stage ``i`` adds its noise to can be, of each client; infinite where nobody knows.

    Args:
        stages: of the scenario.
        i: which adds noise.
        facts: of each stage; empty ones before the first round.
        beside: what else is made of updates.
    """
    noise = stages[i].adds_noise
    assert noise is not None
    if noise.where == "share" and i + 1 < len(stages):
        return Bound()  # what comes after leaves each client another part of its share
    bound, place, alone = Bound(), compression_place(stages), beside.changes
    for k, stage in enumerate(stages if noise.where == "server" else stages[: i + 1]):
        if beside.coded and k == place:
            bound, alone = Bound(), alone and beside.coded_each
        for link in stage.links:
            alone = alone and link.per_client
            after = link.bound(bound, facts[k])
            # of what stands beside an update, and has noise of its own, a clip of both narrows nothing for sure
            beside_it = k > i and stages[i].changes_coordinates
            bound = Bound(*map(np.maximum, bound, after)) if beside_it else after
        if k != i and stage.adds_noise is not None and stage.adds_noise.where != "server":
            bound = Bound()
    if noise.where == "server":
        for k in range(len(stages) - 1, i - 1, -1):  # its own part before the noise, too
            for link in stages[k].server_links:
                bound = _of_sums(link, bound, stages[i], facts[i])
    return bound if alone else Bound()


def _of_sums(link: Map, bound: Bound, stage: Stage, facts: Facts) -> Bound:
    """How far apart two sums are after a map, before a stage's noise; a clip moves all that stands in one vector."""
    if type(link) is Scale:  # the stage adds the rounding unscaled
        after = link.bound(bound, facts)
        return after._replace(l2=after.l2 + max(abs(link.factor) - 1, 0) * facts.get("rounding", np.float64(0)))
    if type(link) is ClipCoordinates:
        return bound
    return Bound(bound.l2) if type(link) is Clip and link.order == 2 and not stage.changes_coordinates else Bound()


def candidates(stages: Sequence[Stage], facts: Sequence[Facts], beside: Beside) -> list[tuple[int, Bound]]:
    """The stages whose noise protects, each with the bound at which it does."""
    noisy = [i for i, stage in enumerate(stages) if stage.adds_noise is not None]
    bounds = [(i, bound_at(stages, i, facts, beside)) for i in noisy]
    return [(i, bound) for i, bound in bounds if any(np.any(np.asarray(norm) < inf) for norm in bound)]  # in any round
