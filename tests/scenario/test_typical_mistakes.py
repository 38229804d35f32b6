"""What people type who know other tools: each mistake is one line, and the line names the right way."""

import pytest

from simfl.core.errors import SimflError
from simfl.experiments.sweep.grid import axes
from simfl.experiments.sweep.plan import plan_sweep
from simfl.scenario import InvalidScenario, Scenario

TEXT = """
clients: 40
network: {name: star, latency_s: 0.1}
selection: {name: random, k: 8}
training: {name: fedavg, rounds: 10}
learning: {data: digits, model: logistic}
"""

MISTAKES = {
    # a key of another plugin of the family
    "devices.availability.dropout=0.2": "did you mean 'devices.availability=bernoulli:dropout=...'?",
    "selection.T=4": "did you mean 'selection=batch_partition:T=...'?",
    "training.buffer=4": "did you mean 'training=fedbuff:buffer=...'?",
    "learning.partition.beta=0.1": "did you mean 'learning.partition=dirichlet:beta=...'?",
    # a key of a section, at the top
    "dropout=0.2": "did you mean 'devices.availability=bernoulli:dropout=...'?",
    "latency=0.1": "did you mean 'network.latency_s'?",
    "rounds=5": "did you mean 'training.rounds'?",
    "k=4": "did you mean 'selection.k'?",
    "T=4": "did you mean 'selection=batch_partition:T=...'?",
    "lr=0.1": "did you mean 'training.learning_rate'?",
    "batch_size=8": "did you mean 'training.batch_size'?",
    "model=mlp": "did you mean 'learning.model'?",
    "data=digits": "did you mean 'learning.data'?",
    "buffer=8": "did you mean 'training=fedbuff:buffer=...'?",
    "selction=random": "did you mean 'selection'?",
    "sede=3": "did you mean 'seed'?",
    # names
    "learning.model=resnet18": "did you mean 'resnet18_",
    "selection=half": "did you mean 'half_partition'?",
    "selection=Random": "did you mean 'random'?",
    "training=FedAvg": "did you mean 'fedavg'?",
    "secagg=secaggplus": "did you mean 'secagg_plus'?",
    "learning.data=mnsit": "did you mean 'mnist'?",
    # values
    "training.learning_rate=nan": "it must be finite",
    "training.learning_rate=inf": "it must be finite",
    "training.learning_rate='0.1'": "remove the quotes",
    "devices.availability=bernoulli:dropout=20%": "write 0.2",
    "network.latency_s=100ms": "write 0.1",
    "training.rounds=1e3": "the nearest valid value is 1000",
    "training.rounds=0": "the nearest valid value is 1",
    "selection.k=4.0": "the nearest valid value is 4",
    "extends=quickstart": "'extends' stands in files only",
    # several values where one stands
    "training.rounds=1:3:1": "simfl sweep and simfl compare take several values",
    "selection=random,weighted": "simfl sweep and simfl compare take several values",
    "selection.k=4;8": "simfl sweep and simfl compare take several values",
    "training.rounds=10,20": "simfl sweep and simfl compare take several values",
}


@pytest.mark.parametrize("override", MISTAKES)
def test_a_typical_mistake_is_one_line_that_names_the_right_way(override):
    with pytest.raises(InvalidScenario) as caught:
        Scenario.parse(TEXT, "mine", [override])
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"override {override}: ") and MISTAKES[override] in line


@pytest.mark.parametrize("override", [o for o in MISTAKES if "did you mean '" in MISTAKES[o] and "=..." in MISTAKES[o]])
def test_what_is_proposed_is_valid_but_for_its_value(override):
    """The plugin that is named has the key: no further proposal is about it."""
    proposal = MISTAKES[override].split("'")[1]
    with pytest.raises(InvalidScenario) as caught:
        Scenario.parse(TEXT, "mine", [proposal])
    assert "unknown key" not in str(caught.value)


def test_a_file_is_answered_as_a_file():
    with pytest.raises(
        InvalidScenario, match=r"mine:7:1: dropout: .*availability: \{name: bernoulli, dropout: 0.2\}'\?"
    ):
        Scenario.parse(TEXT + "dropout: 0.2\n", "mine")


def test_a_mistake_of_all_members_of_a_sweep_is_said_once(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(TEXT)
    with pytest.raises(SimflError) as caught:
        plan_sweep(path, axes(["devices.availability.dropout=0,0.2,0.4", "seed=0,1"]))
    assert str(caught.value).count("unknown key") == 1 and "\n" not in str(caught.value)


@pytest.mark.parametrize("override", ["clients=40%", "selection.k=20%", "training.batch_size=10%", "clients=1000%"])
def test_no_share_is_proposed_for_a_whole_number(override):
    with pytest.raises(InvalidScenario) as caught:
        Scenario.parse(TEXT, "mine", [override])
    assert "write" not in str(caught.value)
