"""FedCS: as many clients as fit into a deadline, by what their jobs are expected to take (Nishio, Yonetani 2019)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Units, View
from simfl.selection.base import POLICIES
from simfl.selection.units.blocks import in_order
from simfl.selection.units.sizes import Problem, at_most_clients

if TYPE_CHECKING:
    from simfl.selection.theory.families import Family


@POLICIES("fedcs")
@dataclass(frozen=True)
class FedCs:
    """Of K random candidates greedily as many as are expected to deliver one after the other within a deadline.

    Uploads are taken to share one uplink, one after the other, while those who come later still train: with clients
    whose uploads end at time e so far, the next one's ends at e + upload + max(0, rest - e), where ``rest`` is its
    download and work. The candidate who adds least comes next; one who would end after the deadline is left out.

    Reference: Nishio and Yonetani 2019, arXiv 1804.08333, section 3.3 and algorithm 3. Selection and aggregation take
    no time here, and every client is sent the model by itself. What jobs take is an oracle's expectation.
    """

    k: Annotated[int, Field(ge=1, description="candidates in a round, at random; the most that are selected")]
    deadline_s: Annotated[float, Field(gt=0, description="simulated seconds in which all selected shall deliver")]

    unit_size = 1
    fixed_size = False
    reads = frozenset({"estimate_s", "upload_estimate_s"})
    example = {"k": 4, "deadline_s": 60.0}

    def check(self, setting: ScenarioView) -> list[Problem]:
        return at_most_clients(self.k, setting.clients)

    def family(self, clients: int) -> "Family | None":
        return None

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        order = rng.permutation(len(view.available))
        left = order[view.available[order]][:k]
        ends_s, selected = 0.0, []
        while left.size:
            upload_s = view.upload_estimate_s[left]
            added_s = upload_s + np.maximum(0.0, view.estimate_s[left] - upload_s - ends_s)
            best = int(np.argmin(added_s))
            if ends_s + added_s[best] <= self.deadline_s:
                ends_s += float(added_s[best])
                selected.append(left[best])
            left = np.delete(left, best)
        return in_order(np.array(selected, dtype=np.int32))
