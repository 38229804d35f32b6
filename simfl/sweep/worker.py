"""A process that plays runs one after another: tasks as JSON lines on stdin, a JSON line on stdout for each.

What libraries print goes to stderr. The process ends as soon as its stdin is closed, whatever it is doing, so that
no worker outlives the sweep that started it; what it was playing can be resumed.
"""

import json
import os
import queue
import signal
import sys
import threading
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

from simfl.blame import blamed
from simfl.errors import BusyError, IntegrityError, ScenarioError, SimflError
from simfl.sweep import folders
from simfl.sweep.task import Task

__all__ = ["main", "play"]


def main() -> None:
    """Reads and plays until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the sweep decides
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(tasks,), daemon=True).start()
    for slow in ("simfl.run", "pandas", "scipy.sparse"):  # every run needs them; importing is no part of a run
        import_module(slow)

    print(json.dumps({"ready": True}), file=replies)
    while True:
        print(json.dumps(_attempt(tasks.get())), file=replies)


def play(task: Task) -> None:
    """Plays a run, or goes on with it, or leaves it as it is if it is complete.

    A run that another process is playing is waited for.

    Raises:
        SimflError: the scenario cannot be built.
    """
    from simfl.run import run
    from simfl.scenario import Scenario
    from simfl.sweep.shipping import unpack

    unpack(task.plugins)
    scenario = Scenario.parse(task.scenario, task.name, folder=Path(task.folder))
    if scenario.digest != task.digest:
        raise SimflError("a data file or plugin has changed, or this worker has another version of simfl or Python")
    folders.clear_failure(task.path)
    resume = True
    while True:
        damaged = (task.path / "summary.json").exists() and folders.summary(task.path) is None
        try:
            run(scenario, Path(task.out), resume=resume, force=damaged or not resume)
            return
        except ScenarioError as error:
            raise scenario.located(error) from None
        except BusyError:
            with folders.locked(task.path / ".lock"):
                pass
        except IntegrityError:  # no checkpoint is usable
            if not resume:
                raise
            resume = False


def _read(tasks: "queue.SimpleQueue[Task]") -> None:
    for line in sys.stdin:
        tasks.put(Task(**json.loads(line)))
    os._exit(0)


def _attempt(task: Task) -> dict[str, Any]:
    try:
        play(task)
    except ScenarioError as error:
        return {"error": _line(f"{error.key}: {error.message}" if error.key else error.message, task)}
    except SimflError as error:
        return {"error": _line(str(error), task)}
    except MemoryError:
        return {"error": "out of memory"}
    except (Exception, SystemExit) as error:
        what = blamed(error) or f"internal error ({type(error).__name__}: {error})"
        return {"error": _line(what, task), "detail": traceback.format_exc()}
    return {}


def _line(message: str, task: Task) -> str:
    """The message on one line, the same wherever the results lie."""
    return " ".join(message.replace(f"{task.out}{os.sep}", "").split())[:500]


if __name__ == "__main__":
    main()
