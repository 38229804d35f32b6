"""A second judge of checked selections: server and clients by the text of docs/explanation/proofs/verifiable.md alone.

It shares no code with the rule nor with the judge of test_verifiable: rows of families are listed here, what is sent
and opened is a graph of masks (a sum is open if no unknown mask leads out of it), guarantees are linear programs.
"""

from functools import cache
from itertools import combinations, product
from math import ceil
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import linprog

NOBODY = frozenset()
ALL_CHECKS = frozenset({"masks", "holders", "unit", "whole", "agree", "one"})


class Told(NamedTuple):
    """What a client is told of a round: the row, whom it masks with (itself left out), the sum to sign and open."""

    row: tuple[tuple[int, ...], ...]
    masked: frozenset[int]
    summed: frozenset[int]
    model: str = "A"


def members(row):
    return frozenset(i for unit in row for i in unit)


def whole(summed, row):
    return summed <= members(row) and all(set(unit) <= summed or not set(unit) & summed for unit in row)


def batches(n, T, k):
    return list(combinations([tuple(range(first, first + T)) for first in range(0, n, T)], k // T))


def halves(n, T, k):
    """Rows of pairs of neighbours on a circle of half-batches."""
    h, rows = T // 2, []
    for starts in combinations(range(n // h), k // T):
        units = [tuple(sorted((s * h + x) % n for x in range(T))) for s in starts]
        if len({i for unit in units for i in unit}) == k:
            rows.append(tuple(units))
    return rows


def sums(told, t_of=lambda n: ceil(n / 2), sybils=NOBODY, checks=ALL_CHECKS, again=None):
    """The sets of clients whose sums a server can read of what each honest client is ``told``, if they make the checks.

    ``t_of`` shares open a secret in a row of so many; ``sybils`` are the server's; ``again`` is another sum of the
    round that everybody is told of afterwards.
    """
    sent = {}
    for i, it in told.items():
        mates = set(next(unit for unit in it.row if i in unit)) - {i}
        masks = "masks" not in checks or mates <= it.masked <= members(it.row) - {i}
        agreed = all(j in told and told[j].row == it.row and told[j].model == it.model for j in mates - sybils)
        if masks and (agreed or "unit" not in checks):
            sent[i] = it
    taken = [{i: it.summed for i, it in sent.items()}]
    taken += [dict.fromkeys(sent, again)] if again is not None and "one" not in checks else []
    opens = []
    for summed in taken:
        signed = {i: s for i, s in summed.items() if whole(s, sent[i].row) or "whole" not in checks}
        agree = {i: all(j in sybils or signed.get(j) == s for j in s) for i, s in signed.items()}
        opens += [(i, s) for i, s in signed.items() if whole(s, sent[i].row) and (agree[i] or "agree" not in checks)]
    return frozenset(_readable(sent, opens, t_of, sybils, "holders" in checks))


def _readable(sent, opens, t_of, sybils, in_row):
    keys, own = set(sybils), set(sybils)
    for j, it in sent.items():
        shown = [(i, s) for i, s in opens if i != j and j in sent[i].masked and (i in members(it.row) or not in_row)]
        for_free, t = len(sybils & members(it.row)), t_of(len(members(it.row)))
        own |= {j} if len({i for i, s in shown if j in s}) + for_free >= t else set()
        keys |= {j} if len({i for i, s in shown if j not in s}) + for_free >= t else set()
    group = {i: {i} for i in sent}
    closed = set(sent) - own
    for i, it in sent.items():
        for j in it.masked & set(sent) - keys if i not in keys else ():  # of who sends nothing the key may be open
            if i not in sent[j].masked:
                closed.add(i)
            elif group[i] is not group[j]:
                group[i] |= group[j]
                for each in group[j]:
                    group[each] = group[i]
    return (frozenset(each) for each in group.values() if not each & closed)


@cache
def semi_strong(sets, clients):
    """The least |v|_1 of combinations v of these sums with a largest entry of 1, over the clients given."""
    P = np.array([[float(i in each) for i in clients] for each in sorted(map(sorted, sets))])
    (r, n), best = P.shape, np.inf
    for i in np.flatnonzero(P.any(axis=0)):
        A, free = np.block([[P.T, -np.eye(n)], [-P.T, -np.eye(n)]]), [(None, None)] * r + [(0, None)] * n
        cost, fixed = np.r_[np.zeros(r), np.ones(n)], np.r_[P[:, i], np.zeros(n)][None]
        best = min(best, linprog(cost, A, np.zeros(2 * n), fixed, [1.0], free).fun)
    return round(float(best), 6)


def guarantee(found, n, sybils=NOBODY):
    return semi_strong(frozenset(each - sybils for each in found), tuple(sorted(set(range(n)) - sybils)))


def unions(row):
    return [frozenset().union(*some) for m in range(len(row) + 1) for some in combinations(map(frozenset, row), m)]


def subsets(clients):
    return [frozenset(some) for m in range(len(clients) + 1) for some in combinations(sorted(clients), m)]


def pick(rng, options):
    return options[rng.integers(len(options))]


def plays(family, seed, count, sybils=NOBODY, split=False):
    """Lies drawn at random: rows and models by unit, sums and masks by client; ``split``: models by client, too."""
    rng = np.random.default_rng(seed)
    units = sorted({unit for row in family for unit in row})
    for _ in range(count):
        told, used, usual, favoured = {}, set(), pick(rng, family), {}
        for unit in (units[i] for i in rng.permutation(len(units))):
            if used & set(unit) or rng.random() < 0.05:
                continue
            used |= set(unit)
            row = usual if unit in usual and rng.random() < 0.6 else pick(rng, [row for row in family if unit in row])
            model, some = pick(rng, "AAZ"), unions(row)
            first, other = favoured.setdefault(row, (pick(rng, some), pick(rng, some)))
            for i in set(unit) - sybils:
                masked = members(row) - {i}
                if rng.random() < 0.3:
                    masked = pick(rng, subsets(masked)) | (NOBODY if split else frozenset(unit) - {i})
                summed = first if rng.random() < 0.75 else other
                told[i] = Told(row, masked, summed, pick(rng, "AZ") if split else model)
        yield told


def read(lies, **how):
    """All that is read in rounds in which these lies are told; updates under the model Z are 0."""
    found = ((told, each) for told in lies for each in sums(told, **how))
    return frozenset(frozenset(i for i in each if told[i].model == "A") for told, each in found) - {NOBODY}


FAMILIES = {
    "batches of 6": (6, batches(6, 2, 4)), "batches of 8": (8, batches(8, 2, 6)), "batches of 4": (8, batches(8, 4, 8)),
    "circle of 6": (6, halves(6, 2, 4)), "circle of 8": (8, halves(8, 2, 4)), "half-batches of 2": (8, halves(8, 4, 8)),
}  # fmt: skip


def test_any_masks_and_sums_of_two_units_leave_the_guarantee():
    (row,) = batches(4, 2, 4)
    some = [
        [Told(row, frozenset({i ^ 1}) | others, summed) for others in subsets({0, 1, 2, 3} - {i, i ^ 1})
         for summed in unions(row)] for i in range(4)
    ]  # fmt: skip
    lies = (dict(enumerate(told)) for told in product(some[0], some[1][::2], some[2], some[3][::3]))
    assert guarantee(read(lies), 4) == 2


@pytest.mark.parametrize("name", FAMILIES)
def test_lies_drawn_at_random_leave_the_guarantee(name):
    n, family = FAMILIES[name]
    found = read(plays(family, 1, 1500))
    assert guarantee(found, n) == len(family[0][0]) and len(found) > 1


@pytest.mark.parametrize("check", ["masks", "holders", "unit", "agree"])
@pytest.mark.parametrize("name", ["batches of 6", "circle of 6"])
def test_each_check_is_needed(check, name):
    n, family = FAMILIES[name]
    lies = list(plays(family, 1, 2000, split=True))
    assert guarantee(read(lies), n) == 2 > guarantee(read(lies, checks=ALL_CHECKS - {check}), n)


def test_a_sum_is_signed_only_if_it_is_whole_to_who_signs():
    """Those who open may have v in another unit: {v, w} is whole to them, and the unit of v is {u, v}."""
    before, b, u, v, w, z, p, q, r, s = range(10)
    family = {frozenset(row): row for row in halves(10, 2, 6)}
    rows = {
        (u, v): ((u, v), (p, q), (r, s)), (w, z): ((w, z), (p, q), (r, s)), (before, b): ((before, b), (p, q), (r, s)),
        (p, q): ((b, u), (v, w), (p, q)), (r, s): ((b, u), (v, w), (r, s)),
    }  # fmt: skip
    told = {}
    for unit, row in rows.items():
        for i in unit:
            summed = frozenset({v, w}) if i in (v, w, p, q, r, s) else NOBODY
            told[i] = Told(family[frozenset(row)], members(row) - {i}, summed)
    assert sums(told) == NOBODY
    assert sums(told, checks=ALL_CHECKS - {"whole"}) == {frozenset({v})}


def test_a_client_takes_one_sum_a_round():
    """With the key and the own mask of everybody, opened for two sums one after the other, each update is read."""
    (row,) = batches(4, 2, 4)
    told = {i: Told(row, members(row) - {i}, frozenset({0, 1})) for i in range(4)}
    assert sums(told, again=frozenset({2, 3})) == {frozenset({0, 1})}
    assert sums(told, again=frozenset({2, 3}), checks=ALL_CHECKS - {"one"}) == {frozenset({i}) for i in range(4)}


def test_who_has_signed_a_receipt_and_sent_nothing_leaves_nobody_alone():
    n, family = FAMILIES["batches of 6"]
    for told in plays(family, 2, 600):
        for silent, it in told.items():
            for each in sums(told | {silent: it._replace(masked=NOBODY)}):
                assert not each & {i for unit in told[silent].row if silent in unit for i in unit}


def test_one_client_of_the_servers_elsewhere_breaks_half_of_the_shares():
    """2 t = n: the unit {0, 1} is read one by one by the help of client 3; with 2 t >= n + 1 it is not."""
    (row,) = batches(4, 2, 4)
    for t, alone in ((2, True), (3, False)):
        lies = ({i: Told(row, members(row) - {i}, summed) for i, summed in enumerate(each)}
                for each in product(unions(row), repeat=3))  # fmt: skip
        found = read(lies, t_of=lambda n, t=t: t, sybils=frozenset({3}))
        assert ({frozenset({0}), frozenset({1})} <= found) == alone
        assert guarantee(found - {frozenset({2})}, 4, frozenset({2, 3})) == 2 - alone


@pytest.mark.parametrize("sybils", [{7}, {0, 5}, {1, 2}])
@pytest.mark.parametrize("name", ["batches of 8", "batches of 4", "circle of 8", "half-batches of 2"])
def test_enough_shares_leave_what_the_page_says(name, sybils):
    n, family = FAMILIES[name]
    t, s = ceil((len(members(family[0])) + len(sybils)) / 2), frozenset(sybils)
    found = read(plays(family, 3, 500, s), sybils=s, t_of=lambda n: t)
    assert guarantee(found, n, s) >= left(name, n, len(family[0][0]), sybils)


def left(name, n, T, sybils):
    """T less those in the own (half-)batch and, with half-batches, in the fullest other one: the least of clients."""
    size = T if name.startswith("batches") else T // 2
    counts = [sum(i // size == part for i in sybils) for part in range(n // size)]
    others = [max(counts[:j] + counts[j + 1 :]) if size < T else 0 for j in range(len(counts))]
    return min(T - own - other for own, other in zip(counts, others, strict=True) if own < size)


@pytest.mark.parametrize("T", [2, 4])
def test_the_bound_of_half_batches_is_what_all_of_the_family_gives(T):
    """On circles of six and four half-batches, with any number of the server's clients in each."""
    parts, size = {2: 6, 4: 4}[T], T // 2
    found = frozenset(members(row) for row in halves(parts * size, T, T))
    for counts in product(range(size + 1), repeat=parts):
        if 0 < sum(counts) < parts * size:
            sybils = {j * size + x for j, count in enumerate(counts) for x in range(count)}
            assert guarantee(found, parts * size, sybils) == left("circle", parts * size, T, sybils)
