"""How many copies of a model an accelerator trains at once. Imported only where torch is."""

import copy
from math import prod

import torch

from simfl.learning.backends.base import TrainingTask

PARAMETERS = 8
"""Vectors of a model's length in training: start, parameters, gradient and its copy, velocity, shift, mask, delta."""

ACTIVATIONS = 3
"""Times that a layer's output is there: kept for the way back, its gradient, and what a layer needs while it works."""

SHARE = 0.5
"""Of the device's memory; samples, libraries and other runs have the rest."""


def numbers(task: TrainingTask) -> tuple[int, int]:
    """Parameters of the task's model, running statistics included, and outputs of all its layers for one sample."""
    module = copy.deepcopy(task.module).to("meta").eval()
    outputs = [prod(task.x.shape[1:])]
    for layer in module.modules():
        if not list(layer.children()):
            layer.register_forward_hook(lambda layer, inputs, result: outputs.append(result.numel()))
    with torch.no_grad():
        module(torch.empty((1, *task.x.shape[1:]), dtype=task.x.dtype, device="meta"))
    return sum(part.numel() for part in module.state_dict().values()), sum(outputs)


def fitting(memory_bytes: int, parameters: int, outputs: int, batch_size: int, most: int) -> int:
    """Copies that fit into a share of the memory, between 1 and ``most``."""
    one_bytes = 4 * (PARAMETERS * parameters + ACTIVATIONS * outputs * batch_size)
    return max(1, min(most, int(SHARE * memory_bytes) // one_bytes))


def replica_count(task: TrainingTask, most: int) -> int:
    """For the task's device: by all of its memory, not by what is free, so that the same device gives the same bits."""
    memory_bytes = torch.cuda.get_device_properties(task.x.device).total_memory
    return fitting(memory_bytes, *numbers(task), task.batch_size, most)
