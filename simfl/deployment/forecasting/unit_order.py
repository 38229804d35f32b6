"""Which clients make a unit together, so that it is whole as often as can be."""

import numpy as np
from numpy.typing import NDArray

from simfl.plugins import Bools, Integers


def order_by_availability(there: Bools, size: int) -> Integers:
    """An order of the clients in which runs of ``size`` are often available together, (n,).

    Two orders are compared by the mean number of whole runs: by rate (among clients who are available independently of
    each other none has more: a sum of products is largest where like meets like, by the rearrangement inequality), and
    one that begins each run with the client of the highest rate that is left and adds who is there most often when all
    of the run are.

    Args:
        there: who is available, in rounds that are as likely as those to come, (rounds, n); n a multiple of ``size``.
        size: clients in a run.
    """
    rates = there.mean(axis=0)
    by_rate = np.argsort(-rates, kind="stable")
    joint = np.concatenate([np.zeros(0, dtype=np.int64), *_runs(there, by_rate, size)])
    return max(by_rate, joint, key=lambda order: _whole(there[:, order], size))


def _runs(there: Bools, by_rate: Integers, size: int) -> list[Integers]:
    left, runs = np.ones(len(by_rate), dtype=bool), []
    for first in by_rate:
        if not left[first]:
            continue
        run, all_there = [first], there[:, first]
        left[first] = False
        for _ in range(size - 1):
            count = np.where(left, all_there.astype(np.int64) @ there, -1)
            run.append(int(np.argmax(count)))
            all_there = all_there & there[:, run[-1]]
            left[run[-1]] = False
        runs.append(np.array(run))
    return runs


def _whole(there: NDArray[np.bool_], size: int) -> float:
    """Mean number of whole runs."""
    return float(there.reshape(len(there), -1, size).all(axis=2).sum(axis=1).mean())
