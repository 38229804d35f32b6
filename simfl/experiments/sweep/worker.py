"""A process that executes runs one after another: tasks as JSON lines on stdin, a JSON line on stdout for each.

What libraries print goes to stderr. The process ends as soon as its stdin is closed, whatever it is doing, so that
no worker outlives the sweep that started it; the run that it was at can be resumed.
"""

import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from simfl.core.errors import BusyError, IntegrityError, ScenarioError, SimflError, is_exhausted
from simfl.core.json_data import JsonObject
from simfl.core.registration.family_index import plugin_failure, suspect
from simfl.core.storage.disk import file_lock
from simfl.experiments.sweep.stop_rule import PrunedError, StopRule
from simfl.experiments.sweep.task import Task, clear_failure


def main() -> None:
    """Reads tasks and executes them until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the sweep decides
    for number in (signal.SIGUSR1, signal.SIGUSR2):  # so do those with which Slurm announces the end of a task
        signal.signal(number, signal.SIG_IGN)
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(tasks,), daemon=True).start()
    for slow in ("simfl.runs.tracking.tracked_run", "scipy.sparse"):  # most runs need them; importing is no part of one
        import_module(slow)

    print(json.dumps({"ready": True}), file=replies)
    while True:
        print(json.dumps(_attempt(tasks.get())), file=replies)


def execute(task: Task) -> str:
    """Executes a run, or goes on with it, or leaves it as it is if it is complete.

    A run that another process is executing is waited for. A tracker that fails does not stop it.

    Returns:
        What the user should know, in one line; nothing else.

    Raises:
        SimflError: the scenario cannot be built.
    """
    from simfl.experiments.sweep.plugin_pickling import read_objects, unpack
    from simfl.results.notes import Notes
    from simfl.runs.run import LOCK
    from simfl.runs.tracking.tracked_run import run_tracked
    from simfl.scenario import Scenario

    unpack(task.plugins)
    read_objects(*task.objects)
    scenario = Scenario.parse(task.scenario, task.name, folder=Path(task.folder))
    if scenario.digest != task.digest:
        raise SimflError("a data file or plugin has changed, or this worker has another version of simfl or Python")
    clear_failure(task.path)
    look = None if task.stop is None else _look(StopRule.of(task.stop), task.path)
    force = False
    warnings: list[str] = []
    while True:
        try:
            run_tracked(scenario, Path(task.out), task.log, Notes(tags=task.tags), label=task.label, force=force,
                        progress=look, on_failure=warnings.append)  # fmt: skip
            break
        except PrunedError:
            break
        except ScenarioError as error:
            raise scenario.locate(error) from None
        except BusyError:
            with file_lock(task.path / LOCK):
                pass
        except IntegrityError:  # its results are damaged, or no checkpoint is usable
            if force:
                raise
            force = True
    return "; ".join(dict.fromkeys(warnings))


def _look(rule: StopRule, folder: Path) -> Callable[[int, int, float], None]:
    """Looks after every round of a run whether it is to stop."""
    passed = -1

    def look(done: int, rounds: int, time_s: float) -> None:
        nonlocal passed
        if (now := rule.levels_passed(done, time_s)) != passed:
            passed = now
            rule.check(folder)

    return look


def _read(tasks: "queue.SimpleQueue[Task]") -> None:
    for line in sys.stdin:
        tasks.put(Task(**json.loads(line)))
    os._exit(0)


def _attempt(task: Task) -> JsonObject:
    try:
        warning = execute(task)
    except ScenarioError as error:
        return {"error": _line(f"{error.key}: {error.message}" if error.key else error.message, task)}
    except SimflError as error:
        return {"error": _line(str(error), task)}
    except (Exception, SystemExit) as error:
        if is_exhausted(error):
            return {"error": "out of memory"}
        what = plugin_failure(error) or f"internal error ({type(error).__name__}: {error}{suspect(error)})"
        return {"error": _line(what, task), "detail": traceback.format_exc()}
    return {"warning": _line(warning, task)} if warning else {}


def _line(message: str, task: Task) -> str:
    """The message on one line, the same wherever the results lie."""
    return " ".join(message.replace(f"{task.out}{os.sep}", "").split())[:500]


if __name__ == "__main__":
    main()
