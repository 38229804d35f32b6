"""``simfl validate FILE.py``: what certificates count a plugin as, and what it says that is not so."""

import json

import pytest
from click.testing import CliRunner

from simfl.cli import simfl

HEAD = "from dataclasses import dataclass\nimport numpy as np\n"
TIMES = (
    HEAD
    + '''
from simfl.plugins.privacy import STAGES, Stage

@STAGES("times_{name}")
@dataclass(frozen=True)
class Times(Stage):
    """Clients send so many times their vector."""

    {says}

    def client(self, vectors, jobs, state, streams):
        return (vectors * np.float32(100)).astype(np.float32)
'''
)
ROUND_ROBIN = (
    HEAD
    + '''
from simfl.plugins.selection import POLICIES, AllAvailable

@POLICIES("robin")
@dataclass(frozen=True)
class RoundRobin:
    """The next k clients."""

    k: int
    unit_size = 1
    example = {"k": 2}

    def select(self, view, k, rng):
        n = len(view.available)
        order = (np.arange(n) + view.round * k) % n
        free = order[view.available[order]][:k]
        return np.sort(free).astype(np.int32).reshape(-1, 1) if len(free) == k else np.empty((0, 1), np.int32)

    def family(self, clients):
        return AllAvailable(clients)
'''
)
METRIC = (
    HEAD
    + '''
from simfl.plugins.metrics import METRICS, Metric

@METRICS("nothing_at_all")
@dataclass(frozen=True)
class Nothing(Metric):
    """Measures nothing."""
'''
)


@pytest.fixture
def validate(tmp_path, monkeypatch):
    monkeypatch.setenv("SIMFL_CACHE", "")

    def call(text, *options):
        file = tmp_path / "mine.py"
        file.write_text(text)
        return CliRunner().invoke(simfl, ["validate", str(file), *options])

    return call


def test_a_stage_that_says_nothing_is_told_what_it_counts_as(validate):
    done = validate(TIMES.format(name="silent", says="pass"))
    assert done.exit_code == 0, done.output
    assert "says nothing of what it does to updates (no maps)" in done.output
    assert "epsilon is infinite" in done.output and "nothing refuted" in done.output


def test_a_stage_that_says_less_than_it_does_is_refuted_with_both_numbers(validate):
    said = "from simfl.plugins.privacy import Scale\n    maps = (Scale(1.0),)"
    done = validate(TIMES.format(name="lying", says=said))
    assert done.exit_code == 2
    assert "sends longer updates than it says (maps)" in done.output


def test_a_policy_that_names_another_family_is_refuted(validate):
    done = validate(ROUND_ROBIN)
    assert done.exit_code == 2 and "rows of the family that it names" in done.output


def test_json_holds_words_and_refutations(validate):
    (found,) = json.loads(validate(ROUND_ROBIN.replace('"robin"', '"robin_2"'), "--json").stdout)
    assert found["plugins"][0]["family"] == "selection" and found["plugins"][0]["refuted"]
    assert len(found["refuted"]) == len(found["plugins"][0]["refuted"])


@pytest.mark.parametrize(
    ("text", "why"),
    [("x = 1\n", "registers no plugin"), ("def f(:\n", "does not load"), ("raise OSError('no')\n", "does not load")],
)
def test_a_file_that_cannot_be_judged_is_one_line(validate, text, why):
    done = validate(text)
    assert done.exit_code == 2 and why in done.output and len(done.output.strip().splitlines()) == 1


def test_a_plugin_of_another_family_counts_as_nothing(validate):
    done = validate(METRIC)
    assert "says nothing that a certificate reads" in done.output
