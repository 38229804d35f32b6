"""``evaluate.best``: the best accuracy so far of each client's trained models, and nothing else that changes."""

import numpy as np
import pandas
import pytest

from simfl.learning.client_accuracies import ClientAccuracies
from simfl.learning.partitions.base import Split
from simfl.runs.run import build, run
from simfl.scenario import InvalidScenario
from tests.clients.test_personal import scenario
from tests.plugins.test_public_interface import killed_and_resumed

BEST = ("learning.evaluate.best=true", "training.rounds=6")


class Known:
    """Samples on which a model's accuracy is its first number."""

    def __init__(self, clients):
        self.split, self.holders = Split(np.arange(clients + 1), np.arange(clients)), np.ones(clients, dtype=bool)

    def accuracy(self, model, client):
        return float(model[0])

    def accuracies(self, model, personal):
        return np.full(len(self.split), float(model[0]))


def test_the_best_is_the_maximum_of_all_trained_models_whenever_they_are_measured():
    """Against the plain maximum, with measurements and a restored checkpoint anywhere between the jobs."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        record, true = ClientAccuracies(Known(5), True, True), np.full(5, np.nan)
        for _ in range(rng.integers(1, 30)):
            client, value = int(rng.integers(5)), rng.choice([rng.random(), np.nan], p=[0.9, 0.1])
            record.add_trained(client, np.array([value], dtype=np.float32))
            true[client] = np.fmax(true[client], np.float32(value))
            if rng.random() < 0.2:
                record.measure(np.zeros(1, dtype=np.float32), lambda client: None)
            if rng.random() < 0.2:
                again = ClientAccuracies(Known(5), True, True)
                again.restore(record.state())
                record = again
        np.testing.assert_array_equal(record.by_client()["best"], true)


def rounds(folder):
    return pandas.read_csv(folder / "rounds.csv")


@pytest.mark.parametrize(
    "rule", ["training.personal=none", "training.personal={name: fedltn, threshold: 0, step: 0.3}",
             "training.personal={name: fine_tune, epochs: 1}",
             "training={name: fedbuff, rounds: 6, buffer: 2, concurrency: 3, batch_size: 8, learning_rate: 0.2}"]
)  # fmt: skip
def test_the_best_so_far_never_falls_and_changes_no_other_number(tmp_path, rule):
    overrides = [rule, "training.rounds=6"] if "fedbuff" not in rule else [rule, "selection.k=2"]
    overrides.append("learning.evaluate.every=1")
    plain = rounds(run(scenario(*overrides), tmp_path / "plain").path)
    folder = run(scenario(*overrides, "learning.evaluate.best=true"), tmp_path / "best").path
    table = rounds(folder)
    pandas.testing.assert_frame_equal(table[plain.columns], plain)
    best = table.client_best_accuracy_mean
    assert (best >= table.client_trained_accuracy_mean - 1e-12).all()
    clients = pandas.read_csv(folder / "accuracies.csv")
    assert (clients.best >= clients.trained).all() and clients.best.mean() == pytest.approx(best.iloc[-1])
    if "fine_tune" not in rule:  # there every client is trained to be measured
        known = clients.trained.notna()
        assert known.equals(clients.best.notna())


def test_with_every_round_measured_it_is_the_running_maximum_of_what_is_measured_without_it(tmp_path):
    """All clients take part and are measured in each round, so that each client's maximum is known from outside."""
    everyone = ["selection={name: all}", "learning.evaluate.every=1"]
    folder = run(scenario(*everyone, *BEST), tmp_path).path
    seen = [
        pandas.read_csv(run(scenario(*everyone, f"training.rounds={n}"), tmp_path / str(n)).path / "accuracies.csv")
        for n in range(1, 7)
    ]
    expected = np.max([table.trained for table in seen], axis=0)
    np.testing.assert_array_equal(pandas.read_csv(folder / "accuracies.csv").best, expected)


def test_a_killed_run_has_the_same_best(tmp_path, monkeypatch):
    chosen = scenario(*BEST)
    whole = run(chosen, tmp_path / "whole").path
    again = killed_and_resumed(chosen, tmp_path / "killed", monkeypatch, 1)
    for name in ("rounds.csv", "accuracies.csv"):
        assert (again / name).read_bytes() == (whole / name).read_bytes()


def test_it_needs_clients_that_are_measured_and_leaves_digests_alone():
    assert scenario("learning.evaluate.best=false").digest == scenario().digest != scenario(*BEST[:1]).digest
    with pytest.raises(InvalidScenario, match=r"evaluate.best: .*set evaluate.per_client to true"):
        scenario("learning.evaluate.per_client=false", *BEST)
    assert "client_best_accuracy_min" in {column.name for column in build(scenario(*BEST)).learner.choice.columns}
