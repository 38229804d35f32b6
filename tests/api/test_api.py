"""simfl from Python, and the how-to pages, executed."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest
from click.testing import CliRunner

import simfl
from simfl.cli import simfl as group
from simfl.core.errors import SimflError
from tests.support.damages import reseal_sweep

pytestmark = pytest.mark.usefixtures("sweeps_here")


HERE = Path(__file__).resolve().parents[2]

TINY = """
name: tiny
clients: 30
devices: {availability: {name: bernoulli, dropout: 0.3}}
selection: {name: random, k: 6}
training: {name: fedavg, rounds: 4}
learning: {name: none, parameters: 1000}
privacy: none
"""


@pytest.fixture
def tiny(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    return tmp_path / "tiny.yaml"


def python(code, **environment):
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(HERE)} | environment,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_simfl_imports_nothing_slow():
    found = python("import sys, simfl; dir(simfl); print(*sys.modules)").split()
    assert not {"numpy", "torch", "pandas", "scipy", "pydantic", "matplotlib", "simfl.scenario"} & set(found)


def test_functions_and_modules_of_one_name_live_together(tiny):
    """``simfl.run(...)`` works whatever was imported before, and so does ``from simfl.runs.run import run``."""
    for first in (
        "import simfl.runs.run, simfl.experiments.sweep.plan, simfl.experiments.compare",
        "from simfl.runs.run import run, verify",
    ):
        code = f"{first}\nimport simfl\nr = simfl.run({str(tiny)!r}, out={str(tiny.parent / 'r')!r})\n"
        code += (
            "assert all(simfl.runs.run.verify(r.path).values()) and callable(simfl.sweep) and callable(simfl.compare)"
        )
        python(code)
    with pytest.raises(AttributeError, match="nothing"):
        _ = simfl.nothing


def test_overrides_as_texts_mappings_and_keywords(tiny):
    scenario = simfl.load(tiny, {"training.rounds": 7, "selection": "batch_partition:T=3"}, seed=5)
    assert (scenario.training.rounds, scenario.selection.T, scenario.selection.k, scenario.seed) == (7, 3, 6, 5)
    same = simfl.load(tiny, ["training.rounds=7", "selection=batch_partition:T=3", "seed=5"])
    assert same.digest == scenario.digest
    assert simfl.load(tiny, learning={"name": "none", "samples": 3}).learning.samples == 3
    with pytest.raises(SimflError, match="rouns"):
        simfl.load(tiny, {"training.rouns": 7})


def test_a_run_is_played_once_and_opened_again(tiny, tmp_path):
    first = simfl.run(tiny, {"training.rounds": 5}, out=tmp_path, seed=2)
    assert isinstance(first.rounds, pandas.DataFrame) and len(first.rounds) == 5 and first.scenario.seed == 2
    assert first.participation.shape == (5, 30)
    before = (first.path / "summary.json").stat().st_mtime_ns
    again = simfl.run(simfl.load(tiny, {"training.rounds": 5}, seed=2), out=tmp_path)
    assert again.path == first.path == tmp_path / "tiny" / first.summary["digest"]
    assert (first.path / "summary.json").stat().st_mtime_ns == before
    opened = simfl.open(first.path)
    pandas.testing.assert_frame_equal(opened.rounds, first.rounds)
    changed = simfl.run(first.scenario, {"training.rounds": 6}, out=tmp_path)
    assert len(changed.rounds) == 6 and changed.scenario.seed == 2
    with pytest.raises(SimflError, match="no run, sweep or comparison"):
        simfl.open(tmp_path)


def test_a_sweep_of_a_loaded_scenario_is_the_sweep_of_its_file(tiny, tmp_path):
    grid = {"selection.k": [3, 6]}
    swept = simfl.sweep(simfl.load(tiny), grid, out=tmp_path, jobs=1)
    assert simfl.sweep(tiny, grid, out=tmp_path).path == swept.path
    assert [len(result.rounds) for result in swept.results()] == [4, 4]
    assert list(swept.runs["selection.k"]) == [3, 6] and swept.failed.empty
    assert [type(value) for value in swept.runs.digest] == [str, str]
    with pytest.raises(SimflError, match="no such folder"):
        swept.result("000000000000")


def test_figures_are_matplotlib_objects(tiny, tmp_path):
    from matplotlib.figure import Figure

    swept = simfl.sweep(tiny, {"selection.k": [3, 6]}, out=tmp_path, jobs=1)
    assert isinstance(swept.figure("cardinality"), Figure)
    assert isinstance(next(swept.results()).figure("cardinality"), Figure)


# -- exports -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("option", "package"), [("parquet", "pyarrow"), ("tensorboard", "tensorboard")])
def test_a_missing_extra_is_named(tiny, tmp_path, monkeypatch, option, package):
    path = simfl.run(tiny, out=tmp_path).path
    monkeypatch.setitem(sys.modules, package, None)
    ended = CliRunner().invoke(group, ["export", str(path), f"--{option}"])
    assert ended.exit_code == 5 and f'pip install "simfl[{option}]"' in ended.stderr
    assert CliRunner().invoke(group, ["export", str(path)]).exit_code == 2


def test_parquet_holds_the_same_tables(tiny, tmp_path):
    pytest.importorskip("pyarrow")
    swept = simfl.sweep(tiny, {"selection.k": [3, 6]}, out=tmp_path, jobs=1)
    run = next(swept.results())
    for folder, names in (
        (run.path, {"rounds", "participation", "clients", "latency"}),
        (swept.path, {"index", "rounds"}),
    ):
        ended = CliRunner().invoke(group, ["export", str(folder), "--parquet"])
        assert ended.exit_code == 0, ended.output
        assert {Path(line).stem for line in ended.stdout.split()} == names
    pandas.testing.assert_frame_equal(pandas.read_parquet(run.path / "rounds.parquet"), run.rounds, check_dtype=False)
    found = pandas.read_parquet(swept.path / "index.parquet")
    assert list(found.digest) == list(swept.runs.digest) and list(found["selection.k"]) == [3, 6]
    every = pandas.read_parquet(swept.path / "rounds.parquet")
    assert list(every.columns[:4]) == ["digest", "selection.k", "seed", "round"] and len(every) == 8
    for result in swept.results():
        mine = every[every.digest == result.path.name].drop(columns=["digest", "selection.k", "seed"])
        pandas.testing.assert_frame_equal(mine.reset_index(drop=True), result.rounds, check_dtype=False)
    (tmp_path / "nothing").mkdir()
    assert CliRunner().invoke(group, ["export", str(tmp_path / "nothing"), "--parquet"]).exit_code == 2


def test_tensorboard_shows_every_curve_over_rounds_and_simulated_time(tiny, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    swept = simfl.sweep(tiny, {"selection.k": [3, 6]}, out=tmp_path, jobs=1)
    ended = CliRunner().invoke(group, ["export", str(swept.path), "--tensorboard"])
    assert ended.exit_code == 0, ended.output
    written = [Path(line) for line in ended.stdout.splitlines()]
    assert [path.parent.name for path in written] == ["selection.k=3 seed=0", "selection.k=6 seed=0"]
    for path, result in zip(written, swept.results(), strict=True):
        events = accumulator.EventAccumulator(str(path.parent)).Reload().Scalars("mean_cardinality")
        assert [event.step for event in events] == list(result.rounds["round"])
        np.testing.assert_allclose([event.wall_time for event in events], result.rounds.time_s)
        np.testing.assert_allclose([event.value for event in events], result.rounds.mean_cardinality, rtol=1e-6)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "digest,seed\nx,1\n"])
def test_a_malformed_index_is_named(tmp_path, text):
    from simfl.api.result_objects import SweepResult

    (tmp_path / "index.csv").write_text(text)
    reseal_sweep(tmp_path)
    with pytest.raises(SimflError, match="index.csv"):
        SweepResult.open(tmp_path)
