"""Section 4.1 of arXiv 2110.02177: pairwise masks of different rounds do not cancel.

    python results/theorems/masks.py

Ten clients mask vectors of 10,000 integers with the masks that every pair makes for one round
(``secagg: pairwise_ratchet``), and the server adds them up in the field. Some of the clients are stale: their mask is
that of an earlier round, as in a buffer of asynchronous training. Writes masks.csv beside this file, a row for each
number of stale clients and of rounds that they are late: the coordinates of the sum that are wrong, the root of their
mean square error after decoding, in units of the sum's own size, and the p-value of a chi-square test that the sum is
uniform over the field, in 64 bins.
"""

from pathlib import Path

import numpy as np
import pandas
from numpy.typing import NDArray
from scipy.stats import chisquare

from simfl.core.rng import Streams
from simfl.papers.privacyfl.pairwise_ratchet import RatchetClient
from simfl.secagg.crypto.field import Q, to_signed
from simfl.secagg.crypto.keys import secret

HERE = Path(__file__).resolve().parent
CLIENTS, LENGTH, BINS, ROUND = 10, 10_000, 64, 12
LARGEST = 1 << 16
"""Coordinates of a client's vector lie within this."""


def field_sum(lateness: list[int], vectors: NDArray[np.int64], streams: Streams) -> NDArray[np.int64]:
    """The sum modulo Q of all clients' masked vectors, (clients, length), each with its mask of so many rounds ago."""
    clients = [RatchetClient(u, secret(streams, "theorems/masks", u), 2) for u in range(len(vectors))]
    for client in clients:
        client.meet({other.me: other.public for other in clients if other is not client})
    total = np.zeros(vectors.shape[1], dtype=np.int64)
    for client, late, vector in zip(clients, lateness, vectors, strict=True):
        total += np.asarray(client.mask(ROUND - late, vector), dtype=np.int64)
    return total % Q


def row(stale: int, late: int, vectors: NDArray[np.int64], streams: Streams) -> dict[str, float]:
    """What the server gets where the first ``stale`` clients are ``late`` rounds late."""
    total = field_sum([late] * stale + [0] * (len(vectors) - stale), vectors, streams)
    true = vectors.sum(axis=0)
    wrong = to_signed(total) - true
    counts = np.bincount(total * BINS // Q, minlength=BINS)
    error = np.sqrt(np.mean(wrong.astype(float) ** 2) / np.mean(true.astype(float) ** 2))
    return {"stale": stale, "late": late, "wrong": np.mean(wrong != 0), "relative_error": error,
            "uniform_p": chisquare(counts).pvalue}  # fmt: skip


def main() -> None:
    streams = Streams(0)
    vectors = streams("theorems/vectors").integers(-LARGEST, LARGEST + 1, (CLIENTS, LENGTH))
    lates = [(0, 0), *((stale, late) for late in (1, 10) for stale in (1, 5, 9)), (CLIENTS, 1)]
    pandas.DataFrame([row(*each, vectors, streams) for each in lates]).to_csv(
        HERE / "masks.csv", index=False, float_format="%.3g"
    )


if __name__ == "__main__":
    main()
