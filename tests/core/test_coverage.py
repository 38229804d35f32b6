"""The rule of what leaves a client: who covers it, what is refused, what a certificate says that does not cover it."""

import csv
import itertools
import json

import numpy as np
import pytest
from click.testing import CliRunner

from simfl.cli import simfl as command
from simfl.core import coverage
from simfl.core.errors import PluginError
from simfl.core.payload import KINDS
from simfl.core.registration.family_index import FAMILIES
from simfl.deployment.audit.reading import read
from simfl.privacy.multiround.participation_matrix import strong_guarantee
from simfl.runs.run import build, run
from simfl.scenario import InvalidScenario, Scenario
from simfl.selection.theory.expected_cardinality import guarantee, theory
from tests.support.pairs import Plugin, cell, plugins, text

ALGORITHMS = [it for it in plugins() if it.family in ("client", "personal")]
NOISE = [it for it in plugins() if it.family == "stage" and FAMILIES["stage"][it.name].adds_noise]
HIDING = [it for it in plugins() if it.family == "secagg"]


def ids(value):
    return str(value)


def scenario(*chosen, **more):
    return Scenario.parse(json.dumps(json.loads(text(chosen, {})) | more), "covered")


def parts_of(algorithm):
    return {part.kind for part in coverage.sent(scenario(algorithm, selection="all")) if part.kind != "samples"}


def table(path):
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def last(folder):
    return table(folder / "rounds.csv")[-1]


def test_the_registries_have_parts_of_every_kind():
    """Else the tests below would pass over something."""
    kinds = set().union(*map(parts_of, ALGORITHMS))
    assert kinds == KINDS - {"samples", "count", "levels"}  # the last are of compressions


@pytest.mark.parametrize("algorithm, other", [*itertools.product(ALGORITHMS, NOISE + HIDING)], ids=ids)
def test_a_promise_covers_all_that_leaves_a_client_or_is_refused(algorithm, other):
    """An epsilon, or sums only: with one line that names the part, the algorithm, and the certificate."""
    kinds, found = parts_of(algorithm), cell(algorithm, other)
    allowed = {"update", "departure"}  # of a departure the accountants and stages withdraw their own epsilon
    if other.name == "oblivious":  # an epsilon of its own, which it does not withdraw
        allowed = {"update"}
    compressed = FAMILIES[algorithm.family][algorithm.name].__dataclass_fields__.get("compress")
    if compressed is not None and kinds - {"mask"} == {"update"}:
        assert found.outcome == "works" and '"compress": false' in found.scenario
    elif kinds and kinds <= allowed:
        assert found.outcome != "refused" or "does not cover" not in found.reason
    else:
        assert found.outcome == "refused"
        assert f"training.{algorithm.family}: {algorithm.name} sends" in found.reason
        assert other.name in found.reason or "zero_out" in found.reason


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=ids)
def test_a_guarantee_for_any_number_of_rounds_is_withdrawn(algorithm):
    """The batches' T = 2 of updates; 1 where more is sent than updates, nothing where nothing is."""
    kinds, found = parts_of(algorithm), scenario(algorithm)
    known = {None: None, 1: {"strong": 1, "semi_strong": 1, "weak": 1}, 2: {"strong": 2, "semi_strong": 2, "weak": 2}}
    T = None if not kinds else 2 if kinds == {"update"} else 1
    samples = np.ones(found.clients, dtype=np.int64)
    assert guarantee(found, samples) == theory(found, samples)["guarantee"] == known[T]


def test_noise_without_an_accountant_promises_nothing_and_may_stand_beside_anything_dense(tmp_path):
    found = scenario(Plugin("client", "scaffold"), privacy={"stages": [{"name": "local_gaussian"}], "accountants": []})
    row = last(run(found, tmp_path).path)
    assert "epsilon_max" not in row and row["privacy_strong"] == "1"


@pytest.mark.parametrize("stage", ["local_gaussian", "central_gaussian", "clipping"])
def test_no_stage_stands_beside_masks_not_even_without_an_accountant(stage):
    """It changes every coordinate, so that the surviving values are no whole message any more."""
    with pytest.raises(InvalidScenario, match=f"lotteryfl sends the mask .* privacy.stages: {stage} does not cover"):
        scenario(Plugin("personal", "lotteryfl"), privacy={"stages": [{"name": stage}], "accountants": []})


def test_a_departure_is_warned_of_once_with_an_epsilon_or_without():
    """Noise whose epsilon nobody prints does not say that no certificate covers it."""
    leaving = {"training": {"name": "fedavg", "rounds": 2, "client": {"name": "privacyfl", "tolerance": 1e-3}}}
    for privacy in ({}, {"stages": ["local_gaussian"]}, {"stages": ["local_gaussian"], "accountants": []}):
        notes = scenario(**leaving, secagg="secagg", privacy=privacy).cautions()
        assert sum("leave" in note for note in notes) == 1, (privacy, notes)


@pytest.mark.parametrize("accountant", ["zero_out", "rdp", "pld"])
def test_an_epsilon_without_noise_is_infinite(accountant, tmp_path):
    found = scenario(privacy={"accountants": [{"name": accountant}]})
    row = last(run(found, tmp_path).path)
    assert [row[column.name] for column in FAMILIES["accountant"][accountant].columns] != []
    assert all(row[column.name] == "" for column in FAMILIES["accountant"][accountant].columns)


def test_what_stays_with_a_client_is_neither_masked_nor_noised_nor_charged(tmp_path):
    """The head of digits' small network: 4 x 10 weights and 10 biases."""
    d = build(scenario()).learner.dimension
    for more in ({"secagg": {"name": "secagg"}}, {"privacy": {"stages": [{"name": "local_laplace"}]}}):
        found = scenario(Plugin("personal", "private_layers"), **more)
        assert build(found).elements == d - 50
        folder = run(found, tmp_path / next(iter(more))).path
        besides = sum(int(row["bytes_up"]) for row in table(folder / "phases.csv"))
        rows = table(folder / "rounds.csv")
        updates = sum(int(row["cardinality"]) for row in rows)
        assert sum(int(row["bytes_up"]) for row in rows) - besides == updates * 4 * (d - 50)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=ids)
def test_theory_and_summary_name_what_reaches_the_server_in_clear(algorithm, tmp_path):
    document = json.loads(cell(algorithm).scenario)
    document["training"]["weighting"] = "samples"
    document.setdefault("secagg", "plain")
    found = Scenario.parse(json.dumps(document), "covered")
    said = json.loads((run(found, tmp_path).path / "summary.json").read_text())["in_clear"]
    kinds = {part.kind for part in coverage.sent(found) if part.name in said}
    assert kinds == (parts_of(algorithm) | {"samples"} if parts_of(algorithm) else set())


def test_an_algorithm_that_declares_nothing_sends_nothing(tmp_path, monkeypatch):
    """It would be charged no bytes, and be in no certificate."""
    fedprox = FAMILIES["client"]["fedprox"]
    monkeypatch.setattr(fedprox, "sends", ())
    with pytest.raises(PluginError, match="declares .* that nothing leaves a client, and sends an update"):
        run(scenario(Plugin("client", "fedprox")), tmp_path)


@pytest.mark.parametrize("accountant", ["zero_out", "rdp", "pld"])
def test_an_epsilon_without_a_server_is_infinite_and_of_nothing_is_0(accountant, tmp_path):
    asked = {"privacy": {"accountants": [{"name": accountant}]}}
    peers = Scenario.parse(json.dumps(json.loads(cell(Plugin("training", "serverless")).scenario) | asked), "peers")
    alone = scenario(Plugin("personal", "local"), **asked)
    for found, said in ((peers, ""), (alone, "0.0")):
        row = last(run(found, tmp_path).path)
        assert {row[column.name] for column in FAMILIES["accountant"][accountant].columns} == {said}


def test_noise_that_is_dealt_once_protects_one_sum(tmp_path):
    oblivious = {"name": "oblivious", "epsilon": 1.0, "samples": 50, "noise": "once"}
    base = json.loads(text((), {}))
    training = base["training"] | {"weight_decay": 0.1, "learning_rate": 0.01}
    learning = base["learning"] | {"model": "logistic", "holdout": None}
    more = {"selection": "all", "secagg": oblivious, "training": training, "learning": learning}
    found = Scenario.parse(json.dumps(base | more), "once")
    assert any("infinite from the second sum on" in line for line in found.cautions())
    epsilons = [row["epsilon_weight"] for row in table(run(found, tmp_path).path / "rounds.csv")]
    assert float(epsilons[0]) > 0 and epsilons[1:] == ["", ""]


@pytest.mark.parametrize("stage", [it for it in plugins() if it.family == "stage"], ids=ids)
def test_what_looks_into_clients_vectors_stands_beside_no_code(stage):
    """Whole numbers, or coordinates of another length: noise could not be told from them."""
    for other in (Plugin("client", "privacyfl"), Plugin("attack", "collusion")):
        found = cell(other, stage)
        coded = stage.name in ("adaptive_gaussian", "discrete_gaussian", "discrete_laplace", "skellam", "xnoise")
        told = "its next update tells" in found.reason  # shares of noise, of whatever updates
        assert told or ((found.outcome == "refused") is coded and ("codes" in found.reason) is coded)


APART = {
    "name": "apart",
    "clients": 6,
    "selection": {"name": "random", "k": 3},
    "training": {"name": "fedavg", "rounds": 3, "weighting": "equal"},
    "learning": {"name": "none", "parameters": 4},
}
SERVERLESS = {"training": {"name": "serverless", "rounds": 3, "weighting": "equal"}, "selection": "all"}


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"training": APART["training"] | {"aggregate": "median"}}, "each client's update, by itself"),
        (SERVERLESS, "the update of each client that sums up what others send"),
        (
            {"compression": {"name": "top_k", "share": 0.5}},
            "each client's update, by itself (secagg: plain); which coordinates",
        ),
        ({}, ""),
    ],
)
def test_who_hides_in_no_sum_is_not_called_hidden_where_the_sums_hide_only_some(change, seen, tmp_path):
    """Also where the sums alone have a strong guarantee of 1, as these have."""
    folder, peers = run(Scenario.parse(json.dumps(APART | change)), tmp_path).path, change is SERVERLESS
    summary = json.loads((folder / "summary.json").read_text())
    assert (strong_guarantee(read(folder).matrix), summary["privacy_strong"]) == ((6, 5) if peers else (1, 1))
    assert ("beside_sums" in summary) == (bool(seen) and not peers)
    assert (summary["privacy_weak_upper"] == 1) == (bool(seen) and not peers)
    forecast = ["forecast", str(folder), "--horizon", "2", "--futures", "2", "--processes", "1"]
    for words in (["audit", str(folder)], forecast):
        said = CliRunner().invoke(command, words)
        if seen and not (peers and words == forecast):  # which is refused for another reason
            assert said.exit_code == 2 and f"more than sums was seen: {seen}" in said.stderr
            assert len(said.stderr.splitlines()) == 1
        else:
            assert "more than sums" not in said.output + said.stderr


@pytest.mark.parametrize("algorithm", [Plugin("client", "scaffold"), Plugin("aggregate", "median")], ids=ids)
def test_an_audit_of_a_folder_says_no_more_than_its_run(algorithm, tmp_path):
    """The log of participation knows sums only; the run knows what was seen beside them."""
    folder = run(Scenario.parse(cell(algorithm).scenario, "covered"), tmp_path).path
    said = CliRunner().invoke(command, ["audit", str(folder)])
    assert said.exit_code == 2 and "more than sums was seen" in said.output and len(said.output.splitlines()) == 1
    assert CliRunner().invoke(command, ["audit", str(folder / "participation.csv")]).exit_code == 0
    plain = run(scenario(), tmp_path).path
    assert CliRunner().invoke(command, ["audit", str(plain)]).exit_code == 0


def test_an_aggregate_of_single_updates_stands_beside_no_code_of_users(tmp_path):
    """A stage without noise that adds a coordinate."""
    (tmp_path / "longer.py").write_text(
        "from dataclasses import dataclass\n"
        "from simfl.plugins.privacy import STAGES, Stage\n"
        '@STAGES("longer")\n'
        "@dataclass(frozen=True)\n"
        "class Longer(Stage):\n"
        "    def length(self, dimension):\n"
        "        return dimension + 1\n"
    )
    for aggregate in [it for it in plugins() if it.family == "aggregate"]:
        document = json.loads(text((aggregate,), {})) | {"plugins": ["longer.py"], "privacy": {"stages": ["longer"]}}
        (tmp_path / "longer.yaml").write_text(json.dumps(document))
        with pytest.raises(InvalidScenario, match=f"{aggregate.name} needs single updates, which longer codes"):
            Scenario.load(tmp_path / "longer.yaml")
