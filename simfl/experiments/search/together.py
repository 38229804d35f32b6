"""What all runs of a search together give away of each client: who picks the best has seen all of them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simfl.core.columns import ROUND_COLUMNS, SUMMARY_COLUMNS, TARGET_COLUMNS
from simfl.core.errors import amount
from simfl.core.json_data import JsonObject
from simfl.core.registration.protocol import is_foreign
from simfl.privacy.dp.accountants.zero_out import ZeroOut
from simfl.privacy.dp.losses import RunLoss, run_losses
from simfl.results.folder import ResultsFolder
from simfl.runs.accounting import history
from simfl.runs.run import build
from simfl.scenario import Scenario
from simfl.scenario.column_owners import accountants, plugin_columns

SHARED_NOISE = "runs of one seed share their noise, which their differences cancel; repeat it with --own-seeds"
UNFINISHED = "what runs that did not end gave away is not accounted; repeat it without --prune, and mend what fails"
CHOSEN = (
    "it is chosen by {}, which is not known to follow from the models alone, as the samples of clients may decide it"
)
OTHERS = "only the epsilons of zero_out are composed over runs; add it to privacy.accountants"


OF_TEST = {"test_accuracy", "test_loss", "best_test_accuracy", *(column.name for column in TARGET_COLUMNS)}
OF_UPDATES = {"train_loss", "measured_recovered", "measured_error", "diverged_round"}
"""Numbers that are computed from clients' samples or updates before any noise."""


class Together(NamedTuple):
    """The epsilons of all runs of a search together, by zero-out adjacency over all of them.

    Attributes:
        runs: how many were begun.
        delta: of the epsilons, the smallest of any run; None where no run has an accountant zero_out.
        epsilon_max, epsilon_median: over the clients.
        why: why they are infinite without any arithmetic; empty = they are composed.
    """

    runs: int
    delta: float | None
    epsilon_max: float = np.inf
    epsilon_median: float = np.inf
    why: str = ""

    @property
    def facts(self) -> JsonObject:
        """The same as plain data, None where a number is infinite."""
        return {name: None if value == np.inf else value for name, value in self._asdict().items()}

    def __str__(self) -> str:
        beside = f": {self.why}" if self.why else f" at δ = {self.delta:g}, composed"
        most, median = (f"{value:.6g}" if np.isfinite(value) else "infinite" for value in self[2:4])
        return f"all {amount(self.runs, 'run')} together: epsilon_max {most}, epsilon_median {median}{beside}"


def together(runs: Iterable[tuple[Scenario, Path]], unfinished: int, chosen_by: Sequence[str] = ()) -> Together | None:
    """What some runs give away together; None where none says an epsilon.

    Args:
        runs: the finished ones, each with its folder.
        unfinished: how many others were begun.
        chosen_by: the numbers by which one of them is the best.
    """
    finished = list(runs)
    if not any("epsilon" in column.name for scenario, _ in finished for column in plugin_columns(scenario)):
        return None
    deltas = [each.delta for scenario, _ in finished for each in accountants(scenario) if isinstance(each, ZeroOut)]
    delta = min(deltas, default=None)
    unsafe = [name for name in chosen_by if not all(_of_models(name, scenario) for scenario, _ in finished)]
    chosen = CHOSEN.format(unsafe[0]) if unsafe else ""
    if why := UNFINISHED if unfinished else chosen if delta else OTHERS:
        return Together(len(finished) + unfinished, delta, why=why)
    if max(Counter(scenario.seed for scenario, _ in finished).values()) > 1:
        return Together(len(finished), delta, why=SHARED_NOISE)
    assert delta is not None, "or there was a reason"
    each = [_loss_of(scenario, folder, delta) for scenario, folder in finished]
    if any(scenario.learning.by_seed for scenario, _ in finished):  # no client is the same in two runs
        each = [loss.of_most() for loss in each]
    epsilons = reduce(RunLoss.plus, each).epsilons(delta)
    return Together(len(finished), delta, float(epsilons.max()), float(np.median(epsilons)))


def _of_models(name: str, scenario: Scenario) -> bool:
    """Whether a number follows from who took part, and from what the models do on samples that are no client's."""
    if name in OF_TEST:
        return not is_foreign(scenario.learning) and not scenario.plain()["learning"].get("holdout")
    return name in {column.name for column in (*ROUND_COLUMNS, *SUMMARY_COLUMNS, *ZeroOut.columns)} - OF_UPDATES


def _loss_of(scenario: Scenario, folder: Path, delta: float) -> RunLoss:
    """The best bound of what one run tells."""
    rounds = int(ResultsFolder.open(folder).summary["rounds"])
    samples = build(scenario).learner.samples if scenario.training.by_samples else None
    seen = history(scenario, folder, rounds, samples)
    return min(run_losses(seen), key=lambda loss: float(loss.epsilons(delta).max()))
