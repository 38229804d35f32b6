"""Searches: the true best of small spaces, what is feasible, the same bytes after kills and for any number of jobs."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from functools import reduce
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.stats import norm

import simfl
from simfl.cli import simfl as group
from simfl.core.errors import IntegrityError, SimflError
from simfl.core.types import SERVER
from simfl.experiments.search.all_runs import together
from simfl.experiments.search.objectives import Goal, Objective, Requirement, Trial, best, nearest
from simfl.experiments.search.preparation import prepare
from simfl.experiments.search.space import space_of
from simfl.experiments.sweep import processes
from simfl.experiments.sweep.stop_rule import Reached, StopRule, median_rule
from simfl.experiments.sweep.worker_process import Slot
from simfl.privacy.accountant import History
from simfl.privacy.certify.observer_view import Clear, ObserverView
from simfl.privacy.dp.losses import ORDERS, RunLoss, run_losses
from simfl.privacy.multiround.guarantees import Guarantees
from simfl.results.file_names import PRUNED
from simfl.results.sealed_files import write_sealed
from simfl.runs.accounting import history

optuna = pytest.importorskip("optuna", reason="the extra search is not installed")

pytestmark = pytest.mark.usefixtures("sweeps_here")

HERE = Path(__file__).resolve().parents[2]
TINY = """
name: tiny
clients: 24
devices: {availability: {name: bernoulli, dropout: 0.3}}
network: {name: star, latency_s: {name: log_normal, median: 0.1, sigma: 0.5}}
selection: {name: random, k: 6}
training: {name: fedavg, rounds: 4}
learning: {name: none, parameters: 1000}
"""
NOISY = [
    "learning={data: digits, partition: iid, model: logistic}",
    "training.weighting=equal",
    "privacy.stages=[{name: central_gaussian, clip_norm: 1.0, noise_multiplier: 2.0}]",
]
SMALL = {"selection.k": [3, 6, 12], "devices.availability.dropout": ["0", "0.1", "0.2", "0.4"]}
LEARNS = TINY.replace("{name: none, parameters: 1000}", "{data: digits, partition: iid, model: logistic}")


@pytest.fixture
def tiny(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    return tmp_path / "tiny.yaml"


def call(*arguments):
    return CliRunner().invoke(group, [str(argument) for argument in arguments], catch_exceptions=False)


def table(out):
    (path,) = Path(out).glob("*/search-*/search.csv")
    return path


def rows(out):
    with open(table(out), newline="") as file:
        return list(csv.DictReader(file))


# -- what is found -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A sweep of twelve combinations, and a search that may run as many."""
    folder = tmp_path_factory.mktemp("both")
    (folder / "tiny.yaml").write_text(TINY)
    swept = simfl.sweep(folder / "tiny.yaml", SMALL, out=folder / "swept")
    found = simfl.search(
        folder / "tiny.yaml", SMALL, maximise="mean_cardinality", runs=40, out=folder / "found", jobs=1
    )
    return swept, found, folder


def test_as_many_runs_as_combinations_find_the_true_best(both):
    swept, found, _ = both
    assert len(found.trials) == 12 and set(found.trials.run) == set(swept.runs.digest), "each once, then it ends"
    first = found.front.iloc[0]
    assert first.mean_cardinality == swept.runs.mean_cardinality.max() and len(found.front) == 1
    assert found.best.summary["digest"] == first.run
    assert found.best.summary["mean_cardinality"] == first.mean_cardinality


def test_the_front_of_several_objectives_is_that_of_the_sweep(both):
    swept, _, folder = both
    found = simfl.search(folder / "tiny.yaml", SMALL, maximise=["mean_cardinality", "privacy_weak"],
                         minimise="bytes_down", require="skipped<=1", runs=12, jobs=1,
                         out=folder / "found")  # fmt: skip
    points = swept.runs[["mean_cardinality", "privacy_weak_lower", "bytes_down"]].to_numpy() * [1, 1, -1]
    feasible = (swept.runs.skipped <= 1).to_numpy()
    front = {digest for digest, one, fits in zip(swept.runs.digest, points, feasible, strict=True) if fits
             and not any((other >= one).all() and (other > one).any() for other in points[feasible])}  # fmt: skip
    assert set(found.front.run) == front and len(front) > 1
    assert [*found.trials.feasible] == [int(row.skipped <= 1) for row in found.trials.itertuples()]


def test_the_folder_of_a_search_is_read_as_that_of_a_sweep(both):
    from simfl.report import draw, read_study

    _, found, folder = both
    again = simfl.open(found.path)
    assert type(again).__name__ == "SearchResult" and again.trials.equals(found.trials)
    assert len(read_study([found.path]).groups) == 12 and len(found.rounds()) == 48
    _, drawn = draw("pareto", found.path)
    values = drawn[["privacy_weak_lower", "time_s"]].to_numpy() * [1, -1]
    worlds = drawn["world"].tolist() if "world" in drawn else [""] * len(drawn)
    assert drawn.front.tolist() == [
        not any((other >= one).all() and (other > one).any() for other, met in zip(values, worlds) if met == world)
        for one, world in zip(values, worlds)
    ]
    assert "search selection.k=" in call("ls", folder / "found").output
    found_by_optuna = optuna.load_study(
        study_name="simfl",
        storage=optuna.storages.JournalStorage(
            optuna.storages.journal.JournalFileBackend(str(found.path / "optuna.log"))
        ),
    )
    assert found_by_optuna.best_value == found.trials.mean_cardinality.max()


def test_a_better_region_is_searched_more(tiny, tmp_path):
    """The cardinality is k: later proposals lie higher than earlier ones, which are random."""
    found = simfl.search(
        tiny,
        {"selection.k": "1..24", "devices.availability": "always"},
        maximise="mean_cardinality",
        runs=20,
        out=tmp_path,
        jobs=1,
    )
    assert found.trials["selection.k"].is_unique
    assert found.trials["selection.k"][10:].mean() > found.trials["selection.k"][:10].mean()
    assert found.front["selection.k"].iloc[0] >= 22


# -- what is feasible --------------------------------------------------------------------------------------

GOAL = Goal((Objective("a", 1),), (Requirement("p", ">=", 4.0), Requirement("t", "<", 10.0)))


def trial(number, a, p, t):
    numbers = {name: value for name, value in (("a", a), ("p", p), ("t", t)) if value is not None}
    violations = tuple(each.violation(numbers) for each in GOAL.requirements)
    return Trial(number, (), f"d{number}", "done", numbers, violations)


def test_requirements_by_hand():
    runs = [
        trial(0, 0.9, 3, 5),
        trial(1, 0.8, 4, 10),
        trial(2, 0.7, 4, 9.5),
        trial(3, 0.7, 8, 1),
        trial(4, 0.99, None, 1),
    ]
    assert [run.feasible for run in runs] == [False, False, True, True, False]
    assert [run.number for run in best(GOAL, runs)] == [2], "of equals the first"
    assert runs[0].violations == (0.25, 0.0) and 0 < runs[1].violations[1] < 1e-6
    assert nearest(runs[:1] + runs[4:]) is runs[0] and nearest(runs[:2]) is runs[1]
    two = Goal((Objective("a", 1), Objective("t", -1)))
    assert two.front({0: (1, 5), 1: (1, 4), 2: (0, 1), 3: (0, 2), 4: (1, 4)}) == [1, 2, 4]


def test_where_no_run_is_feasible_a_line_names_the_nearest(tiny, tmp_path):
    found = call("search", tiny, "selection.k=3,6", "--maximise", "mean_cardinality", "--require",
                 "mean_cardinality>=99", "--jobs", 1, "--out", tmp_path)  # fmt: skip
    line = found.stdout.splitlines()[-2]
    assert found.exit_code == 0 and line.startswith("no run meets mean_cardinality>=99; the nearest: number ")
    assert "selection.k=6" in line
    assert {row["feasible"] for row in rows(tmp_path)} == {"0"} == {row["best"] for row in rows(tmp_path)}


def test_a_run_that_has_diverged_is_never_best(tmp_path):
    (tmp_path / "wild.yaml").write_text(LEARNS.replace("logistic", "mlp"))
    call("search", tmp_path / "wild.yaml", "training.learning_rate=0.1,1e6", "--maximise", "mean_cardinality",
         "--jobs", 1, "--out", tmp_path)  # fmt: skip
    wild, tame = sorted(rows(tmp_path), key=lambda row: -float(row["training.learning_rate"]))
    assert (wild["best"], wild["feasible"], tame["best"]) == ("0", "0", "1") and "diverged at round" in wild["note"]


def test_a_requirement_on_the_rounds_of_a_run_names_the_one_for_any_number_of_rounds(tiny, tmp_path):
    words = ["search", tiny, "selection.k=3,6", "--maximise", "mean_cardinality", "--jobs", 1, "--out", tmp_path]
    said = call(*words, "--require", "privacy_weak>=2").stderr
    assert "for any number of rounds require guarantee_weak>=2" in said
    assert "any number of rounds" not in call(*words, "--require", "mean_cardinality>=1").stderr


# -- what the choice gives away ----------------------------------------------------------------------------


def epsilon_of(mu, delta=1e-5):
    """Of a Gaussian mechanism, by bisection of its delta (Dong, Roth and Su, 2022, Corollary 2.13)."""

    def delta_of(e):
        return norm.cdf(mu / 2 - e / mu) - np.exp(e) * norm.cdf(-mu / 2 - e / mu)

    return brentq(lambda e: delta_of(e) - delta, 0, 100) if mu else 0.0


def noised(tmp_path, *words):
    (tmp_path / "learns.yaml").write_text(LEARNS)
    shown = call("search", tmp_path / "learns.yaml", "training.learning_rate=0.05,0.1,0.2", *NOISY[1:],
                 "privacy.accountants=[zero_out]", "--maximise", "test_accuracy", "--require", "epsilon_max<=9",
                 "--jobs", 1, "--out", tmp_path, *words)  # fmt: skip
    assert shown.exit_code == 0, shown.stderr
    return shown


def test_epsilons_of_all_runs_are_composed_as_if_one_client_had_been_in_the_most_sums_of_each(tmp_path):
    """Seeds of their own deal the data anew: nobody knows whose samples are with which client of another run."""
    found = json.loads(noised(tmp_path, "--own-seeds", "--json").stdout)
    most = 0
    for row in found["runs"]:
        with open(tmp_path / "tiny" / row["run"] / "participation.csv", newline="") as file:
            most += np.bincount([int(each["client"]) for each in csv.DictReader(file)]).max()
    composed, epsilon = found["all_runs_together"], epsilon_of(0.5 * np.sqrt(most))
    assert composed["runs"] == 3 and composed["why"] == ""
    assert composed["epsilon_max"] == composed["epsilon_median"] == pytest.approx(epsilon, rel=1e-6)
    assert composed["epsilon_max"] > max(row["epsilon_max"] for row in found["runs"])
    assert len({simfl.open(tmp_path / "tiny" / row["run"]).summary["seed"] for row in found["runs"]}) == 3
    assert simfl.open(table(tmp_path).parent).together == composed
    path = table(tmp_path).with_name("together.json")
    path.write_text(path.read_text().replace("3", "4"))
    with pytest.raises(IntegrityError, match="together.json: damaged"):
        simfl.open(path.parent)


def test_shared_noise_is_not_composed(tmp_path):
    shown = noised(tmp_path).stdout
    assert "all 3 runs together: epsilon_max infinite" in shown and "--own-seeds" in shown
    assert "optimistic: the best of 3 runs was chosen by test_accuracy on the test samples" in shown


def test_runs_that_did_not_end_and_other_epsilons_are_infinite():
    stated = "privacy.stages=[{name: output_perturbation, epsilon: 1, samples: 30, adds: whole}]"
    scenario = simfl.load(yaml.safe_load(LEARNS), [*NOISY[1:2], stated, "privacy.accountants=[]"])
    assert together([], False) is None
    assert together([(simfl.load(yaml.safe_load(TINY)), Path())], False) is None, "nobody says an epsilon"
    assert np.isinf(together([(scenario, Path())], False).epsilon_max), "of a stage alone"
    known = simfl.load(yaml.safe_load(LEARNS), [*NOISY[1:], "privacy.accountants=[zero_out]"])
    assert together([(known, Path())], True).why.startswith("what runs that did not end")


@pytest.mark.parametrize("stage", ["central_gaussian", "local_laplace", "discrete_gaussian", "tree_gaussian",
                                   "skellam", "laplace_shares"])  # fmt: skip
def test_a_run_alone_composes_to_its_own_epsilons(stage, tmp_path):
    secagg = "secagg" if stage in ("discrete_gaussian", "skellam") else "ideal"
    scenario = simfl.load(yaml.safe_load(TINY), ["training.weighting=equal", f"privacy.stages=[{stage}]",
                                                 f"secagg={secagg}", "privacy.accountants=[zero_out]"])  # fmt: skip
    run = simfl.run(scenario, out=tmp_path)
    samples = np.ones(24, dtype=np.int64)
    whole = min((t.epsilons(1e-5) for t in run_losses(history(scenario, run.path, 4, samples))), key=np.max)
    with open(run.path / "privacy.csv", newline="") as file:
        alone = [float(row["epsilon"]) for row in csv.DictReader(file)]
    assert whole.tolist() == pytest.approx(alone, rel=1e-9)


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=4))
def test_a_client_that_a_run_lacks_is_told_nothing_of_by_it(runs):
    parts = [RunLoss(np.ones(n), np.ones(n), np.ones((len(ORDERS), n)) if renyi else None) for n, renyi in runs]
    added = reduce(RunLoss.plus, parts)
    counts = [sum(i < n for n, _ in runs) for i in range(max(n for n, _ in runs))]
    assert added.squares.tolist() == added.pure.tolist() == counts
    renyi = [sum(i < n for n, renyi in runs if renyi) for i in range(len(counts))]
    assert (added.rdp is None) == (not any(r for _, r in runs))
    assert added.rdp is None or (added.rdp == renyi).all()


@pytest.mark.parametrize("accountant", ["rdp", "pld", "{name: pld, delta: 1.0e-7}", "{name: rdp, delta: 1.0e-6}"])
def test_epsilons_by_other_accountants_are_composed_too(accountant, tmp_path):
    """What they account is Gaussian: the sums of all runs that one client was in, at the accountant's own δ."""
    (tmp_path / "learns.yaml").write_text(LEARNS)
    shown = call("search", tmp_path / "learns.yaml", "training.learning_rate=0.05,0.1", *NOISY[1:],
                 f"privacy.accountants=[{accountant}]", "training.rounds=2", "--maximise", "test_accuracy",
                 "--minimise", f"epsilon_{yaml.safe_load(accountant)['name'] if '{' in accountant else accountant}",
                 "--own-seeds", "--json", "--jobs", 1, "--out", tmp_path)  # fmt: skip
    found = json.loads(shown.stdout)
    delta = yaml.safe_load(accountant).get("delta", 1e-5) if "{" in accountant else 1e-5
    most = 0
    for row in found["runs"]:
        with open(tmp_path / "tiny" / row["run"] / "participation.csv", newline="") as file:
            most += np.bincount([int(each["client"]) for each in csv.DictReader(file)]).max()
    composed = found["all_runs_together"]
    assert composed["delta"] == delta and composed["why"] == ""
    assert composed["epsilon_max"] == pytest.approx(epsilon_of(0.5 * np.sqrt(most), delta), rel=1e-6)
    said = found["certificates"]["epsilon_max"]
    assert f"at δ = {delta:g}" in said["assumes"] and "zero-out" in said["protects"] and said["observer"]


def test_sums_of_all_runs_are_combined(tiny, tmp_path):
    """Pairs in one run and triples in the other: clients 2, 8, ... are the difference of sums of the two."""
    words = ["search", tiny, "selection=batch_partition:T=2,batch_partition:T=3", "devices.availability.dropout=0.1",
             "training.rounds=40", "--maximise", "mean_cardinality", "--jobs", 1, "--out", tmp_path]  # fmt: skip
    shown = call(*words, "--require", "privacy_weak>=2").stdout
    assert "all 2 runs together: privacy_strong 1, privacy_semi_strong 1, privacy_weak_lower 1" in shown
    found = json.loads(call(*words, "--require", "privacy_weak>=2", "--json").stdout)
    assert sorted(row["privacy_weak_lower"] for row in found["runs"]) == [2, 3]
    matrix = np.zeros((80, 24))
    for i, row in enumerate(found["runs"]):
        with open(tmp_path / "tiny" / row["run"] / "participation.csv", newline="") as file:
            for each in csv.DictReader(file):
                matrix[40 * i + int(each["round"]), int(each["client"])] = 1
    alone = [c for c in range(24) if np.linalg.matrix_rank(np.vstack([matrix, np.eye(24)[c]])) ==
             np.linalg.matrix_rank(matrix)]  # fmt: skip
    classes = np.unique(matrix, axis=1, return_counts=True)[1]
    assert alone and found["all_runs_together"]["privacy_strong"] == classes.min() == 1
    assert found["all_runs_together"]["privacy_weak_upper"] == 1
    assert "together" not in call(*words).stdout, "it is for no privacy"


@pytest.mark.parametrize("stages", ["[]", "[central_gaussian]", "[local_gaussian]"])
@pytest.mark.parametrize("rows", ["units", "weights"])
@pytest.mark.parametrize("topology", ["{name: tree, edges: 2}", "{name: servers, servers: 2}", "star"])
def test_what_edges_see_is_never_left_out(topology, rows, stages, tmp_path):
    """Of one run, what all runs give away is never less than what it says of itself."""
    words = ["selection.k=5", f"topology={topology}", f"privacy.stages={stages}", "training.weighting=equal",
             "devices.availability=always", f"privacy.rows={rows}"]  # fmt: skip
    scenario = simfl.load(yaml.safe_load(TINY), words)
    run = simfl.run(scenario, out=tmp_path)
    names = ["privacy_strong", "privacy_semi_strong", "privacy_weak_lower", "privacy_weak_upper"]
    facts = together([(scenario, run.path)], 0, names).facts
    assert all(facts[name] <= run.summary[name] for name in names)
    if stages != "[]":
        epsilon = np.inf if facts["epsilon_max"] is None else facts["epsilon_max"]
        assert epsilon >= run.summary["epsilon_max"] * (1 - 1e-9)
        assert (epsilon == np.inf) == (topology != "star") == ("star" in facts["why"])


@given(st.lists(st.tuples(st.integers(4, 6), st.lists(st.integers(1, 15), min_size=1, max_size=4)), min_size=1,
                max_size=3))  # fmt: skip
def test_an_observer_of_several_runs_has_the_rows_of_all(runs):
    matrices = [np.array([[row >> c & 1 for c in range(n)] for row in rows], dtype=float) for n, rows in runs]
    wide = np.vstack([np.pad(matrix, ((0, 0), (0, 6 - matrix.shape[1]))) for matrix in matrices])
    width = max(n for n, _ in runs)
    both = ObserverView.of_runs([ObserverView.of_sums(csr_array(matrix)) for matrix in matrices])
    assert both.rounds == len(wide) and (both.rows.toarray() == wide[:, :width]).all()
    metrics = Guarantees(every=0)
    columns = metrics.accounts(History({SERVER: both}))
    for matrix in matrices:
        alone = metrics.accounts(History({SERVER: ObserverView.of_sums(csr_array(matrix))}))
        assert all(columns[name][-1] <= alone[name][-1] for name in columns)


@pytest.mark.parametrize("field, worse", [("each", True), ("same", False), ("by_samples", True),
                                          ("opaque", ("a median",)), ("tolerated", np.full(2, -1.0)),
                                          ("clear", (Clear("mask", False),))])  # fmt: skip
def test_what_one_run_shows_besides_counts_for_all(field, worse):
    view = ObserverView.of_sums(csr_array(np.ones((2, 4))))
    for views in ([view, replace(view, **{field: worse})], [replace(view, **{field: worse}), view]):
        columns = Guarantees(every=0).accounts(History({SERVER: ObserverView.of_runs(views)}))
        assert {columns[name][-1] for name in list(columns)[:3]} == {1}
    alone = csr_array(np.ones((2, 4)))
    assert ObserverView.of_runs([view, replace(view, alone=None)]).alone is None
    assert ObserverView.of_runs([view, replace(view, alone=alone)]).alone.toarray().sum(axis=1).tolist() == [0, 0, 4, 4]


# -- the same bytes ----------------------------------------------------------------------------------------

WORDS = ["devices.availability.dropout=0..0.5", "selection.k=4..20:4", "training.rounds=log:4..64",
         "--maximise", "mean_cardinality", "--minimise", "time_s", "--require", "mean_cardinality<=12"]  # fmt: skip


def test_workers_change_nothing_and_more_runs_go_on(tiny, tmp_path, monkeypatch):
    for name, jobs, runs in (("one", 1, 8), ("less", 1, 4), ("two", 2, 8)):
        with monkeypatch.context() as patch:
            if jobs == 2:
                patch.setattr(processes, "Slot", Slot)
            assert call("search", tiny, *WORDS, "--runs", runs, "--jobs", jobs, "--out", tmp_path / name).exit_code == 0
    one = table(tmp_path / "one").read_bytes()
    assert one == table(tmp_path / "two").read_bytes()
    before = table(tmp_path / "less")
    assert call("search", tiny, *WORDS, "--runs", 8, "--jobs", 1, "--out", tmp_path / "less").exit_code == 0
    assert before.read_bytes() == one, "in the same folder"
    other = call("search", tiny, *WORDS, "seed=1", "--runs", 3, "--jobs", 1, "--out", tmp_path / "seed")
    assert other.exit_code == 0 and {row["selection.k"] for row in rows(tmp_path / "seed")}
    assert table(tmp_path / "seed").read_bytes() != b"".join(one.splitlines(True)[:4])


def test_a_killed_search_goes_on_as_if_nothing_had_been(tiny, tmp_path):
    words = [sys.executable, "-m", "simfl", "search", str(tiny), *WORDS, "--runs", "9", "--jobs", "1", "--out"]
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    assert call(*words[3:], calm).exit_code == 0
    for least in (1, 5):
        process = subprocess.Popen([*words, str(killed)], env=environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)  # fmt: skip
        end = time.monotonic() + 100
        while len([*killed.glob("tiny/*/summary.json")]) < least and process.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert len([*killed.glob("tiny/*/summary.json")]) < 9, "it was killed on the way"
    subprocess.run([*words, str(killed)], env=environment, check=True, capture_output=True)
    for name in ("search.csv", "index.csv", "sweep.yaml"):
        assert table(killed).with_name(name).read_bytes() == table(calm).with_name(name).read_bytes()


# -- the space ---------------------------------------------------------------------------------------------


@given(st.decimals(-100, 100, places=2), st.decimals("0.01", 50, places=2), st.floats(0, 1))
def test_numbers_are_written_within_their_range(low, width, share):
    (parameter,) = space_of([f"a={low}..{low + width}"]).parameters
    drawn = float(low) + share * float(width)
    assert low <= type(low)(parameter.value_text(drawn)) <= low + width
    assert abs(float(parameter.value_text(drawn)) - drawn) <= 1e-4 * float(width)


def test_steps_categories_and_fixed_values():
    space = space_of(["a=4..12:4", "b=x,p:f=1,g=2", "c=7", "d=0.5..1:0.25", "e=[0..1]"])
    assert [parameter.values() for parameter in space.parameters] == [
        ("4", "8", "12"), ("x", "p:f=1,g=2"), ("0.5", "0.75", "1")]  # fmt: skip
    assert space.fixed == ("c=7", "e=[0..1]") and space.size == 18
    assert space.overrides(["4", "x", "1"]) == ["c=7", "e=[0..1]", "a=4", "b=x", "d=1"]
    assert space_of({"a": "4..12:4", "b": ["x", "p:f=1,g=2"], "c": 7, "d": "0.5..1:0.25", "e": "[0..1]"}) == space
    assert {*product(*(p.values() for p in space.parameters))} == {
        (a, b, d) for a in ("4", "8", "12") for b in ("x", "p:f=1,g=2") for d in ("0.5", "0.75", "1")
    }


def test_the_key_decides_whether_a_range_has_whole_numbers_only(tiny):
    asked = prepare(tiny, ["selection.k=2..8", "devices.availability.dropout=0..0.9", "training.rounds=log:1..100"],
                    ["mean_cardinality"], [], [], 4)  # fmt: skip
    assert [parameter.step for parameter in asked.space.parameters] == [1.0, None, 1.0]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ["selection.k=3..6", "--maximise", "mean_cardinalty"],
            "mean_cardinalty: no .*did you mean 'mean_cardinality'",
        ),
        (["selection.k=3..6"], "a search has a goal"),
        (["selection.k=6..3", "--maximise", "time_s"], "selection.k=6..3: the range is reversed; write 3..6"),
        (["selection.k=3..3", "--maximise", "time_s"], "holds one number; write selection.k=3"),
        (["selection.k=3..", "--maximise", "time_s"], "a range is first..last"),
        (["selection.k=3..x", "--maximise", "time_s"], "a range is first..last"),
        (["selection.k=3..6,9", "--maximise", "time_s"], "a range stands alone"),
        (["selection.k=log:0..6", "--maximise", "time_s"], "positive numbers"),
        (["selection.k=3..6:9", "--maximise", "time_s"], "the step leads nowhere"),
        (["selection.k=3,3", "--maximise", "time_s"], "the value 3 comes twice"),
        (["selection=0..1", "--maximise", "time_s"], "selection=0..1: the range does not fit: selection: a name"),
        (["selection=random,partion", "--maximise", "time_s"], "partion.*did you mean 'partition'"),
        (["selection.kk=3..6", "--maximise", "time_s"], "unknown key 'kk'"),
        (["selection.k=3", "--maximise", "time_s"], "nothing to search"),
        (["seed=0..9", "--maximise", "time_s"], "seed: the best of several seeds is the luckiest"),
        (["selection.k=3..6", "--maximise", "time_s", "--minimise", "time_s"], "maximised or minimised once"),
        (
            ["selection.k=3..6", "--maximise", "time_s", "--require", "privacy_weak=4"],
            "--require privacy_weak=4: a number",
        ),
        (["selection.k=3..6", "--maximise", "time_s", "--require", "time_s>=x"], "--require time_s>=x: a number"),
        (["selection.k=3..6", "--maximise", "time_s", "--runs", "0"], "0 is not in the range"),
        (["selection.k=3..6", "--maximise", "skipped", "--minimise", "time_s", "--prune", "time"], "by one objective"),
        (["selection.k=3..6", "--minimise", "time_s", "--prune", "time"], "time_s is not known during a run"),
        (["selection.k=3,6", "--maximise", "test_accuracy"], "test_accuracy: no run has a finite value"),
        (
            ["privacy.accountants=[{name: zero_out, delta: 1e-5}],[{name: zero_out, delta: 1e-6}]", *NOISY]
            + ["--minimise", "epsilon_max"],
            "epsilon_max: in the space it is .*at δ = 1e-05.*; or .*at δ = 1e-06.*cannot be compared",
        ),
        (
            ["privacy.accountants=[{name: pld, delta: 1e-5}],[{name: pld, delta: 1e-6}]", *NOISY]
            + ["--maximise", "time_s", "--require", "epsilon_pld<=3"],
            "epsilon_pld: in the space it is .*at δ = 1e-05.*; or .*at δ = 1e-06.*cannot be compared",
        ),
        (
            ["privacy.stages=[central_gaussian],[local_gaussian]", "privacy.accountants=[zero_out]"]
            + ["training.weighting=equal", "--minimise", "epsilon_max"],
            "epsilon_max: in the space it is against all who see the models, not the server.*cannot be compared",
        ),
    ],
)
def test_bad_input_is_one_line(tiny, tmp_path, words, why):
    import re

    found = call("search", tiny, *words, "--out", tmp_path)
    assert found.exit_code == 2 and re.search(why, found.stderr), found.stderr
    assert len(found.stderr.strip().splitlines()) == 1 or found.stderr.startswith("Usage")


def test_without_optuna_a_line_names_the_extra(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    answer = call("search", tiny, "selection.k=3,6", "--maximise", "time_s", "--out", tmp_path)
    assert answer.exit_code == 5 and 'pip install "simfl[search]"' in answer.stderr


def test_a_search_is_no_sweep_file(tiny, tmp_path):
    tiny.with_name("found.yaml").write_text("file: tiny.yaml\nsearch: {selection.k: 3..6}\nruns: 3\n")
    answer = call("sweep", tiny.with_name("found.yaml"))
    assert answer.exit_code == 2 and "found.yaml:2:1: search: this file describes a search" in answer.stderr


def test_runs_that_python_asks_for(tiny):
    with pytest.raises(SimflError, match="runs: from 1"):
        simfl.search(tiny, {"selection.k": "3..6"}, maximise="time_s", runs=0)


# -- damage ------------------------------------------------------------------------------------------------


def test_a_damaged_table_is_refused_and_written_anew(tiny, tmp_path):
    words = ["search", tiny, "selection.k=3,6", "--maximise", "mean_cardinality", "--jobs", 1, "--out", tmp_path]
    assert call(*words).exit_code == 0
    content = table(tmp_path).read_bytes()
    table(tmp_path).write_bytes(content.replace(b"done", b"fail"))
    with pytest.raises(IntegrityError, match="search.csv: damaged"):
        simfl.open(table(tmp_path).parent)
    assert call(*words).exit_code == 0 and table(tmp_path).read_bytes() == content


def test_a_damaged_note_of_a_stop_is_not_believed(tmp_path):
    rule = StopRule("test_accuracy", 1, "rounds", ((1.0, 0.5),))
    folder = tmp_path / "0123456789ab"
    folder.mkdir()
    note = {"rounds": 1, "time_s": 0.5, "value": 0.1, "rule": asdict(rule)}
    write_sealed(folder / PRUNED, {"digest": folder.name, **note})
    assert rule.find_stop(folder) == Reached(1, 0.5, 0.1)
    assert StopRule("test_accuracy", 1, "rounds", ((1.0, 0.4),)).find_stop(folder) is None, "another rule's"
    write_sealed(folder / PRUNED, {"digest": "another", **note})
    assert rule.find_stop(folder) is None
    (folder / PRUNED).write_bytes((folder / PRUNED).read_bytes().replace(b"0.5", b"0.6"))
    assert rule.find_stop(folder) is None


# -- pruning -----------------------------------------------------------------------------------------------


def made(values, step_s=1.0):
    return [Reached(i, i * step_s, value) for i, value in enumerate(values, 1)]


def test_the_median_rule_by_hand():
    courses = [made([i / 10] * 10) for i in range(1, 6)]
    rule = median_rule("a", 1, "rounds", courses)
    assert [at for at, _ in rule.levels] == [*range(1, 10)] and {least for _, least in rule.levels} == {0.3}
    assert rule.stops_at(made([0.3] * 10)) is None, "as good as the median"
    assert rule.stops_at(made([0.2, 0.2, 0.9])) == Reached(1, 1.0, 0.2)
    assert rule.stops_at(made([None, None, 0.2, 0.9])) == Reached(3, 3.0, 0.2), "what is not measured is not worse"
    assert rule.stops_at(made([0.9, 0.1, 0.1])) is None, "the best so far counts"
    assert median_rule("a", 1, "rounds", courses[:4]) is None
    less = median_rule("a", -1, "rounds", courses)
    assert less.stops_at(made([0.4])) is not None and less.stops_at(made([0.2])) is None


def test_at_equal_time_slower_runs_are_compared_after_fewer_rounds():
    courses = [made([0.1, 0.2, 0.3, 0.4], 5.0) for _ in range(5)]
    rule = median_rule("a", 1, "time", courses)
    assert [at for at, _ in rule.levels] == [2.0 * i for i in range(3, 10)], "nothing is measured before 5 s"
    assert [least for _, least in rule.levels] == [0.1, 0.1, 0.2, 0.2, 0.2, 0.3, 0.3]
    assert rule.stops_at(made([0.1, 0.2, 0.3, 0.4], 5.0)) is None
    slow = rule.stops_at(made([0.1, 0.2, 0.3, 0.4], 7.0))
    assert slow == Reached(2, 14.0, 0.1), "at 10 s it has 0.1, the others 0.2"


@given(st.lists(st.floats(0, 1) | st.none(), min_size=1, max_size=12), st.sampled_from([1, -1]),
       st.sampled_from(["rounds", "time"]))  # fmt: skip
def test_a_rule_that_looks_after_every_round_stops_where_it_stops_a_complete_run(values, sign, by):
    rule = StopRule("a", sign, by, ((1.0, 0.4), (3.0, 0.5), (6.5, 0.6)))
    whole = made(values)
    live = next((end for i in range(1, len(whole) + 1) if (end := rule.stops_at(whole[:i])) is not None), None)
    assert rule.stops_at(whole) == live


@pytest.mark.parametrize("by", ["rounds", "time"])
def test_a_pruned_run_says_so_and_can_go_on(tmp_path, by, monkeypatch):
    (tmp_path / "learns.yaml").write_text(LEARNS.replace("rounds: 4", "rounds: 10"))
    words = ["search", tmp_path / "learns.yaml", "training.learning_rate=0.001,0.002,0.003,0.1,0.2,0.3,0.4,0.5",
             "--maximise", "test_accuracy", "--runs", 8, "--batch", 5, "--prune", by]  # fmt: skip
    for name, jobs in (("one", 1), ("two", 2))[: 2 if by == "rounds" else 1]:
        with monkeypatch.context() as patch:
            if jobs == 2:
                patch.setattr(processes, "Slot", Slot)
            assert call(*words, "--jobs", jobs, "--out", tmp_path / name).exit_code == 0
        assert table(tmp_path / "one").read_bytes() == table(tmp_path / name).read_bytes()
    found = rows(tmp_path / "one")
    pruned = [row for row in found if row["state"] == "pruned"]
    assert pruned and all(row["state"] == "done" for row in found[:5])
    folder = tmp_path / "one" / "tiny" / pruned[0]["run"]
    note = json.loads((folder / "pruned.json").read_text())
    assert pruned[0]["note"].startswith(f"stopped after {note['rounds']} rounds") and note["rounds"] < 10
    assert not (folder / "summary.json").exists() and float(found[0]["test_accuracy"]) > 0
    assert max(rows(tmp_path / "one"), key=lambda row: float(row["test_accuracy"] or 0))["best"] == "1"
    with open(table(tmp_path / "one").with_name("index.csv"), newline="") as file:
        assert sorted(row["status"] for row in csv.DictReader(file)) == sorted(row["state"] for row in found)
    listed = call("ls", tmp_path / "one").output
    assert f"{len(pruned)} pruned" in listed and "stopped" not in listed.splitlines()[-1]
    if by == "time":
        return
    before = table(tmp_path / "one").read_bytes()
    settings = ["training.learning_rate=" + pruned[0]["training.learning_rate"], "--out", tmp_path / "one"]
    assert call("run", tmp_path / "learns.yaml", *settings).exit_code == 0 and (folder / "summary.json").exists()
    assert not (folder / "pruned.json").exists()
    assert call(*words, "--out", tmp_path / "one").exit_code == 0
    assert table(tmp_path / "one").read_bytes() == before, "a run that is complete by now is judged as it was"
    whole = simfl.run(tmp_path / "learns.yaml", [str(settings[0])], out=tmp_path / "anew")
    assert (whole.path / "rounds.csv").read_bytes() == (folder / "rounds.csv").read_bytes()
    assert np.isfinite(whole.summary["test_accuracy"])


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"name": ["a", "b"]}, "one name"),
        ({"devices.availability.dropout": "0..0.5:0.000000001"}, "more than 10000 steps"),
    ],
)
def test_spaces_that_no_search_can_have(space, message):
    with pytest.raises(SimflError, match=message):
        space_of(space)


def test_a_search_has_no_shards(tiny):
    with pytest.raises(SimflError, match="no shards"):
        simfl.search(tiny, SMALL, maximise="mean_cardinality", runs=2, shard=(1, 2), out=tiny.parent, progress=False)
