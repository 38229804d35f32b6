"""Max-min fair sharing of several links: against progressive filling by its definition, and by hand."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.network.fair_network import FairNetwork
from simfl.network.fair_sharing import waits_s
from simfl.network.link_network import NetworkFlows, parts_of
from tests.support.python_lines import python_lines
from tests.support.shared_network import Crossing, ends_s, filled, unfair


def drawn(rng, most=13, least=0):
    """Capacities, codes, own lines, begins and seconds alone of a few messages; many ties, some without bytes."""
    links, n = int(rng.integers(1, 5)), int(rng.integers(1, most))
    capacity = rng.choice([1, 2, 3, 8, 0.7], links).astype(float)
    codes = rng.integers(least, 1 << links, n)
    if rng.random() < 0.4:  # a tree: everybody crosses the first
        codes |= 1
    narrowest = np.array([min((capacity[i] for i in range(links) if code >> i & 1), default=1.0) for code in codes])
    share = (rng.choice([1, 0.5, 0.25], n), rng.random(n) * 0.95 + 0.05, np.ones(n))[rng.integers(3)]
    begins = rng.choice([0, 0.25, 0.5, 1.0], n) if rng.random() < 0.4 else rng.random(n) * 2
    begins = np.zeros(n) if rng.random() < 0.3 else begins
    alone = rng.choice([0, 0.25, 0.5, 1.0], n) if rng.random() < 0.4 else rng.random(n) * 2
    return capacity, codes, narrowest * share, begins, alone


def flows_of(capacity, codes, lines, begins, alone, gone=None, exact=float):
    gone = [np.inf] * len(codes) if gone is None else gone
    return [
        Crossing(exact(b), exact(a) * exact(line), exact(line), links_in(code, len(capacity)), g)
        for code, line, b, a, g in zip(codes, lines, begins, alone, gone, strict=True)
    ]


def links_in(code, links):
    return frozenset(i for i in range(links) if code >> i & 1)


def expected(capacity, *about):
    return np.array(ends_s(flows_of(capacity, *about), capacity.tolist()))


def network_of(capacity, codes):
    """A network with all links, and each message's group."""
    kinds, group = np.unique(codes, return_inverse=True)
    return FairNetwork(capacity.tolist(), [tuple(sorted(links_in(int(k), len(capacity)))) for k in kinds]), group


@pytest.mark.parametrize("cases", [250, pytest.param(8000, marks=pytest.mark.slow)])
def test_progressive_filling_step_by_step_says_the_same(cases):
    rng = np.random.default_rng(1)
    for _ in range(cases):
        capacity, codes, lines, begins, alone = drawn(rng)
        found = begins + alone + NetworkFlows(alone, lines, codes, capacity).waits_s(begins)
        crosses = codes > 0
        exact = expected(capacity, codes[crosses], lines[crosses], begins[crosses], alone[crosses])
        assert found[crosses] == pytest.approx(exact, abs=1e-7)
        assert (found[~crosses] == (begins + alone)[~crosses]).all()


@pytest.mark.parametrize("cases", [40, pytest.param(2000, marks=pytest.mark.slow)])
def test_filling_in_fractions_says_the_same(cases):
    """Nothing is rounded: begins, sizes, lines and capacities are fractions."""
    rng = np.random.default_rng(6)
    for _ in range(cases):
        capacity, codes, lines, begins, alone = drawn(rng, most=7, least=1)
        found = begins + alone + NetworkFlows(alone, lines, codes, capacity).waits_s(begins)
        flows = flows_of(capacity, codes, lines, begins, alone, exact=Fraction)
        exact = ends_s(flows, [Fraction(each) for each in capacity.tolist()])
        assert found == pytest.approx([float(each) for each in exact], abs=1e-9)


@pytest.mark.parametrize("cases", [120, pytest.param(4000, marks=pytest.mark.slow)])
def test_messages_that_come_and_go_one_by_one(cases):
    """Some are given up; half-way all is stored and goes on elsewhere, to the same bits."""
    rng = np.random.default_rng(2)
    for _ in range(cases):
        capacity, codes, lines, begins, alone = drawn(rng, least=1)
        n = len(codes)
        gone = np.where(rng.random(n) < 0.3, begins + rng.random(n) * 2, np.inf)
        about = (capacity, codes, lines, begins, alone, gone)
        whole, halved = (played(*about, cut) for cut in (None, int(rng.integers(2 * n))))
        assert whole == halved
        exact = expected(*about)
        clear = [i for i in range(n) if alone[i] > 0 and abs(exact[i] - gone[i]) > 1e-6]
        assert [whole.get(i, np.inf) for i in clear] == pytest.approx(exact[clear].tolist(), abs=1e-7)


def played(capacity, codes, lines, begins, alone, gone, cut):
    """When each message ended that did; before event ``cut`` the network is stored and restored. At each step the
    rates are max-min fair.
    """
    (network, group), ends = network_of(capacity, codes), {}
    changes = sorted(
        [(begins[i], 1, i) for i in range(len(begins)) if alone[i] > 0]
        + [(gone[i], 0, i) for i in range(len(begins)) if alone[i] > 0 and gone[i] < np.inf]
    )
    steps = 0
    while changes or network.next_s < np.inf:
        if steps == cut:
            other, _ = network_of(capacity, codes)
            other.restore(network.state(), {i: i for i in range(len(begins))})
            assert other.state().tolist() == network.state().tolist()
            network = other
        steps += 1
        if changes and changes[0][0] < network.next_s:
            now_s, begin, i = changes.pop(0)
            if begin:
                network.add(float(now_s), i, i, float(begins[i] + alone[i]), float(lines[i]), int(group[i]))
            elif i not in ends:
                network.remove(float(now_s), i)
        else:
            now_s = network.next_s
            for i, wait_s in network.end():
                ends[i] = now_s
                assert wait_s == pytest.approx(now_s - begins[i] - alone[i], abs=1e-9) and wait_s >= 0
        assert fair(network, capacity, codes, lines) == []
    return ends


def fair(network, capacity, codes, lines):
    """What is not max-min fair of the rates that a network gives now."""
    assert network.next_s >= network.now_s
    present = sorted(network.entries)
    flows = [Crossing(0, 1, float(lines[i]), links_in(codes[i], len(capacity))) for i in present]
    rates = [min(entry.row[0], entry.group.level) for _, entry in sorted(network.entries.items())]
    if flows:
        assert rates == pytest.approx(filled(flows, capacity.tolist()), rel=1e-9)
    return unfair(flows, capacity.tolist(), rates)


def test_the_judge_knows_unfair_rates():
    """Two messages over a link of 2, one of them also over a link of 0.5."""
    flows = [Crossing(0, 1, 2.0, frozenset({0})), Crossing(0, 1, 0.5, frozenset({0, 1}))]
    assert filled(flows, [2.0, 0.5]) == [1.5, 0.5] and unfair(flows, [2.0, 0.5], [1.5, 0.5]) == []
    for rate in ([1.0, 0.5], [1.6, 0.4], [1.6, 0.5], [1.5, 0.6]):
        assert unfair(flows, [2.0, 0.5], rate)


@pytest.mark.parametrize("cases", [100, pytest.param(2000, marks=pytest.mark.slow)])
def test_one_link_is_what_it_is_alone(cases):
    rng = np.random.default_rng(3)
    for _ in range(cases):
        _, _, share, begins, alone = drawn(rng)
        codes, share = np.ones(len(share), dtype=int), np.minimum(share, 1.0)
        for capacity, codes_of in (([4.0], codes), ([4.0, 4.0, 9.0], codes * 7)):  # two that cannot be full before it
            flows = NetworkFlows(alone, share * 4, codes_of, np.array(capacity))
            assert flows.waits_s(begins).tolist() == waits_s(begins, alone, share).tolist()
        ends = played(np.array([4.0]), codes, share * 4, begins, alone, [np.inf] * len(codes), None)
        found = [ends[i] for i in range(len(codes)) if alone[i]]
        assert found == pytest.approx((begins + alone + waits_s(begins, alone, share))[alone > 0].tolist(), abs=1e-9)


def test_three_links_by_hand():
    """The chain of the textbook: one message over all of three links of 1, 2 and 4 bytes/s, one more over each.

    The first link gives 1/2 to both; the second has 3/2 left, the third 7/2. The fourth ends after 2 s, ...
    """
    capacity, codes = np.array([1.0, 2.0, 4.0]), np.array([7, 1, 2, 4])
    lines, sizes = np.array([1.0, 1.0, 2.0, 4.0]), np.array([2.0, 2.0, 3.0, 7.0])
    assert filled(flows_of(capacity, codes, lines, np.zeros(4), np.ones(4)), [1.0, 2.0, 4.0]) == [0.5, 0.5, 1.5, 3.5]
    alone = sizes / lines
    assert (alone + NetworkFlows(alone, lines, codes, capacity).waits_s(np.zeros(4))).tolist() == [4.0, 4.0, 2.0, 2.0]


def test_who_is_never_held_up_keeps_its_time_to_the_bit():
    rng = np.random.default_rng(5)
    codes, capacity = np.array([1, 3, 5, 1] * 6), np.array([100.0, 5.0, 9.0])
    lines = np.where(codes == 1, rng.random(24) + 0.1, 5.0)
    alone = rng.random(24) + 0.5
    for begins in (np.zeros(24), rng.random(24) * 0.1):
        waits = NetworkFlows(alone, lines, codes, capacity).waits_s(begins)
        assert not waits[codes == 1].any() and (waits[codes > 1] > 0.1).all()
    assert not NetworkFlows(alone, lines, codes, capacity * 100).waits_s(np.zeros(24)).any()


def test_parts_leave_out_what_cannot_be_full_first():
    codes, capacity = np.array([1 | 8, 2 | 8, 4 | 8, 8]), np.array([1.0, 9.0, 2.0, 5.0])
    (part,) = parts_of(codes, capacity)
    assert part.links == (0, 2, 3) and part.bytes_per_s == (1.0, 2.0, 5.0)
    assert part.groups[part.group].tolist() == [9, 8, 12, 8]
    one, other = parts_of(np.array([1, 2, 1, 0]), capacity[:2])
    assert (one.links, other.links) == ((0,), (1,)) and (one.members.tolist(), other.members.tolist()) == ([0, 2], [1])
    assert parts_of(np.zeros(3, dtype=int), capacity) == []
    regions = np.array([1 | 2, 1 | 4, 1 | 4])
    for width, left in ((7.0, [(1,), (2,)]), (6.9, [(0, 1, 2)]), (4.0, [(0, 1)]), (3.0, [(0,)])):
        assert [part.links for part in parts_of(regions, np.array([width, 3.0, 4.0]), True)] == left
    assert [part.links for part in parts_of(np.append(regions, 1), np.array([7.0, 3.0, 4.0]), True)] == [(0, 1, 2)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_nobody_is_faster_than_alone_and_no_link_carries_more_than_it_can(seed):
    capacity, codes, lines, begins, alone = drawn(np.random.default_rng(seed))
    waits = NetworkFlows(alone, lines, codes, capacity).waits_s(begins)
    ends = begins + alone + waits
    assert (waits >= 0).all()
    for link, bytes_per_s in enumerate(capacity):  # whatever begins and ends within a time fits into it
        on_link = codes >> link & 1 > 0
        for a in begins:
            for b in ends:
                inside = on_link & (begins >= a) & (ends <= b)
                assert (alone * lines)[inside].sum() <= bytes_per_s * max(0.0, b - a) + 1e-7


FEW = st.integers(1, 4)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.lists(st.tuples(FEW, st.integers(1, 7), st.integers(0, 3), st.booleans()), min_size=1, max_size=40),
)
def test_levels_found_from_those_before_are_those_of_exact_filling(capacity, changes):
    """Messages with lines of few sizes, so that levels, lines and links are full at once, come one or many at a time
    and go; whatever was before, the rates are those that filling in fractions finds for who is there.
    """
    codes = sorted({code & (1 << len(capacity)) - 1 or 1 for _, code, _, _ in changes})
    network = FairNetwork([float(each) for each in capacity], [tuple(sorted(links_in(c, 3))) for c in codes])
    present = {}
    for serial, (line, code, gone, looks) in enumerate(changes):
        code = code & (1 << len(capacity)) - 1 or 1
        flow = Crossing(Fraction(0), Fraction(1), Fraction(line), links_in(code, 3))
        present[serial] = flow
        network.add(0.0, serial, serial, 1e9, float(line), codes.index(code))
        if looks and network.next_s < np.inf:
            exact = filled(list(present.values()), [Fraction(each) for each in capacity])
            rates = [min(entry.row[0], entry.group.level) for _, entry in sorted(network.entries.items())]
            assert rates == pytest.approx([float(each) for each in exact], rel=1e-12)
            for entry in network.entries.values():
                assert entry.is_held == (entry.row[0] > entry.group.level * (1 + 1e-11))
        if serial - gone in present and gone:
            del present[serial - gone]
            network.remove(0.0, serial - gone)


@pytest.mark.parametrize("equal", [True, False])
def test_the_steps_grow_with_n_log_n_not_its_square(equal):
    """Many messages on the way together: four times as many take about four times as many lines of Python."""
    rng, executed = np.random.default_rng(4), []
    for n in (300, 1_200):
        begins = np.sort(rng.random(n))
        codes = rng.choice([1, 3, 5], n)
        lines = np.full(n, 20.0 / n) if equal else rng.random(n) * 40 / n
        flows = NetworkFlows(np.ones(n), lines, codes, np.array([4.0, 2.0, 1.0]))
        executed.append(python_lines(lambda flows=flows, begins=begins: flows.waits_s(begins)))
        assert flows.waits_s(begins).max() > 0.5
    assert 500 < executed[0] and executed[1] < 6 * executed[0]


@pytest.mark.parametrize(("wide", "narrow"), [(1e15, 1e-3), (1e15, 1000.3), (1e12, 100.3), (1e9, 100.3)])
def test_a_narrow_link_beside_an_unlimited_one_is_shared_evenly(wide, narrow):
    """Whole units are of the narrowest link: three messages get a third of it, to the last digits."""
    network = FairNetwork([wide, narrow], [(0,), (1,), (0, 1)])
    for serial in range(3):
        network.add(0.0, serial, serial, 1.0, 1e6, 1)
    assert network.next_s > 0 and network.groups[1].level == pytest.approx(narrow / 3, rel=1e-12)
