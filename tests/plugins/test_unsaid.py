"""What plugins leave unsaid, or say and do not keep, improves no number that is printed."""

import json

import pytest
from click.testing import CliRunner

from simfl.cli import simfl

BASE = """clients: 6
selection: {name: random, k: 3}
training: {name: fedavg, rounds: 6, weighting: equal}
learning: none
"""

COARSE = '''
from dataclasses import dataclass
import numpy as np
from simfl.plugins import Aggregate
from simfl.plugins.secagg import PROTOCOLS, PhaseRequest, Protocol, SessionResult

@PROTOCOLS("coarse")
@dataclass(frozen=True)
class Coarse(Protocol):
    """Rounds to a grid."""

    says: bool = False
    shows_updates = False
    moves_sums = ""
    covers = frozenset({"update", "samples"})
    phases = ("unmask",)

    def recover(self, cohort, uploaded, prepared, streams):
        yield PhaseRequest("unmask", cohort.units[uploaded], down_bytes=8, up_bytes=8)
        return SessionResult(uploaded.all(axis=1))

    def add(self, result, updates, streams):
        masks = [streams("mask", job.id).integers(2**64, size=updates.vectors.shape[1], dtype="u8")
                 for job in updates.jobs]
        whole = np.rint(updates.weights[:, None] * updates.vectors / 0.3).astype("i8").view("u8")
        total = (np.sum(whole + masks, axis=0) - np.sum(masks, axis=0)).view("i8") * 0.3
        mean = (total / updates.divisor(updates.weights)).astype(np.float32)
        return Aggregate(mean, updates.clients, updates.row, step=0.3 if self.says else 0.0)
'''

PEEK = '''
from dataclasses import dataclass
import numpy as np
from simfl.plugins.selection import POLICIES, DisjointUnits

@POLICIES("moving")
@dataclass(frozen=True)
class Moving:
    """A window that moves, whatever it names."""

    k: int
    moves: bool = True
    unit_size = 1
    example = {"k": 3}

    def select(self, view, k, rng):
        first = view.round if self.moves else 3 * (view.round % 2)
        return np.sort((np.arange(k) + first) % len(view.available)).astype(np.int32).reshape(-1, 1)

    def family(self, clients):
        return DisjointUnits(clients, self.k, self.k)
'''

SMALLEST = '''
from dataclasses import dataclass
from simfl.plugins.privacy import COLUMNS, PRIVACY, Privacy

@PRIVACY("smallest")
@dataclass(frozen=True, kw_only=True)
class Smallest(Privacy):
    """Fewest clients in any sum."""

    columns = COLUMNS
    covers = frozenset({"update", "samples"})

    def accounts(self, history):
        return {column.name: [3] * history.shape[0] for column in COLUMNS}
'''


@pytest.fixture
def call(tmp_path):
    (tmp_path / "base.yaml").write_text(BASE)

    def call(command, plugin, *overrides):
        (tmp_path / "own.py").write_text(plugin)
        out = ["--out", str(tmp_path / "runs")] if command == "run" else []
        words = [command, str(tmp_path / "base.yaml"), *overrides, "--plugin", str(tmp_path / "own.py"), *out, "--json"]
        return CliRunner().invoke(simfl, words)

    return call


@pytest.mark.parametrize("says", ["false", "true"])
def test_a_protocol_that_rounds_says_its_step_where_noise_rests_on_the_sum(call, says):
    learning = "learning={data: digits, model: logistic}"
    done = call("run", COARSE, learning, f"secagg={{name: coarse, says: {says}}}", "privacy.stages=[central_gaussian]")
    assert done.exit_code == (1 if says == "false" else 0), done.output
    assert ("say its step" in done.output) == (says == "false")


def test_a_protocol_that_does_not_say_that_its_sums_cannot_wrap_has_no_noise_of_the_server(call):
    """Also where it names no field: it may compute modulo anything."""
    keys = "learning={data: digits, model: logistic}", "secagg={name: unsaid, says: true}"
    for noise, code in (("privacy.stages=[central_gaussian]", 2), ("privacy.stages=[local_gaussian]", 0)):
        done = call("run", COARSE.replace('    moves_sums = ""\n', "").replace('"coarse"', '"unsaid"'), *keys, noise)
        assert done.exit_code == code, done.output
        assert ("noises a sum that may wrap by one update (secagg: unsaid)" in done.output) == bool(code)


@pytest.mark.parametrize(("moves", "strong"), [("true", 1), ("false", 3)])
def test_theory_asks_the_rows_of_a_policy_of_a_plugin(call, moves, strong):
    known = json.loads(call("theory", PEEK, f"selection={{name: moving, k: 3, moves: {moves}}}").stdout)
    assert known["guarantee"]["strong"] == strong
    assert bool(known["withdrawn"]) == (strong == 1)


@pytest.mark.parametrize(("secagg", "least"), [("plain", 1), ("ideal", 3)])
def test_whoever_computes_a_guarantee_of_sums_it_is_1_where_updates_are_seen(call, secagg, least):
    done = call("run", SMALLEST, "privacy=smallest", f"secagg={secagg}")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["privacy_strong"] == least
