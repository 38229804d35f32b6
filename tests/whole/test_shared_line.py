"""The fair queue of benchmarks/shared_line.py, on a clock of the test's own, against max-min fair sharing."""

import sys
from pathlib import Path

import numpy as np
import pytest

from simfl.network.fair_sharing import waits_s

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from shared_line import PIECE, FairQueue


def ended_s(begins_s, rates, sizes, bytes_per_s):
    """When each message has crossed; a client's next piece is there when its own and the shared line have passed."""
    queue, n = FairQueue(bytes_per_s), len(begins_s)
    left, ends = sizes.copy(), np.full(n, np.nan)
    ready = begins_s + PIECE / rates
    while np.isnan(ends).any():
        who = int(np.argmin(ready))
        if ready[who] < (queue.free_s if queue.crossing is not None else np.inf):
            queue.ask(ready[who], who, PIECE)
            own_s, ready[who] = ready[who], np.inf
            begins_s[who] = own_s
            continue
        now_s = queue.free_s
        for done in queue.crossed(now_s):
            left[done] -= PIECE
            if left[done] <= 0:
                ends[done] = now_s
            else:
                ready[done] = max(begins_s[done] + PIECE / rates[done], now_s)
    return ends


@pytest.mark.parametrize("seed", range(5))
def test_a_queue_of_pieces_is_max_min_fair_up_to_its_pieces(seed):
    rng = np.random.default_rng(seed)
    n, bytes_per_s = 6, 150_000.0
    rates, begins = rng.uniform(2e4, 2e5, n), rng.random(n) * 0.5
    sizes = PIECE * rng.integers(20, 80, n).astype(float)
    alone = sizes / rates
    expected = begins + alone + waits_s(begins, alone, rates / bytes_per_s)
    found = ended_s(begins.copy(), rates, sizes, bytes_per_s)
    assert found == pytest.approx(expected, abs=3 * n * PIECE / bytes_per_s)
    assert np.abs(found - begins - alone).max() > 0.1, "somebody is held up"


def test_one_alone_takes_the_time_of_the_narrower_line():
    one = np.array([0.0])
    for rate in (1e4, 1e6):
        found = ended_s(one.copy(), np.array([rate]), np.array([100.0 * PIECE]), 1e5)
        assert found[0] == pytest.approx(100 * PIECE / min(rate, 1e5), rel=0.02)
