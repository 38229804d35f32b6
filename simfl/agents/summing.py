"""From jobs to one aggregate: training, the clients' stages, the protocol's sum, the server's stages."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.agents.parts import Parts
from simfl.agents.state import Arrays, prefixed, under
from simfl.privacy.base import NOT_FINITE, Members
from simfl.secagg.base import Contributions, Summed
from simfl.types import Job, Total, Updates

__all__ = ["Released", "Sum", "Summing"]


class Released(NamedTuple):
    """What the server's stages make of an aggregate, also of a round in whose sum nobody is.

    Attributes:
        change: the aggregate after them, float32 (d,).
        facts, row: as of a :class:`Sum`.
    """

    change: NDArray[np.float32]
    facts: tuple[dict[str, float], ...]
    row: dict[str, float]


@dataclass(frozen=True)
class Sum:
    """An aggregate and how it came about.

    Attributes:
        total: as the protocol gives it; its clients are those who hold samples.
        change: what the server's stages make of its vector, float32 (d,).
        given: what was added up.
        done: the protocol's good end.
        updates: what training made.
        made: what the clients had to send before any stage, float32 (n, d).
        facts: of each stage.
        row: the training's, the stages', the protocol's and the aggregate's columns of rounds.csv.
        mask: what the server's step is multiplied with, float32 (d,) or one number; None = nothing.
    """

    total: Total
    change: NDArray[np.float32]
    given: Contributions
    done: Summed
    updates: Updates
    made: NDArray[np.float32]
    facts: tuple[dict[str, float], ...]
    row: dict[str, float]
    mask: Any = None


class Summing:
    """The one way from jobs to an aggregate, for every server.

    A client without samples is in no sum: it counts with weight 0 and is no member of the total. Coordinates that never
    leave a client are in no vector that stages and protocols see; in the aggregate they are 0.

    Args:
        parts: the built scenario.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.states: list[Arrays] = [stage.start(d) for stage, d in zip(parts.stages, parts.lengths)]

    def train(self, jobs: Sequence[Job]) -> Updates:
        """Trains exactly these jobs, in one batch."""
        return self.parts.learner.train(jobs)

    def sum(
        self,
        number: int,
        jobs: Sequence[Job],
        updates: Updates,
        staleness: NDArray[np.int64],
        model: NDArray[np.float32],
        done: Summed,
    ) -> Sum | None:
        """The aggregate of trained jobs; None if nobody among them holds samples.

        Args:
            number: of the aggregation.
            jobs: by ascending client, n.
            updates: what training made of them.
            staleness: the staleness that weighs each, (n,).
            model: the current model, (d,).
            done: the protocol's good end.
        """
        parts, streams, rule = self.parts, self.parts.streams, self.parts.rule
        learner = parts.learner
        made = rule.contributions(updates.deltas, lambda: [learner.get(job.version) for job in jobs], model)
        given = self._given(jobs, updates, staleness, made)
        held = given.weights > 0
        if not held.any():
            return None
        total = parts.protocol.add(done, given, streams)
        if not parts.coded:
            given = given._replace(vectors=self._whole(given.vectors))
            total = total._replace(vector=self._whole(total.vector))
        held &= total.weights != 0
        if not held.any():
            return None
        members = _members(number, given, total)._replace(
            examples=updates.examples, fixed=rule.fixed_denominator, follows_data=rule.follows_data
        )
        shares = members.weights / members.divisor if total.shares is None else total.shares
        total = total._replace(
            clients=total.clients[held], weights=total.weights[held], shares=shares[held],
            opened=tuple(compress(total.opened, held)),
        )  # fmt: skip
        d = parts.learner.dimension  # stages may have added coordinates of their own
        factor = parts.rule.aggregate.factor(given.vectors[:, :d], given.weights, given.holds, parts.learner.tensors)
        mask = factor.values if factor is not None and factor.on_step else None
        if factor is not None and mask is None:
            total = total._replace(vector=np.append(factor.values * total.vector[:d], total.vector[d:]))
        broken = int((~np.isfinite(made[held]).all(axis=1)).sum())
        change, facts, row = self._server(members, total.vector if parts.coded else self._sent(total.vector), broken)
        row |= {**updates.row, **total.row, **(factor.row if factor else {})}
        return Sum(total, change, given, done, updates, made, facts, row, mask)

    def nobody(self, number: int) -> Released | None:
        """A round that sums nobody; None where the rule's denominator depends on who came, so that nothing is released.

        Noise must be there all the same: a round without any would tell that nobody took part.

        Args:
            number: of the aggregation.
        """
        parts, denominator = self.parts, self.parts.rule.fixed_denominator
        if denominator is None:
            return None
        d = parts.elements if parts.learner.dimension else 0
        left = parts.rule.follows_data
        members = Members(number, (), np.zeros(0), denominator, fixed=denominator, follows_data=left)
        return self._server(members, np.zeros(d, dtype=np.float32), 0)

    def _server(self, members: Members, change: NDArray[np.float32], broken: int) -> Released:
        """What the server's stages make of an aggregate; ``broken``: updates in it that held no numbers."""
        stages = self.parts.stages
        facts = tuple(stage.facts(members, state) for stage, state in zip(stages, self.states, strict=True))
        for i in reversed(range(len(stages))):
            change, self.states[i] = stages[i].server(change, members, self.states[i], self.parts.streams)
        change = self._whole(change)
        shown = {column.name for stage in stages for column in stage.columns}
        row = {name: value for known in facts for name, value in known.items() if name in shown}
        if NOT_FINITE.name in shown:
            row[NOT_FINITE.name] = broken
        return Released(change, facts, row)

    def _given(
        self, jobs: Sequence[Job], updates: Updates, staleness: NDArray[np.int64], vectors: NDArray[np.float32]
    ) -> Contributions:
        rule, learner = self.parts.rule, self.parts.learner
        vectors = self._sent(vectors)
        for stage, state in zip(self.parts.stages, self.states, strict=True):
            vectors = stage.client(vectors, tuple(jobs), state, self.parts.streams)
        examples = updates.examples
        weights = rule.weights(examples, staleness)
        if learner.dimension:
            weights = weights * (examples > 0)
        divisor: Any = partial(rule.divisor, examples=examples)
        combine = rule.aggregate.combine
        sharing = [stage for stage in self.parts.stages if stage.seeds]
        drawn = (chain.from_iterable(stage.secrets(job, self.parts.streams) for stage in sharing) for job in jobs)
        secrets = tuple(map(tuple, drawn)) if sharing else ()
        row = rule.row(staleness)
        return Contributions(tuple(jobs), vectors, updates.holds, weights, row, divisor, combine, secrets)

    def _sent(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """The coordinates that leave the clients, (..., d) -> (..., d')."""
        private = self.parts.learner.private
        return values if private is None else values[..., ~private]

    def _whole(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Undoes :meth:`_sent`: the private coordinates are 0."""
        private = self.parts.learner.private
        if private is None:
            return values
        whole = np.zeros((*values.shape[:-1], len(private)), dtype=values.dtype)
        whole[..., ~private] = values
        return whole

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """The stages' states as named arrays."""
        return {name: value for i, state in enumerate(self.states) for name, value in prefixed(str(i), state).items()}

    def restore(self, state: Arrays) -> None:
        """Takes back a :meth:`state`."""
        self.states = [under(str(i), state) for i in range(len(self.states))]


def _members(number: int, given: Contributions, total: Total) -> Members:
    """Whose updates count what; a protocol may have rounded the weights."""
    rounded = np.divide(total.weights, given.row, out=np.zeros(len(given.jobs)), where=np.asarray(given.row) != 0)
    weights = given.weights * rounded
    return Members(number, given.jobs, weights, given.divisor(weights), total.opened)
