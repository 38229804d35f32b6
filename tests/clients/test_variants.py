"""FedProx and SCAFFOLD through the learner: degenerate equalities, a quadratic by hand, checkpoints."""

import numpy as np
import pytest

from simfl.clients.local_training import Scaffold
from simfl.clients.local_values import LocalContext
from simfl.core.errors import PluginError
from simfl.core.payload import Download
from simfl.core.types import Job
from simfl.learning.local_runner import AlgorithmState
from tests.learning.test_supervised import aggregate, build, jobs

SMALL = {"data": {"name": "synthetic", "samples": 90, "shape": [6], "classes": 3}, "model": "logistic"}


def play(rounds, backend="auto", clients=(0, 2, 3), **training):
    """The models after each round, and the learner."""
    training = {"batch_size": 8, "learning_rate": 0.2, "local_epochs": 2, **training}
    learner, rule = build(4, training=training, backend=backend, **SMALL)
    models = []
    for version in range(rounds):
        updates = learner.train(jobs(clients, version, 10 * version))
        models.append(aggregate(learner, rule, updates, version))
        learner.put(version + 1, models[-1])
    return models, learner, rule


@pytest.mark.parametrize("backend", ["sequential", "dense"])
def test_fedprox_without_a_proximal_term_is_fedavg(backend):
    plain, _, _ = play(3, backend)
    zero, _, _ = play(3, backend, client={"name": "fedprox", "mu": 0})
    some, _, _ = play(3, backend, client={"name": "fedprox", "mu": 0.5})
    assert np.array_equal(plain, zero) and not np.allclose(plain[0], some[0], atol=1e-3)


def test_a_strong_proximal_term_holds_the_model():
    plain, learner, _ = play(1)
    held, _, _ = play(1, client={"name": "fedprox", "mu": 4.9})
    start = learner.get(0)
    assert np.linalg.norm(held[0] - start) < 0.5 * np.linalg.norm(plain[0] - start)


@pytest.mark.parametrize("backend", ["sequential", "dense"])
def test_scaffold_begins_as_fedavg(backend):
    """All variates are zero in the first round."""
    plain, _, _ = play(2, backend)
    scaffold, learner, _ = play(2, backend, client="scaffold")
    assert np.array_equal(plain[0], scaffold[0]) and not np.array_equal(plain[1], scaffold[1])
    assert learner.sizes(jobs((0,))) == (8 * learner.dimension, 8 * learner.dimension, 1.0)


class Variates:
    """SCAFFOLD's arithmetic without training: the shift of a job, and what a job leaves behind."""

    def __init__(self, clients, dimension):
        self.scaffold = Scaffold()
        self.memory = AlgorithmState(self.scaffold, clients, self.scaffold.common((), dimension))
        self.zero = np.zeros(dimension, dtype=np.float32)

    def begin(self, client, version):
        self.memory.begin_version(version)
        download = Download(self.zero, self.memory.common)
        context = LocalContext(Job(0, client, version, 0.0), download, self.memory.client(client), None)
        return context, self.scaffold.begin(context)

    def report(self, context, local_pass, delta, steps, rate):
        done = self.scaffold.end(context, local_pass, delta, steps, rate)
        self.memory.keep(context.job.client, done.state)
        self.memory.add_uploads(done.upload.arrays)


def test_scaffold_of_two_quadratics_by_hand():
    """Client i minimises (x - a_i)^2 / 2 with a = (1, 5) from x = 0; two steps of rate 1/2; both of N = 2 take part.

    Round 1: y = a/2, then 3a/4: deltas 0.75 and 3.75, x = 2.25. c_i = -delta / (2 * 1/2) = -0.75, -3.75; c = -2.25.
    Round 2: corrected gradients are y - a_i - c_i + c, shifts c - c_i = -1.5 and 1.5:
    client 0: g = 2.25 - 1 - 1.5 = -0.25, y = 2.375; g = -0.125, y = 2.4375: delta 0.1875
    client 1: g = 2.25 - 5 + 1.5 = -1.25, y = 2.875; g = -0.625, y = 3.1875: delta 0.9375
    """
    variates, x, a = Variates(2, 1), 0.0, (1.0, 5.0)
    deltas = []
    for version in range(2):
        for client in (0, 1):
            context, local_pass = variates.begin(client, version)
            y = x
            for _ in range(2):
                y -= 0.5 * (y - a[client] + (0.0 if local_pass.shift is None else float(local_pass.shift[0])))
            delta = np.array([y - x], dtype=np.float32)
            variates.report(context, local_pass, delta, 2, 0.5)
            deltas.append(float(delta[0]))
        x += sum(deltas[-2:]) / 2
    assert deltas == [0.75, 3.75, 0.1875, 0.9375]
    # after round 2: c_i = mean gradient met = -(delta) - shift
    assert variates.memory.client(0)["variate"].tolist() == [-0.1875 + 1.5]
    assert variates.memory.client(1)["variate"].tolist() == [-0.9375 - 1.5]
    variates.begin(0, 2)
    assert variates.memory.common["variate"].tolist() == [(1.3125 - 2.4375) / 2]


def test_the_servers_variate_is_the_mean_over_all_clients():
    variates = Variates(10, 2)
    context, local_pass = variates.begin(3, 0)
    variates.report(context, local_pass, np.array([1, -2], dtype=np.float32), 1, 1.0)
    assert variates.begin(7, 0)[1].shift is None  # not before the next version
    _, local_pass = variates.begin(3, 1)
    np.testing.assert_allclose(variates.memory.common["variate"], [-0.1, 0.2], rtol=1e-6)
    np.testing.assert_allclose(local_pass.shift, [0.9, -1.8], rtol=1e-6)


def test_scaffold_reaches_the_optimum_where_fedavg_drifts():
    """Clients with different optima and curvatures: FedAvg's fixed point is off, SCAFFOLD's is the true one."""
    curvature, optimum = np.array([1.0, 6.0]), np.array([0.0, 1.0])
    true = (curvature * optimum).sum() / curvature.sum()

    def run(corrected):
        variates, x = Variates(2, 1), 0.0
        for version in range(200):
            deltas = []
            for client in (0, 1):
                context, local_pass = variates.begin(client, version)
                shift = 0.0 if local_pass.shift is None or not corrected else float(local_pass.shift[0])
                y = x
                for _ in range(10):
                    y -= 0.1 * (curvature[client] * (y - optimum[client]) + shift)
                deltas.append(y - x)
                variates.report(context, local_pass, np.float32([y - x]), 10, 0.1)
            x += np.mean(deltas)
        return x

    assert abs(run(True) - true) < 1e-4 < 0.1 < abs(run(False) - true)


def test_variates_survive_a_checkpoint_and_do_not_depend_on_batches():
    models, learner, rule = play(3, client="scaffold")
    _, other, _ = play(0, client="scaffold")
    assert np.array_equal(other.get(0), learner.get(0))
    parted = []
    for version in range(3):
        if version == 2:  # a new process takes over
            stored = {key: value.copy() for key, value in other.state().items()}
            other, _ = build(
                4, training={"batch_size": 8, "learning_rate": 0.2, "local_epochs": 2, "client": "scaffold"}, **SMALL
            )
            other.restore(stored)
            other.put(2, parted[-1])
        work = jobs((0, 2, 3), version, 10 * version)
        one, two = other.train(work[:1]), other.train(work[1:])
        pairs = ((one.deltas, two.deltas), (one.examples, two.examples), (one.loss, two.loss))
        both = type(one)(*map(np.concatenate, pairs))
        parted.append(aggregate(other, rule, both, version))
        other.put(version + 1, parted[-1])
    assert np.array_equal(parted, models)


def test_scaffold_with_processes_gives_the_same_bits():
    one, _, _ = play(2, "auto", client="scaffold")
    two, _, _ = play(2, {"name": "processes", "workers": 2}, client="scaffold")
    assert np.array_equal(one, two)


def test_clients_keep_arrays_of_any_shape_and_type():
    """Also lists, which are arrays at once; what a checkpoint gives back is what was kept."""
    kept = {2: {"a": [1.0, 2.0], "b/c": np.zeros((2, 3))}, 0: {"a": np.ones(3), "b/c": np.int64(4)},
            1: {"a": np.arange(2), "": np.zeros(0)}, 3: {"a": np.array([5.0, 6.0]), "1/a": True}}  # fmt: skip
    memory, again = (AlgorithmState(Scaffold(), 5, {}) for _ in range(2))
    for client, state in kept.items():
        memory.keep(client, state)
    again.restore(memory.state())
    for client in range(5):
        before, after = memory.client(client), again.client(client)
        assert before.keys() == after.keys() == kept.get(client, {}).keys()
        for name in before:
            assert type(before[name]) is type(after[name]) is np.ndarray and before[name].dtype == after[name].dtype
            assert np.array_equal(before[name], after[name]) and np.array_equal(before[name], kept[client][name])
    with pytest.raises(PluginError, match="client algorithm 'scaffold': state must give arrays by name, and gives "):
        memory.keep(0, {"a": object()})
