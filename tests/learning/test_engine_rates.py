"""What trains is named in the summary, and timed by ``simfl doctor --rates``, which decides nothing."""

import pytest
from click.testing import CliRunner

import simfl
from simfl.cli import simfl as command
from simfl.learning.backends import rates
from simfl.learning.backends.cohort_engine import CohortEngine
from simfl.learning.backends.replicas import GroupedNetwork
from simfl.learning.backends.sequential_engine import SequentialEngine

SCENARIO = {
    "clients": 3,
    "selection": {"name": "random", "k": 2},
    "network": {"name": "star", "latency_s": 0.1},
    "training": {"name": "fedavg", "rounds": 1, "learning_rate": 0.1},
    "learning": {"data": "digits", "model": "logistic", "partition": "iid"},
}


@pytest.mark.parametrize(("learning", "expected"), [
    ({}, "dense"), ({"backend": "sequential"}, "sequential"), ({"backend": "vmap"}, "vmap"),
])  # fmt: skip
def test_the_summary_names_what_has_trained(learning, expected, tmp_path):
    summary = simfl.run({**SCENARIO, "learning": SCENARIO["learning"] | learning}, out=tmp_path).summary
    assert (summary["backend"], summary["device"]) == (expected, "cpu")


def test_nothing_is_named_where_nothing_is_trained(tmp_path):
    summary = simfl.run({**SCENARIO, "learning": "none"}, out=tmp_path).summary
    assert "backend" not in summary and "device" not in summary


def test_ratios_are_those_of_the_quickest_rounds(monkeypatch):
    """By a clock that the engines move: grouped takes 3, then always less, down to 1.5 of what sequential takes."""
    now, slower = [0.0], iter([99, 3, 2.5, 2, 1.5, 1.75])

    def move(self, works):
        assert len(works) == rates.CLIENTS and sum(len(work.order) for work in works) == rates.CLIENTS * rates.BATCH
        grouped = isinstance(self, CohortEngine) and isinstance(self.network, GroupedNetwork)
        now[0] += next(slower) if grouped else 1 if isinstance(self, SequentialEngine) else 4

    monkeypatch.setattr(rates, "TIMED", {"lenet5": (3, 32, 32)})
    for name in ("disagreement", "influence"):
        monkeypatch.setattr(f"simfl.learning.backends.trial.{name}", lambda *task: None)
    for engine in (SequentialEngine, CohortEngine):
        monkeypatch.setattr(engine, "train", move)
    measured = rates.measure_engines(lambda: now[0])
    assert measured == {"lenet5": ("sequential", {"sequential": 1, "grouped": 1.5, "vmap": 4})}
    assert next(slower, None) is None


def test_doctor_says_what_is_faster_here_as_comments(monkeypatch):
    import yaml

    times = {
        "a": rates.EngineTimes("dense", {"dense": 1.0, "vmap": 0.9}),
        "b": rates.EngineTimes("dense", {"dense": 1.0, "vmap": 0.96}),
    }
    monkeypatch.setattr("simfl.learning.backends.rates.measure_engines", lambda clock: times)
    monkeypatch.setattr("simfl.cli.doctor.measure_rates", lambda: {"agreement_s": 0.5})
    shown = CliRunner().invoke(command, ["doctor", "--rates"]).stdout
    assert yaml.safe_load(shown) == {"rates": {"agreement_s": 0.5}}
    assert "#   a: auto is dense; vmap 0.90; faster here: learning.backend: vmap\n" in shown
    assert "#   b: auto is dense; vmap 0.96\n" in shown
