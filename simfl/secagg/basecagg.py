"""Secure aggregation of a buffer of updates of any age (So et al., "BASecAgg", arXiv 2110.02177)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.columns import MASKED_COLUMNS, failing
from simfl.core.errors import SimflError
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView, has_buffer
from simfl.core.types import Aggregate, Job, Units
from simfl.secagg.base import PROTOCOLS
from simfl.secagg.coded_session import Helper, MaskCode, Owner, sum_masks
from simfl.secagg.crypto.field import Elements, Q, mul
from simfl.secagg.crypto.keys import ELEMENT, secret
from simfl.secagg.lightsecagg import Coded
from simfl.secagg.masked_protocol import beyond, clipped_row, whole_units
from simfl.secagg.sessions import (
    ClientUpdates,
    Cohort,
    PhaseRequest,
    PreparedUnits,
    Session,
    SessionFailure,
    SessionResult,
    unit_of,
)

JOB = 8
"""Bytes of a job's number."""


class BasecaggRecord(NamedTuple):
    """Who did what; all that a replay needs.

    Attributes:
        units: whose updates are in the buffer, (units, size).
        limit: the largest total weight of a sum.
        helpers: clients whose answers decode, U.
        factors: the server's weights, whole, (units, size), equal within a unit.
    """

    number: int
    units: Units
    code: MaskCode
    limit: float
    helpers: NDArray[np.int64]
    factors: NDArray[np.int64]


@PROTOCOLS("basecagg")
@dataclass(frozen=True, kw_only=True)
class BASecAgg(Coded):
    """Masks belong to jobs; all clients help to take the weighted sum of a buffer's masks off, whatever their age.

    A unit's pieces are delivered before its models go out. The server weighs updates by whole numbers: the staleness
    weight times ``staleness_scale``, rounded at random, once for a unit. Those rounded to 0 hide nobody: the server
    draws before it asks for the sum, and where fewer than ``min_sum`` clients count it does not ask.
    """

    staleness_scale: Annotated[int, Field(ge=1, le=2**16, description="whole numbers in a staleness weight of 1")] = 64

    phases = ("share", "deliver", "unmask")
    columns = (*MASKED_COLUMNS, *map(failing, phases))

    @property
    def factor(self) -> int:
        """A staleness weight of 1 in whole numbers."""
        return self.staleness_scale

    def largest_row(self, row: float) -> float:
        return ceil(row * self.staleness_scale) / self.staleness_scale

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems, rule = super().check(setting), setting.training
        if not has_buffer(rule):
            problems.append(("name", "is for buffers of updates of any age; use secagg or lightsecagg, or fedbuff"))
            return problems
        if rule.unit_weights == "own" and not rule.partial and setting.selection.unit_size > 1:
            problems.append(("name", "has one weight for a unit; use training.unit_weights: common"))
        half = np.array([0.5, 0.5])
        if rule.divisor(half, np.array([1, 1])) != rule.divisor(half, np.array([1, 2])):
            why = (
                "hides how many samples clients hold; use training.weighting: equal, or training.normaliser: weight_sum"
            )
            problems.append(("name", why))
        return problems

    def limit(self, cohort: Cohort) -> float:
        return cohort.units.size * ceil(cohort.heaviest * (self.staleness_scale + 1))

    def known(self, cohort: Cohort) -> dict[str, int]:
        code = self.code(cohort.clients, cohort.dimension)
        if code is None:
            return {}
        return {"survivors": code.survivors, "colluding": code.private, "dropouts": cohort.clients - code.survivors}

    def prepare(self, cohort: Cohort, streams: Streams) -> Session[PreparedUnits | SessionFailure]:
        clients, shape, n, rates = cohort.units.ravel(), cohort.units.shape, cohort.clients, self.rates
        code = self.code(n, cohort.dimension)
        if code is None:
            return SessionFailure(f"of {n} clients, as many must not learn anything as are enough to decode")
        compute_s = (n - 1) * rates.agreement_s + n * code.survivors * code.piece * rates.product_s
        compute_s += code.length * rates.element_s
        responded = yield PhaseRequest(
            "share", clients, *code.share_bytes(n - 1), compute_s, deadline_s=self.deadline_s
        )
        shared = whole_units(responded, shape[1])
        if not shared.any():
            return SessionFailure("share: no unit has left all pieces")
        pieces = np.full(n, int(shared.sum()), dtype=np.int64)
        pieces[clients[shared]] -= 1
        to = np.flatnonzero(pieces).astype(np.int32)
        down = (code.down_bytes(1) + JOB) * pieces[to]
        delivered = np.ones(n, dtype=bool)
        delivered[to] = yield PhaseRequest(
            "deliver", to, down, 0, pieces[to] * rates.agreement_s, deadline_s=self.deadline_s
        )
        return PreparedUnits(shared.reshape(shape)[:, 0], delivered)

    def recover(
        self, cohort: Cohort, uploaded: NDArray[np.bool_], prepared: Sequence[Any], streams: Streams
    ) -> Session[SessionResult | SessionFailure]:
        units, n, code = cohort.units, cohort.clients, self.code(cohort.clients, cohort.dimension)
        assert code is not None, "it was prepared"
        if no_room := self.no_room(cohort):
            return SessionFailure(no_room, tolerated=code.private)
        factors = self._factors(cohort, streams)
        if few := self._few(cohort, uploaded.ravel(), factors.ravel()):
            return replace(few, tolerated=code.private)
        helpers = np.flatnonzero(np.logical_and.reduce(prepared)).astype(np.int32)
        if len(helpers) < code.survivors:
            why = f"{len(helpers)} of {n} clients hold all pieces, {code.survivors} answers decode"
            return SessionFailure(f"deliver: {why}", tolerated=code.private)
        down, compute_s = units.size * (JOB + ELEMENT), units.size * code.piece * self.rates.product_s
        responded = yield PhaseRequest(
            "unmask", helpers, down, ELEMENT * code.piece, compute_s, code.survivors, self.deadline_s
        )
        if responded.sum() < code.survivors:
            return self.too_few_answers(int(responded.sum()), code)
        used = helpers[responded][: code.survivors].astype(np.int64)
        compute_s = code.survivors * (code.length + code.survivors**2) * self.rates.product_s
        record = BasecaggRecord(cohort.number, units, code, self.limit(cohort), used, factors)
        return SessionResult(np.ones(len(units), dtype=bool), record, compute_s)

    def add(self, result: SessionResult, updates: ClientUpdates, streams: Streams) -> Aggregate:
        record: BasecaggRecord = result.secret
        factors = record.factors.ravel()[np.argsort(record.units.ravel())]
        if (np.abs(factors - updates.row * self.staleness_scale) > 1).any():
            raise SimflError("the server weighs updates otherwise than it has told the protocol (Cohort.row)")
        base_weights = np.divide(updates.weights, updates.row, out=np.zeros(len(factors)), where=updates.row > 0)
        weights, row = base_weights * factors / self.staleness_scale, factors / self.staleness_scale
        divisor = updates.divisor(weights)
        if not weights.any():
            return Aggregate(np.zeros(updates.vectors.shape[1], dtype=np.float32), updates.clients, row)
        if not self.computes(updates, record.code.length):
            vector = updates.combine(updates.vectors, weights, divisor, updates.mask)
            grid = self.grid_of(updates, record.limit)
            clipped, shares = beyond(updates, grid), weights / divisor
            return Aggregate(
                vector, updates.clients, row, clipped_row(clipped), shares, step=grid.step, clipped=clipped
            )
        quantised = self.quantise_updates(updates, np.rint(base_weights), record.limit, streams)
        sums = replay_sessions(record, updates.jobs, quantised.vectors, factors.tolist(), self.min_sum or 2, streams)
        return self.mean(sums, quantised, updates._replace(row=row), divisor * self.staleness_scale, factors.tolist())

    def _factors(self, cohort: Cohort, streams: Streams) -> NDArray[np.int64]:
        """The whole staleness weights, (units, size): members of a unit are rounded by one draw, anew where an earlier
        one has left too few.
        """
        key = (cohort.number, cohort.attempt) if cohort.attempt else (cohort.number,)
        u = streams("basecagg/staleness", *key).random(len(cohort.units))
        row = np.ones(cohort.units.shape) if cohort.row is None else cohort.row
        return np.floor(row * self.staleness_scale + u[:, None]).astype(np.int64)

    def _few(self, cohort: Cohort, uploaded: NDArray[np.bool_], factors: NDArray[np.int64]) -> SessionFailure | None:
        """The failure where too few clients would be in the sum, for want of updates or of weights."""
        arrived, least = cohort.hiding(uploaded), self.min_sum or 2
        if arrived < least:
            return SessionFailure(f"upload: {arrived} updates, a sum needs {least}")
        if (counted := cohort.hiding(uploaded & (factors > 0))) < least:
            why = f"the weights of {arrived - counted} of {arrived} updates are rounded to 0"
            return SessionFailure(f"upload: {why}, {counted} are left, a sum needs {least}", redraw=True)
        return None


def replay_sessions(
    record: BasecaggRecord,
    jobs: Sequence[Job],
    vectors: Sequence[NDArray[np.int64]],
    factors: Sequence[int],
    least: int,
    streams: Streams,
) -> Elements:
    """The weighted sum, of at least ``least`` clients' vectors in whole numbers, that the sessions come to; ``factors``
    are the server's weights, whole, equal within a unit.
    """
    total, owners, size = np.zeros(record.code.length, dtype=np.int64), [], record.units.shape[1]
    units = unit_of(record.units, [job.client for job in jobs]).tolist()
    for job, unit, vector, factor in zip(jobs, units, vectors, factors, strict=True):
        owner = Owner(record.code, job.id, streams, "basecagg", job.id)
        owners.append((owner, unit, size, factor))
        total += mul(factor, owner.mask(vector))
    keys = {j: secret(streams, "basecagg/helper", j) for j in record.helpers.tolist()}
    helpers = [Helper(j, key, least, once=False) for j, key in keys.items()]
    return (total - sum_masks(owners, helpers, record.code)) % Q
