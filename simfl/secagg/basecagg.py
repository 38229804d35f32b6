"""Secure aggregation of a buffer of updates of any age (So et al., "BASecAgg", arXiv 2110.02177)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.columns import MASKED_COLUMNS, failing
from simfl.rng import Streams
from simfl.secagg.base import PROTOCOLS, Ask, Cohort, Contributions, Failed, Prepared, Protocol, Summed, Talk
from simfl.secagg.coded import Code, Helper, Owner, helped
from simfl.secagg.field import Elements, Q, mul
from simfl.secagg.keys import ELEMENT, secret
from simfl.secagg.lightsecagg import Coded
from simfl.secagg.masked import whole_units
from simfl.setting import Setting
from simfl.types import Job, Total, Units

__all__ = ["BASecAgg", "Record", "replayed"]

JOB = 8
"""Bytes of a job's number."""


class Record(NamedTuple):
    """Who did what; all that a replay needs.

    Attributes:
        number: of the aggregation.
        units: whose updates are in the buffer, (units, size).
        code: how masks are coded.
        limit: the largest total weight of a sum.
        helpers: clients whose answers decode, U.
    """

    number: int
    units: Units
    code: Code
    limit: float
    helpers: NDArray[np.int64]


@PROTOCOLS("basecagg")
@dataclass(frozen=True, kw_only=True)
class BASecAgg(Coded, Protocol):
    """Masks belong to jobs; all clients help to take the weighted sum of a buffer's masks off, whatever their age.

    A unit's pieces are delivered before its models go out. The server weighs updates by whole numbers: the staleness
    weight times ``staleness_scale``, rounded at random, once for a unit.
    """

    staleness_scale: Annotated[int, Field(ge=1, le=2**16, description="whole numbers in a staleness weight of 1")] = 64

    phases = ("share", "deliver", "unmask")
    columns = (*MASKED_COLUMNS, *map(failing, phases))

    @property
    def factor(self) -> int:
        """A staleness weight of 1 in whole numbers."""
        return self.staleness_scale

    def check(self, setting: Setting) -> list[tuple[str, str]]:
        problems, rule = super().check(setting), setting.training
        if not rule.asynchronous:
            problems.append(("name", "is for buffers of updates of any age; use secagg or lightsecagg, or fedbuff"))
            return problems
        if rule.unit_weights == "own" and not rule.partial and setting.selection.unit_size > 1:
            problems.append(("name", "has one weight for a unit; use training.unit_weights: common"))
        half = np.array([0.5, 0.5])
        if rule.divisor(half, np.array([1, 1])) != rule.divisor(half, np.array([1, 2])):
            why = "hides how many samples clients hold; use weighting: equal, or normaliser: weight_sum"
            problems.append(("name", why))
        return problems

    def limit(self, cohort: Cohort) -> float:
        return cohort.units.size * ceil(cohort.heaviest * (self.staleness_scale + 1))

    def known(self, cohort: Cohort) -> dict[str, int]:
        code = self.code(cohort.clients, cohort.dimension)
        if code is None:
            return {}
        return {"survivors": code.survivors, "colluding": code.private, "dropouts": cohort.clients - code.survivors}

    def prepare(self, cohort: Cohort, streams: Streams) -> Talk:
        clients, shape, n, rates = cohort.units.ravel(), cohort.units.shape, cohort.clients, self.rates
        code = self.code(n, cohort.dimension)
        if code is None:
            return Failed(f"of {n} clients, as many must not learn anything as are enough to decode")
        compute_s = (n - 1) * rates.agreement_s + n * code.survivors * code.piece * rates.product_s
        compute_s += code.length * rates.element_s
        heard = yield Ask("share", clients, *code.share_bytes(n - 1), compute_s, deadline_s=self.deadline_s)
        made = whole_units(heard, shape[1])
        if not made.any():
            return Failed("share: no unit has left all pieces")
        pieces = np.full(n, int(made.sum()), dtype=np.int64)
        pieces[clients[made]] -= 1
        to = np.flatnonzero(pieces).astype(np.int32)
        down = (code.down_bytes(1) + JOB) * pieces[to]
        holds = np.ones(n, dtype=bool)
        holds[to] = yield Ask("deliver", to, down, 0, pieces[to] * rates.agreement_s, deadline_s=self.deadline_s)
        return Prepared(made.reshape(shape)[:, 0], holds)

    def recover(self, cohort: Cohort, uploaded: NDArray[np.bool_], prepared: Sequence[Any], streams: Streams) -> Talk:
        units, n, code = cohort.units, cohort.clients, self.code(cohort.clients, cohort.dimension)
        assert code is not None, "it was prepared"
        if no_room := self.no_room(cohort):
            return Failed(no_room)
        if (found := cohort.hiding(uploaded.ravel())) < (self.min_sum or 2):
            return Failed(f"upload: {found} updates, a sum needs {self.min_sum}")
        helpers = np.flatnonzero(np.logical_and.reduce(prepared)).astype(np.int32)
        if len(helpers) < code.survivors:
            return Failed(f"deliver: {len(helpers)} of {n} clients hold all pieces, {code.survivors} answers decode")
        down, compute_s = units.size * (JOB + ELEMENT), units.size * code.piece * self.rates.product_s
        heard = yield Ask("unmask", helpers, down, ELEMENT * code.piece, compute_s, code.survivors, self.deadline_s)
        if heard.sum() < code.survivors:
            return Failed(f"unmask: {int(heard.sum())} answers came, {code.survivors} decode")
        used = helpers[heard][: code.survivors].astype(np.int64)
        compute_s = code.survivors * (code.length + code.survivors**2) * self.rates.product_s
        record = Record(cohort.number, units, code, self.limit(cohort), used)
        return Summed(np.ones(len(units), dtype=bool), record, compute_s)

    def add(self, done: Summed, given: Contributions, streams: Streams) -> Total:
        record: Record = done.secret
        factors = self._factors(record, given, streams)
        own = np.divide(given.weights, given.row, out=np.zeros(len(factors)), where=given.row > 0)
        weights, row = own * factors / self.staleness_scale, factors / self.staleness_scale
        divisor = given.divisor(weights)
        if not weights.any():
            return Total(np.zeros(given.vectors.shape[1], dtype=np.float32), given.clients, row)
        if not self.computes(given):
            return Total(given.combine(given.vectors, weights, divisor, given.holds), given.clients, row)
        sent = self.sent(given, np.rint(own), record.limit, streams)
        sums = replayed(record, given.jobs, sent.vectors, factors.tolist(), self.min_sum or 2, streams)
        return self.mean(sums, sent, factors.tolist(), divisor * self.staleness_scale, given._replace(row=row))

    def _factors(self, record: Record, given: Contributions, streams: Streams) -> NDArray[np.int64]:
        """The whole staleness weights, (n,): members of a unit are rounded by one draw."""
        u = streams("basecagg/staleness", record.number).random(len(record.units))
        fine = np.asarray(given.row, dtype=np.float64) * self.staleness_scale
        return np.floor(fine + u[_unit_of(record, given.clients)]).astype(np.int64)


def replayed(
    record: Record, jobs: Sequence[Job], vectors: Sequence[NDArray[np.int64]], factors: Sequence[int], least: int,
    streams: Streams,
) -> Elements:  # fmt: skip
    """The weighted sum that the sessions come to.

    Args:
        record: who did what.
        jobs: whose updates are summed, n.
        vectors: theirs, in whole numbers.
        factors: the server's weights, whole, equal within a unit.
        least: clients that a sum must hold.
        streams: the run's.
    """
    total, owners, size = np.zeros(record.code.length, dtype=np.int64), [], record.units.shape[1]
    units = _unit_of(record, [job.client for job in jobs]).tolist()
    for job, unit, vector, factor in zip(jobs, units, vectors, factors, strict=True):
        owner = Owner(record.code, job.id, streams, "basecagg", job.id)
        owners.append((owner, unit, size, factor))
        total += mul(factor, owner.mask(vector))
    keys = {j: secret(streams, "basecagg/helper", j) for j in record.helpers.tolist()}
    helpers = [Helper(j, key, least, once=False) for j, key in keys.items()]
    return (total - helped(owners, helpers, record.code)) % Q


def _unit_of(record: Record, clients: Sequence[int] | NDArray[np.int32]) -> NDArray[np.int64]:
    """The unit of each client's update, (n,); nobody has two updates in a buffer."""
    members = record.units.ravel()
    order = np.argsort(members)
    return order[np.searchsorted(members, clients, sorter=order)] // record.units.shape[1]
