"""Models of fully connected layers only, and the one of text: which token comes next."""

from dataclasses import dataclass
from itertools import pairwise
from math import prod, sqrt
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.learning.models.base import MODELS, Model, parameter_count

if TYPE_CHECKING:
    import torch


@MODELS("logistic")
@dataclass(frozen=True)
class Logistic:
    """Multinomial logistic regression: one linear layer and a softmax.

    The gradient of a sample's loss is (p - y) (x, 1)', and chances p differ from a label y by sqrt(2) at most;
    the second derivative is (diag(p) - p p') (x, 1)(x, 1)', whose first factor has no eigenvalue above 1/2.
    """

    steepness = sqrt(2)
    smoothness = 0.5

    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        return parameter_count((), (prod(shape), classes))

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        return _dense((prod(shape), classes))


@MODELS("binary_logistic")
@dataclass(frozen=True)
class BinaryLogistic:
    """Logistic regression of two classes: one weight a feature and an intercept; 1-Lipschitz and 1/4-smooth in
    the margin.
    """

    steepness = 1.0
    smoothness = 0.25

    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        if classes != 2:
            raise ScenarioError("model", f"binary_logistic tells two classes apart, and there are {classes}")
        return parameter_count((), (prod(shape), 1))

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        from torch import nn

        from simfl.learning.models.resnet import Margin

        return nn.Sequential(nn.Flatten(), nn.Linear(self.parameters(shape, classes) - 1, 1), Margin())


@MODELS("mlp")
@dataclass(frozen=True)
class Mlp:
    """Multilayer perceptron with ReLU units."""

    hidden: Annotated[
        tuple[Annotated[int, Field(ge=1, le=100_000)], ...],
        Field(min_length=1, max_length=20, description="units of each hidden layer"),
    ] = (64,)

    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        return parameter_count((), (prod(shape), *self.hidden, classes))

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        return _dense((prod(shape), *self.hidden, classes))


def _dense(sizes: tuple[int, ...]) -> "torch.nn.Module":
    from torch import nn

    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@MODELS("char_lstm")
@dataclass(frozen=True)
class CharLstm(Model):
    """The next character of a text: an embedding, LSTM layers, and a linear layer on the last state.

    With embedding 8, two layers of 256 units and 80 characters it is the model of the benchmark LEAF (Caldas et al.
    2018) for Shakespeare's plays, of 819,920 parameters (torch's LSTM has two biases a unit where others have one).
    """

    embedding: Annotated[int, Field(ge=1, le=10_000, description="numbers that stand for a character")] = 8
    hidden: Annotated[int, Field(ge=1, le=10_000, description="units of each LSTM layer")] = 32
    layers: Annotated[int, Field(ge=1, le=20, description="LSTM layers")] = 1

    tokens = True

    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        if len(shape) != 1:
            raise ScenarioError("", f"{self.name} takes lists of tokens, not samples of shape {list(shape)}")
        inputs = self.embedding + (self.layers - 1) * self.hidden
        recurrent = 4 * self.hidden * (inputs + self.layers * (self.hidden + 2))
        return classes * self.embedding + recurrent + (self.hidden + 1) * classes

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        from simfl.learning.models.resnet import NextToken

        self.parameters(shape, classes)
        return NextToken(classes, self.embedding, self.hidden, self.layers)
