"""When a run ends: after so many rounds, or with the first server update at which something else is reached."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field

from simfl.core.scenario_view import ChosenLearning
from simfl.training.base import Progress

Limits = tuple[int | None, int | None, float | None, int | None, float | None]


@dataclass(frozen=True)
class Stop:
    """When a run ends besides after ``rounds``: with the first server update at which one of these is reached."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    client_updates: Annotated[int | None, Field(ge=1, description="client updates aggregated")] = None
    time_s: Annotated[float | None, Field(gt=0, description="simulated seconds")] = None
    traffic_bytes: Annotated[int | None, Field(ge=1, description="bytes sent by the server and the clients")] = None
    target_accuracy: Annotated[
        float | None, Field(gt=0, le=1, description="test accuracy, where it is measured (learning.evaluate.every)")
    ] = None


@dataclass(frozen=True, kw_only=True)
class RunLength:
    """How long a rule goes on."""

    rounds: Annotated[
        int | None, Field(ge=1, le=10**9, description="server rounds, skipped ones included; null = see stop")
    ] = None
    stop: Annotated[Stop, Field(description="what else ends the run")] = Stop()

    @property
    def most_rounds(self) -> int | None:
        """Rounds after which the run ends at the latest; None if only something else can end it."""
        return self.rounds

    @property
    def limits(self) -> Limits:
        """What ends the run, in the order of :class:`simfl.training.base.Progress`; None = no limit."""
        stop = self.stop
        return self.rounds, stop.client_updates, stop.time_s, stop.traffic_bytes, stop.target_accuracy

    @property
    def ends_by_participation(self) -> bool:
        """Whether updates, time or traffic can end the run; or anything, of a rule that ends otherwise."""
        mine = type(self).ends is RunLength.ends and type(self).limits is RunLength.limits
        return not mine or any(limit is not None for limit in self.limits[1:4])

    def ends(self, progress: Progress) -> bool:
        return any(
            limit is not None and value is not None and value >= limit
            for value, limit in zip(progress, self.limits, strict=True)
        )

    def advances(self, before: Progress, after: Progress) -> bool:
        """Whether something that can end the run has come nearer; an accuracy may, with every update."""
        *limits, target = self.limits
        grown = [new > old for old, new in zip(before[:-1], after[:-1], strict=True)]
        return target is not None or any(more for more, limit in zip(grown, limits, strict=True) if limit is not None)

    def endless(self, learning: ChosenLearning) -> Iterator[tuple[str, str]]:
        """Problems of a run that nothing ends."""
        if self.limits == (None,) * 5:
            yield (
                "rounds",
                "nothing ends the run: give rounds, or client_updates, time_s, traffic_bytes or target_accuracy "
                "in stop",
            )
        elif self.stop.target_accuracy is not None and not learning.evaluate_every:
            yield "stop.target_accuracy", "the model is not measured while it trains; set learning.evaluate.every to 1"
