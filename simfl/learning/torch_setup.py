"""Settings of a process that trains. Imported only where torch is."""

import ctypes
import sys

import torch

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
