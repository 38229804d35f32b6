"""Selection that clients check: what a guarantee is worth if the server lies.

Everybody knows the policy, the number of clients and their order in its units, their registered keys, and a seed that
was fixed after these. The row of round t is what the policy selects with the stream ``hash(seed, t)`` among those whom
the server says to be available. Clients cannot check who is, nor that no number of a round is left out: a server that
lies gets any row of the family that it wants, and no other. Before a client sends, signs or opens anything it makes the
checks of :data:`CHECKS` by itself. What they prove, and of what each sees to: docs/explanation/proofs/verifiable.md.

Lotto (Jiang et al., USENIX Security 2024) checks random selections of single clients in this way, so that few of those
selected are the server's; here selections have a structure, and it is what is checked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.columns import REFUSED
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Receipts, Units, View
from simfl.selection.asking import AroundUnits, ask
from simfl.selection.base import POLICIES, Policy, Shuffle
from simfl.selection.units.sizes import Problem, order_problems

DIGEST_BYTES = 32
NUMBER_BYTES = 4


@POLICIES("verifiable")
@dataclass(frozen=True)
class VerifiableSelection(AroundUnits):
    """A policy of units whose clients check each selection, and confirm it to one another, as the server may lie.

    Its rows depend on the seed, on the round, and on who is said to be available, which no client can check.
    Signatures are of Ed25519 (RFC 8032); the seconds are a guess for a slow device: one core of a server takes a fifth.
    """

    inner: Annotated[Any, POLICIES, Field(description="a policy of units that selects uniformly; has k")]
    signature_bytes: Annotated[int, Field(ge=48, le=100_000, description="of a client's signature")] = 64
    sign_s: Annotated[float, Field(ge=0, le=1e6, description="seconds that a client takes for a signature")] = 0.0002
    verify_s: Annotated[float, Field(ge=0, le=1e6, description="seconds that a client takes to check one")] = 0.0005
    shuffle: Annotated[Shuffle, Field(description="assign clients to units by the seed, or in this order")] = False

    example = {"inner": {"name": "batch_partition", "k": 4, "T": 2, "mode": "uniform"}}
    columns = (REFUSED,)

    @property
    def uniform(self) -> bool:
        return bool(self.inner.uniform)

    def check(self, setting: ScenarioView) -> list[Problem]:
        problems, inner, rule = order_problems(self.shuffle, setting.clients), self.inner, setting.training
        if inner.shuffle:
            problems.append(("inner.shuffle", "is true, but the order of clients is public; use shuffle beside inner"))
        if inner.mode not in (None, "uniform"):
            why = f"is {inner.mode}, and clients cannot check how often others have taken part"
            problems.append(("inner.mode", f"{why}; use mode: uniform"))
        if inner.reads or inner.asks or inner.reads_history:
            why = f"is {inner.name}, which selects by more than who is available, and clients cannot check that"
            problems.append(("inner", f"{why}; use a policy of units, as batch_partition"))
        if setting.learning.external:
            why = "is verifiable, but remote clients sign and check nothing"
            problems.append(("name", f"{why}; use another learning.backend"))
        if rule.asynchronous or rule.many_aggregators or rule.losses is None:
            why = f"is verifiable, but under training: {rule.name} clients are not selected by round"
            problems.append(("name", f"{why}; use training: fedavg"))
        elif not setting.secagg.opens_confirmed:
            why = f"is verifiable, but secagg: {setting.secagg.name} opens sums that clients have not confirmed"
            problems.append(("name", f"{why}; use secagg with a threshold of 0.5 or more, or ideal"))
        elif not rule.keeps_units:
            problems.append(("name", "is verifiable, but units may be taken apart; use training.on_failure: drop_unit"))
        return problems

    def receipts(self, clients: int) -> Receipts:
        told_bytes = NUMBER_BYTES + -(-clients // 8) + DIGEST_BYTES  # round, who is available, digest of the model
        return Receipts(told_bytes, self.signature_bytes, self.sign_s, self.verify_s)

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        return ask(self.inner, replace(view, participation=np.zeros_like(view.participation)), k, rng)


class Receipt(NamedTuple):
    """What a client signs before it sends anything, once a round: the row as it was told, and its model's digest."""

    client: int
    round: int
    row: bytes
    model: bytes


class Claim(NamedTuple):
    """All that a server tells one client of a round.

    Attributes:
        round: its number.
        available: who is said to be available, bool (clients,).
        units: who is said to be selected, int32 (units, size).
        model: digest, as it was told and has signed, of all that its update is to depend on: the model, and whatever
            else it is sent for its work.
        sent: digest of what it was sent then.
        holders: those whose keys it was given, with their signatures, and itself: they hold shares of its secrets.
        masked: those of them whose shares it was given, and itself: it has masks with them, and opens theirs.
        receipts: those of other clients that it was shown; signatures cannot be forged.
        summed: the clients whose sum it is to open.
        agreed: the sums that clients have signed for this round, as it was shown them; each signs one.
    """

    round: int
    available: NDArray[np.bool_]
    units: Units
    model: bytes
    sent: bytes
    holders: frozenset[int]
    masked: frozenset[int]
    receipts: tuple[Receipt, ...]
    summed: frozenset[int]
    agreed: Mapping[int, frozenset[int]]

    def unit_of(self, client: int) -> tuple[int, ...]:
        """The claimed unit of a client, ascending; empty = it has none."""
        return next((tuple(sorted(unit)) for unit in self.units.tolist() if client in unit), ())


@dataclass(frozen=True)
class Verifier:
    """A client that checks what it is told.

    Args:
        client: who it is.
        policy: the public policy, over clients in their public order.
        streams: of the public seed.
        clients: how many are registered.
        last_round: the last round that it has answered; -1 = none.
        known_sum: the sum of that round that it has signed or, if it is not in it, been shown; None = none yet.
    """

    client: int
    policy: Policy
    streams: Streams
    clients: int
    last_round: int = -1
    known_sum: frozenset[int] | None = None

    def row(self, t: int, available: NDArray[np.bool_]) -> Units:
        """What the beacon of round t selects among those who are said to be available."""
        view = View(t, available, np.zeros(len(available), dtype=np.int64))
        return self.policy.select(view, self.policy.k, self.streams("selection", t))

    def receipt(self, claim: Claim) -> Receipt:
        """What it signs if it has no objection."""
        return Receipt(self.client, claim.round, claim.units.tobytes(), claim.model)

    def objections(self, claim: Claim) -> list[str]:
        """The checks that a claim fails; it sends, signs and opens only if there are none of those made by then."""
        return [name for name, passes in CHECKS.items() if not passes(self, claim)]


def _row_is_drawn(me: Verifier, claim: Claim) -> bool:
    """The row is the one that the beacon determines among as many clients as there are, and the client is in it."""
    if claim.available.shape != (me.clients,) or claim.available.dtype != bool:
        return False
    return np.array_equal(me.row(claim.round, claim.available), claim.units) and me.client in claim.units


def _unit_is_masked(me: Verifier, claim: Claim) -> bool:
    """It has masks with all of its unit, and only clients of the row hold shares of its secrets."""
    row = {*claim.units.ravel().tolist()}
    return {me.client, *claim.unit_of(me.client)} <= claim.masked <= claim.holders <= row


def _unit_confirms(me: Verifier, claim: Claim) -> bool:
    """All others in its unit have signed the same round, row and model, and it was sent that model."""
    mine, shown = me.receipt(claim), set(claim.receipts)
    return claim.sent == claim.model and all(
        mine._replace(client=other) in shown for other in claim.unit_of(me.client) if other != me.client
    )


def _units_are_whole(me: Verifier, claim: Claim) -> bool:
    """Each unit of the row is in the sum as a whole, or not at all, and nobody else is."""
    inside = np.isin(claim.units, list(claim.summed))
    return int(inside.sum()) == len(claim.summed) and bool((inside.all(axis=1) | ~inside.any(axis=1)).all())


def _all_agree(me: Verifier, claim: Claim) -> bool:
    """All clients in the sum have signed that it is of these."""
    return {claim.agreed.get(client) for client in claim.summed} <= {claim.summed}  # a set looks at identity first


def _one_sum_is_taken(me: Verifier, claim: Claim) -> bool:
    """It has taken no other set of clients for the sum of this round, which is the last that it has answered."""
    return claim.round > me.last_round or (claim.round == me.last_round and me.known_sum in (None, claim.summed))


def _answered_once(me: Verifier, claim: Claim) -> bool:
    """It has answered no such round before, and none that came later."""
    return claim.round > me.last_round


CHECKS: dict[str, Callable[[Verifier, Claim], bool]] = {
    "row": _row_is_drawn,
    "masks": _unit_is_masked,
    "unit": _unit_confirms,
    "whole": _units_are_whole,
    "agree": _all_agree,
    "one": _one_sum_is_taken,
    "once": _answered_once,
}
"""What a client checks by itself, by name: before it sends, ``row``, ``masks``, ``unit`` and ``once``; of the sum of
the round that it has answered last, ``whole`` and ``one`` before it signs, ``agree`` and ``one`` before it opens."""
