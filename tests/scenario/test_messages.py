# ruff: noqa: E501  (a message stands on one line)
"""What users read when a scenario is wrong: where, what, and what would be right."""

import pickle
from textwrap import dedent

import pytest
import yaml

from simfl.scenario import InvalidScenario, Scenario
from simfl.scenario.yaml import reader
from tests.support.scenario_samples import GOOD, messages


def changed(before, after):
    assert before in GOOD
    return GOOD.replace(before, after)


def test_every_mistake_of_a_bad_file_in_one_pass():
    text = """\
    name: ../escape
    seeed: 3
    clients: 1000000000000
    network: {name: star, latency_s: {name: log_normal, medain: 3, sigma: 0.5}}
    devices:
      availability: {name: bernouli, dropout: 0.2}
      failure: {name: bernoulli, probability: 1.5}
    selection: {name: random}
    rounds: 3
    training: {name: fedavg, roundz: 3, batch_size: "3", announce: no, learning_rate: .inf, local_epochs: 1e3}
    learning: none
    trace: round
    """
    assert messages(dedent(text)) == [
        "s.yaml:1:7: name: Input does not fit (names the results' folder: letters, digits, '.', '_' and '-', beginning "
        "with none of '.-'; default: the file's name) (got '../escape')",
        "s.yaml:2:1: seeed: unknown key 'seeed'; did you mean 'seed'?",
        "s.yaml:3:10: clients: Input should be less than or equal to 100000000 (got 1000000000000); "
        "the nearest valid value is 100000000",
        "s.yaml:4:53: network.latency_s.medain: unknown key 'medain' of distribution 'log_normal'; did you mean 'median'?",
        "s.yaml:6:24: devices.availability: unknown availability 'bernouli' (one of always, bernoulli, correlated, "
        "daily, markov, profile, trace); did you mean 'bernoulli'?",
        "s.yaml:7:43: devices.failure.probability: Input should be less than or equal to 1 (got 1.5); "
        "the nearest valid value is 1",
        "s.yaml:8:12: selection.k: key 'k' of selection 'random' is missing (clients in an aggregation)",
        "s.yaml:9:1: rounds: unknown key 'rounds'; did you mean 'training.rounds'?",
        "s.yaml:10:26: training.roundz: unknown key 'roundz' of training 'fedavg'; did you mean 'rounds'?",
        "s.yaml:10:49: training.batch_size: Input should be a whole number or null (got '3'); remove the quotes",
        "s.yaml:10:64: training.announce: Input should be true or false (got 'no'); did you mean false?",
        "s.yaml:10:83: training.learning_rate: infinity and not-a-number are not allowed; a finite number is needed "
        "(got '.inf')",
        "s.yaml:10:103: training.local_epochs: Input should be a whole number (got 1000.0); the nearest valid value is 1000",
        "s.yaml:12:8: trace: Input should be 'rounds', 'events' or 'aggregates' (got 'round'); did you mean 'rounds'?",
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("k: 8", "k: 0", "selection.k: Input should be greater than or equal to 1 (got 0); the nearest valid value is 1"),
        ("k: 8", "k: true", "selection.k: Input should be a whole number (got true)"),
        ("k: 8", "k: [8]", "selection.k: Input should be a whole number (got a list)"),
        ("k: 8", "k: null", "selection.k: Input should be a whole number (got nothing)"),
        ("k: 8", "k: 2.5", "selection.k: Input should be a whole number (got 2.5); the nearest valid value is 2"),
        ("k: 8", "k: 41", "selection.k: is 41 but there are 40 clients; the nearest valid value is 40"),
        ("{name: random, k: 8}", "randm", "selection: unknown selection 'randm' (one of "),
        ("{name: random, k: 8}", "randm", "; did you mean 'random'?"),
        ("{name: random, k: 8}", "{k: 8}", "selection: 'name' is missing (one of "),
        ("{name: random, k: 8}", "7", "selection: a name or a mapping with 'name' is needed (got 7)"),
        ("{name: random, k: 8}", "{name: [random], k: 8}", "selection: unknown selection a list (one of "),
        ("{name: fedavg, rounds: 60, batch_size: 20}", "fedavg", "training.rounds: nothing ends the run: give rounds or"),
        ("dropout: 0.2", "dropout: a lot", "devices.availability.dropout: unknown distribution 'a lot'"),
        ("dropout: 0.2", "dropout: [0.1, x]", "devices.availability.dropout.1: Input should be a number (got 'x')"),
        ("dropout: 0.2", "dropout: [0.1, 2]", "devices.availability.dropout.1: Input should be less than or equal to 1"),
        ("dropout: 0.2", "dropout: -1", "devices.availability.dropout: Input should be greater than or equal to 0"),
        ("dropout: 0.2", "dropout: {choices: []}", "dropout.choices: Input should have at least 1 item (got a list)"),
        ("dropout: 0.2", "dropout: [0.5]", "devices.availability.dropout: lists 1 value but there are 40 clients"),
        ("median: 0.08", "median: 0", "network.latency_s.median: Input should be greater than 0 (got 0)"),
        ("batch_size: 20", "batch_size: twenty", "training.batch_size: Input should be a whole number or null (got 'twenty')"),
        ("batch_size: 20", "decay_at: 3", "training.decay_at: Input should be a list (got 3)"),
        ("devices:", "device: 1\ndevices:", "device: unknown key 'device'; did you mean 'devices'?"),
        ("learning: none", "learning: none\nsource: x", "source: unknown key 'source'"),
        ("clients: 40", "seed: -1", "clients: key 'clients' is missing (number of clients)"),
        ("clients: 40", "clients: 40\nseed: -1", "seed: Input should be greater than or equal to 0 (got -1)"),
        ("clients: 40", "clients: 40\nname: 3", "name: Input should be text (got 3)"),
        ("clients: 40", 'clients: 40\nname: "x\\n"', "name: Input does not fit (names the results' folder"),
        ("clients: 40", "clients: 40\nname: " + "n" * 101, "name: String should have at most 100 characters"),
    ],
)  # fmt: skip
def test_single_mistakes(before, after, expected):
    assert any(expected in line for line in messages(changed(before, after))), messages(changed(before, after))


def test_a_mistake_is_reported_once():
    assert len(messages(changed("k: 8", "k: x"))) == 1
    assert len(messages(changed("rounds: 60", "roundz: 60"))) == 1, "not also as missing"
    assert len(messages(changed("dropout: 0.2", "dropout: [0.1, 2, 3]"))) == 2
    assert len(messages(changed("dropout: 0.2", "dropout: {choices: [x]}"))) == 1, "nor is the list too short"
    groups = "agents: {client: {name: mixed, groups: [{agent: alie, clients: [3]}]}}"
    assert len(messages(changed("clients: 40", f"clients: 40\n{groups}"))) == 1


@pytest.mark.parametrize("text", ["[]", "3", "hello", "~", "- clients: 3"])
def test_a_scenario_is_a_mapping(text):
    assert "Input should be a mapping" in messages(text)[0]


def test_values_in_messages_are_short_and_printable():
    for value in ('"\\e[31mred"', "x" * 5000, '"a\\nb"', "{" + ", ".join(f"a{n}: 1" for n in range(500)) + "}"):
        for line in messages(changed("k: 8", f"k: {value}")):
            assert line.isprintable() and len(line) < 200


def test_no_jargon_of_the_libraries():
    wrong = [
        changed("k: 8", "kk: 8"),
        changed("  failure: {name: bernoulli, probability: 0.02}", "  failure: []"),
        changed("devices:\n", "devices: 3\nx:\n"),
        changed("dropout: 0.2", "dropout: {a: {}}"),
    ]
    for text in wrong:
        for word in ("keyword", "dataclass", "dict", "tuple", "Field required", "pydantic", "tagged", "Extra inputs"):
            assert word not in " ".join(messages(text))


def test_a_flood_of_problems_is_cut():
    keys = ", ".join(f"key{n}: {n}" for n in range(500))
    lines = messages(changed("k: 8", f"k: 8, {keys}"))
    assert len(lines) == 101 and lines[-1].startswith("... and ")


def test_the_error_survives_a_process_boundary():
    with pytest.raises(InvalidScenario) as caught:
        Scenario.parse("clients: 0")
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert again.problems == caught.value.problems and str(again) == str(caught.value)


def test_a_missing_file_suggests_its_neighbour(tmp_path):
    (tmp_path / "quickstart.yaml").write_text(GOOD)
    with pytest.raises(InvalidScenario, match="quickstrat.yaml: no such file; did you mean '.*quickstart.yaml'"):
        Scenario.load(tmp_path / "quickstrat.yaml")
    with pytest.raises(InvalidScenario, match="is a folder, not a scenario file"):
        Scenario.load(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    with pytest.raises(InvalidScenario, match="line 1 is not UTF-8"):
        Scenario.load(tmp_path / "latin.yaml")


NET = "{name: star, latency_s: {name: log_normal, median: 0.08, sigma: 0.5}}"
TRAINING = "{name: fedavg, rounds: 60, batch_size: 20}"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (NET, "{name: star, latency_s: 100ms}", "2:34: network.latency_s: a number without a unit is needed (got '100ms'); write 0.1"),
        (NET, "{name: star, latency_s: [1, 2us]}", "network.latency_s.1: a number without a unit is needed (got '2us'); write 2e-06"),
        (NET, "{name: star, latency_ms: 100}", "network.latency_ms: unknown key 'latency_ms' of network 'star'; did you mean 'latency_s: 0.1'?"),
        (NET, "{name: star, latency_ms: {name: exponential, mean: 3}}", "did you mean 'latency_s, in seconds'?"),
        (NET, "{name: star, bandwidth_mbps: 8}", "did you mean 'bandwidth_bytes_per_s: 1000000'?"),
        (NET, "{name: star, bandwidth_bytes_per_s: 10MB/s}", "write 10000000"),
        (NET, "{name: star, bandwidth_bytes_per_s: 10 Mb/s}", "write 1250000"),
        (NET, "{name: star, latency_s: 5%}", "network.latency_s: unknown distribution '5%'"),
        ("median: 0.08", "median: 80 ms", "network.latency_s.median: a number without a unit is needed (got '80 ms'); write 0.08"),
        ("dropout: 0.2", "dropout: 20%", "devices.availability.dropout: a number without a unit is needed (got '20%'); write 0.2"),
        ("rounds: 60", "rounds: 60, deadline_s: 5min", "training.deadline_s: a number without a unit is needed (got '5min'); write 300"),
        ("rounds: 60", "rounds: 60, deadline_ms: 500", "did you mean 'deadline_s: 0.5'?"),
        ("rounds: 60", "rounds: 60, lr: 0.1", "training.lr: unknown key 'lr' of training 'fedavg'; did you mean 'learning_rate'?"),
        ("rounds: 60", "num_rounds: 60", "training.num_rounds: unknown key 'num_rounds' of training 'fedavg'; did you mean 'rounds'?"),
        ("clients: 40", "clients: 40\nlr: 1", "lr: unknown key 'lr'; did you mean 'training.learning_rate'?"),
        (TRAINING, "fedprox", "; did you mean 'training.client: {name: fedprox, mu: 0.1}'?"),
        (TRAINING, "{name: scaffold, rounds: 3}", "; did you mean 'training.client: scaffold'?"),
        ("learning: none", "learning: {data: FashionMNIST, model: mlp}", "; did you mean 'fashion_mnist'?"),
        ("learning: none", "learning: {data: digits, model: LeNet-5}", "; did you mean 'lenet5'?"),
        ("learning: none", "learning: mnist", "; did you mean 'learning.data: mnist'?"),
        ("learning: none", "learning: {data: digits, model: mlp, partition: {name: dirichlet, alpha: 1}}", "did you mean 'beta'?"),
        ("{name: random, k: 8}", "{nam: random, k: 8}", "6:13: selection.nam: unknown key 'nam'; did you mean 'name'?"),
        (NET, "{name: star, server: {name: x}}", "unknown key 'name'; the keys are up_bytes_per_s, down_bytes_per_s"),
        ("{name: random, k: 8}", "{type: random, k: 8}", "6:13: selection.type: unknown key 'type'; did you mean 'name'?"),
    ],
)  # fmt: skip
def test_what_people_write(before, after, expected):
    assert any(expected in line for line in messages(changed(before, after))), messages(changed(before, after))


def test_a_guess_with_a_unit_can_be_obeyed_to_the_letter():
    """The value that a message gives is the one that was meant: 100 ms are not 100 s."""
    meant = Scenario.parse(changed(NET, "{name: star, latency_s: 0.1, bandwidth_bytes_per_s: 1000000}"))
    for wrong in ("latency_ms: 100, bandwidth_mbps: 8", "latency_us: 100000, bandwidth_kb_per_s: 1000"):
        guesses = [
            line.split("did you mean '")[1].removesuffix("'?")
            for line in messages(changed(NET, f"{{name: star, {wrong}}}"))
        ]
        assert Scenario.parse(changed(NET, f"{{name: star, {', '.join(guesses)}}}")).network == meant.network


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:\n  b: 1\n c: 2\n", "3:2: not valid YAML: this line is indented like nothing above it"),
        ("  a: 1\nb: 2\n", "2:1: not valid YAML: this line is indented like nothing above it"),
        ("a: 1\n  b: 2\n", "2:4: not valid YAML: no key may stand here: the line is indented deeper"),
        ("a:\n  - 1\n - 2\n", "3:2: not valid YAML: this line is indented"),
        ("clients: 3\n\tseed: 1\n", "2:1: clients: not valid YAML: a tab indents this line; indent with spaces"),
        ("a: 1\nb\nc: 3\n", "3:1: not valid YAML: a ':' is missing after the key"),
        ("a: [1, 2\nb: 3\n", "2:2: a.2: not valid YAML: a ',' or the closing ']' is missing"),
        ("a: {b: 1 c: 2}\n", "1:11: a: not valid YAML: a ',' or the closing '}' is missing"),
        ("a: 'x\nb: 3\n", "3:1: a: not valid YAML: a quote is opened and not closed"),
        ("a: %x\n", "1:4: a: not valid YAML: a value cannot begin with this character; write it in quotes"),
    ],
)
@pytest.mark.parametrize("loader", [yaml.SafeLoader, reader.Loader])
def test_indentation_and_brackets_in_words(monkeypatch, loader, text, expected):
    monkeypatch.setattr(reader, "Loader", loader)  # libyaml says the same in other words, sometimes elsewhere
    (line,) = messages(text)
    expected = expected if loader is not yaml.SafeLoader or "tab" in expected else expected.partition("YAML: ")[2]
    assert expected in line or loader is yaml.SafeLoader and "tab" in expected and "not tabs" in line
    for word in ("while", "block", "scalar", "token", "flow", "context", "node"):
        assert word not in line


def test_missing_data_files_name_the_folders_tried(tmp_path, monkeypatch):
    text = GOOD.replace(NET, "{name: file, path: gone.csv, server: a}")
    monkeypatch.setenv("SIMFL_DATA", str(tmp_path))
    assert f"'gone.csv' is no file beside the scenario or in SIMFL_DATA={tmp_path}" in messages(text)[0]
    monkeypatch.setenv("SIMFL_DATA", str(tmp_path / "none"))
    assert f"SIMFL_DATA={tmp_path / 'none'}, which is no folder" in messages(text)[0]
    monkeypatch.delenv("SIMFL_DATA")
    assert "SIMFL_DATA, which would name another folder, is not set" in messages(text)[0]
