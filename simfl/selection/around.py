"""What a policy around another one has of it: its size, what it reads and asks for, and its state."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import Arrays, View
from simfl.selection.asking import ask_candidates, observe
from simfl.selection.base import Scalars


class Around:
    """A policy whose field ``inner`` is another one.

    Attributes:
        inner: the policy that is asked.
    """

    inner: Any

    @property
    def k(self) -> int:
        return int(self.inner.k)

    @property
    def fixed_size(self) -> bool:
        return bool(self.inner.fixed_size)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(self.inner.reads)

    @property
    def asks(self) -> Literal["", "loss", "batch_loss"]:
        asks: Literal["", "loss", "batch_loss"] = self.inner.asks
        return asks

    @property
    def asked_batch(self) -> int:
        return int(self.inner.asked_batch)

    @property
    def scalars(self) -> Scalars:
        scalars: Scalars = self.inner.scalars
        return scalars

    def candidates(self, view: View, k: int, rng: np.random.Generator) -> NDArray[np.int32]:
        return ask_candidates(self.inner, view, k, rng)

    def start(self, clients: int) -> Arrays:
        state: Arrays = self.inner.start(clients)
        return state

    def observe(self, view: View, summed: NDArray[np.int32]) -> Arrays:
        return observe(self.inner, view, summed)
