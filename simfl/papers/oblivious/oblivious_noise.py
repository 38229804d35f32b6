"""Noise that nobody can read: distributed differential privacy whose shares are chosen obliviously.

Every party adds to its vector one of two masked noises of every other party; see
:mod:`simfl.papers.oblivious.noise_messages` for the messages and their source.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, inf, log, sqrt
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.papers.oblivious.noise_messages import (
    GridNoise,
    ObliviousPlan,
    Party,
    choices,
    forward,
    pure_epsilon,
    run_round,
)
from simfl.plugins import Aggregate, Column, JsonObject, ScenarioView, Streams
from simfl.plugins.masks import (
    ELEMENT,
    FINEST,
    KEY,
    CryptoRates,
    Elements,
    Grid,
    MaskedProtocol,
    Q,
    agree,
    beyond,
    clipped_row,
    derive,
    public_key,
    secret,
    stretch_seed,
    to_signed,
)
from simfl.plugins.privacy import SAMPLE_EPSILON, no_sample_bound, summands
from simfl.plugins.secagg import (
    MASKED_COLUMNS,
    PROTOCOLS,
    ClientUpdates,
    Cohort,
    PhaseRequest,
    PreparedUnits,
    Rows,
    Session,
    SessionFailure,
    SessionResult,
    Transcript,
    failing,
)

STRIDE = 64
"""Rounds between seeds that are kept."""

Seeds = tuple[bytes, ...]


def masks(streams: Streams, clients: NDArray[np.int32], number: int, size: int) -> Elements:
    """What each client adds to its vector in round ``number``, (n, size), not reduced; the rows sum to 0.

    Client i adds the mask it shares with each later client j, and subtracts those shared with earlier ones. The
    seed of a pair is stretched to its mask and the next round's seed (Mugunthan, MIT 2022, appendix A.11).
    """
    rows = np.zeros((len(clients), size), dtype=np.int64)
    seeds = iter(_seeds(streams, tuple(clients.tolist()), number))
    for i in range(len(clients)):
        for j in range(i + 1, len(clients)):
            _, shared = stretch_seed(next(seeds), size)
            rows[i] += shared
            rows[j] -= shared
    return rows


@lru_cache(maxsize=2)
def _seeds(streams: Streams, clients: tuple[int, ...], number: int) -> Seeds:
    """Those of all pairs, row by row of the upper triangle; a cache, for they follow from the arguments alone."""
    if number % STRIDE == 0:
        return _seeds_at_stride(streams, clients, number // STRIDE)
    return _next(_seeds(streams, clients, number - 1))


@lru_cache(maxsize=2)
def _seeds_at_stride(streams: Streams, clients: tuple[int, ...], strides: int) -> Seeds:
    if strides == 0:
        return _first_seeds(streams, clients)
    seeds = _seeds_at_stride(streams, clients, strides - 1)
    for _ in range(STRIDE):
        seeds = _next(seeds)
    return seeds


def _first_seeds(streams: Streams, clients: tuple[int, ...]) -> Seeds:
    private = [secret(streams, "pairwise_ratchet/key", client) for client in clients]
    public = [public_key(key) for key in private]
    return tuple(
        derive(agree(private[i], public[j]), f"secagg ratchet {clients[i]} {clients[j]}".encode())
        for i in range(len(clients))
        for j in range(i + 1, len(clients))
    )


def _next(seeds: Seeds) -> Seeds:
    return tuple(stretch_seed(seed, 0)[0] for seed in seeds)


Vector = NDArray[np.float64]


def guesses(
    plan: ObliviousPlan, number: int, coalition: NDArray[np.int32], scale: float, streams: Streams
) -> dict[str, Vector]:
    """Noise to take off the sum of round ``number``, (d,) each, by strategy.

    ``random``, ``mean``, ``difference``: of each two noises that a member has dealt to anybody, one at random, the
    mean of both, the first less the second (Byrd et al., ICAIF 2022, section 5.4). ``pooled``: members tell one
    another what they have dealt and drawn, so that all terms among them are known; of those dealt to outsiders they
    take the mean; and of those dealt by outsiders they know how the one taken differs from the other, since both have
    the same masks, and take half of that. Only draws of the coalition's members, and messages that they receive, are
    looked at; ``scale`` is steps of the grid in 1.
    """
    inside = np.isin(plan.clients, coalition)
    estimates = {name: np.zeros(plan.elements) for name in ("random", "mean", "difference", "pooled")}
    for i in range(plan.parties):
        dealt = Party(plan, i, streams).draw_noise()
        passed = forward(plan, i, dealt.sent, streams)
        chosen = choices(plan, number, i, streams)
        if not inside[i]:  # members see theta only
            difference = to_signed((passed.pair[1] - passed.pair[0]) % Q)
            estimates["pooled"] += np.where(chosen, difference, -difference)[inside].sum(axis=0) / 2
            continue
        first, second = dealt.noise
        coins = streams("oblivious/coalition", number, int(plan.clients[i])).random(first.shape) < 0.5
        estimates["random"] += np.where(coins, first, second).sum(axis=0)
        estimates["mean"] += (first + second).sum(axis=0) / 2
        estimates["difference"] += (first - second).sum(axis=0)
        # a member compares what another has received with what it has dealt itself: the server's swap is no secret
        used = np.where(chosen ^ passed.swapped, second, first)
        estimates["pooled"] += used[inside].sum(axis=0) + (first + second)[~inside].sum(axis=0) / 2
    return {name: value / scale for name, value in estimates.items()}


TAIL = 40
"""The noise leaves its room in the field with a probability below 2^-TAIL."""
NEARLY = 1.01
"""An epsilon so many times that of real numbers, or less, needs no words."""


class ObliviousRecord(NamedTuple):
    """All that a replay needs: the round, its parties, and the largest total weight of a sum with its noise."""

    number: int
    clients: NDArray[np.int32]
    limit: float


@PROTOCOLS("oblivious")
@dataclass(frozen=True, kw_only=True)
class Oblivious(MaskedProtocol):
    """Each party's noise comes from all others, masked, two to choose from; a missing party fails the round.

    n (n - 1) differences of Gamma(1/n, scale) are in the sum: n - 1 Laplace variables; on the grid of whole numbers
    Polya shares and discrete Laplace variables (:mod:`simfl.papers.oblivious.noise_messages`). The scale is that of
    ``output_perturbation``: 2 R / (n k alpha epsilon) as published, n times that if calibrated. ``epsilon_weight``
    counts that updates are rounded, too. Reference: Byrd et al., ICAIF 2022. With ``execute: cost_only`` the noise is
    drawn at once, as two Gamma(n - 1, scale), without the grid; the columns are the same.
    """

    epsilon: Annotated[float, Field(gt=0, le=1e9, description="of a weight and a round, as stated by the publication")]
    samples: Annotated[int, Field(ge=1, le=10**9, description="samples of the smallest client, k")]
    alpha: Annotated[float, Field(gt=0, le=1e9, description="strong convexity of the local loss, its L2 penalty")] = 1.0
    radius: Annotated[float, Field(gt=0, le=1e9, description="largest Euclidean norm of a sample, R")] = 1.0
    noise_scale: Annotated[
        Literal["published", "calibrated"], Field(description="how the scale of the noise follows from epsilon")
    ] = "published"
    variant: Annotated[
        Literal["protocol_1", "kept_share"],
        Field(description="a party takes the masks that it has dealt off its vector, or adds a share it has kept"),
    ] = "protocol_1"
    noise: Annotated[
        Literal["every_round", "once"],
        Field(description="when noise is dealt; once: before the first round, and then the same again and again"),
    ] = "every_round"
    term_s: Annotated[float, Field(ge=0, le=1e9, description="seconds that a party needs for one term of noise")] = 1e-7

    joint = True
    epsilon_delta = 0.0
    phases = ("noise",)
    columns: ClassVar[tuple[Column, ...]] = (
        *MASKED_COLUMNS,
        failing("noise"),
        Column("noise_std", "Noise", "number", "Standard deviation of the noise in a weight of the mean.", -1, "last"),
        Column("epsilon_weight", "ε of a weight", "number",
               "Pure epsilon of one weight of this round's mean, for one replaced sample, as noise, samples and "
               "training really are; empty where it is infinite.", -1, "whole_sum", shown=False, **SAMPLE_EPSILON),
    )  # fmt: skip
    example: ClassVar[JsonObject] = {"epsilon": 1.0, "samples": 50}

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems = [problem for problem in super().check(setting) if problem[0] != "weight_channel"]
        if self.weight_channel:
            problems.append(
                ("weight_channel", "noise is for clients that weigh the same; use training.weighting: equal")
            )
        if any(stage.whole for stage in setting.privacy.stages):
            problems.append(("", "has a grid of its own, but a stage sends whole numbers; leave that stage out"))
        if self.noise == "once" and setting.selection.k != setting.clients:
            problems.append(("noise", "is dealt once among all clients, but not all are selected; use every_round"))
        return problems

    def cautions(self, setting: ScenarioView) -> list[str]:
        cautions, real = super().cautions(setting), setting.training.weight_decay
        if real < self.alpha:
            penalty = f"alpha {self.alpha:g}, but clients train with weight_decay {real:g}"
            cautions.append(f"noise is made for {penalty}: epsilon_weight is of the latter")
        if why := no_sample_bound(setting):
            cautions.append(f"{why}: epsilon_weight is infinite (left empty)")
        if self.noise == "once":
            cautions.append("the same noise is in every round and cancels between two: epsilon_weight is infinite from "
                         "the second sum on (left empty)")  # fmt: skip
        n = summands(setting) or setting.clients
        exact = self.sensitivity() / self.noise_of(n)
        real = self._epsilon(n, self.scale or FINEST, self.sensitivity())
        if self.scale is not None and real > NEARLY * exact:
            noise, fine = self.noise_of(n) * self.scale, 1 / (2 * (NEARLY - 1) * self.noise_of(n))
            why = f"the scale of the noise is {noise:.3g} steps of the grid, so that epsilon_weight would be {real:.3g}"
            why = f"{why}, not {exact:.3g}, of samples as the keys have them"
            cautions.append(f"{why}; a secagg.scale of {ceil(fine)} or more adds less than 1 %")
        return cautions

    # -- the noise -----------------------------------------------------------------------------------

    def sensitivity(self) -> float:
        """By how much one sample moves a party's model in the Euclidean norm, as the keys have it."""
        return 2 * self.radius / (self.samples * self.alpha)

    def noise_of(self, parties: int) -> float:
        """The scale of each term's two Gamma variables, among so many parties."""
        scale = self.sensitivity() / self.epsilon
        return scale / parties if self.noise_scale == "published" else scale

    def _epsilon(self, parties: int, fine: float, moved: float) -> float:
        """Of a weight of a sum of so many parties that one sample moves so far, on a grid of ``fine`` steps in 1."""
        return pure_epsilon(moved * fine, self.noise_of(parties) * fine) if moved < inf else inf

    def _with_certificate(
        self, row: Mapping[str, Any], record: ObliviousRecord, fine: float, moved: float
    ) -> JsonObject:
        """The row with the epsilon of a weight; noise that is there again cancels between two sums."""
        repeated = self.noise == "once" and record.number > 0
        return {**row, "epsilon_weight": inf if repeated else self._epsilon(len(record.clients), fine, moved)}

    def limit(self, cohort: Cohort) -> float:
        """With what the noise of any coordinate hardly exceeds: its sum is sub-gamma, as that of Laplace variables."""
        parties, rare = cohort.units.size, log(2 * max(1, cohort.dimension)) + TAIL * log(2)
        noise = self.noise_of(parties) * (2 * sqrt((parties - 1) * rare) + rare)
        return super().limit(cohort) + ceil(noise / self.clip)

    # -- what theory knows ---------------------------------------------------------------------------

    def known(self, cohort: Cohort) -> dict[str, int]:
        return {"colluding": max(0, cohort.units.size - 2), "dropouts": 0}

    def counting(self) -> JsonObject:
        protocols = {kind: replace(each, term_s=0.0) for kind, each in super().counting().items()}
        free = CryptoRates(agreement_s=0, element_s=0, product_s=0, share_s=0)
        return protocols | {"terms": replace(self, rates=free, term_s=1.0)}

    # -- the sessions --------------------------------------------------------------------------------

    def setup(self, cohort: Cohort, streams: Streams) -> Session[Any]:
        peers, everybody = cohort.clients - 1, cohort.units.ravel()
        yield PhaseRequest("setup", everybody, KEY * peers, KEY * peers, peers * self.rates.agreement_s)
        if self.noise == "once":
            yield self._noise_request(cohort)

    def prepare(self, cohort: Cohort, streams: Streams) -> Session[PreparedUnits | SessionFailure]:
        n, d = cohort.units.size, cohort.dimension
        if (hiding := cohort.hiding(np.ones(n, dtype=bool))) < (self.min_sum or 2):
            return SessionFailure(f"noise: {hiding} clients, a sum needs {self.min_sum}")
        if no_room := self.no_room(cohort):
            return SessionFailure(no_room)
        every_unit, encrypts_s = np.ones(len(cohort.units), dtype=bool), 2 * (n - 1) * d * self.rates.element_s
        if self.noise == "once":
            return PreparedUnits(every_unit, compute_s=encrypts_s)
        responded = yield self._noise_request(cohort)
        if not responded.all():
            return SessionFailure(f"noise: {int((~responded).sum())} of {n} clients are missing")
        return PreparedUnits(every_unit, down_bytes=2 * ELEMENT * (n - 1) * d, compute_s=encrypts_s)

    def _noise_request(self, cohort: Cohort) -> PhaseRequest:
        """Two masked noises for each of the others; where they are dealt once, those of the others come back."""
        n, d = cohort.units.size, cohort.dimension
        size, seconds = 2 * ELEMENT * (n - 1) * d, (n - 1) * d * (2 * self.term_s + self.rates.element_s)
        return PhaseRequest("noise", cohort.units.ravel(), size if self.noise == "once" else 0, size, seconds)

    def recover(
        self, cohort: Cohort, uploaded: NDArray[np.bool_], prepared: Sequence[Any], streams: Streams
    ) -> Session[SessionResult | SessionFailure]:
        missing, n = int((~uploaded).sum()), uploaded.size
        if missing:
            why = f"upload: {missing} of {n} clients are missing, and their masks stay in the sum"
            return SessionFailure(why, tolerated=0)
        record = ObliviousRecord(cohort.number, np.sort(cohort.units.ravel()), self.limit(cohort))
        grid = self.grid(record.limit)
        assert grid is not None, "the session before has looked"
        std = sqrt(GridNoise(n - 1, self.noise_of(n) * grid.scale).variance) / grid.scale / n
        seconds = n * cohort.dimension * self.rates.element_s
        return SessionResult(np.ones(len(uploaded), dtype=bool), record, seconds, {"noise_std": std})
        yield

    def view(self, transcript: Transcript, coalition: NDArray[np.int32], streams: Streams) -> Rows:
        return transcript.unless_missing(coalition)

    # -- the mathematics -----------------------------------------------------------------------------

    def add(self, result: SessionResult, updates: ClientUpdates, streams: Streams) -> Aggregate:
        divisor, record = updates.divisor(updates.weights), result.secret
        if not self.computes(updates):
            mean = updates.combine(updates.vectors, updates.weights, divisor, updates.mask)
            n, rng = len(record.clients), streams("oblivious/sum", record.number)
            pair = rng.standard_gamma(n - 1, (2, len(mean)))
            noise = (pair[0] - pair[1]) * (self.noise_of(n) / divisor)
            grid, vector = self.grid_of(updates, record.limit), (mean + noise).astype(np.float32)
            row = clipped_row(clipped := beyond(updates, grid))
            row = self._with_certificate(row, record, grid.scale, updates.moved)
            return Aggregate(vector, updates.clients, updates.row, row, step=grid.step, clipped=clipped)
        quantised = self.quantise_updates(updates, updates.weights, record.limit, streams)
        vectors = np.stack(quantised.vectors) + masks(streams, record.clients, record.number, len(quantised.vectors[0]))
        total = run_round(self.plan(record, quantised.grid, len(vectors[0])), record.number, vectors, streams).total
        done = self.mean(total, quantised, updates, divisor)
        return done._replace(row=self._with_certificate(done.row, record, quantised.grid.scale, updates.moved))

    def plan(self, record: ObliviousRecord, grid: Grid, elements: int) -> ObliviousPlan:
        """The noise of a round."""
        n = len(record.clients)
        noise = GridNoise(1 / n, self.noise_of(n) * grid.scale)
        number = 0 if self.noise == "once" else record.number
        return ObliviousPlan(number, record.clients, elements, noise, self.variant == "kept_share")

    def known_to(
        self, result: SessionResult, updates: ClientUpdates, coalition: NDArray[np.int32], streams: Streams
    ) -> Mapping[str, NDArray[Any]]:
        if not self.computes(updates):
            return {}
        grid = self.grid(result.secret.limit)
        assert grid is not None, "the session before has looked"
        plan = self.plan(result.secret, grid, updates.vectors.shape[1])
        return guesses(plan, result.secret.number, coalition, grid.scale, streams)
