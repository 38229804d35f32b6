"""What instructions this machine's processor has, as far as training asks; read without importing torch."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from threadpoolctl import ThreadpoolController

CPUINFO = Path("/proc/cpuinfo")

LEVELS = ("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI")
"""Values of ONEDNN_MAX_CPU_ISA that keep oneDNN from instructions for bfloat16, in their order."""

WITH_BF16 = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""Names of the instructions in Linux: of x86 the first two, of Arm the last."""

BF16_CAUTION = (
    "bf16: this processor has no instructions for bfloat16, so that training takes several times as long as in "
    "float32; set bf16 to false"
)


@dataclass(frozen=True)
class Processor:
    """What training asks of it.

    Attributes:
        widest: the widest vector instructions, "AVX-512", "AVX2", "AVX" or "neither AVX nor AVX2"; None = unknown.
        bf16: whether it multiplies in bfloat16 by instructions of its own; None = unknown.
        limit: what ONEDNN_MAX_CPU_ISA allows oneDNN, the library that computes torch's convolutions; None = everything.
    """

    widest: str | None
    bf16: bool | None
    limit: str | None

    @property
    def avx512(self) -> bool:
        """Whether oneDNN computes with AVX-512."""
        return self.widest == "AVX-512" and (self.limit or "AVX512").startswith(("AVX512", "AVX10", "ALL", "DEFAULT"))


def processor(cpuinfo: Path = CPUINFO) -> Processor:
    """Of this machine; unknown where it is not Linux.

    Args:
        cpuinfo: where Linux lists the processor's flags.
    """
    limit = (os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or "").upper()
    flags = _flags(cpuinfo)
    if flags is None:
        return Processor(None, None, limit or None)
    names = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX"}
    x86 = next((name for flag, name in names.items() if flag in flags), "neither AVX nor AVX2")
    widest = x86 if "sse2" in flags else "NEON" if "asimd" in flags else None
    return Processor(widest, bool(flags & WITH_BF16) and limit not in LEVELS, limit or None)


def _flags(cpuinfo: Path) -> frozenset[str] | None:
    """The flags of the first processor, None where none are told."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return None


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra in here runs on one thread."""
    with _threads("scipy.linalg" in sys.modules).limit(limits=1):
        yield


@cache
def _threads(with_scipy: bool) -> ThreadpoolController:
    """What controls the libraries that are loaded; SciPy has one of its own."""
    return ThreadpoolController()
