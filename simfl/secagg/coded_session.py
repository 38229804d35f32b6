"""The sessions of one-shot protocols (LightSecAgg, BASecAgg): coded pieces of masks, any U sums of which decode.

A mask of d elements is cut into U - T pieces, zero-padded; T random rows are put below. Helper j, at the point
a_j = j + 1, gets the sum over k of a_j^(k-1) row_k. Any T of these say nothing: the a_j are distinct and not 0, so
that any T columns of the last T rows are independent. Any U give all rows back, and sums of pieces those of masks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.core.rng import Streams
from simfl.secagg.crypto.field import Elements, Q, columns_at, inverse, matmul, mul, vandermonde
from simfl.secagg.crypto.keys import (
    ELEMENT,
    ID,
    KEY,
    TAG,
    ProtocolViolation,
    channel,
    elements,
    public_key,
    seal,
    secret,
    unseal,
)


@dataclass(frozen=True)
class MaskCode:
    """How masks are coded.

    Attributes:
        survivors: answers that decode, U.
        private: colluding helpers who learn nothing, T < U.
        length: elements of a mask, d.
    """

    survivors: int
    private: int
    length: int

    @property
    def piece(self) -> int:
        """Elements of a coded piece, P."""
        return -(-self.length // (self.survivors - self.private))

    def down_bytes(self, pieces: int) -> int:
        """On the wire: so many sealed pieces, each with its sender or recipient."""
        return pieces * (ELEMENT * self.piece + TAG + ID)

    def share_bytes(self, helpers: int) -> tuple[int, int]:
        """What an owner gets and sends: the helpers' keys; its next key, and the pieces."""
        return helpers * (KEY + ID), KEY + self.down_bytes(helpers)


class Piece(NamedTuple):
    """A coded piece of a mask.

    Attributes:
        unit: the unit that the owner's update belongs to, a label.
        size: how many there are in that unit.
        values: (P,).
    """

    unit: int
    size: int
    values: Elements


class Owner:
    """A client that masks an update and leaves pieces of its mask with helpers.

    ``label`` is that of the mask, a client in an aggregation or a job; ``purpose`` and key the address of its secrets.
    """

    def __init__(self, code: MaskCode, label: int, streams: Streams, purpose: str, *key: int) -> None:
        self.code, self.label = code, label
        self.private = secret(streams, f"{purpose}/key", *key)
        self.seeds = [secret(streams, f"{purpose}/{name}", *key) for name in ("mask", "rows")]
        self.public = public_key(self.private)

    def mask(self, vector: NDArray[np.int64]) -> Elements:
        """Whole numbers under the mask."""
        return (vector + elements(self.seeds[0], self.code.length)) % Q

    def pieces(self, points: Elements) -> Elements:
        """Coded pieces at these points, (points, P).

        Raises:
            ProtocolViolation: a point is 0 or there twice.
        """
        if len(np.unique(points)) != len(points) or (np.asarray(points) % Q == 0).any():
            raise ProtocolViolation("pieces lie at distinct points other than 0")
        code = self.code
        rows = np.zeros((code.survivors, code.piece), dtype=np.int64)
        rows[: code.survivors - code.private].reshape(-1)[: code.length] = elements(self.seeds[0], code.length)
        count = code.private * code.piece
        rows[code.survivors - code.private :] = elements(self.seeds[1], count).reshape(code.private, code.piece)
        return columns_at(rows, points)

    def seal_pieces(self, publics: Mapping[int, bytes]) -> dict[int, bytes]:
        """A sealed piece for each helper, whose keys are given by their places 0, 1, ..."""
        places = sorted(publics)
        pieces = self.pieces(np.array(places, dtype=np.int64) + 1)
        return {
            j: seal(
                channel(self.private, publics[j], f"secagg piece {self.label} {j}"), values.astype("<u4").tobytes(), b""
            )
            for j, values in zip(places, pieces, strict=True)
        }


class Helper:
    """A client that holds pieces of others' masks. It gives away sums of them: each piece once, whole units only.

    Args:
        place: 0, 1, ...; its point is one more.
        private: its key, 32 bytes.
        min_sum: masks that a sum must hold at least, with weights other than 0.
        once: it answers about one set of masks only, whatever else it holds.
    """

    def __init__(self, place: int, private: bytes, min_sum: int, once: bool) -> None:
        self.place, self.private, self.min_sum, self.once = place, private, min_sum, once
        self.pieces_by_owner: dict[int, Piece] = {}
        self.used: set[int] = set()

    def receive(self, owner: int, unit: int, size: int, public: bytes, message: bytes) -> None:
        """Takes a piece.

        Raises:
            ProtocolViolation: it is not what its owner has sent, or the second of this mask.
        """
        if owner in self.pieces_by_owner or owner in self.used:
            raise ProtocolViolation("a second piece of one mask")
        text = unseal(channel(self.private, public, f"secagg piece {owner} {self.place}"), message, b"")
        self.pieces_by_owner[owner] = Piece(unit, size, np.frombuffer(text, dtype="<u4").astype(np.int64))

    def answer(self, weights: Mapping[int, int]) -> Elements:
        """The weighted sum of its pieces of these masks, (P,).

        Raises:
            ProtocolViolation: a mask has been asked for before, a unit is there in part or with several weights, or
                there are too few whose weights are not 0.
        """
        if self.used & weights.keys() or (self.once and self.used):
            raise ProtocolViolation("a second sum of one mask")
        if not weights.keys() <= self.pieces_by_owner.keys():
            raise ProtocolViolation("a sum of masks of which it holds no piece")
        if sum(weight % Q != 0 for weight in weights.values()) < self.min_sum:
            raise ProtocolViolation(f"a sum of fewer than {self.min_sum} clients")
        units: dict[int, list[int]] = {}
        for owner, weight in weights.items():
            units.setdefault(self.pieces_by_owner[owner].unit, []).append(weight)
            if len(set(units[self.pieces_by_owner[owner].unit])) > 1:
                raise ProtocolViolation("a sum that weighs the members of a unit differently")
        if any(len(units[self.pieces_by_owner[owner].unit]) < self.pieces_by_owner[owner].size for owner in weights):
            raise ProtocolViolation("a sum that splits a unit")
        self.used |= weights.keys()
        pieces = [self.pieces_by_owner.pop(owner).values for owner in weights]
        return np.sum([mul(weight % Q, values) for weight, values in zip(weights.values(), pieces)], axis=0) % Q


def decode_sum(code: MaskCode, responses: Mapping[int, Elements]) -> Elements:
    """The sum of masks, (d,), of the helpers' sums by their places.

    Raises:
        ProtocolViolation: there are fewer than U.
    """
    if len(responses) < code.survivors:
        raise ProtocolViolation(f"{len(responses)} answers, but {code.survivors} are needed")
    places = sorted(responses)[: code.survivors]
    points = np.array(places, dtype=np.int64) + 1
    wanted = inverse(vandermonde(points, code.survivors))[: code.survivors - code.private]
    return matmul(wanted, np.stack([responses[j] for j in places])).reshape(-1)[: code.length]


def sum_masks(owners: Iterable[tuple[Owner, int, int, int]], helpers: Iterable[Helper], code: MaskCode) -> Elements:
    """The weighted sum of masks that owners and helpers come to; owners with unit, its size, and weight."""
    requests = list(owners)
    present = {helper.place: helper for helper in helpers}
    publics = {place: public_key(helper.private) for place, helper in present.items()}
    for owner, unit, size, _ in requests:
        for place, message in owner.seal_pieces(publics).items():
            present[place].receive(owner.label, unit, size, owner.public, message)
    weights = {owner.label: weight for owner, _, _, weight in requests}
    return decode_sum(code, {place: helper.answer(weights) for place, helper in present.items()})
