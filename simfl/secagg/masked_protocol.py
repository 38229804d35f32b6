"""What all protocols of masks have in common: their keys in a scenario, weights, whole numbers, the mean in the end."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from math import ceil, inf
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from simfl.core.columns import MASKED_COLUMNS, Column
from simfl.core.coverage import looks_ahead
from simfl.core.errors import SimflError
from simfl.core.json_data import JsonObject
from simfl.core.payload import SUMMABLE
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView, failure_rates, summands
from simfl.core.types import Aggregate, Bools, Floats, Integers
from simfl.secagg.base import Protocol
from simfl.secagg.crypto.field import Elements, Q, to_signed
from simfl.secagg.crypto.keys import ELEMENT
from simfl.secagg.crypto.quantise import HALF, Grid, Quantised, grid, round_stochastically
from simfl.secagg.sessions import ClientUpdates, Cohort

FINEST = 2.0**36

Replay = Callable[[dict[int, Integers]], Elements]


@dataclass(frozen=True)
class CryptoRates:
    """How long cryptography takes on every client and on the server, in simulated seconds."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    agreement_s: Annotated[float, Field(ge=0, description="a key agreement, with the keys derived from it")] = 1e-4
    element_s: Annotated[float, Field(ge=0, description="an element of a mask, drawn and added")] = 5e-9
    product_s: Annotated[float, Field(ge=0, description="a product of elements in a matrix, added up")] = 1e-9
    share_s: Annotated[float, Field(ge=0, description="a share, made or used")] = 1e-5


class QuantisedUpdates(NamedTuple):
    """Updates as whole numbers.

    Attributes:
        vectors: what the clients mask, n of int64 (elements,), not reduced modulo q: the weighted update, after its
            weight if that is sent.
        weights: whole, int64 (n,).
    """

    vectors: list[Integers]
    weights: Integers
    grid: Grid
    clipped: int


@dataclass(frozen=True, kw_only=True)
class MaskedProtocol(Protocol):
    """Keys of every protocol of masks."""

    execute: Annotated[
        Literal[True, "cost_only"],
        Field(description="mask the updates; or cost_only: the same bytes, times and sums, without the mathematics"),
    ] = True
    clip: Annotated[
        float, Field(gt=0, le=1e9, description="largest magnitude of a coordinate; what lies beyond is clipped")
    ] = 4.0
    scale: Annotated[
        float | None,
        Field(gt=0, le=FINEST, description="whole numbers in 1; null = the most with which no sum can wrap around"),
    ] = None
    on_wrap: Annotated[
        Literal["stop", "allow"],
        Field(
            description="where a sum on a fixed scale wraps around: end the run, or count the coordinates and continue"
        ),
    ] = "stop"
    min_sum: Annotated[
        int | None, Field(ge=2, description="clients in a sum at least; null = 2, or the selection's unit")
    ] = None
    weight_channel: Annotated[
        bool | None, Field(description="clients send their weight under a mask, too; null = where weights differ")
    ] = None
    deadline_s: Annotated[
        float | None, Field(gt=0, le=1e12, description="seconds a phase waits; failed sums are then open; null = any")
    ] = None
    rates: Annotated[CryptoRates, Field(description="how long cryptography takes")] = CryptoRates()

    field = Q
    shows_updates = False
    covers = SUMMABLE
    columns: ClassVar[tuple[Column, ...]] = MASKED_COLUMNS

    @property
    def moves_sums(self) -> Literal["", "coarsely", "around"]:
        return "around" if self.on_wrap == "allow" else "" if self.scale is None else "coarsely"

    @property
    def after_silence(self) -> int:
        """Colluders tolerated where answers are missing: one may have kept one, and late ones may come all the same."""
        return 0 if self.deadline_s is None else -1

    def resolve(self, setting: ScenarioView) -> Self:
        """With the clients that a sum must hold, and weights sent where they can differ."""
        least = max(2, setting.selection.unit_size) if self.min_sum is None else self.min_sum
        channel = differ(setting) if self.weight_channel is None else self.weight_channel
        return replace(self, min_sum=least, weight_channel=channel)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        """What cannot be summed."""
        problems = [("name", message) for message in unmaskable(setting)]
        if differ(setting) and not self.weight_channel:
            problems.append(("weight_channel", "is false, but weights differ; use true, or training.weighting: equal"))
        most = summands(setting)
        if most is not None and self.min_sum is not None and most < self.min_sum:
            nearest = f"the nearest value is {most}" if most > 1 else "one update is not hidden; use secagg: plain"
            summed = f"{most} {'is' if most == 1 else 'are'} summed"
            problems.append(("min_sum", f"is {self.min_sum}, but {summed}; {nearest}"))
        elif most is not None:
            problems += self.overflow(setting, most, 1)  # however few samples clients hold
        if self.scale is not None and self.clip * self.scale > FINEST:
            problems.append(("scale", f"times clip is above 2^36; the largest scale is {FINEST / self.clip:g}"))
        return problems

    def overflow(self, setting: ScenarioView, most: int, samples: int) -> list[tuple[str, str]]:
        units = np.broadcast_to(np.int32(0), (most, 1))  # only counted, however many they are said to be
        cohort = Cohort(0, units, 1, setting.clients, float(own_weights(setting, samples)[0]))
        if self.no_room(cohort) is None:
            return []
        weight = self.limit(cohort)
        if self.scale is not None:
            largest = (2.0**62 / weight - 1) / self.clip
            return [("scale", f"is too large for {most} updates; the largest is {largest:g}")]
        largest = HALF // weight - 1
        valid = f"the largest is {largest:.0f}" if largest > 0 else "no clip is small enough for so many updates"
        return [("clip", f"is {self.clip:g}, which leaves {most} updates no room in the field; {valid}")]

    def cautions(self, setting: ScenarioView) -> list[str]:
        most, cautions = summands(setting), []
        if most == 2:
            cautions.append("in a sum of two, each client can subtract its own update")
        if self.scale is not None:
            cautions.append("with a scale of your own, sums can wrap around; rounds.csv counts it (wrapped)")
            if any(stage.observer == "outside" for stage in setting.privacy.stages):
                why = "rounding to a scale of your own adds up to the root of the coordinates over scale to"
                cautions.append(f"{why} the sensitivity of the noise in the sum, and epsilon counts it")
        if most is not None and not setting.training.asynchronous:
            cautions += self._fragile(setting, most)
        return cautions

    def _fragile(self, setting: ScenarioView, most: int) -> list[str]:
        """Sums that the scenario's failures, or those whom a quorum does not wait for, will often break."""
        rates, unit = failure_rates(setting), setting.selection.unit_size
        cohort = Cohort(0, np.zeros((max(1, most // unit), unit), dtype=np.int32), 1, setting.clients)
        dropouts = self.known(cohort).get("dropouts", 0)
        quorum = None if setting.secagg.sums_units else setting.training.quorum_clients(most)
        if quorum is not None and (late := most - quorum) > dropouts:
            return [
                f"training.quorum leaves up to {late} of {most} clients out, and more than {dropouts} may break a sum"
            ]
        rate = 0.0 if rates is None else float(rates.mean())
        expected_losses = rate * most
        if not dropouts and (failing := 1 - (1 - rate) ** most) > 0:
            return [f"one missing client fails a sum: of {most}, about {100 * failing:.0f} % of the sums fail"]
        if not 0 < dropouts < expected_losses:
            return []
        return [f"about {expected_losses:.3g} of {most} clients fail in a sum, and more than {dropouts} may break it"]

    def upload_bytes(self, update_bytes: object, dimension: int) -> Any:
        """An element a coordinate, whatever the update would need in clear, and one for the weight."""
        return ELEMENT * self.length(dimension)

    def counting(self) -> JsonObject:
        """With a second for one kind of operation and none for the others, by the kind."""
        free = dict.fromkeys(kinds := [rate.name for rate in fields(CryptoRates)], 0.0)
        return {f"{kind.removesuffix('_s')}s": replace(self, rates=CryptoRates(**free | {kind: 1.0})) for kind in kinds}

    def length(self, dimension: int) -> int:
        """Elements that a client masks."""
        return dimension + bool(self.weight_channel)

    def few(self, cohort: Cohort, members: Bools) -> str | None:
        """Why a sum of these members, bool (n,), would hide nobody; None if it hides them."""
        hiding, least = cohort.hiding(members), self.min_sum or 2
        return None if hiding >= least else f"{hiding} clients of whole units are left, a sum needs {least}"

    # -- the mathematics -----------------------------------------------------------------------------

    def grid(self, weight: float) -> Grid | None:
        """For sums of at most this weight; None where there is none."""
        return grid(self.clip, weight) if self.scale is None else Grid(self.scale, self.clip)

    def grid_of(self, updates: ClientUpdates, limit: float) -> Grid:
        """On which these updates are summed, in a sum of at most this weight: whole numbers as they are."""
        on = Grid(1.0, inf) if updates.vectors.dtype == np.int64 else self.grid(limit)
        assert on is not None, "the session before has looked"
        return on

    def no_room(self, cohort: Cohort) -> str | None:
        """Why sums of such a cohort could wrap around on any grid; None if they need not."""
        weight = self.limit(cohort)
        if self.scale is None and self.grid(weight) is None:
            return f"updates of weight {weight:g} clipped at {self.clip:g} have no room in the field; clip at less"
        if self.scale is not None and weight * (self.clip * self.scale + 1) > 2.0**62:
            return f"updates of total weight {weight:g} are too many for a scale of {self.scale:g}; use a smaller one"
        return None

    def limit(self, cohort: Cohort) -> float:
        """The largest total weight of a sum over the cohort."""
        return float(cohort.units.size * ceil(cohort.heaviest))

    def computes(self, updates: ClientUpdates, elements: int | None = None) -> bool:
        """Whether there is anything to mask: without learning, updates have the coordinates that stages add, or none.

        Args:
            elements: the length of the session's masks, where it is fixed; None = it is that of the updates.
        """
        d = updates.vectors.shape[1]
        return self.execute is True and d > 0 and elements in (None, self.length(d))

    def quantise_updates(
        self, updates: ClientUpdates, weights: Floats, limit: float, streams: Streams
    ) -> QuantisedUpdates:
        """The updates as the clients mask them; the rounding is drawn by job.

        Args:
            weights: whole numbers, (n,).
            limit: the largest total weight of a sum.

        Raises:
            SimflError: updates speak about some coordinates only, or weights are not whole.
        """
        if updates.mask is not None and not updates.mask.all():
            raise SimflError("masked sums are of whole updates, but some clients train parts of the model; use plain")
        whole = np.rint(weights).astype(np.int64)
        if (whole != weights).any() or weights.sum() > limit:
            raise SimflError(
                f"masked sums need whole weights, together at most {limit:g}; use training.weighting: equal"
            )
        on = self.grid_of(updates, limit)
        ready, vectors, clipped = on.clip == inf, [], 0
        for job, weight, vector in zip(updates.jobs, whole.tolist(), updates.vectors, strict=True):
            values = (
                Quantised(vector, 0) if ready else round_stochastically(vector, on, streams("secagg/rounding", job.id))
            )
            clipped += values.clipped
            update = values.values if weight == 1 else weight * values.values
            vectors.append(np.concatenate([[weight], update]) if self.weight_channel else update)
        return QuantisedUpdates(vectors, whole, on, clipped)

    def clear_aggregate(self, updates: ClientUpdates, limit: float) -> Aggregate:
        """What the rule makes of the updates as they are, where nothing is to be masked; it has the step of the grid on
        which the protocol would sum them, and what it would clip, so that privacy is accounted alike.
        """
        divisor, on = updates.divisor(updates.weights), self.grid_of(updates, limit)
        vector = updates.combine(updates.vectors, updates.weights, divisor, updates.mask)
        clipped = beyond(updates, on)
        return Aggregate(vector, updates.clients, updates.row, clipped_row(clipped), step=on.step, clipped=clipped)

    def sum_of(
        self, updates: ClientUpdates, limit: float, streams: Streams, replay: Replay, elements: int | None = None
    ) -> Aggregate:
        """The weighted mean that sessions come to: ``replay`` gives the sum, modulo q, of vectors in whole numbers, by
        client. ``limit`` is the largest total weight, ``elements`` the length of their masks, where that is fixed.
        """
        if not self.computes(updates, elements):
            return self.clear_aggregate(updates, limit)
        quantised = self.quantise_updates(updates, updates.weights, limit, streams)
        sums = replay(dict(zip(updates.clients.tolist(), quantised.vectors, strict=True)))
        return self.mean(sums, quantised, updates, updates.divisor(updates.weights))

    def mean(
        self,
        sums: Elements,
        quantised: QuantisedUpdates,
        updates: ClientUpdates,
        divisor: float,
        factors: Sequence[int] | None = None,
    ) -> Aggregate:
        """The weighted mean that a sum stands for.

        Args:
            sums: of the vectors times their factors, (elements,).
            divisor: what the sum is divided by.
            factors: by which the server has them multiplied, whole, n; None = 1.

        Raises:
            SimflError: coordinates of the sum wrapped around, which nobody has allowed.
        """
        factors = [1] * len(quantised.vectors) if factors is None else factors
        signed = to_signed(sums)[int(bool(self.weight_channel)) :]
        vector = (signed / (quantised.grid.scale * divisor)).astype(np.float32)
        wraps, ready = 0, quantised.grid.clip == inf
        if self.scale is not None or ready:  # the simulation knows what was rounded, and so the exact sums
            exact = np.sum([factor * whole for factor, whole in zip(factors, quantised.vectors, strict=True)], axis=0)
            wraps = int((np.abs(exact) > HALF).sum())
        if wraps and self.on_wrap == "stop" and not ready:  # whoever sent whole numbers knew how much room there is
            why = f"{wraps} of {len(sums)} coordinates of a sum wrapped around on a scale of {self.scale:g}"
            raise SimflError(f"{why}; use a smaller secagg.scale or null, or secagg.on_wrap: allow")
        row = {"clipped": quantised.clipped, "wrapped": wraps}
        shares = np.array(factors, dtype=np.float64) * quantised.weights / divisor
        step, clipped = quantised.grid.step, quantised.clipped
        return Aggregate(vector, updates.clients, updates.row, row, shares, step=step, clipped=clipped)


@dataclass(frozen=True, kw_only=True)
class CommitteeProtocol(MaskedProtocol):
    """Protocols in which a committee, drawn of all clients by public randomness, takes the masks off."""

    committee: Annotated[
        int | None, Field(ge=1, description="clients drawn to open sums, who need not be in them; null = all, up to 60")
    ] = None

    joint = True
    opens_last = True

    def resolve(self, setting: ScenarioView) -> Self:
        return replace(super().resolve(setting), committee=self.committee or self.members(setting.clients))

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems, n = super().check(setting), setting.clients
        if self.committee is not None and self.committee > n:
            problems.append(("committee", f"is {self.committee} of {n} clients; the nearest value is {n}"))
        return problems

    def members(self, clients: int) -> int:
        """Of a committee drawn of so many clients."""
        return min(self.committee or 60, clients)

    def committee_of(self, purpose: str, number: int, clients: int, streams: Streams) -> NDArray[np.int32]:
        """The committee with this number, by place."""
        chosen = streams(f"{purpose}/committee", number).choice(clients, self.members(clients), replace=False)
        return chosen.astype(np.int32)


def beyond(updates: ClientUpdates, grid: Grid) -> int:
    """Coordinates of updates that a protocol would clip on its grid."""
    if grid.clip == inf:
        return 0
    return updates.vectors.size - sum(int(np.count_nonzero(np.abs(update) <= grid.clip)) for update in updates.vectors)


def clipped_row(clipped: int) -> dict[str, float]:
    """The column ``clipped`` of sums that are only costed: filled where something would be clipped."""
    return {"clipped": clipped} if clipped else {}


def whole_units(members: Bools, size: int) -> Bools:
    """The members whose units of ``size`` are there wholly, (n,)."""
    return np.repeat(members.reshape(-1, size).all(axis=1), size)


def own_weights(setting: ScenarioView, *samples: int) -> Floats:
    """What clients with so many samples multiply their fresh updates by; the server's part is its row."""
    fresh, rule = np.zeros(len(samples), dtype=np.int64), setting.training
    weights, row = rule.weights(np.array(samples), fresh), np.asarray(rule.row(fresh), dtype=np.float64)
    return np.divide(weights, row, out=np.zeros(len(samples)), where=row > 0)


def unmaskable(setting: ScenarioView) -> Iterator[str]:
    """Why a rule's updates cannot be summed under masks, whatever the protocol."""
    if not np.allclose(weights := own_weights(setting, 1, 2, 3), np.rint(weights), rtol=1e-9, atol=0):
        why = f"adds whole numbers, but a client with one sample weighs {weights[0]:g}"
        yield f"{why}; use training.weighting: equal or samples"
    if looks_ahead(setting):
        yield (
            "masks an update before the model exists that it is to be compared with; add the clients' changes "
            "(training.mix: deltas), or use secagg: plain"
        )


def differ(setting: ScenarioView) -> bool:
    """Whether the rule weighs a client with two samples unlike one with one."""
    one, two = setting.training.weights(np.array([1, 2]), np.zeros(2, dtype=np.int64)).tolist()
    return bool(one != two)
