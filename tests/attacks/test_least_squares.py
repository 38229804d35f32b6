"""Least squares over rounds: exact identities for every policy, its expectation under noise, its views, its columns."""

import csv
import json

import numpy as np
import pytest

from simfl.api.theory import windows
from simfl.attacks.base import ServerView, TrueUpdates
from simfl.attacks.least_squares import LeastSquares, cosine, expected_errors, solve
from simfl.core.rng import Streams
from simfl.core.types import Aggregate, Job, View
from simfl.deployment.audit import audit
from simfl.deployment.audit.audit_report import exposures, hidden
from simfl.privacy.multiround.guarantee_trace import BUDGET, Budget
from simfl.privacy.multiround.matrix_metrics import MatrixAnalysis
from simfl.report.html_page import page
from simfl.report.study_reader import read_study
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from simfl.selection.asking import ask

STREAMS = Streams(7)
N, K = 24, 6
CHOICES = {
    "random": {"name": "random", "k": K},
    "bernoulli": {"name": "bernoulli", "k": K},
    "weighted": {"name": "weighted", "k": K},
    "partition": {"name": "partition", "k": K},
    "batch 2": {"name": "batch_partition", "k": K, "T": 2},
    "batch 3": {"name": "batch_partition", "k": K, "T": 3},
    "half 2": {"name": "half_partition", "k": K, "T": 2},
    "half 6": {"name": "half_partition", "k": K, "T": 6},
    "all": {"name": "all"},
}


def matrix(name, rounds=90, seed=0):
    """0/1 rows of a policy, everybody available."""
    scenario = Scenario.of(
        {"clients": N, "selection": CHOICES[name], "training": {"name": "fedavg", "rounds": 1}, "learning": "none"}
    )
    policy, count, rows = scenario.selection, np.zeros(N, dtype=np.int64), np.zeros((rounds, N))
    for t, row in enumerate(rows):
        view = View(t, np.ones(N, dtype=bool), count)
        row[ask(policy, view, policy.k or N, Streams(seed)("rows", t)).ravel()] = 1
        count += row.astype(np.int64)
    return rows


def seen_of(t, row, deltas, noise=0.0, vectors=None, model=None):
    """A round whose sum is of these weights; float64 all through, so that identities are exact."""
    clients = np.flatnonzero(row).astype(np.int32)
    shares = row[clients] / len(clients)
    value = shares @ deltas[clients] + noise
    jobs = tuple(Job((t << 32) | c, c, t, 0.0) for c in clients.tolist())
    before = np.zeros(deltas.shape[1])
    total = Aggregate(value, clients, np.ones(len(clients), dtype=int), shares=shares)
    shown = None if vectors is None else vectors[clients]
    return ServerView(t, 0.0, total, jobs, {t: before}, shown, before if model is None else model, before, value)


def attacked(rows, deltas, observer=None, noise=None, vectors=None):
    """The observer's last guess and the scorer's numbers."""
    observer = observer or LeastSquares(coordinates=None)
    state, memory = observer.start(*deltas.shape), observer.init_memory(*deltas.shape)
    for t, row in enumerate(rows):
        if not row.any():
            continue
        guess, state = observer.observe(
            seen_of(t, row, deltas, 0 if noise is None else noise[t], vectors), state, STREAMS
        )
        clients = np.flatnonzero(row).astype(np.int32)
        memory = observer.update_memory(TrueUpdates(clients, deltas[clients]), memory, STREAMS)
    return guess, observer.error(guess, TrueUpdates(clients, deltas[clients], memory))


def orthonormal(n=N, d=40, seed=1):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, n)))[0].T


@pytest.mark.parametrize("name", CHOICES)
def test_orthonormal_updates_are_missed_by_one_minus_rank_over_clients(name):
    rows, deltas = matrix(name), orthonormal()
    guess, found = attacked(rows, deltas)
    rank = len(MatrixAnalysis.of(rows).basis.rounds)  # exact
    assert guess.solution.rank == rank
    off = np.square(guess.estimates - deltas).sum(axis=1)
    assert off.mean() == pytest.approx(1 - rank / N, abs=1e-9)
    np.testing.assert_allclose(off, np.diag(guess.solution.miss), atol=1e-9)  # e_i = R_ii
    for value in ("recovery_error", "recovery_expected", "recovery_expected_orthogonal", "recovery_weighted"):
        assert found[value] == pytest.approx(1 - rank / N, abs=1e-9), value
    assert found["recovery_uncorrelated"] == pytest.approx(1 - rank / N, abs=1e-12)
    if rank == N:  # not what rounding leaves, which is another number on another processor
        assert found["recovery_uncorrelated"] == found["recovery_alike"] == 0


@pytest.mark.parametrize("ridge", [0.0, 0.7])
@pytest.mark.parametrize("name", CHOICES)
def test_updates_that_point_the_same_way_are_missed_by_less(name, ridge):
    """M7: 1 - rank / N was called the error without noise; it is that of uncorrelated updates, and no floor.

    Beside the least squares of numpy: vectors of length 1 with the same cosine c between any two of them.
    """
    rows, solution = matrix(name), solve(matrix(name).T @ matrix(name), ridge)
    wide = np.vstack([rows, np.sqrt(ridge) * np.eye(N)])
    for c in (-1 / (N - 1), 0.0, 0.3, 0.9, 1.0):
        values, vectors = np.linalg.eigh((1 - c) * np.eye(N) + c)
        deltas = vectors * np.sqrt(np.maximum(values, 0))
        sums = np.vstack([rows @ deltas, np.zeros((N, N))])
        off = np.square(np.linalg.lstsq(wide, sums, rcond=1e-10)[0] - deltas).sum(axis=1).mean()
        assert off == pytest.approx((1 - c) * solution.uncorrelated_error + c * solution.alike, abs=1e-9)
        assert cosine(deltas)["update_cosine"] == pytest.approx(c, abs=1e-9)
    if name == "all" and not ridge:
        assert (solution.uncorrelated_error, solution.alike) == pytest.approx((1 - 1 / N, 0), abs=1e-9)


def test_of_any_updates_the_mean_cosine_decides_on_average():
    """Updates of one length with any cosines, given to the clients in any order."""
    rng, rows = np.random.default_rng(12), matrix("half 6", 5)
    deltas = rng.normal(size=(N, 3)) + 0.5
    deltas /= np.linalg.norm(deltas, axis=1, keepdims=True)
    deltas[0] *= -1
    solution, c = solve(rows.T @ rows), cosine(deltas)["update_cosine"]
    off = [np.square(solution.miss @ rng.permutation(deltas)).sum(axis=1).mean() for _ in range(4000)]
    expectation = (1 - c) * solution.uncorrelated_error + c * solution.alike
    assert (
        abs(np.mean(off) - expectation) < 4 * np.std(off) / np.sqrt(4000) and expectation < solution.uncorrelated_error
    )
    pairs = [deltas[i] @ deltas[j] for i in range(N) for j in range(i)]
    assert c == pytest.approx(np.mean(pairs)) and cosine(np.eye(3)[:1]) == cosine(np.zeros((4, 2))) == {}


@pytest.mark.parametrize("name, rank", [("random", N), ("partition", N // K), ("batch 2", N // 2), ("batch 3", N // 3),
                                        ("half 2", N - 1), ("half 6", 2 * N // 6 - 1), ("all", 1)])  # fmt: skip
def test_saturated_ranks_are_those_of_the_specification(name, rank):
    assert solve(matrix(name).T @ matrix(name)).rank == rank


@pytest.mark.parametrize("name", CHOICES)
def test_exposed_clients_are_those_of_the_auditor(name):
    for rounds in (8, 20, 40):
        rows = matrix(name, rounds)
        study, solution = MatrixAnalysis.of(rows), solve(rows.T @ rows)
        exposed = {e.client for e in exposures(study, Budget(BUDGET))}
        assert exposed == set(np.flatnonzero(np.diag(solution.miss) < 1e-9))
        left = hidden(study.basis, Budget(BUDGET))
        np.testing.assert_allclose(left, np.diag(solution.miss), atol=1e-9)
        assert left.mean() == pytest.approx(1 - len(study.basis.rounds) / N, abs=1e-9)
        assert hidden(study.basis, Budget(1)) is None


def test_on_batches_the_pseudo_inverse_is_the_units_mean():
    rows, deltas = matrix("batch 3"), np.random.default_rng(3).normal(size=(N, 17))
    guess, _ = attacked(rows, deltas)
    np.testing.assert_allclose(guess.estimates, deltas.reshape(-1, 3, 17).mean(axis=1).repeat(3, axis=0), atol=1e-9)


def test_streaming_is_solving_all_at_once():
    rows, deltas = matrix("half 2", 60), np.random.default_rng(4).normal(size=(N, 9))
    noise = np.random.default_rng(5).normal(size=(60, 9))
    sums = np.stack([(row @ deltas) / row.sum() + noise[t] for t, row in enumerate(rows)])
    batch = np.linalg.pinv(rows / rows.sum(axis=1, keepdims=True) * K) @ (sums * K)
    guess, _ = attacked(rows, deltas, noise=noise)
    np.testing.assert_allclose(guess.estimates, batch, rtol=1e-6, atol=1e-8)
    ridge, _ = attacked(rows, deltas, LeastSquares(estimator="ridge", ridge=0.3, coordinates=None), noise)
    shrunk = np.linalg.solve(rows.T @ rows + 0.3 * np.eye(N), rows.T @ (sums * K))
    np.testing.assert_allclose(ridge.estimates, shrunk, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("weights", ["ones", "samples", "staleness", "whole"])
def test_monte_carlo_meets_the_formula(weights):
    rng, d, sigma = np.random.default_rng(6), 300, 0.05
    rows = matrix("half 6", 40)
    scale = {
        "ones": 1.0,
        "samples": rng.integers(1, 9, N),
        "staleness": (1 + rng.integers(0, 4, rows.shape)) ** -0.5,
        "whole": np.floor(64 / (1 + rng.integers(0, 4, rows.shape)) + rng.random(rows.shape)) / 64,
    }[weights]
    P = rows * scale
    norms = rng.uniform(0.5, 2, N) ** 2
    deltas = orthonormal(N, d) * np.sqrt(norms)[:, None]
    for lam in (0.0, 0.4):
        solution = solve(P.T @ P, lam)
        theory = expected_errors(solution, norms, d * sigma**2)
        found = []
        for _ in range(60):
            y = P @ deltas + sigma * rng.normal(size=(len(P), d))
            found.append(np.square(solution.inverse @ P.T @ y - deltas).sum(axis=1) / norms)
        np.testing.assert_allclose(np.mean(found, axis=0), theory, rtol=0.1)


def test_quantisation_adds_a_quarter_of_a_step_or_less():
    """Stochastic rounding to steps of 1/c: variance K * f (1 - f) / c^2 a coordinate, K / (6 c^2) on average."""
    rng, c, d = np.random.default_rng(8), 64.0, 4000
    deltas = rng.normal(size=(N, d)) / 8
    rows = matrix("random", 60)
    rounded = lambda v: np.floor(v * c + rng.random(v.shape)) / c  # noqa: E731
    off = [np.mean((sum(rounded(deltas[i]) for i in np.flatnonzero(row)) - row @ deltas) ** 2) for row in rows]
    assert np.mean(off) == pytest.approx(K / (6 * c * c), rel=0.1)


def test_a_pair_of_unlike_clients_is_missed_as_its_formula_says():
    for r, c in ((2.0, 0.0), (1.0, 0.5), (3.0, -0.2)):
        a = np.array([1.0, 0.0])
        b = r * np.array([c, np.sqrt(1 - c * c)])
        _, found = attacked(np.ones((1, 2)), np.stack([a, b]))
        assert found["recovery_error"] == pytest.approx((2 + r**2 + r**-2 - 2 * c * (r + 1 / r)) / 8, abs=1e-12)
    assert (2 + 4 + 1 / 4) / 8 == pytest.approx(0.781, abs=1e-3)  # what the published 0.78 needs: lengths as 2 to 1


def test_clients_nobody_saw_are_missed_wholly_and_those_seen_alone_not_at_all():
    rows = np.zeros((2, 5))
    rows[0, 1] = rows[1, [2, 3]] = 1
    guess, found = attacked(rows, orthonormal(5, 8))
    np.testing.assert_allclose(np.diag(guess.solution.miss), [1, 0, 0.5, 0.5, 1], atol=1e-12)
    assert found["recovery_error"] == pytest.approx(3 / 5) and found["recovered_clients"] == pytest.approx(0.2)
    report = audit(rows)
    np.testing.assert_allclose(report.hidden, [1, 0, 0.5, 0.5, 1], atol=1e-12)
    assert report.to_json()["least_squares"]["predicted_error"] == pytest.approx(0.6)


def test_single_updates_are_the_updates():
    rows, deltas = matrix("batch 2", 30), np.random.default_rng(9).normal(size=(N, 12))
    _, found = attacked(rows, deltas, vectors=deltas)
    assert found["recovery_error"] == pytest.approx(0, abs=1e-18)


@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_theory_of_single_updates_is_their_noise_and_not_their_drift(sigma):
    """Updates that change all the while, shown one by one: the estimate is their mean, but for the noise on them."""
    rows, d, rng = matrix("batch 2", 60), 1000, np.random.default_rng(11)
    base, observer = rng.normal(size=(N, d)), LeastSquares(coordinates=None)
    state, memory = observer.start(N, d), observer.init_memory(N, d)
    for t, row in enumerate(rows):
        moved = base + rng.normal(size=(N, d))
        shown = moved + sigma * rng.normal(size=(N, d))
        guess, state = observer.observe(seen_of(t, row, moved, vectors=shown), state, STREAMS)
        clients = np.flatnonzero(row).astype(np.int32)
        memory = observer.update_memory(TrueUpdates(clients, moved[clients]), memory, STREAMS)
    found = observer.error(guess, TrueUpdates(clients, moved[clients], memory))
    assert found["recovery_expected"] == pytest.approx(found["recovery_error"], rel=0.1, abs=1e-12)
    assert found["recovery_error"] < 1e-12 or sigma


def test_what_is_sampled_is_close_to_all():
    rows, deltas = matrix("half 6", 40), np.random.default_rng(10).normal(size=(N, 20_000))
    whole = attacked(rows, deltas)[1]
    some = attacked(rows, deltas, LeastSquares(coordinates=1024))[1]
    assert some["recovery_error"] == pytest.approx(whole["recovery_error"], rel=0.02)


def test_forgetting_follows_what_changes():
    rng, rows = np.random.default_rng(11), matrix("random", 400)
    observer = LeastSquares(coordinates=None, forget=0.02)
    old, new = rng.normal(size=(2, N, 30))
    state = observer.start(N, 30)
    for t, row in enumerate(rows):
        guess, state = observer.observe(seen_of(t, row, old if t < 100 else new), state, STREAMS)
    assert np.abs(guess.estimates - new).max() < 0.05


def test_noise_is_multiplied_most_where_rounds_are_as_many_as_clients():
    setting = {"clients": 40, "selection": {"name": "random", "k": 8}, "training": {"name": "fedavg", "rounds": 1}}
    rows = windows(Scenario.of(setting | {"learning": "none"}))
    times = {row["rounds"]: row["noise_amplification"] for row in rows}
    assert times[40] > 5 and times[40] == max(times.values())
    for rounds, published in ((60, 0.30), (80, 0.15), (120, 0.074), (200, 0.037)):
        assert times[rounds] == pytest.approx(published, rel=0.1)
    assert all(row["error_uncorrelated"] == 0 for row in rows)


# -- in a run ------------------------------------------------------------------------------------------------

BASE = """
name: attacked
clients: 12
devices: {availability: {name: bernoulli, dropout: 0.1}, failure: {name: bernoulli, probability: 0.05}}
selection: {name: batch_partition, k: 4, T: 2}
learning: {data: digits, model: logistic, evaluate: {every: 5}}
"""
FEDAVG = "training: {name: fedavg, rounds: 20, batch_size: 50}\n"
FEDBUFF = (
    "training: {name: fedbuff, rounds: 20, concurrency: 6, batch_size: 50, staleness: polynomial, weighting: equal}\n"
)
ATTACK = "attacks: [least_squares, {name: least_squares, view: public}]\n"
SUMS = {FEDAVG: "secagg: secagg\n", FEDBUFF: "secagg: basecagg\n"}


def made(training, tmp_path, *overrides, more=""):
    return run(Scenario.parse(BASE + training + more, "attacked", overrides), tmp_path)


def table(folder, name):
    with open(folder / name, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("training", [FEDAVG, FEDBUFF], ids=["fedavg", "fedbuff"])
def test_attacks_move_nothing_else(training, tmp_path, no_pictures):
    with_it = made(training, tmp_path, more=ATTACK + SUMS[training])
    without = made(training, tmp_path, more=SUMS[training])
    for name in ("participation.csv", "evaluation.csv", "phases.csv", "clients.csv"):
        if name in without.summary["sha256"]:
            assert with_it.summary["sha256"][name] == without.summary["sha256"][name]
    assert with_it.summary["sha256"]["model.npy"] == without.summary["sha256"]["model.npy"]
    rows, plain = table(with_it.path, "rounds.csv"), table(without.path, "rounds.csv")
    assert [{key: row[key] for key in plain[0]} for row in rows] == plain
    assert float(rows[-1]["recovery_uncorrelated"]) == pytest.approx(0.5)
    assert 0 < with_it.summary["recovery_error"] < 2 and with_it.summary["public_recovery_error"] > 0
    page_of = page(read_study([with_it.path]))
    assert "Recovery error" in page_of


@pytest.mark.parametrize("training", [FEDAVG, FEDBUFF], ids=["fedavg", "fedbuff"])
def test_a_recorded_run_is_seen_again_as_it_was(training, tmp_path):
    """The record replayed through the observer gives the state that the run's own observer had."""
    from simfl.experiments.attack.after_run import Recorded
    from simfl.results.folder import ResultsFolder

    for protocol in (SUMS[training], ""):
        done = made(training, tmp_path, "trace=aggregates", more="attacks: [least_squares]\n" + protocol)
        scenario = Scenario.load(done.path / "scenario.yaml")
        (observer,), state = scenario.attacks, None
        for seen in Recorded(ResultsFolder.open(done.path), scenario).seen():
            state = state or observer.start(12, 650)
            guess, state = observer.observe(seen, state, Streams(scenario.seed))
        last = [row for row in table(done.path, "attacks.csv") if row["name"] == "noise_amplification"][-1]
        assert float(last["value"]) == guess.solution.amplification


def test_the_record_survives_kills_and_verification(tmp_path, monkeypatch):
    from simfl.runs.run import verify
    from tests.plugins.test_public_interface import killed_and_resumed

    texts = BASE + FEDAVG + ATTACK + SUMS[FEDAVG] + "trace: aggregates\n"
    scenario = Scenario.parse(texts, "attacked")
    whole = run(scenario, tmp_path / "whole")
    for at in (1, 7):
        path = killed_and_resumed(scenario, tmp_path / str(at), monkeypatch, at)
        assert json.loads((path / "summary.json").read_text()) == whole.summary
    assert "aggregates.f32" in whole.summary["sha256"] and all(verify(whole.path).values())


def test_central_noise_leaves_the_server_its_view(tmp_path):
    noise = """
privacy: {stages: [{name: central_gaussian, clip_norm: 100.0, noise_multiplier: 0.02}]}
secagg: secagg
"""
    text, equal = BASE + FEDAVG + ATTACK + noise, "training.weighting=equal"
    loud = run(Scenario.parse(text, "attacked", (equal,)), tmp_path)
    free = run(Scenario.parse(text, "attacked", (equal, "privacy.stages.0.noise_multiplier=1e-9")), tmp_path)
    assert free.summary["public_recovery_error"] == pytest.approx(free.summary["recovery_error"], rel=1e-3)
    assert loud.summary["public_recovery_error"] > 1.05 * loud.summary["recovery_error"]


def test_after_the_fact(tmp_path):
    from click.testing import CliRunner

    from simfl.cli import simfl

    frozen = (
        "trace=aggregates", "training.rounds=60", "training.decay_at=[10]", "training.decay=1e-3", "secagg=secagg",
        "training.batch_size=null", "learning.partition=shards:labels_per_client=1",
        "devices.availability=always", "devices.failure=none", "secagg.execute=cost_only",
    )  # fmt: skip
    gaps = {}
    for policy in ("random", "batch_partition:T=2"):
        done = made(FEDAVG, tmp_path, *frozen, f"selection={policy}")
        command = ["attack", str(done.path), "least_squares", "coordinates=null", "--rounds", "10:60", "--json"]
        result = CliRunner().invoke(simfl, command)
        assert result.exit_code == 0, result.output
        found = json.loads(result.output)
        assert found["aggregations"] == 50 and found["truth_round"] == 35
        gaps[policy] = found["errors"]["recovery_error"]
    assert gaps["random"] < 0.1 and 0.4 < gaps["batch_partition:T=2"] < 0.9
    assert gaps["batch_partition:T=2"] > 5 * gaps["random"]


@pytest.mark.parametrize(
    "command, said",
    [
        (["least_square"], "did you mean 'least_squares'"),
        (["least_squares", "ridge=-1"], "ridge"),
        (["least_squares", "--rounds", "900:"], "nothing was aggregated"),
        (["least_squares", "--rounds", "a"], "FIRST:STOP"),
    ],
)
def test_impossible_attacks_are_one_line(command, said, tmp_path):
    from click.testing import CliRunner

    from simfl.cli import simfl

    done = made(FEDAVG, tmp_path, "trace=aggregates", "training.rounds=2")
    result = CliRunner().invoke(simfl, ["attack", str(done.path), *command])
    assert result.exit_code == 2 and said in result.output and "Traceback" not in result.output
    bare = made(FEDAVG, tmp_path, "training.rounds=2")
    result = CliRunner().invoke(simfl, ["attack", str(bare.path), "least_squares"])
    assert result.exit_code == 2 and "trace=aggregates" in result.output


def test_two_attacks_of_one_name_are_refused():
    with pytest.raises(InvalidScenario, match="recovery_error"):
        Scenario.parse(BASE + FEDAVG + "attacks: [least_squares, least_squares]\n")
    Scenario.parse(BASE + FEDAVG + "attacks: [least_squares, {name: least_squares, label: other}]\n")
