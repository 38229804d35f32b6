"""What an asynchronous server has to tell with its next round."""

from math import isnan
from typing import Any

from simfl.agents.client import Flight
from simfl.agents.exchange import Conversation
from simfl.agents.parts import Cost, Phase
from simfl.agents.servers import Log

__all__ = ["Ledger", "Row"]

Row = tuple[Any, ...]


class Ledger:
    """Costs, phases and the fates of jobs since the last round.

    Args:
        log: called with a record for every event, or None.

    Attributes:
        fruitful: how many jobs had failed when somebody delivered last.
    """

    def __init__(self, log: Log | None) -> None:
        self.log = log
        self.begin()

    def begin(self) -> None:
        """What was counted has been reported."""
        self.cost = Cost()
        self.fruitful = 0
        self.phases: list[Phase] = []
        self.rows: list[Row] = []

    @property
    def fruitless(self) -> int:
        """Jobs that have failed in a row."""
        return self.cost.failed - self.fruitful

    def spend(self, said: Conversation, round: int) -> None:
        """A protocol's talk has ended."""
        self.phases += said.phases(round)
        for one in said.exchanges:
            one.charge(self.cost)
            if self.log is not None:
                for record in one.records():
                    self.log(record)

    def end(
        self, flight: Flight, outcome: str, now_s: float, round: int | None = None, staleness: int | None = None
    ) -> None:
        """A job's fate, as a row of jobs.csv."""
        ended = now_s if isnan(flight.ended_s) else flight.ended_s
        self.rows.append((*flight.job, ended, outcome, round, staleness))

    def note(self, event: str, time_s: float, **record: Any) -> None:
        """A record of events.jsonl."""
        if self.log is not None:
            self.log({"event": event, "time_s": time_s, **record})
