"""Updates scaled down to a norm, whole; and what noise asks of the rest of a scenario."""

import numpy as np
from numpy.typing import NDArray

from simfl.core.scenario_view import ScenarioView, summands

BELOW = 1 - 2.0**-20
"""So much below a norm is aimed at that rounding to float32 does not lead above it."""

Problem = tuple[str, str]


def norms(vectors: NDArray[np.float32], order: int = 2) -> NDArray[np.float64]:
    """The L1 or L2 norm of each row, float64 (n,); infinite where a number is not finite."""
    wide = np.abs(vectors, dtype=np.float64) if order == 1 else None
    lengths = np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64) if wide is None else wide.sum(axis=1)
    lengths = np.where(np.isfinite(lengths), lengths, np.inf)
    return lengths if order == 1 else np.sqrt(lengths)


def clip_norms(vectors: NDArray[np.float32], most: NDArray[np.float64] | float, order: int = 2) -> NDArray[np.float32]:
    """The rows of (n, d), those above the largest norm, a number or (n,), scaled down to it, those with a number that
    is not finite replaced by 0; of the norm L1 or L2.
    """
    lengths = norms(vectors, order)
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = np.where(lengths > most, BELOW * most / lengths, 1.0)
    if (factor == 1.0).all():
        return vectors
    sound = np.where(np.isfinite(lengths)[:, None], vectors, 0)
    return (sound * factor[:, None]).astype(np.float32)


def fits(setting: ScenarioView) -> list[Problem]:
    """What no noise can do without."""
    rule = setting.training
    if rule.many_aggregators:
        return [("", "needs one server that aggregates; use training: fedavg or fedbuff")]
    return []


def changed_by_others(setting: ScenarioView, name: str, repeats: bool) -> list[Problem]:
    """Which stages before a stage change the models that clients train, for which it has bounds: those that may move
    two updates apart; all of them where it ``repeats`` the same sum. (What comes after noise is every stage's matter.)
    """
    names, problems = [stage.name for stage in setting.privacy.stages], list[Problem]()
    why = "has epsilons of what clients train" + " and, with rounds, send again" * repeats
    for stage in setting.privacy.stages[: names.index(name)]:
        if repeats or stage.moves_apart:
            problems.append(("", f"{why}, but privacy.stages: {stage.name} changes that; leave one of them out"))
    return problems


def of_sums(setting: ScenarioView, max_weight: float | None = 1.0) -> list[Problem]:
    """What noise on a sum needs: that no weight is larger than it is made for."""
    if not (setting.training.by_samples and max_weight is None):
        return []
    why = "is null, but clients weigh as much as they hold samples; give the most samples, or use weighting: equal"
    return [("max_weight", why)]


def weights_differ(setting: ScenarioView) -> bool:
    """Whether updates may count differently, as their clients hold samples or as they are old.

    What the rule says of itself decides, and what it does with a few updates: no trial of some ages speaks for others.
    """
    rule = setting.training
    tried = rule.weights(np.array([1, 2, 2]), np.array([0, 0, 3])).tolist()
    return rule.by_samples or (rule.asynchronous and rule.weighs_staleness) or len(set(tried)) > 1


def same_weights(setting: ScenarioView) -> list[Problem]:
    """What noise needs of which every client adds a part: updates that all count once."""
    problems = of_sums(setting)
    if weights_differ(setting):
        why = "adds noise in equal parts, but updates count differently; use weighting: equal and staleness: constant"
        problems.append(("", f"{why}, or a central mechanism"))
    return problems


def participants(setting: ScenarioView) -> int:
    """Clients in a whole aggregate."""
    return summands(setting) or setting.clients
