"""Advice against simulated studies whose truth is known: what it claims is true, and it says when it cannot tell."""

import json
from dataclasses import replace

import numpy as np
import pytest
from known_truth import Truth, simulated

from simfl.compare.intervals import p_value
from simfl.report.advice import advise, cautions
from simfl.report.measures import measures
from simfl.report.page import _tiles
from simfl.report.reading import _shortened
from simfl.report.study import Group
from simfl.report.tables import group_table

STUDIES = 200
MOST_WRONG = 0.05 + 3 * np.sqrt(0.05 * 0.95 / STUDIES)


def claims(truths, seed, **how):
    """Verdicts by measure, and the group picked, of a simulated study."""
    advice = advise(simulated(truths, np.random.default_rng(seed), **how))
    return {c.measure.name: c.verdict for c in advice.changes}, advice.pick and advice.pick.label, advice


@pytest.mark.parametrize(
    ("seeds", "step_s", "reaches"), [(2, 0, 1), (2, 60, 1), (3, 20, 1), (3, 60, 0.4), (6, 0, 0.4), (6, 20, 1)]
)
def test_among_equals_nothing_is_chosen_or_claimed(seeds, step_s, reaches):
    equals = [Truth(reaches=reaches)] * 3
    wrong = 0
    for study in range(STUDIES):
        verdicts, pick, _ = claims(equals, study, seeds=seeds, step_s=step_s)
        wrong += pick is not None or any(verdicts.values())
    assert wrong <= MOST_WRONG * STUDIES


def test_a_stronger_guarantee_is_chosen_and_claims_nothing_else_among_equals():
    wrong = 0
    for study in range(STUDIES):
        verdicts, pick, _ = claims([Truth(), Truth(guarantee=4), Truth()], study, seeds=6, step_s=20.0)
        assert verdicts.pop("guarantee_semi_strong", 1) == 1
        wrong += pick != "group_1" or any(verdicts.values())
    assert wrong <= MOST_WRONG * STUDIES


def test_sums_that_hide_are_chosen_before_updates_that_are_shown():
    """A guarantee of sums says nothing where the server sees every update."""
    truths = [Truth(), Truth(guarantee=6), Truth(guarantee=4)]
    shown, study = (simulated(truths, np.random.default_rng(0), seeds=6) for _ in range(2))
    for run in study.groups[2].runs:
        run.stored.summary["secagg_bytes"] = 1.0
    shown, advice = advise(shown), advise(study)
    assert shown.pick.label == "group_1" and "hidden in sums" not in shown.rule
    assert advice.pick.label == "group_2" and "hidden in sums" in advice.rule


def test_lists_are_called_by_the_names_in_them():
    groups = tuple(Group(label, {}, (), 0) for label in (
        "random / []", "random / [{name: local_gaussian, clip_norm: 0.3, epsilon: 200}]",
        "batch_partition:T=2 / [{name: clipping}, {name: skellam}]",
        "batch_partition:T=4 / [{name: clipping}, {name: skellam}]",
    ))  # fmt: skip
    assert [group.label for group in _shortened(groups)] == [
        "random / none", "random / local_gaussian", "batch_partition:T=2 / clipping+skellam",
        "batch_partition:T=4 / clipping+skellam",
    ]  # fmt: skip
    same = tuple(Group(f"[{{name: clipping, norm: {norm}}}]", {}, (), 0) for norm in (1, 2))
    assert [group.label for group in _shortened(same)] == [group.label for group in same]


def test_differences_that_are_there_are_found_with_their_sign():
    truths = [Truth(), Truth(accuracy=0.9, time_s=60.0, cardinality=6.0)]
    signs = {"test_accuracy": 1, "time_to_target_s": 1, "mean_cardinality": -1}
    found = 0
    for study in range(100):
        verdicts, pick, _ = claims(truths, study, seeds=6)
        assert all(verdicts.get(name, 0) in (0, sign) for name, sign in signs.items())
        found += pick == "group_1" and sum(map(abs, verdicts.values())) >= 2
    assert found > 80


def test_wrong_signs_are_as_rare_as_promised_where_differences_are_small():
    truths = [Truth(), Truth(accuracy=0.81, time_s=97.0, guarantee=3)]
    wrong = 0
    for study in range(STUDIES):
        verdicts, _, _ = claims(truths, study, seeds=3, step_s=20.0)
        wrong += verdicts.get("test_accuracy", 0) < 0 or verdicts.get("time_to_target_s", 0) < 0
    assert wrong <= MOST_WRONG * STUDIES


def test_a_target_that_no_shared_seed_reached_gives_no_claim():
    """A7: one run of six and three of six, none shared."""
    study = simulated([Truth(), Truth(guarantee=4)], np.random.default_rng(0), seeds=6)
    for group, reach in zip(study.groups, ({0}, {1, 2, 3}), strict=True):
        for run in group.runs:
            time_s = {"time_to_target_s": 100.0 - 9 * len(reach)} if run.seed in reach else {}
            run.__dict__["_reached"] = {study.target: time_s}
    advice = advise(study)
    (time_s,) = (c for c in advice.changes if c.measure.name == "time_to_target_s")
    assert time_s.verdict == 0 and "(in 3 of 6 seeds)" in time_s.words and "time" not in advice.rule
    place = [head.name for head in group_table(study).columns].index("time_to_target_s")
    cells = [row.cells[place] for row in group_table(study).rows]
    assert ["(1/6)" in cell.half for cell in cells] == [True, False] and "(3/6)" in cells[1].half
    assert not any(cell.best for cell in cells)
    assert any("3 of 6 seeds" in tile.note for tile in _tiles(study, advice))


def test_who_reached_the_target_once_is_not_the_quickest():
    """A7: the ranking must not use only the seeds that got there."""
    checked = 0
    for study in range(30):
        lucky = Truth(time_s=20.0, reaches=0.5)
        made = simulated([Truth(), lucky, Truth(time_s=40.0)], np.random.default_rng(study), seeds=6)
        if len(next(m for m in measures(made) if m.name == "time_to_target_s").by_seed(made.groups[1])) < 6:
            advice = advise(made)
            assert advice.pick is None or advice.pick.label != "group_1"
            checked += 1
    assert checked > 20


def test_fewer_than_two_shared_seeds_settle_nothing():
    for seeds in (1, 2):
        apart = [Truth(seeds=(0,)), Truth(accuracy=0.95, guarantee=9, seeds=(seeds - 1,))]
        verdicts, pick, advice = claims(apart, 0, seeds=seeds)
        assert pick is None and not any(verdicts.values()) and "two shared seeds" in advice.reason


@pytest.mark.parametrize("rounds", [20, 150, 400])
def test_the_length_of_the_run_does_not_decide(rounds):
    """A8: random's guarantee stands high after few rounds, and ends below that of a partition."""
    random, batch = Truth(guarantee=1, falls_until=140), Truth(guarantee=4, falls_until=5)
    study = simulated([random, batch], np.random.default_rng(3), rounds=rounds)
    advice = advise(study)
    assert advice.pick.label == "group_1"
    (tile,) = (tile for tile in _tiles(study, advice) if "guarantee" in tile.label)
    assert (tile.label, tile.unit, tile.verdict) == ("Semi-strong guarantee", "clients", 1)
    assert f"after {rounds} rounds, 4 for ever" in tile.note


def test_a_guarantee_that_still_falls_and_that_theory_does_not_know_settles_nothing():
    """A8: the same without theory; after enough rounds the curves have settled and decide."""
    unknown = [Truth(guarantee=1, falls_until=140, known=False), Truth(guarantee=4, falls_until=5, known=False)]
    advice = advise(simulated(unknown, np.random.default_rng(3), rounds=100))
    assert advice.pick is None and "group_0 still falls" in advice.reason and not advice.changes
    assert advise(simulated(unknown, np.random.default_rng(3), rounds=400)).pick.label == "group_1"


def test_accuracies_tie_by_their_uncertainty():
    """A8: three points below, but noisy, stays eligible; half a point below, but sure, does not."""
    study = simulated([Truth(), Truth(guarantee=8)], np.random.default_rng(0), seeds=6)

    def given(differences):
        for run, other, difference in zip(study.groups[1].runs, study.groups[0].runs, differences, strict=True):
            run.summary["test_accuracy"] = other.summary["test_accuracy"] + difference
            run.__dict__.pop("finals", None)
        return advise(study).pick.label

    assert given([-0.10, 0.04, -0.09, 0.05, -0.1, 0.02]) == "group_1"
    assert given([-0.0051, -0.0049, -0.0050, -0.0052, -0.0048, -0.0050]) == "group_0"


def test_who_never_aggregated_anything_is_not_chosen_and_has_no_best_mark():
    """A9: skipping every round takes no time and no traffic."""
    study = simulated([Truth(), Truth(guarantee=9, accuracy=0.1)], np.random.default_rng(0))
    for run in study.groups[1].runs:
        run.summary.update(skipped=20, time_s=1.0, bytes_down=0, bytes_up=0)
    assert advise(study).pick.label == "group_0"
    assert cautions(study) == [
        "group_1 skipped 100 of 100 rounds: nothing was aggregated in them; its model is untrained."
    ]
    table = group_table(study)
    assert not any(cell.best for cell in table.rows[1].cells)


def test_p_values_are_those_of_students_paired_test():
    from scipy import stats

    rng = np.random.default_rng(0)
    for n in (2, 5, 30):
        a, b = rng.normal(1, 2, n), rng.normal(0, 1, n)
        assert p_value(a, b) == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert p_value([], []) == p_value([3.0], [1.0]) == p_value([1.0, 2.0], [1.0, 2.0]) == 1
    assert p_value([1.0, 2.0], [0.0, 1.0]) == 0.5 and p_value([4.0, 4.0], [1.0, 1.0]) == 0.5
    assert p_value([4.0] * 3, [1.0] * 3) == 0


def test_different_data_are_not_ranked_against_one_another():
    """C2: a mixed study says ranges, marks nothing, advises nothing."""
    from simfl.report.telling import told

    study = simulated([Truth(), Truth(accuracy=0.3)], np.random.default_rng(0), axis="learning.data")
    assert not study.ranked and advise(study) is None
    assert "not ranked" in told(study)[0] and not any("mean of" in sentence for sentence in told(study))
    assert not any(cell.best for row in group_table(study).rows for cell in row.cells)
    other = simulated([Truth(), Truth(accuracy=0.3)], np.random.default_rng(0), axis="devices.availability.dropout")
    assert other.ranked and "mean of group_0" in told(other)[0]
    for run in other.groups[1].runs:
        run.summary["name"] = "another scenario"
    assert not other.ranked


def test_one_seed_is_said_to_be_one():
    from simfl.report.telling import told

    study = simulated([Truth(), Truth()], np.random.default_rng(0), seeds=1, axis="devices.availability.dropout")
    assert "one seed" in told(study)[-1]
    study = simulated([Truth(), Truth()], np.random.default_rng(0), seeds=2, axis="devices.availability.dropout")
    assert "one seed" not in told(study)[-1]
    assert json.dumps(told(study)) and replace(study, target=None).seeds == 2
