"""What is left against colluders: every coalition of thousands of small matrices, judged by brute force."""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array

from simfl.cli import simfl
from simfl.core.errors import SimflError
from simfl.core.scenario_view import tolerated_colluders
from simfl.core.types import SERVER
from simfl.deployment.audit import audit
from simfl.privacy.accountant import History
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.multiround.guarantees import Guarantees
from simfl.privacy.multiround.matrix_metrics import against_any, multi_round
from simfl.privacy.multiround.participation_matrix import ParticipationMatrix, without_clients
from simfl.runs.accounting import view_of_run
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from tests.support.privacy_brute import exact, semi_strong, strong, weak
from tests.support.sizes import repeats


def matrices(count, seed):
    rng = np.random.default_rng(seed)
    for number in range(count):
        n, rounds = int(rng.integers(2, 7)), int(rng.integers(1, 6))
        P = (rng.random((rounds, n)) < rng.uniform(0.3, 0.9)).astype(float)
        if number % 3 == 1:
            P *= rng.choice([1.0, 0.5, 2.0, 3.0], P.shape)
        if number % 3 == 2:  # classes of some size
            P = np.repeat(P, rng.integers(1, 4, n), axis=1)[:, :7]
        if P.any():
            yield P


def coalitions(n, most):
    return (c for size in range(most + 1) for c in combinations(range(n), size))


@pytest.mark.parametrize("part", range(4))
def test_no_coalition_leaves_less_and_one_leaves_just_that(part):
    """Strong and weak: the worst coalition of up to c clients leaves exactly max(1, metric - c)."""
    for P in matrices(repeats(120, 500), part):
        rows, n = exact(P), P.shape[1]
        whole, metrics = (strong(rows), weak(rows)), multi_round(P)
        assert (metrics.strong, metrics.weak_lower, metrics.weak_upper) == (whole[0], whole[1], whole[1])
        left = [whole]
        for c in range(1, n):
            for coalition in combinations(range(n), c):
                rest = np.delete(P, coalition, axis=1)
                if rest.any():
                    left.append((strong(exact(rest)), weak(exact(rest))))
            told = against_any(metrics, c)
            assert min(s for s, _ in left) == max(1, whole[0] - c) == told.strong
            assert min(w for _, w in left) == max(1, whole[1] - c) == told.weak_lower == told.weak_upper


@pytest.mark.parametrize("part", range(2))
def test_semi_strong_falls_by_no_more_than_the_colluders(part):
    loose = 0
    for P in matrices(repeats(60, 120), 100 + part):
        before = float(semi_strong(exact(P)))
        for c in range(1, min(3, P.shape[1])):
            after = [float(semi_strong(exact(rest))) for coalition in coalitions(P.shape[1], c)
                     if (rest := np.delete(P, coalition, axis=1)).any()]  # fmt: skip
            bound = against_any(multi_round(P), c).semi_strong
            assert bound == pytest.approx(max(1.0, before - c))
            assert min(after) >= bound - 1e-9
            loose += min(after) > bound + 1e-6
    assert loose, "the bound is not always met"


def test_named_colluders_are_audited_as_if_their_columns_were_not_there():
    for P in matrices(repeats(60, 200), 7):
        n = P.shape[1]
        for coalition in ([0], [n - 1], [0, n - 1])[: n - 1 if n < 3 else 3]:
            rest = np.delete(P, coalition, axis=1)
            named, without = audit(P, colluding=coalition), audit(rest)
            assert named.colluding == tuple(coalition) and len(named.clients) == rest.shape[1]
            assert named.metrics == without.metrics or not rest.any()
            stays = [i for i in range(n) if i not in coalition]
            assert [(e.client, e.round) for e in named.exposed] == [(e.client, e.round) for e in without.exposed]
            assert list(named.clients) == stays


def test_weights_mean_what_they_meant_beside_all_columns():
    """Samples over the round's samples, of few digits: read by their sum, which a coalition must not take away."""
    P = np.array([[0.2, 0.3, 0.5], [0.25, 0.75, 0.0]])
    matrix = ParticipationMatrix.of(P)
    rest = without_clients(matrix, np.array([1]))
    assert rest.shape == (2, 2) and rest.values is matrix.values
    assert rest.values.floats[rest.codes].tolist() == [0.2, 0.5, 0.25]


def test_all_clients_cannot_collude():
    with pytest.raises(SimflError, match="at most 2"):
        audit(np.ones((2, 3)), colluders=3)
    with pytest.raises(SimflError, match="leave none"):
        audit(np.ones((2, 3)), colluding=[0, 1], colluders=1)


# -- runs ------------------------------------------------------------------------------------------

SCENARIO = """
clients: 24
selection: {name: batch_partition, k: 12, T: 4}
training: {name: fedavg, rounds: 12, weighting: equal}
learning: {name: none, parameters: 10}
devices: {availability: {name: bernoulli, dropout: 0.2}}
"""


def rounds_of(text, out):
    from simfl.api.result_objects import Result

    return Result.open(run(Scenario.parse(text, "colluders"), out).path).rounds


@pytest.mark.parametrize("training", ["fedavg, rounds: 12, weighting: equal",
                                      "fedbuff, rounds: 12, concurrency: 12, buffer: 8, weighting: equal",
                                      "serverless, rounds: 4, weighting: equal"])  # fmt: skip
@pytest.mark.parametrize("every", [1, 4])
def test_the_columns_are_the_guarantees_less_the_colluders(tmp_path, training, every):
    text = SCENARIO.replace("fedavg, rounds: 12, weighting: equal", training)
    if "serverless" in training:
        text = text.replace("{name: batch_partition, k: 12, T: 4}", "all")
    asked = rounds_of(text + f"privacy: {{every: {every}, colluders: 2}}\n", tmp_path)
    plain = rounds_of(text + f"privacy: {{every: {every}}}\n", tmp_path)
    for name in ("strong", "semi_strong", "weak_lower", "weak_upper"):
        values, left = asked[f"privacy_{name}"], asked[f"privacy_{name}_colluders"]
        assert values.equals(plain[f"privacy_{name}"]) and f"privacy_{name}_colluders" not in plain
        assert left.isna().equals(values.isna())
        assert (left.dropna() == np.maximum(values.dropna() - 2, 1)).all()


def test_what_is_open_anyway_stays_open(tmp_path):
    text = SCENARIO.replace("weighting: equal", "weighting: equal, aggregate: median")
    columns = rounds_of(text + "privacy: {colluders: 2}\n", tmp_path)
    assert (columns.filter(like="_colluders").dropna() == 1).all(axis=None)


TOLERANCES = {  # of how many clients of a sum of twelve, by the protocols' own definitions
    "{name: lightsecagg, private: 0.1}": 1,  # round(0.1 * 12)
    "{name: lightsecagg, private: 0.25}": 3,
    "secagg": 5,  # six of the eleven others' shares open a secret
}


@pytest.mark.parametrize("protocol", TOLERANCES)
def test_more_colluders_than_the_protocol_tolerates_leave_nobody_hidden(tmp_path, protocol):
    """The protocol is prepared for all twelve, also where some fail; one client in a round may be the only survivor."""
    most = TOLERANCES[protocol]
    failing = SCENARIO.replace("dropout: 0.2}", "dropout: 0.02}, failure: {name: bernoulli, probability: 0.02}")
    whole = failing.replace("batch_partition, k: 12, T: 4", "batch_partition, k: 12, T: 12")
    for colluders in (most, most + 1):
        text = f"{whole}secagg: {protocol}\nprivacy: {{colluders: {colluders}}}\n"
        rounds = rounds_of(text, tmp_path / f"{colluders}")
        for name in ("strong", "semi_strong", "weak_lower", "weak_upper"):
            values, left = rounds[f"privacy_{name}"].dropna(), rounds[f"privacy_{name}_colluders"].dropna()
            expected = 12 - colluders if colluders <= most else 1
            assert len(left) == len(values) > 0 and (values == 12).all() and (left == expected).all()


@pytest.mark.parametrize("probability", [0.0, 0.55])
def test_a_sum_for_which_the_protocol_has_no_sizes_tolerates_nobody(tmp_path, probability):
    """Of nine clients a ring of secagg_plus may tolerate somebody or nobody, but never more when fewer are left."""
    text = f"""
seed: 11
clients: 9
selection: all
training: {{name: fedavg, rounds: 3, on_failure: partial, weighting: equal}}
learning: {{name: none, parameters: 4}}
secagg: secagg_plus
privacy: {{colluders: 1}}
devices: {{failure: {{name: bernoulli, probability: {probability}}}}}
"""
    scenario = Scenario.parse(text, "ring")
    prepared = tolerated_colluders(scenario, 9)
    assert prepared is not None and all((tolerated_colluders(scenario, n) or 0) <= prepared for n in range(2, 9))
    assert tolerated_colluders(scenario, 3) == 0 and scenario.secagg.tolerance(3, 9) is None
    summary = run(scenario, tmp_path).summary
    assert summary["tolerated_colluders"] <= prepared
    assert summary["tolerated_colluders"] >= 1 or summary["privacy_strong_colluders"] == 1


def test_sums_of_unknown_size_are_taken_as_small_as_they_are():
    """Rounds of 12, 4, 0 and 20 clients; a tenth of them is tolerated: against two all are open from the first on."""
    P = csr_array(np.array([[1.0] * n + [0] * (20 - n) for n in (20, 0, 12, 4, 20)]))
    tolerated = np.array([2, np.inf, 1, 0, 2])
    history = History({SERVER: replace(ObserverView.of_sums(P), tolerated=tolerated)})
    for colluders, hidden in ((2, 2), (1, 3)):
        columns = Guarantees(colluders=colluders).accounts(history)
        plain = columns["privacy_strong"]
        expected = [max(1, value - colluders) if t < hidden else 1 for t, value in enumerate(plain)]
        assert columns["privacy_strong_colluders"] == expected and expected[0] > 1


def test_noise_is_not_promised_against_more_colluders_than_the_protocol_tolerates():
    learned = SCENARIO.replace("{name: none, parameters: 10}", "{name: supervised, data: digits, model: logistic}")
    text = (
        learned + "secagg: {name: lightsecagg, private: 0.25}\nprivacy: {stages: [{name: NAME, clip_norm: 1, MORE}]}\n"
    )
    for name, noise in (("skellam", "noise_multiplier: 2"), ("discrete_laplace", "epsilon: 1")):
        stage = text.replace("NAME", name).replace("MORE", f"{noise}, colluders: COLLUDERS")
        Scenario.parse(stage.replace("COLLUDERS", "3"), "c")
        why = "privacy.stages.0.colluders: is 4, but secagg: lightsecagg hides single updates from at most 3 colluders"
        with pytest.raises(InvalidScenario, match=why):
            Scenario.parse(stage.replace("COLLUDERS", "4"), "c")


def test_without_colluders_a_scenario_keeps_its_digest():
    plain, null, asked = (Scenario.parse(SCENARIO + f"privacy: {text}\n", "c") for text in
                          ("multi_round", "{name: multi_round, colluders: null}", "{colluders: 2}"))  # fmt: skip
    assert plain.digest == null.digest != asked.digest and "colluders" not in plain.to_yaml()
    with pytest.raises(InvalidScenario, match="use at most 23"):
        Scenario.parse(SCENARIO + "privacy: {colluders: 24}\n", "c")


# -- the commands ----------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [(t, f"site-{i}") for t, members in enumerate(([0, 1, 2, 3], [2, 3, 4, 5])) for i in members]
    Path("log.csv").write_text("round,client\n" + "".join(f"{t},{name}\n" for t, name in rows))
    Path("run.yaml").write_text(SCENARIO)


def call(*words):
    return CliRunner().invoke(simfl, list(map(str, words)))


def test_audit_against_colluders(log):
    """Two sums of four that share two: without sites 0 and 2, sites 1 and 3 are alone in a combination each."""
    said = call("audit", "log.csv", "--colluders", 2)
    assert "Against the server and any 2 clients: strong 1, semi-strong at least 2, weak 2." in said.stdout
    named = json.loads(call("audit", "log.csv", "--colluder", "site-0", "--colluder", "site-1", "--json").stdout)
    assert named["colluding"] == ["site-0", "site-1"] and named["clients"] == 4
    assert (named["strong"], named["weak"]["lower"]) == (2, 2)
    three = call("audit", "log.csv", *[f"--colluder=site-{i}" for i in (0, 1, 2)], "--html", "page.html")
    assert "1 of 3 clients is exposed" in three.stdout and "site-3" in three.stdout
    assert "The server knows the updates of site-0, site-1, site-2;" in three.stdout
    assert "The server knows the updates of" in Path("page.html").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--colluder", "site-9"], "--colluder site-9: log.csv has no client of that name"),
        (["--colluders", 6], "6 colluders leave none of 6 clients; at most 5"),
        (["--colluder", "site-0", "--noise", "central_gaussian:clip_norm=1"], "--noise: says nothing of colluders"),
    ],
)
def test_impossible_coalitions_are_named(log, options, message):
    said = call("audit", "log.csv", *options)
    assert said.exit_code == 2 and message in said.stderr and said.stderr.count("\n") == 1


def test_a_runs_folder_is_audited_against_colluders(log):
    path = call("run", "run.yaml", "-q").stdout.strip()
    said = json.loads(call("audit", path, "--colluder", 0, "--colluders", 1, "--json").stdout)
    assert (said["strong"], said["against_any"]["strong"]) == (3, 2)


def test_a_runs_folder_is_not_audited_against_more_than_its_protocol_tolerates(log):
    path = call("run", "run.yaml", "-q", "secagg={name: lightsecagg, private: 0.25}").stdout.strip()
    assert json.loads((Path(path) / "summary.json").read_text())["tolerated_colluders"] == 3
    assert call("audit", path, "--colluders", 3).exit_code == 0
    for options in (["--colluders", 4], ["--colluders", 3, "--colluder", 0]):
        said = call("audit", path, *options)
        why = "4 colluders are more than the 3 that the run's protocol tolerates: single updates are open to them"
        assert said.exit_code == 2 and why in said.stderr and said.stderr.count("\n") == 1
    assert call("audit", f"{path}/participation.csv", "--colluders", 4).exit_code == 0


@pytest.mark.parametrize(
    ("secagg", "colluders", "said"),
    [
        ("plain", 1, "the server sees every update without them"),
        ("ideal", 2, "whoever colludes, ideal assumes that only sums are seen"),
        ("lightsecagg", 2, "the protocol hides single updates from the server and up to"),
        ("{name: lightsecagg, private: 0.25}", 4, "4 are more than the 3 that the protocol tolerates"),
    ],
)
def test_theory_says_what_is_left_and_what_the_protocol_tolerates(log, secagg, colluders, said):
    Path("run.yaml").write_text(SCENARIO + f"secagg: {secagg}\n")
    text = call("theory", "run.yaml", "--colluders", colluders)
    left = 1 if "more than" in said or secagg == "plain" else max(1, 4 - colluders)
    assert f"guarantee_colluders   strong {left}, semi_strong {left}, weak {left}\n" in text.stdout, text.output
    assert said in text.stdout
    everybody = call("theory", "run.yaml", "--colluders", 24)
    assert everybody.exit_code == 2 and "at most 23" in everybody.stderr


FAILS = """
clients: 8
seed: 3
devices: {failure: {name: bernoulli, probability: 0.25, phases: {unmask: 0.4}}}
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 12, weighting: equal}
learning: {name: none, parameters: 4}
secagg: secagg
privacy: multi_round
"""


def test_an_audit_with_colluders_counts_rounds_and_not_the_rows_that_they_know(tmp_path):
    """A session that failed may show them no row, or several."""
    folder = run(Scenario.parse(FAILS, "fails"), tmp_path).path
    assert json.loads((folder / "summary.json").read_text())["skipped"] > 0
    for colluders in ([7], [4, 5, 6, 7]):
        words = [part for client in colluders for part in ("--colluder", str(client))]
        rows = view_of_run(folder, "server", colluders).round
        assert len(rows) != 12 or len(set(rows)) < 12
        said = CliRunner().invoke(simfl, ["audit", str(folder), *words])
        assert "\n12 rounds, " in said.output
        document = json.loads(CliRunner().invoke(simfl, ["audit", str(folder), *words, "--json"]).output)
        assert document["rounds"] == document["known_rounds"] == 12
    assert len(rows) > len(set(rows))
