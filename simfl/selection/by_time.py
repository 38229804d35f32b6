"""Selection by how long clients take: FedCS (Nishio, Yonetani 2019) and TiFL (Chai et al. 2020)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.errors import amount
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays, Units, View
from simfl.selection.base import POLICIES, Scalars, nobody
from simfl.selection.units.blocks import count, in_order
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


@POLICIES("tifl")
@dataclass(frozen=True)
class TiFl:
    """K clients at random of one tier; tiers are equal shares of the clients in the order of their expected seconds.

    Tiers have fixed probabilities or, if ``adaptive``, begin with equal ones: every ``interval`` rounds, if
    the tier that took part last has not become more accurate since the decision before, tiers of lower accuracy get
    higher probabilities: of n tiers with credits that in place i = 1..n by accuracy gets 2 (n - i) / (n (n - 1)). A
    tier's credits are the rounds in which it can be in a sum; when all are spent, each gets as many again. A tier's
    accuracy is the mean of what its clients have said last: the share of their training samples on which the model
    that they received was right.

    Reference: Chai et al. 2020, arXiv 2001.09249, sections 4.3 and 4.4, algorithm 2. Tiers in which fewer than K are
    available are passed over; the paper's profiling is an oracle's expectation, and its test data are the clients' own.
    """

    k: Annotated[int, Field(ge=1, description="clients in an aggregation")]
    tiers: Annotated[int, Field(ge=1, description="number of tiers; each holds k clients at least")] = 5
    adaptive: Annotated[
        bool, Field(description="probabilities follow the tiers' accuracies; false: they are fixed")
    ] = True
    probabilities: Annotated[
        tuple[Annotated[float, Field(ge=0)], ...] | None,
        Field(description="of each tier, the fastest first, in any unit; null = equal; with adaptive: false"),
    ] = None
    interval: Annotated[int, Field(ge=1, description="rounds between two decisions; with adaptive: true")] = 20
    credits: Annotated[int, Field(ge=1, description="rounds for each tier; with adaptive: true")] = 100
    scalars: Scalars = "covered"

    unit_size = 1
    example = {"k": 2, "tiers": 2}

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"estimate_s", "accuracy"} if self.adaptive else {"estimate_s"})

    def check(self, setting: ScenarioView) -> list[Problem]:
        if problems := at_most_clients(self.k, setting.clients):
            return problems
        most = setting.clients // self.k
        if self.tiers > most:
            why = f"is {self.tiers}, but {setting.clients} clients make {most} tiers of k = {self.k} at most"
            return [("tiers", f"{why}; the nearest valid value is {most}")]
        if self.probabilities is None:
            return []
        if self.adaptive:
            return [("probabilities", "are those of adaptive: false; leave them out or use it")]
        if len(self.probabilities) != self.tiers or not sum(self.probabilities):
            wrong = f"has {amount(len(self.probabilities), 'value')} for {self.tiers} tiers"
            return [("probabilities", f"{wrong}; give one for each tier, not all of them 0")]
        return []

    def family(self, clients: int) -> "Family | None":
        return None

    def tier_of(self, view: View) -> NDArray[np.int64]:
        """The tier of each client, (clients,), 0 = the fastest; clients of equal seconds by their number."""
        clients = len(view.available)
        tier = np.empty(clients, dtype=np.int64)
        tier[np.argsort(view.estimate_s, kind="stable")] = np.arange(clients) * self.tiers // clients
        return tier

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        count(k, self.unit_size)
        tier, chance = self.tier_of(view), self._chances(view)
        there = np.bincount(tier[view.available], minlength=self.tiers) >= k
        chance = np.where(there, chance, 0.0)
        if not chance.any():
            chance = there.astype(float)  # only tiers without chance or credits are there
        draw, order = rng.random(), rng.permutation(len(tier))
        if not there.any():
            return nobody(1)
        place = int(np.searchsorted(np.cumsum(chance) / chance.sum(), draw, side="right"))
        members = order[(tier == min(place, self.tiers - 1))[order] & view.available[order]]
        return in_order(members[:k])

    def _chances(self, view: View) -> NDArray[np.float64]:
        if self.adaptive:
            return np.where(view.state["credits"] > 0, view.state["chances"], 0.0)
        return np.ones(self.tiers) if self.probabilities is None else np.array(self.probabilities)

    # -- adaptive --------------------------------------------------------------------------------

    def start(self, clients: int) -> Arrays:
        if not self.adaptive:
            return {}
        return {
            "chances": np.full(self.tiers, 1 / self.tiers),
            "credits": np.full(self.tiers, self.credits, dtype=np.int64),
            "accuracies": np.full(self.tiers, np.nan),
            "last": np.int64(-1),
        }

    def observe(self, view: View, summed: NDArray[np.int32]) -> Arrays:
        """Spends a credit of the tier in the sum, and decides every ``interval`` rounds."""
        if not self.adaptive:
            return {}
        state, tier = dict(view.state), self.tier_of(view)
        if summed.size:
            state["last"] = np.int64(tier[summed[0]])
            spent = (np.arange(self.tiers) == state["last"]) & (state["credits"] > 0)
            state["credits"] = state["credits"] - spent
            if not state["credits"].any():
                state["credits"] = np.full(self.tiers, self.credits, dtype=np.int64)
        if (view.round + 1) % self.interval == 0:
            now, before, last = self._accuracies(view, tier), state["accuracies"], int(state["last"])
            if last >= 0 and now[last] <= before[last]:
                state["chances"] = self._by_accuracy(now, state["credits"])
            state["accuracies"] = now
        return state

    def _accuracies(self, view: View, tier: NDArray[np.int64]) -> NDArray[np.float64]:
        """Mean of the known accuracies of each tier's clients, (tiers,), NaN where none is known."""
        known = ~np.isnan(view.accuracy)
        sums = np.bincount(tier[known], view.accuracy[known], self.tiers)
        counts = np.bincount(tier[known], minlength=self.tiers)
        return np.divide(sums, counts, out=np.full(self.tiers, np.nan), where=counts > 0)

    def _by_accuracy(self, accuracies: NDArray[np.float64], credits: NDArray[np.int64]) -> NDArray[np.float64]:
        """Probabilities of the tiers, (tiers,), higher for lower accuracy; one never heard of counts as the lowest."""
        left = np.flatnonzero(credits > 0)
        chances = np.zeros(self.tiers)
        if len(left) == 1:
            chances[left] = 1.0
            return chances
        order = left[np.argsort(np.nan_to_num(accuracies[left], nan=-1.0), kind="stable")]
        n = len(order)
        chances[order] = 2 * (n - np.arange(1, n + 1)) / (n * (n - 1))
        return chances
