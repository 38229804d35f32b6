"""Where tensors live. Imported only where torch is."""

import torch

from simfl.errors import MissingError

__all__ = ["device"]


def device(name: str) -> torch.device:
    """The device that a scenario names; on CUDA with deterministic algorithms.

    Raises:
        MissingError: there is none.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise MissingError("learning.device: no CUDA device found; use device: cpu, or a torch built for CUDA")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False  # float32 means float32; bf16 is the choice for speed
    return torch.device("cuda")
