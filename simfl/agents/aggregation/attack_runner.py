"""Shows the scenario's observers what a server sees, and scores their guesses with what only the simulator knows."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.coalition import inside
from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.pipeline import AggregationResult
from simfl.agents.aggregation.state import Arrays, prefix_arrays, under
from simfl.attacks.base import ServerView, TrueUpdates
from simfl.attacks.measured_recovery import RecoveryMeter, work
from simfl.core.validation import checked_pair, checked_type
from simfl.training.base import Rule


class AttackRunner:
    """The observers' states, and what the scorer remembers for each of them; neither sees the other's.

    Args:
        parts: the built scenario.
    """

    def __init__(self, parts: Components[Rule]) -> None:
        self.parts = parts
        dimension = parts.learner.dimension
        self.states = [each.start(parts.clients, dimension) for each in parts.observers]
        self.memories = [each.init_memory(parts.clients, dimension) for each in parts.observers]
        affordable = dimension and work(parts.clients) <= parts.recovery_budget
        affordable = affordable and not parts.compression.subsamples  # each coordinate has other equations then
        affordable = affordable and parts.shows_all_it_reads and not parts.rule.many_aggregators
        how = (parts.clients, dimension, parts.streams, parts.recovery_budget, bool(parts.stages))
        self.meter = RecoveryMeter(*how) if affordable else None

    def after(
        self, t: int, now_s: float, result: AggregationResult, before: NDArray[np.float32], model: NDArray[np.float32]
    ) -> tuple[ServerView | None, list[dict[str, float]]]:
        """What the server saw, where the run records it, and each observer's errors; empty where it guessed nothing.

        Args:
            t: the aggregation.
            now_s: simulated time, seconds.
            result: the aggregate.
            before, model: the global model before and after it, (d,).
        """
        parts, errors = self.parts, []
        if not (parts.observers or parts.records or self.meter):
            return None, []
        seen = seen_of(parts, t, now_s, result, before, model)
        truth = TrueUpdates(result.client_updates.clients, result.contributions)
        if self.meter is not None:
            self.meter.learn(seen, truth)
        for i, observer in enumerate(parts.observers):
            known = seen._replace(inside=inside(parts, observer.coalition(parts.clients), result))
            observed = observer.observe(known, self.states[i], parts.streams)
            checked_pair(observed, f"attack '{observer.name}'", "observe", "(guess, state)")
            guess, self.states[i] = observed
            self.memories[i] = observer.update_memory(truth, self.memories[i], parts.streams)
            truth_now = truth._replace(memory=self.memories[i])
            guess_errors = {} if guess is None else observer.error(guess, truth_now)
            checked_type(guess_errors, Mapping, f"attack '{observer.name}'", "error", "numbers by name")
            errors.append(dict(guess_errors))
        return seen if parts.records else None, errors

    def cells(self, errors: Sequence[dict[str, float]]) -> dict[str, float]:
        """The errors that are columns of rounds.csv."""
        named = [{column.name for column in observer.columns} for observer in self.parts.observers]
        return {
            name: value
            for known, values in zip(named, errors, strict=bool(errors))
            for name, value in values.items()
            if name in known
        }

    def measure(self, last: bool) -> dict[str, float]:
        """What is recovered of single updates by now, where that is due; ``last``: no other round follows."""
        return self.meter.measure(last) if self.meter else {}

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """States and memories as named arrays."""
        both = [prefix_arrays(f"observed/{i}", state) for i, state in enumerate(self.states)]
        both += [] if self.meter is None else [prefix_arrays("recovery", self.meter.state())]
        both += [prefix_arrays(f"remembered/{i}", memory) for i, memory in enumerate(self.memories)]
        return {name: value for part in both for name, value in part.items()}

    def restore(self, state: Arrays) -> None:
        """Takes back a :meth:`state`."""
        self.states = [under(f"observed/{i}", state) for i in range(len(self.states))]
        self.memories = [under(f"remembered/{i}", state) for i in range(len(self.memories))]
        if self.meter is not None:
            self.meter.restore(under("recovery", state))


def seen_of(
    parts: Components[Rule],
    t: int,
    now_s: float,
    result: AggregationResult,
    before: NDArray[np.float32],
    model: NDArray[np.float32],
) -> ServerView:
    """An aggregation as the server sees it."""
    updates = result.client_updates
    sent = {job.start: parts.learner.get(job.start) for job in updates.jobs}
    each, read = result.legible
    vectors = each if parts.protocol.shows_updates else None
    read = result.server_update if read is None else read
    return ServerView(t, now_s, result.total, updates.jobs, sent, vectors, model, before, read)
