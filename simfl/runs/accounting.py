"""What a run's accountants are told, and what they say."""

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from simfl.core.columns import COLLUDER_COLUMNS
from simfl.core.coverage import sent
from simfl.core.errors import PluginError, SimflError
from simfl.core.payload import MODEL
from simfl.core.registration.protocol import is_foreign
from simfl.core.types import SERVER, Arrays, Floats, Integers
from simfl.privacy.accountant import Accountant, History
from simfl.privacy.base import COLUMNS
from simfl.privacy.certify.chain import Beside
from simfl.privacy.certify.observer_view import Clear, NoiseTerm, ObserverView
from simfl.results.file_names import SCENARIO
from simfl.results.folder import ResultsFolder
from simfl.runs.views import Told, Views
from simfl.scenario import Scenario
from simfl.scenario.column_owners import accountants
from simfl.scenario.edge_scenarios import require_one_server
from simfl.scenario.plugin_files import Trust

MEASURED = ("measured_recovered", "measured_error")
OF_SUMS = frozenset(column.name for column in (*COLUMNS, *COLLUDER_COLUMNS))
"""Columns that say how many clients hide each other in sums."""

SERVER_NAME, CLIENT = "server", "client/"


def accounts(scenario: Scenario, seen: History) -> dict[str, Iterable[Any]]:
    """What the accountants say, column by column, a value a round.

    Raises:
        PluginError: an accountant fills a column that is none of its own.
    """
    columns: dict[str, Iterable[Any]] = {}
    for accountant in accountants(scenario):
        values = dict(accountant.accounts(_shown(accountant, seen)))
        if foreign := sorted(values.keys() - {column.name for column in accountant.columns}):
            raise PluginError(accountant, f"accounts fills '{foreign[0]}', which is none of its columns; list it there")
        columns |= {name: _of_sums(name, each, seen) if name in OF_SUMS else each for name, each in values.items()}
    return columns | _of_unsummed(scenario, seen)


def _shown(accountant: Accountant, seen: History) -> History:
    """What an accountant is given: one of a plugin a copy, as others read the same after it."""
    return deepcopy(seen) if is_foreign(accountant) else seen


def _of_unsummed(scenario: Scenario, seen: History) -> dict[str, Iterable[Any]]:
    """Epsilons that stages and protocols have of sums, infinite in rounds in which single updates were seen besides, or
    may have been: nobody has counted their noise.
    """
    who = [each for each in (*scenario.privacy.stages, scenario.secagg) if each.certificate]
    names = [column.name for each in who for column in each.columns if column.name.startswith("epsilon")]
    if not (names or scenario.privacy.recovery_budget):
        return {}  # whoever reads none of it need not read the tables
    alone = seen.any_view.alone
    at = np.ones(seen.any_view.rounds, bool) if alone is None else np.diff(alone.indptr) > 0
    columns: dict[str, Iterable[Any]] = {}
    if at.any():
        columns = {name: [math.inf if it else ... for it in at.tolist()] for name in names}
    if has_unshown(scenario, seen):
        columns |= {name: [None] * len(at) for name in MEASURED}
    return columns


def has_unshown(scenario: Scenario, seen: History) -> bool:
    """Whether the server may have more of single clients than the aggregates that attackers and the meter are shown."""
    if not scenario.secagg.shows_updates:
        return bool(seen.open_to(0).any())
    return seen.any_view.alone is None or bool(seen.any_view.alone.nnz)


def _of_sums(name: str, values: Iterable[Any], seen: History) -> list[Any]:
    """What hides clients in sums, whoever has computed it: at most 1 once more than sums is seen, or may be."""
    view = seen.any_view
    certain = not name.startswith("privacy_weak_upper")
    opened = np.full(view.rounds, view.open or (certain and not view.same)) | (certain & seen.open_to(0))
    return [
        min(value, 1) if at and value is not None and value == value else value
        for value, at in zip(values, opened, strict=True)
    ]


def of_clients(scenario: Scenario, seen: History) -> Arrays:
    """What the accountants say of each client, by name, (clients,).

    Raises:
        PluginError: two of them say different things by one name.
    """
    numbers: Arrays = {}
    for accountant in accountants(scenario):
        for name, values in accountant.clients(_shown(accountant, seen)).items():
            if name in numbers and not np.array_equal(numbers[name], values):
                raise PluginError(
                    accountant, f"clients says '{name}', as another accountant does with other values; rename it"
                )
            numbers[name] = values
    return numbers


def history(scenario: Scenario, folder: Path, rounds: int, samples: Integers | None = None) -> History:
    """All that accountants see of a run.

    Args:
        scenario: what was run.
        folder: its folder, with participation.csv and, where there are stages, facts.csv.
        rounds: how many it had.
        samples: training samples of each client, shape (clients,); None = not known.
    """
    events = Told.by(folder, rounds, scenario.clients)
    return history_of(scenario, Views(scenario, rounds, events), stage_facts(scenario, folder, rounds), samples)


def history_of(
    scenario: Scenario,
    views: Mapping[int, ObserverView],
    facts: tuple[dict[str, Floats], ...],
    samples: Integers | None,
) -> History:
    """The same, wherever it was told."""
    weighing = samples if scenario.training.by_samples else None
    silent, beside = not sent(scenario), Beside.of(scenario)
    return History(views, facts, scenario.privacy.stages, weighing, silent=silent, beside=beside)


def stage_facts(scenario: Scenario, folder: Path, rounds: int) -> tuple[dict[str, Floats], ...]:
    """What each stage of a run said of every round, by name: (rounds,), NaN where it said nothing."""
    return facts_of(_table(folder / "facts.csv") if scenario.privacy.stages else (), scenario, rounds)


def facts_of(
    rows: Iterable[tuple[int, int, str, float]], scenario: Scenario, rounds: int
) -> tuple[dict[str, Floats], ...]:
    """The same by rows of round, stage, name and value."""
    facts: tuple[dict[str, Floats], ...] = tuple({} for _ in scenario.privacy.stages)
    for number, stage, name, value in rows:
        facts[stage].setdefault(name, np.full(rounds, np.nan))[number] = value
    return facts


def _table(path: Path) -> list[tuple[int, int, str, float]]:
    """The rows of facts.csv: round, stage, name, value."""
    import pandas

    table = pandas.read_csv(path, dtype={"round": np.int64, "stage": np.int64, "value": np.float64})
    return list(table.itertuples(index=False, name=None))


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
    require_one_server(scenario, "a view")
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
    models = replace(ObserverView.of_sums(seen.by_round, name), rows=rows.tocsr())
    sums = np.flatnonzero(np.diff(models.rows.indptr))
    clear = tuple(Clear(part.name, False) for part in scenario.training.algorithm.receives if part != MODEL)
    return replace(
        models, rows=models.rows[sums], round=seen.round[sums], same=seen.same, clear=clear, opaque=seen.opaque,
        noise=noise, by_samples=seen.by_samples,
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
