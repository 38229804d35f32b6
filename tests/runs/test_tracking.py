"""``--log``: every round is in the tracker while the run is run, privacy at its end; results are the same bytes."""

import json
import math
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas
import pytest
from click.testing import CliRunner

import simfl
from simfl.cli import simfl as group
from simfl.core.columns import Column
from simfl.core.errors import MissingError, SimflError
from simfl.results.run_files import infinite_values
from simfl.runs.tracking import TRACKERS
from tests.support.fake_trackers import FakeMlflow, FakeWandb
from tests.support.kills import files

pytestmark = pytest.mark.usefixtures("sweeps_here")


SMALL = """
name: small
clients: 10
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 5}
learning: {name: none, parameters: 10}
devices: {computation: {name: constant, seconds: 0.05}}
"""
AXES = {"round", "time_s"}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)


def call(*words):
    return CliRunner().invoke(group, list(map(str, words)))


def values_of(result):
    """(column, round) -> value, of all columns of the table but the axes."""
    rows = result.rounds.to_dict("records")
    return {(key, int(row["round"])): value for row in rows for key, value in row.items()
            if key not in AXES and not pandas.isna(value)}  # fmt: skip


def events(folder):
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    (file,) = (folder / "tensorboard").iterdir()
    read = [event for event in EventFileLoader(str(file)).Load() if event.summary.value]
    return {(value.tag, event.step): (value.tensor.float_val[0], event.wall_time)
            for event in read for value in event.summary.value}  # fmt: skip


def test_tensorboard_shows_a_round_as_soon_as_it_is_over():
    pytest.importorskip("tensorboard")
    seen = []

    def look(row):
        (folder,) = Path("results").glob("small/*/")
        seen.append(max(step for _, step in events(folder)))

    result = simfl.run("small.yaml", log="tensorboard", on_round=look)
    assert seen == [0, 1, 2, 3, 4]
    expected, logged = values_of(result), events(result.path)
    assert logged.keys() == expected.keys() and ("privacy_weak_lower", 4) in logged
    times = dict(zip(result.rounds["round"], result.rounds["time_s"], strict=True))
    for key, (value, wall_time) in logged.items():
        assert math.isclose(value, expected[key], rel_tol=1e-6) and wall_time == times[key[1]]
    assert files(result.path) == files(simfl.run("small.yaml", out="plain").path)
    assert call("run", "--verify", result.path).exit_code == 0


def test_mlflow_is_called_as_it_documents(monkeypatch):
    mlflow = FakeMlflow().install(monkeypatch)
    result = simfl.run("small.yaml", log=["mlflow"], run_name="mine", tags=["a", "b"], note="about it")
    (run,) = mlflow.runs.values()
    assert (run.name, run.status, mlflow.experiments) == ("mine", "FINISHED", {"small": "1"})
    assert run.tags == {"simfl.digest": result.path.name, "simfl.folder": str(result.path), "tag.a": "true",
                        "tag.b": "true", "mlflow.note.content": "about it"}  # fmt: skip
    assert run.params["training.rounds"] == "5" and run.params["selection.name"] == "random"
    expected = values_of(result)
    assert {(key, step): value for key, value, _, step in run.metrics} == expected
    assert len(run.metrics) == len(expected)  # each once
    times = dict(zip(result.rounds["round"], result.rounds["time_s"], strict=True))
    assert all(at_ms == int(1000 * times[step]) for _, _, at_ms, step in run.metrics)
    assert run.files["summary.json"] == result.summary
    assert run.files["scenario.yaml"] == (result.path / "scenario.yaml").read_text()


def test_wandb_is_called_as_it_documents(monkeypatch):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_DIR", raising=False)
    wandb = FakeWandb().install(monkeypatch)
    result = simfl.run("small.yaml", log="wandb", tags=["a"])
    (run,) = wandb.runs
    assert run.init["project"] == "small" and run.init["name"] == result.path.name and run.init["tags"] == ("a",)
    assert run.init["mode"] == "offline" and run.init["dir"] == "results"
    assert run.init["config"]["training"]["rounds"] == 5 and run.init["config"]["simfl_digest"] == result.path.name
    assert run.axes == {"round": None, "*": "round"} and run.exit_code == 0
    logged = {(key, row["round"]): value for row in run.rows for key, value in row.items() if key not in AXES}
    assert logged == values_of(result)
    assert run.summary["privacy_weak_lower"] == result.summary["privacy_weak_lower"]
    monkeypatch.setenv("WANDB_MODE", "online")
    simfl.run("small.yaml", log="wandb", seed=2)
    assert wandb.runs[1].init["mode"] is None  # wandb reads the variable


def test_earlier_rounds_are_logged_too_and_a_stopped_run_is_not_finished(monkeypatch):
    mlflow = FakeMlflow().install(monkeypatch)

    def stop(row):
        if row["round"] == 2:
            raise simfl.StopRun("for today")

    with pytest.raises(simfl.StopRun):
        simfl.run("small.yaml", log="mlflow", on_round=stop)
    resumed = simfl.run("small.yaml", log="mlflow")
    complete = simfl.run("small.yaml", log="mlflow")
    assert [run.status for run in mlflow.runs.values()] == ["KILLED", "FINISHED", "FINISHED"]
    for run in [*mlflow.runs.values()][1:]:
        assert sorted((key, step) for key, _, _, step in run.metrics) == sorted(values_of(resumed))
    assert complete.path == resumed.path


def test_a_tracker_that_fails_stops_the_run_in_one_line_and_it_goes_on(monkeypatch):
    mlflow = FakeMlflow().install(monkeypatch)
    mlflow.fails_at = 2
    done = call("run", "small.yaml", "--log", "mlflow", "-q")
    assert (done.exit_code, done.stdout) == (2, "")
    then = "the run stopped after round 2, and the same command continues it"
    assert done.stderr == f"--log mlflow: ConnectionError: the server is gone; {then}\n"
    (folder,) = Path("results").glob("small/*/")
    assert max(path.stem for path in folder.glob("checkpoint/*")) == "0000000003"
    assert not (folder / "summary.json").exists() and [run.status for run in mlflow.runs.values()] == ["KILLED"]
    result = simfl.run("small.yaml")
    assert files(result.path) == files(simfl.run("small.yaml", out="plain").path)


def test_each_run_of_a_sweep_is_logged_under_its_name():
    pytest.importorskip("tensorboard")
    done = call("sweep", "small.yaml", "seed=0,1", "--log", "tensorboard", "--tag", "x", "-q", "--jobs", 1)
    assert done.exit_code == 0, done.output
    for folder in Path("results/small").glob("*/summary.json"):
        assert events(folder.parent).keys() == values_of(simfl.open(folder.parent)).keys()
        assert json.loads((folder.parent / "notes.json").read_text())["tags"] == ["x"]


FAILING = """
class MlflowClient:
    def get_experiment_by_name(self, name):
        return type("Experiment", (), {"experiment_id": "1"})

    def create_run(self, *experiment, **options):
        return type("Run", (), {"info": type("Info", (), {"run_id": "1"})})

    def log_batch(self, run_id, metrics=(), params=()):
        if any(metric["step"] == 2 for metric in metrics):
            raise ConnectionError("the server is gone")

    def set_terminated(self, *state):
        raise ConnectionError("still gone")
"""
ENTITIES = """
def Param(key, value):
    return key, value

def Metric(key, value, timestamp, step):
    return {"key": key, "step": step}
"""


@pytest.mark.parametrize("engine", ["processes", pytest.param("dask", marks=pytest.mark.slow)])
def test_a_tracker_that_fails_in_a_worker_is_one_line_and_no_run_is_lost(engine, monkeypatch, tmp_path, capfd):
    if engine == "dask":
        pytest.importorskip("distributed")
    (tmp_path / "lib/mlflow").mkdir(parents=True)
    (tmp_path / "lib/mlflow/__init__.py").write_text(FAILING)
    (tmp_path / "lib/mlflow/entities.py").write_text(ENTITIES)
    monkeypatch.syspath_prepend(tmp_path / "lib")
    monkeypatch.delitem(sys.modules, "mlflow", raising=False)
    monkeypatch.delitem(sys.modules, "mlflow.entities", raising=False)
    swept = simfl.sweep("small.yaml", {"seed": [0, 1]}, log="mlflow", jobs=1, engine=engine, progress=False)
    assert swept.runs.status.tolist() == ["done", "done"]
    said = [line for line in capfd.readouterr().err.splitlines() if "mlflow" in line]
    assert said == ["warning: --log mlflow: ConnectionError: the server is gone; the run continues without it"]
    for run in swept.results():
        assert not (run.path / "failed.json").exists()
        assert files(run.path) == files(simfl.run("small.yaml", seed=run.summary["seed"], out="plain").path)


def test_a_tracker_that_is_missing_on_a_node_or_fails_at_the_end_loses_no_run(monkeypatch):
    from simfl.runs.tracking.tracked_run import run_tracked
    from simfl.scenario import Scenario

    mlflow, said = FakeMlflow().install(monkeypatch), []
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr("simfl.runs.tracking.libraries.MlflowTracker.close", lambda *_: 1 / 0)
    finished = run_tracked(Scenario.load("small.yaml"), Path("out"), ["wandb", "mlflow"], on_failure=said.append)
    assert (finished.path / "summary.json").exists() and len(mlflow.runs) == 1
    assert said == [
        '--log wandb needs the extra "wandb": pip install "simfl[wandb]"; the run continues without it',
        "--log mlflow: ZeroDivisionError: division by zero; the run continues without it",
    ]


def test_workers_are_told_the_log_and_the_name(monkeypatch):
    from simfl.experiments.sweep import execution
    from simfl.experiments.sweep.worker import execute

    mlflow, tasks = FakeMlflow().install(monkeypatch), []

    def here(all_tasks, jobs, time_limit_s, slots):
        tasks.extend(all_tasks)
        for task in all_tasks:
            execute(task)
            yield "ended", task.digest

    monkeypatch.setattr(execution.processes, "execute", here)
    simfl.sweep("small.yaml", {"selection.k": [2, 3]}, log=["mlflow"], tags="x", progress=False)
    assert [run.name for run in mlflow.runs.values()] == ["selection.k=2 seed=0", "selection.k=3 seed=0"]
    assert all(run.status == "FINISHED" and run.tags["tag.x"] == "true" for run in mlflow.runs.values())
    simfl.sweep("small.yaml", {"selection.k": [2, 3]}, log=["mlflow"], progress=False)
    assert len(mlflow.runs) == 2  # complete ones are not logged again


@pytest.mark.parametrize("name", TRACKERS)
def test_a_library_that_is_missing_is_one_line_before_anything_is_run(name, monkeypatch):
    for module in (name, f"{name}.compat"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    for words in (["run", "small.yaml"], ["sweep", "small.yaml", "seed=0,1"]):
        done = call(*words, "--log", name)
        assert done.exit_code == MissingError.exit_code and done.stderr.count("\n") == 1
        assert f'pip install "simfl[{name}]"' in done.stderr and not Path("results").exists()


def test_other_names_are_refused():
    with pytest.raises(SimflError, match="no 'mlfow' among mlflow, tensorboard, wandb; did you mean 'mlflow'"):
        simfl.run("small.yaml", log="mlfow")
    assert call("run", "small.yaml", "--log", "mlfow").exit_code == 2
    assert not Path("results").exists()


@pytest.mark.skipif(find_spec("mlflow") is None, reason="needs the extra mlflow")
def test_the_real_mlflow_holds_the_rounds(monkeypatch, tmp_path):
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    result = simfl.run("small.yaml", log="mlflow", run_name="mine")
    client = MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("small").experiment_id])
    assert run.info.run_name == "mine" and run.info.status == "FINISHED"
    for column in ("cardinality", "privacy_weak_lower"):
        history = [metric.value for metric in client.get_metric_history(run.info.run_id, column)]
        assert history == result.rounds[column].tolist()


@pytest.mark.skipif(find_spec("wandb") is None, reason="needs the extra wandb")
def test_the_real_wandb_stores_a_run_offline(monkeypatch):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    simfl.run("small.yaml", log="wandb")
    (stored,) = Path("results/wandb").glob("offline-run-*/run-*.wandb")
    assert b"privacy_weak_lower" in stored.read_bytes()


INFINITE = """
name: infinite
clients: 12
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 10, on_failure: partial, weighting: equal}
learning: {name: none, parameters: 4}
devices: {failure: {name: bernoulli, probability: 0.25}}
privacy: {accountants: [{name: zero_out}], stages: [{name: laplace_shares, epsilon: 1.0}]}
"""


def latest(values):
    """The value of the largest step; of (name, step) -> value."""
    return {name: value for (name, _), value in sorted(values.items(), key=lambda entry: entry[0][1])}


def test_the_latest_epsilon_is_infinite_where_the_last_finite_one_is_out_of_date(monkeypatch):
    pytest.importorskip("tensorboard")
    mlflow, wandb = FakeMlflow().install(monkeypatch), FakeWandb().install(monkeypatch)
    Path("infinite.yaml").write_text(INFINITE)
    result = simfl.run("infinite.yaml", log=["mlflow", "wandb", "tensorboard"])
    finite = latest(values_of(result))
    assert 0 < finite["epsilon_max"] < math.inf and result.summary["epsilon_max"] is None
    (run,) = mlflow.runs.values()
    assert latest({(key, step): value for key, value, _, step in run.metrics})["epsilon_max"] == math.inf
    assert [step for key, value, _, step in run.metrics if value == math.inf and key == "epsilon_max"] == [9]
    (run,) = wandb.runs
    logged = {(key, row["round"]): value for row in run.rows for key, value in row.items()}
    assert latest(logged)["epsilon_max"] == run.summary["epsilon_max"] == math.inf
    following = events(result.path)
    assert latest(following)["epsilon_max"][0] == math.inf
    assert call("export", result.path, "--tensorboard").exit_code == 0
    assert events(result.path) == following
    assert {name: value for name, value in run.summary.items() if value == math.inf}.keys() == {"epsilon_max"}


OWN = """
from dataclasses import dataclass

from simfl.plugins import Column
from simfl.plugins.metrics import METRICS, Metric


@METRICS("NAME")
@dataclass(frozen=True, kw_only=True)
class Own(Metric):
    columns = (Column("own", "Own", "number", "Of each round.", -1, "whole_sum"),)

    def after(self, snapshot, state):
        return {} if snapshot.row["round"] in INFINITE else {"own": 1.5}, state
"""


@pytest.mark.parametrize(("infinite", "latest_value"), [((1,), 1.5), ((1, 4), math.inf)])
def test_a_value_of_each_round_stays_in_the_order_of_the_rounds(monkeypatch, infinite, latest_value):
    pytest.importorskip("tensorboard")
    wandb = FakeWandb().install(monkeypatch)
    name = f"own_{len(infinite)}"
    Path("own.py").write_text(OWN.replace("INFINITE", str(infinite)).replace("NAME", name))
    result = simfl.run("small.yaml", {"metrics": [name]}, log=["tensorboard", "wandb"], plugins=["own.py"])
    assert result.summary["own"] is None
    steps = [step for name, step in events(result.path) if name == "own"]
    assert steps == sorted(steps) and events(result.path)["own", 4][0] == latest_value
    (run,) = wandb.runs
    assert run.summary["own"] == math.inf, "the sum over the rounds is infinite"


def test_what_is_infinite_in_rounds_that_aggregated_something_only():
    columns = {"own": Column("own", "Own", "number", "Of each round.", -1, "whole_sum")}
    rows = [{"own": "1", "cardinality": "2"}, {"own": "", "cardinality": "0"}, {"own": "", "cardinality": "3"}]
    assert infinite_values({"bytes_up": 5, "own": None}, columns, rows) == [{}, {}, {"own": math.inf}]
    assert infinite_values({"bytes_up": 5, "own": 1.0}, columns, rows[:2]) == [{}, {}]
    assert infinite_values({"bytes_up": 0, "own": None}, columns, rows) == [{}, {}, {}]
    elsewhere = {"most": columns["own"]._replace(name="most", source="own", final="end")}
    assert infinite_values({"bytes_up": 5, "most": None}, elsewhere, rows) == [{}, {}, {}]
