"""A user's model, data and partition handed to simfl.run, sweep and compare; verified, resumed, beside privacy."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import simfl
from simfl.api.object_overrides import hand_in
from simfl.cli import simfl as group
from simfl.core.errors import SimflError
from simfl.core.rng import Streams
from simfl.experiments.sweep.plugin_pickling import read_objects, written_objects
from simfl.learning.data.generated import read_digits
from simfl.learning.objects import handles
from simfl.runs.run import run
from tests.support.kills import files, killed_at

HERE = Path(__file__).resolve().parents[2]

TINY = {
    "name": "mine",
    "clients": 8,
    "devices": {"availability": {"name": "bernoulli", "dropout": 0.2}},
    "selection": {"name": "batch_partition", "k": 4, "T": 2},
    "training": {"name": "fedavg", "rounds": 3, "weighting": "equal", "batch_size": 32, "learning_rate": 0.1},
    "learning": {"data": "digits", "model": {"name": "mlp", "hidden": [6]}, "evaluate": {"samples": 50}},
}
pixels, labels = read_digits()
DIGITS = pixels.reshape(-1, 8, 8), labels
KEYS = ("learning.model", "learning.data", "learning.partition")


class Net(nn.Module):
    def __init__(self, in_features, num_classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(in_features, num_classes))

    def forward(self, x):
        return self.layers(x)


class Half(Net):
    def forward(self, x):
        return self.layers(x) / 2


def flat(*layers):
    return nn.Sequential(nn.Flatten(), *layers)


def in_turn(labels, clients, rng):
    order = rng.permutation(len(labels))
    return [order[client::clients] for client in range(clients)]


MINE = {"learning.model": Net, "learning.data": DIGITS, "learning.partition": in_turn}


def mlp(scenario):
    """A network of one's own with the initial values that the scenario draws for mlp."""
    start = scenario.learning.build(scenario, Streams(scenario.seed)).initial()
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.ReLU(), nn.Linear(6, 10))
    nn.utils.vector_to_parameters(torch.from_numpy(start), net.parameters())
    return net


def tables(folder):
    """What a run computed, without what names its inputs."""
    return {name: data for name, data in files(folder).items() if name.endswith((".csv", ".npy"))}


BESIDE = {
    "plainly": {},
    "secure aggregation and noise": {
        "secagg": "secagg",
        "privacy.stages": [{"name": "skellam", "clip_norm": 0.5, "noise_multiplier": 0.7}],
    },
    "central noise": {"privacy.stages": [{"name": "central_gaussian", "noise_multiplier": 1.0, "clip_norm": 0.5}]},
    "momentum on several clients at once": {"learning.backend": "grouped", "training.momentum": 0.5},
    "personal models": {"training.personal": "local"},
    "a lottery ticket": {
        "training.personal": {"name": "lotteryfl", "threshold": 0.0},
        "learning.holdout": {"validation": 0.3},
    },
    "a jump start": {
        "training.personal": {"name": "jump_start", "threshold": 0.0, "alone_rounds": 1},
        "learning.holdout": {"validation": 0.3},
    },
    "asynchronous": {
        "training": {"name": "fedbuff", "concurrency": 4, "buffer": 4, "staleness": "constant", "rounds": 3}
    },
}  # fmt: skip


@pytest.mark.parametrize("beside", BESIDE)
def test_own_network_and_arrays_give_the_tables_of_the_built_in_ones(beside, tmp_path):
    """With the same initial values: also bytes, epsilon, guarantees and whatever else is in the tables."""
    scenario = simfl.load(TINY, BESIDE[beside])
    theirs = simfl.run(scenario, out=tmp_path)
    mine = simfl.run(scenario, {"learning.model": mlp(scenario), "learning.data": DIGITS}, out=tmp_path)
    assert mine.path != theirs.path and tables(mine.path) == tables(theirs.path)
    quiet = {"digest", "sha256"}
    summaries = [{k: v for k, v in result.summary.items() if k not in quiet} for result in (mine, theirs)]
    assert summaries[0] == summaries[1]


def test_a_list_of_positions_is_the_partition_that_it_was_taken_from(tmp_path):
    scenario = simfl.load(TINY)
    split = scenario.learning.build(scenario, Streams(scenario.seed)).partition
    parts = [split[client] for client in range(8)]
    theirs = simfl.run(scenario, out=tmp_path)
    mine = simfl.run(scenario, {"learning.partition": parts}, out=tmp_path)
    assert tables(mine.path) == tables(theirs.path)


def test_the_same_object_has_one_folder_and_another_has_another(tmp_path):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    first = simfl.run(TINY, {"learning.model": net}, out=tmp_path)
    assert simfl.run(TINY, {"learning.model": net}, out=tmp_path).path == first.path
    assert simfl.run(TINY | {"learning": TINY["learning"] | {"model": net}}, out=tmp_path).path == first.path
    with torch.no_grad():
        net[1].weight[0, 0] += 1
    assert simfl.run(TINY, {"learning.model": net}, out=tmp_path).path != first.path
    others = [simfl.load(TINY, {"learning.model": each}).digest for each in (Net, Half)]
    moved = DIGITS[0].copy()
    moved[5, 3, 3] += 1
    others += [simfl.load(TINY, {"learning.data": (x, labels)}).digest for x in (DIGITS[0], moved)]
    others += [
        simfl.load(TINY, {"learning.partition": each}).digest for each in (in_turn, lambda *given: in_turn(*given))
    ]
    assert len(set(others)) == 6


def test_verify_takes_the_same_objects_and_refuses_others(tmp_path):
    path = simfl.run(TINY, MINE, out=tmp_path).path
    assert all(simfl.verify(path, MINE).values())
    stored = path / "scenario.yaml"
    said = stored.read_text()
    assert "name: python" in said and "Net" in said and "handed_in: true" in said
    for given, why in [
        ({}, "learning.data: pass the object of this run"),
        (MINE | {"learning.model": Half}, "is another object than that of this run, tests.api.test_objects.Net#"),
        (MINE | {"learning.data": (DIGITS[0] + 1, labels)}, "learning.data: data#.* is another object"),
    ]:
        with pytest.raises(SimflError, match=why):
            simfl.verify(path, given)
    plain = simfl.run(TINY, out=tmp_path).path
    assert all(simfl.verify(plain).values())
    with pytest.raises(SimflError, match="learning.model: no object was passed to this run"):
        simfl.verify(plain, {"learning.model": Net})
    for words in (["run", str(stored), "--out", str(tmp_path / "new")], ["run", "--verify", str(path)]):
        done = CliRunner().invoke(group, words)
        assert done.exit_code == 2 and "was passed by a Python script and is not here; pass it again" in done.stderr
        (line,) = (line for line in done.stderr.splitlines() if "was passed by" in line)
        assert line.startswith(f"{stored}:") and "learning." in line
    assert CliRunner().invoke(group, ["run", str(stored), "--out", str(tmp_path)]).exit_code == 0, "it is complete"
    assert CliRunner().invoke(group, ["report", str(path)]).exit_code == 0


def test_a_scenario_holds_its_objects_and_notices_that_data_have_changed(tmp_path):
    x = DIGITS[0].copy()
    scenario = simfl.load(TINY, {"learning.model": Net, "learning.data": (x, labels)})
    assert simfl.run(scenario, seed=1, out=tmp_path).summary["rounds"] == 3
    x += 1
    with pytest.raises(SimflError, match="has changed since it was passed"):
        simfl.run(scenario, seed=2, out=tmp_path)


def test_an_array_that_was_changed_does_not_stand_for_an_equal_one(tmp_path):
    x = DIGITS[0].copy()
    scenario = simfl.load(TINY, {"learning.data": (x, labels)})
    x += 1
    assert simfl.run(TINY, {"learning.data": DIGITS}, out=tmp_path).path.name == scenario.digest


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    scenario = simfl.load(TINY, MINE | {"training.rounds": 6})
    whole = run(scenario, tmp_path / "whole").path
    assert killed_at(40, lambda: run(scenario, tmp_path / "killed"))
    assert files(simfl.run(scenario, out=tmp_path / "killed").path) == files(whole)


def test_objects_are_sent_to_the_workers_of_a_comparison_and_to_those_of_a_run(tmp_path):
    class Local(Net):  # no module has it, so that it can only travel by value
        def forward(self, x):
            return torch.tanh(self.layers(x))

    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    fixed = {"learning.data": DIGITS, "learning.partition": in_turn, "training.rounds": 1}
    backend = {"learning.backend": {"name": "processes", "workers": 1}}
    compared = simfl.compare(
        TINY, {"learning.model": [Local, net]} | fixed | backend, replications=2, jobs=2, out=tmp_path
    )
    assert set(compared.runs.status) == {"done"}, compared.runs.error.tolist()
    assert {text.partition("#")[0].rpartition(".")[2] for text in compared.runs["learning.model"]} == {
        "Local", "Sequential"}  # fmt: skip
    assert not list(compared.path.glob(".objects*"))
    for name, model in (("Local", Local), ("Sequential", net)):
        row = compared.runs[compared.runs["learning.model"].str.contains(name) & (compared.runs.seed == 1)]
        alone = simfl.run(TINY, {"learning.model": model} | fixed, seed=1, out=tmp_path / "alone")
        assert tables(compared.result(row.digest.item()).path) == tables(alone.path)


def test_a_list_in_a_grid_is_several_values_and_positions_are_one():
    parts = [[0, 1], [2, 3]]
    grid = {"learning.model": [Net, "mlp", Half], "learning.data": DIGITS, "learning.partition": parts, "seed": [1, 2]}
    texts, held = hand_in(grid, several=True)
    assert [text.partition("#")[0] for text in texts["learning.model"]] == [
        "tests.api.test_objects.Net", "mlp", "tests.api.test_objects.Half"]  # fmt: skip
    assert texts["learning.data"].startswith("data#") and texts["learning.partition"].startswith("partition#")
    assert texts["seed"] == [1, 2] and len(held) == 4
    several, _ = hand_in({"learning.partition": [parts, [np.arange(3)], in_turn, "iid"]}, several=True)
    assert several["learning.partition"][0] == texts["learning.partition"] and several["learning.partition"][3] == "iid"
    assert len({*several["learning.partition"]}) == 4
    pairs, _ = hand_in({"learning.data": [DIGITS, (*DIGITS, labels), {"train": DIGITS}]}, several=True)
    assert len(pairs["learning.data"]) == 3


def test_workers_read_only_what_the_sweep_has_written(tmp_path):
    handle = handles.take("learning.model", Net)
    with written_objects([handle], tmp_path) as (path, digest):
        assert [each.fingerprint for each in read_objects(path, digest)] == [handle.fingerprint]
        Path(path).write_bytes(Path(path).read_bytes() + b".")
        read_objects.cache_clear()
        with pytest.raises(SimflError, match="not the objects that the sweep has written"):
            read_objects(path, digest)
    with (
        pytest.raises(SimflError, match="learning.model|cannot be sent to worker processes"),
        written_objects([handles.Handle("Net", "0" * 16, sys.stdout)], tmp_path),
    ):
        pass


SCRIPT = """
import simfl
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.layer = nn.Linear(64, num_classes)
    def forward(self, x):
        return self.layer(x.flatten(1))

def split(labels, clients, rng):
    return [rng.permutation(len(labels))[:20] for _ in range(clients)]

tiny = {TINY}
mine = {{"learning.model": Net, "learning.partition": split}}
"""


def test_another_process_verifies_what_a_script_has_run(tmp_path):
    code = SCRIPT.format(TINY=TINY)
    done = subprocess.run([sys.executable, "-c", f"{code}\nprint(simfl.run(tiny, mine, out='out').path)"], cwd=tmp_path,
                          capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(HERE)})  # fmt: skip
    assert done.returncode == 0, done.stderr
    again = {"__name__": "__main__"}
    exec(compile(code, "script", "exec"), again)
    assert all(simfl.verify(tmp_path / done.stdout.strip(), again["mine"]).values())


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"learning.model": nn.Linear(64, 10)}, "learning.model: Linear cannot take samples of shape [1, 8, 8]"),
        ({"learning.model": flat(nn.Linear(64, 9))}, "gives an output of shape [2, 9] for 2 samples in 10"),
        ({"learning.model": flat(nn.Linear(64, 10), nn.BatchNorm1d(10))}, "keeps running statistics"),
        ({"learning.model": nn.GRU(8, 10)}, "learning.model: GRU"),
        ({"learning.model": Net, "learning.backend": "grouped"}, "learning.backend: grouped cannot train this model"),
        ({"learning.partition": [[0]] * 7}, "learning.partition: partition has 7 parts for 8 clients"),
        ({"training.rounds": Net}, "objects are taken by learning.model, learning.data and learning.partition"),
    ],
)  # fmt: skip
def test_objects_that_do_not_fit_are_one_line(overrides, said, tmp_path):
    with pytest.raises(SimflError) as refused:
        simfl.run(TINY, overrides, out=tmp_path)
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_signatures_show_their_parameters():
    for function in (simfl.run, simfl.sweep, simfl.compare, simfl.load, simfl.open, simfl.verify):
        known = inspect.signature(function).parameters.values()
        assert all(each.annotation is not each.empty for each in known) and inspect.getdoc(function)
        assert not [each for each in known if each.kind is each.VAR_POSITIONAL]
    assert {"audit", "report", "verify"} <= {*dir(simfl)} and callable(simfl.audit.audit)
