"""Linear algebra on one thread: its bits depend on the number of threads."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra in here runs on one thread."""
    with _threads("scipy.linalg" in sys.modules).limit(limits=1):
        yield


@cache
def _threads(with_scipy: bool) -> ThreadpoolController:
    """What controls the libraries that are loaded; SciPy has one of its own."""
    return ThreadpoolController()
