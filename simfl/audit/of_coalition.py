"""The sums of a run that the server and known clients can make together, where the run says whose messages came."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from simfl.audit.log import Log
from simfl.core.errors import IntegrityError, SimflError
from simfl.privacy.certify.observer_view import ObserverView
from simfl.results.file_names import SCENARIO
from simfl.results.folder import ResultsFolder
from simfl.runs.run_view import view_of_run
from simfl.scenario.yaml.reader import read


def with_coalition(log: Log, path: Path, colluding: Sequence[int]) -> tuple[Log, bool]:
    """The log with the very rows that these clients and the server know, failed sessions' too, and whether it has them.

    As it is for others than folders of runs, runs of another simfl, runs whose messages nobody counts, and those that
    name plugin files, which an audit does not execute.
    """
    view = _view(path, colluding) if colluding else None
    if view is None or view.open or not view.same:  # rows would not say what updates count
        return log, False
    return replace(log, matrix=view.rows, rounds=view.round.tolist(), beside_sums=(), tolerated=None), True


def count_unsummed(path: Path) -> Any:
    """How many updates of each client of a run were seen in no sum, CSR (rounds, clients); None = not known."""
    view = _view(path, ())
    return None if view is None else view.alone


def _view(path: Path, colluding: Sequence[int]) -> ObserverView | None:
    """What the server and these clients of a run's folder have; None where it is not known."""
    if not path.is_dir():
        return None
    try:
        if read(ResultsFolder.open(path).read(SCENARIO).decode(), SCENARIO).value.get("plugins"):
            return None
        return view_of_run(path, "server", colluding)
    except IntegrityError:
        raise
    except SimflError:
        return None
