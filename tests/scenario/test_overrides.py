# ruff: noqa: E501  (a message stands on one line)
"""Overrides from the command line change single keys, by the same strict rules as the file."""

import pytest

from simfl.scenario import InvalidScenario, Scenario
from tests.support.scenario_samples import GOOD, messages


def plain(*overrides, text=GOOD):
    return Scenario.parse(text, "s.yaml", overrides).plain()


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("seed=3", "seed", 3),
        ("training.rounds=5", "training.rounds", 5),
        ("training.batch_size=null", "training.batch_size", None),
        ("training.batch_size=", "training.batch_size", None),
        ("training.learning_rate=1e-3", "training.learning_rate", 0.001),
        ("training.decay_at=[3, 5]", "training.decay_at", [3, 5]),
        ("name=no", "name", "no"),
        ("name='12'", "name", "12"),
        ("devices.availability.dropout={choices: [0.1, 0.5]}", "devices.availability.dropout", {"choices": [0.1, 0.5]}),
        ("network.latency_s=0.3", "network.latency_s", 0.3),
        ("network.latency_s.median=0.3", "network.latency_s", {"name": "log_normal", "median": 0.3, "sigma": 0.5}),
        ("network.latency_s=exponential:mean=2", "network.latency_s", {"name": "exponential", "mean": 2.0}),
        ("devices.computation=per_sample:seconds=1", "devices.computation.name", "per_sample"),
        ("devices.computation=2", "devices.computation", {"name": "constant", "seconds": 2.0}),
        ("trace=events", "trace", "events"),
        ("secagg.name=plain", "secagg.name", "plain"),
    ],
)
def test_one_override(override, path, value):
    found = plain(override)
    for key in path.split("."):
        found = found[key]
    assert found == value and type(found) is type(value)


def test_a_key_that_the_file_leaves_out_starts_from_its_default():
    found = plain("network.jitter_s=0.1", "learning.data.test_fraction=0.5", text=GOOD.replace("learning: none\n", ""))
    assert found["network"]["jitter_s"] == {"name": "constant", "value": 0.1}
    assert found["learning"]["data"] == {"name": "digits", "test_fraction": 0.5}
    assert found["learning"]["model"]["name"] == "mlp"


def test_the_last_override_wins():
    assert plain("seed=1", "seed=2")["seed"] == 2


@pytest.mark.parametrize("override", ["selection=batch_partition:T=2", "selection.name=batch_partition"])
def test_a_plugin_that_takes_anothers_place_keeps_the_keys_that_both_have(override):
    found = plain("selection.k=4", override, "selection.T=2")["selection"]
    assert (found["name"], found["k"], found["T"]) == ("batch_partition", 4, 2)


def test_shorthand_takes_several_keys_and_brackets():
    assert plain("selection=batch_partition:T=2,mode=fair")["selection"]["mode"] == "fair"
    network = "network=star:latency_s={name: uniform, low: 1, high: 2},jitter_s=0.5"
    assert plain(network)["network"]["latency_s"] == {"name": "uniform", "low": 1.0, "high": 2.0}
    assert plain("network=star:latency_s.median=7,latency_s.sigma=0")["network"]["latency_s"]["median"] == 7.0


def test_what_was_kept_keeps_its_place_in_the_file():
    text = GOOD.replace("k: 8", "k: 0")
    assert messages(text, ["selection=batch_partition:T=2"])[0].startswith("s.yaml:6:30: selection.k: ")


def test_keys_that_only_the_old_plugin_had_go():
    found = plain("devices.failure=none")
    assert found["devices"]["failure"] == {"name": "none"}


def test_the_same_plugin_again_changes_nothing():
    assert plain("selection=random")["selection"]["k"] == 8


def test_list_items_are_set_by_index():
    text = GOOD.replace("rounds: 60", "rounds: 60, decay_at: [10, 20]")
    assert plain("training.decay_at.1=30", text=text)["training"]["decay_at"] == [10, 30]
    assert plain("learning=supervised:data=digits,model=mlp:hidden=[8]")["learning"]["model"]["hidden"] == [8]
    assert "is a list; its indices are 0 to 1 (got 2)" in messages(text, ["training.decay_at.2=30"])[0]
    assert "is a list; its indices are 0 to 1 (got 'x')" in messages(text, ["training.decay_at.x=30"])[0]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("training.roundz=5", "override training.roundz=5: training.roundz: unknown key 'roundz' of training 'fedavg'; "
         "did you mean 'rounds'?"),
        ("rounds=5", "override rounds=5: rounds: unknown key 'rounds'; did you mean 'training.rounds'?"),
        ("devises.failure=none", "override devises.failure=none: devises: unknown key 'devises'; did you mean 'devices'?"),
        ("seed", "override seed: an override has the form key=value without spaces, e.g. training.rounds=50"),
        ("=3", "override =3: an override has the form key=value without spaces"),
        ("a..b=3", "override a..b=3: 'a..b' is not a key"),
        ("seed.x=3", "override seed.x=3: 'seed' is 0 and has no keys"),
        ("training.0=3", "override training.0=3: 'training' is not a list; 0 is no key of it"),
        ("seed=.inf", "override seed=.inf: seed: infinity and not-a-number are not allowed"),
        ("seed=99999999999999999999", "the integer is too large"),
        ("training.decay_at=[1", "override training.decay_at=[1: not valid YAML"),
        ("training.decay_at=[!x 1]", "the tag '!x' is not allowed"),
        ("training={name: fedavg, name: x}", "duplicate key 'name'"),
        ("training.batch_size='3'", "training.batch_size: Input should be a whole number or null (got '3'); remove the quotes"),
        ("selection=random:z=3", "selection.z: unknown key 'z' of selection 'random'"),
        ("selection=randm:k=3", "unknown selection 'randm'"),
        ("selection=batch_partition:T=", "selection.T: Input should be a whole number (got nothing)"),
        ("selection=batch_partition:T=3", "selection.T: "),
        ("name=a/b", "override name=a/b: name: Input does not fit"),
        ("name=" + "x" * 300, "override 'name=xxxx"),
        ("seed=\udcff", "the text is not UTF-8"),
        (".".join("a" * 100) + "=1", "the key is nested more than 64 deep"),
        ("clients=1000000000000", "override clients=1000000000000: clients: Input should be less than or equal to"),
    ],
)  # fmt: skip
def test_what_an_override_may_not_be(override, expected):
    found = messages(GOOD, [override])
    assert any(expected in line for line in found), found
    assert all(line.startswith("override ") and line.isprintable() for line in found)


def test_an_override_is_applied_whole_or_not_at_all():
    assert messages(GOOD, ["network.names.0=x"]) == [
        "override network.names.0=x: 'network.names' is not a list; 0 is no key of it"
    ]


def test_problems_of_file_and_overrides_come_together():
    found = messages(GOOD.replace("k: 8", "kk: 8"), ["training.rounds=0", "oops"])
    assert [line.split(": ")[0] for line in found] == ["s.yaml:6:27", "override oops", "override training.rounds=0"]


def test_an_override_repairs_the_file():
    assert plain("training.rounds=3", text=GOOD.replace("rounds: 60", "rounds: many"))["training"]["rounds"] == 3
    with pytest.raises(InvalidScenario):
        plain("training.rounds=3", text=GOOD.replace("rounds: 60", "rounds: .inf"))  # it is still no valid YAML file
