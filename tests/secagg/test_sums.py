"""Whoever drops out, and whenever: the plain sum bit for bit, or a failure with a name."""

import itertools

import networkx
import numpy as np
import pytest

from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.papers.privacyfl import pairwise_ratchet
from simfl.secagg import basecagg, lightsecagg, pairwise
from simfl.secagg.base import PROTOCOLS
from simfl.secagg.crypto.field import Q
from simfl.secagg.sessions import Cohort, SessionFailure

D = 5
NEVER = "never"


def made(name, **fields):
    """A protocol as a scenario would have resolved it."""
    return PROTOCOLS.of({"name": name, "min_sum": 2, "weight_channel": False, **fields})


def drive(talk, fates):
    """Plays a talk in which each client fails in the phase of its fate, and in those after it."""
    asks = []
    try:
        ask = next(talk)
        while True:
            asks.append(ask)
            heard = np.array([fates[c] != ask.kind for c in ask.to.tolist()])
            if ask.quorum is not None:
                heard &= np.cumsum(heard) <= ask.quorum
            ask = talk.send(heard)
    except StopIteration as end:
        return end.value, asks


def play(protocol, units, fates, seed=0, number=3, seeds=0):
    """The end of both talks, and all asks."""
    streams, units = Streams(seed), np.asarray(units, dtype=np.int32)
    cohort = Cohort(number, units, D, len(fates), 1.0, seeds=seeds)
    prepared, asks = drive(protocol.prepare(cohort, streams), fates)
    if isinstance(prepared, SessionFailure):
        return prepared, asks, None
    going = np.broadcast_to(prepared.kept_units[:, None], units.shape)
    uploaded = going & np.array([[fates[c] != "upload" for c in unit] for unit in units.tolist()])
    end, more = drive(protocol.recover(cohort, uploaded, [prepared.secret], streams), fates)
    return end, asks + more, uploaded


def numbers(seed, clients):
    rng = np.random.default_rng(seed)
    return {c: rng.integers(-(2**30), 2**30, D) for c in clients}


def whole(units, members):
    return [c for unit in units if all(c in members for c in unit) for c in unit]


# -- what must come out, in words -----------------------------------------------------------------------


def pairwise_in_words(units, fates, around, t):
    """The clients summed, or the phase that fails: from the definitions alone."""
    everybody = [c for unit in units for c in unit]
    place = {c: i for i, c in enumerate(everybody)}
    graph = networkx.Graph()
    graph.add_nodes_from(everybody)
    graph.add_edges_from((c, everybody[v]) for c in everybody for v in around.of(place[c]).tolist())
    advertised = whole(units, [c for c in everybody if fates[c] != "advertise"])
    if len(advertised) < 2:
        return "advertise"
    masked = whole(units, [c for c in advertised if fates[c] != "share"])
    if len(masked) < 2:
        return "share"
    uploaded = [c for c in masked if fates[c] != "upload"]
    summed = whole(units, uploaded)
    if len(summed) < 2 or not networkx.is_connected(graph.subgraph(summed)):
        return "upload"
    answered = {c for c in uploaded if fates[c] != "unmask"}
    for c in masked:
        needed = c in summed or any(v in summed for v in graph[c])
        if needed and len(answered & set(graph[c])) < t:
            return "unmask"
    return sorted(summed)


def coded_in_words(units, fates, code):
    everybody = [c for unit in units for c in unit]
    masked = whole(units, [c for c in everybody if fates[c] != "share"])
    if len(masked) < max(2, code.survivors):
        return "share"
    uploaded = [c for c in masked if fates[c] != "upload"]
    if len(whole(units, uploaded)) < 2 or len(uploaded) < code.survivors:
        return "upload"
    if sum(fates[c] != "unmask" for c in uploaded) < code.survivors:
        return "unmask"
    return sorted(whole(units, uploaded))


def judged(protocol, units, fates, seed, expected, replayed):
    """Whether what came out is what must come out; True where it was a sum."""
    end, _, _ = play(protocol, units, fates, seed)
    if isinstance(expected, str):
        assert isinstance(end, SessionFailure) and end.reason.startswith(f"{expected}: "), (fates, end, expected)
        return False
    assert not isinstance(end, SessionFailure), (fates, end.reason, expected)
    kept = sorted(c for unit, good in zip(units, end.kept_units.tolist(), strict=True) if good for c in unit)
    assert kept == expected, fates
    vectors = numbers(seed, kept)
    total = replayed(end.secret, vectors, Streams(seed))
    assert total.tolist() == [sum(int(vectors[c][i]) for c in kept) % Q for i in range(D)], fates
    return True


def secagg_case(protocol, units, fates, seed):
    n = sum(map(len, units))
    k, t = protocol.sizes(n)
    around = pairwise.circle(n, k, Streams(seed)("secagg/circle", 3))
    sums = lambda *known: pairwise.replay_sessions(*known).sums  # noqa: E731
    return judged(protocol, units, fates, seed, pairwise_in_words(units, fates, around, t), sums)


def light_case(protocol, units, fates, seed):
    code = protocol.code(sum(map(len, units)), D)
    return judged(protocol, units, fates, seed, coded_in_words(units, fates, code), lightsecagg.replay_sessions)


LEAVES = {"pairwise": (NEVER, "advertise", "share", "upload", "unmask"), "coded": (NEVER, "share", "upload", "unmask")}


def every_fate(case, protocol, units, leaves):
    n = sum(map(len, units))
    return sum(case(protocol, units, fates, 1) for fates in itertools.product(leaves, repeat=n))


SINGLES, PAIRS = [[0], [1], [2], [3]], [[2, 0], [1, 3]]
FIVE = [[i] for i in range(5)]


@pytest.mark.parametrize("units", [SINGLES, PAIRS, FIVE], ids=["singles", "pairs", "five"])
@pytest.mark.parametrize("threshold", [0.0, 0.5])
def test_secagg_of_every_fate(units, threshold):
    if len(units) == 5 and threshold == 0.0:
        pytest.skip("the same code; the slow test has six")
    assert every_fate(secagg_case, made("secagg", threshold=threshold), units, LEAVES["pairwise"]) >= 9


@pytest.mark.parametrize("units", [FIVE, [[0, 1], [2, 3], [4, 5]]], ids=["five", "pairs"])
def test_secagg_plus_of_every_fate(units):
    leaves = LEAVES["pairwise"] if len(units) == 5 else (NEVER, "upload", "unmask")
    assert every_fate(secagg_case, made("secagg_plus", neighbours=2, threshold=1), units, leaves) > 50


@pytest.mark.parametrize("units", [SINGLES, PAIRS, FIVE], ids=["singles", "pairs", "five"])
@pytest.mark.parametrize("private, survivors", [(0.0, 0.3), (0.5, 0.75)])
def test_lightsecagg_of_every_fate(units, private, survivors):
    protocol = made("lightsecagg", private=private, survivors=survivors)
    assert every_fate(light_case, protocol, units, LEAVES["coded"]) >= 4


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("units", [[[i] for i in range(6)], [[0, 1], [2, 3], [4, 5]], [[0, 1, 2], [3, 4, 5]]])
def test_six_clients_of_every_fate(units):
    """A minute of one core."""
    assert every_fate(secagg_case, made("secagg"), units, LEAVES["pairwise"]) > 50
    assert every_fate(secagg_case, made("secagg_plus", neighbours=4, threshold=2), units, LEAVES["pairwise"]) > 50
    assert every_fate(light_case, made("lightsecagg"), units, LEAVES["coded"]) >= 10


def random_case(rng, largest):
    size = int(rng.integers(1, 4))
    n = int(rng.integers(2, rng.integers(2, largest // size + 1) + 1)) * size  # small ones more often: they are cheap
    clients = rng.permutation(n + 3)[:n]
    units = clients.reshape(-1, size).tolist()
    rate = rng.choice([0.02, 0.1, 0.25])
    names = LEAVES["pairwise"][1:]
    fates = [str(rng.choice(names)) if rng.random() < rate else NEVER for _ in range(n + 3)]
    if n > 4 and rng.random() < 0.5:
        k = 2 * int(rng.integers(1, (n - 1) // 2 + 1))
        return secagg_case, made("secagg_plus", neighbours=k, threshold=int(rng.integers(1, k + 1))), units, fates
    if rng.random() < 0.5:
        return secagg_case, made("secagg", threshold=float(rng.uniform(0, 0.9))), units, fates
    private = float(rng.uniform(0, 0.6))
    return light_case, made("lightsecagg", private=private, survivors=min(1.0, private + 1.01 / n + 0.2)), units, fates


def random_cases(seeds, largest):
    """How many of these random cohorts of at most so many clients come to a sum."""
    good = 0
    for seed in seeds:
        case, protocol, units, fates = random_case(np.random.default_rng(seed), largest)
        good += case(protocol, units, fates, seed)
    return good


def test_random_dropouts():
    assert 30 < random_cases(range(100), 24) < 97
    random_cases(range(4), 40)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(20))
def test_ten_thousand_random_dropouts(part):
    """Nine minutes of one core, all parts together."""
    assert random_cases(range(500 * part, 500 * (part + 1)), 100) > 150


def test_a_ratchet_sums_all_or_fails():
    protocol = made("pairwise_ratchet")
    for n in (2, 3, 5):
        units = [[c] for c in range(n)]
        for missing in itertools.product([False, True], repeat=n):
            fates = ["upload" if gone else NEVER for gone in missing]
            end, _, _ = play(protocol, units, fates)
            assert isinstance(end, SessionFailure) == any(missing)
            assert not any(missing) or end.reason.startswith("upload: ")
        least = protocol.min_sum
        members = [pairwise_ratchet.RatchetClient(c, bytes([c + 1]) * 32, least) for c in range(n)]
        for member in members:
            member.meet({other.me: other.public for other in members if other is not member})
        for number in (0, 1, 63, 64, 200):
            vectors = numbers(number, range(n))
            total = sum(member.mask(number, vectors[member.me]) for member in members) % Q
            assert total.tolist() == (sum(vectors.values()) % Q).tolist()


# -- buffers of any age ---------------------------------------------------------------------------------


def buffered(protocol, clients, units, deliver, unmask, seed):
    """A buffer of units that were prepared one by one at several times, and its expected end."""
    streams = Streams(seed)
    prepared, holding = [], set(range(clients))
    for tick, (unit, lost) in enumerate(zip(units, deliver, strict=True)):
        cohort = Cohort(tick, np.array([unit], dtype=np.int32), D, clients, 1.0)
        end, _ = drive(protocol.prepare(cohort, streams), ["deliver" if c in lost else NEVER for c in range(clients)])
        assert end.kept_units.tolist() == [True]
        prepared.append(end.secret)
        holding -= {c for c in lost if not (len(unit) == 1 and c in unit)}  # nobody sends its own piece to itself
    array = np.array(units, dtype=np.int32)
    cohort = Cohort(9, array, D, clients, 1.0)
    fates = ["unmask" if c in unmask else NEVER for c in range(clients)]
    talk = protocol.recover(cohort, np.ones(array.shape, dtype=bool), prepared, streams)
    end, _ = drive(talk, fates)
    survivors = protocol.code(clients, D).survivors
    expected = "deliver" if len(holding) < survivors else "unmask" if len(holding - set(unmask)) < survivors else ""
    if expected:
        assert isinstance(end, SessionFailure) and end.reason.startswith(f"{expected}: "), (end, expected)
        return False
    assert end.kept_units.all()
    members = [(int(c), t) for t, unit in enumerate(units) for c in unit]
    jobs = [Job((t << 32) | c, c, t, 0.0) for c, t in sorted(members)]
    vectors = [numbers(seed + job.client, [0])[0] for job in jobs]
    weights = [3 * job.version + 1 for job in jobs]
    total = basecagg.replay_sessions(end.secret, jobs, vectors, weights, 2, streams)
    exact = [sum(w * int(v[i]) for w, v in zip(weights, vectors, strict=True)) % Q for i in range(D)]
    assert total.tolist() == exact
    return True


def test_basecagg_of_every_fate():
    """Four clients, two units: whoever misses whichever piece, and whoever does not answer."""
    protocol, subsets = made("basecagg", private=0.25, survivors=0.5), [
        set(some) for size in range(5) for some in itertools.combinations(range(4), size)
    ]  # fmt: skip
    good = [
        buffered(protocol, 4, units, (first, second), unmask, 1)
        for units in ([[0, 2], [3, 1]], [[1], [2]])
        for first in subsets
        for second in subsets[::3]
        for unmask in subsets
    ]
    assert any(good) and not all(good)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_six_clients_and_basecagg_of_every_fate():
    """Three pairs, or three single clients: whoever misses a piece of the first, and whoever does not answer."""
    protocol = made("basecagg", private=0.3, survivors=0.5)
    subsets = [set(some) for size in range(7) for some in itertools.combinations(range(6), size)]
    for units in ([[0, 2], [3, 1], [5, 4]], [[1], [2], [5]]):
        good = [
            buffered(protocol, 6, units, (lost, set(), late), silent, 1)
            for lost in subsets
            for late in (set(), {0}, {3, 5})
            for silent in subsets
        ]
        assert 1000 < sum(good) < len(good) == 3 * 64 * 64


def random_buffers(seeds, largest):
    """How many of these random buffers of at most so many clients come to a sum."""
    good = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        size, clients = int(rng.integers(1, 4)), int(rng.integers(8, largest))
        count = int(rng.integers(2, min(clients // size, 12) + 1))
        units = rng.permutation(clients)[: count * size].reshape(-1, size).tolist()
        lost = [set(np.flatnonzero(rng.random(clients) < 0.01).tolist()) for _ in units]
        silent = set(np.flatnonzero(rng.random(clients) < 0.1).tolist())
        good += buffered(made("basecagg", private=0.3, survivors=0.7), clients, units, lost, silent, seed)
    return good


def test_basecagg_of_random_fates():
    assert 10 < random_buffers(range(20), 30) < 20


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_thousand_random_buffers():
    assert 500 < random_buffers(range(1000), 101) < 1000


# -- the rule's mean ------------------------------------------------------------------------------------


def test_weights_and_divisors_are_those_of_the_rule():
    """The mean of a protocol is that of the rule, up to half a grid step a client."""
    from functools import partial

    from simfl.secagg.sessions import ClientUpdates, SessionResult
    from simfl.training.fedavg import FedAvg
    from simfl.training.fedbuff import FedBuff
    from simfl.training.staleness import PolynomialStaleness

    rng, examples = np.random.default_rng(8), np.array([3, 1, 7, 2])
    vectors = rng.normal(0, 0.3, (4, D)).astype(np.float32)
    jobs = tuple(Job((t << 32) | c, c, 0, 0.0) for c, t in zip((0, 2, 3, 5), (1, 0, 1, 0), strict=True))
    units, idle = [[0, 3], [2, 5]], ["-"] * 6
    for name, rule in (
        ("secagg", FedAvg(rounds=1)),
        ("secagg", FedAvg(rounds=1, weighting="equal")),
        ("lightsecagg", FedAvg(rounds=1)),
        ("pairwise_ratchet", FedAvg(rounds=1)),
        ("basecagg", FedBuff(rounds=1, buffer=4, weighting="equal", staleness=PolynomialStaleness())),
        ("basecagg", FedBuff(rounds=1, buffer=4, normaliser="weight_sum", staleness=PolynomialStaleness())),
    ):
        staleness = np.array([2, 0, 2, 0])
        weights = rule.weights(examples, staleness)
        protocol = made(name, weight_channel=len(set(rule.weights(examples, staleness * 0))) > 1)
        divisor = partial(rule.divisor, examples=examples)
        given = ClientUpdates(jobs, vectors, None, weights, rule.row(staleness), divisor, rule.aggregate.combine)
        cohort = Cohort(3, np.array(units, dtype=np.int32), D, 6, 7.0, row=rule.row(np.array([[2, 2], [0, 0]])))
        if name == "basecagg":
            end, _ = drive(protocol.recover(cohort, np.ones((2, 2), bool), [np.ones(6, bool)] * 2, Streams(2)), idle)
        else:
            prepared, _ = drive(protocol.prepare(cohort, Streams(2)), idle)
            end, _ = drive(protocol.recover(cohort, np.ones((2, 2), bool), [prepared.secret], Streams(2)), idle)
        assert isinstance(end, SessionResult)
        total = protocol.add(end, given, Streams(2))
        used = weights if name != "basecagg" else weights / rule.row(staleness) * total.weights
        exact = rule.aggregate.combine(vectors, used, divisor(used))
        assert np.abs(total.vector - exact).max() < 2e-5 and np.abs(total.vector - exact).max() > 0, name
        assert total.row == {"clipped": 0, "wrapped": 0}
        assert np.allclose(total.weights, rule.row(staleness), atol=1 / 64)
        costly = PROTOCOLS.of({"name": name, "execute": "cost_only", "min_sum": 2, "weight_channel": False})
        assert np.array_equal(costly.add(end, given, Streams(2)).vector, exact)
        assert np.array_equal(costly.add(end, given, Streams(2)).weights, total.weights)


def test_clipped_and_wrapped_coordinates_are_counted():
    """At a scale of 2^30 a sum of three ones wraps, and nine is beyond a clip of four."""
    from simfl.core.errors import SimflError
    from simfl.secagg.sessions import ClientUpdates
    from simfl.training.aggregates import Mean

    vectors = np.array([[1, 9, 0.1, -1], [1, 0, 0.1, -1], [1, 0, 0.1, 0.25]], dtype=np.float32)
    jobs = tuple(Job(c, c, 0, 0.0) for c in range(3))
    given = ClientUpdates(jobs, vectors, None, np.ones(3), np.ones(3), np.sum, Mean().combine)
    protocol = made("secagg", scale=2.0**30, on_wrap="allow")
    cohort = Cohort(0, np.array([[0], [1], [2]], dtype=np.int32), 4, 3, 1.0)
    prepared, _ = drive(protocol.prepare(cohort, Streams(0)), ["-"] * 3)
    end, _ = drive(protocol.recover(cohort, np.ones((3, 1), bool), [prepared.secret], Streams(0)), ["-"] * 3)
    total = protocol.add(end, given, Streams(0))
    assert total.row == {"clipped": 1, "wrapped": 2}, "3 and the clipped 4 lie beyond 2; -1.75 does not"
    assert total.vector[3] == np.float32(-1.75 / 3)
    with pytest.raises(SimflError, match="2 of 4 coordinates of a sum wrapped around .*secagg.on_wrap: allow"):
        made("secagg", scale=2.0**30).add(end, given, Streams(0))
    safe = made("secagg").add(end, given, Streams(0))
    assert safe.row == {"clipped": 1, "wrapped": 0} and safe.vector[:2] == pytest.approx([1, 4 / 3], abs=1e-6)


def test_what_cannot_be_summed_is_refused():
    from simfl.core.errors import SimflError
    from simfl.secagg.sessions import ClientUpdates
    from simfl.training.aggregates import Mean

    jobs = tuple(Job(c, c, 0, 0.0) for c in range(2))
    vectors = np.zeros((2, D), dtype=np.float32)
    cases = (vectors > 0, np.ones(2), "whole updates"), (None, np.array([0.5, 1]), "whole weights")
    for holds, weights, why in cases:
        given = ClientUpdates(jobs, vectors, holds, weights, np.ones(2), np.sum, Mean().combine)
        with pytest.raises(SimflError, match=why):
            made("secagg").quantise_updates(given, given.weights, 2.0, Streams(0))
    cohort = Cohort(0, np.array([[0], [1]], dtype=np.int32), D, 2, 1e9)
    end, asks = drive(made("secagg").prepare(cohort, Streams(0)), ["-"] * 2)
    assert isinstance(end, SessionFailure) and "no room" in end.reason and not asks
