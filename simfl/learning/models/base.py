"""What a model is: a torch module built for a sample's shape and a number of classes."""

from abc import abstractmethod
from typing import Any, Protocol

from simfl.registry import Registry

__all__ = ["MODELS", "Model"]


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


MODELS = Registry("model", protocol=Model)
