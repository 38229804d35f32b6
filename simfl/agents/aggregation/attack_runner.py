"""Shows the scenario's observers what a server sees, and scores their guesses with what only the simulator knows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.aggregation_result import AggregationResult
from simfl.agents.aggregation.components import Components
from simfl.attacks.base import CoalitionView, Finding, Observer, ServerView, TrueUpdates
from simfl.attacks.measured_recovery import RecoveryMeter, work
from simfl.core.json_data import JsonObject
from simfl.core.rng import Streams
from simfl.core.types import Arrays, Vectors, prefix_arrays, under
from simfl.core.validation import checked_arrays
from simfl.learning.base import Learner
from simfl.training.base import Rule


class AttackRunner:
    """The observers' states, and what the scorer remembers for each of them; neither sees the other's."""

    def __init__(self, parts: Components[Rule]) -> None:
        self.parts = parts
        dimension = parts.learner.dimension
        self.states = [each.start(parts.clients, dimension) for each in parts.observers]
        self.memories = [each.init_memory(parts.clients, dimension) for each in parts.observers]
        affordable = dimension and work(parts.clients) <= parts.recovery_budget
        affordable = affordable and not parts.compression.subsamples  # each coordinate has other equations then
        affordable = affordable and parts.shows_all_it_reads and not parts.rule.many_aggregators
        affordable = affordable and not parts.protocol.sums_units  # of which attackers are shown one aggregate
        how = (parts.clients, dimension, parts.streams, parts.recovery_budget, bool(parts.stages))
        self.meter = RecoveryMeter(*how) if affordable else None

    def after(
        self, t: int, now_s: float, result: AggregationResult, before: Vectors, model: Vectors
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
        summed = np.isin(clients := result.client_updates.clients, seen.total.clients)  # not who holds no samples
        truth = TrueUpdates(clients[summed], result.contributions[summed])
        if self.meter is not None:
            self.meter.learn(seen, truth)
        for i, observer in enumerate(parts.observers):
            known = seen._replace(inside=inside(parts, observer.coalition(parts.clients), result))
            observed = observer.observe(known, self.states[i], parts.streams)
            guess, state = observed
            self.states[i] = checked_arrays(state, f"attack '{observer.name}'", "observe")
            self.memories[i] = observer.update_memory(truth, self.memories[i], parts.streams)
            truth_now = truth._replace(memory=self.memories[i])
            guess_errors = {} if guess is None else observer.error(guess, truth_now)
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
    parts: Components[Rule], t: int, now_s: float, result: AggregationResult, before: Vectors, model: Vectors
) -> ServerView:
    """An aggregation as the server sees it."""
    updates = result.client_updates
    sent = {job.start: parts.learner.get(job.start) for job in updates.jobs}
    each, read = result.legible
    vectors = each if parts.protocol.shows_updates else None
    read = result.server_update if read is None else read
    return ServerView(t, now_s, result.total, updates.jobs, sent, vectors, model, before, read)


def inside(parts: Components[Rule], coalition: NDArray[np.int32], result: AggregationResult) -> CoalitionView | None:
    """Their own vectors, and what the protocol lets them know; None where none of them is in the sum."""
    updates = result.client_updates
    members = np.isin(updates.clients, coalition)
    if not members.any():
        return None
    vectors = updates.weights[members, None] * updates.vectors[members]
    known = parts.protocol.known_to(result.done, updates, updates.clients[members], parts.streams)
    return CoalitionView(updates.clients[members], vectors, updates.divisor(updates.weights), known)


def finalise_attacks(
    observers: Sequence[Observer], states: Sequence[Arrays], learner: Learner, streams: Streams
) -> list[Finding]:
    """Each observer's finding; the attacker is handed the scorer's question, and the scorer the attacker's answer."""
    context = learner.attack_context() if observers else None
    if context is None:
        return [Finding({}) for _ in observers]
    knowledge, truth = context
    results = []
    for observer, state in zip(observers, states, strict=True):
        answer = observer.answer(observer.challenge(truth, streams), state, knowledge, streams)
        results.append(Finding({}) if answer is None else observer.score(answer, truth, knowledge, streams))
    return results


def document(results: Sequence[Finding], names: Sequence[str]) -> list[JsonObject]:
    """The findings as plain data: pictures in bytes, curves in rates; null where a number is not finite."""
    return [
        {
            "attack": name,
            "numbers": {key: float(n) if np.isfinite(n) else None for key, n in result.numbers.items()},
            "pictures": [
                {"title": p.title, "true": _bytes(p.true), "found": _bytes(p.recovered), "guess": _bytes(p.guess)}
                for p in result.pictures
            ],
            "curves": [
                {"title": c.title, "false": c.false.round(9).tolist(), "true": c.true.round(9).tolist()}
                for c in result.curves
            ],
        }
        for name, result in zip(names, results, strict=True)
    ]


def _bytes(picture: Vectors) -> list[Any]:
    inner: list[Any] = np.rint(255 * np.clip(picture, 0, 1)).astype(int).tolist()
    return inner
