"""Where tensors live. Imported only where torch is."""

import torch

from simfl.core.errors import MissingError


def device(name: str) -> torch.device:
    """The device that a scenario names; on CUDA with cuDNN's deterministic algorithms.

    float32 means float32, unless the name is ``cuda_tf32``: then products are of numbers rounded to 10 bits (TF32).

    Raises:
        MissingError: there is none.
    """
    there = torch.cuda.is_available()
    if name.startswith("cuda") and not there:
        raise MissingError("learning.device: no CUDA device found; use device: cpu, or a torch built for CUDA")
    if name == "cpu" or not there:
        return torch.device("cpu")
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = name == "cuda_tf32"
    return torch.device("cuda")


def instructions() -> str:
    """The vector instructions that torch's own kernels on the processor are compiled for, such as AVX2."""
    return str(torch.backends.cpu.get_cpu_capability())
