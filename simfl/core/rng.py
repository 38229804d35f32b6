"""Named, counter-based random streams: every draw of a run has its own address.

A stream is addressed by (seed, purpose, key...), never by the order in which code runs, so that

* a new purpose shifts no existing stream,
* every policy in a comparison meets the same availability, latency and data draws,
* a resumed run needs no generator state.

Vector draws have the prefix property (``random(n)`` is a prefix of ``random(n + 1)``), hence one
stream per (purpose, round) with one value a client leaves clients 0..n-1 untouched when client n joins.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

WORDS = 32_768
"""Random words that are looked at together: they stay in the cache."""


class Address(NamedTuple):
    """Where the draws of some jobs lie: positions ``index`` of a vector of ``size`` at ``selection_id``.

    A synchronous round t addresses its clients as ``Address(t, clients, N)``; asynchronous jobs are
    addressed by number, ``Address(job // BLOCK, [job % BLOCK], BLOCK)``.
    """

    selection_id: int
    index: NDArray[np.integer]  # type: ignore[assignment]  # hides tuple's own, which nobody calls
    size: int


class _Key(ISeedSequence):
    """The key of a Philox in place of a seed: given ``key=``, numpy asks the system for random bits, too, in vain."""

    def __init__(self, secret: bytes) -> None:
        self.words = np.frombuffer(blake2b(secret, digest_size=16).digest(), dtype="<u8")

    def generate_state(self, n_words: int, dtype: object = np.uint32) -> NDArray[np.uint64]:
        return self.words


def generator(secret: bytes) -> np.random.Generator:
    """The stream that some bytes stand for, at its start: an address, or a seed that somebody has drawn."""
    return np.random.Generator(np.random.Philox(_Key(secret)))  # type: ignore[arg-type]  # any ISeedSequence is one


@dataclass(frozen=True)
class DrawBounds:
    """DrawBounds of uniform draws, as whole numbers.

    Numpy makes the uniform draw of a random word w of 64 bits as (w >> 11) / 2**53. The words are compared without it,
    a block after the other, which takes less time and memory.

    Attributes:
        words: of 53 bits, uint64 (n,), or (1,) where all are equal.
        size: n.
    """

    words: NDArray[np.uint64]
    size: int

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> "DrawBounds":
        """Of values in [0, 1], (n,)."""
        words = np.ceil(values * 2.0**53).astype(np.uint64)
        return cls(words[:1] if (words == words[:1]).all() else words, len(words))

    def compare(self, rng: np.random.Generator) -> NDArray[np.bool_]:
        """``rng.random(n) >= values``, bool (n,), for a :func:`generator` at its start."""
        reaches = np.empty(self.size, dtype=bool)
        for start in range(0, self.size, WORDS):
            part = slice(start, min(start + WORDS, self.size))
            words = rng.bit_generator.random_raw(part.stop - start)
            words >>= 11
            np.greater_equal(words, self.words if len(self.words) == 1 else self.words[part], out=reaches[part])
        return reaches


@dataclass(frozen=True)
class Streams:
    """All random streams of one run.

    Args:
        seed: the scenario's seed, any integer >= 0.
        within: a prefix of every purpose, which tells apart components that draw for the same purposes.
    """

    seed: int
    within: str = ""

    def __call__(self, purpose: str, *key: int) -> np.random.Generator:
        """A fresh generator at the start of the stream (seed, purpose, *key).

        Args:
            purpose: what the draws are for, e.g. ``"availability"``.
            key: integers that address the stream within its purpose, e.g. the round.
        """
        address = "/".join([str(self.seed), self.within + purpose, *(str(int(part)) for part in key)])
        return generator(address.encode())

    def at(
        self, purpose: str, where: Address, sample: Callable[[np.random.Generator, int], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """One draw for each addressed job, shape (len(where.index),): ``sample(rng, size)[index]``."""
        return sample(self(purpose, where.selection_id), where.size)[where.index]
