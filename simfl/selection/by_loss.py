"""Selection by what clients report of their losses: power-of-choice (Cho et al. 2020), Oort (Lai et al. 2021)."""

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays, Units, View
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


Share = Annotated[float, Field(ge=0, le=1)]

SMALLEST = 0.999
"""The least utility is taken for so much of itself, and a range for at least 1e-4, so that no score is 0."""


@POLICIES("oort")
@dataclass(frozen=True)
class Oort:
    """Explores some clients, the fast ones with many samples first, and exploits those of highest utility.

    A client's utility is its samples times the root mean squared loss of its last job, clipped at a quantile and
    scaled to 0..1, plus sqrt(0.1 log(t) / last round) for what may have changed, times (T / seconds)^penalty where its
    last job took longer than the preferred duration T, a percentile of all durations. Who is exploited is drawn by
    utility among those above a share of the last place's. The pacer raises the percentile where the utility that was
    collected in the last ``pacer_step`` rounds hardly differs from that of the rounds before, and lowers it where it
    differs fivefold.

    Reference: Lai, Zhu, Madhyastha and Chowdhury, OSDI 2021, algorithm 1, in the form of the public code in FedScale
    (defaults, normalisation, pacer). Unlike there, utilities are scaled by those of tried clients only (there, untried
    ones count with their samples), a duration that was not seen yet is an oracle's expectation, and where too few can
    be exploited or explored, more of the others are, so that k are selected. Clients are never excluded.
    """

    k: Annotated[int, Field(ge=1, description="clients in an aggregation")]
    exploration: Annotated[Share, Field(description="share of explored clients in the first round")] = 0.9
    exploration_decay: Annotated[Share, Field(description="by what it is multiplied with every round")] = 0.98
    exploration_min: Annotated[Share, Field(description="its least value")] = 0.3
    sample_window: Annotated[
        float, Field(ge=1, description="explored clients are drawn among so many times their number")
    ] = 5.0
    cut_off: Annotated[Share, Field(description="of the last place's utility, below which nobody is exploited")] = 0.05
    clip: Annotated[Share, Field(description="quantile at which utilities are clipped")] = 0.9
    penalty: Annotated[float, Field(ge=0, description="exponent for clients that are slower than preferred")] = 2.0
    percentile: Annotated[
        float, Field(ge=0, le=100, description="of all durations: the preferred duration; 100 = any")
    ] = 30.0
    pacer_step: Annotated[int, Field(ge=1, description="rounds between two decisions of the pacer")] = 20
    pacer_delta: Annotated[float, Field(ge=0, le=100, description="by what the pacer moves the percentile")] = 5.0
    scalars: Scalars = "covered"

    unit_size = 1
    reads = frozenset({"seconds", "samples", "loss_rms", "last_round", "estimate_s"})
    example = {"k": 4}

    def check(self, setting: ScenarioView) -> list[Problem]:
        return at_most_clients(self.k, setting.clients)

    def family(self, clients: int) -> "Family | None":
        return None

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        count(k, self.unit_size)
        here = np.flatnonzero(view.available)
        if len(here) < k:
            return nobody(1)
        preferred_s, durations_s = self._preferred_s(view)
        pace = np.where(durations_s > preferred_s, (preferred_s / np.maximum(durations_s, 1e-4)) ** self.penalty, 1.0)
        tried = ~np.isnan(view.loss_rms)
        share = max(self.exploration * self.exploration_decay ** (view.round + 1), self.exploration_min)
        known, new = here[tried[here]], here[~tried[here]]
        exploited = max(min(k - min(int(k * share), len(new)), len(known)), k - len(new))
        best = self._draw_best(view, known, pace, exploited, rng)
        gains = view.samples * pace
        untried = new[np.argsort(-gains[new], kind="stable")][: int(self.sample_window * (k - exploited))]
        return in_order(np.append(best, draw_by_weight(untried, np.maximum(gains, 1e-12), k - exploited, rng)))

    def _preferred_s(self, view: View) -> tuple[float, NDArray[np.float64]]:
        """The preferred duration, and that of each client, (clients,), as far as is known."""
        durations_s = np.where(np.isnan(view.seconds), view.estimate_s, view.seconds)
        percentile = float(view.state["percentile"])
        if percentile >= 100:
            return np.inf, durations_s
        place = min(int(len(durations_s) * percentile / 100), len(durations_s) - 1)
        return float(np.sort(durations_s)[place]), durations_s

    def _draw_best(
        self, view: View, known: NDArray[np.intp], pace: NDArray[np.float64], wanted: int, rng: np.random.Generator
    ) -> NDArray[np.int32]:
        """``wanted`` of the clients who were tried, drawn by utility among those of the highest."""
        if not wanted:
            return np.empty(0, dtype=np.int32)
        t, last = view.round + 1, view.last_round[known] + 1
        gains = utilities(view)[known]
        score = self._normalise(gains) + np.sqrt(0.1 * log(t) / last)
        score = np.abs(score * pace[known])
        order = np.argsort(-score, kind="stable")
        least = self.cut_off * score[order[min(wanted, len(order) - 1)]]
        enough = np.maximum(np.count_nonzero(score >= least), min(len(order), 10 * wanted + 1))
        weights = np.zeros(len(view.available))
        weights[known] = np.maximum(score, 1e-12)
        return draw_by_weight(known[order[:enough]], weights, wanted, rng)

    def _normalise(self, gains: NDArray[np.float64]) -> NDArray[np.float64]:
        """Utilities, (n,), clipped at the quantile, and scaled by the range of those above 0."""
        positive = np.sort(gains[gains > 0])
        if not positive.size:
            return gains
        top = positive[min(int(len(positive) * self.clip), len(positive) - 1)]
        low = positive[0] * SMALLEST
        return np.asarray((np.minimum(gains, top) - low) / max(positive[-1] - low, 1e-4))

    def start(self, clients: int) -> Arrays:
        return {"percentile": np.float64(self.percentile), "collected": np.zeros(0)}

    def observe(self, view: View, summed: NDArray[np.int32]) -> Arrays:
        """Adds the mean utility of those who were exploited; every ``pacer_step`` rounds the percentile may move."""
        exploited = summed[view.participation[summed] > 1]
        mean = float(utilities(view)[exploited].sum() / (len(exploited) + 1e-4))
        collected = np.append(view.state["collected"], mean)[-2 * self.pacer_step :]
        percentile, rounds = float(view.state["percentile"]), view.round + 1
        if rounds >= 2 * self.pacer_step and rounds % self.pacer_step == 0:
            before, now = collected[: self.pacer_step].sum(), collected[self.pacer_step :].sum()
            if abs(now - before) <= 0.1 * before:
                percentile = min(100.0, percentile + self.pacer_delta)
            elif abs(now - before) >= 5 * before:
                percentile = max(self.pacer_delta, percentile - self.pacer_delta)
        return {"percentile": np.float64(percentile), "collected": collected}


def utilities(view: View) -> NDArray[np.float64]:
    """Samples times root mean squared loss of each client, (clients,); 0 where it is not known or no number."""
    return np.nan_to_num(view.samples * view.loss_rms, nan=0.0, posinf=np.finfo(np.float64).max / 1e9)
