"""A model's training tried on a few of its samples, before anything rests on it. Imported only where torch is.

Whether samples influence one another, and whether a model trains at all, no list of layers can say.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch

from simfl.core.types import Vectors
from simfl.learning.backends.base import Engine, TrainingTask
from simfl.learning.backends.sequential_engine import SequentialEngine
from simfl.learning.models.dropout import Masks
from simfl.learning.models.flat import frozen, layout, values
from simfl.learning.work import Work

SPREAD = 0.05
"""Standard deviation of what is added to a model, so that it is no special one."""

SIZES = (3, 2)
"""Samples of the clients that are tried: a backend that fills up steps has to fill up one."""

RELATIVE, OVERALL, ROUNDING = 1e-3, 1e-5, 1e-6
"""By how much a tensor's update may be off: of itself, of the whole update, and of the model's largest value."""


def trial(
    build: Callable[[TrainingTask], Engine], task: TrainingTask, sizes: Sequence[int] = SIZES, spread: float = SPREAD
) -> tuple[Vectors, torch.nn.Module]:
    """One step of clients of so many samples, on the processor in float32, each from a model near the task's.

    The samples are of the task, and each step is of rate 1.

    Returns:
        The updates, (len(sizes), d), and the copy of the module that was trained.
    """
    module = copy.deepcopy(task.module).cpu()
    rows = torch.from_numpy(np.linspace(0, len(task.x) - 1, sum(sizes)).astype(np.int64)).to(task.x.device)
    small = TrainingTask(module, task.x[rows].cpu(), task.y[rows].cpu(), max(sizes), task.sgd)
    entries = [entry for entry in layout(module) if entry.trained]
    start, rng = values(module), np.random.default_rng(0)
    trained = sum(int(np.prod(entry.shape)) for entry in entries)
    works, first = [], 0
    for i, size in enumerate(sizes):
        near = start.copy()
        near[:trained] += spread * rng.standard_normal(trained, dtype=np.float32)
        order = np.arange(first, first + size)
        works.append(Work(near, order, (0, size), 0, 1.0, dropout=partial(np.random.default_rng, i)))
        first += size
    return build(small).train(works)[0], module


def refusal(task: TrainingTask, sizes: Sequence[int] = SIZES) -> str | None:
    """Why plain SGD cannot train the task's module in steps of so many samples, or None."""
    before, state = {name: buffer.clone() for name, buffer in own_buffers(task.module)}, torch.get_rng_state()
    try:
        updates, module = trial(SequentialEngine, task, sizes, 0.0)
    except Exception as error:  # somebody else's module may raise anything
        return f"cannot be trained: {first_line(error)}"
    if not torch.equal(state, torch.get_rng_state()):
        return "draws from torch's global random state while it is trained"
    if changed := changed_part(before, module):
        return f"changes {changed} in its forward pass; an average of models cannot carry that"
    return None if np.isfinite(updates).all() else "gives no finite gradient"


def disagreement(build: Callable[[TrainingTask], Engine], task: TrainingTask) -> str | None:
    """Why an engine does not give what plain SGD gives, one client after the other; None where it does."""
    wanted, module = trial(SequentialEngine, task)
    try:
        got, _ = trial(build, task)
    except Exception as error:  # as above
        return f"it cannot compute it ({first_line(error)}); use sequential"
    off = np.abs(got - wanted)
    always = OVERALL * np.abs(wanted).max() + ROUNDING * np.abs(values(module)).max()
    for entry in layout(module):
        part = np.s_[:, entry.start : entry.start + int(np.prod(entry.shape))]
        if not (off[part] <= RELATIVE * np.abs(wanted[part]).max(initial=0) + always).all():
            return (
                f"on a few samples it gives '{entry.name}' another update than plain SGD does, as where samples of a "
                "step influence one another or layers are used in ways of their own; use sequential"
            )
    return None


def influence(task: TrainingTask) -> str | None:
    """Whether, in training mode, a sample's output depends on the others or on how many there are; None = it does not.

    The last of a few samples is changed, left out, and made NaN, which nothing that it goes into can hide.
    """
    module, masks = (tried := copy.deepcopy(task.module).cpu().train()), Masks(tried)
    rows = torch.from_numpy(np.linspace(0, len(task.x) - 1, 5).astype(np.int64)).to(task.x.device)
    x = task.x[rows].cpu()
    changed = x.clone()
    changed[-1] = (3 - 2 * x[0]) if x.is_floating_point() else (x[-1] + 1) % (int(task.x.max()) + 1)
    others = [changed, x[:-1]]
    if x.is_floating_point():
        others.append(torch.cat([x[:-1], torch.full_like(x[-1:], torch.nan)]))
    outputs = []
    with torch.no_grad():
        for samples in (x, *others):
            masks.set_masks([torch.ones(())] * len(masks.shapes))
            try:
                outputs.append(module(samples)[:4])
            except Exception as error:  # as above
                return f"it cannot compute it ({first_line(error)}); use sequential"
    if all(torch.allclose(outputs[0], output, rtol=1e-4, atol=1e-6) for output in outputs[1:]):
        return None
    return "samples of a step influence one another, and those that fill up its steps would, too; use sequential"


def first_line(error: BaseException) -> str:
    """Of its message, or the name of its type where it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def own_buffers(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """The frozen parameters, and the buffers that no norm layer moves."""
    still: list[tuple[str, torch.Tensor]] = [(name, module.get_parameter(name)) for name in frozen(module)]
    return still + [
        (f"{name}.{local_name}", buffer)
        for name, layer in module.named_modules()
        if not isinstance(layer, torch.nn.modules.batchnorm._NormBase)
        for local_name, buffer in layer.named_buffers(recurse=False)
    ]


def changed_part(before: Mapping[str, torch.Tensor], module: torch.nn.Module) -> str | None:
    """Which of a module's :func:`own_buffers` is no more what it was, in words; None where all are."""
    changed = next((name for name, buffer in own_buffers(module) if not _same(before[name], buffer)), None)
    what = "frozen parameter" if changed in frozen(module) else "buffer"
    return None if changed is None else f"the {what} '{changed.strip('.')}'"


def _same(before: torch.Tensor, after: torch.Tensor) -> bool:
    return torch.allclose(before.cpu(), after.cpu(), rtol=0, atol=0, equal_nan=True)
