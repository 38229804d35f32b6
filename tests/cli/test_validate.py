"""``simfl validate`` finds, without torch, what ``simfl run`` would stop at before its first round."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import networkx
import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from simfl.cli import simfl
from simfl.cli.validate import run_preflight
from simfl.learning.base import Learning
from simfl.scenario import Scenario

HOME = Path(__file__).resolve().parents[2]

WORLD = """\
clients: 2
selection: {name: random, k: 2}
training: {name: fedavg, rounds: 2}
learning: {data: digits, model: logistic}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMFL_CACHE", "")
    monkeypatch.setenv("SIMFL_DATA", str(tmp_path / "nowhere"))
    rng = np.random.default_rng(0)
    parts = {"x_train": rng.normal(size=(20, 8, 8)), "x_test": rng.normal(size=(5, 8, 8))}
    labels = {"y_train": np.arange(20) % 3, "y_test": np.arange(5) % 3}
    np.savez("small.npz", **parts, **labels)
    np.savez("uneven.npz", **parts, **labels | {"y_train": np.arange(19) % 3})
    np.savez("lacking.npz", **parts)
    Path("table.csv").write_text("a,b,y\n1,2,0\n3,4,1\n5,6,0\n7,8,1\n")
    Path("apart.csv").write_text("src,dst,latency_s\nserver,a,1\nb,c,1\n")
    Path("negative.csv").write_text("src,dst,latency_s\nserver,a,-1\nserver,b,1\n")
    Path("square.csv").write_text("-,server,a\nserver,0,1\n")
    networkx.write_graphml(networkx.path_graph(["server", "a", "b"]), "bare.graphml")
    Path("torn.graphml").write_text(Path("bare.graphml").read_text()[:-40])
    Path("trace.csv").write_text("client,start_s,end_s\n0,0,10\n7,0,10\n")
    Path("seconds.csv").write_text("seconds\n-3\n")
    return tmp_path


DEFECTS = {
    "network={name: graph, edges: [[server, a, 1], [b, c, 1]], clients: [a, b]}": "no path from the server",
    "network={name: file, path: apart.csv, server: server, clients: [a, b]}": "no path from the server",
    "network={name: file, path: negative.csv, server: server}": "negative.csv:2: latency_s must be a number from 0",
    "network={name: file, path: square.csv, server: server}": "table is not square",
    "network={name: file, path: bare.graphml, server: server}": "needs either latency_s or rtt_ms",
    "network={name: file, path: torn.graphml, server: server}": "torn.graphml.*no readable graphml file",
    "network={name: file, path: gone.csv, server: server}": "is no file",
    "network={name: small_world, latency_s: 1, neighbours: 2}": "is 2 but there are 2 clients",
    "network={name: star, bandwidth_bytes_per_s: [0, 1]}": "carries nothing",
    "devices.availability={name: bernoulli, dropout: {name: uniform, low: 0, high: 1.5}}": "reaches up to 1.5",
    "devices.availability={name: trace, path: trace.csv}": "there is no client '7'",
    "devices.computation={name: trace, path: seconds.csv}": "seconds.csv:2: a duration is 0 or more",
    "devices.failure={name: bernoulli, probability: {name: exponential, mean: 1.0e+9}}": "a probability is at most 1",
    "learning.model=lenet5": "lenet5 takes images of at least 16 x 16",
    "learning={data: {name: npz, path: small.npz}, model: cnn_mnist, augment: {crop: 1}}": None,
    "learning={data: {name: npz, path: small.npz}, model: lenet5}": "lenet5 takes images of at least 16 x 16",
    "learning={data: {name: npz, path: uneven.npz}, model: logistic}": "samples",
    "learning={data: {name: npz, path: lacking.npz}, model: logistic}": "has no array y_train or y_test",
    "learning={data: {name: csv, path: table.csv, label: z}, model: logistic}": "has no column 'z'; it has a, b, y",
    "learning={data: {name: csv, path: table.csv, label: y, drop: [c]}, model: logistic}": "no column 'c'",
    "learning={data: {name: synthetic, shape: [20]}, model: mlp, augment: {flip: true}}": "are no images",
    "learning.model={name: mlp, hidden: [100000, 100000]}": "of memory; this machine has",
    "learning.data={name: synthetic, samples: 100000000, shape: [1000]}": "at most 4,294,967,296",
    "learning.data={name: digits, test_fraction: 1e-7}": "leaves none for test",
}


def validated(text, *options):
    Path("s.yaml").write_text(text)
    result = CliRunner().invoke(simfl, ["validate", "--json", *options, "s.yaml"])
    return result.exit_code, json.loads(result.stdout)[0]


def with_override(override):
    """The scenario's text with the override written into it, where ``Scenario`` itself does not refuse it."""
    data = yaml.safe_load(WORLD)
    key, _, value = override.partition("=")
    *path, last = key.split(".")
    inner = data
    for step in path:
        inner = inner.setdefault(step, {})
    inner[last] = yaml.safe_load(value)
    return yaml.safe_dump(data)


@pytest.mark.parametrize("override", DEFECTS)
def test_validate_says_what_run_would(folder, override):
    code, report = validated(with_override(override))
    text = str([problem["message"] for problem in report["problems"]])
    ran = CliRunner().invoke(simfl, ["run", "s.yaml", "--quiet"])
    if DEFECTS[override] is None:
        assert (code, ran.exit_code, report["problems"]) == (0, 0, [])
        return
    assert code == 2 and report["problems"] and report["digest"] is None
    assert ran.exit_code == 2, ran.output
    assert re.search(DEFECTS[override], text), text
    assert all(problem["line"] for problem in report["problems"])


def test_problems_of_all_parts_are_found_at_once(folder):
    text = WORLD + "network: {name: graph, edges: [[server, a, 1], [b, c, 1]], clients: [a, b]}\n"
    text += "devices: {computation: {name: trace, path: seconds.csv}}\n"
    _, report = validated(text.replace("logistic", "vgg11"))
    assert [problem["key"] for problem in report["problems"]] == [
        "network",
        "devices.computation.path",
        "learning.model",
    ]


@pytest.mark.parametrize("data", ["mnist", "cifar10", "adult"])
def test_missing_data_are_said_with_their_own_exit_code(folder, data):
    code, report = validated(WORLD.replace("digits", data))
    assert code == 5 and report["valid"] and "learning.data" in report["missing"][0]
    assert CliRunner().invoke(simfl, ["run", "s.yaml"]).exit_code == 5
    result = CliRunner().invoke(simfl, ["validate", "s.yaml"])
    assert result.exit_code == 5 and len(result.stderr.splitlines()) == 1


def test_data_that_would_be_downloaded_are_not(folder, monkeypatch):
    monkeypatch.setattr("simfl.learning.torchvision_import.download", lambda *_: pytest.fail("downloads"))
    for data in ("mnist", "cifar10"):
        assert validated(WORLD.replace("digits", f"{{name: {data}, download: true}}"))[0] == 0


def test_what_is_not_checked_is_named_and_checked_deep(folder):
    text = WORLD.replace("model:", "partition: {name: natural, column: a}, model:")
    code, report = validated(text.replace("digits", "{name: csv, path: table.csv, label: y}"))
    below = "the content of table.csv beyond a header"
    assert code == 0 and report["unchecked"] == [below, "the content of data 'csv', and what is made of it"]
    code, report = validated(text)
    assert code == 0 and report["unchecked"] == ["partition 'natural' of these data"]
    code, report = validated(text, "--deep")
    assert code == 2 and report["problems"][0]["key"] == "learning.partition.column" and not report["unchecked"]
    shown = CliRunner().invoke(simfl, ["validate", "s.yaml"]).stdout.splitlines()
    assert shown[1] == "s.yaml: not checked without --deep: partition 'natural' of these data"


def test_a_backend_that_does_not_fit_is_found_deep(folder):
    text = WORLD.replace("digits, model: logistic", "digits, model: cnn_mnist, backend: dense")
    assert validated(text)[1]["unchecked"] == ["backend 'dense'"]
    assert validated(text, "--deep")[1]["problems"][0]["key"] == "learning.backend"


def test_what_is_examined_and_what_is_built_agree_on_shape_and_classes(folder):
    from simfl.core.rng import Streams

    np.savez("colour.npz", x_train=np.zeros((6, 6, 5, 3)), x_test=np.ones((2, 6, 5, 3)),
             y_train=np.arange(6) % 3, y_test=np.array([0, 1]), label_names=np.array(["a", "b", "c", "d"]))  # fmt: skip
    np.savez("flat.npz", x_train=np.zeros((6, 4)), x_test=np.ones((2, 4)), y_train=np.arange(6) % 3, y_test=[0, 1])
    for text in ("digits", "{name: synthetic, shape: [3, 5], classes: 7}", "{name: npz, path: small.npz}",
                 "{name: npz, path: colour.npz}", "{name: npz, path: flat.npz}", "markov_text"):  # fmt: skip
        scenario = Scenario.parse(WORLD.replace("digits", text), "s", folder=folder)
        outline, whole = scenario.learning.data.outline(scenario), scenario.learning.data.load(scenario, Streams(0))
        assert tuple(outline) == (whole.shape, whole.classes, whole.tokens)


def test_scenarios_of_very_many_clients_are_not_drawn():
    text = WORLD.replace("clients: 2", "clients: 100000000").replace("{data: digits, model: logistic}", "none")
    assert run_preflight(Scenario.parse(text, "s")).unchecked == ["what is drawn for each of 100,000,000 clients"]


def test_a_learning_of_somebodys_own_is_unchecked():
    scenario = Scenario.parse(WORLD, "s")
    object.__setattr__(scenario, "learning", type("Own", (Learning,), {"name": "own", "build": None})())
    assert run_preflight(scenario).unchecked == ["what is learned"]


def test_a_torn_archive_is_one_line(folder):
    whole = Path("small.npz").read_bytes()
    for cut in range(0, len(whole), 97):
        Path("torn.npz").write_bytes(whole[:cut])
        _, report = validated(WORLD.replace("digits", "{name: npz, path: torn.npz}"))
        assert len(report["problems"]) == 1 and "\n" not in report["problems"][0]["message"]
    with zipfile.ZipFile("torn.npz", "w") as file:
        file.writestr("x_train.npy", b"\x93NUMPY\x01\x00\xff\xff{")
    _, report = validated(WORLD.replace("digits", "{name: npz, path: torn.npz}"))
    assert len(report["problems"]) == 1


def test_validation_of_a_learning_scenario_needs_no_torch(folder):
    Path("s.yaml").write_text(WORLD.replace("logistic", "cnn_mnist"))
    code = "import sys; from simfl.cli import simfl; simfl(['validate', 's.yaml'], standalone_mode=False);"
    code += "print(sorted({'torch', 'pandas', 'sklearn', 'networkx', 'scipy', 'simpy'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(HOME)}
    out = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)
    assert out.stdout.splitlines()[-1] == "[]", out.stderr
