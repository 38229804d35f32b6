"""What learnings, stages, protocols and servers of plugins leave unsaid improves no number."""

import pytest

from tests.plugins.conftest import HEAD
from tests.support import forked

GUARDED = """clients: 12
selection: {name: batch_partition, k: 6, T: 3}
training: {name: fedavg, rounds: 4, weighting: equal, batch_size: 50}
learning: {data: digits, model: logistic}
secagg: secagg
"""
NOISY = """clients: 6
selection: all
training: {name: fedavg, rounds: 2, weighting: equal, batch_size: 50}
learning: {data: digits, model: logistic}
secagg: ideal
privacy: {stages: [{name: central_gaussian, clip_norm: 1, noise_multiplier: 4}], accountants: [zero_out]}
"""
POINTS = '''
from simfl.plugins import Job, Updates
from simfl.plugins.learning import LEARNING, IdleLearner
from simfl.learning.base import Sizes

@LEARNING("points")
@dataclass(frozen=True)
class Points:
    """Points that pull the model towards themselves."""
    evaluate_every = 0
    counts_change = False
    everybody_holds_samples = True
    SAYS
    def build(self, setting, streams):
        points = streams("points").normal(size=(setting.clients, 40)).astype(np.float32)
        return Learner(160, np.ones(setting.clients, np.int64), points)

@dataclass
class Alone:
    points: np.ndarray
    sizes: Sizes
    def best(self, responded):
        return 0
    def start_from(self, client):
        return self.points[client].copy()

@dataclass
class Learner(IdleLearner):
    points: np.ndarray = None
    def __post_init__(self):
        self.dimension, self.models, self.sizes_vary = 40, {}, VARY
    def initial(self):
        return np.zeros(40, np.float32)
    def put(self, version, model):
        self.models[version] = model
    def get(self, version):
        return self.models[version]
    def pretrain(self):
        return PRETRAIN
    def sizes(self, jobs):
        return Sizes(160, np.full(len(jobs), 160), np.ones(len(jobs))) if self.sizes_vary else Sizes(160, 160)
    def train(self, jobs):
        way = np.stack([self.points[job.client] - self.models[job.version] for job in jobs]) / 2
        way = way - MIX * way.mean(axis=0)
        return Updates(way, np.ones(len(jobs), np.int64), np.square(way).sum(axis=1).astype(float))
'''


def points(says="pass", pretrain="None", vary="False", mix="0"):
    return POINTS.replace("SAYS", says).replace("PRETRAIN", pretrain).replace("VARY", vary).replace("MIX", mix)


@pytest.mark.parametrize("mix", ["0", "2"])
def test_a_learning_has_to_say_that_it_does_not_mix_clients(play, mix):
    """Mixed or not: nothing is known of what says nothing."""
    done, summary = play(points(mix=mix), "learning=points", base=NOISY)
    assert done.exit_code == 0 and summary["epsilon_max"] is None and summary["privacy_semi_strong"] == 1
    if mix == "0":
        done, summary = play(points("per_client = True"), "learning=points", base=NOISY)
        assert summary["epsilon_max"] > 0 and summary["privacy_semi_strong"] == 6
    done, known = play(points(mix=mix), "learning=points", base=GUARDED, command="theory")
    assert done.exit_code == 0 and known["guarantee"]["semi_strong"] == 1, known


def test_a_learning_whose_clients_train_alone_first_has_to_declare_what_they_send(play):
    done, _ = play(points("per_client = True", pretrain="Alone(self.points, Sizes(160, 160))"), "learning=points",
                   base=GUARDED)  # fmt: skip
    assert (
        done.exit_code == 1 and "trains alone" not in done.output and "pretrain has clients train alone" in done.output
    )


def test_an_algorithm_whose_clients_train_alone_first_has_no_guarantee(play):
    warm = '''
@CLIENTS("warm")
@dataclass(frozen=True)
class Warm(ClientAlgorithm):
    """Everybody trains alone before."""
    needs_rounds = True
    needs_server = True
    def pretraining(self):
        return 1, self
'''
    done, _ = play(warm, "training.client=warm", base=GUARDED, command="theory")
    assert done.exit_code == 2 and "warm sends the model that it has trained alone, which secagg" in done.output
    done, known = play(warm, "training.client=warm", "secagg=plain", base=GUARDED, command="theory")
    assert "the model that it has trained alone" in str(known)


def test_a_learning_whose_messages_vary_has_to_declare_what_they_tell(play):
    done, _ = play(points("per_client = True", vary="True"), "learning=points", base=GUARDED)
    assert done.exit_code == 1 and "sizes_vary" in done.output


@pytest.mark.parametrize("spread", [0.008, 5e-4])
def test_no_protocol_may_weigh_updates_otherwise_than_it_says(play, spread):
    """Rows that differ a little tell as much as any others."""
    trust = f'''
@PROTOCOLS("trust")
@dataclass(frozen=True)
class Trust(Protocol):
    """Each update times a score of the day."""
    shows_updates = False
    covers = frozenset({{"update", "samples"}})
    def recover(self, cohort, uploaded, prepared, streams):
        return SessionResult(np.asarray(uploaded.all(axis=1)))
        yield
    def add(self, result, updates, streams):
        scores = 1 + {spread} * (streams("trust", updates.jobs[0].version).random(1000)[updates.clients] - 0.5)
        vectors = updates.vectors * scores[:, None]
        vector = updates.combine(vectors, updates.weights, updates.divisor(updates.weights), updates.mask)
        return Aggregate(vector.astype(np.float32), updates.clients, updates.row)
'''
    done, _ = play(trust, "secagg=trust", base=GUARDED)
    assert done.exit_code == 1 and "off the weighted sum" in done.output


WHOLE = '''
@PROTOCOLS("whole")
@dataclass(frozen=True)
class Whole(Protocol):
    """Adds whole numbers."""
    shows_updates = False
    covers = frozenset({"update", "samples"})
    field = 2**61 - 1
    def recover(self, cohort, uploaded, prepared, streams):
        return SessionResult(np.asarray(uploaded.all(axis=1)))
        yield
    def add(self, result, updates, streams):
        total = (updates.vectors.astype(np.int64) * FACTORS[: len(updates.clients), None]).sum(axis=0)
        return Aggregate((total / updates.divisor(updates.weights)).astype(np.float32), updates.clients, updates.row)
'''


@pytest.mark.parametrize("factors", ["np.arange(1, 13)", "np.ones(12, np.int64)"])
def test_sums_of_whole_numbers_are_looked_at_too(play, factors):
    skellam = "privacy={stages: [{name: skellam, clip_norm: 1, noise_multiplier: 4}], accountants: [zero_out]}"
    done, summary = play(f"FACTORS = {factors}\n" + WHOLE, "secagg=whole", skellam, base=GUARDED)
    if "ones" in factors:
        assert done.exit_code == 0 and summary["epsilon_max"] > 0, done.output
    else:
        assert done.exit_code == 1 and "off the weighted sum" in done.output


MEMORY = '''
@STAGES("memory")
@dataclass(frozen=True)
class Memory(Stage):
    """Clients send by how much they differ from what was summed last."""
    SAYS
    maps = (PerClient(), Clip(1.0))
    server_maps = ()
    def start(self, dimension):
        return {"last": np.zeros(dimension, np.float32)}
    def client(self, vectors, jobs, state, streams):
        REMEMBER
        return Clip(1.0).apply((vectors - state["last"]).astype(np.float32))
    def server(self, vector, members, state, streams):
        return vector, KEPT
'''


@pytest.mark.parametrize(("first", "ends"), [("central_gaussian", True), ("memory", False)])
def test_a_stage_keeps_nothing_of_a_sum_to_which_noise_is_yet_to_come(play, first, ends):
    keeping = MEMORY.replace("SAYS", "pass").replace("REMEMBER", "pass").replace("KEPT", '{"last": vector.copy()}')
    stages = sorted(["central_gaussian", "memory"], key=lambda name: name != first)
    done, _ = play(keeping, f"privacy.stages=[{', '.join(stages)}]", base=NOISY)
    assert done.exit_code == ends and ("public_state" in done.output) == ends, done.output
    same = keeping.replace('{"last": vector.copy()}', "state")
    assert play(same, f"privacy.stages=[{', '.join(stages)}]", base=NOISY)[0].exit_code == 0
    hidden = same.replace("pass\n        return", 'state["last"] += vectors.mean(axis=0)\n        return')
    done, _ = play(hidden, f"privacy.stages=[{', '.join(stages)}]", base=NOISY)
    assert done.exit_code == 1 and "read-only" in done.output, "nor may it be kept on the way"


FIXED = '''
from simfl.plugins import Address, Job
from simfl.plugins.servers import SERVERS, RoundServer, exchange, sample_delays, work

@SERVERS("fixed")
@dataclass(eq=False)
class Fixed(RoundServer):
    """Its jobs have the same numbers in every round."""
    counts_unsummed = True
    def round(self, t):
        clients = np.arange(4, dtype=np.int32)
        jobs = [Job.of(0, int(client), t, self.world.now) for client in clients]
        where = Address(t, clients, self.parts.clients)
        request, delays = (work(self.parts, clients, where, self.parts.learner.sizes(jobs)), None)
        one = exchange(request, sample_delays(self.parts, request, where), self.world.now)
        yield self.world.until(one.ends_s)
        self.accounts.add_exchange(one)
        return self.aggregate(jobs, SessionResult(np.ones(4, bool)))

@RULES("fixed")
@dataclass(frozen=True, kw_only=True)
class FixedRule(FedAvg):
    """Its rule."""
    server = "fixed"
'''


def test_numbers_of_jobs_are_remembered_where_a_run_goes_on(tmp_path):
    """A run that has failed goes on from its checkpoint when it is called again."""
    (tmp_path / "base.yaml").write_text(GUARDED.replace("secagg: secagg", "secagg: ideal"))
    (tmp_path / "fixed.py").write_text(HEAD + FIXED)
    words = ["run", "base.yaml", "training.name=fixed", "--plugin", "fixed.py", "--out", "runs"]
    for _ in range(4):
        done = forked.simfl(*words, cwd=tmp_path)
        assert done.returncode == 1 and "two jobs one number" in done.stderr, done.stderr
    assert list(tmp_path.glob("runs/*/*/checkpoint*")) and not list(tmp_path.glob("runs/*/*/summary.json"))


def test_a_server_cannot_use_the_masks_of_a_sum_again(play):
    """Masks are drawn by a sum's number: the difference of two masked updates of one number is that of the updates."""
    again = MINE.replace(
        "SAYS",
        """counts_unsummed = follows_policy = True
    def recover(self, t, units, arrived, prepared):
        return (yield from super().recover(t % 2, units, arrived, prepared))""",
    )
    done, _ = play(again, "training.name=mine", base=GUARDED)
    assert done.exit_code == 1 and "gives two sums one number" in done.output
    done, _ = play(again.replace("t % 2", "t"), "training.name=mine", base=GUARDED)
    assert done.exit_code == 0, done.output


def test_a_server_that_says_so_asks_clients_for_nothing_else(play):
    """Losses of single clients tell of their data what no sum and no noise covers."""
    asks = MINE.replace(
        "SAYS",
        """counts_unsummed = SAYS
    def prepare(self, t, units):
        from simfl.agents.aggregation.policy_queries import question
        yield from self.gather(question(self.parts, t, units.ravel()), t, "/ask")
        return (yield from super().prepare(t, units))""",
    )
    done, _ = play(asks.replace("SAYS", "True"), "training.name=mine", base=GUARDED)
    assert done.exit_code == 1 and "asks clients for 'ask', which no policy needs" in done.output
    done, known = play(asks.replace("SAYS", "False"), "training.name=mine", base=GUARDED)
    assert done.exit_code == 0 and known["privacy_strong"] == 1, done.output


SERVER = FIXED.replace("Job.of(0,", "Job.of(t,").replace("    counts_unsummed = True", "    SAYS")


MINE = '''
from simfl.agents.synchronous import SynchronousServer
from simfl.plugins.servers import SERVERS

@SERVERS("mine")
@dataclass(eq=False)
class Mine(SynchronousServer):
    """Does something else before the first round."""
    SAYS
    def start(self):
        super().start()

@RULES("mine")
@dataclass(frozen=True, kw_only=True)
class MineRule(FedAvg):
    """Its rule."""
    server = "mine"
'''


@pytest.mark.parametrize("says", ["counts_unsummed = True", "counts_unsummed = follows_policy = True"])
def test_a_server_that_does_not_say_whom_it_asks_has_no_guarantee_for_other_rounds(play, says):
    words = "training.name=mine", "secagg=ideal"
    done, known = play(MINE.replace("SAYS", says), *words, base=GUARDED, command="theory")
    assert done.exit_code == 0, done.output
    assert known["guarantee"]["semi_strong"] == (3 if "follows" in says else 1)


def test_no_noise_is_said_to_be_enough_beside_a_server_that_counts_nothing(play):
    plugin = SERVER.replace("SAYS", "pass")
    done, _ = play(plugin, "training.name=fixed", "--epsilon", "3", base=NOISY, command="theory")
    assert done.exit_code == 2 and "messages that nobody counts" in done.output


def test_a_server_sums_one_update_of_a_client(play):
    twice = SERVER.replace("SAYS", "counts_unsummed = True").replace(
        "for client in clients]", "for client in clients] * 2"
    )
    twice = twice.replace(
        "jobs = [Job.of(t, int(client), t, self.world.now)", "jobs = [Job.of(t + i, int(client), t, 0.0)"
    )
    twice = twice.replace("for client in clients] * 2", "for i in (0, 1) for client in clients]")
    done, _ = play(twice, "training.name=fixed", "training.rounds=1", "secagg=ideal", base=GUARDED)
    assert done.exit_code == 1 and "sums two updates of one client" in done.output, done.output


def test_an_epsilon_that_ends_empty_is_infinite(play):
    own = '''
from simfl.plugins import Column
from simfl.plugins.privacy import ACCOUNTANTS, Accountant

@ACCOUNTANTS("few")
@dataclass(frozen=True)
class Few(Accountant):
    """Known for two rounds."""
    columns = (Column("epsilon_few", "Few", "number", "An epsilon.", -1),)
    covers = frozenset({"update"})
    def accounts(self, history):
        return {"epsilon_few": [1.0, 2.0][: history.shape[0]] + [None] * max(0, history.shape[0] - 2)}
'''
    done, summary = play(own, "privacy.accountants=[few]", "training.rounds=4", base=NOISY)
    assert done.exit_code == 0 and summary["epsilon_few"] is None, done.output
    assert play(own, "privacy.accountants=[few]", base=NOISY)[1]["epsilon_few"] == 2
