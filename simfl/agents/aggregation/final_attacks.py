"""What the observers make of all that they saw, after the last aggregation."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.attacks.base import Finding, Observer
from simfl.core.json_data import JsonObject
from simfl.core.rng import Streams
from simfl.core.types import Arrays
from simfl.learning.base import Learner


def finalise_attacks(
    observers: Sequence[Observer], states: Sequence[Arrays], learner: Learner, streams: Streams
) -> list[Finding]:
    """Each observer's finding; the attacker is handed the scorer's question, and the scorer the attacker's answer."""
    context = learner.attack_context() if observers else None
    if context is None:
        return [Finding({}) for _ in observers]
    knowledge, truth = context
    results = []
    for observer, state in zip(observers, states, strict=True):
        answer = observer.answer(observer.challenge(truth, streams), state, knowledge, streams)
        results.append(Finding({}) if answer is None else observer.score(answer, truth, knowledge, streams))
    return results


def document(results: Sequence[Finding], names: Sequence[str]) -> list[JsonObject]:
    """The findings as plain data: pictures in bytes, curves in rates; null where a number is not finite."""
    return [
        {
            "attack": name,
            "numbers": {key: _finite(value) for key, value in result.numbers.items()},
            "pictures": [
                {"title": p.title, "true": _bytes(p.true), "found": _bytes(p.recovered), "guess": _bytes(p.guess)}
                for p in result.pictures
            ],
            "curves": [
                {"title": c.title, "false": c.false.round(9).tolist(), "true": c.true.round(9).tolist()}
                for c in result.curves
            ],
        }
        for name, result in zip(names, results, strict=True)
    ]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _bytes(picture: NDArray[np.float32]) -> list[Any]:
    inner: list[Any] = np.rint(255 * np.clip(picture, 0, 1)).astype(int).tolist()
    return inner
