"""The program in a process of its own: how it ended, what it said, processor seconds and peak memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent.parent.parent
BETWEEN = """
import json, os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=sys.stdout, stderr=subprocess.STDOUT)
_, status, used = os.wait4(child.pid, 0)
print("\\n" + json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""
"""A small process in between: a child's peak memory counts from its parent's size."""


class Measured(NamedTuple):
    """A finished process."""

    code: int
    said: str
    processor_s: float
    peak_mb: float


def measured(folder: Path, *words: str) -> Measured:
    """``simfl`` with these words, in this folder."""
    command = [sys.executable, "-S", "-c", BETWEEN, sys.executable, "-m", "simfl", *words]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(HERE)})
    said, _, figures = done.stdout.decode(errors="replace").rstrip("\n").rpartition("\n")
    code, processor_s, peak_mb = json.loads(figures)
    return Measured(code, said, processor_s, peak_mb)
