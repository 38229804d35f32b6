"""Asks the scenario's metrics after every round, and checks what they say."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.parts import Parts, Round
from simfl.agents.state import Arrays, prefixed, under
from simfl.answers import described, read_only
from simfl.columns import Column
from simfl.errors import PluginError
from simfl.measurement.base import Metric, Moment

__all__ = ["Measuring", "checked_values"]


class Measuring:
    """The metrics' states, and the one place where metrics are asked.

    Args:
        parts: the built scenario.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.states = [metric.start(parts.clients, parts.learner.dimension) for metric in parts.metrics]

    def after(self, done: Round, model: NDArray[np.float32]) -> dict[str, float | None]:
        """Their cells of a round, by name.

        Raises:
            PluginError: one gives something else than numbers for its columns.
        """
        parts, row = self.parts, MappingProxyType(dict(done.row))
        found: dict[str, float | None] = {}
        seen = read_only(model)
        predictions = cache(lambda: parts.learner.predictions(model))
        for i, metric in enumerate(parts.metrics):
            rng = parts.streams(f"metric/{i}", done.number)
            clients, weights = read_only(done.clients), read_only(done.weights)
            moment = Moment(done.number, clients, weights, row, seen, predictions, rng)
            values, self.states[i] = metric.after(moment, self.states[i])
            found |= checked_values(metric, values, metric.columns, "after")
        return found

    def state(self) -> Arrays:
        """The metrics' states as named arrays."""
        states = [prefixed(f"metric/{i}", state) for i, state in enumerate(self.states)]
        return {name: value for state in states for name, value in state.items()}

    def restore(self, state: Arrays) -> None:
        """Takes back a :meth:`state`."""
        self.states = [under(f"metric/{i}", state) for i in range(len(self.states))]


def checked_values(metric: Metric, values: Any, columns: tuple[Column, ...], method: str) -> dict[str, float | None]:
    """What a metric said, if it is numbers for some of these columns.

    Raises:
        PluginError: it is not.
    """
    if not isinstance(values, Mapping):
        raise PluginError(_whose(metric), f"{method} must give values by name, not {described(values)}")
    known = {column.name for column in columns}
    for name, value in values.items():
        if name not in known:
            said = ", ".join(sorted(known)) or "none"
            raise PluginError(_whose(metric), f"{method} gives '{name}', which is not among its columns ({said})")
        if value is not None and not isinstance(value, (int, float, np.integer, np.floating)):
            raise PluginError(_whose(metric), f"{method} gives {described(value)} for '{name}', not a number")
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}


def _whose(metric: Metric) -> str:
    return f"metric '{metric.name}'"  # type: ignore[attr-defined]
