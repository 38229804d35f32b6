"""A user's own torch module as a model."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.learning.models.base import MODELS, BuildableModel
from simfl.learning.objects.choice import PythonObject

if TYPE_CHECKING:
    import torch


@MODELS("python")
@dataclass(frozen=True)
class PythonModel(PythonObject):
    """A torch.nn.Module of your own: passed from Python, or named as module:attribute.

    An instance begins with its own values. A class or function is called, with the data's sizes as far as its
    parameters are called shape, in_features, in_channels or num_classes, and begins with what it draws.
    """

    tokens = None
    key = "learning.model"
    example = {"object": "simfl.learning.objects.examples:network"}

    def prepare(self, setting: ScenarioView) -> BuildableModel:
        from simfl.learning.objects.networks import UserNetwork

        seed = int(Streams(setting.seed)("model").integers(2**63))
        return UserNetwork(self.object, self.handle(setting).value, seed)

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        raise NotImplementedError("prepare() gives the model that can be built")
