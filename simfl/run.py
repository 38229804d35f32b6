"""Wires a scenario into a world, plays it and writes its results; resumes what was interrupted."""

import tempfile
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from simfl.agents import Parts
from simfl.cache import bypassed
from simfl.clients import clients_files
from simfl.disk import locked, make_folder, refuse_link, write_atomically
from simfl.errors import BusyError, IntegrityError, ScenarioError
from simfl.play import Phase, Play, Progress, leftovers, tidy
from simfl.rng import Streams
from simfl.scenario import Scenario, datafiles
from simfl.scenario.places import dotted
from simfl.scenario.trust import Trust
from simfl.selection.base import shuffled
from simfl.stored import BEGUN, JOINED, MACHINE, OWN, SCENARIO, SUMMARY, VECTORS_OF, Stored, is_finished, write_sealed
from simfl.timeline import write_timeline
from simfl.updates import Replay

__all__ = ["run", "verify", "changed", "Finished", "build"]

LOCK = ".lock"
"""In a run's folder; whoever plays the run holds it."""


@dataclass(frozen=True)
class Finished:
    """A run whose results are on disk.

    Attributes:
        path: the results folder.
        digest: the scenario's digest, also the folder's name.
        summary: the contents of ``summary.json``.
        reused: True if the folder was there already and nothing was played.
    """

    path: Path
    digest: str
    summary: dict[str, Any]
    reused: bool


def build(scenario: Scenario) -> Parts:
    """Everything drawn or loaded before the first round.

    Raises:
        SimflError: a data file, extra or network path is missing or impossible.
    """
    streams = Streams(scenario.seed)
    devices, n = scenario.devices, scenario.clients
    policy = scenario.selection
    if policy.shuffle:
        policy = shuffled(policy, streams("assignment").permutation(n))
    links = scenario.network.build(scenario, streams)
    return Parts(
        clients=n,
        streams=streams,
        links=links,
        available=devices.availability.build(scenario, streams, links.names),
        computing=devices.computation.build(scenario, streams),
        failing=devices.failure.build(scenario, streams),
        policy=policy,
        rule=scenario.training,
        learner=scenario.learning.build(scenario, streams),
        evaluate_every=scenario.learning.evaluate_every,
        protocol=scenario.secagg,
        stages=scenario.privacy.stages,
        observers=scenario.attacks,
        metrics=scenario.metrics,
        records=scenario.trace == "aggregates",
    )


def run(
    scenario: Scenario,
    out: Path,
    *,
    resume: bool = True,
    force: bool = False,
    timeline: Path | None = None,
    progress: Progress | None = None,
    phase: Phase | None = None,
) -> Finished:
    """Plays a scenario into ``out/<name>/<digest>/``; a complete folder is reused.

    Args:
        scenario: what to play.
        out: root of all results.
        resume: go on from the last checkpoint of an interrupted run, if there is one; else start anew.
        force: play again even if the folder is complete.
        timeline: also write a Chrome/Perfetto trace to this file.
        progress: called with (rounds done, rounds, simulated seconds) after every round; 0 rounds = not known.
        phase: called with "building", "playing" and "finishing" (what the sums gave away, the summary) when that
            begins, and the rounds done by then.

    Raises:
        IntegrityError: a file of the complete folder is damaged, or resuming found only damaged checkpoints.
        BusyError: another process is playing it.
        SimflError: the scenario cannot be built, or its clients are processes of their own and nobody asks them.
        OutsideError: a client outside has failed.
    """
    folder = out / scenario.name / scenario.digest
    events = scenario.trace == "events" or timeline is not None
    refuse_link(folder.parent)
    refuse_link(folder)
    finished = None if force else _complete(folder, scenario, events)
    if finished is None:
        _refuse_alone(scenario)
        begins = phase or (lambda name, done: None)
        begins("building", 0)
        parts = build(scenario)
        make_folder(folder, out)
        with locked(folder / LOCK, f"{folder}: another process is playing this run"):
            finished = None if force else _complete(folder, scenario, events)  # by now, by another process
            if finished is None:
                finished = _played(scenario, parts, folder, events, force or not resume, progress, begins)
    elif list(leftovers(folder)):  # of a kill between the summary and the tidying
        with suppress(BusyError, OSError), locked(folder / LOCK, f"{folder}: its run is being finished"):
            tidy(folder)
    if timeline is not None:
        names = scenario.network.build(scenario, Streams(scenario.seed)).names
        phases = folder / "phases.csv"
        write_timeline(folder / "events.jsonl", timeline, names, phases if phases.exists() else None)
    return finished


def _refuse_alone(scenario: Scenario) -> None:
    """
    Raises:
        ScenarioError: clients are processes of their own, and nobody asks them.
    """
    if scenario.learning.external and scenario.means.outside is None:
        raise ScenarioError(
            "learning.backend", "clients of this scenario are processes of their own; simfl serve plays with them"
        )


def verify(folder: Path, trust_plugins: bool = False) -> dict[str, bool]:
    """Plays a finished run again elsewhere, from the sources of its data; for every file, whether it came out the same.

    Where clients were processes of their own, what they sent then is taken from the folder.

    Args:
        folder: of the run.
        trust_plugins: execute plugin files that its scenario names, whatever they are.

    Raises:
        SimflError: the folder holds no finished run, or names plugin files that have not been executed here before.
        IntegrityError: a stored file does not match the digest in its summary.
    """
    stored = Stored.open(folder)
    stored.check()
    scenario = Scenario.load(folder / SCENARIO, trust=Trust(trust_plugins))
    with tempfile.TemporaryDirectory() as scratch, bypassed():
        if scenario.learning.external:
            scenario = scenario.using(outside=Replay(folder, Path(scratch, scenario.name, scenario.digest)))
        timeline = Path(scratch) / "timeline.json" if "events.jsonl" in stored else None
        again = Stored.open(run(scenario, Path(scratch), timeline=timeline).path)
    unnamed = {name for name in OWN if name not in again.files and (folder / name).exists()} - {SUMMARY, MACHINE}
    tables = sorted((stored.files.keys() | again.files.keys() | unnamed) - {SCENARIO})
    return {
        SUMMARY: _values(stored) == _values(again),
        SCENARIO: (folder / SCENARIO).read_bytes() == scenario.to_yaml(folder).encode(),
        **{name: stored.files.get(name) == again.files.get(name) and name in again for name in tables},
    }


def changed(folder: Path, trust_plugins: bool = False) -> list[str]:
    """What a finished run was made of that is something else today: why :func:`verify` cannot give the same; in words.

    Args, Raises: as for :func:`verify`.
    """
    stored = Stored.open(folder)
    scenario = Scenario.load(folder / SCENARIO, trust=Trust(trust_plugins))
    if stored.summary["digest"] == scenario.digest:
        return []
    before, now = stored.origins, scenario.origins
    files = {dotted(path): f"{dotted(path)}: {name}" for path, name in datafiles.named(scenario)}
    found = [
        f"{files.get(what, what)} has changed since the run"
        for what, content in now.items()
        if before.get(what, content) != content
    ]
    return found or ["a file, plugin or version of simfl that it is made of has changed since the run"]


def _values(run: Stored) -> dict[str, Any]:
    return {key: value for key, value in run.summary.items() if key != "sha256"}


def _complete(folder: Path, scenario: Scenario, events: bool) -> Finished | None:
    """The run that is complete already; None where there is none, or no events though they are asked for.

    Raises:
        IntegrityError: a file of it is damaged.
    """
    if not is_finished(folder):
        return None
    stored = Stored.open(folder)
    if stored.summary["digest"] != scenario.digest:
        raise IntegrityError(f"{folder / SUMMARY}: of another run, {stored.summary['digest']}; --force replaces it")
    stored.check()
    if events and "events.jsonl" not in stored:
        return None
    return Finished(folder, scenario.digest, stored.summary, True)


def _played(
    scenario: Scenario,
    parts: Parts,
    folder: Path,
    events: bool,
    anew: bool,
    progress: Progress | None,
    begins: Phase,
) -> Finished:
    for name in ("checkpoint", JOINED, VECTORS_OF):
        refuse_link(folder / name)
    if anew or is_finished(folder):
        _clear(folder)
    files = {SCENARIO: scenario.to_yaml(folder).encode(), **clients_files(parts)}
    write_sealed(
        folder / BEGUN, {"digest": scenario.digest}, {name: sha256(data).hexdigest() for name, data in files.items()}
    )
    for name, data in files.items():
        write_atomically(folder / name, data)
    return Finished(folder, scenario.digest, Play(scenario, parts, folder, events, progress, begins).play(), False)


def _clear(folder: Path) -> None:
    """Removes a run's own files, and nothing that somebody else has put beside them."""
    (folder / SUMMARY).unlink(missing_ok=True)  # first: without it the run is not complete
    tidy(folder)
    for name in OWN:
        (folder / name).unlink(missing_ok=True)
