"""What a model is: a torch module built for a sample's shape and a number of classes."""

from abc import abstractmethod
from typing import Any, Protocol

from simfl.learning.capacity import refuse_too_large
from simfl.registry import Registry

__all__ = ["MODELS", "Model", "check_size"]

BYTES_PER_PARAMETER = 32
"""The server's model, the module, its copy that is measured, the first update and the draws, about."""


class Model(Protocol):
    """A model's YAML choice: a frozen dataclass that imports torch only in ``build``.

    Packages add their own through the entry point group ``simfl.model``.
    """

    @abstractmethod
    def build(self, shape: tuple[int, ...], classes: int) -> Any:
        """A ``torch.nn.Module`` from samples (n, *shape) to logits (n, classes).

        Its initial parameter values are overwritten (:mod:`simfl.learning.models.initial`).

        Raises:
            ScenarioError: the model cannot take samples of this shape.
        """
        ...

    def parameters(self, shape: tuple[int, ...], classes: int) -> int | None:
        """How many parameters it has, told without torch; None where it does not say. ``simfl validate`` asks it.

        Raises:
            ScenarioError: as :meth:`build`.
        """
        return None


MODELS = Registry("model", protocol=Model)


def check_size(model: Any, shape: tuple[int, ...], classes: int) -> bool:
    """Whether a model choice says its size; if it does, it has been compared with the machine's memory.

    Raises:
        ScenarioError: it cannot take such samples, or needs more memory than there is.
    """
    count = model.parameters(shape, classes)
    if count is None:
        return False
    refuse_too_large(BYTES_PER_PARAMETER * count, "model", f"{model.name} of {count:,} parameters")
    return True
