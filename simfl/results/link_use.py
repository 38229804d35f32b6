"""How much of a shared link is in use, from the messages in ``events.jsonl``.

The bytes of a message are spread evenly over the time from its sending to its arrival; of one that was given up, those
until then.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from simfl.core.json_data import JsonObject
from simfl.core.types import SERVER

Floats = NDArray[np.float64]

SIDES = ("down", "up")
"""From the server, and to it."""


class Traffic:
    """The messages between server and clients, as far as they came.

    Args:
        events: all records of a run.
    """

    def __init__(self, events: Iterable[JsonObject]) -> None:
        latest: dict[int, list[float]] = {}
        sent: dict[str, list[list[float]]] = {side: [] for side in SIDES}
        self.last_s = np.inf
        for event in events:
            if event["event"] == "cancel" and (open_ := latest.get(event["client"])) is not None:
                open_[1] = max(open_[0], min(open_[1], event["time_s"]))
            elif event["event"] == "round_end":
                self.last_s = event["time_s"]
            elif event["event"] == "message" and SERVER in (event["from"], event["to"]) and event["bytes"]:
                down = event["from"] == SERVER
                client = event["to"] if down else event["from"]
                begin_s, end_s = event["sent_s"], event["arrives_s"]
                row = [begin_s, end_s, event["bytes"] / (end_s - begin_s) if end_s > begin_s else 0.0, client]
                sent["down" if down else "up"].append(row)
                latest[client] = row
        self._sent = {side: np.array(rows, dtype=np.float64).reshape(-1, 4) for side, rows in sent.items()}

    def rates(self, side: str, crosses: NDArray[np.bool_] | None = None) -> tuple[Floats, Floats]:
        """The moments at which the rate on a link changes, in seconds, and bytes per second from each on.

        Args:
            side: one of :data:`SIDES`.
            crosses: whose messages are on the link, bool (clients,); None = everybody's.
        """
        rows = self._sent[side]
        if crosses is not None:
            rows = rows[crosses[rows[:, 3].astype(np.int64)]]
        return _sum(rows[:, :3], self.last_s)


def link_rates(events: Iterable[JsonObject]) -> dict[str, tuple[Floats, Floats]]:
    """For each of :data:`SIDES`, the moments at which the rate of all messages changes, in seconds, and the rate from
    each on, in bytes per second.

    Three messages of 60 bytes; the second is given up after half of its time:

    >>> sent = [{"event": "message", "from": -1, "to": i, "bytes": 60, "sent_s": 0.0, "arrives_s": 2.0} for i in (0, 1)]
    >>> back = {"event": "message", "from": 0, "to": -1, "bytes": 60, "sent_s": 2.0, "arrives_s": 5.0}
    >>> rates = link_rates([*sent, {"event": "cancel", "client": 1, "time_s": 1.0}, back])
    >>> [column.tolist() for column in rates["down"]], [column.tolist() for column in rates["up"]]
    ([[0.0, 1.0, 2.0], [60.0, 30.0, 0.0]], [[2.0, 5.0], [20.0, 0.0]])
    """
    traffic = Traffic(events)
    return {side: traffic.rates(side) for side in SIDES}


def _sum(rows: Floats, last_s: float) -> tuple[Floats, Floats]:
    """The rates of all messages together."""
    begin_s, end_s, rate = rows.T
    times_s: Floats
    times_s, place = np.unique(np.concatenate([begin_s, np.minimum(end_s, last_s)]), return_inverse=True)
    rate_steps = np.bincount(place, np.concatenate([rate, -rate]), minlength=len(times_s))
    total: Floats = np.cumsum(rate_steps, dtype=np.float64)
    total[np.abs(total) < 1e-9 * np.max(rate, initial=0.0)] = 0.0
    return times_s, total


def mean_rates(times_s: Floats, rate: Floats, edges_s: Floats) -> Floats:
    """Mean bytes per second between each two edges."""
    if not len(times_s):
        return np.zeros(len(edges_s) - 1)
    sent = np.append(0.0, np.cumsum(rate[:-1] * np.diff(times_s)))
    means: Floats = np.diff(np.interp(edges_s, times_s, sent)) / np.diff(edges_s)
    return means
