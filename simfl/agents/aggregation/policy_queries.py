"""Asking the selection policy who shall work next, when a server needs somebody and not round by round."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.client_records import Known
from simfl.agents.aggregation.components import Components
from simfl.core.errors import SimflError
from simfl.core.json_data import JsonObject
from simfl.core.types import Arrays, Units, View
from simfl.devices.base import checked_available
from simfl.selection.asking import ask
from simfl.training.base import Rule

MAX_EMPTY_ATTEMPTS = 100_000
"""Rounds in a row that sum nobody, or selections in a row that find nobody while nobody is at work, after which a run
is given up; until then somebody may be back."""

MAX_FAILED_JOBS = 10_000
"""Jobs in a row that brought nothing into a sum, after which a run is given up: nobody meets the deadline, say."""


def stall_error(why: str, now_s: float) -> SimflError:
    """The error of a run that no server update will ever end."""
    return SimflError(f"training stalls at {now_s:g} simulated seconds: {why}")


class PolicyQueries:
    """Draws who is available, asks the policy, and numbers these selections: 0, 1, 2, ...

    Args:
        parts: the built scenario.
        log: called with a record for every selection, or None.

    Attributes:
        selections: so far.
    """

    def __init__(self, parts: Components[Rule], log: Callable[[JsonObject], None] | None) -> None:
        self.parts, self.log = parts, log
        self.selections = 0
        self.empty_selections = 0

    def ask(
        self,
        version: int,
        busy: NDArray[np.bool_],
        participation: NDArray[np.int64],
        most: int,
        now_s: float,
        nobody_active: bool,
        known: Known,
    ) -> tuple[int, Units]:
        """The number of this selection, and units of idle clients, shape (units, unit_size).

        As many as make ``most`` clients or, while the policy finds nobody, half as many; every attempt uses the
        stream ("selection", number). A policy that sizes its selections itself may give any number.

        Args:
            version: the aggregation that is prepared.
            busy: who may not be selected, bool (clients,).
            participation: aggregations so far, int64 (clients,).
            most: clients wanted, at least one unit.
            now_s: simulated time, seconds.
            nobody_active: whether nobody is at work, so that only time can bring somebody.
            known: what the server has learned of its clients.

        Raises:
            SimflError: far too many selections in a row found nobody.
        """
        policy = self.parts.policy
        number, self.selections = self.selections, self.selections + 1
        available = self.parts.available
        idle = checked_available(available.draw(number, now_s), len(busy), available) & ~busy
        view = View(version, idle, participation, known.reports, known.state)
        wanted = max(1, most // policy.unit_size)
        while True:
            units = ask(policy, view, wanted * policy.unit_size, self.parts.streams("selection", number))
            if units.size or wanted == 1 or not policy.fixed_size:
                break
            wanted //= 2
        if self.log is not None:
            self.log({"event": "selection", "time_s": now_s, "number": number, "round": version,
                      "idle": int(idle.sum()), "selected": units.size})  # fmt: skip
        self.empty_selections = self.empty_selections + 1 if nobody_active and not units.size else 0
        if self.empty_selections >= MAX_EMPTY_ATTEMPTS:
            raise stall_error(f"{MAX_EMPTY_ATTEMPTS} selections in a row have found nobody", now_s)
        return number, units

    def state(self) -> Arrays:
        """What the next selection depends on, as named arrays; someone must have been found since the last failure."""
        return {"selections": np.int64(self.selections)}

    def restore(self, state: Arrays) -> None:
        """Goes back to a :meth:`state`."""
        self.selections = int(state["selections"])
