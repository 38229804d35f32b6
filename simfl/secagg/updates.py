"""The updates that a protocol sums."""

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import Job


class ClientUpdates(NamedTuple):
    """Updates that are to be summed, by ascending client.

    Attributes:
        jobs: the jobs they come from, n.
        vectors: float32 (n, d), as they leave the clients; whole numbers, int64, where they are to be added up in
            the field as they are.
        mask: bool (n, d): the coordinates each speaks about; None = all.
        weights: float64 (n,): what each counts, not normalised.
        row: (n,): the row of the participation matrix.
        divisor: the normaliser of these weights, or of those that a protocol makes of them.
        combine: the rule's aggregate: (vectors, weights, normaliser, mask) -> float32 (d,); linear unless the
            protocol shows single updates.
        secrets: of each update, those its client shares besides the protocol's own, of 32 bytes each.
        moved: by how much one training sample moves their weighted sum at most, in L2; infinite = not known, or the
            protocol has no certificate.
    """

    jobs: tuple[Job, ...]
    vectors: NDArray[np.float32]
    mask: NDArray[np.bool_] | None
    weights: NDArray[np.float64]
    row: NDArray[Any]
    divisor: Callable[[NDArray[np.float64]], float]
    combine: Callable[..., NDArray[np.float32]]
    secrets: tuple[tuple[bytes, ...], ...] = ()
    moved: float = inf

    def opened_secrets(self, count: int) -> tuple[tuple[bytes, ...], ...]:
        """The last ``count`` secrets of each update."""
        return tuple(each[len(each) - count :] for each in self.secrets) if count else ()

    @property
    def clients(self) -> NDArray[np.int32]:
        """Whose updates they are, int32 (n,)."""
        return np.fromiter((job.client for job in self.jobs), dtype=np.int32, count=len(self.jobs))
