"""Choices after they have spent the same: rounds, time, client updates, bytes; and choices that diverged."""

import csv
import io
import json

import pandas
import pytest
from click.testing import CliRunner
from rich.console import Console

from simfl.api.result_objects import ComparisonResult
from simfl.cli import simfl
from simfl.core.columns import ROUND_COLUMNS, SUMMARY_COLUMNS
from simfl.experiments.compare.run_numbers import Course, affordable, baseline_target
from simfl.experiments.compare.show import show
from simfl.privacy.accountant import ACCOUNTANTS
from simfl.privacy.ledger.ledger_scope import LEDGER_COLUMNS
from simfl.report.advice import advise, cautions
from simfl.report.html_page import page
from simfl.report.live.watched_folder import WatchedFolder
from simfl.report.page_tables import equal_table, group_table, run_table
from simfl.report.study_reader import read_study
from tests.support.damages import growing, seal_begun

pytestmark = pytest.mark.usefixtures("sweeps_here")


BUDGETS = ["rounds", "aggregations", "time", "updates", "bytes"]

NAMES = [column.name for column in ROUND_COLUMNS]


def course(path, rows):
    """Rows of (time, clients, bytes, accuracy or None, loss)."""
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, NAMES)
        writer.writeheader()
        for number, (time_s, clients, sent, accuracy, loss) in enumerate(rows):
            writer.writerow({"round": number, "time_s": time_s, "skipped": int(not clients), "cardinality": clients,
                             "bytes_down": sent, "bytes_up": sent, "test_accuracy": accuracy, "test_loss": loss,
                             "mean_cardinality": clients, "fairness_gap": 0, "failed": 0})  # fmt: skip
    return Course.read(path, (*ROUND_COLUMNS, *SUMMARY_COLUMNS))


def test_the_last_measurement_not_after_the_budget(tmp_path):
    """Slow is better round by round, quick is better second by second."""
    slow = course(tmp_path / "slow.csv", [(10.0 * (i + 1), 4, 100, 0.2 * (i + 1), 1.0) for i in range(4)])
    quick = course(tmp_path / "quick.csv", [(i + 1.0, 1, 50, 0.1 * (i + 1) if i % 2 else None, 1.0) for i in range(9)])
    budgets = affordable([slow, quick])
    assert budgets == {"rounds": 4, "aggregations": 4, "time": 9, "updates": 9, "bytes": 800}
    found = {name: each.at(budgets) for name, each in (("slow", slow), ("quick", quick))}
    accuracy = {b: [found[name][b].get("test_accuracy") for name in ("slow", "quick")] for b in budgets}
    assert accuracy["rounds"] == [0.8, 0.4]
    assert accuracy["time"] == [None, 0.8]  # the slow one has not finished a round
    assert accuracy["updates"] == [0.4, 0.8]
    assert accuracy["bytes"] == [0.8, 0.8]
    at = found["quick"]["rounds"]
    assert (at["rounds"], at["time_s"], at["client_updates"], at["bytes"]) == (4, 4, 4, 400)
    assert found["slow"]["time"] == {}


def test_a_measurement_that_diverged_is_none(tmp_path):
    lost = course(tmp_path / "lost.csv", [(1.0, 1, 1, 0.9, 0.5), (2.0, 1, 1, None, "nan"), (3.0, 1, 1, None, None)])
    assert lost.at({"rounds": 1})["rounds"]["test_accuracy"] == 0.9
    after = lost.at({"rounds": 3})["rounds"]
    assert "test_accuracy" not in after and after["best_test_accuracy"] == 0.9 and after["diverged_round"] == 1


def test_a_guarantee_between_two_computations_is_the_later_one(tmp_path):
    """It may have fallen already: what was computed before the budget may no longer hold."""
    path = tmp_path / "rounds.csv"
    course(path, [(i + 1.0, 1, 1, 0.1 * i if i % 2 else None, 1.0) for i in range(7)])
    rounds = pandas.read_csv(path)
    rounds["privacy_weak_lower"] = [12, None, None, 6, None, None, 1]
    rounds["privacy_weak_upper"] = [12, None, None, 8, None, None, 1]
    rounds["mu_alone"] = [0.5, None, None, 0.75, None, None, None]  # infinite in the end
    rounds["mu_1_lower"] = rounds["mu_1_upper"] = [0.5, None, None, 0.75, None, None, 1]
    rounds["epsilon_rdp"] = [None, None, 2, None, None, 3, 4]
    rounds.to_csv(path, index=False)
    every = Course.read(path, (*ROUND_COLUMNS, *SUMMARY_COLUMNS, *LEDGER_COLUMNS, *ACCOUNTANTS["rdp"].columns))
    at = [every.at({"rounds": count})["rounds"] for count in range(1, 8)]
    assert [numbers["privacy_weak_lower"] for numbers in at] == [12, 6, 6, 6, 1, 1, 1]
    assert [numbers["privacy_weak_upper"] for numbers in at] == [12, 12, 12, 8, 8, 8, 1]
    assert [numbers.get("mu_alone") for numbers in at] == [0.5, 0.75, 0.75, 0.75, None, None, None]
    assert [numbers["mu_1_upper"] for numbers in at] == [0.5, 0.75, 0.75, 0.75, 1, 1, 1]
    assert [numbers["mu_1_lower"] for numbers in at] == [0.5, 0.5, 0.5, 0.75, 0.75, 0.75, 1]
    assert [numbers["epsilon_rdp"] for numbers in at] == [2, 2, 2, 3, 3, 3, 4]
    assert [numbers.get("test_accuracy") for numbers in at[:5]] == pytest.approx([None, 0.1, 0.1, 0.3, 0.3])


def test_before_anything_is_aggregated_there_is_no_guarantee(tmp_path):
    path = tmp_path / "rounds.csv"
    course(path, [(1.0, 0, 1, None, 1.0), (2.0, 2, 1, None, 1.0)])
    rounds = pandas.read_csv(path)
    rounds["privacy_strong"] = [None, 2]
    rounds.to_csv(path, index=False)
    first, second = (Course.read(path, ROUND_COLUMNS).at({"rounds": count})["rounds"] for count in (1, 2))
    assert "privacy_strong" not in first and second["privacy_strong"] == 2


def test_who_has_spent_nothing_leaves_no_budget(tmp_path):
    idle = course(tmp_path / "idle.csv", [(1.0, 0, 0, None, None)] * 3)
    assert affordable([idle, idle]) == {"rounds": 3, "time": 1}
    assert affordable([]) == {}


TEXT = """
name: side
clients: 12
network: {name: star, latency_s: 0.1}
devices: {computation: {name: random, distribution: {name: half_normal, sigma: 1.0}}}
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 8, batch_size: 50}
learning: {data: {name: synthetic, samples: 600, test_samples: 200, separation: 2}, model: logistic,
           evaluate: {every: 2}}
"""
RULES = "training={name: fedavg, rounds: 6},{name: fedbuff, rounds: 14, buffer: 2, concurrency: 4}"


def compared(tmp_path, text, grid, *options):
    (tmp_path / "side.yaml").write_text(text)
    words = ["compare", str(tmp_path / "side.yaml"), grid, "--replications", "3", "--jobs", "1", "--out",
             str(tmp_path / "out"), *options]  # fmt: skip
    result = CliRunner().invoke(simfl, words)
    assert result.exit_code == 0, result.output
    (folder,) = (tmp_path / "out").glob("*/compare-*")
    return result.output, folder


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    return compared(tmp_path_factory.mktemp("rules"), TEXT, RULES, "--at", "time")


def test_fedavg_beside_fedbuff(rules):
    output, folder = rules
    found = ComparisonResult.open(folder)
    assert [part["budget"] for part in found.document["equal"]] == BUDGETS
    for part in found.document["equal"]:
        column, value = part["column"], part["value"]
        ends = []
        for result in found.results():
            rounds = result.rounds.fillna({"bytes_down": 0, "bytes_up": 0})
            sent = (rounds.bytes_down + rounds.bytes_up).cumsum()
            spent = {"rounds": rounds["round"] + 1, "time_s": rounds.time_s, "bytes": sent,
                     "client_updates": rounds.cardinality.cumsum(),
                     "aggregations": (rounds.cardinality > 0).cumsum()}[column]  # fmt: skip
            ends.append(spent.iloc[-1])
            within = rounds[spent <= value]
            last = within.test_accuracy.dropna()
            label = next(c["choice"] for c in found.document["choices"]
                         if any(run["digest"] == result.summary["digest"] for run in c["runs"]))  # fmt: skip
            mine = [r for r in part["means"] if r["choice"] == label and r["metric"] == "test_accuracy"]
            if len(last) and mine[0]["runs"] == 3:
                part.setdefault("check", {}).setdefault(label, []).append(last.iloc[-1])
        assert value == min(ends)
        for label, values in part.get("check", {}).items():
            (row,) = [r for r in part["means"] if r["choice"] == label and r["metric"] == "test_accuracy"]
            assert row["mean"] == pytest.approx(sum(values) / 3)
        if part["paired"]:
            assert {r["pairs"] for r in part["paired"]} <= {1, 2, 3}
    assert "at equal time: " in output and "at equal rounds" not in output
    for name in ("equal.csv", "equal_paired.csv"):
        with open(folder / name) as file:
            assert {row["budget"] for row in csv.DictReader(file)} == {*BUDGETS}


def test_it_is_readable_at_80_columns(rules):
    _, folder = rules
    text = io.StringIO()
    document = json.loads((folder / "comparison.json").read_text())
    show(document, Console(file=text, width=80, force_terminal=True, color_system=None), at="all")
    lines = text.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines) and not any("…" in line for line in lines)
    assert sum(line.startswith("at equal") for line in lines) == 5


def test_the_page_has_the_table(rules, no_pictures):
    _, folder = rules
    study = read_study([folder])
    table = equal_table(study)
    assert len(table.rows) == 10 and [c.name for c in table.columns[:3]] == ["budget", "group", "test_accuracy"]
    document = json.loads((folder / "comparison.json").read_text())
    for i, part in enumerate(document["equal"]):
        for j, choice in enumerate(document["choices"]):
            (row,) = [r for r in part["means"] if (r["choice"], r["metric"]) == (choice["choice"], "test_accuracy")]
            assert table.rows[2 * i + j].cells[2].value == pytest.approx(row["mean"])
    assert "When all had spent the same" in page(study)
    for row in table.rows:  # what was spent is no merit
        budget = row.cells[0].text.split(":")[0]
        spent = {"time": "time_s", "updates": "client_updates"}.get(budget, budget)
        (cell,) = [c for c, head in zip(row.cells, table.columns, strict=True) if head.name == spent]
        assert not cell.best


LOST = """
name: side
clients: 4
seed: 6
selection: {name: random, k: 2}
training: {name: fedavg, rounds: 8, learning_rate: 0.01, batch_size: 5}
learning: {data: {name: synthetic, samples: 60, test_samples: 20, separation: 20}, model: {name: mlp}}
"""


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    return compared(tmp_path_factory.mktemp("lost"), LOST, "training.learning_rate=1e6,0.01")


def test_diverged_choices_are_named_and_never_best(lost, no_pictures):
    output, folder = lost
    study = read_study([folder])
    wild, tame = study.groups
    assert all(run.diverged_round is not None for run in wild.runs) and all(
        run.diverged_round is None for run in tame.runs
    )
    assert "1e6 diverged in 3 of 3 seeds, at round" in output and "0.01 diverged" not in output
    assert any("diverged in 3 of 3 seeds" in sentence for sentence in cautions(study))
    table = group_table(study)
    assert not any(cell.best for cell in table.rows[0].cells)
    assert "3 diverged" in " ".join(cell.half for cell in table.rows[0].cells)
    statuses = [row.cells[[c.name for c in table.columns].index("status")].text
                for table in [run_table(study)] for row in table.rows]  # fmt: skip
    assert sum(text.startswith("diverged at round") for text in statuses) == 3
    advice = advise(study)
    assert advice.pick is None or advice.pick is tame
    assert "diverged in 3 of 3 seeds" in page(study)
    runs = WatchedFolder(folder).look()["runs"]
    assert sum(run["diverged"] is not None for run in runs) == 3
    document = json.loads((folder / "comparison.json").read_text())
    rounds = [run["diverged_round"] for run in document["choices"][0]["runs"]]
    assert rounds == [run.diverged_round for run in wild.runs]


def test_a_run_that_plays_says_that_it_has_diverged(tmp_path):
    (tmp_path / "scenario.yaml").write_text("name: x\n")
    growing(tmp_path, "rounds.csv", "round,train_loss,test_loss\n0,1,1\n1,2,nan\n2,nan,\n")
    seal_begun(tmp_path, "scenario.yaml")
    watched = WatchedFolder(tmp_path)
    assert watched.look()["runs"][0]["diverged"] == 1
    assert watched.look()["runs"][0]["diverged"] == 1


def test_who_diverged_has_no_say_in_the_target():
    learned = {"best_test_accuracy": 0.83, "no_skill_accuracy": 0.1}
    assert baseline_target([[learned, {"best_test_accuracy": None, "diverged_round": 0}]]) == 0.78
    assert baseline_target([[learned, {"best_test_accuracy": 0.3, "diverged_round": 2}]]) == 0.78
