"""Max-min fair sharing of a link against a slow integrator, and where the answer is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.network.fair_link import EqualLink, UnequalLink
from simfl.network.fair_sharing import LevelLink, _one_by_one_waits_s, waits_s
from tests.support.python_lines import python_lines
from tests.support.shared_link import Way, ends_s

CAPACITY = 8.0


def drawn(rng):
    """Begins, seconds alone and shares of up to 14 messages; some tie, some have no bytes."""
    n = int(rng.integers(1, 15))
    begins = rng.choice([0, 0.25, 0.5, 1.0], n) if rng.random() < 0.4 else rng.random(n) * 2
    begins = np.zeros(n) if rng.random() < 0.3 else begins.astype(float)
    alone = (rng.choice([0, 0.25, 0.5, 1.0], n) if rng.random() < 0.4 else rng.random(n) * 2).astype(float)
    kind = rng.integers(3)
    share = np.full(n, rng.choice([1, 0.5, 0.25, 0.1, 0.3])) if kind == 0 else rng.choice([1, 0.5, 0.2], n)
    return begins, alone, share if kind < 2 else rng.random(n) * 0.95 + 0.05


def expected(begins, alone, share, gone=None):
    gone = np.full(len(begins), np.inf) if gone is None else gone
    ways = [Way(b, a * s * CAPACITY, s * CAPACITY, g) for b, a, s, g in zip(begins, alone, share, gone, strict=True)]
    return np.array(ends_s(ways, CAPACITY))


@pytest.mark.parametrize("cases", [200, pytest.param(6000, marks=pytest.mark.slow)])
def test_a_slow_integrator_says_the_same(cases):
    rng = np.random.default_rng(1)
    for _ in range(cases):
        begins, alone, share = drawn(rng)
        found = begins + alone + waits_s(begins, alone, share)
        assert found == pytest.approx(expected(begins, alone, share), abs=1e-7)


@pytest.mark.parametrize("cases", [80, pytest.param(3000, marks=pytest.mark.slow)])
def test_messages_that_come_and_go_one_by_one(cases):
    """Some are given up; half-way all is stored and goes on elsewhere, to the same bits."""
    rng = np.random.default_rng(2)
    for _ in range(cases):
        begins, alone, share = drawn(rng)
        n = len(begins)
        gone = np.where(rng.random(n) < 0.3, begins + rng.random(n) * 2, np.inf)
        kinds = (
            [UnequalLink] if (share != share[0]).any() else [UnequalLink, lambda one=share[0]: EqualLink(float(one))]
        )
        for kind in kinds:
            whole, halved = (played(kind, begins, alone, share, gone, cut) for cut in (None, int(rng.integers(2 * n))))
            assert whole == halved
            exact = expected(begins, alone, share, gone)
            clear = [i for i in range(n) if alone[i] > 0 and abs(exact[i] - gone[i]) > 1e-6]
            assert [whole.get(i, np.inf) for i in clear] == pytest.approx(exact[clear].tolist(), abs=1e-7)


def played(kind, begins, alone, share, gone, cut):
    """When each message ended that did; at event ``cut`` the link is stored and restored."""
    link, ends, waits = kind(), {}, {}
    changes = sorted(
        [(begins[i], 1, i) for i in range(len(begins)) if alone[i] > 0]
        + [(gone[i], 0, i) for i in range(len(begins)) if alone[i] > 0 and gone[i] < np.inf]
    )
    steps = 0
    while changes or link.next_s < np.inf:
        if steps == cut:
            other = kind()
            other.restore(link.state(), {i: i for i in range(len(begins))})
            link = other
        steps += 1
        if changes and changes[0][0] < link.next_s:
            now_s, begin, i = changes.pop(0)
            if begin:
                link.add(float(now_s), i, i, float(begins[i] + alone[i]), float(share[i]))
            elif i not in ends:
                link.remove(float(now_s), i)
        else:
            now_s = link.next_s
            for i, wait_s in link.end():
                ends[i], waits[i] = now_s, wait_s
                assert wait_s == pytest.approx(now_s - begins[i] - alone[i], abs=1e-9) and wait_s >= 0
    return ends


def test_one_message_takes_its_time_to_the_bit():
    for alone in (0.1, 1 / 3, 7.7):
        assert waits_s(np.array([0.3]), np.array([alone]), np.array([1.0])).tolist() == [0.0]
        for link in (EqualLink(1.0), UnequalLink()):
            link.add(0.3, "m", 1, 0.3 + alone, 1.0)
            assert link.next_s == 0.3 + alone and link.end() == [("m", 0.0)]


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
def test_n_equal_messages_take_n_times_the_links_time(share):
    n = 40
    for begins in (np.zeros(n), np.full(n, 3.25)):
        waits = waits_s(begins, np.full(n, 2.0), np.full(n, share))
        assert waits == pytest.approx(np.full(n, 2.0 * share * n - 2.0), rel=1e-12)


def test_who_is_slower_than_the_level_is_not_held_up_by_a_bit():
    """Of messages that begin together and one after the other: the slow ones keep their time, exactly."""
    rng = np.random.default_rng(5)
    share = np.append(rng.random(20) * 0.01 + 0.001, np.ones(3))
    alone = rng.random(23) + 0.5
    for begins in (np.zeros(23), rng.random(23) * 0.1):
        waits = waits_s(begins, alone, share)
        assert not waits[:20].any() and (waits[20:] > 0.5).all()


def test_what_fits_is_never_held_up():
    rng = np.random.default_rng(3)
    share = np.full(10, 0.1)
    assert not waits_s(rng.random(10), rng.random(10) + 1, share).any()
    share = rng.dirichlet(np.ones(30))
    assert not waits_s(rng.random(30), rng.random(30) + 1, share).any()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_nobody_is_faster_than_alone_and_the_link_is_never_overfull(seed):
    begins, alone, share = drawn(np.random.default_rng(seed))
    waits = waits_s(begins, alone, share)
    ends = begins + alone + waits
    assert (waits >= 0).all()
    for a in begins:  # whatever begins and ends within a time fits into it, in seconds of the whole link
        for b in ends:
            assert (alone * share)[(begins >= a) & (ends <= b)].sum() <= max(0.0, b - a) + 1e-7


def test_the_steps_grow_with_n_log_n_not_its_square():
    """Many messages on the way together: four times as many take about four times as many lines of Python."""
    rng, lines = np.random.default_rng(4), []
    for n in (500, 2_000):
        begins = np.sort(rng.random(n))
        lines.append(python_lines(lambda begins=begins, n=n: waits_s(begins, np.full(n, 2.0 / n), np.ones(n))))
        assert waits_s(begins, np.full(n, 2.0 / n), np.ones(n)).max() > 0.5
    assert 500 < lines[0] and lines[1] < 6 * lines[0]


@pytest.mark.parametrize("seed", range(4))
def test_messages_of_one_size_that_begin_together(seed):
    """Those that are held up end first, and all at once."""
    rng = np.random.default_rng(seed)
    for _ in range(50):
        n = int(rng.integers(2, 15))
        share = rng.choice([1, 0.5, 0.2, 0.05], n) if rng.random() < 0.5 else rng.random(n) * 0.95 + 0.05
        alone = rng.choice([0.25, 1.0, 1.7]) / share
        waits = waits_s(np.zeros(n), alone, share)
        assert alone + waits == pytest.approx(expected(np.zeros(n), alone, share), abs=1e-7)
        held = waits > 1e-9
        assert np.ptp((alone + waits)[held]) < 1e-9 if held.any() else share.sum() <= 1 + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_the_level_gives_what_a_step_on_all_messages_gives(seed):
    """Hundreds on the way together, with shares of many kinds; who is never held up is exact in both."""
    rng = np.random.default_rng(seed)
    n, load = 300, rng.choice([1.1, 1.3, 2.0, 4.0])
    share = [
        np.minimum(1, rng.lognormal(-4, 1.0, n)),
        rng.choice([0.002, 0.01, 0.05], n),
        0.01 * rng.uniform(0.999, 1.001, n),
    ][seed % 3]
    sizes = rng.lognormal(0, 0.5, n) / n
    begins = np.sort(rng.random(n)) * sizes.sum() / load
    ends = begins + sizes / share
    found = LevelLink(begins, ends, sizes, share).waits_s()
    one_by_one = _one_by_one_waits_s(begins, ends, share)
    assert found == pytest.approx(one_by_one, abs=1e-10) and found.max() > 0.01
    clear = (one_by_one == 0) | (one_by_one > 1e-9)
    assert ((found == 0) == (one_by_one == 0))[clear].all()


def test_where_the_level_swings_over_the_shares_of_many_the_steps_stay_few():
    """A wide message after the other, beside many whose shares are between the levels with and without it."""
    n = 300
    share = np.append(np.linspace(0.9985, 1.0015, n) / (n + 0.5), np.ones(n))
    sizes = np.append(np.full(n, 10.0), np.full(n, 1e-3 / n))
    begins = np.append(np.zeros(n), 0.5 + np.arange(n) * 1e-2)
    ends = begins + sizes / share
    assert LevelLink(begins, ends, sizes, share).waits_s() is None
    assert waits_s(begins, sizes / share, share) == pytest.approx(_one_by_one_waits_s(begins, ends, share), abs=1e-9)


@pytest.mark.parametrize("make", [lambda: EqualLink(0.25), UnequalLink])
def test_a_message_that_is_given_up_has_waited_as_long_as_it_was_held_up(make):
    """Alone on the link it was not; one of five has had a fifth of the link instead of a quarter."""
    for messages, waited_s in ((1, 0.0), (4, 0.0), (5, 0.2)):
        link = make()
        for serial in range(messages):
            link.add(0.0, serial, serial, 10.0, 0.25)
        assert link.remove(1.0, 0) == pytest.approx(waited_s)
