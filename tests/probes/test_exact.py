"""Tiny mechanisms, whole: every value that two rounds of a sum in a field of 25 elements can take, with its exact
probability in two neighbouring worlds, against the epsilon that is printed; other mechanisms by two-sided tests.

Three things can go wrong, and three tests hold them: the law that is enumerated is the one that is drawn; what the code
makes of updates is what is enumerated (it is played); and delta(epsilon) of the law is at most delta.
"""

import itertools
from decimal import Decimal, getcontext
from fractions import Fraction
from functools import cache
from math import exp, log
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import beta, chi2

from simfl.core.rng import Streams
from simfl.core.types import SERVER, Job
from simfl.privacy.accountant import History
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.dp.losses import epsilon_timeline
from simfl.privacy.dp.mechanisms import discrete_gaussian, discrete_laplace, laplace, skellam
from simfl.privacy.dp.stages import local_noise
from simfl.privacy.stage import STAGES, Members
from tests.support.sizes import repeats

getcontext().prec = 50
FIELD, DIGITS, TERMS = 25, 10**40, 60
DELTAS = (0.1, 1e-2, 1e-4)


# -- exact laws of one share, as whole weights ----------------------------------------------------------


def whole(weights):
    """Weights as whole numbers, of 40 digits in all."""
    total = sum(weights.values())
    return {k: int(Fraction(w) / Fraction(total) * DIGITS) for k, w in weights.items()}


def added(one, other, sign=1):
    found = {}
    for (x, p), (y, q) in itertools.product(one.items(), other.items()):
        found[x + sign * y] = found.get(x + sign * y, 0) + p * q
    return found


@cache
def share_law(name, variance, scale, shape):
    """One client's part: Skellam, discrete Gaussian, or the difference of two Polya variables."""
    if name == "discrete_gaussian":
        reach = int(9 * variance**0.5) + 2
        return whole({k: (Decimal(-k * k) / (2 * Decimal(variance))).exp() for k in range(-reach, reach + 1)})
    if name == "skellam":
        half, jumps, term = Fraction(variance) / 2, {}, Fraction(1)
        for j in range(TERMS):
            jumps[j], term = term, term * half / (j + 1)
    else:
        stay, jumps, term = Fraction((-1 / Decimal(scale)).exp()), {}, Fraction(1)
        for j in range(2 * TERMS):
            jumps[j], term = term, term * stay * (shape + j) / (j + 1)
    return whole(added(whole(jumps), whole(jumps), -1))


def sum_law(law, shares):
    """Of so many parts in the field, with probabilities as fractions, (FIELD,)."""
    one = [0] * FIELD
    for k, weight in law.items():
        one[k % FIELD] += weight
    total = [Fraction(weight, sum(one)) for weight in one]
    found = total
    for _ in range(shares - 1):
        found = [sum(found[j] * total[(i - j) % FIELD] for j in range(FIELD)) for i in range(FIELD)]
    return found


def delta(law, shifts, epsilon):
    """What (epsilon, delta) needs of the joint law of independent coordinates, moved by these steps or not; exact."""
    factor, moved = Fraction(exp(epsilon)), {Fraction(1): Fraction(1)}
    for shift in shifts:  # P's probability by P/Q
        ratios = {}
        for i in range(FIELD):
            p, q = law[(i - shift) % FIELD], law[i]
            ratios[p / q] = ratios.get(p / q, 0) + p
        moved = {
            r * s: sum(weight for _, weight in group)
            for (r, s), group in itertools.groupby(
                sorted(((a, b), v * w) for (a, v), (b, w) in itertools.product(moved.items(), ratios.items())),
                key=lambda pair: pair[0],
            )
        }
    return sum(p * max(0, 1 - factor / ratio) for ratio, p in moved.items())


# -- what the code does ---------------------------------------------------------------------------------


def made(name, clients, **fields):
    tiny = {"fraction_bits": 1} if name == "discrete_laplace" else {"bits": 4, "deviations": 1.0}
    return STAGES.of({"name": name, "sharers": clients, **tiny, **fields})


def jobs(clients, number=0):
    return tuple(Job.of(number, client, 0, 0.0) for client in range(clients))


def farthest(stage, dimension):
    """The steps by which a client's update moves what it sends, farthest in L1 over corners, sizes and draws."""
    state, best = stage.start(dimension), (0,) * dimension
    silent = mock.patch.object(type(stage), "noise", lambda self, *args: 0)
    with silent:
        for corner in itertools.product((-1.0, 0.0, 1.0), repeat=dimension):
            for seed in range(20):
                update = np.array([corner], dtype=np.float32) * 10
                sent = tuple(stage.client(update, jobs(1), state, Streams(seed))[0].tolist())
                best = max(best, sent, key=lambda steps: sum(map(abs, steps)))
    return best


def said(stage, clients, dimension, rounds, at):
    """The epsilon of rounds in which all take part."""
    members = Members(0, jobs(clients), np.ones(clients), float(clients), coordinates=dimension)
    facts = {name: np.full(rounds, value) for name, value in stage.facts(members, stage.start(dimension)).items()}
    history = History({SERVER: ObserverView.of_sums(csr_array(np.ones((rounds, clients))))}, (facts,), stages=(stage,))
    return float(epsilon_timeline(history, at).last[0]), {name: float(value[0]) for name, value in facts.items()}


def instance(name, clients, dimension, rounds, fields):
    """The stage, the exact law of the noise in a sum, and the steps by which a client moves all that is seen."""
    stage = made(name, clients, **dict(fields))
    _, facts = said(stage, clients, dimension, rounds, 1e-2)
    law = share_law(name, facts.get("variance"), facts.get("scale"), Fraction(1, clients))
    return stage, sum_law(law, clients), farthest(stage, dimension) * rounds


CASES = [
    (name, clients, dimension, rounds, fields)
    for name, settings in {
        "skellam": ({"noise_multiplier": 1.0}, {"noise_multiplier": 3.0}),
        "discrete_gaussian": ({"noise_multiplier": 1.0}, {"noise_multiplier": 3.0}),
        "discrete_laplace": ({"epsilon": 1.0}, {"epsilon": 0.4}),
    }.items()
    for fields in map(lambda setting: tuple(setting.items()), settings)
    for clients in repeats((2, 3), (2, 3, 4))
    for dimension, rounds in ((1, 1), (1, 2), (2, 1), *([(2, 2)] if repeats(0, 1) else []))
]


def lies(name, clients, dimension, rounds, fields):
    """Deltas at which the printed epsilon is too small, with what it really is."""
    stage, law, shifts = instance(name, clients, dimension, rounds, fields)
    assert any(shifts)
    found = []
    for at in DELTAS:
        epsilon, _ = said(stage, clients, dimension, rounds, at)
        real = max(delta(law, shifts, epsilon), delta(law, [-shift for shift in shifts], epsilon))
        if real > Fraction(at):
            found.append((at, epsilon, float(real)))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case[:4])))
def test_no_printed_epsilon_is_below_that_of_the_exact_law(case):
    assert lies(*case) == []


MISTAKES = {
    "divergences of Skellam noise are a sixth": (
        skellam, "rdp", lambda *args, original=skellam.rdp: original(*args) / 6, "skellam"),
    "divergences of discrete Gaussian noise are a sixth": (
        discrete_gaussian, "rdp", lambda *args, original=discrete_gaussian.rdp: original(*args) / 6,
        "discrete_gaussian"),
    "pure epsilons are seven tenths": (
        discrete_laplace, "pure_epsilon",
        lambda *args, original=discrete_laplace.pure_epsilon: 0.7 * original(*args), "discrete_laplace"),
    "twice as many shares are there": (
        Members, "honest", lambda self, colluders: 4 * self.n_summed, "skellam"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_exact_law_finds_planted_mistakes(mistake):
    owner, attribute, wrong, name = MISTAKES[mistake]
    with mock.patch.object(owner, attribute, wrong):
        assert any(lies(*case) for case in CASES if case[0] == name and case[1] < 4), mistake


@pytest.mark.parametrize("name", ["skellam", "discrete_gaussian", "discrete_laplace"])
def test_the_law_that_is_enumerated_is_drawn(name):
    n = repeats(20_000, 400_000)
    rng, variance, scale, shape = np.random.default_rng(3), 2.5, 3.0, 1 / 3
    drawn = {
        "skellam": lambda: skellam.sample(rng, variance, n),
        "discrete_gaussian": lambda: discrete_gaussian.sample(rng, variance, n),
        "discrete_laplace": lambda: discrete_laplace.share(rng, scale, shape, n),
    }[name]()
    law = share_law(name, variance, scale, Fraction(1, 3))
    total = sum(law.values())
    expected = {k: n * weight / total for k, weight in law.items() if n * weight / total >= 10}
    counts = {k: int((drawn == k).sum()) for k in expected}
    statistic = sum((counts[k] - mean) ** 2 / mean for k, mean in expected.items())
    assert statistic < chi2.ppf(1 - 1e-4, len(expected))


# -- noise of real numbers: what can be told from many draws --------------------------------------------

SURE = 1e-6
"""All together, that a true epsilon is refuted."""


def bounds(count, n, tests):
    """Clopper and Pearson's interval of a probability, for so many tests together."""
    alpha = SURE / tests / 2
    low = beta.ppf(alpha, count, n - count + 1) if count else 0.0
    return low, (beta.ppf(1 - alpha, count + 1, n - count) if count < n else 1.0)


def least_epsilon(one, other, at, cuts=24):
    """The largest epsilon that events say there is at least: those of a statistic above and below thresholds."""
    n, best = len(one), 0.0
    thresholds = np.quantile(np.concatenate([one, other]), np.linspace(0.02, 0.98, cuts))
    for cut, above, (p, q) in itertools.product(thresholds, (True, False), ((one, other), (other, one))):
        hits = [int(((each > cut) == above).sum()) for each in (p, q)]
        low, high = bounds(hits[0], n, 4 * cuts)[0], bounds(hits[1], n, 4 * cuts)[1]
        if low > at:
            best = max(best, log((low - at) / high))
    return best


LOCAL = [
    name
    for name, cls in STAGES.items()
    if cls.__module__.startswith("simfl.") and cls.adds_noise and cls.adds_noise.where == "client"
]
SERVERS = [name for name in ("central_gaussian", "tree_gaussian")]


def views(stage, update, n):
    """What n clients with this update send, or n servers release of a sum with it, (n, d)."""
    state, vectors = stage.start(len(update)), np.tile(np.float32(update), (n, 1))
    sent = stage.client(vectors, jobs(n), state, Streams(int(10 * abs(update).sum())))
    if stage.adds_noise.where == "client":
        return sent
    members = Members(0, jobs(1), np.ones(1), 1.0, coordinates=len(update))
    streams = [Streams(int(10 * abs(update).sum()) + 10**6 * k) for k in range(n)]
    return np.array([stage.server(row, members, state, s)[0] for row, s in zip(sent, streams, strict=True)])


def told(name, update, at=1e-3, n=4000):
    """The least epsilon of one update, by events, and the one that is printed."""
    stage = STAGES.of({"name": name, **STAGES[name].example})
    with_it, without = views(stage, np.array(update), n), views(stage, np.zeros(len(update)), n)
    direction = np.sign(update)
    printed, _ = said(stage, 1, len(update), 1, at)
    return least_epsilon(with_it @ direction, without @ direction, at), printed


@pytest.mark.parametrize("name", [*LOCAL, *SERVERS])
@pytest.mark.parametrize("update", [(1e3, 0.0), (1e3, -1e3)])
def test_no_event_says_more_than_the_printed_epsilon(name, update):
    least, printed = told(name, update, n=repeats(4000, 100_000))
    assert 0 < printed < np.inf
    assert least <= printed


def test_events_find_planted_mistakes():
    half = SimpleNamespace(**vars(laplace) | {"scale": lambda sensitivity, epsilon: sensitivity / epsilon / 2})
    with mock.patch.object(local_noise, "laplace", half):
        least, printed = told("local_laplace", (1e3, 0.0), n=20_000)
    assert least > 1.3 > 1.0 == printed
