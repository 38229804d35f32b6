"""Gradients of convolutions by every engine against oneDNN switched off; a program, because wrong ones can end it.

    ONEDNN_VERBOSE=1 python tests/support/convolution_grid.py [full]

Prints what oneDNN computes (its own log), and one line of JSON: the largest error of each case, relative to the largest
gradient.
"""

import copy
import json
import sys
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod

import numpy as np
import torch
from torch import nn
from torch.nn.functional import conv2d, cross_entropy

from simfl.clients.local_training import LocalTraining
from simfl.clients.local_values import LocalPass
from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.learning.backends.base import Sgd, TrainingTask
from simfl.learning.backends.choices import Grouped, Sequential, Vmap
from simfl.learning.models.base import Model
from simfl.learning.models.build import build, initial
from simfl.learning.models.flat import layout
from simfl.learning.work import Augment, work

CLASSES, SAMPLES, REPEATS = 3, 6, 4

RATE = 2.0**10
"""So long a step that the rounding of the parameters it ends at does not hide the gradient's last digits."""


class Layers(Model):
    """A convolution between two pieces of a network, as a layer."""

    name = "layers"

    def __init__(self, convolution):
        self.convolution = convolution

    def build(self, shape, classes):
        return nn.Sequential(self.convolution(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.LazyLinear(classes))


class ByFunction(nn.Module):
    """As a function, of an image that the module itself brings into channels-last layout; no layer says so."""

    def __init__(self, channels, stride, classes):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(6, channels, 1, 1))
        self.stride, self.last = stride, nn.Linear(24, classes)

    def draw(self, name, shape, rng):
        return rng.uniform(-0.5, 0.5, shape)

    def forward(self, x):
        x = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        x = conv2d(x, self.weight, stride=self.stride)
        return self.last(nn.functional.adaptive_avg_pool2d(x, 2).flatten(1))


class Hidden(Model):
    name = "hidden"

    def __init__(self, channels, stride):
        self.channels, self.stride = channels, stride

    def build(self, shape, classes):
        return ByFunction(self.channels, self.stride, classes)


def upsampled(inputs, outputs):
    """A transposed convolution, behind another one because images are in channels-last layout for those only."""
    last = nn.ConvTranspose2d(inputs, outputs, 1, stride=2, output_padding=1, bias=False)
    return nn.Sequential(nn.Conv2d(6, inputs, 3, padding=1, bias=False), last)


def materialised(model, shape):
    """A model whose lazy layers know their sizes."""

    class Materialised(Model):
        name = model.name

        def build(self, shape, classes):
            module = model.build(shape, classes)
            module(torch.zeros(2, *shape))
            return module

    return build(Materialised(), shape, CLASSES)


def cases(full):
    """Name, model, samples' shape and whether images are augmented; with a kernel of 1 oneDNN's mistakes were found."""
    some = {1: (1, 4, 7, 15, 16, 17), 3: (3, 16)}
    many = dict.fromkeys((1, 3), (1, 3, 4, 7, 8, 12, 15, 16, 17))
    for kernel, sizes in (many if full else some).items():
        for channels, stride in product(sizes, (1, 2, (1, 2))):
            side = 64 if stride == 2 else 16  # a bias of thousands of pixels is a sum of many rounded numbers
            layer = partial(nn.Conv2d, channels, 6, kernel, stride, padding=kernel // 2, bias=side == 16)
            yield f"{channels} channels, kernel {kernel}, stride {stride}", Layers(layer), (channels, side, side), False
    for channels in (4, 12) if full else (4,):
        for groups in (2, 4):
            layer = partial(nn.Conv2d, channels, 8, 1, stride=2, groups=groups)
            yield f"{channels} channels, {groups} groups", Layers(layer), (channels, 16, 16), False
        for inputs in (1, 6):
            layer = partial(upsampled, inputs, channels)
            yield f"transposed, {inputs} to {channels} channels", Layers(layer), (6, 32, 32), False
        yield f"function of {channels} channels", Hidden(channels, 2), (channels, 64, 64), False
        layer = partial(nn.Conv2d, channels, 6, 1, stride=2, bias=False)
        yield f"{channels} channels, augmented", Layers(layer), (channels, 64, 64), True


def gradients(module, start, x, y):
    """By torch alone, in float64 with oneDNN off: sums of thousands of float32 would be the larger error."""
    flat = torch.from_numpy(start).double()
    values = {s.name: flat[s.start : s.start + prod(s.shape)].view(s.shape).requires_grad_() for s in layout(module)}
    with torch.backends.mkldnn.flags(enabled=False):
        logits = torch.func.functional_call(module, values, (x.double(),))
        found = torch.autograd.grad(cross_entropy(logits, y), list(values.values()))
    return torch.cat([g.flatten() for g in found]).numpy()


def prepare(model, shape, augmented):
    """A training task, several steps' work and the gradients that are right."""
    rng = np.random.default_rng(0)
    module = materialised(model, shape)
    x = torch.from_numpy(rng.standard_normal((SAMPLES, *shape)).astype(np.float32))
    y = torch.from_numpy(rng.integers(CLASSES, size=SAMPLES))
    start = initial(module, rng)
    augment = Augment(crop=0, flip=True) if augmented else None
    local = LocalTraining(learning_rate=RATE)
    works = [
        work(Job(i, i, 0, 0.0), np.arange(SAMPLES), LocalPass(start), local, Streams(i), augment)
        for i in range(REPEATS)
    ]
    expected = []
    for one in works:
        seen = x[one.order]
        if one.versions is not None:
            mirrored = torch.from_numpy(one.versions % 2 == 1)
            seen = torch.where(mirrored.view(-1, 1, 1, 1), seen.flip(3), seen)
        expected.append(gradients(module, start, seen, y[one.order]))
    return TrainingTask(module, x, y, SAMPLES, Sgd(), flip=augmented), works, expected


def error(task, works, expected, backend):
    """The largest of several steps' errors, relative to the largest gradient; None where it is not supported."""
    task = replace(task, module=copy.deepcopy(task.module))
    if backend.supports(task.module, False) is not None:
        return None
    deltas, _ = backend.build(task).train(works)
    return max(float(np.abs(-d / RATE - e).max() / np.abs(e).max()) for d, e in zip(deltas, expected, strict=True))


def main():
    torch.set_num_threads(1)
    engines = {
        "sequential": Sequential(),
        "grouped": Grouped(),
        "grouped, one copy": Grouped(cohort=1),
        "vmap": Vmap(),
        "vmap, one copy": Vmap(cohort=1),
    }
    errors = {}
    for name, model, shape, augmented in cases(full="full" in sys.argv):
        task, works, expected = prepare(model, shape, augmented)
        for engine, backend in engines.items():
            if (found := error(task, works, expected, backend)) is not None:
                errors[f"{name}, {engine}"] = found
    print(json.dumps(errors), flush=True)


if __name__ == "__main__":
    main()
