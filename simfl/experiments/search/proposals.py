"""Optuna proposes values: the same history gives the same proposals.

Each proposal is drawn with a seed of its own, from the scenario's seed and the number of the proposal, so that no state
of a generator needs to be stored: whoever repeats the history of a search gets the same next proposals.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING

from simfl.core.errors import SimflError, requires_extra
from simfl.core.rng import Streams
from simfl.experiments.search.objectives import Goal
from simfl.experiments.search.space import SearchParameter, Space

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import Trial

MAX_REPEATED = 20
"""After so many proposals in a row that were made before or are impossible, an untried combination is drawn."""

TRIES = 300
"""Proposals in a row that may be in vain."""

COUNTED = 100_000
"""Combinations of a space that can be listed."""

VIOLATIONS = "violations"


class Proposer:
    """Proposes combinations of values that it has not proposed before.

    Args:
        space: what it chooses from.
        goal: what for.
        seed: of the scenario.

    Raises:
        MissingError: optuna is not installed.
    """

    def __init__(self, space: Space, goal: Goal, seed: int) -> None:
        with requires_extra("search", "a search"):
            import optuna
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.space, self.goal, self.streams = space, goal, Streams(seed)
        self.tried: set[tuple[str, ...]] = set()
        direction = optuna.study.StudyDirection
        directions = [direction.MAXIMIZE if objective.sign > 0 else direction.MINIMIZE for objective in goal.objectives]
        self.storage = optuna.storages.InMemoryStorage()
        self.study: Study = optuna.create_study(storage=self.storage, directions=directions, study_name="simfl")
        self.distributions = {parameter.key: _distribution(parameter) for parameter in space.parameters}
        self.number = 0

    @property
    def exhausted(self) -> bool:
        """Whether every combination has been proposed."""
        return self.space.size is not None and len(self.tried) >= self.space.size

    def proposals(self) -> "Iterator[tuple[Trial, tuple[str, ...]]]":
        """New combinations, one after another; who cannot use one calls :meth:`refuse` and takes the next.

        Raises:
            SimflError: too many in a row were proposed before.
        """
        for attempt in range(TRIES):
            if self.exhausted:
                return
            trial = self._ask(attempt % MAX_REPEATED == MAX_REPEATED - 1)
            values = tuple(parameter.value_text(trial.params[parameter.key]) for parameter in self.space.parameters)
            if values in self.tried:
                self.refuse(trial)
            else:
                self.tried.add(values)
                yield trial, values
        raise SimflError(f"{TRIES} proposals in a row were made before or are impossible: widen the ranges")

    def refuse(self, trial: "Trial") -> None:
        """A proposal that was not run, or whose run has no result."""
        from optuna.trial import TrialState

        with _quiet():
            self.study.tell(trial, state=TrialState.FAIL)

    def tell(self, trial: "Trial", values: Sequence[float], violations: Sequence[float]) -> None:
        """What came of a proposal.

        Args:
            trial: the proposal.
            values: of the objectives.
            violations: of the requirements, 0 where they are met.
        """
        trial.set_user_attr(VIOLATIONS, list(violations))
        with _quiet():
            self.study.tell(trial, list(values))

    def prune(self, trial: "Trial", rounds: int, value: float, violations: Sequence[float]) -> None:
        """A proposal whose run was stopped early, after so many rounds and with this value."""
        from optuna.trial import TrialState

        trial.set_user_attr(VIOLATIONS, list(violations))
        trial.report(value, rounds)
        with _quiet():
            self.study.tell(trial, state=TrialState.PRUNED)

    def _ask(self, untried: bool) -> "Trial":
        from optuna.samplers import TPESampler

        rng = self.streams("search", self.number)
        constraints = (lambda trial: trial.user_attrs.get(VIOLATIONS, [])) if self.goal.requirements else None
        with _quiet():
            self.study.sampler = TPESampler(seed=int(rng.integers(2**31)), constraints_func=constraints)
            if untried and self.space.size is not None and self.space.size <= COUNTED:
                every = product(*(parameter.values() for parameter in self.space.parameters))
                left = [values for values in every if values not in self.tried]
                chosen = left[int(rng.integers(len(left)))]
                known = zip(self.space.parameters, chosen, strict=True)
                self.study.enqueue_trial({p.key: text if p.choices else _number(p, text) for p, text in known})
            self.number += 1
            return self.study.ask(self.distributions)


def _number(parameter: SearchParameter, text: str) -> float:
    return int(text) if _whole(parameter) else float(text)


def _whole(parameter: SearchParameter) -> bool:
    return all(float(number).is_integer() for number in (parameter.low, parameter.step or 0.5))


def _distribution(parameter: SearchParameter) -> "BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if parameter.choices:
        return CategoricalDistribution(parameter.choices)
    low, high, step = parameter.low, parameter.high, parameter.step
    if not _whole(parameter):
        return FloatDistribution(low, high if step is None else _last(parameter), log=parameter.log, step=step)
    return IntDistribution(int(low), int(_last(parameter)), log=parameter.log, step=int(step or 1))


def _last(parameter: SearchParameter) -> float:
    """The greatest number that steps lead to."""
    step = parameter.step or 1.0
    return parameter.low + ((parameter.size or 1) - 1) * step


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's warnings that something is experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
