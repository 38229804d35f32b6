"""A user's own data set."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.learning.data.base import DATA, Dataset
from simfl.learning.objects.choice import PythonObject


@DATA("python")
@dataclass(frozen=True)
class PythonData(PythonObject):
    """Your own data set, handed in from Python or named as module:attribute.

    A pair (X, y) of arrays or tensors, a torch, torchvision or Hugging Face data set, two of them as (train, test), or
    a function without arguments that returns one.
    """

    test_fraction: Annotated[
        float, Field(gt=0, lt=1, description="share of the samples kept for the test, where there is no test part")
    ] = 0.2
    scale: Annotated[
        bool, Field(description="mean 0 and variance 1 of the training part, of each channel or column")
    ] = True

    key = "learning.data"
    example = {"object": "simfl.learning.objects.examples:samples"}

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        from simfl.learning.objects.datasets import dataset
        from simfl.learning.objects.fingerprint import fingerprint

        handle = self.handle(setting)
        if fingerprint(handle.value) != handle.fingerprint:
            raise ScenarioError("", f"{self.object} has changed since it was handed in; hand it in again")
        return dataset(self.object, handle.value, self.test_fraction, self.scale, streams)
