"""The chain of a scenario's stages: at which bound each of them adds its noise.

The clients' parts work in the order of the scenario, among them the compression; the server adds its noise to the sum.
A stage's noise is accounted by itself, as if there were no other: whatever else happens to what has been noised already
only processes it, and whatever happens before only narrows what is noised. So each noise has an epsilon that holds for
the whole run, and the smallest of them is the run's.
"""

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from simfl.core.coverage import compression_place
from simfl.privacy.certify.maps import Bound, Facts, Map

if TYPE_CHECKING:
    from simfl.privacy.stage import Stage


def is_known(stage: "Stage") -> bool:
    """Whether it gives maps of all that its client's part does."""
    return all(type(link) is not Map for link in stage.links)


def changes_sum(stage: "Stage") -> bool:
    """Whether it has a server's part, which works before the noise that earlier stages add to the sum."""
    from simfl.privacy.stage import Stage

    return type(stage).server is not Stage.server


def noise_where(stage: "Stage") -> str:
    """Where it adds noise: ``client``, ``share`` or ``server``; empty = nowhere."""
    return "" if stage.adds_noise is None else stage.adds_noise.where


def bound_at(stages: Sequence["Stage"], i: int, facts: Sequence[Facts], coded: bool) -> Bound:
    """How long what stage ``i`` adds its noise to can be, of each client; infinite where nobody knows.

    Args:
        stages: of the scenario.
        i: which adds noise.
        facts: of each stage; empty ones before the first round.
        coded: updates are compressed.
    """
    noise = stages[i].adds_noise
    assert noise is not None
    place, bound, after = compression_place(stages), Bound(), stages[i + 1 :]
    known = all(is_known(stage) and not changes_sum(stage) for stage in after)
    if after and (noise.where == "share" or (noise.where == "server" and not known)):
        return Bound()  # a share would be another part of each client's noise; a sum could become anything
    for k, stage in enumerate(stages if noise.where == "server" else stages[: i + 1]):
        if coded and k == place:
            bound = Bound()
        before = bound
        for link in stage.links:
            bound = link.bound(bound, facts[k])
        if k > i and stages[i].changes_coordinates:  # noise of several sizes: one norm does not say where it falls
            bound = Bound(*map(np.maximum, before, bound))
        if k != i and stage.adds_noise is not None and stage.adds_noise.where != "server":
            bound = Bound()
    return bound


def candidates(stages: Sequence["Stage"], facts: Sequence[Facts], coded: bool) -> list[tuple[int, Bound]]:
    """The stages whose noise protects, each with the bound at which it does."""
    noisy = [i for i, stage in enumerate(stages) if stage.adds_noise is not None]
    bounds = [(i, bound_at(stages, i, facts, coded)) for i in noisy]
    return [(i, bound) for i, bound in bounds if _finite(bound)]


def _finite(bound: Bound) -> bool:
    """Whether a norm is known in any round."""
    return any(bool(np.any(np.asarray(norm) < inf)) for norm in bound)
