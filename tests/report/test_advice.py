"""Advice against simulated studies whose truth is known: what it claims is true, and it says when it cannot tell."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import simfl
from simfl.experiments.compare.intervals import p_values
from simfl.report.advice import MARGIN, TIMELESS, advise, cautions, family_level
from simfl.report.html_page import _tiles
from simfl.report.measures import measures
from simfl.report.page_tables import group_table
from simfl.report.study import Group
from simfl.report.study_reader import _shorten_labels, read_study
from tests.support.known_truth import Truth, simulated
from tests.support.sizes import repeats

STUDIES = 200
ANY = 2.0
"""A margin that lets everybody stay in the running."""

MOST_WRONG = 0.05 + 3 * np.sqrt(0.05 * 0.95 / STUDIES)


def claims(truths, seed, **how):
    """Verdicts by measure, and the group picked, of a simulated study."""
    margin = how.pop("margin", MARGIN)
    advice = advise(simulated(truths, np.random.default_rng(seed), **how), margin)
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
    equals = [Truth(noise=0), Truth(guarantee=4, noise=0), Truth(noise=0)]
    for study in range(STUDIES):
        verdicts, pick, _ = claims(equals, study, seeds=6, step_s=20.0)
        assert verdicts.pop("guarantee_semi_strong", 1) == 1
        wrong += pick != "group_1" or any(verdicts.values())
    assert wrong <= MOST_WRONG * STUDIES


def test_sums_that_hide_are_chosen_before_updates_that_are_shown():
    """A guarantee of sums says nothing where the server sees every update."""
    truths = [Truth(noise=0), Truth(guarantee=6, noise=0), Truth(guarantee=4, noise=0)]
    shown, study = (simulated(truths, np.random.default_rng(0), seeds=6) for _ in range(2))
    for run in study.groups[2].runs:
        run.results.summary["secagg_bytes"] = 1.0
    shown, advice = advise(shown), advise(study)
    assert shown.pick.label == "group_1" and "hidden in sums" not in shown.rule
    assert advice.pick.label == "group_2" and "hidden in sums" in advice.rule


def test_lists_are_called_by_the_names_in_them():
    groups = tuple(Group(label, {}, (), 0) for label in (
        "random / []", "random / [{name: local_gaussian, clip_norm: 0.3, epsilon: 200}]",
        "batch_partition:T=2 / [{name: clipping}, {name: skellam}]",
        "batch_partition:T=4 / [{name: clipping}, {name: skellam}]",
    ))  # fmt: skip
    assert [group.label for group in _shorten_labels(groups)] == [
        "random / none", "random / local_gaussian", "batch_partition:T=2 / clipping+skellam",
        "batch_partition:T=4 / clipping+skellam",
    ]  # fmt: skip
    same = tuple(Group(f"[{{name: clipping, norm: {norm}}}]", {}, (), 0) for norm in (1, 2))
    assert [group.label for group in _shorten_labels(same)] == [group.label for group in same]


def test_differences_that_are_there_are_found_with_their_sign():
    truths = [Truth(), Truth(accuracy=0.9, time_s=60.0, cardinality=6.0)]
    signs = {"test_accuracy": 1, "time_to_target_s": 1, "clients_in_sum": -1}
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
            run.__dict__["_to_target"] = {study.target: time_s}
    advice = advise(study, ANY)
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
            advice = advise(made, ANY)
            assert advice.running == made.groups
            assert advice.pick is None or advice.pick.label != "group_1"
            checked += 1
    assert checked > 20


@pytest.mark.parametrize("seeds", [1, 2])
def test_seeds_too_few_to_tell_accuracies_apart_settle_nothing(seeds):
    """M9: with two seeds the guarantee decided, as if an accuracy of 30 % were as good as one of 95 %."""
    for own in ((0,), (seeds - 1,), tuple(range(seeds))):
        apart = [Truth(seeds=tuple(range(seeds))), Truth(accuracy=0.3, guarantee=9, seeds=own)]
        verdicts, pick, advice = claims(apart, 0, seeds=seeds)
        assert pick is None and not any(verdicts.values())
        assert advice.reason == "with fewer than 3 seeds configurations cannot be distinguished"
    assert claims([Truth(), Truth(accuracy=0.3, guarantee=9)], 0, seeds=3)[1] == "group_0"


def test_those_who_share_no_seeds_are_not_compared():
    apart = [Truth(noise=0, seeds=(0, 1, 2)), Truth(noise=0, seeds=(2, 3, 4))]
    _, pick, advice = claims(apart, 0, seeds=5)
    assert (
        pick is None and advice.reason == "1 seed shared by group_1 and group_0 exclude no loss among 2 configurations"
    )


@pytest.mark.parametrize("rounds", [20, 150, 400])
def test_the_length_of_the_run_does_not_decide(rounds):
    """A8: random's guarantee stands high after few rounds, and ends below that of a partition."""
    random, batch = Truth(guarantee=1, noise=0, falls_until=140), Truth(guarantee=4, noise=0, falls_until=5)
    study = simulated([random, batch], np.random.default_rng(3), rounds=rounds)
    advice = advise(study)
    assert advice.pick.label == "group_1"
    (tile,) = (tile for tile in _tiles(study, advice) if "guarantee" in tile.label)
    assert (tile.label, tile.unit, tile.verdict) == ("Semi-strong guarantee", "clients", 1)
    assert f"after {rounds} rounds, 4 for any number of rounds" in tile.note


def test_a_guarantee_that_still_falls_and_that_theory_does_not_know_settles_nothing():
    """A8: the same without theory; after enough rounds the curves have settled and decide."""
    unknown = [Truth(guarantee=1, noise=0, falls_until=140, known=False),
               Truth(guarantee=4, noise=0, falls_until=5, known=False)]  # fmt: skip
    advice = advise(simulated(unknown, np.random.default_rng(3), rounds=100))
    assert advice.pick is None and "group_0 still falls" in advice.reason and not advice.changes
    assert advise(simulated(unknown, np.random.default_rng(3), rounds=400)).pick.label == "group_1"


def test_a_margin_decides_and_not_a_difference_that_is_not_significant():
    """Three points below, but noisy, is no evidence of being as good; half a point below, but sure, does not matter."""
    study = simulated([Truth(), Truth(guarantee=8)], np.random.default_rng(0), seeds=6)

    def given(differences, margin=MARGIN):
        for run, other, difference in zip(study.groups[1].runs, study.groups[0].runs, differences, strict=True):
            run.summary["test_accuracy"] = other.summary["test_accuracy"] + difference
            run.__dict__.pop("finals", None)
        advice = advise(study, margin)
        return advice.pick and advice.pick.label, advice.reason

    noisy, sure = [-0.10, 0.04, -0.09, 0.05, -0.1, 0.02], [-0.0051, -0.0049, -0.0050, -0.0052, -0.0048, -0.0050]
    (pick, reason) = given(noisy)
    assert pick is None
    found = re.match(r"the loss of group_0 may be up to ([\d.]+) points \(against group_1\); the margin is 1 ", reason)
    high = stats.ttest_1samp(noisy, 0, alternative="less").confidence_interval(1 - 0.05 * 0.4 / 0.6).high
    assert 100 * high <= float(found[1]) <= 100 * high + 0.1 and reason.endswith(
        "more seeds would decide if means and spreads stay as they are"
    )
    assert given(sure) == ("group_1", "") and given(sure, 0.004) == ("group_0", "")
    assert given([0.10, -0.04, 0.09, -0.05, 0.1, -0.02])[0] is None
    assert given([0.10, 0.04, 0.09, 0.05, 0.1, 0.02]) == ("group_1", "")


def test_seeds_that_are_shared_but_too_few_for_so_many_are_said_to_be_so():
    advice = advise(simulated([Truth(noise=0.001)] * 6, np.random.default_rng(0), seeds=3))
    assert advice.pick is None and re.match(
        r"3 seeds shared by .* exclude no loss among 6 configurations", advice.reason
    )


def test_the_seeds_that_would_decide_are_those_for_every_other():
    """Against one other few more would do; against another, which is more accurate by more than the margin, none."""
    study = simulated([Truth(), Truth(guarantee=8), Truth()], np.random.default_rng(0), seeds=6)
    offsets = {1: [-0.10, 0.04, -0.09, 0.05, -0.1, 0.08], 2: [0.05, 0.051, 0.049, 0.05, 0.052, 0.048]}
    for place, differences in offsets.items():
        for run, other, difference in zip(study.groups[place].runs, study.groups[0].runs, differences, strict=True):
            run.summary["test_accuracy"] = other.summary["test_accuracy"] + difference
    advice = advise(study)
    assert advice.pick is None and re.match("the loss of group_2 .* more seeds", advice.reason), (
        "of others none is enough"
    )


def test_what_is_recovered_decides_before_time_among_equal_guarantees():
    """The slower one, of which the attackers recover less, is chosen; nothing else distinguishes the two."""
    truths = [Truth(guarantee=1, noise=0), Truth(guarantee=4, noise=0, time_s=200.0), Truth(guarantee=4, noise=0)]
    study = simulated(truths, np.random.default_rng(0), seeds=6)
    rng = np.random.default_rng(1)
    for group, error in zip(study.groups, (0.5, 0.9, 0.6), strict=True):
        for run in group.runs:
            run.summary["measured_error"] = error + 0.001 * rng.normal()
            run.__dict__.pop("finals", None)
    advice = advise(study)
    assert advice.pick.label == "group_1" and "recovery error (measured)" in advice.rule, advice.rule


def test_what_nobody_can_know_is_said_of_accuracies_only_and_rounded_down():
    equals = [Truth(noise=0), Truth(noise=0, guarantee=4)]
    advice = advise(simulated(equals, np.random.default_rng(0), seeds=30))
    assert (
        advice.unseen
        == "Of a configuration none of whose 30 runs has collapsed, up to 10 % of all runs may (95 % confidence)"
    )
    assert (1 - 1 / 10) ** 30 < 0.05 < (1 - 1 / 11) ** 30


def test_a_loss_without_an_accuracy_has_no_margin():
    study = simulated([Truth(noise=0), Truth(noise=0, guarantee=8)], np.random.default_rng(0), seeds=6)
    for run in study.runs:
        run.summary["test_loss"] = run.summary.pop("test_accuracy")
    advice = advise(study)
    assert advice.pick is None and "measure a loss only" in advice.reason


def test_who_never_aggregated_anything_is_not_chosen_and_has_no_best_mark():
    """A9: skipping every round takes no time and no traffic."""
    study = simulated([Truth(), Truth(guarantee=9, accuracy=0.1)], np.random.default_rng(0))
    for run in study.groups[1].runs:
        run.summary.update(skipped=20, time_s=1.0, bytes_down=0, bytes_up=0)
    assert advise(study).pick.label == "group_0"
    assert cautions(study) == [
        "group_1 skipped 100 of 100 rounds: nothing was aggregated in them; its model is untrained.",
        "Runs have 0 (group_1) to 20 (group_0) sums each, and who has more has learned longer; "
        "training.aggregations makes them equal.",
    ]
    table = group_table(study)
    assert not any(cell.best for cell in table.rows[1].cells)


def test_a_known_guarantee_comes_before_any_that_was_only_observed():
    """M9: 4 observed after 25 rounds, and theory knows nothing, was chosen over a known 4 with a shorter mean time."""
    truths = [Truth(guarantee=1, noise=0), Truth(guarantee=4, time_s=90.0, noise=0),
              Truth(guarantee=9, known=False, falls_until=5, noise=0)]  # fmt: skip
    picks = []
    for study in range(40):
        _, pick, advice = claims(truths, study, seeds=6, rounds=25)
        assert pick != "group_1" or "one that theory knows before any that was only observed" in advice.rule
        picks.append(pick)
    assert "group_2" not in picks and picks.count("group_1") == 40


def test_who_knows_the_weak_guarantee_only_knows_more_than_who_knows_that_there_is_none():
    """Rows that are guarded against light combinations only say nothing of the semi-strong notion."""
    truths = [Truth(guarantee=1, noise=0), Truth(guarantee=4, noise=0), Truth(guarantee=9, known=False, noise=0)]
    study = simulated(truths, np.random.default_rng(0), seeds=6)
    for run in study.groups[1].runs:
        for name in ("guarantee_semi_strong", "guarantee_strong"):
            run.summary.pop(name, None)
        run.summary["guarantee_weak"] = 4
        run.__dict__.pop("finals", None)
    advice = advise(study)
    assert advice.pick.label == "group_1", advice.rule


def test_the_advice_agrees_with_its_printed_rule_about_every_pair():
    """Its page's rule, read once more: for each other choice some criterion names the pick."""
    rng, picked, unsettled, decided = np.random.default_rng(5), 0, 0, set()
    studies = repeats(160, 400)
    for number in range(studies):
        study = _any_study(rng)
        advice = advise(study)
        if advice.pick is None:
            unsettled += 1
            continue
        picked += 1
        for other in study.groups:
            if other is not advice.pick:
                why = _criterion(advice, other, study.baseline)
                assert why, (number, advice.pick.label, other.label)
                decided.add(why)
                assert why not in PRINTED or PRINTED[why] in advice.rule, (why, advice.rule)
    assert picked > studies / 4 and unsettled > studies / 8
    assert decided == {"running", "sums", "known", "guarantee", "observed", "time", "mean"}


PRINTED = {
    "running": "less than 1 point below every other one",
    "sums": "hidden in sums",
    "known": "theory knows before any that was only",
    "guarantee": "the strongest guarantee",
    "time": "then the shortest",
    "mean": "the highest mean accuracy",
}


def _any_study(rng):
    """Two to five choices of any kind, with five to seven seeds."""
    seeds = int(rng.integers(5, 8))
    few = [None] * 5 + [(0, 1)]
    theory = rng.random() < 0.7  # of some choices, or of none
    noise, alike = float(rng.choice([0.0, 0.0, 0.02])), rng.random() < 0.3
    truths = [
        Truth(
            accuracy=float(rng.choice([0.4, 0.8, 0.8, 0.802, 0.805, 0.81])),
            time_s=float(rng.choice([20.0, 100.0, 105.0])),
            reaches=float(rng.choice([1.0] * 7 + [0.7])),
            guarantee=2 if alike else int(rng.integers(1, 4)),
            known=bool(theory and (alike or rng.random() < 0.7)),
            falls_until=int(rng.choice([5, 5, 5, 140])),
            noise=noise,
            seeds=few[rng.integers(len(few))],
        )
        for _ in range(rng.integers(2, 6))
    ]
    study = simulated(truths, rng, seeds=seeds, rounds=30)
    for group in study.groups:
        if rng.random() < 0.4 and not alike:
            for run in group.runs:
                run.results.summary["secagg_bytes"] = 1.0
    return study


def _criterion(advice, other, baseline):
    """By which criterion of the printed rule the pick stands before another choice; None: it does not."""
    pick = advice.pick
    if not any(other is group for group in advice.running):
        return "running"
    hides = ["secagg_bytes" in group.first.summary for group in (pick, other)]
    if hides[0] != hides[1]:
        return "sums" if hides[0] else None
    known = ["guarantee_semi_strong" in group.first.summary for group in (pick, other)]
    if known[0] != known[1]:
        return "known" if known[0] else None
    name = "guarantee_semi_strong" if known[0] else "privacy_semi_strong"
    worth = [min(run.summary[name] for run in group.runs) for group in (pick, other)]
    if worth[0] != worth[1]:
        return ("guarantee" if known[0] else "observed") if worth[0] > worth[1] else None
    if not any(other is group for group in advice.ties):
        return "time"
    accuracy = [np.mean([run.finals["test_accuracy"] for run in group.runs]) for group in (pick, other)]
    return "mean" if accuracy[0] >= accuracy[1] and baseline != other.label else None


def test_the_level_of_gains_and_costs_is_shared_by_all():
    two = simulated([Truth(), Truth()], np.random.default_rng(0))
    assert family_level(two) == pytest.approx(0.05 / 6)


def test_different_data_are_not_ranked_against_one_another():
    """C2: a mixed study says ranges, marks nothing, advises nothing."""
    from simfl.report.summary_text import describe

    study = simulated([Truth(), Truth(accuracy=0.3)], np.random.default_rng(0), axis="learning.data")
    assert not study.comparable and advise(study) is None
    assert "not ranked" in describe(study)[0] and not any("mean of" in sentence for sentence in describe(study))
    assert not any(cell.best for row in group_table(study).rows for cell in row.cells)
    other = simulated([Truth(), Truth(accuracy=0.3)], np.random.default_rng(0), axis="devices.availability.dropout")
    assert other.comparable and "best mean: group_0" in describe(other)[0]
    for run in other.groups[1].runs:
        run.summary["name"] = "another scenario"
    assert not other.comparable


def test_one_seed_is_said_to_be_one():
    from simfl.report.summary_text import describe

    study = simulated([Truth(), Truth()], np.random.default_rng(0), seeds=1, axis="devices.availability.dropout")
    assert "one seed" in describe(study)[-1]
    study = simulated([Truth(), Truth()], np.random.default_rng(0), seeds=2, axis="devices.availability.dropout")
    assert "one seed" not in describe(study)[-1]
    assert json.dumps(describe(study)) and replace(study, target=None).seeds == 2


# -- hand-made tables: what holds whatever the numbers are ---------------------------------------------

SEEDS = 6
levels = st.integers(0, 3)
NOISE = (
    (0.131, -0.217, 0.317, -0.088, 0.241, -0.391),
    (-0.071, 0.183, -0.269, 0.331, -0.117, 0.053),
    (9.137, -9.311, 5.273, -6.419, 8.753, -7.337),
)
"""Of the seeds: two kinds of little, and much."""


@st.composite
def tables(draw):
    """Two to five groups with a few values of everything, so that ties, near ties and orders of all kinds come up."""
    groups = []
    for _ in range(draw(st.integers(2, 5))):
        accuracy, time_s = (draw(st.tuples(levels, st.sampled_from(NOISE))) for _ in range(2))
        seeds = draw(st.sampled_from([SEEDS] * 5 + [2]))
        hides, known, guarantee = draw(st.booleans()), draw(st.booleans()), draw(st.integers(1, 3))
        groups.append((accuracy, time_s, seeds, hides, known, guarantee, draw(st.integers(0, 5))))
    return groups


def hand_made(groups, seeds=None, accuracies=True):
    """A study of the rows of a table; times and accuracies without anything that the table does not say."""
    truths = [
        Truth(guarantee=guarantee, known=known, falls_until=5, seeds=tuple(range(seeds or own)))
        for _, _, own, _, known, guarantee, _ in groups
    ]
    study = simulated(truths, np.random.default_rng(0), seeds=SEEDS, rounds=20)
    for group, ((level, noise), (slow, late), _, hides, _, _, shift) in zip(study.groups, groups, strict=True):
        for run in group.runs:
            place = (run.seed + shift) % SEEDS
            summary = run.results.summary
            summary["test_accuracy"] = 0.5 + 0.05 * level + 0.01 * noise[place]
            if not accuracies:
                del summary["test_accuracy"]
            run.__dict__["_to_target"] = {study.target: {"time_to_target_s": 100 + 10 * slow + late[place]}}
            if hides:
                summary["secagg_bytes"] = 1.0
    return study


def worth(study, group):
    """What the printed rule looks at; more is better."""
    runs = group.runs
    guarantee = "guarantee_semi_strong" in runs[0].summary
    name = "guarantee_semi_strong" if guarantee else "privacy_semi_strong"
    accuracy = np.mean([run.finals.get("test_accuracy", 0.0) for run in runs])
    time_s = np.mean([run.to_target(study.target)["time_to_target_s"] for run in runs])
    return "secagg_bytes" in runs[0].summary, guarantee, min(run.summary[name] for run in runs), accuracy, -time_s


def dominates(ours, theirs):
    """At least as good in everything and better in something; an unknown guarantee is no better than a known one."""
    pairs = [(ours[0], theirs[0]), (ours[1:3], theirs[1:3]), (ours[3], theirs[3]), (ours[4], theirs[4])]
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


@settings(max_examples=repeats(40, 150), deadline=None)
@given(tables())
def test_the_recommended_configuration_is_never_dominated(groups):
    study = hand_made(groups)
    advice = advise(study)
    for other in advice.running:
        if advice.pick and len(other.runs) == len(advice.pick.runs):
            assert not dominates(worth(study, other), worth(study, advice.pick)), (advice.rule, other.label)


def test_who_is_only_uncertain_is_not_chosen_over_who_is_surely_better():
    """group_1 is surely less accurate than the best, group_2 by more, but nobody knows: it was chosen."""
    sure, unsure = NOISE[1], NOISE[2]
    best, second, third = ((3, NOISE[1]), 1), ((2, sure), 3), ((1, unsure), 3)
    rows = [(accuracy, (1, sure), SEEDS, False, True, guarantee, 0) for accuracy, guarantee in (best, second, third)]
    study = hand_made(rows)
    p = p_values(*([run.finals["test_accuracy"] for run in study.groups[place].runs] for place in (2, 0)))
    assert p > family_level(study) and dominates(worth(study, study.groups[1]), worth(study, study.groups[2]))
    assert advise(study).pick.label == "group_0"


@settings(max_examples=repeats(25, 100), deadline=None)
@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_the_configurations_changes_nothing(groups, random):
    study = hand_made(groups)
    order = list(study.groups)
    for mixed in (order[::-1], random.sample(order, len(order))):
        first, second = advise(study), advise(replace(study, groups=tuple(mixed)))
        assert (first.pick and first.pick.label) == (second.pick and second.pick.label)
        assert {group.label for group in first.ties} == {group.label for group in second.ties}
        assert (first.rule, first.changes and [c.words for c in first.changes]) == (
            second.rule, second.changes and [c.words for c in second.changes]
        )  # fmt: skip
        assert sorted(first.reason.replace(",", "").split()) == sorted(second.reason.replace(",", "").split())


@settings(max_examples=repeats(20, 50), deadline=None)
@given(tables(), st.booleans())
def test_with_two_seeds_nothing_is_settled(groups, accuracies):
    advice = advise(hand_made(groups, seeds=2, accuracies=accuracies))
    assert advice.pick is None and not advice.changes and "fewer than 3 seeds" in advice.reason


@settings(max_examples=repeats(25, 100), deadline=None)
@given(tables())
def test_no_unknown_guarantee_is_chosen_over_a_known_one_of_equal_accuracy(groups):
    alike = [
        ((1, NOISE[1]), time_s, SEEDS, False, known, guarantee, 0) for _, time_s, _, _, known, guarantee, _ in groups
    ]
    study = hand_made(alike)
    advice = advise(study)
    known = [group for group in study.groups if "guarantee_semi_strong" in group.first.summary]
    if advice.pick and known:
        assert advice.pick in known
        if len(known) < len(study.groups):
            assert "one that theory knows before any that was only observed" in advice.rule


def test_too_few_seeds_of_some_are_named_in_the_rule():
    row = ((1, NOISE[0]), (1, NOISE[1]), SEEDS, False, True, 1, 0)
    study = hand_made([row, (*row[:5], 3, 0), ((0, NOISE[0]), row[1], 2, *row[3:])])
    advice = advise(study)
    assert advice.pick.label == "group_1" and advice.rule.startswith(
        "among those with at least 3 seeds, those whose accuracy is shown"
    )


def test_equal_means_are_no_reason_to_choose():
    row = ((1, NOISE[0]), (1, NOISE[1]), SEEDS, False, True, 3, 0)
    advice = advise(hand_made([(*row[:5], 1, 0), row, row]))
    assert advice.pick is None and advice.reason == "group_1, group_2 have the same means"


@pytest.mark.parametrize(("extra", "said"), [({}, True), ({"network": {"name": "star", "latency_s": 0.1}}, False)])
def test_a_study_in_which_no_time_passes_says_so(extra, said, tmp_path):
    scenario = {"name": "plain", "clients": 4, "selection": {"name": "random", "k": 2}, "learning": "none",
                "training": {"name": "fedavg", "rounds": 2}}  # fmt: skip
    study = read_study([simfl.run(scenario | extra, out=tmp_path).path])
    assert (TIMELESS in cautions(study)) == said
