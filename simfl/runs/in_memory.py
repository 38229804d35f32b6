"""A scenario run in memory: no tables, no checkpoints; for shadow models and studies of many small runs."""

from dataclasses import dataclass

import numpy as np

from simfl.agents import Components, RoundResult, finalise_attacks, make_server
from simfl.agents.world import World
from simfl.attacks.base import Finding
from simfl.core.types import Floats, Vectors, under
from simfl.training.base import Rule


@dataclass(frozen=True)
class RunInMemory:
    """What a run in memory left behind.

    Attributes:
        model: the final global model, (d,).
        rounds: what each left behind.
        attack_results: of each observer.
    """

    model: Vectors
    rounds: list[RoundResult]
    attack_results: list[Finding]

    def participation(self, clients: int) -> Floats:
        """The participation matrix, (rounds, clients)."""
        matrix = np.zeros((len(self.rounds), clients))
        for row, done in zip(matrix, self.rounds, strict=True):
            row[done.clients] = done.weights
        return matrix

    def last(self, name: str) -> float | None:
        """The last value of a column of the rounds."""
        values = [value for done in self.rounds if (value := done.row.get(name)) is not None]
        return values[-1] if values else None


def run_in_memory(parts: Components[Rule]) -> RunInMemory:
    """Runs what :func:`simfl.runs.run.build` built."""
    rounds: list[RoundResult] = []
    server = make_server(parts, World(0.0), rounds.append)
    server.world.run(server.world.spawn(server.run()))
    state = server.state() if parts.observers else {}
    seen = [under(f"observed/{i}", state) for i in range(len(parts.observers))]
    return RunInMemory(server.model, rounds, finalise_attacks(parts.observers, seen, parts.learner, parts.streams))
