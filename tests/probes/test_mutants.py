"""Planted mistakes are found by probes that know no rule: a few in every run, all of them in nightly checks."""

from unittest import mock

import pytest

from simfl.secagg import lightsecagg, pairwise
from simfl.secagg.neighbours import Circle
from simfl.secagg.sessions import SessionFailure
from tests.probes.mutants import MUTANTS, OF_SAMPLES, found, planted, samples
from tests.secagg import test_views as views
from tests.support.sizes import repeats

DAILY = (
    "a bit beside an update is not counted where noise covers both",
    "a stage that says nothing does nothing (T2)", "Gaussian losses are halved", "losses forget samples",
    "accountants see what is stated of weights (T1)", "unsummed updates are not counted (T8)", "no noise is added",
    "two stages draw the same noise (T9)", "all clients draw one noise", "a protocol masks nothing (T3)",
    "a policy names a family that is not its own (T4)", "a code that says nothing tells nothing (T3)",
    "half-batches are said to hide whole ones", "epsilon is of the samples that a key states (T7)",
    "SGD is said to minimise (T10)",
)  # fmt: skip


@pytest.mark.parametrize("name", [name for name in MUTANTS if name in DAILY or repeats(0, 1)])
def test_a_planted_mistake_is_found(name):
    assert found(name), name


@pytest.mark.parametrize("where", OF_SAMPLES)
def test_one_sample_moves_nothing_further_than_its_epsilon_allows(where):
    """No mistake is planted; what is said is finite, or nothing would be judged."""
    with planted():
        assert samples(**OF_SAMPLES[where])() == []


def closed(original):
    """A session's failure that tolerates whoever may come."""
    return lambda *args, **fields: original(*args, **fields | {"tolerated": 99})


VIEWS = {
    "a circle of neighbours is never cut (T6)": (
        Circle, "cut", lambda self, members: len(self.order), views.test_no_coalition_learns_more_than_secagg_says),
    "a failed session of pairs tolerates as many as a good one (T17)": (
        pairwise, "SessionFailure", closed(SessionFailure), views.test_no_coalition_learns_more_than_secagg_says),
    "a failed coded session tolerates as many as a good one (T17)": (
        lightsecagg, "SessionFailure", closed(SessionFailure),
        views.test_no_coalition_learns_more_than_lightsecagg_says),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_a_planted_mistake_about_coalitions_is_found_by_linear_algebra(name):
    owner, attribute, wrong, judge = VIEWS[name]
    with mock.patch.object(owner, attribute, wrong), pytest.raises(AssertionError):
        for part in range(3):
            judge(part)


def test_enough_mistakes_are_planted():
    assert len(MUTANTS) + len(VIEWS) >= 60
    assert set(DAILY) <= MUTANTS.keys()
    told = " ".join((*MUTANTS, *VIEWS))
    assert all(f"({number})" in told for number in ("T1", "T2", "T3", "T4", "T6", "T7", "T8", "T9", "T10", "T17"))
