"""A worker of a sweep that is no process: runs are executed where the sweep is, one at a time."""

import threading

from simfl.experiments.sweep.task import note_failure


class SlotHere:
    """A place for a sweep's runs without a process of its own, which takes a second to start; one run at a time."""

    lock = threading.Lock()

    def __init__(self, time_limit_s=None):
        pass

    def execute(self, task):
        from simfl.experiments.sweep.worker import _attempt

        with self.lock:
            if "error" in (reply := _attempt(task)):
                note_failure(task.path, **reply)
                return ""
            return reply.get("warning", "")

    def close(self):
        pass
