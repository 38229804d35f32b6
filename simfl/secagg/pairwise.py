"""SecAgg's talks and its replay on any circle of neighbours; the protocols differ in neighbours and threshold."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.columns import MASKED_COLUMNS, failing
from simfl.rng import Streams
from simfl.secagg.base import Ask, Cohort, Contributions, Failed, Prepared, Protocol, Summed, Talk
from simfl.secagg.field import Elements
from simfl.secagg.keys import ID, KEY, SEED, TAG, secret
from simfl.secagg.masked import Masked, whole_units
from simfl.secagg.masking import Client, Plan, Secrets, Server
from simfl.secagg.neighbours import circle
from simfl.secagg.shamir import SHARE
from simfl.types import Total

__all__ = ["PairwiseMasks", "Record", "Replay", "replayed"]

KEYS = 2 * KEY
SHARES = ID + 2 * ID + 2 * SHARE + TAG
"""To whom; and sealed: from, to, a share of each secret."""


class Record(NamedTuple):
    """Who answered which phase; all that a replay needs.

    Attributes:
        plan: what everybody knows.
        clients: at the positions, int32 (n,).
        limit: the largest total weight of a sum.
        advertised, masked, uploaded, summed, answered: bool (n,): whose keys were published, whose masks are in the
            vectors, who uploaded one, whose are summed, who answered the last phase.
        seeds, opened: further secrets of each client, and how many of them are opened.
    """

    plan: Plan
    clients: NDArray[np.int32]
    limit: float
    advertised: NDArray[np.bool_]
    masked: NDArray[np.bool_]
    uploaded: NDArray[np.bool_]
    summed: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    seeds: int = 0
    opened: int = 0


class Replay(NamedTuple):
    """What the sessions come to.

    Attributes:
        sums: (elements,), modulo q.
        opened: the further secrets of the clients in the sum that were opened, by client.
    """

    sums: Elements
    opened: dict[int, tuple[bytes, ...]]


@dataclass(frozen=True, kw_only=True)
class PairwiseMasks(Masked, Protocol):
    """Masks between pairs and one of each client's own, all of them opened by shares (Bonawitz et al. 2017)."""

    joint = True
    opens_seeds = True
    phases = ("advertise", "share", "unmask")
    columns = (*MASKED_COLUMNS, *map(failing, phases))

    @abstractmethod
    def sizes(self, n: int) -> tuple[int, int] | None:
        """Neighbours of each of n clients, and the shares that open a secret; None if nothing is safe."""
        ...

    def known(self, cohort: Cohort) -> dict[str, int]:
        n, size, sizes = cohort.units.size, cohort.units.shape[1], self.sizes(cohort.units.size)
        if sizes is None:
            return {}
        near, threshold = sizes
        dropouts = max(0, min(near - threshold, n - (self.min_sum or 2)) // size)
        return {"neighbours": near, "threshold": threshold, "colluding": threshold - 1, "dropouts": dropouts}

    def prepare(self, cohort: Cohort, streams: Streams) -> Talk:
        clients, size, n = cohort.units.ravel(), cohort.units.shape[1], cohort.units.size
        sizes, no_room = self.sizes(n), self.no_room(cohort)
        if sizes is None or no_room:
            return Failed(no_room or f"of {n} clients, no number of neighbours is safe")
        around = circle(n, sizes[0], streams("secagg/circle", cohort.number))
        plan = Plan(cohort.number, around, sizes[1], np.repeat(np.arange(n // size), size), self.min_sum or 2)
        heard = yield Ask("advertise", clients, 0, KEYS, deadline_s=self.deadline_s)
        advertised = whole_units(heard, size)
        if few := self._few(cohort, advertised):
            return Failed(f"advertise: {few}")
        near, rates = around.counts(advertised)[advertised], self.rates
        shares = SHARES + SHARE * cohort.seeds
        compute_s = near * (rates.agreement_s + (2 + cohort.seeds) * rates.share_s)
        masked = np.zeros(n, dtype=bool)
        masked[advertised] = yield Ask(
            "share", clients[advertised], (ID + KEYS) * near, shares * near, compute_s, deadline_s=self.deadline_s
        )
        masked = whole_units(masked, size)
        if few := self._few(cohort, masked):
            return Failed(f"share: {few}")
        near = around.counts(masked).reshape(-1, size)
        compute_s = near * rates.agreement_s + (near + 1) * (self.length(cohort.dimension) * rates.element_s)
        return Prepared(masked.reshape(-1, size)[:, 0], (plan, advertised, masked), shares * near, compute_s)

    def recover(self, cohort: Cohort, uploaded: NDArray[np.bool_], prepared: Sequence[Any], streams: Streams) -> Talk:
        plan, advertised, masked = prepared[0]
        around, clients, arrived = plan.circle, cohort.units.ravel(), uploaded.ravel()
        summed = whole_units(arrived, cohort.units.shape[1])
        if few := self._few(cohort, summed):
            return Failed(f"upload: {few}")
        if not around.connected(summed):
            return Failed("upload: those who are left are not connected, so that the sums of groups would show")
        answered = np.zeros(len(clients), dtype=bool)
        others, seeds = around.counts(summed), cohort.opened(cohort.hiding(summed))
        up = (ID + SHARE) * around.counts(masked)[arrived] + seeds * (SHARE * others + SEED * summed)[arrived]
        answered[arrived] = yield Ask(
            "unmask", clients[arrived], -(-around.degree // 8), up, deadline_s=self.deadline_s
        )
        opened = summed | (masked & (others > 0))
        shares = around.counts(answered)
        if (shares[opened] < plan.threshold).any():
            least = int(shares[opened].min())
            return Failed(f"unmask: {least} shares of a client's secret came, {plan.threshold} open it")
        record = Record(
            plan, clients, self.limit(cohort), advertised, masked, arrived, summed, answered, cohort.seeds, seeds
        )
        lost = int(others[masked & ~summed].sum())
        rates, masks = self.rates, int(summed.sum()) + lost
        compute_s = lost * rates.agreement_s + int(opened.sum()) * plan.threshold * rates.share_s
        compute_s += masks * self.length(cohort.dimension) * rates.element_s
        compute_s += int((summed & ~answered).sum()) * seeds * plan.threshold * rates.share_s
        return Summed(summed.reshape(cohort.units.shape)[:, 0], record, compute_s)

    def _few(self, cohort: Cohort, members: NDArray[np.bool_]) -> str | None:
        found, least = cohort.hiding(members), self.min_sum or 2
        return None if found >= least else f"{found} clients of whole units are left, a sum needs {least}"

    def add(self, done: Summed, given: Contributions, streams: Streams) -> Total:
        divisor = given.divisor(given.weights)
        if not self.computes(given):
            vector, opened = given.combine(given.vectors, given.weights, divisor, given.holds), done.secret.opened
            return Total(vector, given.clients, given.row, opened=given.opened(opened))
        sent = self.sent(given, given.weights, done.secret.limit, streams)
        vectors = dict(zip(given.clients.tolist(), sent.vectors, strict=True))
        further = dict(zip(given.clients.tolist(), given.secrets, strict=True)) if done.secret.seeds else {}
        found = replayed(done.secret, vectors, streams, further)
        total = self.mean(found.sums, sent, [1] * len(sent.vectors), divisor, given)
        return total._replace(opened=tuple(found.opened[client] for client in given.clients.tolist() if found.opened))


def replayed(
    record: Record,
    vectors: Mapping[int, NDArray[np.int64]],
    streams: Streams,
    further: Mapping[int, Sequence[bytes]] = MappingProxyType({}),
) -> Replay:
    """What the sessions of server and clients come to.

    Args:
        record: who answered which phase.
        vectors: of the clients in the sum, by client, in whole numbers.
        streams: the run's.
        further: their further secrets; others, of which none is opened, share any.
    """
    plan, names = record.plan, record.clients.tolist()
    members = {}
    for u in _those(record.advertised):
        closed = [secret(streams, "secagg/further", plan.number, names[u], i) for i in range(record.seeds)]
        members[u] = Client(plan, u, Secrets.of(streams, plan.number, names[u]), further.get(names[u], closed))
    server = Server(plan)
    published = server.publish({u: client.advertise() for u, client in members.items()})
    forwarded = server.forward({u: members[u].share(published[u]) for u in _those(record.masked)})
    for u in _those(record.masked):
        members[u].receive(forwarded[u])
    masked = {u: members[u].mask(vectors[names[u]]) for u in _those(record.summed)}  # of others nobody needs it
    told = {u: [v for v in members[u].held if record.summed[v]] for u in _those(record.answered)}
    answers = {u: members[u].unmask(summed, record.opened) for u, summed in told.items()}
    sums, opened = server.unmasked(masked, _those(record.masked), answers), record.opened
    revealed = {u: members[u].reveal() for u in answers if u in masked and opened}
    found = server.further(masked, opened, revealed, answers) if opened else {}
    return Replay(sums, {names[u]: secrets for u, secrets in found.items()})


def _those(members: NDArray[np.bool_]) -> list[int]:
    return np.flatnonzero(members).tolist()
