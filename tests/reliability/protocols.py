"""Bar 8: secure sums are exact or fail by name, whoever drops out and whenever."""

import itertools

import numpy as np

from simfl.secagg.crypto.field import Q, inverse, matmul, mul, reduce_whole
from tests.reliability.check import Case, Check, Outcome, Plan, when
from tests.reliability.tested import tested
from tests.secagg.test_sums import (
    LEAVES,
    buffered,
    every_fate,
    light_case,
    made,
    random_buffers,
    random_cases,
    secagg_case,
)

PAIRS = 100_000
EXTREMES = np.array([0, 1, 2, 2**16 - 1, 2**16, 2**31, Q // 2, Q // 2 + 1, Q - 2, Q - 1, 2**32 - 6])


def arithmetic(plan: Plan) -> Case:
    """100,000 pairs, some of them extreme, beside Python's integers; and a matrix with its inverse."""

    def case(number: int) -> Outcome:
        rng = np.random.default_rng([plan.seed, number])
        a, b = (np.where(rng.random(PAIRS) < 0.2, rng.choice(EXTREMES, PAIRS), rng.integers(0, Q, PAIRS)) for _ in "ab")
        if number == 0:
            few = np.array(list(itertools.product(EXTREMES, EXTREMES)))
            a[: len(few)], b[: len(few)] = few.T
        pairs = list(zip(a.tolist(), b.tolist()))
        wrong = [f"{x} * {y}" for (x, y), found in zip(pairs, mul(a, b).tolist()) if found != x * y % Q]
        wrong += [f"{x} - {y}" for (x, y), found in zip(pairs, reduce_whole(a - b).tolist()) if found != (x - y) % Q]
        some = rng.integers(0, Q, (12, 12))
        wrong += when(not np.array_equal(matmul(inverse(some), some), np.eye(12, dtype=np.int64)), "an inverse")
        return Outcome(tuple(wrong[:20]), {"pairs": PAIRS})

    return case


def _units(n: int, size: int) -> list[list[int]]:
    return np.arange(n).reshape(-1, size).tolist()


FATES = [
    *((secagg_case, "secagg", {"threshold": t}, "pairwise", _units(n, s)) for n, s in
      ((2, 1), (3, 1), (4, 1), (4, 2), (5, 1), (6, 1), (6, 2), (6, 3)) for t in (0.0, 0.5)),
    *((secagg_case, "secagg_plus", {"neighbours": 2, "threshold": 1}, "pairwise", _units(n, s))
      for n, s in ((4, 1), (5, 1), (6, 2), (6, 1))),
    *((secagg_case, "secagg_plus", {"neighbours": 4, "threshold": 2}, "pairwise", _units(6, s)) for s in (1, 3)),
    *((light_case, "lightsecagg", {"private": p, "survivors": u}, "coded", _units(n, s)) for n, s in
      ((2, 1), (3, 1), (4, 1), (4, 2), (5, 1), (6, 1), (6, 2), (6, 3)) for p, u in ((0.0, 0.3), (0.5, 0.75))),
]  # fmt: skip
"""Every set of dropouts in every phase; and of BASecAgg, below."""

SUBSETS = {n: [set(some) for k in range(n + 1) for some in itertools.combinations(range(n), k)] for n in (4, 6)}
BUFFERS = [
    (4, [[0, 2], [3, 1]]), (4, [[1], [2]]), (6, [[0, 2], [3, 1], [5, 4]]), (6, [[1], [2], [5]]),
]  # fmt: skip


def _sets(most: int) -> int:
    """How many sets of dropouts cohorts of at most so many clients have."""
    found = sum(len(LEAVES[leaves]) ** n for *_, leaves, units in FATES if (n := sum(map(len, units))) <= most)
    return found + sum(len(SUBSETS[n]) ** 2 * (len(SUBSETS[4]) if n == 4 else 3) for n, _ in BUFFERS if n <= most)


FIVE, ALL = _sets(5), _sets(6)


def everybody(plan: Plan) -> Case:
    """One protocol with one cohort: all clients' fates."""
    kinds = sorted([*FATES, *BUFFERS], key=lambda kind: sum(map(len, kind[-1])) if len(kind) > 2 else kind[0])

    def case(number: int) -> Outcome:
        if len(kind := kinds[number % len(kinds)]) > 2:
            judge, name, fields, leaves, units = kind
            n = sum(map(len, units))
            good = every_fate(judge, made(name, **fields), units, LEAVES[leaves])
            return Outcome((), {"dropout sets": len(LEAVES[leaves]) ** n, "came to the sum": good})
        clients, units = kind
        protocol = made("basecagg", private=0.3 if clients == 6 else 0.25, survivors=0.5)
        rest = [set()] * (len(units) - 2)
        seconds = SUBSETS[4] if clients == 4 else (set(), {0}, {3, 5})
        ends = [buffered(protocol, clients, units, (first, *rest, second), silent, 1)
                for first in SUBSETS[clients] for second in seconds for silent in SUBSETS[clients]]  # fmt: skip
        return Outcome((), {"dropout sets": len(ends), "came to the sum": sum(ends)})

    return case


def dropouts(plan: Plan) -> Case:
    """Random cohorts of up to 100 clients in units of up to three, in four protocols."""

    def case(number: int) -> Outcome:
        seed = 10**8 * plan.seed + number
        good = random_buffers([seed], 101) if number % 10 == 9 else random_cases([seed], 100)
        return Outcome((), {"came to the sum": good})

    return case


CHECKS = (
    Check(8, "arithmetic", "products and differences in the field beside Python's integers, extremes among them; "
          "inverses",
          "pairs", (PAIRS, 10**6, 10**7), arithmetic),
    Check(8, "every-dropout", "all ways to drop out in all phases of SecAgg, SecAgg+, LightSecAgg, BASecAgg with at "
          "most five clients (nightly six); the plain sum bit for bit, or the failure that must come",
          "dropout sets", (2, FIVE, ALL), everybody),
    Check(8, "dropouts", "random dropouts in cohorts of up to 100 clients; the plain sum bit for bit, or the right "
          "failure",
          "cohorts", (5, 150, 10_000), dropouts),
    tested(8, "protocol-tests", "published vectors (X25519, HKDF, ChaCha20, AEAD); fewer than T shares look alike; "
           "rounding unbiased; no sum wraps unnoticed", "secagg/test_field.py",
           "secagg/test_sums.py::test_clipped_and_wrapped_coordinates_are_counted",
           nightly=("secagg/test_sums.py", "secagg/test_attacks.py")),
)  # fmt: skip
