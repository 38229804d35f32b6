"""A finished run that goes on with more rounds has the bytes of one that was asked for them at once."""

import json
import os
import subprocess
import sys

import pytest

import simfl
from simfl.core.errors import ScenarioError
from simfl.results import checkpoint
from simfl.results.file_names import BESIDE
from simfl.scenario.builtin import builtins

SMALL = {"clients": 12, "learning.data": "digits:samples=200", "training.rounds": 4}

KINDS = {
    "plain": {},
    "fedbuff": {"training": {"name": "fedbuff", "rounds": 4, "concurrency": 6, "buffer": 3}},
    "serverless": {"training": {"name": "serverless", "rounds": 4}},
    "tree": {"topology": {"name": "tree", "edges": 2}, "selection": "random:k=4"},
    "aggregates": {"trace": "aggregates"},
    "events": {"trace": "events"},
    "guarded": {"selection": {"name": "guarded", "T": 2, "inner": {"name": "random", "k": 4}}},
    "oort": {"selection": {"name": "oort", "k": 4}},
    "secagg": {"secagg": "secagg"},
    "noise": {
        "privacy": {
            "name": "multi_round",
            "stages": [{"name": "clipping", "norm": 1.0}, {"name": "central_gaussian", "noise_multiplier": 1.0}],
            "accountants": [{"name": "rdp", "delta": 1e-5}],
        },
        "training.weighting": "equal",
    },
    "tree_noise": {
        "privacy": {"name": "multi_round", "stages": [{"name": "tree_gaussian"}]},
        "training.weighting": "equal",
    },
    "attacks": {"attacks": [{"name": "least_squares"}], "metrics": ["model_change"]},
    "residuals": {"compression": {"name": "top_k", "share": 0.1}},
    "scaffold": {"training.client": "scaffold"},
    "ditto": {"training.personal": {"name": "ditto"}, "learning.evaluate": {"per_client": True, "best": True}},
    "patience": {"training.stop": {"patience": 3}, "learning.evaluate": {"validation": 0.3}},
    "patient": {"agents": {"client": "patient"}, "network.loss": 0.2, "training.deadline_s": 5.0},
}


def same(one, other):
    files = {path.name for folder in (one, other) for path in folder.iterdir()} - {*BESIDE, ".lock"}
    assert {name for name in files if (one / name).read_bytes() != (other / name).read_bytes()} == set()


@pytest.mark.parametrize("kind", KINDS)
def test_more_rounds_are_the_rounds_of_a_longer_run(kind, tmp_path, capsys):
    keys = {**SMALL, **KINDS[kind]}
    base = simfl.load("quickstart", keys)
    short = simfl.run(base, out=tmp_path / "short").path
    longer = {"training.rounds": 9}
    goes_on = simfl.run(short, longer, out=tmp_path / "on").path
    at_once = simfl.run("quickstart", keys | longer if "training" not in keys else keys | {
        "training": {**keys["training"], "rounds": 9}}, out=tmp_path / "once").path  # fmt: skip
    same(goes_on, at_once)
    assert "begins with its first round" not in capsys.readouterr().err


def test_only_the_later_rounds_are_played(tmp_path):
    short = simfl.run("quickstart", SMALL, out=tmp_path).path
    played = []
    simfl.run(short, {"training.rounds": 9}, out=tmp_path, on_round=lambda row: played.append(row["round"]))
    assert played == [*range(9)]
    state, _ = checkpoint.load(short / "last.ckpt")
    assert int(state["rounds"]) == 3


def test_a_run_that_goes_on_survives_a_kill(tmp_path):
    short = simfl.run("quickstart", SMALL, out=tmp_path / "short").path

    def stop(row):
        if row["round"] == 6:
            raise simfl.StopRun

    with pytest.raises(simfl.StopRun):
        simfl.run(short, {"training.rounds": 9}, out=tmp_path / "on", on_round=stop)
    goes_on = simfl.run(short, {"training.rounds": 9}, out=tmp_path / "on").path
    same(goes_on, simfl.run("quickstart", SMALL | {"training.rounds": 9}, out=tmp_path / "once").path)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"training.rounds": 3}, "may end the run earlier"),
        ({"training.rounds": 9, "training.stop": {"time_s": 1.0}}, "may end the run earlier"),
        ({"training.rounds": 9, "training.learning_rate": 0.2}, "training.learning_rate: is 0.2, and 0.1 in"),
        (
            {"training.rounds": 9, "training.schedule": "cosine"},
            "only training.rounds, aggregations and stop may change",
        ),
        ({"training.rounds": 9, "seed": 3}, "seed: is 3, and"),
    ],
)
def test_what_is_no_longer_run_is_refused(change, line, tmp_path):
    short = simfl.run("quickstart", SMALL, out=tmp_path).path
    with pytest.raises(ScenarioError, match=line):
        simfl.run(short, change, out=tmp_path)
    assert [each.name for each in short.parent.iterdir()] == [short.name]


def test_a_damaged_or_foreign_checkpoint_is_not_believed(tmp_path, capsys):
    short = simfl.run("quickstart", SMALL, out=tmp_path / "short").path
    other = simfl.run("quickstart", SMALL | {"seed": 5}, out=tmp_path / "short").path
    at_once = simfl.run("quickstart", SMALL | {"training.rounds": 9}, out=tmp_path / "once").path
    sound = (short / "last.ckpt").read_bytes()
    for number, data in enumerate((sound[:-7], sound[:200] + b"x" + sound[201:], (other / "last.ckpt").read_bytes())):
        (short / "last.ckpt").write_bytes(data)
        goes_on = simfl.run(short, {"training.rounds": 9}, out=tmp_path / str(number)).path
        assert "begins with its first round" in capsys.readouterr().err
        same(goes_on, at_once)
    simfl.run(short, {"training.rounds": 9}, out=tmp_path / "0", force=True)
    assert not capsys.readouterr().err  # it is not even looked at
    (short / "last.ckpt").unlink()
    same(simfl.run(short, {"training.rounds": 9}, out=tmp_path / "none").path, at_once)


def test_the_command_takes_the_folder(tmp_path):
    words = [sys.executable, "-P", "-m", "simfl", "run", "-q", "--out", str(tmp_path)]
    small = [f"{key}={json.dumps(value) if not isinstance(value, str) else value}" for key, value in SMALL.items()]

    def command(*more):
        return subprocess.run([*words, *more], capture_output=True, text=True, check=False)

    short = command("quickstart", *small).stdout.strip()
    done = command(short, "training.rounds=6")
    assert done.returncode == 0 and done.stdout.strip() != short, done.stderr
    refused = command(short, "training.rounds=2")
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1 and "give as many, or more" in refused.stderr


@pytest.mark.skipif("SIMFL_WHOLE_SEARCHES" not in os.environ, reason="at night")
@pytest.mark.parametrize("name", builtins())
def test_every_scenario(name, tmp_path):
    """Those whose data are here, cut to three and six rounds."""
    try:
        short = simfl.run(name, {"training.rounds": 3}, out=tmp_path / "short").path
    except simfl.SimflError as error:
        pytest.skip(str(error))
    goes_on = simfl.run(short, {"training.rounds": 6}, out=tmp_path / "on").path
    same(goes_on, simfl.run(name, {"training.rounds": 6}, out=tmp_path / "once").path)
