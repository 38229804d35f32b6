"""Guarantees of which only bounds are known: what reports say of them holds of the exact value, too."""

import numpy as np
import pandas
import pytest

import simfl
from simfl.report.advice import advise
from simfl.report.study_reader import read_study
from simfl.report.summary_text import describe, describe_masking
from tests.support.known_truth import Truth, simulated

RANDOM = {
    "name": "bounds", "clients": 10, "selection": {"name": "random", "k": 5},
    "training": {"name": "fedavg", "rounds": 7}, "learning": "none",
}  # fmt: skip


def report_of(tmp_path, changes=(), **privacy):
    """The summary of a run, and its report in one text."""
    run = simfl.run(RANDOM | dict(changes) | {"privacy": {"name": "multi_round", **privacy}}, out=tmp_path)
    return run.summary, " ".join(describe(read_study([run.path])))


def test_a_lower_bound_of_one_is_no_exposure(tmp_path):
    exact, known = report_of(tmp_path)
    bounds, text = report_of(tmp_path, budget=300)
    lower, upper = (bounds[f"privacy_weak_{end}"] for end in ("lower", "upper"))
    assert lower == 1 < exact["privacy_weak_lower"] == exact["privacy_weak_upper"] <= upper
    assert "single out" not in text + known
    assert f"contains the updates of between 1 and {upper:g} clients, as far as is known" in text
    assert f"no sum of fewer than {exact['privacy_weak_lower']:g} clients' updates" in known


def test_an_exposure_is_told_after_the_round_from_which_on_it_is_certain(tmp_path):
    changes = {"training": {"name": "fedavg", "rounds": 12}}
    summary, text = report_of(tmp_path, changes)
    assert summary["privacy_weak_upper"] == 1
    (path,) = tmp_path.glob("**/rounds.csv")
    rounds = pandas.read_csv(path)
    since = int(rounds["round"][rounds.privacy_weak_upper == 1].iloc[0])
    said = "combined aggregates make one client's update reconstructable by the server in the worst case"
    assert f"After {since + 1} rounds, {said}" in text


def test_means_over_seeds_are_bounds_too(tmp_path):
    scenario = RANDOM | {"privacy": {"name": "multi_round", "budget": 300}}
    paths = [simfl.run(scenario | {"seed": seed}, out=tmp_path).path for seed in range(2)]
    study = read_study(paths)
    lower, upper = (np.mean([run.finals[f"privacy_weak_{end}"] for run in study.runs]) for end in ("lower", "upper"))
    assert lower < upper
    text = " ".join(describe(study))
    assert f"guarantee against the server ends at between {lower:g} and {upper:g} clients on average, as far as" in text


MASKED = {
    "name": "masked", "clients": 24, "secagg": "secagg", "training": {"name": "fedavg", "rounds": 20},
    "learning": {"name": "none", "parameters": 10, "samples": 10},
}  # fmt: skip
HALVES, ANY = {"name": "half_partition", "T": 4, "k": 8}, {"name": "random", "k": 8}


def masking_of(tmp_path, selection, privacy):
    """The summary of a run with secure aggregation, and the sentence about its guarantee."""
    run = simfl.run(MASKED | {"selection": selection, "privacy": privacy}, out=tmp_path)
    return run.summary, describe_masking(read_study([run.path]))[0]


def test_a_promised_guarantee_is_denied_by_upper_bounds_only(tmp_path):
    exact, known = masking_of(tmp_path, HALVES, "multi_round")
    bounds, text = masking_of(tmp_path, HALVES, {"name": "multi_round", "budget": 3000})
    assert exact["privacy_weak_lower"] == exact["guarantee_weak"] == 4 > bounds["privacy_weak_lower"]
    assert "T = 4 holds" in known and "nothing down to fewer than 4 clients, now or later" in known
    assert "does not hold" not in text and "theory promises the multi-round guarantee T = 4" in text
    assert "between 2 and 8 clients, as far as is known" in text


def test_a_guarantee_below_the_promised_one_does_not_hold(tmp_path):
    run = simfl.run(MASKED | {"selection": HALVES, "privacy": "multi_round"}, out=tmp_path)
    study = read_study([run.path])
    study.groups[0].first.finals.update({"privacy_weak_lower": 1.0, "privacy_weak_upper": 3.0})
    (said, *_) = describe_masking(study)
    assert (
        "T = 4 does not hold: in the worst case" in said and "combining all sums, it can narrow something down" in said
    )


def test_with_nothing_promised_one_client_is_named_for_upper_bounds_only(tmp_path):
    exact, known = masking_of(tmp_path, ANY, "multi_round")
    bounds, text = masking_of(tmp_path, ANY, {"name": "multi_round", "budget": 3000})
    assert bounds["privacy_weak_lower"] == 1 < exact["privacy_weak_lower"] == 3
    assert "nothing down to fewer than 3 clients." in known and "down to 1 client" not in text
    assert "promises no multi-round guarantee: " in text and "between 1 and 8 clients, as far as" in text


def test_what_was_not_computed_is_not_said_not_to_be_promised(tmp_path):
    """Theory promises T = 4 there, but the run did not ask it."""
    summary, text = masking_of(tmp_path, HALVES, "none")
    assert "privacy_weak_lower" not in summary or summary["privacy_weak_lower"] is None
    assert "promises no" not in text and "was not computed" in text


# -- advice -----------------------------------------------------------------------------------------------


def observed(*groups, every=1):
    """A study in which theory knows nothing, and groups have a constant guarantee: (semi-strong, weak from, to).

    Args:
        every: rounds between values of the semi-strong and weak guarantee; 0 = after the last one only.
    """
    study = simulated([Truth(known=False, noise=0) for _ in groups], np.random.default_rng(0), seeds=6)
    for group, (semi, lower, upper) in zip(study.groups, groups, strict=True):
        values = {"privacy_semi_strong": semi, "privacy_weak_lower": lower, "privacy_weak_upper": upper,
                  "privacy_strong": 1.0}  # fmt: skip
        for run in group.runs:
            for name, value in values.items():
                run.results.summary[name] = value
                column = pandas.Series([value] * 20, dtype=float)
                if name != "privacy_strong":
                    column[[place for place in range(19) if not every or (place + 1) % every]] = np.nan
                run.rounds[name] = column
    return study


def test_a_budget_that_was_spent_does_not_make_a_guarantee_weaker():
    """Of two configurations that are the same but for their budgets, the one with more of it was chosen."""
    advice = advise(observed((1.0, 1, 5), (2.0, 2, 2)))
    assert advice.pick is None and not advice.changes
    assert advice.reason == (
        "it is not known which guarantee is the strongest: semi-strong 1 to 5 for group_0, 2 for group_1"
    )


def test_bounds_that_do_not_overlap_decide():
    assert advise(observed((1.0, 1, 5), (6.0, 6, 6))).pick.label == "group_1"
    assert advise(observed((1.0, 1, 2), (3.0, 3, 9))).pick.label == "group_1"


def test_exact_values_decide_whatever_the_weak_guarantees_are():
    assert advise(observed((2.5, 5, 5), (3.5, 4, 4))).pick.label == "group_1"
    assert advise(observed((2.5, 3, 3), (2.5, 4, 4))).pick.label == "group_1"


def test_a_semi_strong_guarantee_that_cannot_be_exact_does_not_decide():
    """The exact value of 1 is also that of the weak guarantee, which is 5."""
    advice = advise(observed((1.0, 5, 5), (2.0, 3, 3)))
    assert advice.pick is None and "semi-strong 1 to 5 for group_0, 2 for group_1" in advice.reason


def test_a_guarantee_that_was_not_computed_is_not_weaker():
    study = observed((2.0, 2, 2), (2.0, 2, 2))
    for run in study.groups[1].runs:
        for name in ("privacy_semi_strong", "privacy_weak_lower", "privacy_weak_upper", "privacy_strong"):
            del run.results.summary[name], run.rounds[name]
    advice = advise(study)
    assert advice.pick is None and "2 for group_0, not computed for group_1" in advice.reason


@pytest.mark.parametrize(
    ("every", "said"), [(0, "was computed in too few rounds"), (10, "was computed in too few rounds"), (5, ""), (1, "")]
)
def test_a_guarantee_has_settled_if_two_values_of_the_later_half_are_equal(every, said):
    advice = advise(observed((2.0, 2, 2), (3.0, 3, 3), every=every))
    assert (advice.pick is None) == bool(said) and said in advice.reason
    assert advice.pick or ("group_0, group_1" in advice.reason and "still falls" in advice.reason)


def test_a_guarantee_of_one_cannot_fall_further():
    advice = advise(observed((1.0, 1, 1), (3.0, 3, 3), every=0))
    assert advice.pick is None and "the guarantee of group_1 was computed in too few rounds" in advice.reason
    advice = advise(observed((1.0, 1, 1), (1.0, 1, 1), every=0))
    assert "too few rounds" not in advice.reason, "it decides nothing, but is known"


def test_lower_bounds_that_fall_are_not_called_the_guarantee():
    study = observed((1.0, 1, 2), (4.0, 4, 6))
    for run in study.groups[1].runs:
        run.rounds.loc[:15, "privacy_weak_lower"] = 5.0
    advice = advise(study)
    assert advice.pick is None
    assert advice.reason.startswith("the guarantee of group_1, as far as it is known, still falls")
