"""A sum of each unit of a selection policy by itself, where a protocol else opens one sum of all of them."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import inf
from operator import attrgetter
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Aggregate, Bools, Floats, Vectors
from simfl.secagg import sessions
from simfl.secagg.base import PROTOCOLS, Protocol
from simfl.secagg.sessions import Cohort, PhaseRequest, PreparedUnits, Session, SessionFailure, SessionResult
from simfl.secagg.transcript import Rows, Transcript, rows_of

Problem = tuple[str, str]


def _within(name: str) -> Any:
    """What the protocol says that sums up each unit."""
    return property(attrgetter(f"protocol.{name}"))


@PROTOCOLS("unit_sums")
@dataclass(frozen=True, kw_only=True)
class UnitSums(Protocol):
    """Opens the sum of each unit by itself, by a session of another protocol for each, all at the same time.

    The server learns the units' sums, so that an aggregate that resists attackers can compare them: each is one vector,
    the weighted mean of its clients, with their weight; single updates stay hidden. A phase waits for all answers of
    all units, also where the protocol would go on with a quorum, and the server computes for one after another. Units
    are the buckets of Karimireddy, He and Jaggi, "Byzantine-robust learning on heterogeneous datasets via bucketing",
    ICLR 2022, section 4.
    """

    protocol: Annotated[Any, PROTOCOLS, Field(description="sums up each unit; only its clients may take part in that")]
    size: Annotated[
        int | None, Field(ge=2, description="clients of a unit; null = as many as the selection's units have")
    ] = None

    example = {"protocol": "secagg"}
    joint = True
    sums_units = True
    shows_updates = _within("shows_updates")
    field, clip, phases, deadline_s = _within("field"), _within("clip"), _within("phases"), _within("deadline_s")
    assumes, covers, columns = _within("assumes"), _within("covers"), _within("columns")
    opens_last, closes_failures, moves_sums = _within("opens_last"), _within("closes_failures"), _within("moves_sums")

    def upload_bytes(self, update_bytes: object, dimension: int) -> Any:
        return self.protocol.upload_bytes(update_bytes, dimension)

    def counting(self) -> Mapping[str, Protocol]:
        return {kind: replace(self, protocol=each) for kind, each in self.protocol.counting().items()}

    def known(self, cohort: Cohort) -> dict[str, int]:
        """Of a unit's session; who drops out takes one unit along at most."""
        return {**self.protocol.known(cohort._replace(units=cohort.units[:1])), "dropouts": len(cohort.units) - 1}

    def tolerance(self, members: int, clients: int) -> int | None:
        known: int | None = self.protocol.tolerance(self.size, clients) if self.size else None
        return known

    def overflow(self, setting: ScenarioView, most: int, samples: int) -> list[Problem]:
        problems: list[Problem] = self.protocol.overflow(setting, self.size or most, samples)
        return [(f"protocol.{key}", why) for key, why in problems]

    def resolve(self, setting: ScenarioView) -> Self:
        size = setting.selection.unit_size
        return replace(self, size=size) if self.size is None and size > 1 else self

    def check(self, setting: Any) -> list[Problem]:
        """What forms no units, or works on one sum a round."""
        losses, inner, problems, policy = setting.training.losses, self.protocol, list[Problem](), setting.selection
        if (size := policy.unit_size) < 2:
            why = f"opens the sum of each unit, and selection: {policy.name} forms none of two clients or more"
            return [("name", f"{why}; use batch_partition, half_partition or partition")]
        if self.size != size:
            why = f"is {self.size}, and units of selection: {policy.name} have {size} clients"
            problems.append(("size", f"{why}; use {size} or null"))
        if not inner.by_units:
            why = f"is {inner.name}, which does not say that nobody but a sum's clients takes part in it (by_units)"
            problems.append(("protocol", f"{why}; use secagg, secagg_plus, lightsecagg or ideal"))
        if inner.certificate:
            why = f"is {inner.name}, whose {inner.certificate} is of one sum a round, and there are several"
            problems.append(("protocol", f"{why}; use one without, and noise of clients as a stage"))
        if losses is not None and losses.on_failure == "partial":
            problems.append(("name", "opens sums of whole units; use training.on_failure: drop_unit"))
        whole = [f"selection: {policy.name}"] if policy.reads_history else []
        whole += [f"training: {setting.training.name}"] if setting.training.many_aggregators else []
        whole += [f"attacks: {attack.name}" for attack in setting.attacks]
        whole += [f"privacy.stages: {stage.name}" for stage in setting.privacy.stages if _of_one_sum(stage)]
        for each in whole:
            problems.append(("name", f"opens a sum for each unit, and {each} works on one a round; leave one out"))
        return problems

    def prepare(self, cohort: Cohort, streams: Streams) -> Session[PreparedUnits | SessionFailure]:
        cohorts = [cohort._replace(units=unit[None]) for unit in cohort.units]
        ended = yield from _together([self.protocol.prepare(each, streams) for each in cohorts])
        good = {j: each for j, each in enumerate(ended) if isinstance(each, PreparedUnits)}
        if not good:
            return SessionFailure(ended[0].reason)
        down, up, seconds = (np.zeros(cohort.units.shape, dtype=kind) for kind in (np.int64, np.int64, np.float64))
        for j, each in good.items():
            down[j], up[j], seconds[j] = each.down_bytes, each.up_bytes, each.compute_s
        whole, secrets = np.isin(np.arange(len(ended)), list(good)), {j: each.secret for j, each in good.items()}
        return PreparedUnits(whole, secrets, down, seconds, up)

    def recover(
        self, cohort: Cohort, uploaded: Bools, prepared: Sequence[Any], streams: Streams
    ) -> Session[SessionResult | SessionFailure]:
        (secrets,), tolerated, good = prepared, list[int](), dict[int, SessionResult]()
        cohorts = {j: (cohort._replace(units=cohort.units[j : j + 1]), uploaded[j : j + 1]) for j in secrets}
        ended = yield from _together([self.protocol.recover(*cohorts[j], [secrets[j]], streams) for j in secrets])
        for j, each in zip(secrets, ended, strict=True):
            if isinstance(each, SessionResult) and each.kept_units.all():
                good[j], most = each, each.tolerated
                tolerated.append(self.tolerance(0, cohort.clients) or 0 if most is None else most)
            elif uploaded[j].any():
                tolerated.append(each.tolerated if isinstance(each, SessionFailure) else -1)
        if not good:
            failed = tolerated or [each.tolerated for each in ended if isinstance(each, SessionFailure)]
            return SessionFailure("no unit's sum could be opened", tolerated=min(failed, default=-1))
        whole, results = np.isin(np.arange(len(cohort.units)), list(good)), list(good.values())
        seconds, row = sum(each.compute_s for each in results), _total_row([each.row for each in results])
        return SessionResult(whole, results, seconds, row, min(tolerated), cohort.units[whole])

    def view(self, transcript: Transcript, coalition: NDArray[np.int32], streams: Streams) -> Rows:
        """What each unit's session shows. One that failed after some have answered may show each of its updates."""
        from scipy.sparse import block_diag

        shown = []
        for places in np.arange(len(transcript.clients)).reshape(-1, self.size or 1):
            unit = transcript.only_at(places)
            unit = unit._replace(ended=unit.ended and bool(unit.summed.all()), response_count=int(unit.answered.sum()))
            failed = unit.response_count and not unit.ended
            shown.append(unit.each(coalition) if failed else self.protocol.view(unit, coalition, streams))
        return block_diag([rows_of(np.zeros(0, np.int64)), *shown], format="csr")

    def add(self, result: SessionResult, updates: sessions.ClientUpdates, streams: Streams) -> Aggregate:
        assert result.opened is not None
        unit, parts = sessions.unit_of(result.opened, updates.clients), list[Aggregate]()
        means = np.zeros((len(result.opened), updates.vectors.shape[1]), dtype=np.float32)
        weights = np.bincount(unit, updates.weights, minlength=len(means))
        members_of = np.split(np.argsort(unit, kind="stable"), np.searchsorted(np.sort(unit), np.arange(1, len(means))))
        for j in np.flatnonzero(weights):
            some = members_of[j]
            jobs, of_unit = tuple(updates.jobs[i] for i in some), (updates.weights[some], updates.row[some])
            members = sessions.ClientUpdates(jobs, updates.vectors[some], None, *of_unit, divisor=np.sum, combine=_mean)
            parts.append(self.protocol.add(result.secret[j], members, streams))
            means[j] = parts[-1].vector
        vector = updates.combine(means, weights, updates.divisor(updates.weights), None)
        step, row = max(each.step for each in parts), _total_row([each.row for each in parts])
        return Aggregate(
            vector, updates.clients, updates.row, row, step=step, clipped=sum(each.clipped for each in parts)
        )


def _together(sessions: Sequence[Session[Any]]) -> Generator[PhaseRequest, Bools, list[Any]]:
    """Sessions of different clients, phase by phase at the same time; what each returns."""
    returned: list[Any] = [None] * len(sessions)
    waiting: dict[int, PhaseRequest] = {}

    def go_on(j: int, responded: Any) -> None:
        try:
            waiting[j] = sessions[j].send(responded)
        except StopIteration as end:
            returned[j] = end.value

    for j in range(len(sessions)):
        go_on(j, None)
    while waiting:
        first = next(iter(waiting.values()))
        now = {j: waiting.pop(j) for j, each in list(waiting.items()) if each.kind == first.kind}
        sizes = [(each.down_bytes, each.up_bytes, each.compute_s, np.zeros(len(each.to))) for each in now.values()]
        down, up, seconds, _ = (np.concatenate(part) for part in zip(*(np.broadcast_arrays(*each) for each in sizes)))
        to = np.concatenate([each.to for each in now.values()])
        deadlines_s = [inf if each.deadline_s is None else each.deadline_s for each in now.values()]
        deadline_s = max(deadlines_s) if max(deadlines_s) < inf else None
        responded = yield PhaseRequest(first.kind, to, down, up, seconds, deadline_s=deadline_s)
        ends = np.cumsum([len(each.to) for each in now.values()])[:-1]
        for j, each in zip(now, np.split(responded, ends), strict=True):
            go_on(j, each)
    return returned


def _of_one_sum(stage: Any) -> bool:
    """Whether its noise is in parts, or it codes what one sum decodes."""
    shares = stage.adds_noise is not None and stage.adds_noise.where == "share"
    return bool(shares or stage.certificate or stage.changes_coordinates or stage.seeds)


def _mean(vectors: Vectors, weights: Floats, normaliser: float, mask: Bools | None = None) -> Vectors:
    return np.einsum("n,nd->d", (weights / normaliser).astype(np.float32), vectors)


def _total_row(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of several sessions, added up; some may say nothing of one."""
    return {name: sum(row.get(name, 0) for row in rows) for name in dict.fromkeys(chain(*rows))}
