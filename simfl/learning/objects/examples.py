"""What ``module:attribute`` may name: a model, data, a partition and a training function, as a user writes them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


def network(in_features: int, num_classes: int) -> "torch.nn.Module":
    """One linear layer."""
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(in_features, num_classes))


def samples() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Points in the plane, (200, 2), in two classes: whether their coordinates have the same sign."""
    x = np.random.default_rng(0).standard_normal((200, 2))
    return x, (x.prod(axis=1) > 0).astype(np.int64)


def in_turn(labels: NDArray[np.int64], clients: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Samples are dealt out in turn, in random order."""
    order = rng.permutation(len(labels))
    return [order[client::clients] for client in range(clients)]


def descend(
    model: "torch.nn.Module", data: tuple["torch.Tensor", "torch.Tensor"], settings: Mapping[str, Any]
) -> float:
    """Steps of gradient descent on all samples of a client at once, as many as there are epochs."""
    from torch import nn, optim

    optimiser = optim.SGD(model.parameters(), settings["learning_rate"])
    for _ in range(settings["local_epochs"]):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(data[0]), data[1])
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return loss.item()
