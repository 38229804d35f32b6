"""The way a graphics processor takes, walked on the CPU: one cohort of any width, pieces by memory, TF32 when asked."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from simfl.core.errors import MissingError
from simfl.learning.backends.base import BACKENDS
from simfl.learning.backends.choices import Auto
from simfl.learning.backends.cohort_engine import CohortEngine, cohorts, fitting, numbers, replica_count
from simfl.learning.backends.replicas import GroupedNetwork
from simfl.learning.torch_setup import device
from tests.learning.test_backends import MODELS_HERE, SETTINGS, prepare

TOLERANCE = 1e-5


def engine(task, width):
    """As on a GPU: a cohort is as wide as it has works, whereas a CPU fills it up with idle copies."""
    return CohortEngine(task, GroupedNetwork(task.module, task.bf16), width, fixed=False)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("model", ["conv", "lenet5", "residual", "dropout"])
def test_cohorts_of_any_width_agree_with_one_by_one(model, setting):
    expected, losses = BACKENDS["sequential"]().build(prepare(model, setting)[0]).train(prepare(model, setting)[1])
    for width in (1, 2, 64):
        task, works = prepare(model, setting)
        deltas, loss = engine(task, width).train(works)
        np.testing.assert_allclose(deltas, expected, atol=TOLERANCE)
        np.testing.assert_allclose(loss, losses, atol=TOLERANCE)


def test_bfloat16_rounds_products_and_nothing_else():
    task, works = prepare("conv", "momentum")
    exact, _ = engine(task, 64).train(works)
    rough, _ = engine(replace(prepare("conv", "momentum")[0], bf16=True), 64).train(works)
    error = np.abs(rough - exact).max() / np.abs(exact).max()
    assert 1e-5 < error < 0.1 and rough.dtype == np.float32


@pytest.mark.parametrize("model", MODELS_HERE)
def test_sizes_are_those_of_a_pass(model):
    task, works = prepare(model, "plain")
    parameters, outputs = numbers(task)
    assert parameters >= len(works[0].start) and all(p.device.type == "cpu" for p in task.module.parameters())
    if model not in ("residual", "dropout"):
        x, by_hand = task.x[:1], task.x[0].numel()
        for layer in task.module:
            x = layer(x)
            by_hand += x.numel()
        assert (parameters, outputs) == (len(works[0].start), by_hand)


def test_as_many_copies_as_fit():
    task, works = prepare("lenet5", "plain")
    parameters, outputs = numbers(task)
    one = 4 * (8 * len(works[0].start) + 3 * outputs * task.batch_size)
    for memory in (4 * one, 10 * one, 10 * one - 9, 25 * one, 211 * one):
        n = fitting(memory, parameters, outputs, task.batch_size, 64)
        assert 2 * n * one <= 0.6 * memory or n == 1  # two runs share a device, and leave room
        assert (n + 1) * one > 0.3 * memory
    assert fitting(one, parameters, outputs, task.batch_size, 64) == 1
    assert fitting(10**12, parameters, outputs, task.batch_size, 64) == 64


def elsewhere(model, monkeypatch, memory):
    """A task whose samples are on a device that is not the CPU, of so much memory."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=memory))
    task, _ = prepare(model, "plain")
    return replace(task, x=task.x.to("meta"), y=task.y.to("meta"))


@pytest.mark.parametrize(("model", "backend"), [("conv", "grouped"), ("mlp", "dense"), ("lenet5", "grouped")])
def test_a_device_trains_cohorts_that_fit_into_it(model, backend, monkeypatch):
    for trial in ("disagreement", "influence"):  # no sample of such a task can be tried
        monkeypatch.setattr(f"simfl.learning.backends.trial.{trial}", lambda *task: None)
    task = elsewhere(model, monkeypatch, 10**12)
    assert Auto().choose(task) == BACKENDS[backend]()
    large = Auto().build(task)
    assert large.limit == {"grouped": 64, "dense": 256}[backend] and not large.fixed
    parameters, outputs = numbers(task)
    small = Auto().build(elsewhere(model, monkeypatch, 25 * 4 * (8 * parameters + 3 * outputs * task.batch_size)))
    assert small.limit == replica_count(task, 64) == 7
    assert large.x.device.type == "meta"


@pytest.mark.parametrize("backend", ["processes", "dask"])
def test_backends_of_processors_refuse_a_device(backend, monkeypatch):
    pytest.importorskip("distributed")
    with pytest.raises(Exception, match="learning.device to cpu"):
        BACKENDS[backend]().build(elsewhere("conv", monkeypatch, 10**12))


def test_tf32_only_where_it_is_asked_for(monkeypatch):
    with pytest.raises(MissingError, match="device: cpu"):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        device("cuda_tf32")
    assert device("auto").type == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", torch.backends.cudnn.deterministic)
    for name, rounded in (("cuda", False), ("cuda_tf32", True), ("auto", False)):  # and so they are left as they were
        assert device(name).type == "cuda"
        assert torch.backends.cudnn.allow_tf32 is torch.backends.cuda.matmul.allow_tf32 is rounded
    assert device("cpu").type == "cpu"


class Copies(TorchFunctionMode):
    """Counts what would make a processor wait for its device."""

    NAMES = ("cpu", "numpy", "item", "tolist", "nonzero", "__float__", "__int__", "__bool__", "__index__")

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.count += getattr(func, "__name__", "") in self.NAMES
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("backend", ["sequential", "grouped", "vmap"])
def test_updates_leave_a_device_together(backend, setting):
    """Of one client and of five, whatever their steps, as many copies, and those of no step."""
    task, works = prepare("conv", setting)
    built = engine(task, 64) if backend == "grouped" else BACKENDS[backend]().build(task)
    built.train(works)  # what is remembered is remembered
    counted = []
    for some in (works[:1], works[2:3], works):
        with Copies() as copies:
            built.train(some)
        counted.append(copies.count)
    together = 1 if backend == "sequential" else len(cohorts(works, built.limit))
    assert counted[0] == counted[1] == 4 and counted[2] == 4 * together < 4 * len(works)


def test_no_more_updates_are_kept_on_a_device_than_fit(monkeypatch):
    task, works = prepare("conv", "plain")
    at_once = BACKENDS["sequential"]().build(task).train(works)
    for kept in (1, 2, 3, 5):
        monkeypatch.setattr("simfl.learning.backends.sequential_engine.HELD_BYTES", 4 * kept * len(works[0].start) + 3)
        with Copies() as copies:
            found = BACKENDS["sequential"]().build(task).train(works)
        assert copies.count == 4 * -(-len(works) // kept)
        assert all(np.array_equal(a, b) for a, b in zip(found, at_once, strict=True))
