"""What all runs of a search give away together: whoever picks the best has seen all of them.

Noise of different seeds is independent, so that losses add up. Sums are stacked: a client is the same in all runs, and
so is its update in the worst case. What hides clients in all sums hides them in those of each run.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

import numpy as np

from simfl.core.certificate_words import AND, AT_DELTA, UNSAID_DELTA, WORST_CASE, unite_columns
from simfl.core.columns import GUARANTEES, ROUND_COLUMNS, SUMMARY_COLUMNS, TARGET_COLUMNS, Column
from simfl.core.errors import amount
from simfl.core.json_data import JsonObject
from simfl.core.registration.protocol import is_foreign
from simfl.privacy.accountant import History
from simfl.privacy.base import COLUMNS
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.dp.accountants.zero_out import ZeroOut
from simfl.privacy.dp.losses import RunLoss, run_losses
from simfl.privacy.multiround.guarantees import Guarantees
from simfl.results.folder import ResultsFolder
from simfl.runs.accounting import history
from simfl.runs.run import build
from simfl.scenario import Scenario
from simfl.scenario.column_owners import accountants, plugin_columns, with_bases

Run = tuple[Scenario, Path]
"""A finished one, with its folder."""

SHARED_NOISE = "runs of one seed share their noise, which their differences cancel; repeat it with --own-seeds"
UNFINISHED = "what runs that did not end gave away is not accounted; repeat it without --prune, and mend what fails"
CHOSEN = (
    "it is chosen by {}, which is not known to follow from the models alone, as the samples of clients may decide it"
)
EDGES = "what edges, or clients that exchange models, have seen is not composed over runs; use topology: star"
OTHERS = "epsilons of stages and protocols are not composed over runs; add zero_out to privacy.accountants"

OF_TEST = {"test_accuracy", "test_loss", "best_test_accuracy", *(column.name for column in TARGET_COLUMNS)}
OF_UPDATES = {"train_loss", "measured_recovered", "measured_error", "diverged_round"}
"""Numbers that are computed from clients' samples or updates before any noise."""
OF_SUMS = {column.name for column in (*COLUMNS, *GUARANTEES)}


NOT_CHOSEN = "no result of a run decides the noise, the rounds or who takes part in later ones"
"""What the composition takes for granted: proposals that read results may spend more where more is seen (R. Rogers, A.
Roth, J. Ullman, S. Vadhan, Privacy odometers and filters, NeurIPS 2016)."""


@dataclass(frozen=True)
class Together:
    """Epsilons of all runs together, by zero-out adjacency over all of them, and what hides clients in all their sums.

    Who took part is known, whatever sampling an accountant of a run claims.

    Attributes:
        runs: how many were begun.
        delta: of the epsilons, the smallest of any accountant; None where none says one.
        epsilon_max, epsilon_median: over the clients; None where no run says an epsilon.
        why: why they are infinite without any arithmetic; empty = they are composed.
        hidden: the columns of multi-round privacy, by name; empty where the search is for none.
        columns: what the epsilons mean, with what stands beside them.
    """

    runs: int
    delta: float | None = None
    epsilon_max: float | None = None
    epsilon_median: float | None = None
    why: str = ""
    hidden: Mapping[str, float | None] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()

    @property
    def facts(self) -> JsonObject:
        """The same as plain data, None where a number is infinite."""
        names = ("delta", "epsilon_max", "epsilon_median", "why") if self.epsilon_max is not None else ()
        values = {name: getattr(self, name) for name in names} | dict(self.hidden)
        return {"runs": self.runs} | {name: None if value == np.inf else value for name, value in values.items()}

    def __str__(self) -> str:
        parts = []
        if self.epsilon_max is not None:
            beside = f": {self.why}" if self.why else f" at δ = {self.delta:g}, composed"
            both = [f"{name} {_words(getattr(self, name))}" for name in ("epsilon_max", "epsilon_median")]
            parts.append(", ".join(both) + beside)
        if self.hidden:
            values = [f"{name} {_words(value)}" for name, value in self.hidden.items() if value is not None]
            parts.append(f"{', '.join(values)} ({WORST_CASE})")
        return f"all {amount(self.runs, 'run')} together: {'; '.join(parts)}"


def _words(value: float) -> str:
    return f"{value:.6g}" if np.isfinite(value) else "infinite"


def together(runs: Iterable[Run], unfinished: int, names: Sequence[str] = ()) -> Together | None:
    """What some runs give away together; None where none says an epsilon, and they are not for any privacy.

    Args:
        runs: the finished ones, each with its folder.
        unfinished: how many others were begun.
        names: the numbers by which one of them is the best.
    """
    finished = list(runs)
    total = len(finished) + unfinished
    hidden = hidden_in_all(finished, unfinished) if OF_SUMS.intersection(names) else {}
    if not any("epsilon" in column.name for scenario, _ in finished for column in plugin_columns(scenario)):
        return Together(total, hidden=hidden) if hidden else None
    deltas = [each.epsilon_delta for scenario, _ in finished for each in scenario.privacy.accountants or ()]
    delta = min(filter(None, deltas), default=None)
    every = (column for scenario, _ in finished for column in with_bases(scenario, ZeroOut.columns))
    at_delta = (c._replace(assumes=c.assumes.replace(UNSAID_DELTA, f"{AT_DELTA}{delta:g}")) for c in every)
    said = (column._replace(assumes=AND.join(filter(None, (column.assumes, NOT_CHOSEN)))) for column in at_delta)
    columns = () if delta is None else tuple(unite_columns(said).values())
    why, most, median = _infinite(finished, unfinished, delta, names), np.inf, np.inf
    if delta is not None and not why:
        each = [_loss_of(scenario, folder, delta) for scenario, folder in finished]
        if any(scenario.learning.by_seed for scenario, _ in finished):  # no client is the same in two runs
            each = [loss.of_most() for loss in each]
        epsilons = reduce(RunLoss.plus, each).epsilons(delta)
        most, median = float(epsilons.max()), float(np.median(epsilons))
    return Together(total, delta, most, median, why, hidden, columns)


def _infinite(finished: Sequence[Run], unfinished: int, delta: float | None, names: Sequence[str]) -> str:
    """Why epsilons are infinite without any arithmetic; empty where they are composed."""
    if unfinished:
        return UNFINISHED
    if delta is None:
        return OTHERS
    if not all(_has_one_server(scenario) for scenario, _ in finished):
        return EDGES
    unsafe = [name for name in names if not all(_of_models(name, scenario) for scenario, _ in finished)]
    if unsafe:
        return CHOSEN.format(unsafe[0])
    shared = max(Counter(scenario.seed for scenario, _ in finished).values()) > 1
    return SHARED_NOISE if shared else ""


def _has_one_server(scenario: Scenario) -> bool:
    return scenario.topology.server is None and not scenario.topology.own_models


def _of_models(name: str, scenario: Scenario) -> bool:
    """Whether a number follows from who took part, and from what the models do on samples that are no client's."""
    if name in OF_TEST:
        return not is_foreign(scenario.learning) and not scenario.plain()["learning"].get("holdout")
    known = [each for each in accountants(scenario)[1:] if not is_foreign(each)]
    columns = (*ROUND_COLUMNS, *SUMMARY_COLUMNS, *(column for each in known for column in each.columns))
    return name in {column.name for column in columns} - OF_UPDATES


def _loss_of(scenario: Scenario, folder: Path, delta: float) -> RunLoss:
    """The best bound of what one run tells."""
    samples = build(scenario).learner.samples if scenario.training.by_samples else None
    return min(run_losses(_seen(scenario, folder, samples)), key=lambda loss: float(loss.epsilons(delta).max()))


def _seen(scenario: Scenario, folder: Path, samples: np.ndarray | None = None) -> History:
    return history(scenario, folder, int(ResultsFolder.open(folder).summary["rounds"]), samples)


def hidden_in_all(finished: Sequence[Run], unfinished: int) -> dict[str, float | None]:
    """The columns of multi-round privacy after all rounds of all runs; 1 where some are not known, seen by several
    servers, or count samples (``rows: weights``), and None where nothing leaves a client.
    """
    plain = all(_has_one_server(scenario) and scenario.privacy.rows == "units" for scenario, _ in finished)
    if unfinished or not finished or not plain:
        return {column.name: 1 for column in COLUMNS}
    views: dict[int, list[ObserverView]] = {}
    for seen in (_seen(*run) for run in finished):
        for who, view in () if seen.silent else seen.views.items():
            views.setdefault(who, []).append(view)
    if not views:
        return {column.name: None for column in COLUMNS}
    metrics = Guarantees(every=0, budget=max(scenario.privacy.recovery_budget for scenario, _ in finished))
    values = metrics.accounts(History({who: ObserverView.of_runs(every) for who, every in views.items()}))
    return {name: list(column)[-1] for name, column in values.items()}
