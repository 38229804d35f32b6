"""No compression."""

from dataclasses import dataclass

from simfl.compression.base import COMPRESSIONS, Compression, Vectors
from simfl.core.payload import VALUE_BYTES, PayloadPart
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Job


@COMPRESSIONS("none")
@dataclass(frozen=True)
class NoCompression(Compression):
    """Four bytes a coordinate."""

    codes = False
    subsamples = False

    def exposes(self, setting: ScenarioView) -> tuple[PayloadPart, ...]:
        return ()

    def size_bytes(self, dimension: int) -> int:
        return VALUE_BYTES * dimension

    def client(self, vectors: Vectors, jobs: tuple[Job, ...], streams: Streams) -> Vectors:
        return vectors
