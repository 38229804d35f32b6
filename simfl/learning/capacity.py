"""What fits: refused in one line before it is allocated, not killed by the system in the middle."""

import os
from pathlib import Path

from simfl.errors import ScenarioError

__all__ = ["gib", "machine_bytes", "refuse_too_large"]

CONTROL_GROUPS = ("memory.max", "memory/memory.limit_in_bytes")


def machine_bytes() -> int:
    """The memory that this process may use: the machine's, or its container's where that is less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in CONTROL_GROUPS:
        try:
            limits.append(int(Path("/sys/fs/cgroup", name).read_text()))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return min(limits)


def refuse_too_large(needed_bytes: float, key: str, what: str) -> None:
    """Compares an estimate with the machine.

    Args:
        needed_bytes: what will be allocated at once, about.
        key: the scenario's key that asks for it.
        what: the subject of the message.

    Raises:
        ScenarioError: the machine has less.
    """
    if needed_bytes > (there := machine_bytes()):
        problem = f"{what} would take about {gib(needed_bytes)} of memory"
        raise ScenarioError(key, f"{problem}; this machine has {gib(there)}")


def gib(size_bytes: float) -> str:
    """A size in words, ``1.5 GiB``."""
    return f"{size_bytes / 2**30:,.1f} GiB"
