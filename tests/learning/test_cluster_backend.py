"""One run on a Dask cluster: the bits are those of one process, whatever happens to the workers."""

import os
import signal
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from simfl.cli import simfl as group
from simfl.core.scenario_view import RuntimeOptions
from simfl.learning.backends.base import BACKENDS, Sgd, TrainingTask
from simfl.learning.models.flat import values
from simfl.learning.work import Work
from tests.learning.test_backends import prepare
from tests.learning.test_losses import INPUTS, SPLIT, TARGETS, X

distributed = pytest.importorskip("distributed")

HERE = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}


@pytest.fixture(scope="module")
def cluster():
    """Two workers, the first of two threads, in this process."""
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, protocol="tcp", **HERE) as made:
        yield made


def on(cluster, model, setting="plain"):
    task, works = prepare(model, setting)
    return BACKENDS["dask"]().build(replace(task, means=RuntimeOptions(scheduler=cluster.scheduler_address))), works


def alone(model, setting="plain"):
    task, works = prepare(model, setting)
    return BACKENDS["auto"]().build(task).train(works)


@pytest.mark.parametrize(
    ("model", "setting"), [("conv", "momentum"), ("conv", "mask"), ("mlp", "shift"), ("logistic", "proximal")]
)
def test_the_bits_are_those_of_one_process(cluster, model, setting):
    engine, works = on(cluster, model, setting)
    for _ in range(2):
        for found, expected in zip(engine.train(works), alone(model, setting), strict=True):
            assert np.array_equal(found, expected)
    found = engine.train([replace(work, start=work.start.copy()) for work in works])  # a model of each one's own
    assert np.array_equal(found[0], alone(model, setting)[0])
    engine.close()


@pytest.mark.parametrize("kind", TARGETS)
def test_a_loss_of_a_models_own_gives_the_bits_of_one_process(cluster, kind):
    """Regression, classes of several places, smoothed labels; cross-entropy would give others, or fail."""
    model, y = TARGETS[kind]
    found = []
    for backend in ("dask", "auto"):
        torch.manual_seed(0)
        net = model(INPUTS, {"numbers": 1, "columns": 2, "places": 4, "classes": 2}[kind])
        means = RuntimeOptions(scheduler=cluster.scheduler_address)
        targets = torch.from_numpy(y.astype(np.float32) if y.dtype.kind == "f" else y)
        task = TrainingTask(net, torch.from_numpy(X), targets, 4, Sgd(), means=means)
        start = values(net)
        works = [Work(start * (1 + i), np.array(held), (0, 4, 8, 10), 0, 0.2) for i, held in enumerate(SPLIT)]
        engine = BACKENDS[backend]().build(task)
        found.append(engine.train(works))
    for distributed_run, one in zip(*found, strict=True):
        assert np.array_equal(distributed_run, one) and one.any()


def test_what_is_lost_with_all_workers_is_sent_again(cluster):
    engine, works = on(cluster, "conv")
    engine.train(works)
    lost, send = [], engine._models

    def losing(works, everywhere):  # as when the last worker that held a model is gone
        shared = send(works, everywhere)
        if not lost:
            lost.extend(shared.values())
            engine.client.cancel(lost, force=True)
        return shared

    engine._models = losing
    found = engine.train(works)
    assert lost
    assert all(np.array_equal(a, b) for a, b in zip(found, alone("conv"), strict=True))
    engine.close()


def test_longer_works_come_first_and_batches_are_balanced(cluster):
    engine, works = on(cluster, "conv")
    cost = [work.bounds[-1] for work in works]
    parts = engine._parts(works, 2)
    assert [cost[i] for (i,) in parts] == sorted(cost)  # as many parts as works; the last is dealt first
    assert len(engine._parts(works, 1)) == 3
    engine.one_by_one = False
    totals = [sum(cost[i] for i in part) for part in engine._parts(works, 2)]
    assert sorted(i for part in engine._parts(works, 2) for i in part) == list(range(len(works)))
    assert sorted(totals) == totals and max(totals) == 29  # 29 | 13 + 8 + 5 + 1
    engine.close()


def test_another_version_on_a_worker_is_refused(cluster, monkeypatch):
    from simfl.core.errors import SimflError
    from simfl.learning.backends import dask_engine

    other, setup = dask_engine.VERSIONS | {"torch": "0.1"}, dask_engine._WorkerData.setup

    def elsewhere(self, worker):
        with monkeypatch.context() as there:
            there.setattr(dask_engine, "VERSIONS", other)
            setup(self, worker)

    monkeypatch.setattr(dask_engine._WorkerData, "setup", elsewhere)
    with pytest.raises(SimflError, match="a Dask worker has .*'torch': '0.1'"):
        on(cluster, "conv")
    assert not dask_engine._worker_data


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scheduler", "tcp://127.0.0.1:1"], "add learning.backend=dask"),
        (["--scheduler", "tcp://10.1.1.1:8786", "learning.backend=dask"], "tls://"),
    ],
)
def test_schedulers_that_cannot_be_used_are_refused(arguments, message, tmp_path):
    done = CliRunner().invoke(group, ["run", "quickstart", *arguments, "--out", str(tmp_path)])
    assert done.exit_code == 2 and message in done.output and not any(tmp_path.iterdir())


@pytest.mark.slow
def test_workers_that_die_and_one_that_joins_change_no_byte():
    task, works = prepare("conv", "momentum")
    works = works * 40
    engine = BACKENDS["dask"](workers=2).build(task)
    expected = BACKENDS["sequential"]().build(prepare("conv", "momentum")[0]).train(works)
    for t in range(6):
        if t == 2:
            engine.client.cluster.scale(3)
        if t % 2:
            pids = sorted(engine.client.run(os.getpid).values())
            threading.Timer(0.05, os.kill, (pids[t % len(pids)], signal.SIGKILL)).start()
        found = engine.train(works)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True)), t
    assert len(engine.client.nthreads()) >= 2
    engine.close()
