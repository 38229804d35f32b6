"""Cities: great-circle model, measured tables with gaps, placement, jitter, and what is unknown."""

from types import SimpleNamespace

import numpy as np
import pytest

from simfl.core.errors import MissingError, ScenarioError
from simfl.core.rng import Address, Streams
from simfl.core.storage.data_folder import data_file, data_root
from simfl.network.base import NETWORKS
from simfl.network.cities import ATLAS, TABLES, distance_km, measured_atlas, measured_s
from simfl.scenario import Scenario

HERE = data_root() is not None and all((data_root() / table).exists() for table in TABLES)
needs_data = pytest.mark.skipif(not HERE, reason="the measured latencies are not in the data folder")


def plugin(**fields):
    return NETWORKS.of({"name": "cities", **fields})


def build(clients, seed=0, **fields):
    scenario = SimpleNamespace(clients=clients, file=data_file)
    network = plugin(**fields).resolve(scenario)
    assert network.check(scenario) == []
    return network.build(scenario, Streams(seed))


def delays(links, size=0, tick=0):
    clients = np.arange(len(links.names))
    where = Address(tick, clients, len(clients))
    return links.down_s(clients, size, where), links.up_s(clients, size, where)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder with four cities and gaps in the table."""
    monkeypatch.setenv("SIMFL_DATA", str(tmp_path))
    latency = tmp_path / "latency"
    latency.mkdir()
    (latency / "cities.csv").write_text(
        "city,country,latitude,longitude,population\nEast,X,0,90,3000000\nNorth,X,90,0,1000000\nZero,X,0,0,\nNowhere,X,,,\n"
    )
    (latency / "city_rtt_avg_ms.csv").write_text(
        "from\\to,East,North,Zero,Nowhere\nEast,,100,40,10\nNorth,,,,\nZero,60,,,20\nNowhere,10,30,,\n"
    )
    (latency / "city_rtt_mdev_ms.csv").write_text(
        "from\\to,East,North,Zero,Nowhere\nEast,,10,4000,0\nNorth,,,,\nZero,8,,,1\nNowhere,1,1,,\n"
    )
    return latency


def test_great_circle_distances():
    quarter = np.pi * 6371 / 2
    distance = distance_km(np.array([0.0, 90, 0, 0]), np.array([0.0, 0, 90, 180]))
    assert distance == pytest.approx(
        np.array([[0, 1, 1, 2], [1, 0, 1, 1], [1, 1, 0, 1], [2, 1, 1, 0]]) * quarter, abs=1e-6
    )
    frankfurt, new_york = ATLAS["Frankfurt"], ATLAS["New York"]
    apart = distance_km(*np.array([frankfurt[:2], new_york[:2]]).T)[0, 1]
    assert apart == pytest.approx(6200, rel=0.01)


def test_modelled_latency_by_hand():
    fields = {"server": "Frankfurt", "rtt": "great_circle", "path_factor": 2, "access_s": 0.003}
    down, up = delays(build(2, cities=["New York", "Frankfurt"], **fields))
    apart = distance_km(*np.array([ATLAS["Frankfurt"][:2], ATLAS["New York"][:2]]).T)[0, 1]
    assert down == pytest.approx([0.003 + 2 * apart / 200_000, 0.003]) and np.array_equal(down, up)


def test_measured_latency_with_gaps(folder):
    cities = ["East", "North", "Zero", "Nowhere"]
    links = build(4, server="East", cities=cities, rtt="measured", access_s=0.004, path_factor=1)
    down, up = delays(links)
    assert down == pytest.approx([0.004, 0.05, 0.02, 0.005])  # half the round trips; East to East is modelled
    assert up == pytest.approx([0.004, 0.05, 0.03, 0.005])  # North to East: from the other direction
    between = links.between_s(np.array([1, 3, 2]), np.array([2, 2, 3]), 0, Address(0, np.arange(3), 3))
    modelled = 0.004 + np.pi * 6371 / 2 / 200_000  # North and Zero were never measured
    assert between == pytest.approx([modelled, 0.01, 0.01])


def test_neither_measured_nor_on_the_map(folder):
    table = folder / "city_rtt_avg_ms.csv"
    table.write_text(table.read_text().replace("60,,,20", "60,,,"))
    with pytest.raises(ScenarioError, match="neither measurements nor coordinates for 'Nowhere' to 'Zero'"):
        build(2, server="Zero", cities=["Nowhere"], rtt="measured")


def test_measured_jitter_keeps_mean_and_deviation(folder):
    n = 20_000
    links = build(n, server="East", cities=["North"], measured_jitter=True, rtt="measured")
    down, up = delays(links)
    deviation = 0.010 / np.sqrt(2)  # two ways with this deviation make the measured one
    for delay in (down, up):
        assert abs(delay.mean() - 0.05) < 5 * deviation / np.sqrt(n)
        assert delay.std() == pytest.approx(deviation, rel=0.05)
    assert (down + up).std() == pytest.approx(0.010, rel=0.05) and down.min() >= 0.05 - deviation
    far, _ = delays(build(n, server="East", cities=["Zero"], measured_jitter=True, rtt="measured"))
    assert far.min() >= 0 and abs(far.mean() - 0.02) < 5 * 0.02 / np.sqrt(n)  # deviation cut to the mean
    steady, _ = delays(build(3, server="East", cities=["Nowhere"], measured_jitter=True, rtt="measured"))
    assert steady.tolist() == [0.005] * 3


def test_auto_becomes_what_is_there(folder, monkeypatch):
    assert plugin(server="East").resolve(None).rtt == "measured"
    assert plugin(server="East", rtt="great_circle").resolve(None).rtt == "great_circle"
    monkeypatch.setenv("SIMFL_DATA", str(folder / "nowhere"))
    assert plugin(server="Paris").resolve(None).rtt == "great_circle"
    for fields in ({"rtt": "measured"}, {"measured_jitter": True}):
        with pytest.raises(MissingError, match="latency/cities.csv not found"):
            build(3, server="Paris", **fields)


def test_the_tables_count_in_the_digest(folder):
    text = "clients: 2\nselection: all\ntraining: {name: fedavg, rounds: 1}\nlearning: none\nnetwork: {name: cities, "
    first = Scenario.parse(text + "server: East}")
    assert first.network.tables == TABLES[:2]
    assert Scenario.parse(first.to_yaml()) == first
    jittered = Scenario.parse(text + "server: East, measured_jitter: true}")
    assert jittered.network.tables == TABLES
    digest = first.digest
    table = folder / "city_rtt_avg_ms.csv"
    table.write_text(table.read_text().replace("100", "101"))
    assert Scenario.parse(text + "server: East}").digest != digest


def test_tables_of_ones_own(folder, tmp_path):
    (tmp_path / "mine.csv").write_text("x,East,North\nEast,,8\nNorth,6,\n")
    own = {"server": "East", "cities": ["North"], "tables": ["latency/cities.csv", "mine.csv"]}
    assert np.concatenate(delays(build(1, **own))).tolist() == [0.004, 0.003]
    scenario = SimpleNamespace(clients=1, file=data_file)
    assert [key for key, _ in plugin(**own, rtt="great_circle").check(scenario)][0] == "tables"
    assert [key for key, _ in plugin(**own, measured_jitter=True).resolve(scenario).check(scenario)] == ["tables"]


def test_placements(folder):
    fields = {"server": "East", "rtt": "measured"}
    assert build(5, **fields, count=2).names == ("East", "North", "East#2", "North#2", "East#3")
    assert build(4, **fields).names == ("East", "North", "Nowhere", "Zero")
    n = 10_000
    people = [name.split("#")[0] for name in build(n, **fields, placement="population").names]
    assert set(people) == {"East", "North"}  # nobody is known to live elsewhere
    assert abs(people.count("East") / n - 0.75) < 5 * np.sqrt(0.75 * 0.25 / n)
    anywhere = [name.split("#")[0] for name in build(n, **fields, placement="random").names]
    for name in ("East", "North", "Zero", "Nowhere"):
        assert abs(anywhere.count(name) / n - 0.25) < 5 * np.sqrt(0.25 * 0.75 / n)


def test_bandwidth_of_the_clients_lines():
    fields = {"server": "Paris", "rtt": "great_circle", "path_factor": 1, "access_s": 0, "cities": ["Paris"]}
    links = build(3, **fields, bandwidth_bytes_per_s=[10, 20, 40])
    down, up = delays(links, 100)
    assert down == pytest.approx([10, 5, 2.5]) and np.array_equal(down, up)
    between = links.between_s(np.array([2, 1, -1]), np.array([1, 0, 2]), 100, Address(0, np.arange(3), 3))
    assert between == pytest.approx([5, 10, 2.5])


def test_what_is_wrong_is_named(folder):
    scenario = SimpleNamespace(clients=3, file=data_file)
    found = dict(plugin(server="Esat", cities=["North", "Zeroo"], count=1).resolve(scenario).check(scenario))
    assert "did you mean 'East'?" in found["server"] and "did you mean 'Zero'?" in found["cities.1"]
    assert "leave it out" in found["count"]
    found = dict(plugin(server="Paris", rtt="great_circle", measured_jitter=True, jitter_s=1).check(scenario))
    assert set(found) == {"measured_jitter", "jitter_s"}
    found = dict(plugin(server="East", cities=["Zero"], placement="population").resolve(scenario).check(scenario))
    assert set(found) == {"placement"}


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("cities.csv", "town,latitude\nEast,0\n", "cities.csv:1: the columns city, latitude"),
        ("cities.csv", "city,latitude,longitude,population\nEast,north,0,1\n", "cities.csv:2: .*'north'"),
        ("city_rtt_avg_ms.csv", "x,East,North\nEast,,1\nNorth,-1,\n", "city_rtt_avg_ms.csv:3: East must be a number"),
        ("city_rtt_avg_ms.csv", "x,East,Zero\nEast,,1\nZero,1,\n", "city_rtt_avg_ms.csv: there is no row for 'North'"),
    ],
)
def test_broken_tables(folder, file, content, message):
    (folder / file).write_text(content)
    scenario = SimpleNamespace(clients=1, file=data_file)
    network = plugin(server="East", cities=["North"], rtt="measured").resolve(scenario)
    with pytest.raises(ScenarioError, match=f"^tables: {message}"):
        network.build(scenario, Streams(0))
    if file == "cities.csv":
        assert [key for key, _ in network.check(scenario)] == ["tables"]


def test_the_built_in_atlas_can_be_used_alone():
    links = build(len(ATLAS), server="Tokyo", rtt="great_circle")
    down, _ = delays(links)
    assert sorted(links.names) == sorted(ATLAS) and 0.01 <= down.min() and down.max() < 0.2


@needs_data
def test_published_round_trips_of_boston():
    links = build(3, server="Boston", cities=["New York", "London", "Singapore"], rtt="measured")
    assert data_root() is not None
    assert np.round(2000 * delays(links)[0], 1).tolist() == [7.8, 77.2, 232.5]


@needs_data
def test_atlas_agrees_with_the_measured_cities():
    known = measured_atlas(data_file(TABLES[0]))
    assert set(ATLAS) <= set(known)
    for name, city in ATLAS.items():
        if name == "Mexico":  # the table has the country's middle
            continue
        apart = distance_km(*np.array([city[:2], known[name][:2]]).T)[0, 1]
        assert apart < 50, (name, apart)


@needs_data
def test_the_model_is_near_the_measurements():
    names = list(ATLAS)
    measured = measured_s(data_file(TABLES[1]), names)
    cities = np.array([ATLAS[name][:2] for name in names]).T
    defaults = plugin(server="Paris")
    modelled = defaults.access_s + defaults.path_factor * distance_km(*cities) / 200_000
    pairs = ~np.eye(len(names), dtype=bool) & ~np.isnan(measured)
    assert np.median(np.abs(modelled - measured)[pairs] / measured[pairs]) < 0.2
