"""What a known model says of samples: its logits, and how well an update points where training on a sample does.

The latter is FedMIA's (Zhu et al. 2024). Imports torch.
"""

import warnings

import numpy as np
import torch
from torch.func import functional_call, grad, vmap

from simfl.attacks.context import AttackerKnowledge
from simfl.core.types import Floats, Integers, Vectors

NUMBERS = 1 << 23
"""Of single samples' gradients at a time."""


def alignments(knowledge: AttackerKnowledge, starts: Vectors, updates: Vectors, x: Vectors, y: Integers) -> Floats:
    """Cosines between each update, (m, d), and minus the gradient of each sample's loss, (m, n).

    Args:
        starts: where each update began, there the gradients are taken, (m, d).
        updates: running statistics do not count.
        x, y: the samples, (n, *shape) and (n,).
    """
    updates = updates[:, : knowledge.trained_size]
    cosines = np.empty((len(updates), len(x)))
    distinct, which = np.unique(starts, axis=0, return_inverse=True)
    lengths = np.maximum(np.linalg.norm(updates, axis=1), 1e-30)[:, None]
    directions = torch.from_numpy((updates / lengths).astype(np.float32))
    at_once = max(1, NUMBERS // updates.shape[1])
    for i, start in enumerate(distinct):
        mine = which.ravel() == i
        for first in range(0, len(x), at_once):
            some = slice(first, first + at_once)
            slopes = _slopes(knowledge, torch.from_numpy(start), torch.from_numpy(x[some]), torch.from_numpy(y[some]))
            cosines[mine, some] = -(directions[torch.from_numpy(mine)] @ slopes.T).double().numpy()
    return cosines


def _slopes(knowledge: AttackerKnowledge, start: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient of each sample's loss, of length 1, (n, d)."""
    all_of = knowledge.weights(start)

    def loss(trained: dict[str, torch.Tensor], one: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        logits = functional_call(knowledge.module, all_of | trained, (one[None],))
        return torch.nn.functional.cross_entropy(logits, label[None])

    trained = {p.name: all_of[p.name] for p in knowledge.trained_parameters}
    with warnings.catch_warnings():  # recurrent layers are computed sample by sample
        warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
        each = vmap(grad(loss), in_dims=(None, 0, 0))(trained, x, y)
    flat = torch.cat([each[p.name].flatten(1) for p in knowledge.trained_parameters], dim=1)
    return flat / flat.norm(dim=1, keepdim=True).clamp_min(1e-30)


BATCH = 500


def logits_of(knowledge: AttackerKnowledge, model: Vectors, x: Vectors) -> Floats:
    """float64 (n, classes) of samples (n, *shape) under a model (d,)."""
    flat = torch.from_numpy(np.array(model, dtype=np.float32))
    weights = knowledge.weights(flat)
    with torch.inference_mode():
        cuts = range(0, len(x), BATCH)
        parts = [functional_call(knowledge.module, weights, (torch.from_numpy(x[i : i + BATCH]),)) for i in cuts]
    return torch.cat(parts).double().numpy()
