"""What is left of the guarantees when clients share what they know with the server.

A client knows its own update, so that it can be taken off every sum: the client's column leaves the participation
matrix. Against named colluders the metrics are those of the matrix without their columns. Against any c of them:

* strong: max(1, strong - c), met by c members of a smallest class,
* weak: max(1, weak - c), met by c clients of a lightest combination,
* semi-strong: at least max(1, semi-strong - c); the bound need not be met.

The proofs are in docs/explanation/colluders.md.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from simfl.privacy.multiround.matrix_metrics import MultiRound
    from simfl.privacy.multiround.participation_matrix import ParticipationMatrix


class ColludedGuarantees(NamedTuple):
    """What is left against the server and any c clients, None where it is not known.

    Attributes:
        colluders: c.
        semi_strong: a lower bound.
    """

    colluders: int
    strong: int | None
    semi_strong: float | None
    weak_lower: int | None
    weak_upper: int | None


def reduce_by(metric: NDArray[np.float64], colluders: int) -> NDArray[np.float64]:
    """A metric, or its bound, against the server and any of so many clients; NaN stays NaN."""
    return np.maximum(metric - colluders, 1.0)


def against_any(metrics: "MultiRound", colluders: int) -> ColludedGuarantees:
    """The guarantees against the server and any of so many clients."""
    semi = metrics.semi_strong_bound if metrics.semi_strong is None else metrics.semi_strong
    return ColludedGuarantees(
        colluders,
        None if metrics.strong is None else max(1, metrics.strong - colluders),
        None if semi is None else max(1.0, semi - colluders),
        None if metrics.weak_lower is None else max(1, metrics.weak_lower - colluders),
        None if metrics.weak_upper is None else max(1, metrics.weak_upper - colluders),
    )


def without_clients(matrix: "ParticipationMatrix", colluding: NDArray[np.integer]) -> "ParticipationMatrix":
    """The sums after the colluders' own updates have been taken off: the columns of the others, in their order.

    Weights mean what they were read as beside all columns.
    """
    stays = np.ones(matrix.shape[1], dtype=bool)
    stays[colluding] = False
    of_others = stays[matrix.clients]
    place = np.cumsum(stays) - 1
    return replace(
        matrix,
        indptr=np.append(0, np.cumsum(of_others))[matrix.indptr],
        clients=place[matrix.clients[of_others]],
        codes=matrix.codes[of_others],
        shape=(matrix.shape[0], int(stays.sum())),
    )
