"""What people type who know other tools: each mistake is one line, and the line names the right way."""

import pytest

from simfl.core.errors import SimflError
from simfl.experiments.sweep.plan import plan_sweep
from simfl.scenario import InvalidScenario, Scenario
from tests.cli.mistakes.overrides import MISTAKES
from tests.support.swept_axes import axes

TEXT = """
clients: 40
network: {name: star, latency_s: 0.1}
selection: {name: random, k: 8}
training: {name: fedavg, rounds: 10}
learning: {data: digits, model: logistic}
"""


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


@pytest.mark.parametrize("protocol", ["secagg", "lightsecagg", "basecagg"])
@pytest.mark.parametrize("buffer", [10**6, 10**9, 10**12, 10**18])
def test_a_buffer_of_any_size_is_refused_without_memory_for_it(protocol, buffer):
    """Numbers that size an array are looked at before there is one."""
    rule = f"{{name: fedbuff, rounds: 3, weighting: equal, concurrency: 8, buffer: {buffer}}}"
    with pytest.raises(InvalidScenario, match=r"training\.buffer"):
        Scenario.parse(f"clients: 8\nselection: {{name: random, k: 4}}\ntraining: {rule}\nsecagg: {protocol}\n")
