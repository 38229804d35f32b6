"""TensorBoard: an event file in the run's folder ``tensorboard``, as ``simfl export --tensorboard`` writes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simfl.core.errors import requires_extra
from simfl.core.json_data import JsonObject
from simfl.results.export import EventFile
from simfl.runs.tracking.tracker import Tracker


@dataclass
class TensorboardTracker(Tracker):
    """Appends an event a round, so that a running TensorBoard shows it."""

    option = "tensorboard"
    _file: EventFile | None = field(default=None, init=False)

    @classmethod
    def prepare(cls, scenario: str) -> None:
        with requires_extra("tensorboard", "TensorBoard"):
            import tensorboard  # noqa: F401

    def open(self) -> None:
        self._file = EventFile.create(self.folder / "tensorboard", self.digest)

    def write(self, round: int, time_s: float, values: Mapping[str, float]) -> None:
        assert self._file is not None
        self._file.add(round, time_s, values)

    def close(self, summary: JsonObject | None, infinite: Sequence[str] = ()) -> None:
        assert self._file is not None
        self._file.close()
