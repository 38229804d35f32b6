"""What clients keep and send of a model that is sparse: surviving values, and masks when they change."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.columns import Column
from simfl.learning.personal.masks import Mask, packed, unpacked
from simfl.payload import Part
from simfl.types import Arrays
from simfl.variant import ClientVariant

__all__ = ["COLUMNS", "MASK", "Sparse", "kept", "measured"]

MASK = Part("the mask of the weights that it keeps, which depends on its samples", "mask")
"""Without it nobody could place the surviving values of a sparse model."""

COLUMNS = (
    Column("bytes_mask", "Mask bytes", "bytes", "Bytes of the masks in the updates aggregated, part of bytes_up.", -1,
           "sum", shown=False),
    Column("published_mb", "Published MB", "number",
           "Megabytes of surviving values in the updates aggregated, as FedLTN and LotteryFL count: uploads only, "
           "4 bytes a value, no masks.", -1, "sum"),
)  # fmt: skip

Own = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Sparse(ClientVariant):
    """Clients with masks, for one model.

    Attributes:
        rule: the settings; ``target`` is the share of the weights that shall be pruned.
        layers: where each prunable layer's weights lie.
        initial: x(0), (d,).
        private: bool (d,): coordinates that stay with the clients; None = there are none.
    """

    rule: Any
    layers: tuple[slice, ...]
    initial: NDArray[np.float32]
    private: NDArray[np.bool_] | None = None

    dense = False
    sized_by_training = True
    columns = COLUMNS

    @property
    def weights(self) -> int:
        """How many can be pruned."""
        return sum(layer.stop - layer.start for layer in self.layers)

    def mask(self, own: Own) -> Mask | None:
        """A client's mask; None where it has none yet."""
        return unpacked(own["mask"], len(self.initial)) if "mask" in own else None

    def unfinished(self, mask: Mask | None) -> bool:
        """Whether less than the target is pruned."""
        gone = 0 if mask is None else len(mask) - np.count_nonzero(mask)
        return bool(gone < self.rule.target * self.weights)

    def bytes_down(self, dense: int, own: Own) -> int:
        return _sent_bytes(dense, own, self.private)

    def mask_bytes(self, changed: bool) -> int:
        """Bytes that tell the server a mask which is new to it: one bit for each weight that can be pruned."""
        return -(-self.weights // 8) if changed else 0


def kept(mask: Mask, private: NDArray[np.bool_] | None) -> Arrays:
    """A client's mask as it keeps it, and how many values it sends and receives."""
    public = mask if private is None else mask & ~private
    return {"mask": packed(mask), "values": np.int64(np.count_nonzero(public))}


def _sent_bytes(dense: int, own: Own, private: NDArray[np.bool_] | None) -> int:
    """Bytes of the values that pass between the server and a client with this mask; dense ones where it has none."""
    if "values" in own:
        return 4 * int(own["values"])
    return dense - (0 if private is None else 4 * int(private.sum()))


def measured(own: Own, dimension: int, mask_bytes: int) -> dict[str, float]:
    """The cells of an update.

    Args:
        own: what the client keeps.
        dimension: values that a client without a mask sends.
        mask_bytes: what its upload takes to tell its mask.
    """
    values = int(own["values"]) if "values" in own else dimension
    return {"bytes_mask": mask_bytes, "published_mb": 4 * values / 1e6}
