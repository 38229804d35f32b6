"""Flamingo and OPA: whoever drops out, the plain sum bit for bit or a failure with a name; and who learns what."""

import itertools
from functools import cache

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.agents.aggregation.expected import costs
from simfl.core.prime_field import PRIMES
from simfl.core.rng import Streams
from simfl.scenario import InvalidScenario, Scenario
from simfl.secagg import flamingo, flamingo_session, opa
from simfl.secagg.crypto import keys
from simfl.secagg.crypto.field import Q, vandermonde
from simfl.secagg.crypto.keys import ProtocolViolation, public_key, secret
from simfl.secagg.sessions import Cohort, SessionFailure
from simfl.secagg.transcript import Transcript
from tests.secagg.test_sums import NEVER, D, made, numbers, play, whole
from tests.secagg.test_views import eliminated, seen, spans_the_same, within
from tests.support.sizes import repeats

ORDER = flamingo_session.ORDER

# -- what must come out, in words --------------------------------------------------------------------------


def expected_opa(protocol, units, fates, clients, seed):
    members = Streams(seed)("opa/committee", 3).choice(clients, min(protocol.committee or 60, clients), replace=False)
    survivors = protocol.code(len(members), D).survivors
    summed = whole(units, [c for unit in units for c in unit if fates[c] != "upload"])
    if len(summed) < 2:
        return "upload"
    return sorted(summed) if sum(fates[c] != "unmask" for c in members.tolist()) >= survivors else "unmask"


def expected_flamingo(protocol, units, fates, clients, seed):
    size, term = min(protocol.committee or 60, clients), 3 // protocol.term
    old, new = (
        Streams(seed)("flamingo/committee", each).choice(clients, size, replace=False) for each in (term - 1, term)
    )
    if 3 % protocol.term == 0 and sum(fates[c] != "handover" for c in old.tolist()) < size // 3 + 1:
        return "handover"
    summed = whole(units, [c for unit in units for c in unit if fates[c] != "upload"])
    if len(summed) < 2:
        return "upload"
    signed = [c for c in new.tolist() if fates[c] != "crosscheck"]
    if 3 * len(signed) <= 2 * size:
        return "crosscheck"
    return sorted(summed) if 3 * sum(fates[c] != "unmask" for c in signed) > size else "unmask"


EXPECTED = {"opa": expected_opa, "flamingo": expected_flamingo}
LEAVES = {"opa": (NEVER, "upload", "unmask"), "flamingo": (NEVER, "handover", "upload", "crosscheck", "unmask")}


def sum_of(protocol, record, vectors, seed):
    if protocol.name == "opa":
        return opa.replay_sessions(record, vectors, Streams(seed))
    return protocol.replay(record, vectors, Streams(seed))


def judged(protocol, units, fates, seed, computed=True):
    """Whether a sum came out, where that is right, and where it is computed the right one."""
    expected = EXPECTED[protocol.name](protocol, units, fates, len(fates), seed)
    end, _, _ = play(protocol, units, fates, seed)
    if isinstance(expected, str):
        assert isinstance(end, SessionFailure) and end.reason.startswith(f"{expected}: "), (fates, end, expected)
        return False
    assert not isinstance(end, SessionFailure), (fates, end.reason, expected)
    kept = sorted(c for unit, good in zip(units, end.kept_units.tolist(), strict=True) if good for c in unit)
    assert kept == expected, fates
    if computed:
        vectors = numbers(seed, kept)
        total = sum_of(protocol, end.secret, vectors, seed)
        assert total.tolist() == [sum(int(vectors[c][i]) for c in kept) % Q for i in range(D)], fates
    return True


SINGLES, PAIRS = [[0], [1], [2], [3]], [[2, 0], [1, 3]]


@pytest.mark.parametrize("units", [SINGLES, PAIRS], ids=["singles", "pairs"])
@pytest.mark.parametrize(
    "name, fields", [("opa", {"private": 0.25, "survivors": 0.5}), ("opa", {}), ("flamingo", {"term": 3})]
)
def test_every_fate_of_four_clients(name, fields, units):
    protocol = made(name, **fields)
    fates = list(itertools.product(LEAVES[name], repeat=4))
    good = [judged(protocol, units, fate, 1, computed=i % 7 == 0) for i, fate in enumerate(fates)]
    assert any(good) and not all(good)


@settings(max_examples=repeats(25, 400), deadline=None, derandomize=True)
@given(st.data())
def test_sums_of_any_sizes_and_dropouts_are_those_in_the_field(data):
    """Also with a committee of which most members are in no sum."""
    name = data.draw(st.sampled_from(["opa", "flamingo"]))
    size = data.draw(st.integers(1, 2))
    n = data.draw(st.integers(2, 6)) * size
    others = data.draw(st.integers(0, 4))
    committee = data.draw(st.integers(3, n + others)) if n + others > 3 else None
    rate = data.draw(st.sampled_from([0.0, 0.1, 0.3]))
    seed = data.draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    units = rng.permutation(n + others)[:n].reshape(-1, size).tolist()
    leaves = LEAVES[name][1:]
    fates = [str(rng.choice(leaves)) if rng.random() < rate else NEVER for _ in range(n + others)]
    fields = {"term": 3} if name == "flamingo" else {"private": 0.3, "survivors": 0.7}
    judged(made(name, committee=committee, **fields), units, fates, seed)


# -- who learns what ---------------------------------------------------------------------------------------


def flamingo_seen(adjacent, committee, threshold, clients, sent, summed, opened, answered, coalition):
    """What the server and a coalition see by elimination over all masks: own ones, and those of pairs."""
    n = len(clients)
    colluding = sum(c in coalition for c in committee)
    helping = colluding + (sum(c not in coalition for c in answered) if opened else 0)
    edges = [(u, v) for u in range(n) for v in range(u) if adjacent[u, v]]
    masks, updates = np.zeros((n, n + len(edges)), dtype=np.int64), np.zeros((n, n), dtype=np.int64)
    for u in range(n):
        colludes = clients[u] in coalition
        updates[u, u] = not colludes
        known = colludes or colluding >= threshold or (summed[u] and helping >= threshold)
        masks[u, u] = not known
    for place, (u, v) in enumerate(edges):
        known = clients[u] in coalition or clients[v] in coalition or colluding >= threshold
        known |= helping >= threshold and summed[u] != summed[v]
        masks[u, n + place], masks[v, n + place] = (0, 0) if known else (1, -1)
    return seen(updates[sent], masks[sent])


def test_views_of_flamingo_are_what_linear_algebra_finds():
    """Every coalition of clients, of the committee and of others, at every end of a round, and late updates too."""
    rng, kinds = np.random.default_rng(4), set()
    for trial in range(repeats(60, 600)):
        n, population, round = int(rng.integers(2, 6)), 7, int(rng.integers(0, 5))
        protocol = made("flamingo", committee=int(rng.integers(1, 7)), term=2, security_bits=1.0, dropped=0.0)
        streams, clients = Streams(trial), rng.permutation(population)[:n].astype(np.int32)
        committee = protocol.committee_of("flamingo", round // 2, population, streams).tolist()
        _, threshold, _ = protocol.sizes(population)
        sent = rng.random(n) < 0.85
        summed = sent & (rng.random(n) < 0.85)
        opened = bool(rng.random() < 0.7)
        answered = [c for c in committee if rng.random() < 0.6] if opened else []
        ended = opened and len(answered) >= threshold and bool(summed.any())
        heard = Transcript(round, clients, np.ones(n, dtype=bool), sent, summed, np.isin(clients, answered), ended,
                           len(answered), population)  # fmt: skip
        adjacent = protocol.graph(n, round, streams)
        for count in range(population + 1):
            for coalition in itertools.combinations(range(population), count):
                right = flamingo_seen(
                    adjacent, committee, threshold, clients, sent, summed, opened, answered, coalition
                )
                rows = protocol.view(heard, np.array(coalition, dtype=np.int32), streams).toarray().astype(np.int64)
                outside = set(coalition) & set(answered) - set(clients.tolist())
                assert within(right, rows), (trial, coalition)  # nothing is known that the view leaves out
                if not outside:  # members who are in no sum are counted with the answers and the colluders
                    assert spans_the_same(rows, right), (trial, coalition)
                kinds.add((ended, len(rows)))
    assert {(True, 1), (True, 2), (False, 0), (False, 2)} <= kinds


def opa_seen(code, clients, committee, sent, summed, answered, coalition):
    """By elimination over a seed's pieces, whose answers are of the sum: each piece hides a block of an update."""
    n, blocks, rows = len(clients), code.survivors - code.private, code.survivors
    powers = np.array([[pow(j + 1, k, 10007) for k in range(rows)] for j in range(len(committee))])
    masks, updates = [], []
    honest = np.array([c not in coalition for c in clients.tolist()])
    for u in np.flatnonzero(sent):
        for k in range(blocks):
            update, mask = np.zeros((n, blocks), dtype=np.int64), np.zeros((n, rows), dtype=np.int64)
            update[u, k] = mask[u, k] = honest[u]
            updates.append(update.ravel())
            masks.append(mask.ravel())
    for j, member in enumerate(committee):
        shares = [np.outer(np.arange(n) == u, powers[j]) for u in np.flatnonzero(honest & sent) if member in coalition]
        shares += [np.outer(summed & honest, powers[j])] if member in answered else []
        masks += [share.astype(np.int64).ravel() for share in shares]
        updates += [np.zeros(n * blocks, dtype=np.int64)] * len(shares)
    return seen(np.array(updates).reshape(-1, n * blocks), np.array(masks).reshape(-1, n * rows))


def test_views_of_opa_hold_all_that_linear_algebra_finds():
    rng, kinds = np.random.default_rng(5), set()
    for trial in range(repeats(40, 400)):
        n, population = int(rng.integers(2, 5)), 6
        protocol = made("opa", committee=int(rng.integers(3, 6)), private=float(rng.choice([0.0, 0.3])), survivors=0.7)
        streams, clients = Streams(trial), rng.permutation(population)[:n].astype(np.int32)
        committee = protocol.committee_of("opa", 3, population, streams).tolist()
        code = protocol.code(len(committee), 1)
        sent = rng.random(n) < 0.85
        summed = sent & (rng.random(n) < 0.9)
        answered = [c for c in committee if rng.random() < rng.choice([0.3, 0.8])]
        ended = len(answered) >= code.survivors and bool(summed.any())
        heard = Transcript(3, clients, np.ones(n, dtype=bool), sent, summed, np.isin(clients, answered), ended,
                           len(answered), population)  # fmt: skip
        for count in range(population + 1):
            for coalition in itertools.combinations(range(population), count):
                right = opa_seen(code, clients, committee, sent, summed, answered, coalition)
                rows = protocol.view(heard, np.array(coalition, dtype=np.int32), streams).toarray().astype(np.int64)
                blocks = np.eye(code.survivors - code.private, dtype=np.int64)
                assert within(right, np.kron(rows, blocks)), (trial, coalition)
                kinds.add((len(rows) > 1, len(right) > 0))
    assert {(False, False), (False, True), (True, True)} <= kinds


@pytest.mark.parametrize("name", ["flamingo", "opa"])
def test_so_many_colluders_as_it_says_learn_the_sum_and_one_more_each_update(name):
    protocol, clients = made(name, committee=6), np.arange(8, dtype=np.int32)
    cohort = Cohort(3, clients.reshape(-1, 1), D, 8)
    tolerated = protocol.known(cohort)["colluding"]
    assert tolerated == {"flamingo": 2, "opa": 3}[name] == protocol.tolerance(8, 8)
    heard = Transcript.of(3, clients.tolist(), 8, summed=True)
    learns = {count: False for count in range(8)}
    for count in learns:
        for coalition in itertools.combinations(range(8), count):
            rows = protocol.view(heard, np.array(coalition, dtype=np.int32), Streams(0)).toarray()
            learns[count] |= len(rows) > 1
    assert [learns[count] for count in range(6)] == [count > tolerated for count in range(6)]


def test_a_committee_above_the_threshold_reads_an_update():
    """Not only in the view: t decryptors' shares of the key open a seed, and U shares give a client's seed back."""
    streams, threshold = Streams(7), 3
    key, shares = flamingo_session.key_shares(streams, 7, threshold, 0)
    few = flamingo_session.at_zero(range(threshold))
    private = sum(w * s for w, s in zip(few, shares)) % ORDER
    assert keys.base_multiple(private) == key
    less = sum(w * s for w, s in zip(flamingo_session.at_zero(range(threshold - 1)), shares)) % ORDER
    assert keys.base_multiple(less) != key
    code = made("opa", committee=5).code(5, D)
    client = opa.OneShotClient(3, 1, code, streams)
    members = {j: opa.CommitteeMember(3, j, secret(streams, "opa/key", j + 10), 1) for j in range(5)}
    sealed = client.shares({j: member.public for j, member in members.items()})
    mine = {j: m.answer({1: (public_key(client.private), sealed[j])}, {1: 0}, 1) for j, m in members.items()}
    assert np.array_equal(opa.decode_seed(code, mine), client.seed)
    with pytest.raises(ProtocolViolation, match="3 answers, but 4"):
        opa.decode_seed(code, {j: mine[j] for j in (0, 2, 4)})


def test_of_a_seed_as_many_shares_as_are_private_say_nothing():
    """The random rows' part of any T shares is invertible, so that they are uniform whatever the seed is."""
    code = made("opa", committee=6).code(6, D)
    for p in PRIMES:
        powers = vandermonde(np.arange(1, 7), code.survivors, p)[:, code.survivors - code.private :].astype(object)
        for places in itertools.combinations(range(6), code.private):
            square = np.array(powers[list(places)].tolist(), dtype=np.int64) % 10007
            assert eliminated(square, code.private)[1] == code.private


# -- learning with rounding --------------------------------------------------------------------------------


def test_the_generator_is_what_its_definition_says():
    """floor(p (A s mod q) / q) mod p, in whole numbers of any size; and nearly linear: e in (-n, 1)."""
    streams, q, n = Streams(3), 1, 5
    for p in PRIMES:
        q *= p
    seeds = np.stack([
        [np.random.default_rng(u).integers(p, size=2048, dtype=np.uint64) for u in range(n)] for p in PRIMES
    ]).transpose(0, 2, 1)  # fmt: skip
    total = np.stack([seeds[i].sum(axis=1) % p for i, p in enumerate(PRIMES)])[:, :, None]
    found = opa.masks(9, np.concatenate([seeds, total], axis=2), 3, streams)
    inverse = [pow(q // p, -1, p) for p in PRIMES]
    for row in range(3):
        each = []
        for column in range(n + 1):
            seed = total[:, :, 0] if column == n else seeds[:, :, column]
            exact = 0
            for i, p in enumerate(PRIMES):
                matrix = streams("opa/matrix", 9, 0, i).integers(p, size=(3, 2048), dtype=np.uint32)
                residue = sum(int(a) * int(s) for a, s in zip(matrix[row], seed[i])) % p
                exact += residue * inverse[i] % p * (q // p)
            each.append(opa.P * (exact % q) // q)
        assert found[row].tolist() == each
        error = (sum(each[:n]) - each[n]) % opa.P
        assert error == 0 or opa.P - error < n


@pytest.mark.parametrize("error", [-(opa.ROOM // 2), -5, 0, 1, opa.ROOM // 2 - 1])
@pytest.mark.parametrize("total", [0, 1, Q // 2, Q - 1])
def test_every_error_that_the_low_bits_can_hold_is_rounded_away(error, total):
    mask = np.array([12345], dtype=np.uint64)
    sent = np.array([(total * opa.ROOM + 12345 + error) % opa.P], dtype=np.uint64)
    assert opa.unmask([sent], mask).tolist() == [total]


def test_one_error_more_is_not():
    beyond = np.array([(7 * opa.ROOM + opa.ROOM // 2) % opa.P], dtype=np.uint64)
    assert opa.unmask([beyond], np.zeros(1, dtype=np.uint64)).tolist() == [8]


def test_exact_products():
    rng = np.random.default_rng(0)
    for p in PRIMES:
        a, b = (np.where(rng.random(shape) < 0.3, p - 1, rng.integers(p, size=shape)).astype(np.uint64)
                for shape in ((3, 4096), (4096, 2)))  # fmt: skip
        exact = [[sum(int(x) * int(y) for x, y in zip(row, column)) % p for column in b.T] for row in a]
        assert opa.product(a, b, p).tolist() == exact


# -- the curve, and the decryptors' key --------------------------------------------------------------------


def test_points_are_those_of_the_curve():
    rng = np.random.default_rng(1)
    for _ in range(20):
        one, other, factor = (int.from_bytes(rng.bytes(32), "big") % (ORDER - 1) + 1 for _ in range(3))
        assert flamingo_session.combination([one], [keys.base_multiple(other)]) == keys.base_multiple(
            one * other % ORDER
        )
        points = [keys.base_multiple(one), keys.base_multiple(other)]
        total = flamingo_session.combination([factor, 5], points)
        assert total == keys.base_multiple((factor * one + 5 * other) % ORDER)
        ec.EllipticCurvePublicNumbers(*total, ec.SECP256R1()).public_key()
    same = [keys.base_multiple(11)] * 2
    assert flamingo_session.combination([3, 3], same) == keys.base_multiple(66)


def test_a_handover_keeps_the_key_and_changes_the_shares():
    for size, threshold in ((1, 1), (4, 2), (7, 3)):
        first, shares = flamingo_session.key_shares(Streams(2), size, threshold, 0)
        for term in (1, 2, 5):
            key, later = flamingo_session.key_shares(Streams(2), size, threshold, term)
            assert key == first and later != shares or size == threshold == 1
            for places in itertools.islice(itertools.combinations(range(size), threshold), 10):
                weights = flamingo_session.at_zero(places)
                private = sum(w * later[j] for w, j in zip(weights, places)) % ORDER
                assert keys.base_multiple(private) == first


@cache
def small_plan():
    adjacent = ~np.eye(4, dtype=bool)
    publics = tuple(public_key(secret(Streams(0), "flamingo/key", j)) for j in range(4))
    key, shares = flamingo_session.key_shares(Streams(0), 4, 2, 0)
    return flamingo_session.FlamingoPlan(0, adjacent, 2, 3, np.arange(4) // 2, 3, key, publics), shares


def test_decryptors_and_members_refuse_what_would_expose_somebody():
    plan, shares = small_plan()
    ready = lambda: flamingo_session.Decryptor(plan, 0, 0, shares[0], Streams(0))  # noqa: E731
    everybody = np.ones(4, dtype=bool)
    for online, why in (([1, 1, 1, 0], "splits a unit"), ([1, 1, 0, 0], "fewer than 3")):
        with pytest.raises(ProtocolViolation, match=why):
            ready().sign(np.array(online, dtype=bool))
    apart = plan._replace(adjacent=np.kron(np.eye(2, dtype=bool), np.ones((2, 2), dtype=bool)))
    with pytest.raises(ProtocolViolation, match="not connected"):
        flamingo_session.Decryptor(apart, 0, 0, shares[0], Streams(0)).sign(everybody)
    decryptor = ready()
    with pytest.raises(ProtocolViolation, match="not signed"):
        decryptor.answer(3, {}, {})
    decryptor.sign(everybody)
    with pytest.raises(ProtocolViolation, match="second set"):
        decryptor.sign(everybody)
    with pytest.raises(ProtocolViolation, match="fewer than 3 decryptors"):
        decryptor.answer(2, {}, {})
    with pytest.raises(ProtocolViolation, match="needs others"):
        decryptor.answer(3, {}, {(0, 1): keys.base_multiple(1)})
    decryptor.answer(3, {}, {})
    with pytest.raises(ProtocolViolation, match="answered about"):
        decryptor.answer(3, {}, {})
    client = flamingo_session.FlamingoClient(plan, 0, 0, Streams(0))
    publics = dict(enumerate(plan.decryptors))
    client.mask(publics, np.zeros(2, dtype=np.int64))
    with pytest.raises(ProtocolViolation, match="second vector"):
        client.mask(publics, np.zeros(2, dtype=np.int64))
    member = opa.CommitteeMember(0, 0, secret(Streams(0), "opa/key", 0), 2)
    for messages, unit, size, why in (
        ({1: ()}, {1: 0}, 1, "fewer than 2"),
        ({1: (), 2: ()}, {1: 0, 2: 1}, 2, "splits"),
    ):
        with pytest.raises(ProtocolViolation, match=why):
            member.answer(messages, unit, size)


# -- graphs ------------------------------------------------------------------------------------------------


def test_no_fewer_than_it_says_separate_a_graph():
    import networkx

    rng, strict = np.random.default_rng(2), 0
    for _ in range(repeats(100, 1000)):
        n = int(rng.integers(3, 10))
        pairs = np.triu(rng.random((n, n)) < 0.7, 1)
        graph = networkx.from_numpy_array(pairs | pairs.T)
        if not networkx.is_connected(graph):
            continue
        said, exact = flamingo.separators(pairs | pairs.T), networkx.node_connectivity(graph)
        complete = pairs.sum() == n * (n - 1) // 2
        assert said == n if complete else said <= exact
        strict += not complete and said == exact
    assert strict > 10


def test_the_chance_of_an_edge_keeps_its_promise_and_hardly_more():
    """Of random graphs, as often as 2^-3; and with a tenth less more often than that."""
    from scipy.sparse.csgraph import connected_components

    rng, n, bits = np.random.default_rng(3), 40, 3.0
    chance = flamingo.edge_chance(n, 0.0, bits)

    def apart(chance, tries=2000):
        found = (np.triu(rng.random((n, n)) < chance, 1) for _ in range(tries))
        return sum(connected_components(pairs, directed=False)[0] > 1 for pairs in found) / tries

    assert apart(chance) < 2**-bits * 1.2 and apart(0.85 * chance) > 2**-bits
    assert flamingo.edge_chance(4, 0.0, 40.0) == 1.0 and flamingo.edge_chance(1000, 0.2, 40.0) < 0.05


# -- costs -------------------------------------------------------------------------------------------------


def test_bytes_follow_the_text_of_the_protocols():
    """Counted here from the papers' steps, of 20 clients, 1000 coordinates, all neighbours, a committee of 9."""
    n, d, m, cohort = 20, 1000, 9, Cohort(0, np.arange(20, dtype=np.int32).reshape(-1, 1), 1000, 20)
    protocol = made("flamingo", committee=m, security_bits=256.0)
    assert protocol.chance(n) == 1.0
    found = costs(protocol, cohort, False, (4 * d, 4 * d), Streams(0))
    phases = {phase["phase"]: phase for phase in found["phases"] if phase["phase"] != "setup"}
    assert phases["work"]["bytes_up"] == 4 * d + m * (36 + 16) + (n - 1) * (33 + 32)
    assert phases["work"]["bytes_down"] == 4 * d
    assert (phases["crosscheck"]["bytes_down"], phases["crosscheck"]["bytes_up"]) == (3, 64)
    assert (phases["unmask"]["bytes_down"], phases["unmask"]["bytes_up"]) == (m * (64 + 4) + n * 52, n * 36)
    protocol = made("opa", committee=m, private=1 / 3, survivors=2 / 3)
    found = costs(protocol, cohort, False, (4 * d, 4 * d), Streams(0))
    phases = {phase["phase"]: phase for phase in found["phases"] if phase["phase"] != "setup"}
    share = 4 * 4 * -(-2048 // (6 - 3))
    assert phases["work"]["bytes_up"] == 6 * d + m * (4 + share + 16)
    assert phases["work"]["bytes_down"] == 4 * d + m * (4 + 32)
    assert (phases["unmask"]["bytes_down"], phases["unmask"]["bytes_up"]) == (n * (4 + 32 + share + 16), share)


BASE = """
clients: 8
selection: {name: random, k: 6}
training: {name: fedavg, rounds: 3, weighting: equal}
learning: {name: none, parameters: 10}
secagg: SECAGG
"""


@pytest.mark.parametrize(
    "secagg, more, why",
    [
        ("{name: opa, committee: 9}", (), "the nearest value is 8"),
        ("{name: flamingo, committee: 9}", (), "the nearest value is 8"),
        ("{name: opa, seed_length: 256}", (), "2048"),
        ("{name: opa, private: 0.7, survivors: 0.7}", (), "must be above private"),
        ("{name: flamingo, corrupted: 0.5, dropped: 0.5}", (), "must be below 1"),
        ("opa", ("training={name: fedbuff, rounds: 2, weighting: equal}",), "needs one cohort"),
        ("flamingo", ("training={name: fedbuff, rounds: 2, weighting: equal}",), "needs one cohort"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(secagg, more, why):
    with pytest.raises(InvalidScenario, match=why):
        Scenario.parse(BASE.replace("SECAGG", secagg), "refused", more)


@pytest.mark.parametrize("name", ["flamingo", "opa"])
def test_a_committee_is_of_sixty_or_of_all_who_there_are(name):
    for clients, members in ((59, 59), (60, 60), (200, 60)):
        resolved = Scenario.parse(BASE.replace("SECAGG", name).replace("8", str(clients)), "sixty").secagg
        assert resolved.committee == members
        drawn = resolved.committee_of(name, 0, clients, Streams(0)).tolist()
        assert len(set(drawn)) == members and max(drawn) < clients


def test_more_clients_than_the_low_bits_are_refused_before_anything_is_sent():
    cohort = Cohort(0, np.arange(opa.ROOM // 2, dtype=np.int32).reshape(-1, 1), D, opa.ROOM // 2)
    with pytest.raises(StopIteration) as end:
        next(made("opa").prepare(cohort, Streams(0)))
    assert "too many for the bits that rounding takes; at most 32767" in end.value.value.reason
