"""A scenario played in memory: no tables, no checkpoints; for shadow models and studies of many small runs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents import SERVERS, Parts, Round, concluded
from simfl.agents.state import under
from simfl.attacks.base import Finding
from simfl.world import World

__all__ = ["Played", "play"]


@dataclass(frozen=True)
class Played:
    """What was played.

    Attributes:
        model: the final global model, (d,).
        rounds: what each left behind.
        findings: of each observer.
    """

    model: NDArray[np.float32]
    rounds: list[Round]
    findings: list[Finding]

    def participation(self, clients: int) -> NDArray[np.float64]:
        """The participation matrix, (rounds, clients)."""
        matrix = np.zeros((len(self.rounds), clients))
        for row, done in zip(matrix, self.rounds, strict=True):
            row[done.clients] = done.weights
        return matrix

    def last(self, name: str) -> float | None:
        """The last value of a column of the rounds."""
        values = [value for done in self.rounds if (value := done.row.get(name)) is not None]
        return values[-1] if values else None


def play(parts: Parts) -> Played:
    """Plays what :func:`simfl.run.build` built."""
    rounds: list[Round] = []
    server: Any = SERVERS[parts.rule.server](parts, World(0.0), rounds.append)
    server.world.run(server.world.spawn(server.play()))
    state = server.state() if parts.observers else {}
    seen = [under(f"observed/{i}", state) for i in range(len(parts.observers))]
    return Played(server.model, rounds, concluded(parts.observers, seen, parts.learner, parts.streams))
