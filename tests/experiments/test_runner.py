"""The script of a study: shares are all runs once, finished runs are used again, and the cost is of what is left."""

import argparse
import re
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest

from simfl.experiments import runner
from simfl.runs.run import run

SMALL = """
clients: 8
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 2}
learning: none
"""


@pytest.fixture
def runs(tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL)
    return {seed: runner.scenario(tmp_path / "small.yaml", {"clients": 12}, seed) for seed in range(5)}


def options(tmp_path, *words):
    return runner.parser("A study.", seeds=5).parse_args(["--out", str(tmp_path / "out"), *words])


def test_a_scenario_is_that_of_its_texts(tmp_path, runs):
    assert [made.seed for made in runs.values()] == list(range(5)) and runs[3].clients == 12
    by_text = runner.scenario(tmp_path / "small.yaml", {"selection": "{name: partition, k: 4}"}, 1)
    by_value = runner.scenario(tmp_path / "small.yaml", {"selection": {"name": "partition", "k": 4}}, 1)
    assert by_text.digest == by_value.digest != runs[1].digest


def test_finished_runs_are_used_again_in_the_order_of_the_study(tmp_path, runs):
    run(runs[3], tmp_path / "out")
    assert list(runner.run_all(runs, options(tmp_path, "--finished"))) == [3]
    with pytest.raises(SystemExit, match="none of .* is finished"):
        runner.run_all(runs, options(tmp_path / "elsewhere", "--finished"))
    told = []
    folders = runner.run_all(runs, options(tmp_path), tell=told.append)
    assert list(folders) == list(runs) and len(told) == 4 and not any(line.endswith(" 3") for line in told)
    assert all(folder == tmp_path / "out" / runs[seed].name / runs[seed].digest for seed, folder in folders.items())
    runner.run_all(runs, options(tmp_path), tell=told.append)
    assert len(told) == 4


def test_shares_are_all_runs_once_and_make_no_table(tmp_path, runs):
    finished = [0]
    for share in ("1/2", "2/2"):
        with pytest.raises(SystemExit) as ended:
            runner.run_all(runs, options(tmp_path, "--shard", share), tell=lambda line: None)
        assert ended.value.code == 0
        finished.append(len(runner.run_all(runs, options(tmp_path, "--finished"))))
    assert finished == [0, 3, 5]


def test_the_cost_is_of_what_is_left_and_nothing_is_run(tmp_path, runs):
    run(runs[0], tmp_path / "out")
    told = []
    with pytest.raises(SystemExit) as ended:
        runner.run_all(runs, options(tmp_path, "--cost"), seconds=90, tell=told.append)
    assert ended.value.code == 0 and told == ["5 runs, 1 of them finished; the others take about 6 minutes of one core"]
    assert list(runner.run_all(runs, options(tmp_path, "--finished"))) == [0]


@pytest.mark.parametrize(
    ("share", "why"),
    [
        ("0/2", "shard 0/2: the shards of 2 are 1/2 to 2/2"),
        ("3/2", "shard 3/2: the shards of 2 are 1/2 to 2/2"),
        ("1", "'1' is not of the form I/N, e.g. 2/3"),
        ("a/b", "'a/b' is not of the form I/N, e.g. 2/3"),
        ("-1/2", "'-1/2' is not of the form I/N, e.g. 2/3"),
    ],
)
def test_a_wrong_share_is_refused(tmp_path, share, why, capsys):
    with pytest.raises(SystemExit) as ended:
        options(tmp_path, f"--shard={share}")
    assert ended.value.code == 2 and why in capsys.readouterr().err


def test_seeds_are_left_that_the_table_has_not(capsys):
    table = pandas.DataFrame({"seed": [0, 0, 2]})
    chosen = argparse.Namespace(seeds=4, cost=False, finished=False)
    assert runner.seeds_left(chosen, table, seconds=60) == [1, 3]
    chosen.finished = True
    assert runner.seeds_left(chosen, table, seconds=60) == []
    chosen.cost = True
    with pytest.raises(SystemExit):
        runner.seeds_left(chosen, table, seconds=60)
    assert "about 2 minutes" in capsys.readouterr().out


def test_options_are_those_that_a_study_has():
    without = vars(runner.parser("It plays no runs.", costs=False).parse_args([]))
    assert without == {"out": Path("results")}
    seeds = vars(runner.parser("Seed by seed.", seeds=2, shards=False).parse_args([]))
    assert seeds == {"out": Path("results"), "seeds": 2, "finished": False, "cost": False}


def test_means_and_deviations():
    values = np.array([1.0, 2.0, 6.0])
    assert runner.spread(pandas.DataFrame({"a": values})) == {"a": 3.0, "a_sd": round(float(values.std(ddof=1)), 4)}


def test_the_example_of_the_results_readme_prints_what_its_runs_say(tmp_path, monkeypatch, capsys):
    root = Path(__file__).resolve().parents[2]
    (code,) = re.findall(r"```python\n(.*?)```", (root / "results" / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "argv", ["example.py", "--seeds", "1", "--out", str(tmp_path)])
    exec(compile(code, "README.md", "exec"), {})
    told = [line.split() for line in capsys.readouterr().out.splitlines() if not line.startswith(("1/", "2/"))]
    assert [(rate, seed) for rate, seed, _ in told] == [("0.01", "0"), ("0.1", "0")]
    for rate, _, accuracy in told:
        scenario = runner.scenario(root / "scenarios" / "quickstart.yaml", {"training.learning_rate": rate}, 0)
        assert float(accuracy) == run(scenario, tmp_path).summary["test_accuracy"]
