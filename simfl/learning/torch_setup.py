"""Settings of a process that trains, and where its tensors live. Imported only where torch is."""

import ctypes
import sys

import torch

from simfl.core.errors import MissingError

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES, MAPPED_BYTES = 2**27, 2**24


def configure_torch() -> None:
    """One torch thread, since the bits of a sum depend on their number; and what a step frees is kept for the next.

    By default glibc gives blocks of megabytes back to the system, which clears them page by page when the next step
    asks for them: up to a sixth of the time of a small network (mallopt(3); no bit of a result depends on it).
    """
    torch.set_num_threads(1)
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):  # not in musl
        library.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        library.mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)


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


def device_name(where: torch.device) -> str:
    """``cpu``, for a run's bytes are the same on processors of one maker; a graphics processor by its own name."""
    return "cpu" if where.type == "cpu" else torch.cuda.get_device_name(where)


def instructions() -> str:
    """The vector instructions that torch's own kernels on the processor are compiled for, such as AVX2."""
    return str(torch.backends.cpu.get_cpu_capability())
