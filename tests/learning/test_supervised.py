"""The supervised learner: degenerate cases with exact answers, an independent trainer, determinism."""

import copy
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from simfl.clients.client_agents import Agents
from simfl.core.rng import Streams
from simfl.core.scenario_view import RuntimeOptions
from simfl.core.types import Job
from simfl.learning.base import LEARNING
from simfl.training.base import RULES


def choice(registry, **fields):
    return TypeAdapter(Annotated[Any, registry]).validate_json(json.dumps(fields))


def build(clients=4, seed=0, training=None, **learning):
    rule = choice(RULES, **{"name": "fedavg", "rounds": 1, **(training or {})})
    learning = choice(LEARNING, **{"data": "digits", "model": "logistic", **learning})
    means, standard = RuntimeOptions(), Agents()
    scenario = SimpleNamespace(clients=clients, seed=seed, training=rule, means=means, attacks=(), agents=standard)
    learner = learning.build(scenario, Streams(seed))
    learner.put(0, learner.initial())
    return learner, rule


def jobs(clients, version=0, first=0):
    return [Job(first + i, int(client), version, 0.0) for i, client in enumerate(clients)]


def aggregate(learner, rule, updates, version=0):
    weights = rule.weights(updates.examples, np.zeros(len(updates.examples), dtype=np.int64))
    change = rule.aggregate.combine(updates.deltas, weights, rule.divisor(weights, updates.examples), updates.mask)
    return rule.step(learner.get(version), change, rule.start(learner.dimension))[0]


def pooled_gradient(learner, model, indices):
    """Gradient of the mean cross-entropy over the given samples, by plain torch on a module."""
    module = copy.deepcopy(learner.task.module)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(model.copy()), module.parameters())
    x = torch.from_numpy(learner.data.x_train[indices])
    y = torch.from_numpy(learner.data.y_train[indices])
    module.zero_grad()
    torch.nn.functional.cross_entropy(module(x), y).backward()
    return torch.nn.utils.parameters_to_vector([p.grad for p in module.parameters()]).numpy()


@pytest.mark.parametrize("backend", ["sequential", "dense"])
@pytest.mark.parametrize("model", ["logistic", {"name": "mlp", "hidden": [24, 17]}])
def test_one_full_batch_step_of_everybody_is_a_gradient_step_on_the_pooled_data(backend, model):
    training = {"batch_size": None, "learning_rate": 0.3}
    learner, rule = build(7, training=training, model=model, backend=backend)
    start = learner.get(0)
    after = aggregate(learner, rule, learner.train(jobs(range(7))))
    expected = start - 0.3 * pooled_gradient(learner, start, np.arange(len(learner.data.y_train)))
    np.testing.assert_allclose(after, expected, atol=1e-6)


def test_two_clients_by_hand():
    """Logistic regression from zero weights: every gradient is (1/2 - [class]) x, so two steps fit on paper."""
    learner, rule = build(2, training={"batch_size": None, "learning_rate": 1.0, "weighting": "samples"})
    learner.put(0, np.zeros(learner.dimension, dtype=np.float32))
    after = aggregate(learner, rule, learner.train(jobs([0, 1])))
    x = learner.data.x_train.reshape(-1, 64).astype(float)
    onehot = np.eye(10)[learner.data.y_train]
    expected = np.zeros((10, 65))
    for client in (0, 1):
        held = learner.partition[client]
        # softmax of zeros is 1/10 for every class; gradient of the mean loss = mean of (1/10 - onehot) x
        error = 0.1 - onehot[held]
        weight = len(held) / len(x)
        expected[:, :64] -= weight * error.T @ x[held] / len(held)
        expected[:, 64] -= weight * error.mean(axis=0)
    np.testing.assert_allclose(after, np.concatenate([expected[:, :64].ravel(), expected[:, 64]]), atol=1e-6)


@pytest.mark.parametrize("backend", ["sequential", "dense"])
def test_a_jobs_update_has_the_same_bits_whatever_batch_it_comes_in(backend):
    learner, _ = build(
        9, model={"name": "mlp", "hidden": [13]}, backend=backend, training={"batch_size": 32, "local_epochs": 2}
    )
    learner.put(5, learner.initial() * np.float32(0.5))
    work = jobs(range(9)) + jobs([3, 1, 8], version=5, first=50)
    whole = learner.train(work)
    for part in ([4], [0, 11], [10, 9, 2, 7], list(range(11, -1, -1))):
        again = learner.train([work[i] for i in part])
        assert np.array_equal(again.deltas, whole.deltas[part])
        assert np.array_equal(again.loss, whole.loss[part])


def test_shuffling_is_keyed_by_the_jobs_number_only():
    learner, _ = build(3)
    first, other = learner.train([Job(1, 0, 0, 0.0)]), learner.train([Job(2, 0, 0, 0.0)])
    later = learner.train([Job(1, 0, 0, 99.0)])
    assert not np.array_equal(first.deltas, other.deltas)
    assert np.array_equal(first.deltas, later.deltas)


def test_clients_without_samples_send_a_zero_update():
    learner, rule = build(2000)
    assert (learner.samples == 0).any() and learner.samples.sum() == len(learner.data.y_train)
    empty = np.flatnonzero(learner.samples == 0)[:2]
    updates = learner.train(jobs([empty[0], 0, empty[1]]))
    assert not updates.deltas[[0, 2]].any() and updates.deltas[1].any()
    assert np.isnan(updates.loss[[0, 2]]).all() and updates.examples.tolist() == [0, learner.samples[0], 0]


def test_quickstart_reaches_ninety_percent():
    training = {"batch_size": 20, "learning_rate": 0.1}
    learner, rule = build(40, training=training, model="mlp")
    pick = np.random.default_rng(0)
    for version in range(60):
        clients = np.sort(pick.choice(40, 8, replace=False))
        updates = learner.train(jobs(clients, version, version * 40))
        learner.put(version + 1, aggregate(learner, rule, updates, version))
        learner.drop(version)
    assert learner.evaluator.evaluate(60)["test_accuracy"] >= 0.9
    with pytest.raises(KeyError):
        learner.get(59)


def test_evaluation_of_a_chosen_subset_counts_exactly():
    learner, _ = build(evaluate={"every": 3, "samples": 50})
    labels = learner.evaluator.test_set.labels
    assert len(labels) == 50
    model = np.zeros(learner.dimension, dtype=np.float32)
    model[640 + 4] = 5.0  # the bias of class 4: every sample is called a 4
    learner.put(1, model)
    measured = learner.evaluator.evaluate(1)
    assert measured["test_accuracy"] == np.mean(labels == 4)
    log_sum = np.log(9 + np.exp(5.0))
    assert measured["test_loss"] == pytest.approx(np.mean(log_sum - 5.0 * (labels == 4)), rel=1e-6)


def test_another_client_changes_no_other_draw():
    small, _ = build(10, model="mlp")
    large, _ = build(11, model="mlp")
    assert np.array_equal(small.initial(), large.initial())
    assert np.array_equal(small.data.x_test, large.data.x_test)


@pytest.mark.parametrize("wrong", [{"modle": "mlp"}, {"model": {"name": "mlp", "hidden": []}}, {"data": "digitz"}])
def test_mistakes_in_the_choice_are_refused(wrong):
    with pytest.raises(ValidationError):
        choice(LEARNING, **{"data": "digits", "model": "mlp", **wrong})


ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys, hashlib
sys.path[:0] = sys.argv[1:]
from tests.learning.test_supervised import build, jobs
learner, rule = build(12, model=dict(name="mlp", hidden=[40]))
digest = hashlib.sha256(learner.train(jobs(range(12))).deltas.tobytes())
digest.update(repr(sorted(learner.evaluator.evaluate(0).items())).encode())
print(digest.hexdigest())
"""


def test_same_bytes_for_any_thread_count_and_hash_seed():
    digests = set()
    for threads, hashing in ((1, 0), (2, 1)):
        env = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONHASHSEED": str(hashing)}
        run = subprocess.run([sys.executable, "-c", SCRIPT, ROOT], env=env, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        digests.add(run.stdout)
    assert len(digests) == 1


FREEING = """
import torch
from simfl.learning.torch_setup import configure_torch

def resident_pages():
    return int(open("/proc/self/statm").read().split()[1])

configure_torch()
blocks = [torch.ones(2_000_000) for _ in range(8)]
held = resident_pages()
del blocks
print(held - resident_pages())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's allocator")
def test_what_a_step_frees_is_kept_for_the_next():
    run = subprocess.run([sys.executable, "-c", FREEING], capture_output=True, text=True, cwd=ROOT)
    assert int(run.stdout) < 100, run.stderr  # of 15,625, all of which glibc would give back by itself


def test_choosing_a_learner_does_not_import_torch():
    code = "import sys, simfl.learning, simfl.training; print(sorted({'torch', 'sklearn', 'scipy'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout.strip() == "[]", run.stderr
