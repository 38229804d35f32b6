"""A plugin that gives a value of a wrong type or shape ends the run in one line that names it."""

from dataclasses import dataclass

import pytest
from click.testing import CliRunner

from simfl.cli import simfl as command
from simfl.core.registration.family_index import FAMILIES, suspect
from simfl.metrics.base import Metric
from tests.plugins.test_loading import forgotten  # noqa: F401  # what a test registers is gone after it

HEAD = """
from dataclasses import dataclass
import numpy as np
from simfl.plugins import Aggregate
from simfl.plugins.attacks import OBSERVERS
from simfl.plugins.clients import CLIENTS, PERSONAL, LocalPass, LocalResult, Upload
from simfl.plugins import Column
from simfl.plugins.devices import AVAILABILITY, Available
from simfl.plugins.figures import figure
from simfl.plugins.metrics import METRICS, Metric
from simfl.plugins.privacy import STAGES
from simfl.plugins.selection import POLICIES
from simfl.plugins.secagg import PROTOCOLS, PhaseRequest, PreparedUnits, Protocol, SessionResult
from simfl.plugins.servers import SERVERS, OwnModelsServer
from simfl.plugins.topology import TOPOLOGIES, GossipTopology, Tree
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
METRIC = '''
@METRICS("wrong")
@dataclass(frozen=True)
class Wrong(Metric):
    """Gives something wrong."""

    columns = (Column("clients_now", "Clients", "count", "Clients now."),)

    def start(self, clients, dimension):
        return {}

    def after(self, snapshot, state):
        return {"clients_now": len(snapshot.clients)}, state
'''
POLICY = '''
@POLICIES("wrong")
@dataclass(frozen=True)
class Wrong:
    """Gives something wrong."""

    k: int = 4

    unit_size = 1

    def family(self, clients):
        return None

    def start(self, clients):
        return {"turn": np.zeros(1)}

    def observe(self, view, summed):
        return {"turn": view.state["turn"]}

    def select(self, view, k, rng):
        return np.arange(k, dtype=np.int32).reshape(-1, 1)
'''
EDGES = '''
@TOPOLOGIES("wrong")
@dataclass(frozen=True, kw_only=True)
class Wrong(Tree):
    """Gives something wrong."""

    edges: int = 2

    def groups(self, clients, streams):
        return (np.arange(2), np.arange(2, 4))
'''
GRAPH = '''
@TOPOLOGIES("wrong")
@dataclass(frozen=True, kw_only=True)
class Wrong(GossipTopology):
    """Gives something wrong."""

    def neighbours(self, clients, streams):
        return tuple(np.array([(i + 1) % clients]) for i in range(clients))
'''
GOSSIP = "topology=wrong", "training={name: gossip, rounds: 1, batch_size: null}"
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
    ("secagg=wrong", PROTOCOL, ('phases = ("keys",)', 'phases = ("shares",)'),
     "secagg 'wrong': prepare asks in a phase 'keys', which its `phases` (shares) do not name"),
    ("secagg=wrong", PROTOCOL, ("cohort.units.ravel())", "np.array([4]))"),
     "secagg 'wrong': prepare asks [4]; clients are 0 to 3"),
    ("secagg=wrong", PROTOCOL, ("cohort.units.ravel())", "cohort.units)"),
     "secagg 'wrong': what prepare asks as to must be an array of shape (any,), not int32 of shape (4, 1)"),
    ("secagg=wrong", PROTOCOL, ("cohort.units.ravel())", "cohort.units.ravel(), up_bytes=-1)"),
     "secagg 'wrong': prepare asks with up_bytes -1; it must be finite, 0 or more"),
    ("secagg=wrong", PROTOCOL, ("cohort.units.ravel())", "cohort.units.ravel(), up_bytes='1')"),
     "secagg 'wrong': prepare asks with str; up_bytes must be a number or 4 numbers"),
    ("secagg=wrong", PROTOCOL, ("updates.clients,", "updates.clients[:1],"),
     "secagg 'wrong': what add gives as clients must be an array of shape (4,), not int32 of shape (1,)"),
    ("privacy.stages=[wrong]", STAGE, ("return vector, state", "return vector[:3], state"),
     "stage 'wrong': what server gives as vector must be an array of shape (650,), not float32 of shape (3,)"),
    ("privacy.stages=[wrong]", STAGE, ("return vector, state", "return vector, 3"),
     "stage 'wrong': server must give arrays by name, not int"),
    ("metrics=[wrong]", METRIC, ("}, state", "}"),
     "metric 'wrong': after must give tuple[Mapping[str, float or None], dict[str, Any]], not dict"),
    ("metrics=[wrong]", METRIC, ("}, state", "}, 3"),
     "metric 'wrong': after must give tuple[Mapping[str, float or None], dict[str, Any]], "
     "not tuple[dict[str, int], int]"),
    ("metrics=[wrong]", METRIC, ("return {}\n", "return None\n"),
     "metric 'wrong': start must give dict[str, Any], not NoneType"),
    ("selection=wrong", POLICY, ('return {"turn": np.zeros(1)}', "return 3"),
     "selection 'wrong': start must give dict[str, Any], not int"),
    ("selection=wrong", POLICY, ('view.state["turn"]', "view"),
     "selection 'wrong': observe must give arrays by name, and gives View as 'turn'"),
    ("selection=wrong", POLICY, ("return None", "return 3"),
     "selection 'wrong': family must give a family of rows or None, not int"),
    ("topology=wrong", EDGES, ("(np.arange(2), np.arange(2, 4))", "None"),
     "topology 'wrong': groups must give a tuple of arrays of clients, not NoneType"),
    ("topology=wrong", EDGES, ("(np.arange(2), np.arange(2, 4))", "([0, 1], [2, 3])"),
     "topology 'wrong': groups must give arrays of clients, int32 (n,), not list"),
    ("topology=wrong", EDGES, ("(np.arange(2), np.arange(2, 4))", "(np.arange(3), np.arange(2, 4))"),
     "topology 'wrong': groups must give each of the 4 clients to one edge; client 2 has 2 edges"),
    ("topology=wrong", EDGES, ("(np.arange(2), np.arange(2, 4))", "(np.arange(2), np.arange(2, 3))"),
     "topology 'wrong': groups must give each of the 4 clients to one edge; client 3 has 0 edges"),
    ("topology=wrong", EDGES, ("(np.arange(2), np.arange(2, 4))", "(np.arange(4), np.arange(0))"),
     "topology 'wrong': groups gives edge 1 no clients"),
    ("topology=wrong", EDGES, ("(np.arange(2), np.arange(2, 4))", "(np.arange(2), np.arange(2, 5))"),
     "topology 'wrong': groups must give clients from 0 to 3, ascending and each once, not [2, 3, 4]"),
    ("topology=wrong", EDGES, ("(np.arange(2), np.arange(2, 4))", "(np.array([1, 0]), np.arange(2, 4))"),
     "topology 'wrong': groups must give clients from 0 to 3, ascending and each once, not [1, 0]"),
    ("topology=wrong", EDGES, ("(np.arange(2), np.arange(2, 4))", "(np.array([0, 0, 1]), np.arange(2, 4))"),
     "topology 'wrong': groups must give clients from 0 to 3, ascending and each once, not [0, 0, 1]"),
    ("topology=wrong", EDGES, ("(np.arange(2), np.arange(2, 4))", "(np.arange(-1, 2), np.arange(2, 4))"),
     "topology 'wrong': groups must give clients from 0 to 3, ascending and each once, not [-1, 0, 1]"),
    (GOSSIP, GRAPH, ("[(i + 1) % clients]", "[99]"),
     "topology 'wrong': neighbours must give clients from 0 to 3, ascending and each once, not [99]"),
    (GOSSIP, GRAPH, ("[(i + 1) % clients]", "[i]"),
     "topology 'wrong': neighbours must give an array for each of 4 clients, of others than itself"),
    (GOSSIP, GRAPH, ("range(clients)", "range(3)"),
     "topology 'wrong': neighbours must give an array for each of 4 clients, of others than itself"),
    (GOSSIP, GRAPH, ("[(i + 1) % clients]", "[0.5]"),
     "topology 'wrong': neighbours must give arrays of clients, int32 (n,), not float64 of shape (1,)"),
    ("devices.availability=wrong", AVAILABLE, ("dropout = None", "dropout = np.full(4, 2.0)"),
     "availability 'wrong': its dropout must give shares from 0 to 1, not 2"),
    ("privacy.stages=[wrong]", STAGE, ("return vectors", "return vectors[0]"),
     "stage 'wrong': what client gives must be an array of shape (4, 650), not float32 of shape (650,)"),
    ("privacy.stages=[wrong]", STAGE, ("return vectors", "return vectors / np.zeros((1, 1), np.float32)"),
     "stage 'wrong': client makes numbers that are not finite of updates that are"),
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
     "training 'wrong': check must give list[tuple[str, str]], not list[str]"),
]  # fmt: skip


LISTED = "[np.arange(2), np.arange(2, 4)]"
REFUSED = [
    (POLICY, ("select(self, view, k, rng)", "select(self, view, k)"),
     "selection 'wrong': select is called with (view, k, rng): too many positional arguments"),
    (POLICY, ("select(self, view, k, rng)", "select(self, view, k, rng, more)"),
     "selection 'wrong': select is called with (view, k, rng): missing a required argument: 'more'"),
    (POLICY, ("def observe", "def observes"),
     "selection 'wrong': simfl does not read 'observes'; did you mean 'observe'? else call it '_observes'"),
    (POLICY, ("unit_size = 1", "unit_size = 1\n    reads = 'loss'"),
     "selection 'wrong': reads must be frozenset[str], not 'loss'"),
    (POLICY, ("    unit_size = 1\n", ""),
     "selection 'wrong' lacks unit_size; simfl.plugins.selection.Policy says what that is"),
    (PROTOCOL, ('phases = ("keys",)', 'phases = "keys"'), "secagg 'wrong': phases must be tuple[str, ...], not 'keys'"),
    (PROTOCOL, ('phases = ("keys",)', 'phases = ("keys",)\n    covers = frozenset({"updates"})'),
     "secagg 'wrong': covers must be frozenset['update' or 'array' or 'mask' or 'levels' or 'model' or 'score' or "
     "'samples' or 'count' or 'departure'], not frozenset({'updates'})"),
    (METRIC, ('"Clients now."),)', '"Clients now."))'),
     "metric 'wrong': columns must be tuple[Column, ...], not Column(name='clients_now', heading='Clients', "
     "unit='count', sentence='Clients now.', better=0, final='last', source='', shown=True, words='', observer='', "
     "protects='', assumes='')"),
    (STAGE, ("    def client", "    adds_noise = 'client'\n\n    def client"),
     "stage 'wrong': adds_noise must be Noise or None, not 'client'"),
    (EDGES, ("clients, streams", "clients"),
     "topology 'wrong': groups is called with (clients, streams): too many positional arguments"),
    (AVAILABLE, ("draw(self, round, now_s)", "draw(self, round)"),
     "Built: draw is called with (round, now_s): too many positional arguments"),
    (POLICY, ("@POLICIES", "figure('wrong', 'W', 'Time')(lambda: None)\n\n@POLICIES"),
     "figure 'wrong': its function is called with (study): too many positional arguments"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "change", "message"), REFUSED)
def test_what_simfl_cannot_call_is_refused_when_the_file_is_read(tmp_path, code, change, message):
    assert code.count(change[0]) == 1
    (tmp_path / "wrong.py").write_text(HEAD + code.replace(*change))
    done = CliRunner().invoke(command, ["validate", str(tmp_path / "wrong.py")])
    assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1
    assert "wrong.py: does not load: " in done.stderr and done.stderr.endswith(f"TypeError: {message}\n")


def test_an_availability_whose_example_needs_another_scenario_is_not_refuted(tmp_path):
    assert AVAILABLE.count("return Built()") == 1
    needs = AVAILABLE.replace("return Built()", "raise ScenarioError('network', 'has no names')")
    (tmp_path / "wrong.py").write_text(HEAD + "from simfl.plugins.values import ScenarioError\n" + needs)
    done = CliRunner().invoke(command, ["validate", str(tmp_path / "wrong.py")])
    assert done.exit_code == 0 and "cannot be played" not in done.output


def test_a_graph_may_be_written(tmp_path):
    assert play(tmp_path, GOSSIP, GRAPH).exit_code == 0


def test_edges_may_be_a_list_of_arrays(tmp_path):
    assert play(tmp_path, "topology=wrong", EDGES.replace("(np.arange(2), np.arange(2, 4))", LISTED)).exit_code == 0


@pytest.mark.parametrize("kept", [False, True])
def test_who_is_there_after_a_resume_is_played(tmp_path, kept):
    draws = "self.turns = (self.turns + 1) % 4\n        return np.arange(8) % 4 == self.turns"
    turns = AVAILABLE.replace("return np.ones(4, bool)", draws)
    turns = turns.replace("dropout = None", "dropout = None\n    turns = np.array(0)")
    if kept:
        turns = turns.replace("return {}", "return {'turns': self.turns}")
        turns = turns.replace("pass\n", "self.turns = state['turns']\n")
    (tmp_path / "wrong.py").write_text(HEAD + turns)
    done = CliRunner().invoke(command, ["validate", str(tmp_path / "wrong.py")])
    assert done.exit_code == (0 if kept else 2)
    assert ("draw depends on earlier rounds by what state() does not hold" in done.stderr) is not kept


def test_an_error_that_no_check_foresees_names_the_plugin_at_hand():
    registry = FAMILIES["metric"]

    @registry("at_hand")
    @dataclass(frozen=True)
    class AtHand(Metric):
        """Gives something wrong."""

    def use(metric):
        return metric.after(None, {})[2]

    with pytest.raises(IndexError) as caught:
        use(AtHand())
    assert suspect(caught.value).startswith(
        ", perhaps by what metric 'at_hand' gives: return metric.after(None, {})[2]"
    )


def play(folder, choice, code):
    (folder / "wrong.py").write_text(HEAD + code)
    (folder / "small.yaml").write_text(SMALL)
    choices = [choice] if isinstance(choice, str) else choice
    arguments = ["run", folder / "small.yaml", *choices, "--plugin", folder / "wrong.py", "--out", folder / "r"]
    return CliRunner().invoke(command, list(map(str, arguments)))


@pytest.mark.parametrize(("choice", "code", "change", "message"), CASES)
def test_a_wrong_answer_names_its_plugin(tmp_path, choice, code, change, message):
    assert code.count(change[0]) == 1
    done = play(tmp_path, choice, code.replace(*change))
    assert done.exit_code == 1 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(message.replace("{file}", str(tmp_path / "wrong.py")))


def test_columns_that_nothing_fills_are_refused(tmp_path):
    done = play(tmp_path, "metrics=[wrong]", METRIC.replace("def after", "def each_round"))
    why = "has columns that nothing fills; its class needs the method after"
    assert (done.exit_code, done.stderr) == (2, f"override metrics=[wrong]: metrics.0: {why}\n")


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
