"""A model's predictions on many samples. Imported only where torch is."""

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call, vmap

from simfl.learning.models.flat import attach, is_recurrent, layout, size, views


class Predictor:
    """Runs a module over many samples, in the memory layout of training.

    ``many``: models are better measured many at once; on a processor a convolution's work outweighs all else, and
    recurrent layers are computed one after the other in any case.
    """

    def __init__(self, module: torch.nn.Module, device: torch.device) -> None:
        self.module = copy.deepcopy(module).to(device).eval()
        self.entries = layout(module)
        self.flat = torch.zeros(size(self.entries), device=device)
        attach(self.module, self.flat)
        self.images = any(isinstance(layer, torch.nn.Conv2d) for layer in module.modules())
        self.many = not is_recurrent(module) and (device.type != "cpu" or not self.images)

    def __call__(
        self, model: NDArray[np.float32], x: torch.Tensor, y: torch.Tensor
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Cross-entropy of each sample, float64 (n,), and its predicted class, int64 (n,)."""
        self.flat.copy_(torch.from_numpy(model))
        images = x.dim() == 4 and self.images
        batch = 100 if images and x.device.type == "cpu" else 1000  # larger ones leave the processor's cache
        losses, classes = [], []
        with torch.inference_mode():
            for part, labels in zip(torch.split(x, batch), torch.split(y, batch), strict=True):
                if images:
                    part = part.to(memory_format=torch.channels_last)
                logits = self.module(part).float()
                losses.append(torch.nn.functional.cross_entropy(logits, labels, reduction="none").double())
                classes.append(logits.argmax(1))
        return torch.cat(losses).cpu().numpy(), torch.cat(classes).cpu().numpy()

    def each(
        self, models: NDArray[np.float32], x: torch.Tensor, y: torch.Tensor
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The same of k models, (k, d), each on samples of its own, (k, n, *shape) and (k, n); results are (k, n)."""
        names = [entry.name for entry in self.entries]

        def logits(parts: list[torch.Tensor], samples: torch.Tensor) -> torch.Tensor:
            return functional_call(self.module, dict(zip(names, parts, strict=True)), (samples,))

        with torch.no_grad():
            flat = torch.from_numpy(models).to(self.flat.device)
            out = vmap(logits)(views(flat, self.entries), x).float()
            loss = torch.nn.functional.cross_entropy(out.flatten(0, 1), y.flatten(), reduction="none").view_as(y)
        return loss.double().cpu().numpy(), out.argmax(2).cpu().numpy()
