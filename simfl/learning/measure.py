"""A model's predictions on many samples. Imported only where torch is."""

import copy

import numpy as np
import torch
from numpy.typing import NDArray

from simfl.learning.models.flat import attach, layout, size

__all__ = ["Measure"]


class Measure:
    """Runs a module over many samples, in the memory layout of training.

    Args:
        module: the model; a copy is kept.
        device: where it runs.
    """

    def __init__(self, module: torch.nn.Module, device: torch.device) -> None:
        self.module = copy.deepcopy(module).to(device).eval()
        self.flat = torch.zeros(size(layout(module)), device=device)
        attach(self.module, self.flat)

    def __call__(
        self, model: NDArray[np.float32], x: torch.Tensor, y: torch.Tensor
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Cross-entropy of each sample, float64 (n,), and its predicted class, int64 (n,)."""
        self.flat.copy_(torch.from_numpy(model))
        images = x.dim() == 4 and any(isinstance(m, torch.nn.Conv2d) for m in self.module.modules())
        batch = 100 if images and x.device.type == "cpu" else 1000  # larger ones leave the processor's cache
        losses, classes = [], []
        with torch.inference_mode():
            for part, labels in zip(x.split(batch), y.split(batch), strict=True):
                if images:
                    part = part.to(memory_format=torch.channels_last)
                logits = self.module(part).float()
                losses.append(torch.nn.functional.cross_entropy(logits, labels, reduction="none").double())
                classes.append(logits.argmax(1))
        return torch.cat(losses).cpu().numpy(), torch.cat(classes).cpu().numpy()
