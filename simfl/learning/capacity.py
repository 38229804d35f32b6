"""Memory limits: what does not fit is refused before it is allocated, instead of being killed in the middle."""

import os
from pathlib import Path

from simfl.core.errors import ScenarioError

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
    """Compares what will be allocated at once, about, with the machine; ``key`` of the scenario asks for it.

    Raises:
        ScenarioError: the machine has less; ``what`` is the subject of the message.
    """
    if needed_bytes > (there := machine_bytes()):
        problem = f"{what} would take about {gib(needed_bytes)} of memory"
        raise ScenarioError(key, f"{problem}; this machine has {gib(there)}")


def gib(size_bytes: float) -> str:
    """A size in words, ``1.5 GiB``."""
    return f"{size_bytes / 2**30:,.1f} GiB"
