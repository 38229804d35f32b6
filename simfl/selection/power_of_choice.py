"""Power-of-choice: of some candidates those on whose data the model does worst (Cho et al. 2020)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Units, View
from simfl.selection.base import POLICIES, Scalars, nobody
from simfl.selection.units.blocks import count, draw_by_weight, in_order, of_highest
from simfl.selection.units.sizes import Problem, at_most_clients

if TYPE_CHECKING:
    from simfl.selection.theory.families import Family


@POLICIES("power_of_choice")
@dataclass(frozen=True)
class PowerOfChoice:
    """Of d candidates, drawn with probability proportional to their samples, the K of highest loss.

    Reference: Cho, Wang and Joshi 2020, arXiv 2010.01243, section 4 (pow-d, cpow-d and rpow-d). Candidates who do not
    answer in time are not selected; where fewer than K answer, all of them are.
    """

    k: Annotated[int, Field(ge=1, description="clients in an aggregation")]
    d: Annotated[int, Field(ge=1, description="candidates, k to all clients; more prefer high losses more")]
    losses: Annotated[
        Literal["exact", "estimated", "remembered"],
        Field(
            description="exact: candidates evaluate the model on all of their samples; estimated: on a mini-batch; "
            "remembered: nobody is asked, the loss of a client's last participation counts, infinite before it"
        ),
    ] = "exact"
    batch: Annotated[int, Field(ge=1, description="samples of a mini-batch; with losses: estimated")] = 32
    scalars: Scalars = "covered"

    unit_size = 1
    example = {"k": 4, "d": 6}

    @property
    def fixed_size(self) -> bool:
        return self.losses == "remembered"

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"samples", "loss"} if self.losses == "remembered" else {"samples"})

    @property
    def asks(self) -> Literal["", "loss", "batch_loss"]:
        phase: dict[str, Literal["", "loss", "batch_loss"]] = {"exact": "loss", "estimated": "batch_loss"}
        return phase.get(self.losses, "")

    @property
    def asked_batch(self) -> int:
        return self.batch if self.losses == "estimated" else 0

    def check(self, setting: ScenarioView) -> list[Problem]:
        if problems := at_most_clients(self.k, setting.clients):
            return problems
        if not self.k <= self.d <= setting.clients:
            near = self.k if self.d < self.k else setting.clients
            return [("d", f"is {self.d}, not between k = {self.k} and the {setting.clients} clients; "
                     f"the nearest valid value is {near}")]  # fmt: skip
        return []

    def family(self, clients: int) -> "Family | None":
        return None

    def candidates(self, view: View, k: int, rng: np.random.Generator) -> NDArray[np.int32]:
        return draw_by_weight(np.flatnonzero(view.available), view.samples, max(k, self.d), rng)

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        count(k, self.unit_size)
        if self.losses == "remembered":
            candidates = self.candidates(view, k, rng)
            if len(candidates) < k:
                return nobody(1)
            loss = np.where(np.isnan(view.loss), np.inf, view.loss)
        else:
            candidates = np.flatnonzero(~np.isnan(view.asked_loss)).astype(np.int32)
            loss = view.asked_loss
        return in_order(of_highest(candidates, loss, k, rng))
