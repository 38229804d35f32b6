"""Asks the scenario's metrics after every round, and checks what they say."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components, RoundResult
from simfl.clients.client_agents import AttackRun
from simfl.core.columns import Column
from simfl.core.errors import PluginError
from simfl.core.types import Arrays, prefix_arrays, under
from simfl.core.validation import checked_arrays, read_only
from simfl.metrics.base import Metric, RoundSnapshot
from simfl.training.base import Rule


class MetricRunner:
    """The metrics' states, and the one place where metrics are asked."""

    def __init__(self, parts: Components[Rule]) -> None:
        self.parts = parts
        self.attack_run = AttackRun(parts, parts.streams)
        self.states = [
            checked_arrays(metric.start(parts.clients, parts.learner.dimension), _whose(metric), "start")
            for metric in parts.metrics
        ]

    def after(self, done: RoundResult, model: NDArray[np.float32]) -> dict[str, float | None]:
        """Their cells of a round, by name.

        Raises:
            PluginError: one gives something else than numbers for its columns.
        """
        parts, row = self.parts, MappingProxyType(dict(done.row))
        cells: dict[str, float | None] = {}
        seen = read_only(model)
        predictions = cache(lambda *makes: parts.learner.evaluator.predictions(model, *makes))
        success = cache(lambda: self.attack_run.success(range(parts.clients), predictions))
        attackers = read_only(self.attack_run.attackers(done.clients.tolist()))
        for i, metric in enumerate(parts.metrics):
            rng = parts.streams(f"metric/{i}", done.number)
            clients, weights = read_only(done.clients), read_only(done.weights)
            shares = done.believed if metric.reads_shares else None
            of_model = row, seen, predictions
            moment = RoundSnapshot(done.number, clients, weights, *of_model, rng, attackers, shares, success)
            values, state = metric.after(moment, self.states[i])
            self.states[i] = checked_arrays(state, _whose(metric), "after")
            cells |= checked_values(metric, values, metric.columns, "after")
        return cells

    def state(self) -> Arrays:
        """The metrics' states as named arrays."""
        states = [prefix_arrays(f"metric/{i}", state) for i, state in enumerate(self.states)]
        return {name: value for state in states for name, value in state.items()}

    def restore(self, state: Arrays) -> None:
        """Takes back a :meth:`state`."""
        self.states = [under(f"metric/{i}", state) for i in range(len(self.states))]


def checked_values(
    metric: Metric, values: Mapping[str, Any], columns: tuple[Column, ...], method: str
) -> dict[str, float | None]:
    """What a metric said, if it is for some of these columns.

    Raises:
        PluginError: it is not.
    """
    known = {column.name for column in columns}
    for name in values:
        if name not in known:
            said = ", ".join(sorted(known)) or "none"
            raise PluginError(_whose(metric), f"{method} gives '{name}', which is not among its columns ({said})")
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}


def _whose(metric: Metric) -> str:
    return f"metric '{metric.name}'"
