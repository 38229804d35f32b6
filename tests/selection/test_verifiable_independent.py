"""Server and clients of checked selections once more, from docs/explanation/proofs/verifiable.md alone.

Families of rows, the rules of a client, masks, shares and what a server makes of the messages are written here without
simfl's rules, policies or protocols, and whole numbers modulo a prime decide what is known. Then simfl's checks are
asked about every claim of small federations, and the bytes of its runs are compared with a count by hand.
"""

import json
from dataclasses import replace
from functools import cache
from itertools import chain, combinations, product

import numpy as np
import pytest

from simfl.core.rng import Streams
from simfl.runs.run import run
from simfl.scenario import Scenario
from simfl.secagg.pairwise import SecAgg
from simfl.selection.base import POLICIES
from simfl.selection.verifiable import CHECKS, Claim, Receipt, Verifier

PRIME = 2**31 - 1
STREAMS = Streams(3)


def batches(clients, k, T):
    """Every row of k/T of the batches of T."""
    return {frozenset(row) for row in combinations([frozenset(range(i, i + T)) for i in range(0, clients, T)], k // T)}


def halves(clients, k, T):
    """Every row of k/T disjoint pairs of neighbouring half-batches on the circle."""
    h = T // 2
    units = [frozenset((s + j) % clients for j in range(T)) for s in range(0, clients, h)]
    return {frozenset(row) for row in combinations(units, k // T) if len(frozenset().union(*row)) == k}


FAMILIES = {"batch_partition": batches, "half_partition": halves}


@cache
def unions(row):
    """The sums that are whole."""
    return [frozenset().union(*units) for n in range(len(row) + 1) for units in combinations(row, n)]


def free(columns, messages):
    """A basis modulo a prime of the combinations of messages that leave none of the columns; one row a combination."""
    rows = [[column.get(i, 0) % PRIME for column in columns] + [int(i == j) for j in messages] for i in messages]
    top, width = 0, len(columns)
    for c in range(width):
        pivot = next((r for r in range(top, len(rows)) if rows[r][c]), None)
        if pivot is None:
            continue
        rows[top], rows[pivot] = rows[pivot], rows[top]
        inverse = pow(rows[top][c], -1, PRIME)
        for r in range(top + 1, len(rows)):
            if factor := rows[r][c] * inverse % PRIME:
                rows[r] = [(x - factor * y) % PRIME for x, y in zip(rows[r], rows[top], strict=True)]
        top += 1
    return [row[width:] for row in rows[top:]]


@cache
def combinations_known(masks, open_masks, open_keys):
    """What messages tell: ``masks`` is (client, the clients with whom it masks) of all who have sent."""
    senders = dict(masks)
    columns = [{i: 1} for i in senders if i not in open_masks]
    for u, v in {(min(i, j), max(i, j)) for i, others in masks for j in others if i != j}:
        if not {u, v} & open_keys:
            columns.append({i: sign for i, j, sign in ((u, v, 1), (v, u, -1)) if j in senders.get(i, ())})
    return free(columns, list(senders))


def opened(told, t, liars=frozenset(), steps=None):
    """Whose own mask, and whose key, is open.

    ``told`` is client -> (row, masked, holders, sum) of those who have sent; keys of all others are taken to be open.
    Liars give the server both shares of everybody. ``steps`` are what is signed and what opened, client -> sum; by the
    rules one step, and both are the client's sum.
    """
    shares, own = dict.fromkeys(product(told, (True, False)), 0), {i: chosen for i, (*_, chosen) in told.items()}
    for signs, opens in steps or [(own, own)]:
        signed = {i: chosen for i, chosen in signs.items() if chosen in unions(told[i][0])}
        for i, chosen in opens.items():
            if chosen in unions(told[i][0]) and all(signed.get(j) == chosen for j in chosen - liars):
                for owner in told.keys() & told[i][1] - {i}:
                    shares[owner, owner in chosen] += i in told[owner][2]
    masks, keys = ({i for i in told if shares[i, kind] + len(told[i][2] & liars) >= t} for kind in (True, False))
    others = frozenset().union(*(masked for _, masked, _, _ in told.values())) - told.keys()
    return frozenset(masks | liars), frozenset(keys | others)


def splits(told, t, liars=frozenset(), steps=None):
    """The units of honest senders that some combination of what the server knows tells apart."""
    sent = {i: masked for i, (_, masked, _, _) in told.items()}
    everybody = frozenset().union(*sent.values())
    masks = tuple(sorted((i, frozenset(sent.get(i, everybody))) for i in {*sent, *liars}))
    found = set()
    for row in combinations_known(masks, *opened(told, t, liars, steps)):
        of = dict(zip((i for i, _ in masks), row, strict=True))
        units = {unit for i in told for unit in told[i][0] if i in unit}
        found |= {unit for unit in units if not unit & liars and len({of.get(i, 0) for i in unit}) > 1}
    return found


def lie(row, rng):
    """To every client any masks and holders that pass *masks*, and any whole sum."""
    everybody, told = frozenset().union(*row), {}
    for unit in row:
        for i in unit:
            level = dict(zip(sorted(everybody), rng.integers(3, size=len(everybody)).tolist(), strict=True))
            masked, holders = (unit | {j for j in everybody if level[j] >= least} for least in (2, 1))
            told[i] = row, masked, holders, unions(row)[rng.integers(2 ** len(row))]
    return told


TWO, TABLE = frozenset({frozenset({0, 1}), frozenset({2, 3})}), np.array([[0, 1], [2, 3]], dtype=np.int32)


@pytest.mark.parametrize("units, lies", [(2, 4000), (3, 1500), (4, 300)])
def test_no_masks_holders_and_sums_told_to_the_clients_of_a_row_split_a_unit(units, lies):
    """Each client is told its own; most of the time one of two sums, as few others are signed by all; units fail."""
    rng = np.random.default_rng(units)
    row = frozenset(frozenset({i, i + 1}) for i in range(0, 2 * units, 2))
    for _ in range(lies):
        told = lie(row, rng)
        if rng.random() < 0.7:
            two = [unions(row)[each] for each in rng.integers(2**units, size=2)]
            told = {i: (*each[:3], two[int(i in two[1])]) for i, each in told.items()}
        left = [i for i in told if i < 2 or rng.random() < 0.9]
        assert not splits({i: told[i] for i in left}, units)


@pytest.mark.slow
@pytest.mark.parametrize("family, k", [*product(FAMILIES, (4, 6))])
def test_no_rows_and_sums_told_to_six_clients_split_a_unit(family, k):
    """Every unit that sends is told any row with it, each of its clients any whole sum of that: all there are."""
    rows = FAMILIES[family](6, k, 2)
    for units in chain.from_iterable(combinations({unit for row in rows for unit in row}, n) for n in (1, 2, 3)):
        if len(frozenset().union(*units)) == 2 * len(units):
            for of in product(*([row for row in rows if unit in row] for unit in units)):
                who = [(i, row, unions(row)[-1]) for unit, row in zip(units, of, strict=True) for i in unit]
                for sums in product(*(unions(row) for _, row, _ in who)):
                    told = {i: (row, all_, all_, chosen) for (i, row, all_), chosen in zip(who, sums, strict=True)}
                    assert not splits(told, k // 2)


def test_fewer_shares_masks_of_a_part_holders_from_elsewhere_or_a_second_sum_split_a_unit():
    """What the rules ask for is needed: the program does find what it looks for. A second sum is asked for after a
    later round, or instead of the first one, which lacks a signature.
    """
    unit, none, all4 = frozenset({0, 1}), frozenset(), frozenset(range(4))
    told = {i: (TWO, all4, all4, unit if i < 2 else none) for i in all4}
    assert not splits(told, t=2) and splits(told, t=1)
    told = {i: (TWO, all4, all4, unit) for i in all4}
    first, later = dict.fromkeys(told, unit), dict.fromkeys(told, none)
    assert not splits(told, t=2) and not splits(told, t=2, steps=[(first, first)])
    assert splits(told, t=2, steps=[(first, first), (later, later)])
    assert splits(told, t=2, steps=[(first, {0: unit, 1: none, 2: unit, 3: none})])
    assert splits(told | {i: (TWO, all4 - {1 - i}, all4, unit) for i in unit}, t=2)
    far = frozenset({frozenset({4, 5}), frozenset({6, 7})})
    told |= {i: (far, all4 | {4, 5}, all4 | {4, 5}, none) for i in (4, 5)}
    assert splits(told | {0: (TWO, all4, all4 | {4, 5}, unit)}, t=2)


@pytest.mark.parametrize("n, sybils", [(4, 1), (6, 1), (6, 2)])
def test_clients_of_the_servers_own_anywhere_in_the_row_take_as_many_more_shares_as_the_proof_says(n, sybils):
    """2t >= n + s keeps the units without a Sybil whole; with one share less some sums split one."""
    row = frozenset(frozenset({i, i + 1}) for i in range(0, n, 2))
    everybody, liars = frozenset(range(n)), frozenset(range(n - sybils, n))
    sums = [frozenset(), frozenset({0, 1}), everybody, frozenset({2, 3})]
    every, enough = product(sums, repeat=n - sybils), -(-(n + sybils) // 2)
    told = [{i: (row, everybody, everybody, chosen) for i, chosen in enumerate(each)} for each in every]
    assert not any(splits(each, enough, liars) for each in told)
    assert any(splits(each, enough - 1, liars) for each in told)
    assert all(2 * SecAgg().sizes(n)[1] >= n for n in range(2, 200)) and not SecAgg(threshold=0.49).opens_confirmed


def policy_of(inner):
    return POLICIES.of({"name": "verifiable", "inner": {"name": inner, "k": 4, "T": 2, "mode": "uniform"}})


@pytest.mark.parametrize("inner, clients", [("batch_partition", 4), ("batch_partition", 6), ("half_partition", 6)])
def test_the_rows_that_pass_are_those_of_the_family(inner, clients):
    """Whoever is said to be available, of however many clients."""
    policy, family, found = policy_of(inner), FAMILIES[inner](clients, 4, 2), set()
    for n in range(clients + 3):
        for there in product([False, True], repeat=n):
            available = np.array(there, dtype=bool)
            fits = n % 2 == 0 or inner == "half_partition"
            drawn = Verifier(0, policy, STREAMS, clients).row(2, available) if fits else TABLE
            row = frozenset(frozenset(unit) for unit in drawn.tolist())
            for me in range(clients):
                claim = Claim(2, available, drawn, b"m", b"m", frozenset(), frozenset(), (), frozenset(), {})
                passes = CHECKS["row"](Verifier(me, policy, STREAMS, clients), claim)
                assert passes == (n == clients and any(me in unit for unit in row))
            if n == clients and row:
                assert row in family and available[drawn].all()
                found.add(row)
    assert found == family


def test_every_claim_of_masks_receipts_and_sums_is_judged_as_the_text_says():
    """Of four clients in two units, what client 1 is told, each check by all that it depends on."""
    me, row, all4 = 1, TWO, frozenset(range(4))
    units, there = TABLE, np.ones(4, dtype=bool)
    verifier = Verifier(me, policy_of("batch_partition"), STREAMS, 4, last_round=2)
    base = Claim(3, there, units, b"m", b"m", all4, all4, (), all4, {})
    five = unions(tuple(frozenset({i}) for i in range(5)))
    for masked, holders in product(five, five):
        expected = {0, 1} <= masked <= holders <= all4
        assert CHECKS["masks"](verifier, base._replace(masked=masked, holders=holders)) == expected
    receipts = [Receipt(*each) for each in product((0, 2), (2, 3), (units.tobytes(), b""), (b"m", b"z"))]
    right = Receipt(0, 3, units.tobytes(), b"m")
    for some, sent in product(chain(combinations(receipts, 1), combinations(receipts, 2), [()]), (b"m", b"z")):
        assert CHECKS["unit"](verifier, base._replace(receipts=some, sent=sent)) == (right in some and sent == b"m")
    for summed in five:
        assert CHECKS["whole"](verifier, base._replace(summed=summed)) == (summed in unions(row))
        for others in product((None, summed, all4), repeat=len(summed)):
            agreed = {i: each for i, each in zip(sorted(summed), others, strict=True) if each is not None}
            claim = base._replace(summed=summed, agreed=agreed)
            assert CHECKS["agree"](verifier, claim) == all(agreed.get(i) == summed for i in summed)
    for taken, t in product([None, *unions(row)], range(5)):
        expected = t > 2 or (t == 2 and taken in (None, all4))
        assert CHECKS["one"](replace(verifier, known_sum=taken), base._replace(round=t)) == expected
    assert [CHECKS["once"](verifier, base._replace(round=t)) for t in range(5)] == [False, False, False, True, True]


RUN = """{clients: 24, training: {name: fedavg, rounds: 5, weighting: equal}, learning: {name: none, parameters: 10},
selection: {name: verifiable, inner: {name: batch_partition, k: 8, T: 4, mode: uniform}},
secagg: secagg, devices: {computation: {name: constant, seconds: 1}}}"""


def test_checks_cost_the_bytes_and_seconds_that_the_text_counts(tmp_path):
    """n = 8 of 24 in a row, units of 4: signed keys, a receipt, a signed sum; those of others."""
    inner = "selection={name: batch_partition, k: 8, T: 4, mode: uniform}"
    checked, believed = (
        json.loads((run(Scenario.parse(RUN, "t", overrides), tmp_path).path / "summary.json").read_text())
        for overrides in (["selection.sign_s=0.1", "selection.verify_s=0.01"], [inner])
    )
    n, T, clients, rounds, signature, number, digest = 8, 4, 24, 5, 64, 4, 32
    up, seconds = signature + 2 * (number + signature), 3 * 0.1 + ((n - 1) + (T - 1) + n) * 0.01
    told = number + clients // 8 + digest
    down = (n - 1) * signature + told + (T - 1) * (number + signature) + n // 8 + n * (number + signature)
    assert checked["bytes_up"] - believed["bytes_up"] == up * n * rounds
    assert checked["bytes_down"] - believed["bytes_down"] == down * n * rounds
    assert checked["time_s"] - believed["time_s"] == pytest.approx(seconds * rounds)
    assert checked["guarantee_malicious"] == 4
