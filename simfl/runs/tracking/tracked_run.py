"""A run with trackers."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from simfl.results.notes import Notes, read_notes
from simfl.results.round_rows import OnRound, RoundRow
from simfl.runs.run import FinishedRun, run
from simfl.runs.tracking import prepare_trackers, tracker_class
from simfl.scenario import Scenario


def run_tracked(
    scenario: Scenario,
    out: Path,
    log: Sequence[str] = (),
    notes: Notes | None = None,
    *,
    label: str = "",
    on_round: OnRound | None = None,
    **how: Any,
) -> FinishedRun:
    """Runs a scenario as :func:`simfl.runs.run.run` does, with ``how`` its other arguments, and logs it.

    Args:
        scenario: what to run.
        out: root of all results.
        log: names of trackers; each gets a record of its own of the run, with the rounds that were run before.
        notes: the run's name and what is added to its tags and note.
        label: what trackers call the run if it has no name.
        on_round: as of :func:`simfl.runs.run.run`.

    Raises:
        TrackerError: a tracker failed; the run has stopped, and goes on when it is run again.
        SimflError: as of :func:`simfl.runs.run.run`; or a tracker is not known or not installed.
    """
    if not log:
        return run(scenario, out, notes=notes, on_round=on_round, **how)
    prepare_trackers(log, scenario.name)
    folder = out / scenario.name / scenario.digest
    about = scenario.name, scenario.digest, folder, out, scenario.plain(folder)
    all_notes = read_notes(folder).merge(notes or Notes())
    trackers = [tracker_class(name)(*about, all_notes, label) for name in dict.fromkeys(log)]

    def each_round(row: RoundRow) -> None:
        for tracker in trackers:
            with tracker.failures(f"the run stopped after round {row['round']}, and the same command goes on"):
                tracker.on_round(row)
        if on_round is not None:
            on_round(row)

    try:
        finished = run(scenario, out, notes=notes, on_round=each_round, **how)
    except BaseException:
        for tracker in trackers:
            with suppress(Exception):  # what fails now is not the reason why the run has stopped
                tracker.abandon()
        raise
    for tracker in trackers:
        with tracker.failures(f"the run is complete: {finished.path}"):
            tracker.finish(finished.summary)
    return finished
