"""Privacy is accounted by what updates have counted, whatever a rule says of its weights."""

import csv
import json
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

from simfl.api.theory import central_noise
from simfl.core.errors import PluginError, SimflError
from simfl.privacy.accountant import ACCOUNTANTS
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.multiround.matrix_metrics import trace
from simfl.results.run_files import participation_matrix
from simfl.runs.run import build, run
from simfl.scenario import Scenario
from simfl.selection.theory.expected_cardinality import guarantee
from simfl.training.aggregates import AGGREGATES, Factor, Mean
from simfl.training.base import RULES
from simfl.training.fedavg import FedAvg
from simfl.training.fedbuff import FedBuff
from tests.support.judge import table

BASE = {
    "name": "weights", "clients": 6, "seed": 2, "selection": {"name": "random", "k": 3},
    "training": {"name": "fedavg", "rounds": 4, "weighting": "equal", "batch_size": 50},
    "learning": {"data": "digits", "model": "logistic", "partition": {"name": "quantity", "proportions": {
        "name": "uniform", "low": 1.0, "high": 4.0}}, "evaluate": {"every": 0}},
    "privacy": {"stages": [{"name": "central_gaussian", "noise_multiplier": 100.0}]},
}  # fmt: skip
DELTA = 1e-5


def _root(examples):
    return np.sqrt(examples)


def _hundred(examples):
    return np.full(len(examples), 100.0)


def _large(examples):
    return np.where(examples > 300, 9.0, 1.0)


WEIGHTS = {"root": _root, "hundred": _hundred, "large": _large}


@RULES("unsaid")
@dataclass(frozen=True, kw_only=True)
class Unsaid(FedAvg):
    """Weights of its own, of which it says nothing else."""

    law: str = "root"

    def weights(self, examples, staleness):
        return WEIGHTS[self.law](examples)


@RULES("unsaid_buffered")
@dataclass(frozen=True, kw_only=True)
class UnsaidBuffered(FedBuff):
    """The same; its row says that staleness counts, its weights are others."""

    law: str = "root"

    def weights(self, examples, staleness):
        return WEIGHTS[self.law](examples)


@RULES("negative")
@dataclass(frozen=True, kw_only=True)
class Negative(FedAvg):
    def weights(self, examples, staleness):
        return np.where(np.arange(len(examples)) == 0, -1.0, 1.0)


@AGGREGATES("louder")
@dataclass(frozen=True)
class Louder:
    """Ten times the mean, which it says to be."""

    weighted, sum_only = True, True

    def combine(self, deltas, weights, normaliser, mask=None):
        return 10 * Mean().combine(deltas, weights, normaliser, mask)


@AGGREGATES("own_factor")
@dataclass(frozen=True)
class OwnFactor:
    """The mean, times what it makes of single updates."""

    weighted, sum_only = True, True
    combine = Mean.combine

    def factor(self, deltas, weights, mask, tensors):
        return Factor(np.float32(10), False, {})


def scenario(rule="unsaid", law="root", privacy=None, **training):
    found = BASE | {"training": BASE["training"] | {"name": rule, "law": law} | training}
    return Scenario.parse(json.dumps(found | ({"privacy": privacy} if privacy else {})))


def expected(folder, law, z=100.0):
    """The largest epsilon of a client, of the samples and the rounds of a run."""
    samples = np.array([int(row["samples"]) for row in table(folder / "clients.csv")])
    rows = table(folder / "participation.csv")
    squares = np.zeros(len(samples))
    for row in rows:
        client = int(row["client"])
        squares[client] += (WEIGHTS[law](samples)[client] / z) ** 2
    return float(gaussian.epsilon(np.sqrt(squares.max()), DELTA))


@pytest.mark.parametrize("weighting", ["equal", "samples"])
@pytest.mark.parametrize("law", WEIGHTS)
@pytest.mark.parametrize("rule", ["unsaid", "unsaid_buffered"])
def test_epsilon_is_of_the_weights_that_were_used(rule, law, weighting, tmp_path):
    more = {"staleness": {"name": "polynomial", "alpha": 0.5}} if "buffered" in rule else {}
    stage = {"name": "central_gaussian", "noise_multiplier": 100.0, "max_weight": 1.0}
    accountants = ["zero_out", "pld", "rdp"]
    made = scenario(rule, law, {"stages": [stage], "accountants": accountants}, weighting=weighting, **more)
    folder = run(made, tmp_path).path
    last, right = table(folder / "rounds.csv")[-1], expected(folder, law)
    assert float(last["epsilon_max"]) == pytest.approx(right, rel=1e-6)
    assert float(last["epsilon_pld"]) == pytest.approx(right, rel=1e-2)
    assert float(last["epsilon_rdp"]) >= right


def test_an_aggregate_that_makes_more_of_its_sum_is_accounted_with_it(tmp_path):
    plain, louder = (Scenario.parse(json.dumps(BASE | {"training": BASE["training"] | {"aggregate": name}}))
                     for name in ("mean", "louder"))  # fmt: skip
    folders = [run(found, tmp_path).path for found in (plain, louder)]
    rows = [table(folder / "participation.csv") for folder in folders]
    assert {row["weight"] for row in rows[0]} == {"1"}
    assert [float(row["weight"]) for row in rows[1]] == pytest.approx([10.0] * len(rows[1]), rel=1e-6)
    most = max(Counter(row["client"] for row in rows[1]).values())
    right = float(gaussian.epsilon(np.array([most**0.5 * 10 / 100]), DELTA)[0])
    assert float(table(folders[1] / "rounds.csv")[-1]["epsilon_max"]) == pytest.approx(right, rel=1e-5)


def test_an_aggregate_that_reads_single_updates_is_no_sum(tmp_path):
    with pytest.raises(PluginError, match="needs the updates' sum only"):
        run(Scenario.parse(json.dumps(BASE | {"training": BASE["training"] | {"aggregate": "own_factor"}})), tmp_path)


def test_built_in_rules_have_the_rows_that_they_state(tmp_path):
    for i, training in enumerate(({}, {"weighting": "samples"}, {"name": "fedbuff", "staleness": "polynomial"},
                                  {"name": "fedbuff", "weighting": "samples", "staleness": "polynomial"})):  # fmt: skip
        stage = {"name": "central_gaussian", "max_weight": 1000.0}
        found = BASE | {"training": BASE["training"] | training, "privacy": {"stages": [stage]}}
        folder = run(Scenario.parse(json.dumps(found)), tmp_path / str(i)).path
        rows = table(folder / "participation.csv")
        jobs = table(folder / "jobs.csv") if "name" in training else []
        ages = {(row["round"], row["client"]): int(row["staleness"]) for row in jobs if row["outcome"] == "aggregated"}
        for row in rows:
            age = ages.get((row["round"], row["client"]), 0)
            assert float(row["weight"]) == (1 + age) ** -0.5


def test_guarantees_and_ledger_are_of_what_was_used(tmp_path):
    privacy = {"stages": [], "ledger": True}
    made = scenario("unsaid", "large", privacy)
    folder = run(made, tmp_path).path
    rows = participation_matrix(folder / "participation.csv", 4, 6)
    samples = np.array([int(row["samples"]) for row in table(folder / "clients.csv")])
    true = (rows != 0).astype(float).multiply(WEIGHTS["large"](samples)).tocsr()
    assert (true != rows).nnz == 0
    assert int(table(folder / "rounds.csv")[-1]["privacy_strong"]) == trace(true, 1, 10**9, doubles=True).strong[-1]


@pytest.mark.parametrize("law, known", [("plain", True), ("hundred", False), ("large", False)])
def test_sampling_hides_nobody_whose_weight_is_not_known(law, known, tmp_path):
    accountants = [{"name": name, "amplification": "poisson"} for name in ("pld", "rdp")]
    training = BASE["training"] | {"denominator": "expected"}
    training |= {} if law == "plain" else {"name": "unsaid", "law": law}
    found = BASE | {"selection": {"name": "bernoulli", "k": 3}, "training": training}
    found |= {"learning": BASE["learning"] | {"partition": "iid"}} if law == "hundred" else {}
    privacy = {"stages": BASE["privacy"]["stages"], "accountants": accountants}
    if not known:
        with pytest.raises(SimflError, match="has weights of its own"):
            Scenario.parse(json.dumps(found | {"privacy": privacy}))
        return
    last = table(run(Scenario.parse(json.dumps(found | {"privacy": privacy})), tmp_path).path / "rounds.csv")[-1]
    assert last["epsilon_pld"] and last["epsilon_rdp"]


@pytest.mark.parametrize("law", WEIGHTS)
def test_theory_knows_no_weight_that_a_rule_does_not_state(law):
    made, plain = scenario("unsaid", law), Scenario.parse(json.dumps(BASE))
    samples = np.array([100, 400, 200, 300, 100, 150])
    assert set(guarantee(made, samples).values()) == {1}
    assert central_noise(plain, 2.0, DELTA, 3.0, samples)["largest_weight"] == 1
    with pytest.raises(SimflError, match="weighs updates otherwise than it states"):
        central_noise(made, 2.0, DELTA, 3.0, samples)


def test_a_weight_below_zero_is_refused(tmp_path):
    with pytest.raises(PluginError, match="below 0"):
        run(Scenario.parse(json.dumps(BASE | {"training": BASE["training"] | {"name": "negative"}})), tmp_path)


def test_all_accountants_are_asked_above():
    assert {name for name, cls in ACCOUNTANTS.items() if cls.__module__.startswith("simfl.")} == {
        "zero_out", "pld", "rdp"}  # fmt: skip


GROWING = """
clients: 4
seed: 1
selection: {name: batch_partition, k: 2, T: 2}
training: {name: fedavg, rounds: 8, weighting: samples}
learning: {data: digits, model: logistic, partition: {name: growing, first: [5, 40, 10, 20], new: 10, versions: 8},
           evaluate: {every: 0}}
"""


@pytest.mark.parametrize("weighting, kept", [("samples", 1), ("equal", 2)])
def test_weights_that_grow_with_data_tell_updates_that_stay_apart(weighting, kept, tmp_path):
    """Sums n1(t) u1 + n2(t) u2 of one unit with other numbers of samples, solved by the matrix of what counted."""
    made = Scenario.parse(GROWING, "growing", [f"training.weighting={weighting}"])
    learner, done = build(made).learner, run(made, tmp_path)
    with open(done.path / "participation.csv", newline="") as file:
        entries = [(int(row["round"]), int(row["client"])) for row in csv.DictReader(file)]
    counted = np.zeros((8, 4))
    for t, client in entries:
        counted[t, client] = learner.counts(np.array([client]), t)[0] if weighting == "samples" else 1
    alone = [
        np.abs(np.linalg.lstsq(counted.T, unit, rcond=None)[0] @ counted - unit).max() < 1e-6 for unit in np.eye(4)
    ]
    assert any(alone) == (kept == 1)
    assert [done.summary[name] for name in ("privacy_strong", "privacy_weak_lower")] == [kept] * 2
    promised = {done.summary[name] for name in ("guarantee_strong", "guarantee_semi_strong", "guarantee_weak")}
    assert promised == ({1} if kept == 1 else {None}), "theory does not know whether everybody holds samples"
    assert ("beside_sums" in done.summary) == (kept == 1)
