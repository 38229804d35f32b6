"""Computation times from a file of measurements."""

import numpy as np
import pytest

from simfl.core.errors import ScenarioError
from simfl.core.rng import Address, Streams
from simfl.devices import COMPUTATION
from simfl.scenario import Scenario


class Place:
    clients = 4

    def __init__(self, folder):
        self.folder = folder

    def file(self, name):
        return self.folder / name


def built(folder, text, **fields):
    (folder / "d.csv").write_text(text)
    return COMPUTATION.of({"name": "trace", "path": "d.csv", **fields}).build(Place(folder), Streams(0))


def test_every_measurement_is_drawn_equally_often_times_the_client_s_factor(tmp_path):
    timing = built(tmp_path, "seconds\n1\n2.5\n\n40\n", speed=[1, 1, 1, 2])
    clients, ones = np.arange(4), np.ones(4, dtype=np.int64)
    drawn = np.array([timing.duration_s(clients, ones, ones, Address(t, clients, 4)) for t in range(3000)])
    for client, factor in enumerate((1, 1, 1, 2)):
        values, counts = np.unique(drawn[:, client], return_counts=True)
        assert values.tolist() == [1 * factor, 2.5 * factor, 40 * factor]
        assert (abs(counts - 1000) < 5 * np.sqrt(3000 * 2 / 9)).all()


@pytest.mark.parametrize(
    "text, problem",
    [
        ("", "header must be seconds"),
        ("time\n1\n", "d.csv:1: the header must be seconds"),
        ("seconds\n", "holds no duration"),
        ("seconds\n1\n-2\n", "d.csv:3: a duration is 0 or more seconds, not -2"),
        ("seconds\nnan\n", "d.csv:2: one number of seconds is needed, not ''"),
        ("seconds\n1,2\n", "d.csv:2: one number of seconds is needed"),
        ("seconds\nfast\n", "d.csv:2: one number"),
    ],
)
def test_a_broken_file_is_one_clear_line(tmp_path, text, problem):
    with pytest.raises(ScenarioError, match="^path") as caught:
        built(tmp_path, text)
    assert problem in str(caught.value)


def test_a_scenario_names_the_file_relative_to_itself(tmp_path):
    (tmp_path / "d.csv").write_text("seconds\n3\n")
    text = """
    clients: 4
    devices: {computation: {name: trace, path: d.csv}}
    selection: {name: random, k: 2}
    training: {name: fedbuff, concurrency: 2, buffer: 2, rounds: 3}
    learning: none
    """
    from simfl.runs.run import run

    done = run(Scenario.parse(text, "s", folder=tmp_path), tmp_path / "out")
    assert done.summary["time_s"] == 9.0
