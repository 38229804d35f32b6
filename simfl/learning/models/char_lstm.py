"""Models of text: which token comes next."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.learning.models.base import MODELS, Model

if TYPE_CHECKING:
    import torch


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
