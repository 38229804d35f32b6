"""A plugin that gives a value of a wrong type or shape ends the run in one line that names it."""

import pytest
from click.testing import CliRunner

from simfl.cli import simfl as command
from tests.plugins.test_loading import forgotten  # noqa: F401  # what a test registers is gone after it

HEAD = """
from dataclasses import dataclass
import numpy as np
from simfl.plugins import Aggregate
from simfl.plugins.attacks import OBSERVERS
from simfl.plugins.clients import CLIENTS, PERSONAL, LocalPass, LocalResult, Upload
from simfl.plugins.devices import AVAILABILITY, Available
from simfl.plugins.privacy import STAGES
from simfl.plugins.secagg import PROTOCOLS, PhaseRequest, PreparedUnits, Protocol, SessionResult
from simfl.plugins.servers import SERVERS, OwnModelsServer
from simfl.plugins.training import RULES, SgdRule

"""
PROTOCOL = '''
@PROTOCOLS("wrong")
@dataclass(frozen=True)
class Wrong(Protocol):
    """Gives something wrong."""
    phases = ("keys",)

    def prepare(self, cohort, streams):
        came = yield PhaseRequest("keys", cohort.units.ravel())
        return PreparedUnits(came)

    def recover(self, cohort, uploaded, prepared, streams):
        return SessionResult(uploaded.all(axis=1))
        yield

    def add(self, result, updates, streams):
        return Aggregate(updates.vectors.sum(axis=0), updates.clients, updates.row)
'''
STAGE = '''
@STAGES("wrong")
@dataclass(frozen=True)
class Wrong:
    """Gives something wrong."""

    def client(self, vectors, jobs, state, streams):
        return vectors

    def server(self, vector, members, state, streams):
        return vector, state
'''
ATTACK = '''
@OBSERVERS("wrong")
@dataclass(frozen=True)
class Wrong:
    """Gives something wrong."""

    def observe(self, seen, state, streams):
        return seen.read, state

    def error(self, guess, truth):
        return {"distance": 1.0}
'''
CLIENT = '''
@PERSONAL("wrong")
@dataclass(frozen=True)
class Wrong:
    """Gives something wrong."""

    def end(self, context, local_pass, delta, steps, rate):
        return LocalResult(Upload(delta))

    def personal(self, model, state):
        return model
'''
AVAILABLE = '''
@AVAILABILITY("wrong")
@dataclass(frozen=True)
class Wrong:
    """Gives something wrong."""

    def build(self, setting, streams, names=None):
        return Built()


class Built(Available):
    dropout = None

    def draw(self, round, now_s):
        return np.ones(4, bool)

    def state(self):
        return {}

    def restore(self, state):
        pass
'''
PEERS = '''
@SERVERS("wrong_peers")
@dataclass(eq=False)
class Server(OwnModelsServer):
    """Gives something wrong."""

    def round(self, t):
        yield self.world.wait(1.0)
        return self.aggregate_neighbours(self.jobs(t), {0: [0, 1]})


@RULES("wrong")
@dataclass(frozen=True, kw_only=True)
class Wrong(SgdRule):
    """Gives something wrong."""

    server = "wrong_peers"
    own_models = many_aggregators = True
'''
SMALL = """\
name: small
clients: 4
devices: {computation: 0.1}
selection: all
training: {name: fedavg, rounds: 1, batch_size: null, weighting: equal}
learning: {data: digits, model: logistic, evaluate: {per_client: true}}
"""
CASES = [
    ("secagg=wrong", PROTOCOL, ('came = yield PhaseRequest("keys", cohort.units.ravel())', "came = np.ones(4, bool)"),
     "secagg 'wrong': prepare must give a generator that yields phases, not PreparedUnits"),
    ("secagg=wrong", PROTOCOL, ('yield PhaseRequest("keys", cohort.units.ravel())', 'yield "keys"'),
     "secagg 'wrong': prepare must give a PhaseRequest with every yield, not str"),
    ("secagg=wrong", PROTOCOL, ("return SessionResult(uploaded.all(axis=1))", "return uploaded"),
     "secagg 'wrong': recover must give SessionResult or SessionFailure in the end, not bool of shape (4, 1)"),
    ("secagg=wrong", PROTOCOL, ("uploaded.all(axis=1)", "uploaded.all(axis=0)"),
     "secagg 'wrong': what recover gives as kept_units must be an array of shape (4,), not bool of shape (1,)"),
    ("secagg=wrong", PROTOCOL, ("Aggregate(updates.vectors.sum(axis=0), updates.clients, updates.row)", "updates.row"),
     "secagg 'wrong': add must give Aggregate, not int64 of shape (4,)"),
    ("secagg=wrong", PROTOCOL, ("updates.vectors.sum(axis=0)", "updates.vectors.sum(axis=1)"),
     "secagg 'wrong': what add gives as vector must be an array of shape (650,), not float32 of shape (4,)"),
    ("privacy.stages=[wrong]", STAGE, ("return vectors", "return vectors[0]"),
     "stage 'wrong': what client gives must be an array of shape (4, 650), not float32 of shape (650,)"),
    ("privacy.stages=[wrong]", STAGE, ("return vector, state", "return vector"),
     "stage 'wrong': server must give (vector, state), not float32 of shape (650,)"),
    ("attacks=[wrong]", ATTACK, ("seen.read, state", "seen.read"),
     "attack 'wrong': observe must give tuple[Any, dict[str, Any]], not float32 of shape (650,)"),
    ("attacks=[wrong]", ATTACK, ('{"distance": 1.0}', "1.0"),
     "attack 'wrong': error must give Mapping[str, float], not float"),
    ("training.personal=wrong", CLIENT, ("LocalResult(Upload(delta))", "Upload(delta)"),
     "personal 'wrong': end must give LocalResult or LocalPass, not Upload"),
    ("training.personal=wrong", CLIENT, ("Upload(delta)", "delta"),
     "personal 'wrong': end must give LocalResult or LocalPass, not LocalResult with upload = float32 of shape (650,)"),
    ("training.personal=wrong", CLIENT, ("return model", "return 3"),
     "wrong.py.Wrong: what personal gives must be an array of shape (650,), not int"),
    ("training.personal=wrong", CLIENT,
     ("return LocalResult(Upload(delta))",
      "return LocalResult(Upload(delta)) if local_pass.memo else LocalPass(local_pass.start, memo='again')"),
     "wrong.py.Wrong: makes the rule's epochs 2 times, and `passes` says at most 1"),
    ("training.personal=wrong", CLIENT, ("class Wrong:", "class Wrong:\n    dense, sized_by_training = False, True\n"),
     "wrong.py.Wrong: is `sized_by_training`, so that a message's size or time tells of its client's samples; declare "
     "in `sends` what it tells"),
    ("devices.availability=wrong", AVAILABLE, ("np.ones(4, bool)", "np.ones(4)"),
     "wrong.py.Built: draw must give bool of shape (4,), not float64 of shape (4,)"),
    ("devices.availability=wrong", AVAILABLE, ("dropout = None", "pass"),
     "plugin availability 'wrong' failed: {file}: 'Built' object has no attribute 'dropout'"),
    ("training={name: wrong, rounds: 1}", PEERS, ("own_models = many_aggregators", "own_models"),
     "training 'wrong': its server 'wrong_peers' has a model in every client; the rule must say "
     "own_models = many_aggregators = True"),
    ("training={name: wrong, rounds: 1}", PEERS, ("own_models = many_aggregators", "many_aggregators"),
     "training 'wrong': its server 'wrong_peers' has a model in every client; the rule must say "
     "own_models = many_aggregators = True"),
    ("training={name: wrong, rounds: 1}", PEERS, ("{0: [0, 1]}", "{0: [1, 0]}"),
     "server 'wrong_peers': the neighbours of client 0 must be ascending, not [1, 0]"),
    ("training={name: wrong, rounds: 1}", PEERS, ("        yield self.world.wait(1.0)\n", ""),
     "server 'wrong_peers': round must give a generator that waits with yield, not RoundResult"),
    ("training={name: wrong, rounds: 1}", PEERS, ("return self.agg", "self.agg"),
     "server 'wrong_peers': round must give what aggregate returns, not NoneType"),
    ("training={name: wrong, rounds: 1}", PEERS, ('server = "wrong_peers"', 'server = "peers"'),
     "training 'wrong': server is 'peers', and no server has that name "),
    ("training={name: wrong, rounds: 1}", PEERS,
     ("    own_models", "    def check(self, setting):\n        return ['no']\n\n    own_models"),
     "training 'wrong': check must give list[tuple[str, str]], not list of str"),
]  # fmt: skip


def play(folder, choice, code):
    (folder / "wrong.py").write_text(HEAD + code)
    (folder / "small.yaml").write_text(SMALL)
    arguments = ["run", folder / "small.yaml", choice, "--plugin", folder / "wrong.py", "--out", folder / "r"]
    return CliRunner().invoke(command, list(map(str, arguments)))


@pytest.mark.parametrize(("choice", "code", "change", "message"), CASES)
def test_a_wrong_answer_names_its_plugin(tmp_path, choice, code, change, message):
    assert code.count(change[0]) == 1
    done = play(tmp_path, choice, code.replace(*change))
    assert done.exit_code == 1 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(message.replace("{file}", str(tmp_path / "wrong.py")))


def test_an_unknown_server_is_refused_when_the_scenario_is_checked(tmp_path):
    (tmp_path / "wrong.py").write_text(HEAD + PEERS.replace('server = "wrong_peers"', 'server = "peers"'))
    (tmp_path / "small.yaml").write_text(SMALL)
    words = [tmp_path / "small.yaml", "training={name: wrong, rounds: 1}", "--plugin", tmp_path / "wrong.py"]
    checked = CliRunner().invoke(command, ["validate", *map(str, words)])
    assert checked.exit_code == 2 and len(checked.stderr.splitlines()) == 1
    assert "training: training 'wrong': server is 'peers', and no server has that name (" in checked.stderr
    assert "buffered" in checked.stderr and "wrong_peers" in checked.stderr


@pytest.mark.parametrize(("choice", "code"), dict.fromkeys(case[:2] for case in CASES))
def test_without_the_mistake_it_runs(tmp_path, choice, code):
    assert play(tmp_path, choice, code).exit_code == 0
