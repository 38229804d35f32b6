"""Shows the scenario's observers what a server sees, and scores their guesses with what only the simulator knows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simfl.agents.inside import inside
from simfl.agents.parts import Parts
from simfl.agents.state import Arrays, prefixed, under
from simfl.agents.summing import Sum
from simfl.attacks.base import Seen, Truth

__all__ = ["Observing", "seen_of"]


class Observing:
    """The observers' states, and what the scorer remembers for each of them; neither sees the other's.

    Args:
        parts: the built scenario.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        dimension = parts.learner.dimension
        self.states = [each.start(parts.clients, dimension) for each in parts.observers]
        self.memories = [each.recall(parts.clients, dimension) for each in parts.observers]

    def after(
        self, t: int, now_s: float, found: Sum, before: NDArray[np.float32], model: NDArray[np.float32]
    ) -> tuple[Seen | None, list[dict[str, float]]]:
        """What the server saw, where the run records it, and each observer's errors; empty where it guessed nothing.

        Args:
            t: the aggregation.
            now_s: simulated time, seconds.
            found: the aggregate.
            before, model: the global model before and after it, (d,).
        """
        parts, errors = self.parts, []
        if not (parts.observers or parts.records):
            return None, []
        seen, truth = seen_of(parts, t, now_s, found, before, model), Truth(found.given.clients, found.made)
        for i, observer in enumerate(parts.observers):
            known = seen._replace(inside=inside(parts, observer.coalition(parts.clients), found))
            guess, self.states[i] = observer.see(known, self.states[i], parts.streams)
            self.memories[i] = observer.remember(truth, self.memories[i], parts.streams)
            told = truth._replace(memory=self.memories[i])
            errors.append({} if guess is None else dict(observer.error(guess, told)))
        return seen if parts.records else None, errors

    def cells(self, errors: Sequence[dict[str, float]]) -> dict[str, float]:
        """The errors that are columns of rounds.csv."""
        named = [{column.name for column in observer.columns} for observer in self.parts.observers]
        return {
            name: value
            for known, found in zip(named, errors, strict=bool(errors))
            for name, value in found.items()
            if name in known
        }

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """States and memories as named arrays."""
        both = [prefixed(f"observed/{i}", state) for i, state in enumerate(self.states)]
        both += [prefixed(f"remembered/{i}", memory) for i, memory in enumerate(self.memories)]
        return {name: value for part in both for name, value in part.items()}

    def restore(self, state: Arrays) -> None:
        """Takes back a :meth:`state`."""
        self.states = [under(f"observed/{i}", state) for i in range(len(self.states))]
        self.memories = [under(f"remembered/{i}", state) for i in range(len(self.memories))]


def seen_of(
    parts: Parts, t: int, now_s: float, found: Sum, before: NDArray[np.float32], model: NDArray[np.float32]
) -> Seen:
    """An aggregation as the server sees it."""
    given = found.given
    sent = {job.version: parts.learner.get(job.version) for job in given.jobs}
    vectors = given.vectors if parts.protocol.shows_updates and not parts.coded else None
    read = found.change if parts.coded else found.total.vector
    return Seen(t, now_s, found.total, given.jobs, sent, vectors, model, before, read)
