"""Wires a scenario into a world, runs it and writes its results; resumes what was interrupted."""

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from simfl.agents.aggregation.components import Components
from simfl.agents.edges.members import EdgeMembers, components_of, edge_streams
from simfl.agents.server_choice import server_for
from simfl.core.errors import BusyError, IntegrityError, ScenarioError
from simfl.core.json_data import JsonObject
from simfl.core.registration.protocol import refuse_altered
from simfl.core.rng import Streams
from simfl.core.scenario_view import summands
from simfl.core.storage.data_folder import bypass_cache
from simfl.core.storage.disk import file_lock, make_folder, refuse_link, write_atomically
from simfl.core.validation import checked_numbers, checked_vectors
from simfl.devices.base import Available, Staying
from simfl.network.links import sharing
from simfl.results.client_updates import UpdateReplay
from simfl.results.file_names import BEGUN, BESIDE, JOINED, OWN, SCENARIO, SUMMARY, UPDATES_FOLDER, is_finished
from simfl.results.folder import ResultsFolder
from simfl.results.notes import Notes, add_notes
from simfl.results.perfetto import write_timeline
from simfl.results.run_files import OnRound, read_rows
from simfl.results.sealed_files import write_sealed
from simfl.runs.client_links import build_links
from simfl.runs.clients_table import clients_files
from simfl.runs.longer_run import check_longer
from simfl.runs.simulation import Phase, Progress, Simulation, leftovers, remove_leftovers
from simfl.scenario import Scenario, data_files
from simfl.scenario.edge_scenarios import edge_groups, edge_scenario
from simfl.scenario.plugin_files import Trust
from simfl.scenario.yaml.places import dotted_key
from simfl.selection.asking import order_of_clients, shuffle_clients
from simfl.training.base import Rule
from simfl.training.sgd_rule import RunLength, Stop

LOCK = ".lock"
"""In a run's folder; whoever executes the run holds it."""


@dataclass(frozen=True)
class FinishedRun:
    """A run whose results are on disk.

    Attributes:
        path: the results folder.
        digest: the scenario's digest, also the folder's name.
        summary: the contents of ``summary.json``.
        reused: True if the folder was there already and nothing was run.
    """

    path: Path
    digest: str
    summary: JsonObject
    reused: bool


def build(scenario: Scenario) -> Components[Rule]:
    """Everything drawn or loaded before the first round.

    Raises:
        SimflError: a data file, extra or network path is missing or impossible.
    """
    privacy, rule = scenario.privacy, scenario.training
    for plugin in (*privacy.stages, scenario.compression, scenario.secagg, rule, rule.aggregate, scenario.selection):
        refuse_altered(plugin)
    streams = Streams(scenario.seed)
    devices, n = scenario.devices, scenario.clients
    policy = scenario.selection
    if policy.shuffle:
        policy = shuffle_clients(policy, order_of_clients(policy, n, streams))
    links = build_links(scenario, streams)
    whole = Components(
        clients=n,
        streams=streams,
        links=links,
        available=_available(scenario, streams, links.names),
        computing=devices.computation.build(scenario, streams),
        failing=devices.failure.build(scenario, streams),
        policy=policy,
        rule=scenario.training,
        learner=scenario.learning.build(scenario, streams),
        evaluate_every=scenario.learning.evaluate_every,
        protocol=scenario.secagg,
        stages=scenario.privacy.stages,
        compression=scenario.compression,
        observers=scenario.attacks,
        metrics=scenario.metrics,
        records=scenario.trace == "aggregates",
        counts_change=scenario.learning.counts_change,
        recovery_budget=scenario.privacy.recovery_budget,
        weight_decay=scenario.training.weight_decay if scenario.secagg.certificate else 0.0,
        agents=scenario.agents,
        loss=scenario.network.loss,
        topology=scenario.topology,
    )
    edges, most = tuple(_edges(scenario, whole)), summands(scenario)
    if most is not None and whole.learner.dimension and not edges and not whole.counts_change:
        for key, why in scenario.secagg.overflow(scenario, most, int(whole.learner.samples.max(initial=1))):
            raise ScenarioError(f"secagg.{key}", why)
    return replace(whole, edges=edges)


def _edges(scenario: Scenario, whole: Components[Rule]) -> Iterator[Components[Rule]]:
    """What each edge works with; nothing ends what it does but the end of the run."""
    groups, rule = edge_groups(scenario), scenario.training
    if groups and not isinstance(rule, RunLength):
        raise ScenarioError("training", f"rule '{rule.name}' has ends of its own, and edges have none; use fedavg")
    for number, group in enumerate(groups):
        members = EdgeMembers(group, scenario.clients, number, len(groups))
        edge, streams = edge_scenario(scenario, len(group)), edge_streams(scenario.seed, number)
        policy = edge.selection
        if policy.shuffle:
            policy = shuffle_clients(policy, order_of_clients(policy, len(group), streams))
        endless = replace(rule, rounds=None, aggregations=None, stop=Stop())
        available = _available(scenario, Streams(scenario.seed), whole.links.names)
        yield components_of(whole, members, endless, policy, available, edge.privacy.stages)


def _available(scenario: Scenario, streams: Streams, names: tuple[str, ...] | None) -> Available:
    """Who is there when: of those who have joined and not left, who is available."""
    available: Available = scenario.devices.availability.build(scenario, streams, names)
    named, dropout = f"availability '{scenario.devices.availability.name}'", available.dropout
    if dropout is not None:
        checked_numbers(np.array(dropout, ndmin=1), np.size(dropout), named, "its dropout", 0, 1, "shares from 0 to 1")
    stays_s = scenario.agents.client.stays_s(scenario.clients, streams)
    if stays_s is None:
        return available
    checked_vectors(stays_s, (scenario.clients, 2), f"agent '{scenario.agents.client.name}'", "stays_s gives")
    return Staying(available, stays_s)


def run(
    scenario: Scenario,
    out: Path,
    *,
    resume: bool = True,
    force: bool = False,
    timeline: Path | None = None,
    progress: Progress | None = None,
    phase: Phase | None = None,
    on_round: OnRound | None = None,
    notes: Notes | None = None,
    extendable: bool = False,
    goes_on: Path | None = None,
) -> FinishedRun:
    """Runs a scenario into ``out/<name>/<digest>/``; a complete folder is reused.

    Args:
        scenario: what to run.
        out: root of all results.
        resume: go on from the last checkpoint of an interrupted run, if there is one; else start anew.
        force: run again even if the folder is complete.
        timeline: also write a Chrome/Perfetto trace to this file.
        progress: called with (rounds done, rounds, simulated seconds) after every round; 0 rounds = not known.
        phase: called with "building", "running" and "finishing" (what the sums gave away, the summary) when that
            begins, and the rounds done by then.
        on_round: called with the row of every round, in order and once, as soon as it is over; the rounds of a complete
            run, and those before the checkpoint from which a run goes on, come from its table. What it raises stops the
            run and is raised here; the run goes on after that round when it is run again.
        notes: a name, tags and a note that are added to those of the folder, complete or not.
        extendable: keep the last checkpoint of the run when it ends, so that ``goes_on`` can name it.
        goes_on: folder of a finished run of the same scenario that ended earlier (:func:`check_longer`): its last
            checkpoint is the beginning, unless there is one in the folder itself.

    Raises:
        IntegrityError: a file of the complete folder is damaged, or resuming found only damaged checkpoints.
        BusyError: another process is running it.
        SimflError: the scenario cannot be built, or its clients are processes of their own and nobody asks them.
        RemoteClientError: a remote client has failed.
    """
    folder = out / scenario.name / scenario.digest
    events = scenario.trace == "events" or timeline is not None
    _check_places(folder, goes_on, scenario)
    finished = None if force else _complete(folder, scenario, events)
    if finished is None:
        _refuse_alone(scenario)
        (begins := phase or (lambda name, done: None))("building", 0)
        parts = build(scenario)
        server_for(parts)  # or it is refused before anything is written
        make_folder(folder, out)
        with file_lock(folder / LOCK, f"{folder}: another process is running this run"):
            finished = None if force else _complete(folder, scenario, events)  # by now, by another process
            add_notes(folder, notes)
            if finished is None:
                anew = force or not resume
                _begin(scenario, parts, folder, anew)
                how = events, progress, begins, on_round, None if anew else goes_on, extendable
                finished = _execute(scenario, parts, folder, *how)
    else:
        add_notes(folder, notes)
        _finish_tidying(folder)
    if on_round is not None and finished.reused:
        _repeat(folder, on_round)
    if timeline is not None:
        _write_timeline(scenario, folder, timeline)
    return finished


def _execute(scenario: Scenario, parts: Components[Rule], folder: Path, *how: Any) -> FinishedRun:
    return FinishedRun(folder, scenario.digest, Simulation(scenario, parts, folder, *how).simulate(), False)


def _check_places(folder: Path, goes_on: Path | None, scenario: Scenario) -> None:
    refuse_link(folder.parent)
    refuse_link(folder)
    if goes_on is not None:
        check_longer(goes_on, scenario)


def _repeat(folder: Path, on_round: OnRound) -> None:
    """Hands over the rows of a complete run."""
    for row in read_rows(ResultsFolder.open(folder).file("rounds.csv")):
        on_round(row)


def _write_timeline(scenario: Scenario, folder: Path, timeline: Path) -> None:
    links = scenario.network.build(scenario, Streams(scenario.seed))
    phases, shares = folder / "phases.csv", sharing(links)
    write_timeline(
        folder / "events.jsonl",
        timeline,
        links.names,
        phases if phases.exists() else None,
        None if shares is None else shares.shared,
    )


def _finish_tidying(folder: Path) -> None:
    """Removes what a kill between the summary and the tidying has left."""
    if list(leftovers(folder)):
        with suppress(BusyError, OSError), file_lock(folder / LOCK, f"{folder}: its run is being finished"):
            remove_leftovers(folder)


def _refuse_alone(scenario: Scenario) -> None:
    """
    Raises:
        ScenarioError: clients are processes of their own, and nobody asks them.
    """
    if scenario.learning.external and scenario.means.remote_clients is None:
        raise ScenarioError(
            "learning.backend", "clients of this scenario are processes of their own; simfl serve runs it with them"
        )


def verify(folder: Path, trust_plugins: bool = False) -> dict[str, bool]:
    """Repeats a finished run elsewhere, from the sources of its data; for every file, whether it came out the same.

    Where clients were processes of their own, what they sent then is taken from the folder.

    Args:
        folder: of the run.
        trust_plugins: execute plugin files that its scenario names, whatever they are.

    Raises:
        SimflError: the folder holds no finished run, or names plugin files that have not been executed here before.
        IntegrityError: a stored file does not match the digest in its summary.
    """
    results = ResultsFolder.open(folder)
    results.check()
    scenario = Scenario.load(folder / SCENARIO, trust=Trust(trust_plugins))
    with tempfile.TemporaryDirectory() as scratch, bypass_cache():
        if scenario.learning.external:
            scenario = scenario.using(
                remote_clients=UpdateReplay(folder, Path(scratch, scenario.name, scenario.digest))
            )
        timeline = Path(scratch) / "timeline.json" if "events.jsonl" in results else None
        try:
            again = ResultsFolder.open(run(scenario, Path(scratch), timeline=timeline).path)
        except ScenarioError as error:
            raise scenario.locate(error) from None
    unnamed = {name for name in OWN if name not in again.files and (folder / name).exists()} - {SUMMARY, *BESIDE}
    tables = sorted((results.files.keys() | again.files.keys() | unnamed) - {SCENARIO})
    return {
        SUMMARY: _values(results) == _values(again),
        SCENARIO: results.read(SCENARIO) == scenario.to_yaml(folder).encode(),
        **{name: results.files.get(name) == again.files.get(name) and name in again for name in tables},
    }


def changed_inputs(folder: Path, trust_plugins: bool = False) -> list[str]:
    """What a finished run was made of that is something else today: why :func:`verify` cannot give the same; in words.

    Args, Raises: as for :func:`verify`.
    """
    results = ResultsFolder.open(folder)
    scenario = Scenario.load(folder / SCENARIO, trust=Trust(trust_plugins))
    if results.summary["digest"] == scenario.digest:
        return []
    before, now = results.origins, scenario.origins
    files = {dotted_key(path): f"{dotted_key(path)}: {name}" for path, name in data_files.names(scenario)}
    changes = [
        f"{files.get(what, what)} has changed since the run"
        for what, content in now.items()
        if before.get(what, content) != content
    ]
    return changes or ["a file, plugin or version of simfl that it is made of has changed since the run"]


def _values(run: ResultsFolder) -> JsonObject:
    return {key: value for key, value in run.summary.items() if key != "sha256"}


def _complete(folder: Path, scenario: Scenario, events: bool) -> FinishedRun | None:
    """The run that is complete already; None where there is none, or no events though they are asked for.

    Raises:
        IntegrityError: a file of it is damaged.
    """
    if not is_finished(folder):
        return None
    results = ResultsFolder.open(folder)
    if results.summary["digest"] != scenario.digest:
        raise IntegrityError(f"{folder / SUMMARY}: of another run, {results.summary['digest']}; --force replaces it")
    results.check()
    if events and "events.jsonl" not in results:
        return None
    return FinishedRun(folder, scenario.digest, results.summary, True)


def _begin(scenario: Scenario, parts: Components[Rule], folder: Path, anew: bool) -> None:
    """Writes what a run begins with; what there is of it goes first, if it is to start anew."""
    for name in ("checkpoint", JOINED, UPDATES_FOLDER):
        refuse_link(folder / name)
    if anew or is_finished(folder):
        (folder / SUMMARY).unlink(missing_ok=True)  # first: without it the run is not complete
        remove_leftovers(folder)
        for name in OWN:  # and nothing that somebody else has put beside them
            (folder / name).unlink(missing_ok=True)
    files = {SCENARIO: scenario.to_yaml(folder).encode(), **clients_files(parts)}
    write_sealed(
        folder / BEGUN, {"digest": scenario.digest}, {name: sha256(data).hexdigest() for name, data in files.items()}
    )
    for name, data in files.items():
        write_atomically(folder / name, data)
