"""Sparse models: which weights are pruned, and what clients keep and send of what is left."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.plugins import Arrays, Column
from simfl.plugins.clients import ClientAlgorithm, ClientState, Parameter, PayloadPart

LAYERS = ("Linear", "Conv1d", "Conv2d", "Conv3d")
"""Layers whose weights (never biases) are pruned."""

Mask = NDArray[np.bool_]

MASK = PayloadPart("the mask of the weights that it keeps, which depends on its samples", "mask")
"""Without it nobody could place the surviving values of a sparse model."""

COLUMNS = (
    Column("bytes_mask", "Mask bytes", "bytes", "Bytes of the masks in the updates aggregated, part of bytes_up.", -1,
           "sum", shown=False),
    Column("published_mb", "Published MB", "number",
           "Megabytes of surviving values in the updates aggregated, as FedLTN and LotteryFL count: uploads only, "
           "4 bytes a value, no masks.", -1, "sum"),
)  # fmt: skip


def prunable(parameters: Sequence[Parameter]) -> tuple[slice, ...]:
    """Where the weights of linear and convolutional layers lie, layer by layer."""
    return tuple(p.elements for p in parameters if p.layer in LAYERS and p.name.rpartition(".")[2] == "weight")


def prune(model: NDArray[np.float32], mask: Mask, layers: Sequence[slice], share: float) -> Mask:
    """A mask without this share of each layer's remaining weights, the smallest in magnitude.

    As ``torch.nn.utils.prune.l1_unstructured`` applied again and again: the number is rounded, half to even. ``mask``,
    bool (d,), has the weights that remain, ``layers`` say where each layer's lie.
    """
    mask = mask.copy()
    for layer in layers:
        left = np.flatnonzero(mask[layer])
        if drop := round(share * len(left)):
            order = np.argpartition(np.abs(model[layer][left]), drop - 1)
            mask[layer.start + left[order[:drop]]] = False
    return mask


def unpack_mask(bits: NDArray[np.uint8], dimension: int) -> Mask:
    """A mask of ``numpy.packbits``, bool (dimension,)."""
    return np.unpackbits(bits, count=dimension).view(np.bool_)


@dataclass(frozen=True)
class Sparse(ClientAlgorithm):
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
        """Number of weights that can be pruned."""
        return sum(layer.stop - layer.start for layer in self.layers)

    def mask(self, state: ClientState) -> Mask | None:
        """A client's mask; None where it has none yet."""
        return unpack_mask(state["mask"], len(self.initial)) if "mask" in state else None

    def below_target(self, mask: Mask | None) -> bool:
        """Whether less than the target is pruned."""
        gone = 0 if mask is None else len(mask) - np.count_nonzero(mask)
        return bool(gone < self.rule.target * self.weights)

    def bytes_down(self, dense: int, state: ClientState) -> int:
        if "values" in state:
            return 4 * int(state["values"])
        return dense - (0 if self.private is None else 4 * int(self.private.sum()))

    def mask_bytes(self, changed: bool) -> int:
        """Bytes that tell the server a mask which is new to it: one bit for each weight that can be pruned."""
        return -(-self.weights // 8) if changed else 0


def mask_state(mask: Mask, private: NDArray[np.bool_] | None) -> Arrays:
    """A client's mask as it keeps it, and how many values it sends and receives."""
    public = mask if private is None else mask & ~private
    return {"mask": np.packbits(mask), "values": np.int64(np.count_nonzero(public))}


def sparsity_row(state: ClientState, dimension: int, mask_bytes: int) -> dict[str, float]:
    """The cells of an update in the columns of sparse models; a client without a mask sends ``dimension`` values."""
    values = int(state["values"]) if "values" in state else dimension
    return {"bytes_mask": mask_bytes, "published_mb": 4 * values / 1e6}
