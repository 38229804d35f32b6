"""Comparisons: the same draws for every configuration, and intervals that say what they should."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pandas
import pytest
from click.testing import CliRunner

import simfl
from simfl.cli import simfl as group
from simfl.core.column_files import read_columns
from simfl.core.errors import SimflError
from simfl.core.rng import Address
from simfl.core.types import Job
from simfl.experiments.compare import intervals
from simfl.experiments.compare.comparison import configurations
from simfl.experiments.compare.run_numbers import baseline_target, to_target
from simfl.experiments.sweep.plan import plan_sweep
from simfl.experiments.sweep.task import note_failure
from simfl.runs.run import build
from simfl.scenario import Scenario
from simfl.selection.theory.expected_cardinality import theory
from tests.support.swept_axes import axes

pytestmark = pytest.mark.usefixtures("sweeps_here")


DIGITS = """
name: digits
clients: 20
network: {name: star, latency_s: {name: log_normal, median: 0.1, sigma: 0.5}, jitter_s: {name: exponential, mean: 0.02}}
devices:
  availability: {name: bernoulli, dropout: 0.3}
  computation: {name: per_sample, seconds: 0.01, speed: {name: log_normal, median: 1, sigma: 0.3}}
  failure: {name: bernoulli, probability: 0.2}
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 12, batch_size: 20, learning_rate: 0.2}
learning: {data: digits, partition: {name: dirichlet, beta: 0.5}, model: mlp}
privacy: none
trace: events
"""

POLICIES = ["random", "batch_partition:T=2", "partition"]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("compare") / "digits.yaml"
    path.write_text(DIGITS)
    return path


@pytest.fixture(scope="module")
def compared(file):
    """Three policies, three seeds."""
    out = file.parent / "r"
    return simfl.compare(file, {"selection": POLICIES}, replications=3, out=out, target_accuracy=0.5, jobs=1)


# -- intervals -----------------------------------------------------------------------------------

# Student (1908), The probable error of a mean: hours of sleep gained by ten patients with each of two drugs.
DRUG_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
DRUG_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_students_sleep_data_have_their_published_intervals():
    """Values as R's documentation of ``sleep`` and its ``t.test`` give them."""
    pair, apart = intervals.paired_difference(DRUG_1, DRUG_2), unpaired(DRUG_1, DRUG_2)
    assert (pair.estimate, pair.lower, pair.upper) == pytest.approx((-1.58, -2.4598858, -0.7001142), abs=1e-7)
    assert apart == pytest.approx((-3.3654832, 0.2054832), abs=1e-7)
    assert pair.lower * pair.upper > 0 > apart[0] * apart[1]


def unpaired(values, baseline):
    return tuple(float(end[0]) for end in intervals.unpaired_ends(np.array([values]), np.array([baseline])))


def test_intervals_are_those_of_students_formula():
    from scipy import stats

    rng = np.random.default_rng(0)
    for n in (2, 3, 20):
        a = rng.normal(1, 2, n)
        low, high = stats.t.interval(0.95, n - 1, a.mean(), stats.sem(a))
        found = intervals.mean(a)
        assert (found.lower, found.upper, found.half_width) == pytest.approx((low, high, (high - low) / 2), rel=1e-9)


def test_a_single_value_has_no_interval_and_equal_ones_have_none_to_speak_of():
    one = intervals.paired_difference([3.0], [1.0])
    assert (one.estimate, one.lower, one.upper) == (2.0, None, None)
    assert np.isnan(one.half_width)
    same = intervals.paired_difference([3.0, 4.0], [1.0, 2.0])
    assert (same.lower, same.estimate, same.upper) == (2.0, 2.0, 2.0)
    assert unpaired([3.0, 3.0], [1.0, 1.0]) == (2.0, 2.0)


# -- measures ------------------------------------------------------------------------------------


def test_the_target_is_reached_at_the_first_round_whose_accuracy_is_there(tmp_path):
    (tmp_path / "rounds.csv").write_text(
        "round,time_s,bytes_down,bytes_up,test_accuracy\n0,1.5,10,5,\n1,2.5,10,,0.4\n2,4.0,20,7,0.5\n3,9.0,1,1,0.3\n"
    )
    rounds = tmp_path / "rounds.csv"
    assert to_target(rounds, 0.5) == {"rounds_to_target": 3, "time_to_target_s": 4.0, "bytes_to_target": 52}
    assert to_target(rounds, 0.4)["rounds_to_target"] == 2
    assert to_target(rounds, 0.51) == {}


def test_the_target_is_a_share_of_what_the_baseline_reaches():
    """95 % of (.88 + .92 + .9) / 3 is .855: whole per cents, rounded down; of several worlds the least."""
    best = [{"best_test_accuracy": value} for value in (0.88, 0.92, 0.9)]
    assert baseline_target([best]) == 0.85
    assert baseline_target([best, [{"best_test_accuracy": 0.4}]]) == 0.38
    assert baseline_target([[*best, {"best_test_accuracy": None}]]) is None and baseline_target([]) is None
    assert baseline_target([[]]) is None


def test_choices_are_the_product_of_what_has_several_values_but_seeds():
    found = configurations(axes(["training.rounds=5", "selection=b,a", "seed=0,1", "training.name=x,y"]))
    assert [choice.label for choice in found] == ["b / x", "b / y", "a / x", "a / y"]
    assert found[1].values == {"selection": "b", "training.name": "y"}
    with pytest.raises(SimflError, match="nothing to compare"):
        configurations(axes(["seed=0,1", "selection=a"]))


# -- the same draws ------------------------------------------------------------------------------


def test_every_policy_meets_the_same_world():
    """Availability, latency, computation, failures, the clients' data and what a job trains on them."""
    parts = [build(Scenario.parse(DIGITS, "x", [f"selection={policy}"])) for policy in POLICIES]
    everyone = np.arange(20, dtype=np.int32)
    for t in (0, 1, 2):
        where = Address(t, everyone, 20)
        draws = [
            (
                p.available.draw(t, 7.0 * t),
                p.links.down_s(everyone, 1e4, where),
                p.links.up_s(everyone, 1e4, where),
                p.computing.duration_s(everyone, p.learner.samples, 1.0, where),
                p.failing.draw(everyone, where),
            )
            for p in parts
        ]
        for other in draws[1:]:
            for ours, theirs in zip(draws[0], other, strict=True):
                np.testing.assert_array_equal(ours, theirs)
    learners = [p.learner for p in parts]
    job = [Job(id=(1 << 32) | 3, client=3, version=0, started_at=0.0)]
    trained = []
    for learner in learners:
        learner.put(0, learner.initial())
        trained.append((learner.initial(), learner.samples, learner.train(job).deltas))
    for other in trained[1:]:
        for ours, theirs in zip(trained[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_played_runs_of_one_seed_share_their_draws(compared):
    """Wherever two policies send the model to the same client in the same round, its trip takes the same times."""

    def seen(digest):
        available, trips, begin = {}, {}, 0.0
        for line in open(compared.path.parent / digest / "events.jsonl"):
            event = json.loads(line)
            if event["event"] == "round_start":
                begin, available[event["round"]] = event["time_s"], event["available"]
            elif event["event"] == "compute":
                took = event["start_s"] - begin, event["end_s"] - event["start_s"]
                trips[event["job"]] = (*took, event["completed"])
        return available, trips

    shared = 0
    for seed in (0, 1, 2):
        runs = compared.runs[compared.runs.seed == seed]
        (available, trips), *others = (seen(digest) for digest in runs.digest)
        for again, theirs in others:
            assert again == available
            for key in trips.keys() & theirs.keys():
                assert trips[key] == (pytest.approx(theirs[key][0]), pytest.approx(theirs[key][1]), theirs[key][2])
                shared += 1
    assert shared > 30
    first = [seen(runs.digest.iloc[0])[0] for _, runs in compared.runs.groupby("seed")]
    assert first[0] != first[1]  # seeds differ


# -- what is written -----------------------------------------------------------------------------


def test_tables_are_what_pandas_and_scipy_make_of_the_runs(compared):
    from scipy import stats

    results = {(row.selection, row.seed): compared.result(row.digest) for row in compared.runs.itertuples()}
    assert len(results) == 9 and len(compared.failed) == 0
    means = compared.means.set_index(["choice", "metric"])
    paired = compared.paired.set_index(["choice", "metric"])
    for metric in ("test_accuracy", "best_test_accuracy", "mean_cardinality", "fairness_gap", "time_s"):
        values = {policy: [results[policy, seed].summary[metric] for seed in range(3)] for policy in POLICIES}
        for policy, sample in values.items():
            row = means.loc[policy, metric]
            assert row["mean"] == pytest.approx(np.mean(sample)) and row["runs"] == 3
            assert row["standard_deviation"] == pytest.approx(np.std(sample, ddof=1))
        for policy in POLICIES[1:]:
            row = paired.loc[policy, metric]
            test = stats.ttest_rel(values[policy], values["random"]).confidence_interval(0.95)
            welch = stats.ttest_ind(values[policy], values["random"], equal_var=False).confidence_interval(0.95)
            assert (row.lower, row.upper) == pytest.approx(tuple(test))
            assert (row.unpaired_lower, row.unpaired_upper) == pytest.approx(tuple(welch))
            assert row.width_ratio == pytest.approx((welch.high - welch.low) / (test.high - test.low), nan_ok=True)
            assert (row.baseline, row.pairs) == ("random", 3)
    for policy in POLICIES:
        reached = []
        for seed in range(3):
            rounds = results[policy, seed].rounds
            above = rounds[rounds.test_accuracy >= 0.5]
            if len(above):
                spent = rounds[: above.index[0] + 1]
                reached.append((len(spent), above.time_s.iloc[0], (spent.bytes_down + spent.bytes_up).sum()))
        names = "rounds_to_target", "time_to_target_s", "bytes_to_target"
        for metric, column in zip(names, zip(*reached, strict=True), strict=True):
            row = means.loc[policy, metric]
            assert (row["mean"], row["runs"]) == (pytest.approx(np.mean(column)), len(column))
        row = means.loc[policy, "expected_cardinality"]
        assert row["mean"] == pytest.approx(theory(results[policy, 0].scenario)["expected_cardinality"])
    assert "random" not in set(compared.paired.choice) and "seed" not in set(compared.means.metric)


def test_the_document_names_its_runs_and_holds_the_tables(compared):
    document = compared.document
    assert document["keys"] == {"selection": POLICIES} and document["seeds"] == [0, 1, 2]
    assert (document["baseline"], document["target_accuracy"], document["confidence"]) == ("random", 0.5, 0.95)
    assert [choice["choice"] for choice in document["choices"]] == POLICIES
    for choice in document["choices"]:
        for run in choice["runs"]:
            summary = json.loads((compared.path.parent / run["digest"] / "summary.json").read_text())
            assert summary["seed"] == run["seed"] and run["status"] == "done"
    for name, table in (("means", compared.means), ("paired", compared.paired)):
        frame = pandas.DataFrame(document[name])
        filled = table.fillna({"collapsed_seeds": ""}) if "collapsed_seeds" in table else table
        pandas.testing.assert_frame_equal(frame, filled, check_dtype=False)
    assert isinstance(simfl.open(compared.path), type(compared))
    assert list(Path(compared.path).glob("*.tmp")) == []


def test_the_command_prints_a_table_json_or_csv_and_writes_the_same_bytes(file, compared):
    before = {path.name: path.read_bytes() for path in compared.path.iterdir()}
    arguments = ["compare", str(file), "selection=" + ",".join(POLICIES), "--replications", "3", "--target-accuracy",
                 "0.5", "--out", str(file.parent / "r")]  # fmt: skip
    runner = CliRunner()
    ended = runner.invoke(group, [*arguments, "--columns", "all"])
    assert ended.exit_code == 0, ended.output
    lines = ended.stdout.splitlines()
    assert Path(lines[-1]) == compared.path and "3 seeds; target accuracy 0.5" in lines[0]
    for heading in ("Accuracy", "Time to target, s", "Traffic to target, MB", "Fairness gap", "Expected cardinality"):
        assert heading in lines[1]
    row = next(line for line in lines if line.startswith("batch_partition:T=2"))
    mean = compared.means.set_index(["choice", "metric"]).loc["batch_partition:T=2", "test_accuracy"]
    assert f"{mean['mean']:.4f} ±{mean['upper'] - mean['mean']:.4f}" in row
    assert json.loads(runner.invoke(group, [*arguments, "--json"]).stdout)["choices"] == compared.document["choices"]
    table = list(csv.DictReader(io.StringIO(runner.invoke(group, [*arguments, "--csv"]).stdout)))
    assert len(table) == len(compared.means)
    assert {path.name: path.read_bytes() for path in compared.path.iterdir()} == before
    other = runner.invoke(group, [*arguments, "--baseline", "partition", "--json"])
    assert json.loads(other.stdout)["path"] != str(compared.path)
    ended = runner.invoke(group, [*arguments, "--baseline", "partitio"])
    assert ended.exit_code == 2 and "did you mean 'partition'" in ended.stderr
    assert runner.invoke(group, ["compare", str(file), "selection=random"]).exit_code == 2


def test_a_failed_run_costs_its_pair_and_exit_code_3(file, compared):
    grid = ["selection=" + ",".join(POLICIES), "learning=none"]
    out = file.parent / "failing"
    plan = plan_sweep(file, axes(grid), 3)
    lost = next(member for member in plan.members if member.values[0] == "partition" and member.seed == 1)
    note_failure(out / "digits" / lost.digest, "out of memory")
    arguments = ["compare", str(file), *grid, "--replications", "3", "--jobs", "1", "--out", str(out)]
    ended = CliRunner().invoke(group, arguments)
    assert ended.exit_code == 3 and "(2/3)" in ended.stdout and "partition learning=none seed=1" in ended.stderr
    found = simfl.open(ended.stdout.splitlines()[-1])
    assert list(found.failed.error) == ["out of memory"]
    rows = found.paired.set_index(["choice", "metric"]).pairs
    assert rows["partition", "time_s"] == 2 and rows["batch_partition:T=2", "time_s"] == 3


# -- what the terminal says ------------------------------------------------------------------------


def printed(document, width):
    """Lines on a terminal of so many columns."""
    from rich.console import Console

    from simfl.experiments.compare.show import show

    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, color_system=None, highlight=False, markup=False)
    show(document, console, columns=["all"])
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_six_columns_are_shown_unless_others_are_asked_for(compared):
    """Accuracy, guarantee, recovery, time, traffic, clients in a sum: on a terminal of 120 columns in one piece."""
    from rich.console import Console

    from simfl.experiments.compare.show import show
    from simfl.experiments.compare.table_choice import default_columns

    names = [column.name for column in default_columns(compared.document, read_columns(compared.document["columns"]))]
    wanted = ["test_accuracy", "guarantee_semi_strong", "measured_recovered", "time_to_target_s", "bytes",
              "clients_in_sum", "time_s", "waiting_s", "skipped"]  # fmt: skip
    measured = {row["metric"] for row in compared.document["means"] if row["mean"] or row["metric"] != "skipped"}
    assert names == [name for name in wanted if name in measured] and len(names) >= 5
    file = io.StringIO()
    asked = ["time_s", "test_accuracy"]
    show(compared.document, Console(file=file, width=400), columns=asked, where={"selection": "partition"})
    lines = file.getvalue().splitlines()
    assert re.split(r"\s{2,}", lines[1].strip()) == ["Simulated time, s", "Accuracy"]
    assert lines[2].startswith("partition ") and not any(line.startswith("random ") for line in lines)
    for wrong, said in (
        ({"columns": ["time"]}, "did you mean 'time_s'"),
        ({"where": {"selection": "part"}}, "partition"),
        ({"where": {"select": "x"}}, "selection"),
    ):
        with pytest.raises(SimflError, match=said):
            show(compared.document, Console(file=file), **wrong)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_number_is_whole_at_any_width(compared, width):
    """C1: at 80 columns it printed "0.…"."""
    lines, whole = printed(compared.document, width), printed(compared.document, 1000)
    assert all(len(line) <= width for line in lines) and "…" not in "".join(lines)

    def cells(lines, name):
        return [cell for line in lines if line.startswith(name + " ") for cell in line[len(name) :].split("  ") if cell]

    for name in ("random", "partition"):
        assert [c.strip() for c in cells(lines, name)] == [c.strip() for c in cells(whole, name)]
    assert sum("Accuracy" in line for line in lines) == sum("Accuracy" in line for line in whole)


def test_a_long_name_is_wrapped_beside_its_numbers(compared):
    document = json.loads(json.dumps(compared.document).replace("batch_partition:T=2", "x" * 100))
    lines = printed(document, 80)
    assert all(len(line) <= 80 for line in lines) and "x" * 100 in "".join(re.findall("x+", "\n".join(lines)))


def test_nothing_is_called_certain_and_the_family_has_its_word(compared):
    """A10: 40 intervals of 95 %, none of them corrected, are not "certain"."""
    text = "\n".join(printed(compared.document, 1000))
    count = sum(row["lower"] is not None for row in compared.document["paired"] if shown_better(row["metric"]))
    assert "certain" not in text and "family-wise" not in text
    assert f"of {count} differences between equals, about {0.05 * count:.2g} would have a star by chance alone" in text
    assert f"3 seeds cannot show more among {count} differences; 5 can" in text
    more, fewer = (re.sub(r'"pairs": 3', f'"pairs": {n}', json.dumps(compared.document)) for n in (5, 2))
    text = "\n".join(printed(json.loads(more), 1000))
    assert f"** family-wise: among all {count} together (Holm)" in text
    text = "\n".join(printed(json.loads(fewer), 1000))
    assert "Not settled: 2 seeds cannot show a difference; stars need 3." in text and "significant" not in text


def shown_better(name):
    from simfl.core.columns import DERIVED_COLUMNS, ROUND_COLUMNS, SUMMARY_COLUMNS, TARGET_COLUMNS

    known = {column.name: column for column in (*ROUND_COLUMNS, *SUMMARY_COLUMNS, *TARGET_COLUMNS, *DERIVED_COLUMNS)}
    return known[name].shown and known[name].better


def test_a_second_star_is_for_the_family():
    from simfl.experiments.compare.show import _difference

    def row(p):
        return {"difference": 2.0, "lower": 1.0, "upper": 3.0, "unpaired_lower": 0.5, "unpaired_upper": 3.5,
                "pairs": 5, "p_value": p}  # fmt: skip

    def form(x):
        return f"{x:g}"

    assert _difference(row(0.02), form, 5, (0.05, 0.01)) == "+2 ±1 [1.5]*"
    assert _difference(row(0.005), form, 6, (0.05, 0.01)) == "+2 ±1 [1.5]** (5/6)"
    assert _difference(row(0.0), form, 5, (0.05, -1.0)) == "+2 ±1 [1.5]*", "none is significant among all"
    assert _difference(row(0.5), form, 5, (0.05, 0.01)).endswith("]"), "an interval without width is no star"


def test_never_is_said_of_targets_only(compared):
    """C2: "In theory: never" was printed where theory says nothing."""
    document = json.loads(json.dumps(compared.document))
    lost = {("random", "rounds_to_target"), ("random", "expected_cardinality")}
    document["means"] = [row for row in document["means"] if (row["choice"], row["metric"]) not in lost]
    document["columns"] = [c for c in document["columns"] if c["name"] in ("rounds_to_target", "expected_cardinality")]
    row = next(line for line in printed(document, 200) if line.startswith("random"))
    assert row.split()[1:] == ["never", "–"]


def test_the_target_lies_above_what_needs_no_training():
    """A9: an untrained policy set the target at 5 % of ten classes, and then was the quickest to it."""
    row = {"best_test_accuracy": 0.05, "no_skill_accuracy": 0.12, "skipped": 20, "rounds": 20}
    learned = row | {"best_test_accuracy": 0.8, "skipped": 1}
    assert baseline_target([[learned]]) == 0.76
    assert baseline_target([[row]]) is None, "nothing was learned"
    assert baseline_target([[row], [learned]]) == 0.76, "of the world in which something was"
    assert baseline_target([[learned | {"best_test_accuracy": 0.126}]]) is None  # 95 % of it are 11.97 %
    assert baseline_target([[learned | {"best_test_accuracy": 0.137}]]) == 0.13
    old = {"best_test_accuracy": 0.05, "skipped": 20, "rounds": 20}
    assert baseline_target([[old]]) is None


def test_no_skill_is_the_commonest_class_or_the_untrained_model():
    from simfl.runs.run import build

    learner = build(Scenario.parse(DIGITS, "x")).learner
    labels = learner.evaluator.test_set.labels
    learner.put(0, learner.initial())
    untrained = learner.evaluator.evaluate(0)["test_accuracy"]
    assert learner.evaluator.no_skill_accuracy() == max(np.bincount(labels).max() / len(labels), untrained)
    assert build(Scenario.parse(DIGITS, "x", ["learning=none"])).learner.evaluator.no_skill_accuracy() is None


def test_who_skips_every_round_never_reaches_the_target_and_is_named(tmp_path):
    """A9, played: a policy of groups larger than who is ever there."""
    file = tmp_path / "digits.yaml"
    file.write_text(DIGITS.replace("dropout: 0.3", "dropout: 0.6"))
    grid = {"selection": ["random", "partition:k=10"], "training.rounds": 6}
    made = simfl.compare(file, grid, replications=2, out=tmp_path / "r", jobs=1)
    means = made.means.set_index(["choice", "metric"])["mean"]
    assert means["partition:k=10", "skipped"] == 6
    assert made.document["target_accuracy"] > means["random", "no_skill_accuracy"]
    assert ("partition:k=10", "time_to_target_s") not in means.index
    text = "\n".join(printed(made.document, 300))
    assert (
        "warning: partition:k=10 skipped 6 of 6 rounds: nothing was aggregated in them; its model is untrained" in text
    )
    assert next(line for line in printed(made.document, 300) if line.startswith("partition")).count("never") == 3
