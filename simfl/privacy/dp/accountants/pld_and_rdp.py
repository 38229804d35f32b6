"""Epsilon by Google's accounting library, ``dp-accounting``: where sampling may be claimed, and what it then comes to.

Sampling hides a client only from those who do not see who takes part, and only if it is drawn as the theorem says: by
independent coins, into a sum that nothing but the members' own updates changes. So the sum is divided by a fixed number
(the number of members would show in the noise's size, and one member more would push the others' mean away), noise is
released where nobody came, and no member's presence may decide whether there is a sum, or a further round. What keeps
clients away independently of coins and data only lowers their probabilities.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.certificate_words import SAMPLED_EPSILON
from simfl.core.columns import Column
from simfl.core.coverage import follows_policy
from simfl.core.errors import MissingError
from simfl.core.scenario_view import ScenarioView, dropout_rates, failure_rates, never_fails
from simfl.privacy.accountant import ACCOUNTANTS, Accountant, History
from simfl.privacy.dp.accountants.zero_out import Delta, departure_cautions, large_delta_cautions, no_noise_cautions
from simfl.privacy.dp.losses import loss_factors, losses
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.multiround.guarantee_trace import evaluation_rounds
from simfl.privacy.stage import Loss, Stage

Problem = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Accounting(Accountant):
    """Keys of the library's accountants, and what they compose.

    Without amplification: the Gaussian noise in the rounds that the client of largest loss really took part in, its
    updates against none. With it: every round, in each of which a client is with the probability ``rate``.
    """

    delta: Delta = 1e-5
    amplification: Annotated[
        Literal["none", "poisson", "fixed_size"],
        Field(description="what is claimed of sampling; none = everybody knows who takes part"),
    ] = "none"
    rate: Annotated[
        float | None, Field(gt=0, le=1, description="probability of an available client's selection; null = known")
    ] = None
    every: Annotated[int, Field(ge=0, description="rounds between evaluations; 0 = after the last round only")] = 0

    name = ""

    @property
    def epsilon_delta(self) -> float:  # type: ignore[override]  # a constant where there is none
        return self.delta

    def resolve(self, setting: ScenarioView) -> Self:
        """With the selection's own rate."""
        rate = _rate(setting) if self.amplification != "none" else None
        return replace(self, rate=rate) if self.rate is None and rate is not None else self

    def check(self, setting: ScenarioView) -> list[Problem]:
        """Why the library cannot say it, or sampling cannot be claimed.

        Raises:
            MissingError: the library is not there.
        """
        if find_spec("dp_accounting") is None:
            raise MissingError(f'the accountant {self.name} needs the extra "dp": pip install "simfl[dp]"')
        noisy = [stage for stage in setting.privacy.stages if stage.adds_noise is not None]
        others = [stage for stage in noisy if not (stage.adds_noise and stage.adds_noise.gaussian)]
        if others:
            return [("", f"accounts Gaussian noise, but stage {others[0].name} adds another; use zero_out")]
        if self.amplification == "none":
            return []
        problems = [("amplification", why) for why in _unsound(setting, noisy, self.amplification)]
        actual = _rate(setting)
        if self.rate is not None and actual is None:
            why = (
                f"is {self.rate:g}, but selection: {setting.selection.name} does not say with which it draws; use null"
            )
            problems.append(("rate", why))
        elif self.rate is not None and actual is not None and self.rate < actual * (1 - 1e-12):
            problems.append(("rate", f"is {self.rate:g}, but clients are selected with {actual:g}; use that, or null"))
        return problems

    def cautions(self, setting: ScenarioView) -> list[str]:
        """Noise that is not there, a delta that says little, and participation that no accountant covers."""
        return [
            *no_noise_cautions(setting), *departure_cautions(setting), *large_delta_cautions(self.delta, setting)
        ]  # fmt: skip

    def accounts(self, history: History) -> Mapping[str, Iterable[float | int | None]]:
        return {self.columns[0].name: self.epsilons(history)}

    def epsilons(self, history: History) -> Iterable[float | None]:
        """Epsilon at the rounds that are due."""
        wanted, noise = evaluation_rounds(history.shape[0], self.every), losses(history)
        if history.any_view.uncovered:
            return [None] * len(wanted)
        if not noise:  # what is not noised tells everything of whoever took part
            took_part = np.diff(history.seen.tocsr().indptr)
            nobody = ((np.cumsum(took_part) == 0) & ~history.open_to(0)) | history.silent
            return [0.0 if it and none else None for it, none in zip(wanted, nobody, strict=True)]
        least = np.full(len(wanted), np.inf)
        for loss in (loss for loss in noise if loss.pure is None and loss.rdp is None):
            worst = _Worst(history, loss)
            values = [self._epsilon(history, loss, worst, t) if it else np.inf for t, it in enumerate(wanted.tolist())]
            least = np.minimum(least, values if loss.opened is None else np.where(loss.opened, np.inf, values))
        return [float(value) if np.isfinite(value) else None for value in least]

    def _epsilon(self, history: History, loss: Loss, worst: "_Worst", t: int) -> float:
        if self.amplification == "none":
            mus = worst.mus(t)
            return self.of_events(*np.unique(mus, return_counts=True)) if len(mus) else 0.0
        if loss.mu is None or (loss.weighted and loss_factors(history, loss).max() > 1):
            return np.inf  # nobody knows what those who did not come would have counted
        return self.of_sample(float(loss.mu.max()), t + 1, history.shape[1])

    def of_events(self, mus: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
        """Epsilon of so many Gaussian mechanisms of each mu."""
        import dp_accounting as dp

        if np.isinf(mus).any():
            return np.inf
        events = [dp.SelfComposedDpEvent(dp.GaussianDpEvent(1 / mu), n) for mu, n in zip(mus.tolist(), counts.tolist())]
        return self.of_event(dp.ComposedDpEvent(events), dp.NeighboringRelation.ADD_OR_REMOVE_ONE)

    @abstractmethod
    def of_sample(self, mu: float, rounds: int, clients: int) -> float:
        """Epsilon of as many rounds, in each of which the client takes part with probability ``rate``."""

    @abstractmethod
    def of_event(self, event: object, relation: object) -> float:
        """Epsilon of an event of dp-accounting for neighbours of this relation."""


class _Worst:
    """The client of largest loss after a round, and its losses until then."""

    def __init__(self, history: History, loss: Loss) -> None:
        weights = loss_factors(history, loss)
        mu = np.full(history.shape[0], np.inf) if loss.mu is None else loss.mu
        self.scaled = weights.copy()
        self.scaled.data = mu[weights.nonzero()[0]] * weights.data

    def mus(self, t: int) -> NDArray[np.float64]:
        """That client's, of the rounds up to t that it is in."""
        so_far = self.scaled[: t + 1]
        worst = int(np.argmax(np.asarray(so_far.power(2).sum(axis=0)).ravel()))
        mus: NDArray[np.float64] = so_far[:, [worst]].toarray().ravel()
        return mus[mus > 0]


def _rate(setting: ScenarioView) -> float | None:
    policy = setting.selection
    if policy.sampling == "fixed_size" and policy.k is not None:
        return policy.k / setting.clients
    return policy.inclusion


def _unsound(setting: ScenarioView, noisy: list[Stage], claimed: str) -> Iterable[str]:
    """Why sampling of this kind cannot be claimed."""
    policy = setting.selection
    rule, instead = setting.training, "use amplification: none"
    if rule.asynchronous:
        yield f"is {claimed}, but a buffered server's aggregates are no samples of its clients; {instead}"
    if not follows_policy(setting):
        yield f"is {claimed}, but the server does not say that it asks the policy (follows_policy); {instead}"
    if policy.sampling != claimed:
        fits = {"poisson": "bernoulli", "fixed_size": "random"}[claimed]
        yield f"is {claimed}, but selection: {policy.name} does not draw so; {instead}, or selection: {fits}"
    for stage in noisy:
        if stage.observer != "outside":
            why = f"stage {stage.name} protects against the server, which sees who takes part"
            yield f"is {claimed}, but {why}; {instead}"
        elif not (stage.adds_noise and stage.adds_noise.fresh):
            yield f"is {claimed}, but the noise of stage {stage.name} lasts over rounds; {instead}"
    weights = rule.weights(np.array([1, 2]), np.zeros(2, dtype=np.int64))
    if not type(rule).weights.__module__.startswith("simfl."):
        yield f"is {claimed}, but training: {rule.name} has weights of its own, which may follow who takes part; " \
            f"{instead}"  # fmt: skip
    elif weights[0] != weights[1]:
        yield f"is {claimed}, but clients weigh as much as they hold samples; use training.weighting: equal"
    if rule.algorithm.follows_data:
        yield f"is {claimed}, but clients leave after a look at their own models, not by chance; {instead}"
    if rule.ends_by_participation:
        yield f"is {claimed}, but who takes part decides when the run ends; give training.rounds, and no such stop"
    unlike = _unlike_coins if claimed == "poisson" else _unlike_sets
    yield from (f"is {claimed}, but {why}" for why in unlike(setting, instead))


def _unlike_coins(setting: ScenarioView, instead: str) -> Iterable[str]:
    """Why the sums of a policy that tosses independent coins are not those of Poisson samples."""
    rule, devices = setting.training, setting.devices
    if not rule.asynchronous and rule.fixed_denominator is None:
        yield "the sum is divided by the weights of those who came, which tells about them; set training.denominator " \
            "to expected"  # fmt: skip
    if rule.losses is not None and rule.losses.quorum:
        yield "the fastest clients decide whose updates are summed; set training.quorum to null"
    if rule.losses is not None and rule.losses.on_failure == "abort":
        yield "one client's failure takes all others out of the sum; set training.on_failure to drop_unit"
    waits = (("training", rule.losses.deadline_s if rule.losses is not None else None),
             ("secagg", setting.secagg.deadline_s if setting.secagg.phases else None))  # fmt: skip
    shared = [] if setting.network.independent else ["messages share links"]
    shared += [] if devices.computation.independent else ["jobs may take longer as others work"]
    for key in (key for key, deadline_s in waits if deadline_s is not None and shared):
        yield f"{shared[0]}, so that who else was selected decides who is late; set {key}.deadline_s to null"
    if not setting.secagg.sums_whoever_comes:
        yield f"secagg: {setting.secagg.name} fails as a whole where too few come; set secagg to plain"
    if not (devices.availability.timeless and setting.agents.all_stay):
        yield f"simulated time, which tells who took part, may decide who is available; {instead}"
    if failure_rates(setting) is None:
        yield f"clients do not certainly fail independently of one another; {instead}"


def _unlike_sets(setting: ScenarioView, instead: str) -> Iterable[str]:
    """Why the sums of a policy that draws k clients are not those of samples of k."""
    rule, dropout, failing = setting.training, dropout_rates(setting), failure_rates(setting)
    if dropout is None or failing is None or np.max(dropout) > 0 or np.max(failing) > 0:
        yield f"that needs all clients to be available and none to fail; {instead}"
    if rule.losses is not None and rule.losses.deadline_s is not None:
        yield "that needs all selected clients in the sum; set training.deadline_s to null"
    if rule.losses is not None and rule.losses.quorum:
        yield "that needs all selected clients in the sum; set training.quorum to null"
    if setting.secagg.phases and setting.secagg.deadline_s is not None:
        yield "that needs all selected clients in the sum; set secagg.deadline_s to null"
    if setting.secagg.phases and failing is not None and not np.any(failing > 0) and not never_fails(setting):
        yield "that needs nobody to fail in the phases of secagg; set devices.failure to none"
    if rule.fixed_denominator is None and not setting.learning.everybody_holds_samples:
        yield "clients without samples are in no sum, and its size tells of them; set training.denominator to expected"


@ACCOUNTANTS("pld")
@dataclass(frozen=True, kw_only=True)
class Pld(Accounting):
    """Numerical accounting of Gaussian noise by dp-accounting, also of Poisson samples of clients; tighter than Rényi.

    A client's update against none. Reference: Doroshenko et al., "Connect the dots: tighter discrete approximations of
    privacy loss distributions", PoPETs 2022.
    """

    columns: ClassVar[tuple[Column, ...]] = (
        Column("epsilon_pld", "ε (PLD)", "number", "Epsilon by privacy loss distributions, with the sampling that the "
               "scenario claims.", -1, "end", words="ε by privacy loss distributions", **SAMPLED_EPSILON),
    )  # fmt: skip

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if self.amplification == "fixed_size":
            return [("amplification", "is fixed_size, which only the accountant rdp knows; use that, or none")]
        return super().check(setting)

    def of_sample(self, mu: float, rounds: int, clients: int) -> float:
        import dp_accounting as dp

        if np.isinf(mu):
            return np.inf
        event = dp.PoissonSampledDpEvent(self.rate or 1.0, dp.GaussianDpEvent(1 / mu))
        return self.of_event(dp.SelfComposedDpEvent(event, rounds), dp.NeighboringRelation.ADD_OR_REMOVE_ONE)

    def of_event(self, event: object, relation: object) -> float:
        from dp_accounting import pld

        return float(pld.PLDAccountant(relation).compose(event).get_epsilon(self.delta))


SAMPLED = [*(x / 10 for x in range(20, 110)), *range(11, 64), 128, 256, 512, 1024]
"""The library's own orders from 2 on; below, its series for samples does not always converge."""


@ACCOUNTANTS("rdp")
@dataclass(frozen=True, kw_only=True)
class Rdp(Accounting):
    """Rényi accounting of Gaussian noise by dp-accounting, also of samples of clients, where these may be claimed.

    ``poisson``: a client's update against none; ``fixed_size``: against any other. Reference: Mironov, Talwar and
    Zhang, "Rényi differential privacy of the sampled Gaussian mechanism", 2019; Wang, Balle and Kasiviswanathan,
    "Subsampled Rényi differential privacy", AISTATS 2019.
    """

    columns: ClassVar[tuple[Column, ...]] = (
        Column("epsilon_rdp", "ε (Rényi)", "number", "Epsilon by Rényi accounting, with the sampling that the scenario "
               "claims.", -1, "end", words="ε by Rényi accounting", **SAMPLED_EPSILON),
    )  # fmt: skip

    def of_sample(self, mu: float, rounds: int, clients: int) -> float:
        import dp_accounting as dp

        if np.isinf(mu):
            return np.inf
        rate = self.rate or 1.0
        if self.amplification == "poisson":
            event: Any = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(1 / mu))
            relation = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
        else:  # the library takes the noise over a sensitivity of one; a replaced update moves the sum twice as far
            noise, relation = dp.GaussianDpEvent(1 / (2 * mu)), dp.NeighboringRelation.REPLACE_ONE
            event = dp.SampledWithoutReplacementDpEvent(clients, round(rate * clients), noise)
        sampled = self.of_event(dp.SelfComposedDpEvent(event, rounds), relation)
        whole = np.sqrt(rounds) * (mu if self.amplification == "poisson" else 2 * mu)
        return sampled or float(gaussian.epsilon(whole, self.delta))  # 0 where the library meets a negative divergence

    def of_event(self, event: object, relation: object) -> float:
        from dp_accounting import rdp

        return float(rdp.RdpAccountant(SAMPLED, relation).compose(event).get_epsilon(self.delta))
