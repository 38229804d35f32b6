"""One thing is singular."""

import numpy as np

from simfl.core.errors import amount, there_are


def test_one_is_singular_and_counts_have_all_their_digits():
    assert [amount(n, "client") for n in (0, 1, 2, 1200)] == ["0 clients", "1 client", "2 clients", "1,200 clients"]
    assert amount(np.int64(3_000_000), "round") == "3,000,000 rounds"
    assert (amount(1.0, "round"), amount(2.5, "round")) == ("1 round", "2.5 rounds")
    assert there_are(1, "client") == "there is 1 client" and there_are(12, "client") == "there are 12 clients"
