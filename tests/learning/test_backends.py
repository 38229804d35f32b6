"""Every backend against torch.optim.SGD on a plain module, sample by sample in the same order."""

import copy
import os
import signal
import threading
import time
from dataclasses import replace
from multiprocessing import active_children

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from simfl.clients.local_training import LocalTraining
from simfl.clients.local_values import LocalPass
from simfl.core.errors import CrashError, ExhaustedError
from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.learning.backends.base import BACKENDS, Sgd, TrainingTask
from simfl.learning.backends.update import take
from simfl.learning.models.base import MODELS, Model
from simfl.learning.models.build import build, initial
from simfl.learning.models.dropout import Masks
from simfl.learning.models.flat import layout, size
from simfl.learning.models.resnet import Block
from simfl.learning.work import Augment, work

torch.set_num_threads(1)
STREAMS = Streams(7)
SIZES = (13, 5, 29, 1, 8)  # samples of each client: partial batches, fewer than a batch, one


def samples(shape, n=60, classes=3):
    rng = np.random.default_rng(1)
    return (
        torch.from_numpy(rng.standard_normal((n, *shape)).astype(np.float32)),
        torch.from_numpy(rng.integers(classes, size=n)),
    )


class SmallConv(Model):
    """Every kind of layer that the grouped backend knows."""

    name = "small"

    def build(self, shape, classes):
        return nn.Sequential(
            nn.Conv2d(shape[0], 4, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(),
            nn.Conv2d(4, 6, 3, stride=2, bias=False), nn.GroupNorm(2, 6), nn.ReLU(),
            nn.Flatten(), nn.Linear(6 * 9, 5), nn.ReLU(), nn.Linear(5, classes, bias=False),
        )  # fmt: skip


class SmallResidual(Model):
    """Batch normalisation, in and out of a block."""

    name = "residual"

    def build(self, shape, classes):
        norm = nn.BatchNorm2d
        return nn.Sequential(
            nn.Conv2d(shape[0], 4, 3, bias=False), norm(4), nn.ReLU(), Block(4, 6, 2, norm), Block(6, 6, 1, norm),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, classes),
        )  # fmt: skip


class SmallDropout(Model):
    """Units and channels are dropped, of images and of features."""

    name = "small_dropout"

    def build(self, shape, classes):
        return nn.Sequential(
            nn.Conv2d(shape[0], 4, 3), nn.Tanh(), nn.Dropout2d(0.3), nn.AvgPool2d(2), nn.Dropout(0.2),
            nn.Flatten(), nn.Linear(4 * 9, 7), nn.Tanh(), nn.Dropout(0.5), nn.Linear(7, classes),
        )  # fmt: skip


MODELS_HERE = {
    "logistic": (MODELS["logistic"](), (3, 5)),
    "binary_logistic": (MODELS["binary_logistic"](), (9,)),
    "mlp": (MODELS["mlp"](hidden=(17, 6)), (11,)),
    "conv": (SmallConv(), (2, 14, 14)),
    "lenet5": (MODELS["lenet5"](), (3, 16, 16)),
    "residual": (SmallResidual(), (2, 8, 8)),
    "dropout": (SmallDropout(), (2, 8, 8)),
}
SETTINGS = {
    "plain": (Sgd(), {}),
    "decay": (Sgd(weight_decay=0.3), {"local_epochs": 2}),
    "momentum": (Sgd(momentum=0.9, weight_decay=0.1), {"local_epochs": 3}),
    "whole": (Sgd(), {"batch_size": None, "local_steps": 4}),
    "clip": (Sgd(clip_norm=0.5, momentum=0.5), {"local_steps": 7}),
    "proximal": (Sgd(weight_decay=0.05, clip_norm=0.9), {"local_epochs": 2, "decay_at": (1,)}),
    "distance": (Sgd(momentum=0.5), {"local_epochs": 2}),
    "shift": (Sgd(clip_norm=1.1), {"local_epochs": 2}),
    "mask": (Sgd(momentum=0.9, weight_decay=0.1), {"local_epochs": 2}),
}


def prepare(model, setting, crop=0, flip=False):
    choice, shape = MODELS_HERE[model]
    sgd, local = SETTINGS[setting]
    classes = 2 if model == "binary_logistic" else 3
    module = build(choice, shape, classes)
    x, y = samples(shape, classes=classes)
    local = LocalTraining(**{"batch_size": 8, "learning_rate": 0.2, **local})
    start = initial(module, np.random.default_rng(0))
    rng = np.random.default_rng(2)
    held = np.split(rng.permutation(60)[: sum(SIZES)], np.cumsum(SIZES)[:-1])
    augment = Augment(crop=crop, flip=flip) if crop or flip else None
    works = []
    for i, own in enumerate(held):
        shift = rng.normal(0, 0.1, len(start)).astype(np.float32) if setting == "shift" else None
        mask = rng.random(len(start)) < 0.7 if setting == "mask" else None
        proximal = 0.7 - 0.3 * (i % 2) if setting == "proximal" else 0.0
        distance = 0.3 + 0.2 * (i % 2) if setting == "distance" else 0.0
        begun = LocalPass(start if i % 2 else start * np.float32(0.9), shift, mask, proximal, distance=distance)
        works.append(work(Job(i, i, i % 2, 0.0), own, begun, local, STREAMS, augment))
    return TrainingTask(module, x, y, local.batch_size or max(SIZES), sgd, crop, flip), works


def reference(task, job):
    """One work by torch.optim.SGD, in float64."""
    module = (
        type(task.module)(*task.module).double() if isinstance(task.module, nn.Sequential) else task.module.double()
    )
    nn.utils.vector_to_parameters(torch.from_numpy(job.start).double(), module.parameters())
    at = sum(p.numel() for p in module.parameters())
    statistics = [b for name, b in module.named_buffers() if name.endswith(("running_mean", "running_var"))]
    for buffer in statistics:  # they stand behind the parameters
        buffer.copy_(torch.from_numpy(job.start[at : at + buffer.numel()]).view_as(buffer))
        at += buffer.numel()
    begun = torch.from_numpy(job.start).double()
    start = nn.utils.parameters_to_vector(module.parameters()).detach().clone()
    optimiser = torch.optim.SGD(
        module.parameters(), job.rate, momentum=task.sgd.momentum, weight_decay=task.sgd.weight_decay
    )
    losses = []
    masks, rng = Masks(module), job.dropout()
    for s in range(job.steps):
        now = slice(job.bounds[s], job.bounds[s + 1])
        versions = None if job.versions is None else torch.from_numpy(job.versions[now])
        x = take(task.x, torch.from_numpy(job.order[now]), versions, task.crop).double()
        masks.set_masks([torch.from_numpy(mask).double() for mask in masks.draw(rng, len(x))])
        loss = cross_entropy(module(x), task.y[job.order[now]])
        optimiser.zero_grad()
        here = nn.utils.parameters_to_vector(module.parameters())
        away = (here - start).square().sum()
        (loss + job.proximal / 2 * away + (job.distance * away.sqrt() if away else 0)).backward()
        if task.sgd.clip_norm is not None:
            nn.utils.clip_grad_norm_(module.parameters(), task.sgd.clip_norm)
        if job.shift is not None:
            at = 0
            for p in module.parameters():
                p.grad += torch.from_numpy(job.shift[at : at + p.numel()]).view_as(p)
                at += p.numel()
        if job.mask is not None:  # the optimiser adds the decay, so that it, too, must be masked: by hand
            at = 0
            for p in module.parameters():
                kept = torch.from_numpy(job.mask[at : at + p.numel()]).view_as(p)
                p.grad = torch.where(kept, p.grad, -task.sgd.weight_decay * p.detach())
                at += p.numel()
        optimiser.step()
        if s >= job.last_pass:
            losses.append((loss.item(), now.stop - now.start))
    end = torch.cat([nn.utils.parameters_to_vector(module.parameters()).detach(), *map(torch.flatten, statistics)])
    delta = (end - begun).numpy()
    module.float()
    return delta, np.average([a for a, _ in losses], weights=[n for _, n in losses])


CASES = [
    (backend, model)
    for backend in ("sequential", "dense", "vmap", "grouped")
    for model in MODELS_HERE
    if backend != "dense" or model in ("logistic", "binary_logistic", "mlp")
    if (backend, model) != ("vmap", "residual")
]


IN_ALL_SETTINGS = {"sequential": ["residual"], "dense": MODELS_HERE, "vmap": ["conv"], "grouped": ["conv", "residual"]}
"""Models whose layers are all that a backend knows; the others are tried in two settings, and in the rest when slow."""


def first(backend, model, setting):
    return model in IN_ALL_SETTINGS[backend] or setting in ("momentum", "mask")


@pytest.mark.parametrize(
    ("backend", "model", "setting"),
    [pytest.param(*case, setting, marks=[] if first(*case, setting) else pytest.mark.slow)
     for setting in SETTINGS for case in CASES],
)  # fmt: skip
def test_backends_equal_torch_optim_sgd(backend, model, setting):
    import copy

    task, works = prepare(model, setting)
    plain = copy.deepcopy(task.module)
    deltas, loss = BACKENDS[backend]().build(task).train(works)
    for i, job in enumerate(works):
        delta, mean = reference(TrainingTask(plain, task.x, task.y, 8, task.sgd), job)
        np.testing.assert_allclose(deltas[i], delta, atol=1e-5)
        assert loss[i] == pytest.approx(mean, abs=1e-5)


@pytest.mark.parametrize(("backend", "model"), [case for case in CASES if case[0] != "vmap"])
def test_bits_do_not_depend_on_the_company(backend, model):
    for setting in SETTINGS:
        task, works = prepare(model, setting)
        check_company(BACKENDS[backend]().build(task), works)


def test_bits_of_many_binary_models_do_not_depend_on_the_company():
    """Sizes at which a product of one model, of few and of many go different ways inside a linear algebra library."""
    rng = np.random.default_rng(0)
    for features, most in ((9, 30), (41, 5), (104, 200)):
        x = torch.from_numpy(rng.normal(size=(300, features)).astype(np.float32))
        y = torch.from_numpy(rng.integers(0, 2, 300))
        module = build(MODELS["binary_logistic"](), (features,), 2)
        engine = BACKENDS["dense"]().build(TrainingTask(module, x, y, most, Sgd()))
        local = LocalTraining(batch_size=None, learning_rate=0.7, local_steps=3)
        start = rng.normal(size=features + 1).astype(np.float32)
        held = [rng.permutation(300)[: most - i % 2] for i in range(24)]
        works = [work(Job(i, i, 0, 0.0), own, LocalPass(start), local, STREAMS) for i, own in enumerate(held)]
        whole, loss = engine.train(works)
        for i, job in enumerate(works):
            alone, some = engine.train([job])
            assert np.array_equal(alone[0], whole[i]) and some[0] == loss[i]
        check_company(engine, works[:5])


def test_whole_batches_are_shuffled_once():
    local = LocalTraining(batch_size=None, learning_rate=0.7, local_steps=3)
    made = work(Job(0, 0, 0, 0.0), np.arange(20), LocalPass(np.zeros(1, dtype=np.float32)), local, STREAMS)
    passes = made.order.reshape(3, 20)
    assert made.steady and (passes == passes[0]).all() and sorted(passes[0].tolist()) == list(range(20))
    assert made.first.steps == 1 and np.array_equal(made.first.order, passes[0])
    local = LocalTraining(batch_size=10, learning_rate=0.7, local_epochs=3)
    made = work(Job(0, 0, 0, 0.0), np.arange(20), LocalPass(np.zeros(1, dtype=np.float32)), local, STREAMS)
    passes = made.order.reshape(3, 20)
    assert not made.steady and made.steps == 6 and (passes[0] != passes[1]).any()


def test_a_cohort_larger_than_the_limit_changes_nothing():
    for setting in SETTINGS:
        task, works = prepare("mlp", setting)
        engine = BACKENDS["dense"]().build(task)
        whole, loss = engine.train(works)
        engine.limit = 2
        parted, some = engine.train(works)
        assert np.array_equal(whole, parted) and np.array_equal(loss, some)
    task, works = prepare("conv", "shift")
    check_company(BACKENDS["grouped"](cohort=2).build(task), works)
    task, works = prepare("conv", "shift")
    whole, _ = BACKENDS["vmap"]().build(task).train(works)
    parted, _ = BACKENDS["vmap"](cohort=2).build(task).train(works)
    np.testing.assert_allclose(parted, whole, atol=1e-6)


def check_company(engine, works):
    whole, loss = engine.train(works)
    for part in ([3], [4, 0], [2, 1, 3], [4, 3, 2, 1, 0]):
        deltas, some = engine.train([works[i] for i in part])
        assert np.array_equal(deltas, whole[part]) and np.array_equal(some, loss[part])


@pytest.mark.parametrize(
    ("backend", "model"), [("dense", "mlp"), ("sequential", "conv"), ("vmap", "conv"), ("grouped", "conv")]
)
def test_augmented_images_reach_every_backend(backend, model):
    import copy

    MODELS_HERE["image mlp"] = (MODELS["mlp"](hidden=(9,)), (2, 5, 4))
    task, works = prepare("image mlp" if model == "mlp" else model, "plain", crop=2, flip=True)
    plain = copy.deepcopy(task.module)
    deltas, _ = BACKENDS[backend]().build(task).train(works)
    for i, job in enumerate(works):
        np.testing.assert_allclose(
            deltas[i], reference(TrainingTask(plain, task.x, task.y, 8, task.sgd, 2), job)[0], atol=1e-5
        )


def test_augmentation_cuts_and_mirrors_as_numbered():
    x = torch.arange(2 * 3 * 4 * 5, dtype=torch.float32).view(2, 3, 4, 5) + 1
    augment = Augment(crop=1, flip=True)
    assert augment.variants == 18
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)))
    for version in range(18):
        got = take(x, torch.tensor([1, 0]), torch.tensor([version, version]), 1).numpy()
        row, column = divmod(version // 2, 3)
        expected = padded[::-1, :, row : row + 4, column : column + 5]
        assert np.array_equal(got, expected[..., ::-1] if version % 2 else expected)
    drawn = augment.draw(np.random.default_rng(0), 20_000)
    assert abs(np.bincount(drawn, minlength=18) / 20_000 - 1 / 18).max() < 0.01
    assert (Augment(crop=1).draw(np.random.default_rng(0), 1000) % 2 == 0).all()


@pytest.mark.parametrize(("model", "workers"), [("conv", 2), ("dropout", 1)])
def test_processes_give_the_bits_of_one_process_for_any_number_of_them(model, workers):
    task, works = prepare(model, "shift")
    expected, loss = BACKENDS["auto"]().build(task).train(works)
    engine = BACKENDS["processes"](workers=workers).build(prepare(model, "shift")[0])
    for part in ([1, 2], [4, 3, 2, 1, 0]):  # the exchange grows between calls
        deltas, some = engine.train([works[i] for i in part])
        assert np.array_equal(deltas, expected[part]) and np.array_equal(some, loss[part])
    folder = engine.folder
    engine.close()
    assert not folder.exists()


@pytest.mark.parametrize("noticed", [False, True])
def test_a_killed_process_is_an_error_of_one_line(noticed):
    task, works = prepare("conv", "shift")
    engine = BACKENDS["processes"](workers=1).build(task)
    engine.train(works)
    for process in engine.pool._processes.values():
        process.kill()
    while noticed and not engine.pool._broken:
        time.sleep(0.01)
    with pytest.raises(
        ExhaustedError, match=r"^learning.backend: a training process was killed by SIGKILL .*$"
    ) as error:
        engine.train(works)
    assert error.value.exit_code == 6
    engine.close()
    assert not engine.folder.exists()


@pytest.mark.parametrize(
    ("number", "kind", "message", "noticed"),
    [
        (signal.SIGKILL, ExhaustedError, "was killed by SIGKILL", False),
        (signal.SIGTERM, ExhaustedError, "ended before its work did", False),
        (signal.SIGSEGV, CrashError, "crashed .SIGSEGV.", True),
    ],
)
def test_a_process_that_ends_while_it_starts_is_no_fault_of_the_script(number, kind, message, noticed, monkeypatch):
    task, works = prepare("conv", "shift")
    engine = BACKENDS["processes"](workers=1).build(task)
    submit = engine.pool.submit

    def submit_and_notice(*arguments):
        future = submit(*arguments)
        while noticed and not engine.pool._broken:
            time.sleep(0.005)
        return future

    monkeypatch.setattr(engine.pool, "submit", submit_and_notice)

    def end():
        while not (started := active_children()):
            time.sleep(0.005)
        os.kill(started[0].pid, number)  # it is still importing

    threading.Thread(target=end).start()
    with pytest.raises(kind, match=message) as error:
        engine.train(works)
    assert "__main__" not in str(error.value) and error.value.exit_code == (6 if kind is ExhaustedError else 1)
    engine.close()


def test_works_make_the_promised_steps():
    held = np.arange(100, 113)
    for local, steps, samples_used in (
        (LocalTraining(batch_size=5), 3, 13),
        (LocalTraining(batch_size=5, local_epochs=2), 6, 26),
        (LocalTraining(batch_size=None, local_epochs=3), 3, 39),
        (LocalTraining(batch_size=50), 1, 13),
        (LocalTraining(batch_size=5, local_steps=4), 4, 18),
        (LocalTraining(batch_size=5, local_steps=2), 2, 10),
    ):
        job = work(Job(4, 0, 0, 0.0), held, LocalPass(np.zeros(1, np.float32)), local, STREAMS)
        assert job.steps == steps == local.steps(np.array([13]))[0] and len(job.order) == samples_used
        assert np.array_equal(
            np.sort(job.order[:13]), held[: len(job.order)] if len(job.order) >= 13 else np.sort(job.order)
        )
        assert np.diff(job.bounds).max() <= (local.batch_size or 13) and job.bounds[-1] == samples_used
        last = np.diff(job.bounds)[job.last_pass :].sum()
        assert last == min(13, samples_used) or local.local_steps
    assert LocalTraining(local_steps=4, batch_size=5).epochs(np.array([20, 10, 3, 0])).tolist() == [1.0, 2.0, 4.0, 0.0]
    assert LocalTraining(local_epochs=3).epochs(np.array([20, 0])).tolist() == [3.0, 3.0]


def test_unfit_models_are_refused_with_a_reason():
    conv = build(SmallConv(), (2, 14, 14), 3)
    assert "linear layers" in BACKENDS["dense"]().supports(conv, False)
    assert BACKENDS["grouped"]().supports(conv, False) is None
    resnet = build(MODELS["resnet18_gn"](), (3, 8, 8), 3)
    assert BACKENDS["grouped"]().supports(resnet, False) is None
    odd = nn.Sequential(Block(3, 4, 1, lambda width: nn.InstanceNorm2d(width)))
    assert "InstanceNorm2d" in BACKENDS["grouped"]().supports(odd, False)
    normed = build(MODELS["resnet8"](width=4), (3, 8, 8), 3)
    assert "running statistics" in BACKENDS["vmap"]().supports(normed, False)
    assert BACKENDS["grouped"]().supports(normed, False) is None
    logistic = build(MODELS["logistic"](), (4,), 3)
    assert "float32" in BACKENDS["dense"]().supports(logistic, True)


@pytest.fixture(scope="module")
def residual():
    """A residual network of 18 layers with four samples, a job on them, and what torch makes of it."""
    module = build(MODELS["resnet18_gn"](groups=2), (3, 8, 8), 3)
    x, y = samples((3, 8, 8), n=8)
    start = initial(module, np.random.default_rng(0))
    job = work(
        Job(0, 0, 0, 0.0), np.arange(4), LocalPass(start), LocalTraining(batch_size=4, learning_rate=0.01), STREAMS
    )
    expected, _ = reference(TrainingTask(copy.deepcopy(module), x, y, 4, Sgd()), job)
    return TrainingTask(module, x, y, 4, Sgd()), job, expected


@pytest.mark.parametrize("backend", ["sequential", "vmap", "grouped"])
def test_residual_networks_train(backend, residual):
    task, job, expected = residual
    task = replace(task, module=copy.deepcopy(task.module))
    deltas, _ = BACKENDS[backend]().build(task).train([job])
    np.testing.assert_allclose(deltas[0], expected, atol=2e-5)
    assert size(layout(task.module)) == len(job.start)


@pytest.mark.parametrize("backend", ["sequential", "vmap", "grouped"])
def test_bf16_is_close_and_not_the_same(backend):
    task, works = prepare("conv", "plain")
    exact, _ = BACKENDS["sequential"]().build(task).train(works)
    task, _ = prepare("conv", "plain")
    rough, _ = BACKENDS[backend]().build(TrainingTask(task.module, task.x, task.y, 8, task.sgd, bf16=True)).train(works)
    assert not np.array_equal(exact, rough)
    assert np.linalg.norm(rough - exact) < 0.1 * np.linalg.norm(exact)
