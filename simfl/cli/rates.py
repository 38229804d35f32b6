"""The rates of the cost model of secure aggregation, measured on this machine; no run ever reads a clock."""

from collections.abc import Callable
from timeit import Timer, default_timer

import numpy as np

REPEATS = 5
"""Measurements of each operation, of which the quickest counts: the others were disturbed."""

ELEMENTS, MASKS = 1 << 20, 8
"""Elements of a mask: more than fit into a processor's nearest caches, as updates do; masks added to one update."""

SURVIVORS, PIECE = 64, 1 << 14
"""A matrix product as decoding makes it: rows and terms; columns."""

CLIENTS, THRESHOLD = 100, 51
"""Holders of a secret's shares, and the shares that open it."""


def measure_rates(clock: Callable[[], float] = default_timer) -> dict[str, float]:
    """Seconds of each operation of :class:`~simfl.secagg.masked_protocol.CryptoRates` by a clock, to three digits."""
    from simfl.secagg.crypto import field, keys, shamir

    rng = np.random.default_rng(0)
    seed, other = rng.bytes(32), rng.bytes(32)
    public, mask = keys.public_key(other), np.zeros(ELEMENTS, dtype=np.int64)
    left, right = (rng.integers(0, field.Q, shape) for shape in ((SURVIVORS, SURVIVORS), (SURVIVORS, PIECE)))
    points = np.arange(1, CLIENTS + 1)
    shares = shamir.shares([seed], points, THRESHOLD, other)
    few = slice(THRESHOLD)

    def agreement() -> None:
        keys.forget()
        keys.derive(keys.agree(seed, public), b"pair")

    make = _seconds(lambda: shamir.shares([seed], points, THRESHOLD, other), clock) / CLIENTS
    use = _seconds(lambda: shamir.combine_shares(shares[few], points[few], THRESHOLD), clock) / THRESHOLD
    seconds_of = {
        "agreement_s": _seconds(agreement, clock),
        "element_s": _seconds(lambda: keys.sum_masked([mask], [seed] * MASKS, []), clock) / (MASKS * ELEMENTS),
        "product_s": _seconds(lambda: field.matmul(left, right), clock) / (SURVIVORS * SURVIVORS * PIECE),
        "share_s": (make + use) / 2,
    }
    return {name: float(f"{seconds:.2e}") for name, seconds in seconds_of.items()}


def _seconds(operation: Callable[[], object], clock: Callable[[], float]) -> float:
    """Of one operation, the quickest of several measurements of a fifth of a second or more each."""
    timer = Timer(operation, timer=clock)
    number, _ = timer.autorange()
    return min(timer.repeat(REPEATS, number)) / number


def as_yaml(rates: dict[str, float]) -> str:
    """As keys of a scenario's ``secagg``."""
    return "\n".join(["rates:", *(f"  {name}: {seconds:.2e}" for name, seconds in rates.items())])
