"""Secure aggregation whose server opens one mask, whoever drops out (So et al., "LightSecAgg", MLSys 2022)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.columns import MASKED_COLUMNS, failing
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Aggregate, Bools, Integers
from simfl.secagg.base import PROTOCOLS
from simfl.secagg.coded_session import Helper, MaskCode, Owner, sum_masks
from simfl.secagg.crypto.field import Elements, Q
from simfl.secagg.crypto.keys import ELEMENT, secret
from simfl.secagg.masked_protocol import MaskedProtocol, whole_units
from simfl.secagg.sessions import (
    ClientUpdates,
    Cohort,
    PhaseRequest,
    PreparedUnits,
    Session,
    SessionFailure,
    SessionResult,
)
from simfl.secagg.transcript import Rows, Transcript


@dataclass(frozen=True, kw_only=True)
class Coded(MaskedProtocol):
    """Keys of protocols with coded masks."""

    opens_last = True

    private: Annotated[
        float, Field(ge=0, lt=1, description="share of the helpers who, with the server, learn nothing")
    ] = 0.5
    survivors: Annotated[float, Field(gt=0, le=1, description="share of the helpers whose answers are enough")] = 0.7

    def code(self, helpers: int, dimension: int) -> MaskCode | None:
        """The code for so many helpers; None if as many must be kept from learning as are enough to decode."""
        survivors, private = ceil(round(self.survivors * helpers, 9)), int(round(self.private * helpers, 9))
        return MaskCode(survivors, private, self.length(dimension)) if survivors > private else None

    def too_few_answers(self, responses: int, code: MaskCode) -> SessionFailure:
        """Any ``private`` pieces of a mask say nothing; more of them say something, also where they do not decode."""
        why = f"unmask: {responses} answers came, {code.survivors} decode"
        return SessionFailure(why, tolerated=-1 if self.deadline_s is not None else max(-1, code.private - responses))

    def helpers(self, transcript: Transcript, streams: Streams) -> NDArray[np.int32]:
        """Clients who hold pieces of masks."""
        return transcript.clients if self.joint else np.arange(transcript.population, dtype=np.int32)

    def view(self, transcript: Transcript, coalition: NDArray[np.int32], streams: Streams) -> Rows:
        """Colluders hold pieces of every mask, answers are pieces of the sum's; so many as are private say nothing."""
        helpers = self.helpers(transcript, streams)
        code, pieces = self.code(len(helpers), 1), int(np.isin(coalition, helpers).sum())
        if code is None or pieces > code.private:
            return transcript.each(coalition)
        others = transcript.response_count - int((transcript.answered & ~transcript.honest(coalition)).sum())
        if not transcript.ended and pieces + others <= code.private:
            return transcript.none()
        return transcript.sum(coalition) if self.joint or transcript.ended else transcript.each(coalition)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems = super().check(setting)
        if self.survivors <= self.private:
            problems.append(("survivors", f"is {self.survivors:g}; it must be above private ({self.private:g})"))
        return problems


class LightsecaggRecord(NamedTuple):
    """Who did what; all that a replay needs.

    Attributes:
        clients: at the places, int32 (n,).
        size: clients of a unit.
        limit: the largest total weight of a sum.
        least: clients that a sum must hold.
        summed, answered: bool (n,): whose updates are summed, whose answers decode.
    """

    number: int
    clients: NDArray[np.int32]
    code: MaskCode
    size: int
    limit: float
    least: int
    summed: Bools
    answered: Bools


@PROTOCOLS("lightsecagg")
@dataclass(frozen=True, kw_only=True)
class LightSecAgg(Coded):
    """Each client leaves coded pieces of its mask with all others, who answer with sums of pieces.

    A client's key of its next aggregation goes up with its pieces, so that keys cost no phase of their own.
    """

    joint = True
    by_units = True
    phases = ("share", "unmask")
    columns = (*MASKED_COLUMNS, *map(failing, phases))

    def known(self, cohort: Cohort) -> dict[str, int]:
        n, code = cohort.units.size, self.code(cohort.units.size, cohort.dimension)
        if code is None:
            return {}
        dropouts = max(0, n - max(code.survivors, self.min_sum or 2)) // cohort.units.shape[1]
        return {"survivors": code.survivors, "colluding": code.private, "dropouts": dropouts}

    def prepare(self, cohort: Cohort, streams: Streams) -> Session[PreparedUnits | SessionFailure]:
        clients, shape, n = cohort.units.ravel(), cohort.units.shape, cohort.units.size
        code, no_room = self.code(n, cohort.dimension), self.no_room(cohort)
        if code is None or no_room:
            return SessionFailure(no_room or f"of {n} clients, as many must not learn anything as are enough to decode")
        rates = self.rates
        compute_s = (n - 1) * rates.agreement_s + n * code.survivors * code.piece * rates.product_s
        responded = yield PhaseRequest(
            "share", clients, *code.share_bytes(n - 1), compute_s, deadline_s=self.deadline_s
        )
        masked = whole_units(responded, shape[1])
        if few := self._few("share", cohort, masked, masked, code):
            return few
        others = int(masked.sum()) - 1
        compute_s = others * rates.agreement_s + code.length * rates.element_s
        return PreparedUnits(masked.reshape(shape)[:, 0], code, code.down_bytes(others), compute_s)

    def recover(
        self, cohort: Cohort, uploaded: Bools, prepared: Sequence[Any], streams: Streams
    ) -> Session[SessionResult | SessionFailure]:
        clients, arrived, shape, (code,) = cohort.units.ravel(), uploaded.ravel(), cohort.units.shape, prepared
        summed, n = whole_units(arrived, shape[1]), cohort.units.size
        if few := self._few("upload", cohort, summed, arrived, code):
            return few
        compute_s = int(summed.sum()) * code.piece * self.rates.product_s
        responded = yield PhaseRequest(
            "unmask", clients[arrived], -(-n // 8), ELEMENT * code.piece, compute_s, code.survivors, self.deadline_s
        )
        if responded.sum() < code.survivors:
            return self.too_few_answers(int(responded.sum()), code)
        answered = np.zeros(n, dtype=bool)
        answered[np.flatnonzero(arrived)[np.flatnonzero(responded)[: code.survivors]]] = True
        limit, least = self.limit(cohort), self.min_sum or 2
        record = LightsecaggRecord(cohort.number, clients, code, shape[1], limit, least, summed, answered)
        compute_s = code.survivors * (code.length + code.survivors**2) * self.rates.product_s
        return SessionResult(summed.reshape(shape)[:, 0], record, compute_s)

    def _few(self, phase: str, cohort: Cohort, summed: Bools, helping: Bools, code: MaskCode) -> SessionFailure | None:
        left = int(helping.sum())
        if few := self.few(cohort, summed):
            return SessionFailure(f"{phase}: {few}", tolerated=code.private)
        if left < code.survivors:
            why = f"{left} clients are left, the answers of {code.survivors} decode"
            return SessionFailure(f"{phase}: {why}", tolerated=code.private)
        return None

    def add(self, result: SessionResult, updates: ClientUpdates, streams: Streams) -> Aggregate:
        record: LightsecaggRecord = result.secret
        replay = partial(replay_sessions, record, streams=streams)
        return self.sum_of(updates, record.limit, streams, replay, record.code.length)


def replay_sessions(record: LightsecaggRecord, vectors: dict[int, Integers], streams: Streams) -> Elements:
    """The sum that the sessions come to, of the summed clients' vectors in whole numbers."""
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
    return (total - sum_masks(owners, helpers, record.code)) % Q
