# ruff: noqa: E501  (a message stands on one line)
"""What users read when a scenario is wrong: where, what, and what would be right."""

import pickle
from textwrap import dedent

import pytest
from scenario_samples import GOOD, messages

from simfl.scenario import InvalidScenario, Scenario


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
        "markov, trace); did you mean 'bernoulli'?",
        "s.yaml:7:43: devices.failure.probability: Input should be less than or equal to 1 (got 1.5); "
        "the nearest valid value is 1",
        "s.yaml:8:12: selection.k: key 'k' of selection 'random' is missing (clients in an aggregation)",
        "s.yaml:9:1: rounds: unknown key 'rounds'; did you mean 'training.rounds'?",
        "s.yaml:10:26: training.roundz: unknown key 'roundz' of training 'fedavg'; did you mean 'rounds'?",
        "s.yaml:10:49: training.batch_size: Input should be a whole number (got '3'); remove the quotes",
        "s.yaml:10:64: training.announce: Input should be true or false (got 'no'); did you mean false?",
        "s.yaml:10:83: training.learning_rate: infinity and not-a-number are not allowed; a finite number is needed "
        "(got '.inf')",
        "s.yaml:10:103: training.local_epochs: Input should be a whole number (got 1000.0); the nearest valid value is 1000",
        "s.yaml:12:8: trace: Input should be 'rounds' or 'events' (got 'round'); did you mean 'rounds'?",
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
        ("{name: fedavg, rounds: 60, batch_size: 20}", "fedavg", "training.rounds: key 'rounds' of training 'fedavg' is"),
        ("dropout: 0.2", "dropout: a lot", "devices.availability.dropout: unknown distribution 'a lot'"),
        ("dropout: 0.2", "dropout: [0.1, x]", "devices.availability.dropout.1: Input should be a number (got 'x')"),
        ("dropout: 0.2", "dropout: [0.1, 2]", "devices.availability.dropout.1: Input should be less than or equal to 1"),
        ("dropout: 0.2", "dropout: -1", "devices.availability.dropout: Input should be greater than or equal to 0"),
        ("dropout: 0.2", "dropout: {choices: []}", "dropout.choices: Input should have at least 1 item (got a list)"),
        ("dropout: 0.2", "dropout: [0.5]", "devices.availability.dropout: lists 1 values but there are 40 clients"),
        ("median: 0.08", "median: 0", "network.latency_s.median: Input should be greater than 0 (got 0)"),
        ("batch_size: 20", "batch_size: twenty", "training.batch_size: Input should be a whole number (got 'twenty')"),
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
    keys = ", ".join(f"key{n}: {n}" for n in range(3000))
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
    with pytest.raises(InvalidScenario, match="cannot be read: Is a directory"):
        Scenario.load(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    with pytest.raises(InvalidScenario, match="line 1 is not UTF-8"):
        Scenario.load(tmp_path / "latin.yaml")
