"""What an observer of a finished run received, with any coalition, from the run's folder."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from simfl.core.errors import SimflError
from simfl.core.payload import MODEL
from simfl.core.types import SERVER
from simfl.privacy.certify.observer_view import Clear, NoiseTerm, ObserverView
from simfl.results.file_names import SCENARIO
from simfl.results.folder import ResultsFolder
from simfl.runs.accounting import stage_facts
from simfl.runs.views import Told, Views
from simfl.scenario import Scenario
from simfl.scenario.trust import Trust

SERVER_NAME, CLIENT = "server", "client/"


def view_of_run(path: Path, observer: str, coalition: Sequence[int] = (), trust_plugins: bool = False) -> ObserverView:
    """The view of an observer of a run and of a coalition.

    A client that aggregates nothing is taken to see every model, and so what the server has made of each sum.

    Args:
        path: of the run's folder.
        observer: ``server``, or ``client/`` and its number.
        coalition: clients who tell what they know.
        trust_plugins: execute plugin files that its scenario names, whatever they are.

    Raises:
        SimflError: there is no such run or observer, or the run is of another simfl or of data that have changed.
        IntegrityError: a stored file does not match the digest in the run's summary.
    """
    results = ResultsFolder.open(path)
    scenario = Scenario.load(results.file(SCENARIO), trust=Trust(trust_plugins))
    if scenario.digest != results.summary["digest"]:
        raise SimflError(f"{path}: of another simfl, or of data that have changed; run it again to see its messages")
    for name in {"participation.csv", "messages.csv", "phases.csv", "facts.csv"} & results.files.keys():
        results.file(name)
    rounds, who = int(results.summary["rounds"]), _number(observer, scenario.clients)
    views = Views(scenario, rounds, Told.by(path, rounds, scenario.clients))
    noise = _noise(scenario, path, views.rounds)
    if who in views:
        return views.known_to(who, coalition, noise)
    if who == SERVER:
        raise SimflError(f"--view {observer}: this run has no server; clients aggregate, e.g. {CLIENT}{min(views)}")
    seen = views[SERVER]
    rows = seen.rows.tocsc(copy=True)
    for member in (who, *coalition):
        rows.data[rows.indptr[member] : rows.indptr[member + 1]] = 0
    rows.eliminate_zeros()
    name = "+".join([observer, *(f"{CLIENT}{other}" for other in coalition)])
    models = ObserverView.of_sums(rows.tocsr(), name)
    sums = np.flatnonzero(np.diff(models.rows.indptr))
    clear = tuple(Clear(part.name, False) for part in scenario.training.algorithm.receives if part != MODEL)
    return replace(
        models, rows=models.rows[sums], round=sums, same=seen.same, clear=clear, opaque=seen.opaque, noise=noise,
        by_samples=seen.by_samples,
    )  # fmt: skip


def _number(observer: str, clients: int) -> int:
    """
    Raises:
        SimflError: nobody has that name.
    """
    if observer == SERVER_NAME:
        return SERVER
    number = observer.removeprefix(CLIENT)
    if number == observer or not (number.isascii() and number.isdecimal()):
        raise SimflError(f"--view {observer}: no observer; use {SERVER_NAME}, or {CLIENT}0 ... {CLIENT}{clients - 1}")
    if int(number) >= clients:
        raise SimflError(f"--view {observer}: there is no such client; the last one is {CLIENT}{clients - 1}")
    return int(number)


def _noise(scenario: Scenario, folder: Path, rounds: int) -> tuple[NoiseTerm, ...]:
    stages, terms = scenario.privacy.stages, []
    for stage, facts in zip(stages, stage_facts(scenario, folder, rounds), strict=True):
        if (noise := stage.adds_noise) is not None:
            std = facts.get("std", facts.get("noise_std", np.full(rounds, np.nan)))
            terms.append(NoiseTerm(stage.name, noise.where, std, "aggregation" if noise.where == "server" else "job"))
    return tuple(terms)
