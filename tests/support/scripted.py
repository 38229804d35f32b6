"""A world in which a test says who takes how long, who fails and who is selected."""

from dataclasses import dataclass, field

import numpy as np

from simfl.agents.aggregation.components import Components
from simfl.agents.servers import SERVERS
from simfl.agents.world import World
from simfl.core.rng import Streams
from simfl.core.types import Updates
from simfl.devices.base import Available
from simfl.learning.none import IdleLearner
from tests.support.policies import Blind

BYTES = 100


class Script(Blind):
    """Devices, links and a policy that follow a script.

    Args:
        durations: durations[c][j] seconds of client c's j-th job (the last one repeats).
        failures: (client, j) of the jobs that die in the middle of their computation.
        units: the policy's units; it takes the first ones whose clients are all idle.
        away: for each selection number, the clients that are not available.
        latency: seconds of every message.
    """

    name, fixed_size = "scripted", True
    names = None
    dropout = None
    on_work = Available.on_work

    def __init__(self, durations, failures=(), units=None, away=None, latency=0.0):
        self.durations, self.failures, self.latency = durations, set(failures), latency
        self.n = len(durations)
        self.units = np.asarray([[i] for i in range(self.n)] if units is None else units, dtype=np.int32)
        self.k, self.unit_size = self.units.size, self.units.shape[1]
        self.away = away or {}
        self.planned = np.zeros(self.n, dtype=int)

    def down_s(self, clients, size_bytes, where, phase=""):
        return np.full(len(clients), self.latency)

    up_s = down_s

    def duration_s(self, clients, samples, epochs, where):
        seconds = [self.durations[c][min(self.planned[c], len(self.durations[c]) - 1)] for c in clients]
        self.planned[clients] += 1
        return np.array(seconds, dtype=float)

    def draw(self, first, second, phase="work"):
        if isinstance(first, int):
            here = np.ones(self.n, dtype=bool)
            here[list(self.away.get(first, ()))] = False
            return here
        return np.array([0.5 if (int(c), int(self.planned[c]) - 1) in self.failures else np.nan for c in first])

    def select(self, view, k, rng):
        chosen, taken = [], set()
        for unit in self.units:
            if view.available[unit].all() and not taken & set(unit.tolist()) and len(chosen) * self.unit_size < k:
                chosen.append(unit)
                taken |= set(unit.tolist())
        if len(chosen) * self.unit_size < k:
            return np.empty((0, self.unit_size), dtype=np.int32)
        return np.array(chosen, dtype=np.int32).reshape(-1, self.unit_size)

    def state(self):
        return {}

    def restore(self, state):
        pass


@dataclass
class Recorder(IdleLearner):
    """A model of one number; the update of client i from version v is ``delta(i, v)``, exact in binary."""

    initially: float = 0.0
    delta: object = None
    accuracy: object = None
    trained: list = field(default_factory=list)
    models: dict = field(default_factory=dict)
    most_models: int = 0

    def __post_init__(self):
        self.dimension = 1
        self.delta = self.delta or (lambda client, version: 8.0 * (client + 1) + version)

    def initial(self):
        return np.array([self.initially], dtype=np.float32)

    def put(self, version, model):
        self.models[version] = model
        self.most_models = max(self.most_models, len(self.models))

    def get(self, version):
        return self.models[version]

    def drop(self, version):
        self.models.pop(version, None)

    def train(self, jobs):
        assert all(job.version in self.models for job in jobs), "a version was dropped that a job needs"
        self.trained.append([(job.client, job.version) for job in jobs])
        deltas = np.array([[self.delta(job.client, job.version)] for job in jobs], dtype=np.float32)
        return Updates(deltas, self.samples[[job.client for job in jobs]], np.ones(len(jobs)))

    def training_losses(self, version, clients, batch=0):
        return np.stack([clients + 1.0, clients + 2.0, 1 / (clients + version + 1.0)], axis=1)

    @property
    def evaluator(self):
        return self

    def evaluate(self, version):
        return {"model": float(self.models[version][0])} | (
            {"test_accuracy": self.accuracy(version)} if self.accuracy else {}
        )


def play(script, rule, samples=5, evaluate_every=1, **learner):
    """Plays a rule on a script; the server, its rounds and the events."""
    recorder = Recorder(BYTES, np.broadcast_to(np.int64(samples), script.n).copy(), **learner)
    parts = Components(script.n, Streams(0), script, script, script, script, script, rule, recorder, evaluate_every)
    rounds, events = [], []
    world = World()
    agent = SERVERS[rule.server](parts, world, rounds.append, events.append)
    world.run(world.spawn(agent.run()))
    return agent, rounds, events


def jobs(rounds):
    """All rows of jobs.csv as mappings."""
    from simfl.results.tables import JOBS

    return [dict(zip(JOBS, row, strict=True)) for done in rounds for row in done.jobs]
