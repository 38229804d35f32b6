"""Secure aggregation whose server opens one mask, whoever drops out (So et al., "LightSecAgg", MLSys 2022)."""

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
from simfl.secagg.field import Elements, Q
from simfl.secagg.keys import ELEMENT, secret
from simfl.secagg.masked import Masked, whole_units
from simfl.setting import Setting
from simfl.types import Total

__all__ = ["Coded", "LightSecAgg", "Record", "replayed"]


@dataclass(frozen=True, kw_only=True)
class Coded(Masked):
    """Keys of protocols with coded masks."""

    private: Annotated[
        float, Field(ge=0, lt=1, description="share of the helpers who, with the server, learn nothing")
    ] = 0.5
    survivors: Annotated[float, Field(gt=0, le=1, description="share of the helpers whose answers are enough")] = 0.7

    def code(self, helpers: int, dimension: int) -> Code | None:
        """The code for so many helpers; None if as many must be kept from learning as are enough to decode."""
        survivors, private = ceil(round(self.survivors * helpers, 9)), int(round(self.private * helpers, 9))
        return Code(survivors, private, self.length(dimension)) if survivors > private else None

    def check(self, setting: Setting) -> list[tuple[str, str]]:
        problems = super().check(setting)
        if self.survivors <= self.private:
            problems.append(("survivors", f"is {self.survivors:g}; it must be above private ({self.private:g})"))
        return problems


class Record(NamedTuple):
    """Who did what; all that a replay needs.

    Attributes:
        number: of the aggregation.
        clients: at the places, int32 (n,).
        code: how masks are coded.
        size: clients of a unit.
        limit: the largest total weight of a sum.
        least: clients that a sum must hold.
        summed, answered: bool (n,): whose updates are summed, whose answers decode.
    """

    number: int
    clients: NDArray[np.int32]
    code: Code
    size: int
    limit: float
    least: int
    summed: NDArray[np.bool_]
    answered: NDArray[np.bool_]


@PROTOCOLS("lightsecagg")
@dataclass(frozen=True, kw_only=True)
class LightSecAgg(Coded, Protocol):
    """Each client leaves coded pieces of its mask with all others, who answer with sums of pieces.

    A client's key of its next aggregation goes up with its pieces, so that keys cost no phase of their own.
    """

    joint = True
    phases = ("share", "unmask")
    columns = (*MASKED_COLUMNS, *map(failing, phases))

    def known(self, cohort: Cohort) -> dict[str, int]:
        n, code = cohort.units.size, self.code(cohort.units.size, cohort.dimension)
        if code is None:
            return {}
        dropouts = max(0, n - max(code.survivors, self.min_sum or 2)) // cohort.units.shape[1]
        return {"survivors": code.survivors, "colluding": code.private, "dropouts": dropouts}

    def prepare(self, cohort: Cohort, streams: Streams) -> Talk:
        clients, shape, n = cohort.units.ravel(), cohort.units.shape, cohort.units.size
        code, no_room = self.code(n, cohort.dimension), self.no_room(cohort)
        if code is None or no_room:
            return Failed(no_room or f"of {n} clients, as many must not learn anything as are enough to decode")
        rates = self.rates
        compute_s = (n - 1) * rates.agreement_s + n * code.survivors * code.piece * rates.product_s
        heard = yield Ask("share", clients, *code.share_bytes(n - 1), compute_s, deadline_s=self.deadline_s)
        masked = whole_units(heard, shape[1])
        if few := self._few("share", cohort, masked, masked, code):
            return few
        others = int(masked.sum()) - 1
        compute_s = others * rates.agreement_s + code.length * rates.element_s
        return Prepared(masked.reshape(shape)[:, 0], code, code.down_bytes(others), compute_s)

    def recover(self, cohort: Cohort, uploaded: NDArray[np.bool_], prepared: Sequence[Any], streams: Streams) -> Talk:
        clients, arrived, shape, (code,) = cohort.units.ravel(), uploaded.ravel(), cohort.units.shape, prepared
        summed, n = whole_units(arrived, shape[1]), cohort.units.size
        if few := self._few("upload", cohort, summed, arrived, code):
            return few
        compute_s = int(summed.sum()) * code.piece * self.rates.product_s
        heard = yield Ask(
            "unmask", clients[arrived], -(-n // 8), ELEMENT * code.piece, compute_s, code.survivors, self.deadline_s
        )
        if heard.sum() < code.survivors:
            return Failed(f"unmask: {int(heard.sum())} answers came, {code.survivors} decode")
        answered = np.zeros(n, dtype=bool)
        answered[np.flatnonzero(arrived)[np.flatnonzero(heard)[: code.survivors]]] = True
        limit, least = self.limit(cohort), self.min_sum or 2
        record = Record(cohort.number, clients, code, shape[1], limit, least, summed, answered)
        compute_s = code.survivors * (code.length + code.survivors**2) * self.rates.product_s
        return Summed(summed.reshape(shape)[:, 0], record, compute_s)

    def _few(
        self, phase: str, cohort: Cohort, summed: NDArray[np.bool_], helping: NDArray[np.bool_], code: Code
    ) -> Failed | None:
        found, left, least = cohort.hiding(summed), int(helping.sum()), self.min_sum or 2
        if found < least:
            return Failed(f"{phase}: {found} clients of whole units are left, a sum needs {least}")
        if left < code.survivors:
            return Failed(f"{phase}: {left} clients are left, the answers of {code.survivors} decode")
        return None

    def add(self, done: Summed, given: Contributions, streams: Streams) -> Total:
        divisor = given.divisor(given.weights)
        if not self.computes(given):
            return Total(given.combine(given.vectors, given.weights, divisor, given.holds), given.clients, given.row)
        sent = self.sent(given, given.weights, done.secret.limit, streams)
        vectors = dict(zip(given.clients.tolist(), sent.vectors, strict=True))
        return self.mean(replayed(done.secret, vectors, streams), sent, [1] * len(sent.vectors), divisor, given)


def replayed(record: Record, vectors: dict[int, NDArray[np.int64]], streams: Streams) -> Elements:
    """The sum that the sessions come to.

    Args:
        record: who did what.
        vectors: of the clients in the sum, by client, in whole numbers.
        streams: the run's.
    """
    names, purpose = record.clients.tolist(), "lightsecagg"
    owners, total = [], np.zeros(record.code.length, dtype=np.int64)
    for u in np.flatnonzero(record.summed).tolist():
        owner = Owner(record.code, u, streams, purpose, record.number, names[u])
        owners.append((owner, u // record.size, record.size, 1))
        total += owner.mask(vectors[names[u]])
    helpers = [
        Helper(j, secret(streams, f"{purpose}/key", record.number, names[j]), record.least, once=True)
        for j in np.flatnonzero(record.answered).tolist()
    ]
    return (total - helped(owners, helpers, record.code)) % Q
