"""What a process of the suite saves before its first test: a third of the time to collect, a tenth of that of runs.

* The cyclic garbage collector is off while tests are collected, and then leaves what is there alone: syntax trees of
  150 modules are millions of objects, none of them garbage, and it would walk over all of them 23 times.
* Compiled modules are kept beside the sources, also where the environment says otherwise: pytest takes nine seconds to
  rewrite the assertions of all tests, in every worker, and a child process 0.3 s to compile simfl.
* Folders of tests are in memory where there is some: runs write checkpoints to disk and wait for it (``fsync``).
"""

import gc
import os
import shutil
import sys
from pathlib import Path

MEMORY = Path("/dev/shm")
LEAST_BYTES = 2 << 30
"""Free there at least; a suite leaves 0.2 GB, and pytest keeps the last three."""


def begin() -> None:
    """Before the first test module is imported."""
    gc.disable()
    sys.dont_write_bytecode = False
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > LEAST_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def collected() -> None:
    """After the last one."""
    gc.freeze()
    gc.enable()
