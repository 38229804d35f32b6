"""Every lie of a server that passes all checks of honest clients leaves the guarantee; each check is needed for it.

The judge is an elimination of its own over the masks between pairs (Bonawitz et al. 2017): whatever honest clients send
and open, the combinations of messages in which no unknown mask remains are what the server knows.
"""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations, islice, product
from math import inf

import numpy as np
import pytest

from simfl.core.rng import Streams
from simfl.core.types import View
from simfl.secagg.pairwise import SecAgg
from simfl.selection.base import POLICIES
from simfl.selection.verifiable import CHECKS, Claim, Verifier
from tests.support.privacy_brute import eliminate, null_space, semi_strong


class Quick(Verifier):
    """One that remembers the rows that it has computed."""

    def row(self, t, available):
        return remembered(self.policy, t, available.tobytes())


@cache
def remembered(policy, t, available):
    return beacon(policy, t, np.frombuffer(available, dtype=bool))


def beacon(policy, t, there):
    return Verifier(0, policy, STREAMS, len(there)).row(t, there)


SENT, OPENED = ("row", "masks", "unit", "once"), ("whole", "agree")
REAL, ZEROING = b"model", b"a model with which every update is 0"
STREAMS = Streams(7)


def verifiable(inner="batch_partition", k=4):
    return POLICIES.of({"name": "verifiable", "inner": {"name": inner, "k": k, "T": 2, "mode": "uniform"}})


@cache
def known(uploads, opened):
    """A basis of what the server knows: rows over (client, run), of the real models.

    Args:
        uploads: (client, run, the clients with whom it shares masks, those who hold shares of its secrets and how many
            open one, whether its update is 0) of what was sent.
        opened: (client, the clients with whom it shares masks, the clients that it has helped to sum) of those who have
            answered.
    """
    rosters = {client: roster for client, _, _, roster, _ in uploads}

    def is_open(client, summed):
        """Whether enough holders have opened its own mask, or the key of its masks between pairs."""
        if client not in rosters:
            return not summed  # it has sent nothing: nothing of it is to be hidden
        roster, needed = rosters[client]
        shares = sum(
            1 for i, others, chosen in opened
            if i != client and i in roster and client in others and (client in chosen) == summed
        )  # fmt: skip
        return shares >= needed

    unknown = {}
    for client, run, masked, _, _ in uploads:
        if not is_open(client, True):
            unknown.setdefault(("own", client), {})[client, run] = 1
        for other in masked - {client}:
            if not (is_open(client, False) or is_open(other, False)):
                pair = unknown.setdefault(("pair", *sorted((client, other))), {})
                pair[client, run] = 1 if client < other else -1
    messages = [(client, run) for client, run, *_ in uploads]
    masks = [[Fraction(of.get(message, 0)) for message in messages] for of in unknown.values()]
    zero = {(client, run) for client, run, _, _, zeroed in uploads if zeroed}
    return messages, zero, null_space(masks, len(messages)) if masks else np.eye(len(messages), dtype=int).tolist()


def rows_of(uploads, opened, clients):
    """What the server knows of updates that do not change, rows of ``clients`` fractions."""
    messages, zero, basis = known(uploads, opened)
    rows = []
    for combination in basis:
        row = [Fraction(0)] * clients
        for (client, run), factor in zip(messages, combination, strict=True):
            if (client, run) not in zero:
                row[client] += Fraction(factor)
        if any(row):
            rows.append(tuple(row))
    return rows


def play(policy, clients, told, checks, last_round=-1, t=3):
    """What is sent and opened by honest clients, each of whom is told (available, units, model, summed), and perhaps
    with whom it shares masks and who holds its shares, which are else all of its row.

    The server shows each of them all that there is, which they can only have less reason to refuse.
    """
    verifiers = {i: Quick(i, policy, STREAMS, clients, last_round) for i in told}
    claims = {}
    for i, (there, units, model, summed, *masks) in told.items():
        masked, holders = masks or 2 * (frozenset(units.ravel().tolist()),)
        claims[i] = Claim(t, there, units, model, model, holders, masked, (), summed, {})

    def passes(i, names):
        return all(CHECKS[name](verifiers[i], claims[i]) for name in names if name in checks)

    receipts = tuple(verifiers[i].receipt(claims[i]) for i in told if passes(i, ("row", "masks", "once")))
    claims = {i: claim._replace(receipts=receipts) for i, claim in claims.items()}
    senders = [i for i in told if passes(i, SENT)]
    agreed = {i: claims[i].summed for i in senders if passes(i, ("whole",))}
    claims = {i: claim._replace(agreed=agreed) for i, claim in claims.items()}
    if not senders:
        return frozenset(), frozenset()
    openers = [i for i in senders if passes(i, OPENED)]
    holders = {i: (claims[i].holders, SecAgg().sizes(claims[i].units.size)[1]) for i in senders}
    uploads = frozenset((i, claims[i].masked, holders[i], claims[i].model == ZEROING) for i in senders)
    return uploads, frozenset((i, claims[i].masked, claims[i].summed) for i in openers)


def seen(policy, clients, told, checks):
    uploads, opened = play(policy, clients, told, checks)
    return rows_of(frozenset((i, 0, *rest) for i, *rest in uploads), opened, clients)


def guarantee(rows):
    """The exact semi-strong value of all that was seen in any rounds together."""
    return semi_strong(eliminate(rows)[0]) if rows else inf


def drawable(policy, clients):
    """The rows that some claim of who is available makes the beacon select, each with such a claim."""
    found = {}
    for there in product([False, True], repeat=clients):
        units = beacon(policy, 3, np.array(there))
        if units.size:
            found.setdefault(units.tobytes(), (np.array(there), units))
    return list(found.values())


def unions(units):
    """The clients of any units of a row, also of none."""
    units = [frozenset(unit) for unit in units.tolist()]
    return [frozenset().union(*some) for n in range(len(units) + 1) for some in combinations(units, n)]


def keeps(policy, clients, every_told, checks=frozenset(CHECKS)):
    """The guarantee after all these lies, one after the other, and how many were told."""
    rows, count = set(), 0
    for told in every_told:
        rows.update(seen(policy, clients, told, checks))
        count += 1
    return guarantee([list(row) for row in rows]), count


def lies_about_models_and_sums(policy, clients, some_sums):
    """Of a round with the true row: to every client any model, and any of these sums."""
    there = np.ones(clients, dtype=bool)
    units = beacon(policy, 3, there)
    members = units.ravel().tolist()
    for others in product((REAL, ZEROING), repeat=len(members) - 1):
        models = (REAL, *others)
        for sums in product(some_sums(units), repeat=len(members)):
            yield {i: (there, units, model, summed) for i, model, summed in zip(members, models, sums, strict=True)}


@pytest.mark.parametrize("inner", ["batch_partition", "half_partition"])
def test_any_models_and_sums_told_to_single_clients_leave_the_guarantee(inner):
    policy = verifiable(inner)
    refused = frozenset({"a sum that no client opens"})
    clients = 4 if inner == "batch_partition" else 8
    lies = lies_about_models_and_sums(policy, clients, lambda units: [refused, *unions(units)])
    assert keeps(policy, clients, lies) == (2, 8 * 5**4)


@pytest.mark.parametrize("inner", ["batch_partition", "half_partition"])
@pytest.mark.parametrize("clients", [6, 8])
def test_any_rows_and_sums_told_to_units_leave_the_guarantee(inner, clients):
    """Different units of one round may be told of different rows, by different claims of who is available."""
    policy = verifiable(inner)
    rows = drawable(policy, clients)
    assert len(rows) >= 3
    claims = [
        (there, units, model, summed) for there, units in rows for model in (REAL, ZEROING) for summed in unions(units)
    ]
    by_unit = {}
    for claim in claims:
        for unit in claim[1].tolist():
            by_unit.setdefault(tuple(sorted(unit)), []).append(claim)
    pairs = ((a, b) for a, b in combinations(by_unit, 2) if not set(a) & set(b))
    lies = (
        dict.fromkeys(a, one) | dict.fromkeys(b, other)
        for a, b in pairs for one in by_unit[a] for other in by_unit[b]
    )  # fmt: skip
    value, count = keeps(policy, clients, islice(lies, 0, None, 1 if clients == 6 else 7))  # of 8 clients, each seventh
    assert value == 2 and count > 450


def test_any_rows_and_sums_told_to_two_clients_of_a_unit_leave_the_guarantee():
    """Of three units: to each of the two, and to each of the other units, any row with it and any sum of that."""
    policy = verifiable()
    told = {}
    for there, units in drawable(policy, 6):
        for unit in units.tolist():
            told.setdefault(tuple(sorted(unit)), []).extend((there, units, REAL, summed) for summed in unions(units))
    assert {unit: len(claims) for unit, claims in told.items()} == {(0, 1): 8, (2, 3): 8, (4, 5): 8}
    lies = (
        {0: first, 1: second} | dict.fromkeys((2, 3), b) | dict.fromkeys((4, 5), c)
        for first, second, b, c in product(told[0, 1], told[0, 1], told[2, 3], told[4, 5])
    )
    assert keeps(policy, 6, lies) == (2, 8**4)


@pytest.mark.parametrize("clients", [6, 8])
def test_any_lies_drawn_at_random_leave_the_guarantee(clients):
    rng = np.random.default_rng(1)
    policy = verifiable("half_partition" if clients == 8 else "batch_partition")
    rows = drawable(policy, clients)

    def lie():
        told = {}
        for i in range(clients):
            there, units = rows[rng.integers(len(rows))] if i == 0 or rng.random() < 0.3 else told[0][:2]
            sums = [*unions(units), frozenset(rng.permutation(clients)[: rng.integers(clients)].tolist())]
            summed = sums[rng.integers(len(sums))] if i == 0 or rng.random() < 0.3 else told[0][3]
            told[i] = there, units, (REAL, ZEROING)[int(rng.random() < 0.2)], summed
        return told

    value, _ = keeps(policy, clients, (lie() for _ in range(1500)))
    assert value == 2


# -- Each check is needed: without it one of these lies breaks what it keeps --------------------------------------


def honest(policy, clients=8):
    there = np.ones(clients, dtype=bool)
    units = beacon(policy, 3, there)
    return there, units, units.ravel().tolist()


def a_row_of_the_servers_choice(policy):
    """Clients one by one, and in the next round all of them but the victim."""
    there, _, members = honest(policy)
    wrong = np.array(members, dtype=np.int32)[:, None]
    return [{i: (there, wrong, REAL, frozenset(members[: n or None])) for i in members} for n in (0, -1)]


def a_model_that_makes_others_send_nothing(policy):
    there, units, members = honest(policy)
    return [{i: (there, units, REAL if i == members[0] else ZEROING, frozenset(members)) for i in members}]


def different_rows_within_a_unit(policy):
    """u and v are one unit; u's masks are with b, v's with c. They agree on their own unit as the sum: b, who is to sum
    b only, opens u's key; c opens v's own mask, and the keys of c."""
    rows = [(there, units) for there, units in drawable(policy, 8)]
    for (there, one), (else_there, other) in product(rows, rows):
        ones, others = set(map(frozenset, one.tolist())), set(map(frozenset, other.tolist()))
        if len(ones & others) != 1 or one.ravel().tolist() == other.ravel().tolist():
            continue
        (unit,), (rest,), (more,) = ones & others, ones - others, others - ones
        if rest & more:
            continue
        u, v = sorted(unit)
        told = {u: (there, one, REAL, unit), v: (else_there, other, REAL, unit)}
        told |= dict.fromkeys(rest, (there, one, REAL, rest)) | dict.fromkeys(more, (else_there, other, REAL, unit))
        return [told]


def a_member_that_is_said_to_have_failed(policy):
    there, units, members = honest(policy)
    return [{i: (there, units, REAL, frozenset(members[: n or None])) for i in members} for n in (0, -1)]


def different_sums_for_different_clients(policy):
    """Two open the mask of the third and the keys of the fourth, whom the third thinks to be in the sum."""
    there, units, members = honest(policy)
    everybody, half = frozenset(members), frozenset(members[:2])
    sums = everybody, half, half, everybody
    return [{i: (there, units, REAL, summed) for i, summed in zip(members, sums, strict=True)}]


def shares_withheld_within_a_unit(policy):
    """The two of a unit have no mask with one another; the keys of the others are opened, as if they had failed."""
    there, units, members = honest(policy)
    unit, row = frozenset(units[0].tolist()), frozenset(members)
    return [{i: (there, units, REAL, unit, row - (unit - {i}) if i in unit else row, row) for i in members}]


LIES = {
    "masks": shares_withheld_within_a_unit,
    "unit ": different_rows_within_a_unit,
    "row": a_row_of_the_servers_choice,
    "unit": a_model_that_makes_others_send_nothing,
    "whole": a_member_that_is_said_to_have_failed,
    "agree": different_sums_for_different_clients,
}


@pytest.mark.parametrize("inner", ["batch_partition", "half_partition"])
@pytest.mark.parametrize("check", LIES)
def test_without_one_check_a_lie_breaks_the_guarantee(check, inner):
    policy = verifiable(inner)
    lies = LIES[check](policy)
    there, units, members = honest(policy)
    truth = {i: (there, units, REAL, frozenset(members)) for i in members}
    assert keeps(policy, 8, [truth, *lies])[0] >= 2
    assert keeps(policy, 8, [truth, *lies], frozenset(CHECKS) - {check.strip()})[0] == 1


def test_a_round_that_is_answered_twice_shows_single_updates():
    """Its masks are the same: the two messages of a client differ by its updates, of which one may be 0."""
    policy = verifiable()
    there, units, members = honest(policy)
    for checks, expected in ((frozenset(CHECKS), 4), (frozenset(CHECKS) - {"once"}, 1)):
        runs, opened = [], frozenset()
        for run, (model, last_round) in enumerate(((REAL, 2), (ZEROING, 3))):
            told = {i: (there, units, model, frozenset(members)) for i in members}
            uploads, opens = play(policy, 8, told, checks, last_round)
            runs += [(i, run, *rest) for i, *rest in uploads]
            opened |= opens
        assert guarantee([list(row) for row in rows_of(frozenset(runs), opened, 8)]) == expected


def test_who_follows_the_policy_is_never_refused():
    for inner, t in product(("batch_partition", "half_partition"), range(20)):
        policy, there = verifiable(inner), np.random.default_rng(t).random(12) < 0.8
        units = policy.select(View(t, there, np.arange(12)), 4, STREAMS("selection", t))
        members = frozenset(units.ravel().tolist())
        agreed = dict.fromkeys(members, members)
        claim = Claim(t, there, units, REAL, REAL, members, members, (), members, agreed)
        verifiers = {i: Verifier(i, policy, STREAMS, 12, t - 1) for i in members}
        claim = claim._replace(receipts=tuple(each.receipt(claim) for each in verifiers.values()))
        assert not any(each.objections(claim) for each in verifiers.values())


@pytest.mark.parametrize("inner", ["batch_partition", "half_partition"])
def test_any_holders_and_masks_told_to_the_clients_of_a_unit_leave_the_guarantee(inner):
    """Who shares masks with each of the two, who holds its shares, and any sums; all others are told the truth."""
    policy = verifiable(inner)
    there, units, members = honest(policy)
    (u, v), row = units[0].tolist(), frozenset(members)
    told = [
        (frozenset(masked) | {me}, frozenset(holders) | {me}) for me in (u, v)
        for holders in subsets(row - {me}) for masked in subsets(holders)
    ]  # fmt: skip
    sums = unions(units)
    lies = (
        {u: (there, units, REAL, mine, *ours), v: (there, units, REAL, mine, *theirs)}
        | {i: (there, units, REAL, other) for i in row - {u, v}}
        for ours in told if u in ours[0] for theirs in told if v in theirs[0] for mine in sums for other in sums
    )  # fmt: skip
    assert keeps(policy, 8, lies)[0] == 2


def subsets(some):
    return [each for n in range(len(some) + 1) for each in combinations(sorted(some), n)]


@pytest.mark.parametrize("inner", ["batch_partition", "half_partition"])
@pytest.mark.parametrize("claimed", [5, 6, 7, 9, 10])
def test_another_number_of_clients_is_refused(inner, claimed):
    """Of half-batches on a circle of an odd number, an alternating sum shows a single one."""
    policy = verifiable(inner)
    there, units, members = honest(policy)
    row, true = frozenset(members), np.ones(claimed, dtype=bool)
    for available in (true, there.astype(np.int8)):
        claim = Claim(3, available, units, REAL, REAL, row, row, (), row, {})
        assert "row" in Verifier(members[0], policy, STREAMS, 8).objections(claim)


def test_what_is_sent_is_what_was_signed():
    policy = verifiable()
    there, units, members = honest(policy)
    row = frozenset(members)
    claim = Claim(3, there, units, REAL, REAL, row, row, (), row, dict.fromkeys(members, row))
    me, *_ = verifiers = [Verifier(i, policy, STREAMS, 8) for i in members]
    claim = claim._replace(receipts=tuple(each.receipt(claim) for each in verifiers))
    assert me.objections(claim) == []
    assert me.objections(claim._replace(sent=ZEROING)) == ["unit"]
    for last_round, taken, objections in (
        (2, frozenset(), []), (3, None, ["once"]), (3, row, ["once"]), (3, frozenset(), ["once", "one"]),
        (4, None, ["once", "one"]), (4, row, ["once", "one"]),
    ):  # fmt: skip
        assert sorted(replace(me, last_round=last_round, known_sum=taken).objections(claim)) == objections
    assert me.objections(claim._replace(model=ZEROING, sent=ZEROING)) == ["unit"]


def test_a_server_that_lies_gets_any_row_of_the_family_and_no_other():
    """Nobody can check who is available: whoever is not wanted is not."""
    policy = verifiable()
    for one in combinations([[0, 1], [2, 3], [4, 5], [6, 7]], 2):
        wanted = np.array(one, dtype=np.int32)
        there = np.isin(np.arange(8), wanted)
        for t in range(20):
            assert sorted(beacon(policy, t, there).ravel()) == sorted(wanted.ravel())
    rows = {frozenset(map(frozenset, units.tolist())) for _, units in drawable(policy, 8)}
    assert rows == {frozenset(map(frozenset, one)) for one in combinations([[0, 1], [2, 3], [4, 5], [6, 7]], 2)}
