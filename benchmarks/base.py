"""The commit that others are compared with, measured in the same run: numbers of another day are of another machine."""

import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

COMMIT = "40533e2b"
HERE = Path(__file__).resolve().parent.parent


@contextmanager
def base() -> Iterator[Path]:
    """A folder with simfl as it was at :data:`COMMIT`, for PYTHONPATH."""
    archive = subprocess.run(["git", "-C", str(HERE), "archive", COMMIT, "simfl", "scenarios"], capture_output=True)
    if archive.returncode:
        sys.exit(f"{HERE}: no commit {COMMIT} to compare with ({archive.stderr.decode().strip()})")
    with TemporaryDirectory() as folder, tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
        yield Path(folder)
