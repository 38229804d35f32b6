"""Dropout by masks from the job's own stream."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from simfl.clients.local_training import LocalTraining
from simfl.clients.local_values import LocalPass
from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.learning.backends.base import BACKENDS, Sgd, TrainingTask
from simfl.learning.models.base import Model
from simfl.learning.models.build import build, initial
from simfl.learning.models.dropout import KeyedDropout, Masks
from simfl.learning.work import work

torch.set_num_threads(1)
START = LocalPass(np.zeros(1, np.float32))


class Given(Model):
    name = "given"

    def __init__(self, module):
        self.module = module

    def build(self, shape, classes):
        return self.module


class Reusing(nn.Module):
    """One dropout layer in two places, as the public code of arXiv 2106.03328 has it."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.dropout = nn.Linear(6, 8), nn.Linear(8, 3), nn.Dropout(0.25)

    def forward(self, x):
        return self.last(self.dropout(torch.tanh(self.first(self.dropout(x)))))


def mixed():
    return build(
        Given(nn.Sequential(nn.Conv2d(2, 3, 3), nn.Dropout2d(0.3), nn.Dropout(0.2), nn.Flatten(), nn.Linear(48, 3))),
        (2, 6, 6),
        3,
    )


def test_masks_are_the_levels_of_the_stream_read_one_by_one():
    masks = Masks(mixed())
    assert masks.shapes == [(3, 1, 1), (3, 4, 4)]
    got = masks.draw(Streams(5)("dropout", 9), 2)
    rng = Streams(5)("dropout", 9)
    for mask, probability, shape in zip(got, (0.3, 0.2), masks.shapes, strict=True):
        dropped, count = round(probability * 2**16), 2 * int(np.prod(shape))
        levels = []
        while len(levels) < count:
            word = int(rng.bit_generator.random_raw())
            levels += [word >> shift & 0xFFFF for shift in (0, 16, 32, 48)]
        values = iter(levels)
        for sample in range(2):
            for row in range(shape[1]):
                for column in range(shape[2]):
                    for channel in range(shape[0]):
                        expected = 0 if next(values) < dropped else 1 / (1 - dropped / 2**16)
                        assert mask[sample, channel, row, column] == np.float32(expected)


def test_what_is_dropped_and_what_is_kept():
    units, channels = KeyedDropout(0.2, False), KeyedDropout(0.5, True)
    module = build(Given(nn.Sequential(nn.Dropout(0.2), nn.Flatten(), nn.Linear(2000, 2))), (2, 1000), 2)
    [mask] = Masks(module).draw(np.random.Generator(np.random.Philox(1)), 100)
    share = np.mean(mask == 0)
    assert abs(share - 0.2) < 4 * (0.2 * 0.8 / mask.size) ** 0.5 and abs(mask.mean() - 1) < 0.003
    assert channels.shape((5, 7, 8)) == (5, 1, 1) and units.shape((5, 7, 8)) == (5, 7, 8)
    layer = mixed()[1]
    layer.pending = [torch.tensor([2.0, 0.0]).view(1, 2, 1, 1)]
    assert torch.equal(layer(torch.ones(1, 2, 3, 3)), torch.tensor([2.0, 0.0]).view(1, 2, 1, 1).expand(1, 2, 3, 3))
    with pytest.raises(RuntimeError, match="no mask"):
        layer(torch.ones(1, 2, 3, 3))
    x = torch.randn(1, 2, 3, 3)
    assert layer.eval()(x) is x


def test_masks_belong_to_the_job_and_its_turn():
    def masks(job=3, turn=0, seed=1, purpose="", repeats=False):
        local, begun = LocalTraining(batch_size=4), replace(START, repeats=repeats)
        made = work(Job(job, 0, 0, 0.0), np.arange(9), begun, local, Streams(seed), None, turn, purpose)
        return Masks(mixed()).draw(made.dropout(), 3)[1]

    first = masks()
    assert np.array_equal(first, masks()) and np.array_equal(first, masks(turn=1, repeats=True))
    for other in (masks(job=4), masks(turn=1), masks(seed=2), masks(purpose="tune/")):
        assert not np.array_equal(first, other)


def test_a_layer_in_two_places_gets_a_mask_for_each():
    module = build(Given(Reusing()), (6,), 3)
    assert Masks(module).shapes == [(6,), (8,)]
    rng = np.random.default_rng(0)
    x, y = torch.from_numpy(rng.standard_normal((40, 6)).astype(np.float32)), torch.from_numpy(rng.integers(3, size=40))
    start, local = initial(module, rng), LocalTraining(batch_size=8)
    works = [work(Job(i, i, 0, 0.0), np.arange(i, i + 20), LocalPass(start), local, Streams(0)) for i in range(3)]
    one, other = (
        BACKENDS[name]().build(TrainingTask(module, x, y, 8, Sgd())).train(works)[0] for name in ("auto", "vmap")
    )
    np.testing.assert_allclose(one, other, atol=1e-6)
    plain = [replace(job, dropout=works[0].dropout) for job in works]
    assert not np.array_equal(one[1], BACKENDS["auto"]().build(TrainingTask(module, x, y, 8, Sgd())).train(plain)[0][1])


def test_only_dropout_that_drops_something_is_replaced():
    module = build(Given(nn.Sequential(nn.Dropout(0.0), nn.Linear(4, 3), nn.Sequential(nn.Dropout1d(0.5)))), (4,), 3)
    assert isinstance(module[0], nn.Identity) and isinstance(module[2][0], KeyedDropout)
    assert Masks(module).shapes == [(3,)], "features are their own channels"


def test_samples_stay_in_their_order_without_shuffling():
    held = np.array([7, 2, 9, 4, 1])
    local = LocalTraining(batch_size=2, local_epochs=2, shuffle=False)
    made = work(Job(0, 0, 0, 0.0), held, START, local, Streams(0))
    assert made.order.tolist() == [7, 2, 9, 4, 1, 7, 2, 9, 4, 1]
    assert made.bounds == (0, 2, 4, 5, 7, 9, 10)
    shuffled = work(Job(0, 0, 0, 0.0), held, START, replace(local, shuffle=True), Streams(0)).order
    assert not np.array_equal(shuffled, made.order) and np.array_equal(np.sort(shuffled), np.sort(made.order))
