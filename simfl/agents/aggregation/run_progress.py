"""How far a run has come: who was aggregated, what was sent, when it is measured, and when it ends."""

from math import inf

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.evaluation_schedule import EvaluationSchedule
from simfl.agents.aggregation.policy_queries import stall_error
from simfl.agents.aggregation.state import Arrays, prefix_arrays, under
from simfl.core.json_data import JsonObject
from simfl.metrics.participation import Tally
from simfl.training.base import Progress, Rule

MAX_STAGNANT_ROUNDS = 10_000
"""A run is given up after so many rounds, and one for each client, that summed something and still brought nothing
nearer that ends it: where nobody takes any time, every client's update may fall on one instant once."""


class RunProgress:
    """Counts rounds, updates and traffic, writes each round's row, and asks the rule whether the run ends.

    Args:
        parts: the built scenario.

    Attributes:
        tally: who was aggregated so far.
    """

    def __init__(self, parts: Components[Rule]) -> None:
        self.parts = parts
        self.tally = Tally(parts.clients, parts.policy.reads_history)
        self.evaluation = EvaluationSchedule(parts)
        self.traffic_bytes = 0
        self.latest = Progress(0, 0, -inf, 0, None)
        self.stagnant_rounds = 0

    def end_round(
        self,
        clients: NDArray[np.int32],
        now_s: float,
        cells: JsonObject,
        *,
        train_loss: float | None,
        model_changed: bool,
        clients_left: bool = True,
    ) -> tuple[JsonObject, bool]:
        """Counts a round; its row of rounds.csv, and whether the run ends with it.

        Args:
            clients: whose updates were aggregated, distinct.
            now_s: simulated time, seconds.
            cells: further cells of the row, ``bytes_down`` and ``bytes_up`` among them.
            train_loss: mean over the updates, None where nothing was learned.
            model_changed: whether the model is to be measured again.
            clients_left: whether enough clients are left for another round.

        Raises:
            SimflError: the run will never end.
        """
        rule, tally, t = self.parts.rule, self.tally, self.tally.rounds
        tally.add(clients)
        self.traffic_bytes += cells["bytes_down"] + cells["bytes_up"]
        so_far = Progress(tally.rounds, tally.aggregated, now_s, self.traffic_bytes, None)
        last = rule.ends(so_far) or not clients_left
        self._require_progress(so_far, bool(len(clients)))
        measured = self.evaluation.after(t, changed=model_changed, last=last)
        row = {
            "round": t,
            "time_s": now_s,
            "skipped": int(not len(clients)),
            "cardinality": tally.latest,
            "mean_cardinality": tally.mean_cardinality,
            "fairness_gap": tally.fairness_gap,
            "train_loss": train_loss,
            **cells,
            **measured,
        }
        return row, last or rule.ends(so_far._replace(accuracy=measured.get("test_accuracy")))

    def _require_progress(self, so_far: Progress, summed: bool) -> None:
        """Looks whether the run comes nearer its end; a round that summed nothing says nothing.

        Raises:
            SimflError: it will never end.
        """
        before, self.latest = self.latest, so_far
        if self.parts.rule.advances(before, so_far):
            self.stagnant_rounds = 0
        else:
            self.stagnant_rounds += summed
        if self.stagnant_rounds > MAX_STAGNANT_ROUNDS + self.parts.clients:
            rounds = f"{self.stagnant_rounds} rounds in a row"
            raise stall_error(
                f"{rounds} have brought the end of the run no nearer; give training.rounds", so_far.time_s
            )

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """All of this as named arrays; the tally stands in participation.csv."""
        return {
            "rounds": np.int64(self.tally.rounds),
            "traffic_bytes": np.int64(self.traffic_bytes),
            **prefix_arrays("evaluation", self.evaluation.state()),
        }

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`."""
        self.tally, self.traffic_bytes = tally, int(state["traffic_bytes"])
        self.evaluation.restore(under("evaluation", state))
