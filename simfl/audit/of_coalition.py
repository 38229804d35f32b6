"""The sums of a run that the server and known clients can make together, where the run says whose messages came."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from simfl.audit.log import Log
from simfl.core.errors import SimflError
from simfl.results.file_names import SCENARIO
from simfl.results.folder import ResultsFolder
from simfl.runs.run_view import view_of_run
from simfl.scenario.yaml.reader import read


def with_coalition(log: Log, path: Path, colluding: Sequence[int]) -> tuple[Log, bool]:
    """The log with the very rows that these clients and the server know, failed sessions' too, and whether it has them.

    As it is for others than folders of runs, runs of another simfl, runs whose messages nobody counts, and those that
    name plugin files, which an audit does not execute.
    """
    if not (colluding and path.is_dir()):
        return log, False
    try:
        if read(ResultsFolder.open(path).read(SCENARIO).decode(), SCENARIO).value.get("plugins"):
            return log, False
        view = view_of_run(path, "server", colluding)
    except SimflError:
        return log, False
    if view.open:
        return log, False
    return replace(log, matrix=view.rows, rounds=view.round.tolist(), beside_sums=(), tolerated=None), True
