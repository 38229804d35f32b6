"""A model whose numbers overflow: the run ends, says in which round, reports no accuracy of what it is not."""

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner

from simfl.cli import simfl
from simfl.learning.scores import class_scores, client_scores, overall_scores
from simfl.results.run_files import summarise
from simfl.runs.finalise import cell, round_cells
from simfl.scenario import InvalidScenario, Scenario

TRIAL = """
name: diverging
clients: 4
seed: 6
selection: {name: random, k: 2}
training: {name: fedavg, rounds: 8, learning_rate: 3, momentum: 0.9}
learning: {data: {name: synthetic, samples: 60, test_samples: 20, separation: 20}, model: {name: mlp}}
"""
EVALUATE = "{every: 1, per_class: true, per_client: true}"


def play(tmp_path, *overrides):
    (tmp_path / "diverging.yaml").write_text(TRIAL)
    words = ["run", str(tmp_path / "diverging.yaml"), *overrides, "--out", str(tmp_path / "out"), "--force"]
    result = CliRunner().invoke(simfl, words)
    assert result.exit_code == 0, result.output
    (folder,) = (tmp_path / "out" / "diverging").iterdir()
    with open(folder / "rounds.csv") as file:
        return result.output, json.loads((folder / "summary.json").read_text()), list(csv.DictReader(file)), folder


@pytest.mark.parametrize("rate", [3, 8, 1e6])
@pytest.mark.parametrize("training", ["fedavg", "fedbuff"])
def test_a_run_whose_loss_overflows_ends_and_says_when(tmp_path, rate, training):
    clock = ["training=fedbuff", "devices.computation=1"] if training == "fedbuff" else []
    output, summary, rows, folder = play(
        tmp_path, *clock, f"training.learning_rate={rate}", "training.batch_size=5", f"learning.evaluate={EVALUATE}"
    )
    lost = [i for i, row in enumerate(rows) if "nan" in (row["train_loss"], row["test_loss"])]
    assert lost and summary["diverged_round"] == lost[0] and f"diverged at round {lost[0]}" in output
    assert not any(rows[i]["test_accuracy"] for i in lost if rows[i]["test_loss"] == "nan")
    assert rows[-1]["test_loss"] == "nan" and summary["test_loss"] is None and summary["test_accuracy"] is None
    healthy = [float(row["test_accuracy"]) for row in rows if row["test_accuracy"]]
    assert summary["best_test_accuracy"] == max(healthy, default=None)
    if (folder / "evaluation.csv").exists():  # no row, no table
        with open(folder / "evaluation.csv") as file:
            measured = {int(row["round"]) for row in csv.DictReader(file) if row["name"].startswith("client")}
        assert measured <= {i for i, row in enumerate(rows) if row["test_loss"] not in ("", "nan")}


def test_the_trial_that_could_not_be_written_is_written(tmp_path):
    _, summary, rows, _ = play(tmp_path)
    assert len(rows) == summary["rounds"] == 8


def test_a_run_that_learns_has_no_such_field(tmp_path):
    output, summary, rows, _ = play(tmp_path, "training.learning_rate=0.01", "training.momentum=0")
    assert "diverged_round" not in summary and "diverged" not in output and summary["test_accuracy"] is not None


@pytest.mark.parametrize("worst", [np.nan, np.inf])
def test_a_loss_that_is_no_number_leaves_no_accuracy(worst):
    loss, labels = np.array([0.1, worst, 0.3, 0.2]), np.array([0, 0, 1, 1])
    scores = overall_scores(loss, labels, labels, 2)  # every argmax is right
    assert not np.isfinite(scores["test_loss"]) and np.isnan(scores["test_accuracy"]) and np.isnan(scores["test_mcc"])
    classes = class_scores(loss, labels, labels, 2)
    assert np.isnan(classes["test_accuracy_class_0"]) and classes["test_accuracy_class_1"] == 1
    right = np.array([1.0, np.nan, 1.0, 0.0])
    assert np.isnan(list(client_scores(right, np.ones(4, dtype=int), "accuracy").values())).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, np.float32("inf")])
def test_cells_of_numbers_that_are_none(value):
    assert cell(value) is None
    row = {"time_s": 1.5, "train_loss": value, "test_loss": None, "test_accuracy": value, "staleness_mean": value}
    assert round_cells(row) == {
        "time_s": 1.5,
        "train_loss": "nan",
        "test_loss": None,
        "test_accuracy": None,
        "staleness_mean": None,
    }


def test_a_model_that_recovers_keeps_its_last_accuracy():
    blank = dict.fromkeys(
        ("skipped", "failed", "bytes_down", "bytes_up", "time_s", "mean_cardinality", "fairness_gap", "privacy_strong",
         "privacy_semi_strong", "privacy_weak_lower", "privacy_weak_upper"), "")  # fmt: skip
    losses = [("1", "2", "0.5"), ("nan", "", ""), ("3", "nan", ""), ("1", "1", "0.7"), ("1", "", "")]
    rows = [blank | dict(zip(("train_loss", "test_loss", "test_accuracy"), row, strict=True)) for row in losses]
    found = summarise(rows)
    assert (found["diverged_round"], found["test_accuracy"], found["best_test_accuracy"]) == (1, 0.7, 0.7)
    found = summarise(rows[:3])
    assert np.isnan(found["test_accuracy"]) and found["best_test_accuracy"] == 0.5


@pytest.mark.parametrize(
    ("rule", "key"), [("fedavg", "skipped_round_s"), ("fedavg", "deadline_s"), ("fedbuff", "retry_s")]
)
def test_waits_without_end_are_refused(rule, key):
    with pytest.raises(InvalidScenario, match=f"training.{key}.*the nearest valid value is 1000000000000"):
        Scenario.parse(TRIAL, "s.yaml", [f"training={rule}", f"training.{key}=1e300"])


def test_updates_that_are_no_numbers_are_counted_where_they_become_zero(tmp_path):
    """A rate at which every update overflows: clipped, each is 0 and is counted, and the model stays what it was."""
    far = ("training.learning_rate=1e6", "training.batch_size=2", "training.local_epochs=3")
    _, summary, rows, folder = play(tmp_path, *far, "privacy.stages=[clipping]")
    counted = [int(row["not_finite"]) for row in rows if row["cardinality"] != "0"]
    assert counted and max(counted) > 0 and summary["not_finite"] == sum(counted)
    assert all(0 <= count <= int(row["cardinality"]) for count, row in zip(counted, rows, strict=False))
    assert np.isfinite(np.load(folder / "model.npy")).all()
    (tmp_path / "plain").mkdir()
    _, _, plain, _ = play(tmp_path / "plain", *far)
    assert "not_finite" not in plain[0]
