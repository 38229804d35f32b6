"""What a model is: a torch module built for a sample's shape and a number of classes."""

from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Protocol, cast

from simfl.core.errors import ScenarioError
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Vectors
from simfl.learning.capacity import refuse_too_large
from simfl.learning.objects.shorthand import shorthand

if TYPE_CHECKING:
    import torch

BYTES_PER_PARAMETER = 32
"""The server's model, the module, its copy that is measured, the first update and the draws, about."""


class BuildableModel(Protocol):
    """What a model choice is for training: see :class:`Model`, whose methods these are; ``tokens`` None = either."""

    name: str

    @property
    def tokens(self) -> bool | None: ...

    @property
    def steepness(self) -> float: ...

    @property
    def smoothness(self) -> float: ...

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module": ...

    def initial_values(self) -> "Vectors | None": ...

    def parameters(self, shape: tuple[int, ...], classes: int) -> int | None: ...


class Model(Plugin, Protocol):
    """A model's YAML choice: a frozen dataclass that imports torch only in ``build``.

    Packages add their own through the entry point group ``simfl.model``. Logistic regression of 8 x 8 pixels in ten
    classes has (64 + 1) * 10 parameters:

    >>> import torch
    >>> from simfl.learning.models.dense import Logistic
    >>> model = Logistic()
    >>> model.parameters((1, 8, 8), 10)
    650
    >>> tuple(model.build((1, 8, 8), 10)(torch.zeros(2, 1, 8, 8)).shape)
    (2, 10)

    Attributes:
        tokens: samples are int64 tokens, each 0 .. classes - 1, not float32 numbers; None: either.
        steepness: where the cross-entropy of one sample is convex in the parameters, the most that its gradient is
            long, over the length of the sample with a 1 for the intercept; infinite = it is not convex, or nobody says.
        smoothness: the same of the largest eigenvalue of its second derivative, over the square of that length.
    """

    tokens: bool | None = False
    steepness: float = inf
    smoothness: float = inf

    @abstractmethod
    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        """A ``torch.nn.Module`` from samples (n, *shape) to logits (n, classes).

        Its initial parameter values are overwritten (:mod:`simfl.learning.models.build`).

        Raises:
            ScenarioError: the model cannot take samples of this shape.
        """

    def prepare(self, setting: ScenarioView) -> BuildableModel:
        """The model that can be built, where that takes something from the scenario around it; itself as a rule.

        Raises:
            ScenarioError: what it needs is not there.
        """
        return cast(BuildableModel, self)

    def initial_values(self) -> "Vectors | None":
        """The initial model, (d,), of a module that was built with its own values; None where simfl draws them."""
        return None

    def parameters(self, shape: tuple[int, ...], classes: int) -> int | None:
        """How many parameters it has, told without torch; None where it does not say. ``simfl validate`` asks it.

        Raises:
            ScenarioError: as :meth:`build`.
        """
        return None


MODELS = Registry[Model](
    "model",
    shorthand=shorthand,
    promises=("steepness", "smoothness"),
    protocol=Model,
    modules=modules_of(
        "simfl.learning.models",
        "python",
        conv="cnn_mnist lenet5 multiround_cifar multiround_mnist resnet18_bn resnet18_gn resnet8 vgg11",
        dense="binary_logistic char_lstm logistic mlp",
    ),
)


def check_tokens(model: BuildableModel, tokens: bool) -> None:
    """Compares what a model choice takes with what samples are; a user's module may take either.

    Raises:
        ScenarioError: one is tokens and the other numbers.
    """
    if model.tokens is None:
        return
    if tokens and not model.tokens:
        raise ScenarioError("model", f"{model.name} takes numbers, and the samples are tokens; char_lstm takes them")
    if model.tokens and not tokens:
        raise ScenarioError(
            "model", f"{model.name} takes tokens (as of markov_text), and the samples are numbers; mlp takes them"
        )


def check_size(model: BuildableModel, shape: tuple[int, ...], classes: int) -> bool:
    """Whether a model choice says its size; if it does, it has been compared with the machine's memory.

    Raises:
        ScenarioError: it cannot take such samples, or needs more memory than there is.
    """
    count = model.parameters(shape, classes)
    if count is None:
        return False
    refuse_too_large(BYTES_PER_PARAMETER * count, "model", f"{model.name} of {count:,} parameters")
    return True


def parameter_count(channels: Sequence[int], units: Sequence[int], kernel: int = 5) -> int:
    """Parameters of convolutions between so many channels and of linear layers between so many units, with biases."""
    convolutions = sum((kernel * kernel * inputs + 1) * outputs for inputs, outputs in pairwise(channels))
    return convolutions + sum((inputs + 1) * outputs for inputs, outputs in pairwise(units))
