"""Random crops and flips of training images, drawn from a named stream a job."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from simfl.core.errors import ScenarioError


@dataclass(frozen=True)
class Augment:
    """What happens to an image each time it is used for training; test images stay as they are."""

    crop: Annotated[
        int,
        Field(ge=0, le=64, description="pixels of border added on every side (the mean colour), then cut at random"),
    ] = 0
    flip: Annotated[bool, Field(description="mirror half of the images left to right")] = False

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    def suiting(self, shape: tuple[int, ...], data: str) -> "Augment | None":
        """Itself for samples of a shape, None where it changes nothing; ``data`` names the data set in the message.

        Raises:
            ScenarioError: they are no images.
        """
        if not (self.crop or self.flip):
            return None
        if len(shape) != 3:
            raise ScenarioError("augment", f"the samples of {data} are no images")
        return self

    @property
    def variants(self) -> int:
        """Number of equally likely versions of an image; version v is offset v // 2, mirrored where v is odd.

        The offset (row, column) is numbered row * (2 * crop + 1) + column.
        """
        return 2 * (2 * self.crop + 1) ** 2

    def draw(self, rng: np.random.Generator, samples: int) -> NDArray[np.int64]:
        """The version of each sample, shape (samples,)."""
        versions = rng.integers(self.variants, size=samples)
        return versions if self.flip else versions // 2 * 2
