"""What an attacker keeps for the end of a run: single updates where they are shown, else what sums tell of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.attacks.base import Label, ServerView
from simfl.attacks.least_squares import LeastSquares, solve
from simfl.attacks.view import View
from simfl.core.processor import one_thread
from simfl.core.rng import Streams
from simfl.core.types import Arrays

SHOWN = "whose", "starts", "updates"
"""Of a state: what is kept of the updates of a round, as they are in :class:`Recovered`."""


class Recovered(NamedTuple):
    """Updates, float32 (n, d), as the attacker knows them, of clients (n,), and the models they began from, (n, d)."""

    clients: NDArray[np.int32]
    starts: NDArray[np.float32]
    updates: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """Keys of every attack on recovered updates."""

    view: View = "server"
    window: Annotated[
        int, Field(ge=1, description="last aggregations that are kept, where single updates are shown")
    ] = 1

    label: Label = ""

    def column_names(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Numbers under the names of its columns."""
        return {f"{self.label}_{name}" if self.label else name: value for name, value in numbers.items()}

    def start(self, clients: int, dimension: int) -> Arrays:
        return {"clients": np.int64(clients)}

    def observe(self, seen: ServerView, state: Arrays, streams: Streams) -> tuple[None, Arrays]:
        """Keeps what :meth:`recovered_updates` needs; it guesses nothing during the run."""
        clients = int(state["clients"])
        state = {**state, "model": seen.model, "before": seen.before}
        if seen.vectors is not None and self.view == "server":
            return None, self._shown(seen, state)
        solver = LeastSquares(view=self.view, coordinates=None)
        known = {name[5:]: value for name, value in state.items() if name.startswith("sums/")}
        known = known or solver.start(clients, len(seen.model))
        known = solver.learn(seen, known, streams)
        return None, state | {f"sums/{name}": value for name, value in known.items()}

    def _shown(self, seen: ServerView, state: Arrays) -> Arrays:
        """With the updates of the last aggregations, each with the model it began from; arrays of their own a round."""
        assert seen.vectors is not None
        members = np.isin([job.client for job in seen.jobs], seen.total.clients)
        starts = np.stack([seen.sent[job.start] for job, member in zip(seen.jobs, members, strict=True) if member])
        old = [f"/{t}" for t in _rounds(state)[: 1 - self.window or None]]
        recent = {name: value for name, value in state.items() if not name.endswith(tuple(old))}
        new = seen.total.clients, starts, seen.vectors[members]
        return recent | {f"{name}/{seen.round}": value for name, value in zip(SHOWN, new, strict=True)}

    def recovered_updates(self, state: Arrays) -> list[Recovered]:
        """All updates that are known, one batch an aggregation; of sums, one batch of every client's estimate."""
        if rounds := _rounds(state):
            return [Recovered(*(np.asarray(state[f"{name}/{t}"]) for name in SHOWN)) for t in rounds]
        if "sums/gram" not in state:
            return []
        gram = np.asarray(state["sums/gram"])
        with one_thread():
            estimates = (solve(gram).inverse @ state["sums/moments"]).astype(np.float32)
        clients = np.flatnonzero(np.diag(gram)).astype(np.int32)
        starts = np.broadcast_to(np.asarray(state["before"], dtype=np.float32), (len(clients), estimates.shape[1]))
        return [Recovered(clients, starts, estimates[clients])]


def _rounds(state: Arrays) -> list[int]:
    """Of the updates that are kept, ascending."""
    return sorted(int(name.partition("/")[2]) for name in state if name.startswith(f"{SHOWN[0]}/"))
