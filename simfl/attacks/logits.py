"""The logits of flat models on samples. Imports torch."""

from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call

from simfl.lab import Bench

__all__ = ["logits_of"]

BATCH = 500


def logits_of(bench: Bench, model: NDArray[np.float32], x: NDArray[np.float32]) -> NDArray[np.float64]:
    """float64 (n, classes) of samples (n, *shape) under a model (d,)."""
    flat = torch.from_numpy(np.array(model, dtype=np.float32))
    weights = {p.name: flat[p.start : p.start + prod(p.shape)].view(p.shape) for p in bench.parameters}
    with torch.inference_mode():
        cuts = range(0, len(x), BATCH)
        parts = [functional_call(bench.module, weights, (torch.from_numpy(x[i : i + BATCH]),)) for i in cuts]
    return torch.cat(parts).double().numpy()
