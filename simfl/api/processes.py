"""Child processes that import nothing of the folder they are started in, and one thread a process."""

from simfl.core.children import START_LIMIT_S, read_line, start_python
from simfl.core.processor import one_thread

__all__ = [
    "START_LIMIT_S", "one_thread", "read_line", "start_python",
]  # fmt: skip
