"""Output perturbation of strongly convex models, for single samples, with shares of noise as PrivacyFL has it.

A client that minimises the mean of 1-Lipschitz losses plus alpha/2 |w|^2 over k samples x, |x| <= R, moves its w by at
most 2 R / (k alpha) in the Euclidean norm when one sample is replaced (Chaudhuri, Monteleoni and Sarwate, JMLR 2011,
Corollary 8), and the mean of n clients by an n-th of that. The keys ``samples`` and ``alpha`` say for which k and alpha
noise is made. What it then protects follows from what clients really do: SGD has made so many steps of
``training.learning_rate`` on so many samples with the penalty ``training.weight_decay``, and one sample moves its model
as far as :mod:`simfl.learning.work` says, often further than a minimum. The slope is L = s sqrt(X^2 + 1), where
X is the norm of the longest training sample of the run and s the model's steepness: 1 for logistic regression of two
classes, sqrt(2) for more, with an intercept. A sample that several clients hold, or one client twice, moves the sum by
the bounds of all copies. For other models, learning rates beyond 2 / smoothness, and client algorithms that send
other models (pruning), every epsilon is infinite.
"""

from dataclasses import dataclass, replace
from itertools import compress
from math import inf, sqrt
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field

from simfl.plugins import Arrays, Column, Floats, Integers, Job, ScenarioView, Streams, Vectors, amount
from simfl.plugins.privacy import (
    SAMPLE_EPSILON,
    STAGES,
    Members,
    Noised,
    Stage,
    can_lose_clients,
    changed_by_others,
    gaussian,
    laplace,
    no_sample_bound,
    of_each_sample,
    of_one_sample,
    staircase,
    weights_differ,
)

Count = Annotated[int, Field(ge=1, le=10**9)]
Epsilon = Annotated[float, Field(gt=0, le=1e9)]


@STAGES("output_perturbation")
@dataclass(frozen=True)
class OutputPerturbation(Stage):
    """Each of n clients adds the difference of two Gamma(1/n, scale) to every weight; together they are Laplace.

    With ``adds: whole`` each adds a whole Laplace variable, which is what the n - 1 attack leaves of it. ``gaussian``
    are shares N(0, std² / n), by the textbooks' formula where published (for epsilon up to 1), by the exact profile
    where calibrated, on all weights at once; ``staircase`` has no shares.
    ``published`` is the scale of the publication, 2 R / (n k alpha epsilon), which is meant for the mean of the models
    but added to each before they are averaged: n times too little. ``calibrated`` is for what one sample does to
    its own client's model, so that every weight of the mean is epsilon-private against replacing it. n are the clients
    in the sum; of different epsilons the largest counts. Every round draws its noise anew, and costs its own epsilon;
    but after ``rounds`` rounds a cohort that sums the very same models again sends the very same noise, which is free.
    Reference: Mugunthan, MIT 2022, sections 2.2.3 and 5.3.
    """

    epsilon: Annotated[Epsilon | tuple[Epsilon, ...], Field(description="a number, or one a client")]
    samples: Annotated[
        Count | tuple[Count, ...], Field(description="samples of a client in its first round, k: a number, or one each")
    ]
    alpha: Annotated[
        float,
        Field(gt=0, le=1e9, description="strong convexity of the local loss, its L2 penalty, as noise assumes it"),
    ] = 1.0
    penalty: Annotated[
        float | None, Field(ge=0, description="the L2 penalty of the local loss as it is; null = training.weight_decay")
    ] = None
    new: Annotated[int, Field(ge=0, le=10**9, description="samples that every further round adds to k")] = 0
    rounds: Annotated[
        int | None,
        Field(
            ge=1,
            description="rounds that find new samples, after which a model is sent again with the same noise; "
            "null = all",
        ),
    ] = None
    radius: Annotated[
        float, Field(gt=0, le=1e9, description="largest Euclidean norm of a sample, R, as noise assumes it")
    ] = 1.0
    noise_scale: Annotated[
        Literal["published", "calibrated"], Field(description="how the scale of the noise follows from epsilon")
    ] = "published"
    adds: Annotated[
        Literal["share", "whole"], Field(description="each client adds a share of the noise, or all of it")
    ] = "share"
    mechanism: Annotated[Literal["laplace", "gaussian", "staircase"], Field(description="the law of the noise")] = (
        "laplace"
    )
    delta: Annotated[float, Field(gt=0, lt=1, description="of gaussian noise; the others need none")] = 1e-5

    columns = (
        Column("epsilon_weight", "ε of a weight", "number",
               "Epsilon of one weight of this round's mean, for one replaced sample, as noise, samples and training "
               "really are; empty where it is infinite.", -1, "whole_sum", shown=False,
               **SAMPLE_EPSILON),
        Column("epsilon_model", "ε of the model", "number",
               "Epsilon of this round's whole mean, for one replaced sample, as that of a weight; rounds add up.", -1,
               "whole_sum", **SAMPLE_EPSILON),
    )  # fmt: skip
    certificate = "epsilon_model"
    of_samples = True
    example = {"epsilon": 1.0, "samples": 30}

    maps = (Noised(),)

    @property
    def epsilon_delta(self) -> float:  # type: ignore[override]  # a constant where there is none
        return self.delta if self.mechanism == "gaussian" else 0.0

    def resolve(self, setting: ScenarioView) -> Self:
        """With the rule's own penalty."""
        return self if self.penalty is not None else replace(self, penalty=setting.training.weight_decay)

    def cautions(self, setting: ScenarioView) -> list[str]:
        """What the epsilons take for granted, and where noise is made for another loss than the clients'."""
        cautions = []
        if (self.penalty or 0) < self.alpha:
            why = f"noise is made for alpha {self.alpha:g}, but clients train with weight_decay {self.penalty or 0:g}"
            cautions.append(f"{why}: epsilon_weight and epsilon_model are of the latter")
        if setting.training.algorithm.follows_data:
            why = "clients leave after a look at their own models, which tells of their data without any noise"
            cautions.append(f"{why}: epsilon_weight and epsilon_model are infinite (left empty)")
        if unknown := no_sample_bound(setting):
            cautions.append(f"{unknown}: epsilon_weight and epsilon_model are infinite (left empty)")
        return [*cautions, *self._cautions_of_shares(setting)]

    def _cautions_of_shares(self, setting: ScenarioView) -> list[str]:
        """Where single shares of the noise may be all that covers an update."""
        protocol, cautions = setting.secagg, list[str]()
        if self.adds == "whole":
            return cautions
        only = "infinite (left empty)" if self.mechanism == "laplace" else "of each client's own share of noise alone"
        epsilons = f"epsilon_weight and epsilon_model are {only}"
        if setting.training.many_aggregators and (protocol.shows_updates or setting.clients == 2):
            why = f"all clients see each update by itself: {epsilons}"
            cautions.append(f"{why}; use secagg: pairwise_ratchet and more than two clients")
        if protocol.clip < inf:
            why = f"secagg: {protocol.name} clips updates and their noise at {protocol.clip:g}, and rounds them"
            where = "where it does clip (see clipped), or rounds to a scale of your own that is coarse for the noise"
            cautions.append(f"{why}: {where}, {epsilons}; a larger secagg.clip avoids the former")
        return cautions

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems, real = list[tuple[str, str]](), setting.training.weight_decay
        problems += changed_by_others(setting, self.name, self.rounds is not None)
        if self.penalty is not None and self.penalty > real:
            why = f"is {self.penalty:g}, but clients train with weight_decay {real:g}; the nearest valid value is"
            problems.append(("penalty", f"{why} {real:g}"))
        rule = setting.training
        if self.rounds is not None and (rule.asynchronous or not rule.algorithm.repeats):
            why = f"is {self.rounds}, after which noise is the same again, but clients train other models in each round"
            problems.append(("rounds", f"{why}; use null, or training.client: {{name: privacyfl, from_scratch: true}}"))
        for key, value in (("epsilon", self.epsilon), ("samples", self.samples)):
            if isinstance(value, tuple) and len(value) != setting.clients:
                problems.append((key, f"has {amount(len(value), 'value')} for {amount(setting.clients, 'client')}"))
        most = max(self.epsilon, default=0.0) if isinstance(self.epsilon, tuple) else self.epsilon
        if self.mechanism == "gaussian" and self.noise_scale == "published" and most > 1:
            why = f"is {most:g}, for which the textbooks' Gaussian formula says nothing; the nearest value is 1"
            problems.append(("epsilon", f"{why}, or use noise_scale: calibrated"))
        if self.mechanism == "staircase" and self.adds == "share":
            problems.append(("adds", "is share, but a staircase is no sum of shares; use whole, or mechanism: laplace"))
        if self.adds == "share" and can_lose_clients(setting):
            why = "is share, but no client can know how many others will have come where some may fail or be late"
            problems.append(("adds", f"{why}; use whole, or devices.failure: none and no deadline"))
        if weights_differ(setting):
            why = "is for a mean in which all clients count the same"
            problems.append(("", f"{why}; use training.weighting: equal and training.staleness: constant"))
        return problems

    def start(self, dimension: int) -> Arrays:
        """The length of an update; of the latest release its clients, when noise was drawn, of how many samples."""
        nobody = np.zeros(0, dtype=np.int64)
        return {"dimension": np.int64(dimension), "drawn": np.int64(-1), "clients": nobody, "held": nobody}

    def client(self, vectors: Vectors, jobs: tuple[Job, ...], state: Arrays, streams: Streams) -> Vectors:
        n, size = vectors.shape
        share = 1 / n if self.adds == "share" else 1.0
        sent = vectors.copy()
        again = self._again(jobs, state)
        for row, job, scale in zip(sent, jobs, self.scales(jobs).tolist(), strict=True):
            number = job.selection if again is None else again  # a client may have two jobs of one version
            rng = streams("output_perturbation", number, job.client)
            row += self._noise(rng, scale, share, _of(self.epsilon, job.client), size).astype(np.float32)
        return sent

    def server(self, vector: Vectors, members: Members, state: Arrays, streams: Streams) -> tuple[Vectors, Arrays]:
        if self.rounds is None or not members.jobs:
            return vector, state
        again = self._again(members.jobs, state)
        version = np.int64(members.jobs[0].version if again is None else again)
        return vector, {
            **state,
            "drawn": version,
            "clients": _clients(members.jobs),
            "held": self._actual_samples(members),
        }

    def _again(self, jobs: tuple[Job, ...], state: Arrays) -> int | None:
        """The version at which the noise of these jobs has been drawn already, where it was; else it is drawn now.

        Only of a cohort that has sent its latest models before, all of them together: another sum of the same noise
        would tell what a single client has sent.
        """
        if self.rounds is None or not jobs or jobs[0].version < self.rounds or state["drawn"] < self.rounds - 1:
            return None
        return int(state["drawn"]) if np.array_equal(_clients(jobs), state["clients"]) else None

    def _noise(self, rng: np.random.Generator, scale: float, share: float, epsilon: float, size: int) -> Floats:
        """A client's part, (size,)."""
        if self.mechanism == "laplace":
            return laplace.share(rng, scale, share, size)
        if self.mechanism == "gaussian":
            return gaussian.sample(rng, scale * sqrt(share), size)
        return staircase.sample(rng, scale * epsilon, epsilon, staircase.least_magnitude(epsilon), size)

    def scales(self, jobs: tuple[Job, ...]) -> Floats:
        """Of the noise of which each client adds a share, (n,): Laplace's, or of Gaussian noise the standard deviation;
        of a staircase the width of its steps over epsilon.
        """
        wanted = np.array([_of(self.epsilon, job.client) for job in jobs])
        one = 1 / wanted
        if self.mechanism == "gaussian":
            calibrated = gaussian.classical_std if self.noise_scale == "published" else gaussian.std
            one = np.array([calibrated(1.0, epsilon, self.delta) for epsilon in wanted.tolist()])
        spread = self.sensitivities(jobs) * one
        return spread / len(jobs) if self.noise_scale == "published" else spread

    def sensitivities(self, jobs: tuple[Job, ...]) -> Floats:
        """By how much, in the Euclidean norm, one sample moves each client's model as the keys have it, (n,)."""
        return np.asarray(2 * self.radius / (self._configured_samples(jobs) * self.alpha), dtype=np.float64)

    def _configured_samples(self, jobs: tuple[Job, ...]) -> Integers:
        """Samples of each job's client as the keys have it, (n,); new ones come until a latest round."""
        last = inf if self.rounds is None else self.rounds - 1
        samples = [_of(self.samples, job.client) + self.new * min(job.version, last) for job in jobs]
        return np.array(samples, dtype=np.int64)

    def _actual_samples(self, members: Members) -> Integers:
        """Samples of each job's client, (n,): as the run has them, where that is known."""
        return self._configured_samples(members.jobs) if members.examples is None else members.examples

    def facts(self, members: Members, state: Arrays) -> dict[str, float]:
        """The epsilons of the mean: Gaussian noise adds up; of other noise the least of all clients' counts alone,
        since more noise of others only helps. Shares count as far as they certainly cover everybody.
        """
        scale, weight, model = self._loss(members, int(state["dimension"]))
        if self._again(members.jobs, state) is not None:
            if not np.array_equal(self._actual_samples(members), state["held"]):  # the models are others after all
                weight = model = inf
            elif not members.clipped or self.adds == "whole":  # sums of clipped shares tell of single ones each time
                weight = model = 0.0
        if members.follows_data:
            weight = model = inf
        return {"epsilon_weight": weight, "epsilon_model": model, "scale": scale}

    def _loss(self, members: Members, d: int) -> tuple[float, float, float]:
        """The scale of the noise, and the epsilons of a weight and of all d of them, if the noise is drawn now."""
        inside = members.weights > 0
        weights = members.weights[inside]
        moved = of_each_sample(members, self.penalty or 0.0)
        scales, most = self.scales(members.jobs)[inside] * weights, of_one_sample(members, moved)
        share = 1 / len(members.jobs) if self.adds == "share" and members.jobs else 1.0
        seen = members._replace(known="all") if members.known == "server" else members  # it protects against that, too
        parts = seen.covering(float(self.scales(members.jobs)[inside].min(initial=inf)))
        shape = parts / len(members.jobs) if self.adds == "share" and members.jobs else 1.0
        if self.mechanism == "gaussian":
            std = sqrt(share * float(np.sort(scales**2)[:parts].sum()))
            weight = float(gaussian.epsilon(most / std, self.delta)) if most < inf and std else inf
            return std, weight, weight
        scale = float(scales.min(initial=inf))
        if not most < inf:
            return scale, inf, inf
        if self.mechanism == "laplace":  # a shift of L2 norm s is one of L1 norm sqrt(d) s, if it is spread evenly
            weight, model = (laplace.pure_epsilon(most * sqrt(n), scale, shape, n) for n in (1, max(d, 1)))
            return scale, weight, model if d else 0.0
        epsilons = []  # each sample moves its client's model over steps of that client's noise
        for job, shift, wide in zip(compress(members.jobs, inside), moved.tolist(), scales.tolist(), strict=True):
            epsilon = _of(self.epsilon, job.client)
            epsilons.append([staircase.pure_epsilon(shift, wide * epsilon, epsilon, n) for n in (1, d)])
        weight, model = (of_one_sample(members, each) for each in np.array(epsilons).reshape(-1, 2).T)
        return scale, weight, model


def _clients(jobs: tuple[Job, ...]) -> Integers:
    return np.array([job.client for job in jobs], dtype=np.int64)


def _of(value: float | tuple[float, ...], client: int) -> float:
    """A client's own value of one for all or one each."""
    return value[client] if isinstance(value, tuple) else value
