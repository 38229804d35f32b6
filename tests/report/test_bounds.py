"""Guarantees of which only bounds are known: what reports say of them holds of the exact value, too."""

import numpy as np
import pandas

import simfl
from simfl.report.secagg_overhead import describe_masking
from simfl.report.study_reader import read_study
from simfl.report.summary_text import describe

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
    assert f"contains the updates of between 1 and {upper:g} clients, as far as the budget of the analysis" in text
    assert f"no sum of fewer than {exact['privacy_weak_lower']:g} clients' updates" in known


def test_an_exposure_is_told_after_the_round_from_which_on_it_is_certain(tmp_path):
    changes = {"training": {"name": "fedavg", "rounds": 12}}
    summary, text = report_of(tmp_path, changes)
    assert summary["privacy_weak_upper"] == 1
    (path,) = tmp_path.glob("**/rounds.csv")
    rounds = pandas.read_csv(path)
    since = int(rounds["round"][rounds.privacy_weak_upper == 1].iloc[0])
    assert f"After {since + 1} rounds, the server can single out one client" in text


def test_means_over_seeds_are_bounds_too(tmp_path):
    scenario = RANDOM | {"privacy": {"name": "multi_round", "budget": 300}}
    paths = [simfl.run(scenario | {"seed": seed}, out=tmp_path).path for seed in range(2)]
    study = read_study(paths)
    lower, upper = (np.mean([run.finals[f"privacy_weak_{end}"] for run in study.runs]) for end in ("lower", "upper"))
    assert lower < upper
    text = " ".join(describe(study))
    assert f"guarantee ends at between {lower:g} and {upper:g} clients on average, as far as" in text


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
    assert "between 2 and 8 clients, as far as the budget of the analysis went" in text


def test_a_guarantee_below_the_promised_one_does_not_hold(tmp_path):
    run = simfl.run(MASKED | {"selection": HALVES, "privacy": "multi_round"}, out=tmp_path)
    study = read_study([run.path])
    study.groups[0].first.finals.update({"privacy_weak_lower": 1.0, "privacy_weak_upper": 3.0})
    assert "T = 4 does not hold: combining all sums, it can narrow something down" in describe_masking(study)[0]


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
