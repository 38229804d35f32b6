"""The logits of flat models on samples. Imports torch."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call

from simfl.attacks.context import AttackerKnowledge

BATCH = 500


def logits_of(knowledge: AttackerKnowledge, model: NDArray[np.float32], x: NDArray[np.float32]) -> NDArray[np.float64]:
    """float64 (n, classes) of samples (n, *shape) under a model (d,)."""
    flat = torch.from_numpy(np.array(model, dtype=np.float32))
    weights = knowledge.weights(flat)
    with torch.inference_mode():
        cuts = range(0, len(x), BATCH)
        parts = [functional_call(knowledge.module, weights, (torch.from_numpy(x[i : i + BATCH]),)) for i in cuts]
    return torch.cat(parts).double().numpy()
