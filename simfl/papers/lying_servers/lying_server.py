"""A server that lies to its clients to see the update of one of them, and what each client sees of it.

Its lies: a selection for the victim (Jiang et al., "Lotto", USENIX Security 2024), a model
with which others send nothing (Pasquini, Francati and Ateniese, "Eluding Secure Aggregation in Federated Learning via
Model Inconsistency", CCS 2022), failures that did not happen, a round that is played
again with the same masks, and clients of its own. What it learns of a round stands in ``participation.csv``: the
clients whose updates are still unknown in the sum, so that the columns of privacy speak of what it has really seen.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.papers.lying_servers.lying_rule import REFUSING, LyingServerRule
from simfl.plugins import View
from simfl.plugins.secagg import SessionResult
from simfl.plugins.selection import Claim, Verifier
from simfl.plugins.servers import SERVERS, SynchronousServer, jobs_in_sum

Units = NDArray[np.int32]
MODEL, ZEROING = b"the model", b"a model with which an update is 0"
UNSIGNED = {"whole", "agree", "one"}
"""Checks that a client makes after its upload: a sum that fails one is not opened."""


class Deception(NamedTuple):
    """What the server tells in a round, and what it learns of it.

    Attributes:
        round: the number that it says.
        units: whom it says to have selected, int32 (units, size).
        summed: whom it says to be in the sum, once it knows who has sent an update.
        learned: the clients whose unknown updates are added up in what it learns.
        zeroing: who is sent a model with which its update is 0.
    """

    round: int
    units: Units
    summed: frozenset[int]
    learned: frozenset[int]
    zeroing: frozenset[int] = frozenset()

    def among(self, available: NDArray[np.bool_]) -> tuple["Deception", Units]:
        """The same where only units that are there as a whole hear of the selection, or send anything; and these."""
        units = self.units[available[self.units].all(axis=1)]
        members = _members(units)
        return self._replace(summed=self.summed & members, learned=self.learned & members), units


@SERVERS("lying_server")
@dataclass(eq=False)
class LyingServer(SynchronousServer):
    """A synchronous server that lies as its rule says; a unit in which a client objects is in no sum."""

    asks_agents = counts_unsummed = confirms = True
    follows_policy = False
    stores_state = False
    reads = frozenset({"deadline_s", "on_failure"})

    def start(self) -> None:
        super().start()
        self.answered: dict[int, int] = {}
        self.before: tuple[View, Deception] | None = None

    @property
    def intent(self) -> "LyingServerRule":
        """The rule that names it."""
        assert isinstance(self.parts.rule, LyingServerRule)
        return self.parts.rule

    @property
    def checked(self) -> bool:
        """Whether its clients check what they are told."""
        return self.parts.policy.receipts(self.parts.clients) is not None

    def round(self, t: int) -> Any:
        """Selects, lies, and sums what the clients let it."""
        view = self.view(t)
        deception = LIES[self.intent.lie](self, t, self.select_among(view))
        deception, units = deception.among(view.available)
        if deception.round < t and self.before is not None:
            view = self.before[0]
        objections = dict(self._objections(view, deception, units))
        unsigned = any(UNSIGNED & {*names} for names in objections.values())
        row = {REFUSING.name: len(objections)} | ({"refused_sum": int(unsigned)} if self.checked else {})
        silent = [i for i, names in objections.items() if {*names} - UNSIGNED]
        units = units[~np.isin(units, silent).any(axis=1)]
        if not units.size:
            yield self.world.wait(self.parts.rule.skipped_round_s)
            return self.aggregate([], None, row=row)
        outcome, jobs = yield from self._work_with(t, units)
        self.answered |= dict.fromkeys(units.ravel().tolist(), deception.round)
        self.before = view, deception
        session = None
        if isinstance(outcome, SessionResult) and outcome.kept_units.any() and not unsigned:
            session = outcome
        arrived = [] if session is None else jobs_in_sum(jobs, session, units)
        learned = [job for job in arrived if job.client in deception.learned]
        row |= {} if outcome is None else outcome.row
        return self.aggregate(learned, session if learned else None, row=row)

    def _objections(self, view: View, deception: Deception, units: Units) -> Iterator[tuple[int, list[str]]]:
        """What the clients of these units object to, if the policy has them check; what each of them has seen is
        written down.
        """
        parts, members = self.parts, units.ravel().tolist()
        agreed = dict.fromkeys(members, deception.summed)
        models = {i: ZEROING if i in deception.zeroing else MODEL for i in members}
        row, n = frozenset(members), parts.clients
        said = deception.round, view.available, deception.units
        claim = Claim(*said, MODEL, MODEL, row, row, (), deception.summed, agreed)
        clients = {i: Verifier(i, parts.policy, parts.streams, n, self.answered.get(i, -1)) for i in members}
        claims = {i: claim._replace(model=models[i], sent=models[i]) for i in members}
        receipts = tuple(each.receipt(claims[i]) for i, each in clients.items())
        for i, each in clients.items():
            checks = self.checked and i not in self.intent.sybils
            objections = each.objections(claims[i]._replace(receipts=receipts)) if checks else None
            self.note("told", round=view.round, client=i, objections=objections)
            if objections:
                yield i, objections


def _selects(server: LyingServer, t: int, units: Units) -> Deception:
    """Single clients, and every other time the same without the victim."""
    k, victim, n = units.size or server.parts.policy.k, server.intent.victim, server.parts.clients
    others = [i for i in range(n) if i != victim][: k - 1]
    chosen = np.array(sorted([victim, *others] if t % 2 == 0 else others), dtype=np.int32)
    everybody = frozenset(chosen.tolist())
    return Deception(t, chosen[:, None], everybody, everybody)


def _models(server: LyingServer, t: int, units: Units) -> Deception:
    """Where the victim is selected, all others are sent a model with which their updates are 0."""
    members, victim = _members(units), server.intent.victim
    zeroing = members - {victim} if victim in members else frozenset()
    return Deception(t, units, members, members - zeroing, zeroing)


def _dropouts(server: LyingServer, t: int, units: Units) -> Deception:
    """Where the victim is selected, all units but its own are said to have failed; every other time it, too."""
    members, victim = _members(units), server.intent.victim
    unit = next((frozenset(each) for each in units.tolist() if victim in each), members)
    summed = unit - {victim} if t % 2 else unit
    return Deception(t, units, summed, summed)


def _replays(server: LyingServer, t: int, units: Units) -> Deception:
    """A round with the victim is played again with models that make updates 0: its masks show what they have hidden."""
    victim = server.intent.victim
    if server.before is not None and victim in server.before[1].summed and server.before[1].round == t - 1:
        again = server.before[1]
        return again._replace(learned=frozenset({victim}), zeroing=again.summed)
    members = _members(units)
    return Deception(t, units, members, members)


def _sybils(server: LyingServer, t: int, units: Units) -> Deception:
    """Clients of its own are among those selected; it takes their updates off the sum."""
    members = _members(units)
    return Deception(t, units, members, members - frozenset(server.intent.sybils))


def _members(units: NDArray[np.int32]) -> frozenset[int]:
    return frozenset(units.ravel().tolist())


LIES: dict[str, Callable[[LyingServer, int, Units], Deception]] = {
    "selects": _selects,
    "models": _models,
    "dropouts": _dropouts,
    "replays": _replays,
    "sybils": _sybils,
}
