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
from numpy.typing import NDArray


class Address(NamedTuple):
    """Where the draws of some jobs lie: positions ``index`` of a vector of ``size`` at ``selection_id``.

    A synchronous round t addresses its clients as ``Address(t, clients, N)``; asynchronous jobs are
    addressed by number, ``Address(job // BLOCK, [job % BLOCK], BLOCK)``.
    """

    selection_id: int
    index: NDArray[np.integer]  # type: ignore[assignment]  # hides tuple's own, which nobody calls
    size: int


def generator(secret: bytes) -> np.random.Generator:
    """The stream that some bytes stand for, at its start: an address, or a seed that somebody has drawn."""
    words = np.frombuffer(blake2b(secret, digest_size=16).digest(), dtype="<u8")
    return np.random.Generator(np.random.Philox(key=words))


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
