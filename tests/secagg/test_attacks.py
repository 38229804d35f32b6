"""What a curious server or curious helpers try: each attack fails, and succeeds on a mutant of our code."""

import itertools
import sys

import numpy as np
import pytest

from simfl.core.rng import Streams
from simfl.papers.privacyfl import pairwise_ratchet
from simfl.papers.privacyfl.pairwise_ratchet import RatchetClient
from simfl.secagg import coded_session, pairwise_session
from simfl.secagg.coded_session import Helper, MaskCode, Owner, decode_sum
from simfl.secagg.crypto import keys, quantise, shamir
from simfl.secagg.crypto.field import Q, inverse, vandermonde
from simfl.secagg.crypto.keys import ProtocolViolation, elements, public_key
from simfl.secagg.crypto.quantise import HALF, grid
from simfl.secagg.neighbours import circle
from simfl.secagg.pairwise_session import PairwiseClient, PairwisePlan, PairwiseServer, Secrets, seed_between
from tests.secagg.test_field import alike, buckets, even

D = 6


def cohort(units, min_sum=2, threshold=2, k=99, number=0, seed=0):
    """Clients and their server after the model has gone out."""
    n = len(units)
    around = circle(n, k, np.random.default_rng(seed))
    plan = PairwisePlan(number, around, threshold, np.array(units), min_sum)
    clients = [PairwiseClient(plan, u, Secrets.of(Streams(seed), number, u)) for u in range(n)]
    server = PairwiseServer(plan)
    published = server.publish({u: client.advertise() for u, client in enumerate(clients)})
    forwarded = server.forward({u: client.share(published[u]) for u, client in enumerate(clients)})
    for u, client in enumerate(clients):
        client.receive(forwarded[u])
    return clients, server


def refused(what, *arguments):
    with pytest.raises(ProtocolViolation):
        what(*arguments)


def helpers(code, labels, units, sizes, count, min_sum=2, once=True):
    """Helpers who hold pieces of all masks, and the owners."""
    owners = [Owner(code, label, Streams(0), "test", label) for label in labels]
    made = [Helper(j, bytes([j + 1]) * 32, min_sum, once) for j in range(count)]
    publics = {helper.place: public_key(helper.private) for helper in made}
    for owner, unit, size in zip(owners, units, sizes, strict=True):
        for j, message in owner.seal_pieces(publics).items():
            made[j].receive(owner.label, unit, size, owner.public, message)
    return owners, made


# -- the attacks ----------------------------------------------------------------------------------------


def both_secrets_of_a_client():
    """Asked with two sets, a client would give shares of both secrets of whoever is in one of them."""
    clients, _ = cohort([0, 1, 2, 3])
    clients[0].unmask([1, 2, 3])
    refused(clients[0].unmask, [1, 2])


def both_secrets_at_the_server():
    """Clients that are told different sets: the server finds shares of both secrets and stops."""
    clients, server = cohort([0, 1, 2, 3])
    masked = {u: clients[u].mask(np.arange(D)) for u in range(4)}
    told = {0: [1, 2, 3], 1: [0, 2, 3], 2: [0, 1], 3: [0, 1, 2]}
    answers = {u: clients[u].unmask(summed) for u, summed in told.items()}
    refused(server.unmask, masked, range(4), answers)


def two_sets_of_masks():
    """Two sums of pieces that differ in one client decode to that client's mask."""
    _, made = helpers(MaskCode(2, 1, D), [0, 1, 2], [0, 1, 2], [1, 1, 1], 3)
    made[0].answer({0: 1, 1: 1, 2: 1})
    refused(made[0].answer, {0: 1, 1: 1})
    _, made = helpers(MaskCode(2, 1, D), [0, 1, 2, 3], [0, 1, 2, 3], [1] * 4, 3, once=False)
    made[0].answer({0: 1, 1: 1})
    refused(made[0].answer, {1: 1, 2: 1, 3: 1})
    made[0].answer({2: 1, 3: 5})


def two_sets_of_one_aggregation():
    """In one aggregation a helper answers once, also about others."""
    _, made = helpers(MaskCode(2, 1, D), [0, 1, 2, 3], [0, 1, 2, 3], [1] * 4, 3, once=True)
    made[0].answer({0: 1, 1: 1})
    refused(made[0].answer, {2: 1, 3: 1})


def a_piece_at_0():
    """There, the piece would be the mask's first part in clear."""
    owner = Owner(MaskCode(3, 2, D), 0, Streams(0), "test", 0)
    for points in ([0, 1], [2, 2], [Q, 1]):
        refused(owner.pieces, np.array(points))
    _, made = helpers(MaskCode(3, 2, D), [0], [0], [1], 4)
    first = elements(owner.seeds[0], D)
    for helper in made:
        assert (helper.pieces_by_owner[0].values != first).any()


def a_share_at_0_or_twice():
    for points in ([0, 1], [2, 2]):
        refused(shamir.shares, [bytes(32)], np.array(points), 2, bytes(32))
    clients, _ = cohort([0, 1, 2])
    _, own = clients[1].received_shares[0]
    number = int.from_bytes(clients[0].secrets.self_mask, "little")
    assert own.tolist() != [number >> 31 * i & 2**31 - 1 for i in range(9)], "no share is the secret"


def secrets_used_again():
    """No two secrets of anybody, in any aggregation, are the same; nor are a round's masks another's."""
    found = [s for number in range(3) for client in range(4) for s in Secrets.of(Streams(0), number, client)]
    assert len(set(found)) == len(found) == 48
    seeds = [pairwise_ratchet.seed_at(b"\x07" * 32, r) for r in range(200)]
    assert len(set(seeds)) == 200
    pieces = [Owner(MaskCode(2, 1, D), j, Streams(0), "test", j).seeds for j in range(5)]
    assert len({seed for pair in pieces for seed in pair}) == 10


def a_mask_used_twice():
    clients, _ = cohort([0, 1])
    clients[0].mask(np.zeros(D, dtype=np.int64))
    refused(clients[0].mask, np.ones(D, dtype=np.int64))
    member = RatchetClient(0, bytes([1]) * 32, 2)
    member.meet({1: public_key(bytes([2]) * 32)})
    member.mask(4, np.zeros(D, dtype=np.int64))
    for number in (4, 3):
        refused(member.mask, number, np.ones(D, dtype=np.int64))


def a_late_vector():
    """Its client counts as dropped, so that its mask key is opened; its own mask keeps what arrives too late."""
    clients, server = cohort([0, 1, 2, 3])
    secret = np.arange(D) + 7
    late = clients[3].mask(secret)
    answers = {u: clients[u].unmask([v for v in range(3) if v != u]) for u in range(3)}
    server.unmask({u: clients[u].mask(np.zeros(D, dtype=np.int64)) for u in range(3)}, range(4), answers)
    private = server._open(3, False, answers)
    left = late.copy()
    for v in range(3):
        shared = elements(seed_between(0, private, server.keys[v].mask, 3, v), D)
        left += -shared if v > 3 else shared
    assert (left % Q != secret).all()
    refused(server._open, 3, True, answers)


def sums_under_the_least():
    clients, _ = cohort([0, 1, 2, 3], min_sum=3)
    refused(clients[0].unmask, [1])
    _, made = helpers(MaskCode(2, 1, D), [0, 1, 2], [0, 1, 2], [1] * 3, 3, min_sum=3)
    refused(made[0].answer, {0: 1, 2: 1})
    member = RatchetClient(0, bytes([1]) * 32, 3)
    member.meet({1: public_key(bytes([2]) * 32)})
    refused(member.mask, 0, np.ones(D, dtype=np.int64))


def sums_of_weights_of_zero():
    """Masks with a weight of 0, also in the field only, hide nobody: such a sum would be one client's mask."""
    for weights in ({0: 1, 1: 0, 2: 0}, {0: 1, 1: Q, 2: 1}, {0: 0, 1: 3, 2: -2 * Q}):
        _, made = helpers(MaskCode(2, 1, D), [0, 1, 2], [0, 1, 2], [1] * 3, 3, min_sum=3, once=False)
        refused(made[0].answer, weights)
        made[0].answer({0: 1, 1: 2, 2: 1})  # what it has refused is not used up
    _, made = helpers(MaskCode(2, 1, D), [0, 1, 2, 3], [0, 1, 2, 3], [1] * 4, 3, min_sum=3)
    made[0].answer({0: 1, 1: 1, 2: 0, 3: 4})


def sums_of_parts_of_units():
    """One client apart from a whole unit."""
    for summed in ([1, 2, 3, 4], [2, 3, 4], [4]):
        clients, _ = cohort([0, 0, 1, 1, 2, 2])
        refused(clients[0].unmask, summed)
    clients, _ = cohort([0, 0, 1, 1, 2, 2])
    clients[0].unmask([1, 2, 3])
    _, made = helpers(MaskCode(2, 1, D), [0, 1, 2, 3], [0, 0, 1, 1], [2] * 4, 4)
    refused(made[0].answer, {0: 1, 1: 1, 2: 1})
    _, made = helpers(MaskCode(2, 1, D), [0, 1, 2, 3], [0, 0, 1, 1], [2] * 4, 4)
    refused(made[0].answer, {0: 1, 1: 2})


def sums_of_separate_groups():
    """On a circle, a client in the sum of whose neighbours nobody is in it would be summed alone."""
    clients, _ = cohort(list(range(9)), k=2, threshold=1)
    refused(clients[0].unmask, [])
    clients[1].unmask([int(clients[1].neighbours[0])])


def short_seeds():
    """Every seed is 32 bytes of which every bit is drawn."""
    refused(elements, bytes(16), 5)
    found = [Secrets.of(Streams(0), number, client) for number in range(20) for client in range(10)]
    seeds = np.array([np.frombuffer(seed, dtype=np.uint8) for all_four in found for seed in all_four])
    seeds = np.concatenate([seeds, [np.frombuffer(s, dtype=np.uint8) for j in range(99) for s in owned(j)]])
    ones = np.unpackbits(seeds, axis=1).mean(axis=0)
    assert seeds.shape[1] == 32 and np.abs(ones - 0.5).max() < 4.5 * 0.5 / np.sqrt(len(seeds))


def owned(label):
    owner = Owner(MaskCode(2, 1, D), label, Streams(0), "test", label)
    return [owner.private, *owner.seeds]


def keys_of_low_order():
    clients, server = cohort([0, 1, 2])
    fresh = PairwiseClient(clients[0].plan, 0, clients[0].secrets)
    published = {1: server.keys[1], 2: server.keys[2]._replace(seal=bytes(32))}
    refused(fresh.share, published)


def one_key_twice():
    clients, server = cohort([0, 1, 2])
    fresh = PairwiseClient(clients[0].plan, 0, clients[0].secrets)
    refused(fresh.share, {1: server.keys[1], 2: server.keys[1]})
    refused(RatchetClient(0, bytes([1]) * 32, 2).meet, {1: public_key(bytes([1]) * 32)})


def sums_that_wrap():
    for clip, weight in itertools.product((0.3, 1.0, 4.0), (1, 2, 3, 7, 1000)):
        assert weight * np.ceil(clip * grid(clip, weight).scale) <= HALF


def masks_of_one_number():
    """A mask is drawn for each coordinate."""
    clients, _ = cohort([0, 1, 2])
    assert len(set(clients[0].mask(np.zeros(D, dtype=np.int64)).tolist())) == D


def forged_shares():
    """A share that does not fit the others is noticed."""
    clients, server = cohort([0, 1, 2, 3])
    answers = {u: clients[u].unmask([v for v in range(4) if v != u]) for u in range(4)}
    assert server._open(1, True, answers) == clients[1].secrets.self_mask
    answers[3][1] = answers[3][1]._replace(limbs=(answers[3][1].limbs + 1) % Q)
    refused(server._open, 1, True, answers)


def forged_keys():
    """An opened key that is another's than the advertised one is noticed."""
    clients, server = cohort([0, 1, 2, 3])
    masked = {u: clients[u].mask(np.zeros(D, dtype=np.int64)) for u in range(3)}
    answers = {u: clients[u].unmask([v for v in range(3) if v != u]) for u in range(3)}
    other = shamir.shares([bytes([9]) * 32], np.arange(3) + 1, 2, bytes(32))[:, 0]
    forged = {u: answers[u] | {3: answers[u][3]._replace(limbs=other[u])} for u in range(3)}
    server.unmask(masked, range(4), answers)
    refused(server.unmask, masked, range(4), forged)


# -- mutants --------------------------------------------------------------------------------------------


def forgetful(patch):
    patch.setattr(PairwiseClient, "_once", lambda self, phase: None)


def trusting_server(patch):
    def opened(self, u, own, answers):
        found = {v: answer[u] for v, answer in sorted(answers.items()) if u in answer and answer[u].self_mask == own}
        limbs = np.array([share.limbs for share in found.values()]).reshape(len(found), 1, -1)
        return shamir.combine_shares(limbs[:2], np.array(list(found))[:2] + 1, 2)[0]

    patch.setattr(PairwiseServer, "_open", opened)


def forgetful_helper(patch):
    real = Helper.answer

    def answer(self, weights):
        pieces = dict(self.pieces_by_owner)
        found = real(self, weights)
        self.pieces_by_owner, self.used = pieces, set()
        return found

    patch.setattr(Helper, "answer", answer)


def points_from_0(patch):
    def pieces(self, points):
        rows = np.stack([elements(self.seeds[0], D), elements(self.seeds[1], D), elements(self.seeds[1][::-1], D)])
        return coded_session.columns_at(rows, np.asarray(points) - 1)

    patch.setattr(Owner, "pieces", pieces)


def unguarded_shares(patch):
    def shares(secrets, points, threshold, seed):
        rest = elements(seed, (threshold - 1) * len(secrets) * 9).reshape(threshold - 1, len(secrets) * 9)
        rows = np.concatenate([shamir._limbs(secrets).reshape(1, -1), rest])
        return coded_session.columns_at(rows, points - 1).reshape(len(points), len(secrets), 9)

    patch.setattr(shamir, "shares", shares)


def one_seed_for_all(patch):
    patch.setattr(pairwise_session, "secret", lambda streams, purpose, *key: keys.secret(streams, "secagg", key[-1]))


def standing_ratchet(patch):
    patch.setattr(pairwise_ratchet, "_steps", lambda seed, count: seed)


def tireless_member(patch):
    real = RatchetClient.mask

    def mask(self, number, vector):
        self.round = -1
        return real(self, number, vector)

    patch.setattr(RatchetClient, "mask", mask)


def single_masking(patch):
    real = elements

    def own_only(self, vector):
        total = vector % Q
        for v in self.received_shares:
            shared = elements(
                seed_between(self.plan.number, self.secrets.mask, self.keys[v].mask, self.me, v), len(vector)
            )
            total += shared if v > self.me else -shared
        return total % Q

    patch.setattr(PairwiseClient, "mask", own_only)
    patch.setattr(PairwiseServer, "unmask", lambda self, vectors, masked, answers: real(bytes(32), D))


def small_sums(patch):
    for cls in (PairwiseClient, Helper, RatchetClient):
        original = cls.__init__

        def lenient(self, *arguments, original=original):
            original(self, *arguments)
            vars(self).update({name: 1 for name in ("min_sum", "least") if name in vars(self)})
            if "plan" in vars(self):
                self.plan = self.plan._replace(min_sum=1)

        patch.setattr(cls, "__init__", lenient)


def any_weights(patch):
    real = Helper.answer

    def answer(self, weights):
        self.min_sum -= sum(weight % Q == 0 for weight in weights.values())
        return real(self, weights)

    patch.setattr(Helper, "answer", answer)


def no_units(patch):
    patch.setattr(PairwiseClient, "_in_sum", lambda self, known: True)


def no_weights_of_units(patch):
    real = Helper.receive
    patch.setattr(Helper, "receive", lambda self, owner, unit, size, *rest: real(self, owner, owner, 1, *rest))


def lonely_sums(patch):
    patch.setattr(PairwiseClient, "_in_sum", lambda self, known: None)


def seeds_of_32_bits(patch):
    for module in (pairwise_session, coded_session):
        patch.setattr(module, "secret", lambda streams, purpose, *key: streams(purpose, *key).bytes(4) + bytes(28))


def any_key(patch):
    def trusting(private, public):
        try:
            return keys.agree(private, public)
        except ProtocolViolation:
            return bytes(32)

    patch.setattr(pairwise_session, "agree", trusting)


def repeated_keys(patch):
    real = PairwiseClient.share

    def share(self, given):
        only = dict({pair.seal: (v, pair) for v, pair in given.items()}.values())
        return real(self, only)

    patch.setattr(PairwiseClient, "share", share)


def careless_grid(patch):
    def finer(clip, weight):
        return quantise.Grid(2.0 ** np.ceil(np.log2(HALF / weight / clip)), clip)

    patch.setitem(globals(), "grid", finer)


def scalar_masks(patch):
    real = keys._Stream.read
    patch.setattr(keys._Stream, "read", lambda self, count, room: real(self, count, room)[:1].repeat(count))


def any_share(patch):
    patch.setattr(shamir, "spread", lambda points: np.zeros(len(points), dtype=np.int64))


def any_opened_key(patch):
    def opened(self, u, own, answers):
        limbs = np.array([answer[u].limbs for answer in answers.values() if u in answer])[:, None]
        points = np.array([v for v, answer in answers.items() if u in answer]) + 1
        return shamir.combine_shares(limbs, points, self.plan.threshold)[0]

    patch.setattr(PairwiseServer, "_open", opened)


MUTANTS = [
    (both_secrets_of_a_client, forgetful),
    (both_secrets_at_the_server, trusting_server),
    (two_sets_of_masks, forgetful_helper),
    (two_sets_of_one_aggregation, forgetful_helper),
    (a_piece_at_0, points_from_0),
    (a_share_at_0_or_twice, unguarded_shares),
    (secrets_used_again, one_seed_for_all),
    (secrets_used_again, standing_ratchet),
    (a_mask_used_twice, forgetful),
    (a_mask_used_twice, tireless_member),
    (a_late_vector, single_masking),
    (sums_under_the_least, small_sums),
    (sums_of_weights_of_zero, any_weights),
    (sums_of_parts_of_units, no_units),
    (sums_of_parts_of_units, no_weights_of_units),
    (sums_of_separate_groups, lonely_sums),
    (short_seeds, seeds_of_32_bits),
    (keys_of_low_order, any_key),
    (one_key_twice, repeated_keys),
    (sums_that_wrap, careless_grid),
    (masks_of_one_number, scalar_masks),
    (forged_shares, any_share),
    (forged_keys, any_opened_key),
]


@pytest.mark.parametrize("attack", dict.fromkeys(attack for attack, _ in MUTANTS))
def test_an_attack_fails(attack):
    attack()


@pytest.mark.parametrize("attack, mutant", MUTANTS)
def test_it_succeeds_on_a_mutant(attack, mutant, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        attack()


def test_two_answers_would_show_a_mask():
    """Why there is one answer: sums of pieces over two sets that differ in one client give its mask."""

    code = MaskCode(3, 1, D)
    owners = [Owner(code, j, Streams(0), "test", j) for j in range(3)]
    pieces = np.array([owner.pieces(np.arange(3) + 1) for owner in owners])
    sums = [{j: pieces[:last, j].sum(axis=0) % Q for j in range(3)} for last in (3, 2)]
    difference = (decode_sum(code, sums[0]) - decode_sum(code, sums[1])) % Q
    assert difference.tolist() == elements(owners[2].seeds[0], D).tolist()


# -- distributions --------------------------------------------------------------------------------------


def test_the_last_rows_keep_any_helpers_from_learning():
    """Any T columns of the last T rows are independent, as the a_j are distinct and not 0."""
    for survivors, private in ((3, 2), (5, 3), (7, 5)):
        powers = vandermonde(np.arange(9) + 1, survivors)[:, survivors - private :]
        for some in itertools.combinations(range(9), private):
            inverse(powers[list(some)])  # raises if they are not


def test_pieces_of_two_masks_look_alike(monkeypatch):
    """T helpers see the same distribution whatever the mask."""
    found = []
    for mask in (0, Q - 1):
        seen = []
        for i in range(1500):
            owner = Owner(MaskCode(4, 3, D), 0, Streams(i + 10**6 * (mask > 0)), "test", 0)
            known = {owner.seeds[0]: np.full(D, mask)}
            drawn = known | {owner.seeds[1]: elements(owner.seeds[1], 3 * D)}
            monkeypatch.setattr(coded_session, "elements", lambda seed, count, drawn=drawn: drawn[seed][:count])
            seen.append(owner.pieces(np.array([1, 3, 4])))
        found.append(buckets(np.array(seen)))
    assert alike(*found) > 0.001 and min(map(even, found)) > 0.001


def views(inputs, seeds):
    """What server and third client see of two others: each vector in buckets, and both together."""
    first = np.array([one for seed in seeds for one in [masked(inputs, seed)]])
    return [in_cells(first[:, 0]), in_cells(first[:, 1]), in_cells(first[:, 0], first[:, 1])]


def in_cells(*values, count=6):
    """A joint histogram, each of the values in so many buckets."""
    cells = np.zeros(values[0].size, dtype=np.int64)
    for some in values:
        cells = count * cells + (some.ravel() * count // Q).astype(np.int64)
    return np.bincount(cells, minlength=count ** len(values))


def masked(inputs, seed):
    """The vectors of the first two of three: b is opened for the sum, and the third knows the masks shared with it."""
    clients, server = cohort([0, 1, 2], seed=seed)
    left = []
    for u in (0, 1):
        vector = clients[u].mask(np.full(D, inputs[u])) - elements(clients[u].secrets.self_mask, D)
        known = seed_between(0, clients[2].secrets.mask, server.keys[u].mask, 2, u)
        left.append((vector - elements(known, D)) % Q)
    return left


@pytest.mark.parametrize("inputs", [((5, -3), (10**9, 2 - 10**9)), ((0, 0), (-(2**30), 2**30))])
def test_views_of_equal_sums_look_alike(inputs):
    """All that is left of two vectors when everything known is taken off: one mask between them, and their sum."""
    one, other = (views(some, range(300 * i, 300 * i + 300)) for i, some in enumerate(inputs))
    assert all(alike(a, b) > 0.001 for a, b in zip(one, other, strict=True))
    assert all(even(a) > 0.001 for a in (*one[:2], *other[:2]))
    assert masked(inputs[0], 7)[0].tolist() != masked(inputs[0], 8)[0].tolist()
    assert sum(masked(inputs[1], 7)).tolist() != [0] * D and (sum(masked(inputs[1], 7)) % Q == sum(inputs[1]) % Q).all()


def coded_views(inputs, seeds):
    """What the server and T = 2 of the helpers see of two vectors: them, these pieces, and the sum of the masks."""
    code, places = MaskCode(3, 2, D), np.array([1, 3])
    seen = []
    for seed in seeds:
        owners = [Owner(code, label, Streams(seed), "test", label) for label in (0, 1)]
        vectors = [owner.mask(np.full(D, x)) for owner, x in zip(owners, inputs, strict=True)]
        pieces = [owner.pieces(places) for owner in owners]
        assert ((sum(vectors) - sum(elements(owner.seeds[0], D) for owner in owners)) % Q == sum(inputs) % Q).all()
        seen.append((vectors[0], vectors[1], pieces[0][0], pieces[0][1], pieces[1][0]))
    y0, y1, first, second, other = (np.array(some) for some in zip(*seen, strict=True))
    return [in_cells(y0, first), in_cells(y0, second), in_cells(first, second), in_cells(y0, first, second, count=3),
            in_cells(y0, y1, count=4), in_cells(y1, other)]  # fmt: skip


def test_views_of_coded_masks_look_alike():
    """The sum of the masks is opened: of vectors with equal sums, vectors and pieces are evenly spread all the same."""
    one, other = coded_views((5, -3), range(300)), coded_views((10**9, 2 - 10**9), range(300, 600))
    assert all(alike(a, b) > 0.001 for a, b in zip(one, other, strict=True))
    assert all(even(a) > 0.001 and even(b) > 0.001 for a, b in zip(one, other, strict=True))


def without_rows(patch):
    """A mask whose pieces are those of the mask alone: its random rows are left out."""
    real = coded_session.elements
    patch.setattr(coded_session, "elements", lambda seed, count: real(seed, count) * (count == D))


def test_views_show_a_code_without_random_rows(monkeypatch):
    without_rows(monkeypatch)
    assert min(even(some) for some in coded_views((5, -3), range(300))) < 1e-9


def test_views_show_a_mask_that_is_used_again(monkeypatch):
    """One and the same mask between everybody and in every aggregation hides nothing."""
    for module in (pairwise_session, sys.modules[__name__]):
        monkeypatch.setattr(module, "seed_between", lambda number, private, public, a, b: bytes(32))
    one, other = (views(some, range(50)) for some in ((5, -3), (10**9, 2 - 10**9)))
    assert alike(one[2], other[2]) < 1e-9
