"""What the observers make of all that they saw, after the last aggregation."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.attacks.base import Finding, Observer
from simfl.learning.base import Learner
from simfl.rng import Streams
from simfl.types import Arrays

__all__ = ["concluded", "document"]


def concluded(
    observers: Sequence[Observer], states: Sequence[Arrays], learner: Learner, streams: Streams
) -> list[Finding]:
    """Each observer's finding; the attacker is handed the scorer's question, and the scorer the attacker's answer."""
    lab = learner.lab() if observers else None
    if lab is None:
        return [Finding({}) for _ in observers]
    bench, vault = lab
    found = []
    for observer, state in zip(observers, states, strict=True):
        answer = observer.exploit(observer.question(vault, streams), state, bench, streams)
        found.append(Finding({}) if answer is None else observer.judge(answer, vault, bench, streams))
    return found


def document(findings: Sequence[Finding], names: Sequence[str]) -> list[dict[str, Any]]:
    """The findings as plain data: pictures in bytes, curves in rates; null where a number is not finite."""
    return [
        {
            "attack": name,
            "numbers": {key: _finite(value) for key, value in found.numbers.items()},
            "pictures": [
                {"title": p.title, **{key: _bytes(getattr(p, key)) for key in ("true", "found", "guess")}}
                for p in found.pictures
            ],
            "curves": [
                {"title": c.title, "false": c.false.round(9).tolist(), "true": c.true.round(9).tolist()}
                for c in found.curves
            ],
        }
        for name, found in zip(names, findings, strict=True)
    ]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _bytes(picture: NDArray[np.float32]) -> list[Any]:
    inner: list[Any] = np.rint(255 * np.clip(picture, 0, 1)).astype(int).tolist()
    return inner
