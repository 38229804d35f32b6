"""The multi-round privacy columns of a run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.columns import COLLUDER_COLUMNS, Column
from simfl.core.coverage import changing_lengths, told_by_compression
from simfl.core.errors import amount
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.scenario_view import ScenarioView, changing_weights, summands, surely_tolerated, tolerance_problem
from simfl.core.types import SERVER
from simfl.privacy.accountant import History
from simfl.privacy.base import COLUMNS, PRIVACY, Privacy
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.ledger.ledger_scope import GAUSSIAN_IN_SUM, LEDGER_COLUMNS, is_covered
from simfl.privacy.multiround.guarantee_trace import BUDGET, evaluation_rounds, reduce_by


@PRIVACY("multi_round")
@dataclass(frozen=True, kw_only=True)
class Guarantees(Privacy):
    """Strong, semi-strong and weak multi-round privacy of the aggregates. Reference: So et al., arXiv 2106.03328.

    Where clients aggregate, each is an observer of its own sums, who knows its own updates; the columns hold the
    smallest guarantee against any of them. Where single updates are seen (``secagg: plain``) or needed (a median), or
    more leaves the clients than updates that are summed (masks, control variates, whole models), nobody hides: all
    columns are 1 from the first aggregate on. Where an update that stays the same is clipped to another length from sum
    to sum, all but the upper bound of the weak one are. Where nothing leaves them, the columns are empty.
    """

    every: Annotated[
        int, Field(ge=0, description="rounds between evaluations; 0 = after the last round only (strong: always)")
    ] = 1
    budget: Annotated[
        int, Field(ge=0, le=10**15, description="work of each metric's computation; 10^9 is a few seconds")
    ] = BUDGET

    rows: Annotated[
        Literal["units", "weights"],
        Field(
            description="what a row holds of a client: units = what its update times its samples counts (1, or a "
            "staleness weight), weights = what the update alone counts, samples included"
        ),
    ] = "units"

    colluders: Annotated[
        int | None, Field(ge=1, description="also say what is left against the server and any of so many clients")
    ] = field(default=None, metadata=SINCE_LATER)

    ledger: Annotated[
        bool,
        Field(description="also say at which signal to noise each client's update is known, to any number of clients"),
    ] = field(default=False, metadata=SINCE_LATER)

    @property
    def columns(self) -> tuple[Column, ...]:
        colluded = () if self.colluders is None else COLLUDER_COLUMNS
        return (*COLUMNS, *colluded, *(LEDGER_COLUMNS if self.ledger else ()))

    @property
    def recovery_budget(self) -> int:
        return self.budget

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems = super().check(setting)
        if self.colluders is not None and self.colluders >= setting.clients:
            why = f"are {self.colluders} of {amount(setting.clients, 'client')}, which leaves nobody; use at most"
            problems.append(("colluders", f"{why} {setting.clients - 1}"))
        if changing_weights(setting):
            why = "but the clients' numbers of samples change over time, and one number a client is known"
            if self.rows == "weights":
                problems.append(("rows", f"is weights, {why}; use rows: units, or training.weighting: equal"))
            if self.ledger:
                problems.append(("ledger", f"needs what every update counted, {why}; use training.weighting: equal"))
        if self.ledger and setting.secagg.sums_units:
            problems.append(("ledger", f"speaks of one sum a round, and secagg: {setting.secagg.name} opens several"))
        noisy = [str(type(stage).name) for stage in self.stages if stage.observer]
        if self.ledger and (len(noisy) > 1 or not all(map(is_covered, self.stages))):
            problems.append(("ledger", f"speaks of one stage of {GAUSSIAN_IN_SUM}, not of {' and '.join(noisy)}"))
        elif self.ledger and (noisy if told_by_compression(setting) else changing_lengths(setting)):
            moving = [
                f"privacy.stages: {stage.name}" for stage in self.stages if not all(link.stays for link in stage.links)
            ]
            if not moving and (setting.compression.codes or setting.compression.subsamples):
                moving = [f"compression: {setting.compression.name}"]
            who = (moving or [changing_lengths(setting)])[0]
            why = f"speaks of updates that stay the same from sum to sum, but {who} changes what is summed of them"
            problems.append(("ledger", f"{why}; leave that out"))
        return problems

    def cautions(self, setting: ScenarioView) -> list[str]:
        if (colluders := self.colluders) is None:
            return []
        if problem := tolerance_problem(setting, colluders):
            return [f"colluders {problem}; the columns against more are 1"]
        if colluders > surely_tolerated(setting, summands(setting) or setting.clients):
            why = "where clients fail or are late, a sum may fail or fall apart, and be open to the server and to them"
            return [f"colluders is {colluders}: {why}; their columns are 1 from then on"]
        return []

    def accounts(self, history: History) -> Mapping[str, Iterable[float | int | None]]:
        if history.silent:
            return {column.name: [None] * history.shape[0] for column in self.columns}
        values: dict[str, Iterable[float | int | None]] = {**self._guarantees(history)}
        if not self.ledger:
            return values
        from simfl.privacy.ledger.ledger_columns import ledgers, of_rounds

        weak = np.array([np.nan if value is None else value for value in values["privacy_weak_lower"]], dtype=float)
        return {**values, **of_rounds(history, list(ledgers(history, _foreign, self.every, self.budget, weak)))}

    def clients(self, history: History) -> Mapping[str, NDArray[np.generic]]:
        if not self.ledger:
            return {}
        from simfl.privacy.ledger.ledger_columns import ledgers, of_clients

        return of_clients(history, list(ledgers(history, _foreign, 0, self.budget)))

    def _guarantees(self, history: History) -> dict[str, list[float | int | None]]:
        """The columns of the guarantees, and what is left of them against colluders."""
        least = np.minimum.reduce([self._against_one(who, history) for who in history.views])
        least[np.isinf(least)] = np.nan  # of an aggregator that has aggregated nothing yet
        least[:-1] = self._where_open(least, history, 0)[:-1]
        values = [*least, *(() if self.colluders is None else self._against_colluders(least, history))]
        kinds = (int, float, int, int) * 2
        names = [column.name for column in (*COLUMNS, *COLLUDER_COLUMNS)[: len(values)]]
        return {
            name: [None if np.isnan(value) else kind(value) for value in column]
            for name, column, kind in zip(names, values, kinds)
        }

    def _against_one(self, who: int, history: History) -> NDArray[np.float64]:
        """What one aggregator's own sums leave, computed once for all histories that share its view."""
        view = history.views[who]
        made_of, values = history.guarantees.get((self, who), (None, None))
        if values is None or made_of[0] is not view or made_of[1] is not history.samples:
            values = self._against(view, _foreign(view.rows, who), history)
            history.guarantees[self, who] = (view, history.samples), values
        return values

    def _against_colluders(self, least: NDArray[np.float64], history: History) -> NDArray[np.float64]:
        """What is left of the values against colluders: 1 from the first session on that does not tolerate them.

        In a round in which fewer clients are summed than the protocol was prepared for, and nobody knows for how many,
        it is taken to tolerate what it would have tolerated of those.
        """
        colluders = self.colluders or 0
        left = reduce_by(least, colluders)
        first, *others = (view.rows for view in history.views.values())
        if colluders and any((other != first).nnz for other in others):  # colluders who aggregate have more
            left = np.where(np.isnan(left), left, 1.0)
        return self._where_open(left, history, colluders)

    def _where_open(self, values: NDArray[np.float64], history: History, colluders: int) -> NDArray[np.float64]:
        """1 in the rounds that are evaluated, once the server and so many clients may know more than sums."""
        worst = np.ones_like(values)
        worst[1:, ~evaluation_rounds(values.shape[1], self.every)] = np.nan
        return np.where(history.open_to(colluders), worst, values)

    def _against(self, view: ObserverView, P: Any, history: History) -> NDArray[np.float64]:
        """The columns' values against one aggregator, by its view and what it does not know of its rows, (4, rounds);
        infinite until it has aggregated something.
        """
        whole = np.array_equal(view.round, np.arange(view.rounds))
        if view.open:
            values = np.ones((len(COLUMNS), view.rounds))
            values[1:, ~evaluation_rounds(view.rounds, self.every)] = np.nan
        else:
            from simfl.privacy.multiround.matrix_metrics import trace
            from simfl.privacy.multiround.participation_matrix import with_samples

            samples = history.samples if self.rows == "weights" else None
            matrix = P if samples is None else with_samples(P, samples)
            columns = trace(matrix, self.every if whole else 1, self.budget, doubles=True)
            values = np.array(
                [columns.strong, columns.semi_strong_lower, columns.weak_lower, columns.weak_upper], dtype=np.float64
            )
        if not view.same:
            values[:-1] = np.minimum(values[:-1], 1.0)
        if not (whole or view.open):  # what holds after the last sum of each round
            last = np.searchsorted(view.round, np.arange(view.rounds), side="right") - 1
            values = np.append(values, np.full((len(values), 1), np.inf), axis=1)[:, last]
            values[1:, ~evaluation_rounds(view.rounds, self.every)] = np.nan
        values[:, : np.append(view.round, view.rounds)[_first(P)]] = np.inf
        return values


def _first(P: Any) -> int:
    """The first sum of somebody; the number of sums where there is none."""
    counts = np.flatnonzero(np.diff(P.indptr))
    return int(counts[0]) if len(counts) else P.shape[0]


def _foreign(P: Any, aggregator: int) -> Any:
    """The sums as they look to their aggregator, who knows its own part of them."""
    if aggregator == SERVER:
        return P
    from simfl.privacy.multiround.participation_matrix import of_others

    return of_others(P, [aggregator])
