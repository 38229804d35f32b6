"""A run with trackers."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from simfl.core.errors import MissingError
from simfl.results.notes import Notes, read_notes
from simfl.results.run_files import OnRound, RoundRow
from simfl.runs.run import FinishedRun, run
from simfl.runs.tracking import prepare_trackers, tracker_class
from simfl.runs.tracking.tracker import Tracker, TrackerError
from simfl.scenario import Scenario

WITHOUT = "the run continues without it"


def run_tracked(
    scenario: Scenario,
    out: Path,
    log: Sequence[str] = (),
    notes: Notes | None = None,
    *,
    label: str = "",
    on_round: OnRound | None = None,
    on_failure: Callable[[str], None] | None = None,
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
        on_failure: is called with one line where a tracker fails, and the run goes on without it; None = the run stops.

    Raises:
        TrackerError: a tracker failed and there is no ``on_failure``; the run has stopped, and goes on when it is run
            again.
        SimflError: as of :func:`simfl.runs.run.run`; or a tracker is not known or not installed.
    """
    if not log:
        return run(scenario, out, notes=notes, on_round=on_round, **how)
    names = _usable_trackers(log, scenario.name, on_failure)
    folder = out / scenario.name / scenario.digest
    about = scenario.name, scenario.digest, folder, out, scenario.plain(folder)
    all_notes = read_notes(folder).merge(notes or Notes())
    trackers = _Trackers([tracker_class(name)(*about, all_notes, label) for name in names], on_failure)

    def each_round(row: RoundRow) -> None:
        then = f"the run stopped after round {row['round']}, and the same command continues it"
        trackers.each(lambda tracker: tracker.on_round(row), then)
        if on_round is not None:
            on_round(row)

    try:
        finished = run(scenario, out, notes=notes, on_round=each_round, **how)
    except BaseException:
        for tracker in trackers.left:
            with suppress(Exception):  # what fails now is not the reason why the run has stopped
                tracker.abandon()
        raise
    trackers.each(lambda tracker: tracker.finish(finished.summary), f"the run is complete: {finished.path}")
    return finished


def _usable_trackers(log: Sequence[str], scenario: str, on_failure: Callable[[str], None] | None) -> list[str]:
    """The names of the trackers that can be used."""
    if on_failure is None:
        prepare_trackers(log, scenario)
        return list(dict.fromkeys(log))
    names = []
    for name in dict.fromkeys(log):
        tracker = tracker_class(name)
        try:
            with tracker.failures(WITHOUT):
                tracker.prepare(scenario)
            names.append(name)
        except MissingError as error:
            on_failure(f"{error}; {WITHOUT}")
        except TrackerError as error:
            on_failure(str(error))
    return names


class _Trackers:
    """Those of one run that have not failed.

    Args:
        trackers: all of them.
        on_failure: is called with one line where one fails, which is then left out; None = its error is raised.
    """

    def __init__(self, trackers: list[Tracker], on_failure: Callable[[str], None] | None) -> None:
        self.left = trackers
        self.on_failure = on_failure

    def each(self, act: Callable[[Tracker], None], then: str) -> None:
        """
        Raises:
            TrackerError: one failed, and failures are raised; ``then`` says what follows.
        """
        for tracker in list(self.left):
            try:
                with tracker.failures(then if self.on_failure is None else WITHOUT):
                    act(tracker)
            except (TrackerError, MissingError) as error:
                if self.on_failure is None:
                    raise
                self.left.remove(tracker)
                with suppress(Exception):  # it has failed already
                    tracker.abandon()
                self.on_failure(str(error))
