"""``devices.profiles``: what a file of devices does to clients, against numbers by hand; broken files are one line."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from simfl.cli import simfl
from simfl.core.errors import ScenarioError
from simfl.core.rng import Address, Streams
from simfl.core.types import SERVER
from simfl.devices.profiles import client_profiles
from simfl.network.base import Links
from simfl.runs.client_links import build_links
from simfl.runs.run import build, run, verify
from simfl.scenario import InvalidScenario, Scenario

HEADER = "client,samples_per_s,down_bytes_per_s,up_bytes_per_s,latency_s"
ROWS = "\n2,4,inf,50,0.25\n0,100,1000,200,0.5\n1,25,500,100,0\n"
TEXT = """
clients: 3
devices: {profiles: devices.csv}
selection: all
training: {name: fedavg, rounds: 3, batch_size: 20, local_epochs: 2}
learning: none
"""


def scenario(folder, file=HEADER + ROWS, *overrides, text=TEXT):
    (folder / "devices.csv").write_text(file)
    return Scenario.parse(text, "profiled", overrides, folder)


def refusal(folder, file, *overrides):
    with pytest.raises(InvalidScenario) as error:
        scenario(folder, file, *overrides)
    (problem,) = error.value.problems
    return f"{problem.key}: {problem.message}"


def test_every_client_gets_its_own_row(tmp_path):
    parts = build(scenario(tmp_path))
    clients = np.arange(3)
    where = Address(0, clients, 3)
    assert parts.links.down_s(clients, 1000, where).tolist() == [1.5, 2.0, 0.25]
    assert parts.links.up_s(clients, 100, where).tolist() == [1.0, 1.0, 2.25]
    assert parts.computing.duration_s(clients, np.full(3, 50), 2.0, where).tolist() == [1.0, 4.0, 25.0]
    server = np.full(3, SERVER)
    assert parts.links.latency_s(server, clients).tolist() == [0.5, 0.0, 0.25]
    # from 0 to 2: out of 0's line at 200 bytes a second, into 2's, which is unlimited
    assert parts.links.between_s(np.array([0]), np.array([2]), 100, Address(0, np.array([0]), 3)).tolist() == [1.25]


def test_a_profiled_run_is_the_run_with_the_same_numbers_given_by_hand(tmp_path):
    by_hand = Scenario.parse(
        """
clients: 3
network: {name: star, latency_s: [0.5, 0.0, 0.25], bandwidth_bytes_per_s: [1000, 500, 1e12],
          up_bandwidth_bytes_per_s: [200, 100, 50]}
devices: {computation: {name: per_sample, seconds: 1, speed: [0.01, 0.04, 0.25]}}
selection: {name: random, k: 2}
training: {name: fedavg, rounds: 8, batch_size: 20, local_epochs: 2}
learning: {data: digits, model: {name: mlp, hidden: [4]}, evaluate: {every: 0}}
secagg: secagg
""",
        "profiled",
    )
    profiled = scenario(tmp_path, HEADER + ROWS, *PROFILED, text=by_hand.to_yaml())
    assert profiled.digest != by_hand.digest
    times = [pd.read_csv(run(each, tmp_path / "out").path / "rounds.csv").time_s for each in (by_hand, profiled)]
    np.testing.assert_allclose(times[0], times[1], rtol=1e-9)
    assert times[0].diff().iloc[1:].nunique() > 1


@pytest.mark.parametrize(
    "overrides",
    [
        ["training={name: fedbuff, concurrency: 2, buffer: 2, rounds: 6}", "selection={name: random, k: 2}"],
        ["training.deadline_s=3.0"],
        ["training.quorum=2"],
        ["secagg=secagg", "devices.failure=0.2"],
        ["network={name: ring, latency_s: 0.1}"],
    ],
)
def test_it_runs_under_every_server_and_is_verified(tmp_path, overrides):
    made = scenario(tmp_path, HEADER + ROWS, *overrides)
    assert all(verify(run(made, tmp_path / "out").path).values())


def test_latencies_add_up_and_the_narrowest_link_counts(tmp_path):
    made = scenario(tmp_path, HEADER + ROWS, "network={name: star, latency_s: 0.125, bandwidth_bytes_per_s: 600}")
    clients = np.arange(3)
    found = build(made).links.down_s(clients, 600, Address(0, clients, 3))
    np.testing.assert_allclose(found, [0.625 + 1, 0.125 + 1.2, 0.375 + 1])


def test_devices_are_drawn_by_the_seed_each_as_likely_and_all_columns_of_one_device(tmp_path):
    file = "samples_per_s,availability\n1,0.5\n2,0.25\n4,1\n"
    made = scenario(tmp_path, file, "clients=30000")
    found = client_profiles(made, Streams(0))
    pairs, counts = np.unique(np.stack([*found.values()], axis=1), axis=0, return_counts=True)
    assert pairs.tolist() == [[1, 0.5], [2, 0.25], [4, 1]]
    assert np.abs(counts / 30000 - 1 / 3).max() < 5 * np.sqrt(2 / 9 / 30000)
    fewer = client_profiles(scenario(tmp_path, file, "clients=100"), Streams(0))
    assert all(np.array_equal(fewer[name], found[name][:100]) for name in found)
    assert not np.array_equal(client_profiles(made, Streams(1))["samples_per_s"], found["samples_per_s"])
    np.testing.assert_array_equal(build(replace(made, learning=made.learning)).available.dropout,
                                  1 - found["availability"])  # fmt: skip


def test_work_has_the_spread_that_the_file_says(tmp_path):
    made = scenario(tmp_path, "client,samples_per_s,work_sigma\n0,10,0.5\n1,10,0\n2,5,1\n")
    timing, clients = build(made).computing, np.arange(3)
    times = np.array([timing.duration_s(clients, np.full(3, 20), 1.0, Address(t, clients, 3)) for t in range(4000)])
    logs = np.log(times)
    np.testing.assert_allclose(np.median(times, axis=0), [2, 2, 4], rtol=0.1)
    np.testing.assert_allclose(logs.std(axis=0), [0.5, 0, 1], atol=0.05)
    assert abs(np.corrcoef(logs[:, 0], logs[:, 2])[0, 1]) < 0.08


def test_the_content_of_the_file_counts_in_the_digest_and_a_resolved_scenario_reads_back(tmp_path):
    one = scenario(tmp_path)
    again = Scenario.parse(one.to_yaml(), "profiled", folder=tmp_path)
    assert again == one and again.digest == one.digest
    assert scenario(tmp_path, HEADER + ROWS.replace("0.25", "0.26")).digest != one.digest
    assert "profiles" not in Scenario.parse(TEXT.replace("{profiles: devices.csv}", "{}"), "none").to_yaml()


def test_a_million_clients_draw_their_devices_in_arrays(tmp_path):
    made = scenario(tmp_path, (Path(__file__).parent / "profiles.csv").read_text(), "clients=1000000",
                    "selection={name: random, k: 10}")  # fmt: skip
    assert len(build(made).available.draw(0, 0.0)) == 10**6


PROFILED = (
    "network={name: star, latency_s: 0, bandwidth_bytes_per_s: null, up_bandwidth_bytes_per_s: null}",
    "devices={profiles: devices.csv}",
)
BROKEN = {
    "samples_per_second\n1\n": "devices.csv:1: there is no column 'samples_per_second'; did you mean 'samples_per_s'?",
    "latency_s,latency_s\n1,1\n": "devices.csv:1: the column latency_s is there twice",
    "latency_s\n": "needs a header and one row a device",
    "device,jobs\na,1\n": "devices.csv:1: the header names none of samples_per_s",
    "latency_s,availability\n1,1\n1\n": "devices.csv:3: 1 value for 2 columns",
    "latency_s\n1\nx\n": "devices.csv:3: latency_s is a number from 0",
    "latency_s\nnan\n": "devices.csv:2: latency_s is a number from 0",
    "samples_per_s\n1\n0\n": "devices.csv:3: samples_per_s is a number from 1e-09",
    "availability\n1.5\n": "devices.csv:2: availability is a number from 1e-09 to 1 ",
    "work_sigma\n1\n": "devices.csv:1: work_sigma spreads the time of work, which needs the column samples_per_s",
    "client,latency_s\n0,1\n1,1\n1,1\n": "devices.csv:4: client 1 has a row already, devices.csv:3",
    "client,latency_s\n0,1\n1,1\n": "has no row for client 2",
    "client,latency_s\n0,1\n1,1\n2,1\n3,1\n": "has a row for client 3 of 3 clients",
    "client,latency_s\na,1\n": "devices.csv:2: client is the number of a client from 0, not 'a'",
}


@pytest.mark.parametrize("file", BROKEN)
def test_a_broken_file_is_one_line_with_file_line_and_column(tmp_path, file):
    said = refusal(tmp_path, file)
    assert said.startswith("devices.profiles: devices.csv") and BROKEN[file] in said and "\n" not in said


def test_two_sources_of_the_same_number_are_refused(tmp_path):
    said = refusal(tmp_path, HEADER + ROWS, "devices.computation=3.0")
    assert said.startswith("devices.computation: 'constant' and the column samples_per_s of devices.csv")
    said = refusal(tmp_path, "availability\n0.5\n", "devices.availability={name: bernoulli, dropout: 0.1}")
    assert said.startswith("devices.availability: 'bernoulli' and the column availability")
    assert refusal(tmp_path, "latency_s\n0.5\n", "devices.computation=profile") == (
        "devices.computation: devices.csv (devices.profiles) has no column samples_per_s"
    )
    assert "needs devices.profiles" in refusal(tmp_path, "x", "devices={availability: profile}")
    made = scenario(tmp_path, "latency_s\n0.5\n", "devices.computation=3.0")
    assert made.devices.computation.seconds == 3


def test_a_network_with_delays_of_its_own_takes_no_lines_before_it(tmp_path):
    made = scenario(tmp_path)

    class Own(Links):
        between_s = down_s = latency_s = up_s = None

    foreign = SimpleNamespace(network=SimpleNamespace(name="mine", build=lambda setting, streams: Own()), clients=3,
                              devices=made.devices, file=made.file, seed=0)  # fmt: skip
    with pytest.raises(ScenarioError, match="network 'mine' of a plugin has delays of its own"):
        build_links(foreign, Streams(0))
    (tmp_path / "devices.csv").write_text("availability\n0.5\n")
    assert type(build_links(foreign, Streams(0))) is Own


def test_simfl_data_shows_what_the_clients_got(tmp_path):
    scenario(tmp_path)
    (tmp_path / "s.yaml").write_text(TEXT)
    shown = CliRunner().invoke(simfl, ["show", "data", str(tmp_path / "s.yaml")])
    assert shown.exit_code == 0
    assert "device_samples_per_s         min 4  10% 4  median 25  90% 100  max 100" in shown.stdout


def test_the_recipe_for_flash_takes_kilobytes_of_1024_bytes():
    """44 MB take its first phone, of 7,491.4 such units a second, 5.74 s: its code divides bytes by 1,024 first."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "devices.md").read_text()
    factor = int(re.search(r"(\d+) \* one\[.down_u.\]", page)[1])
    assert round(44e6 / (factor * 7491.4), 2) == 5.74
