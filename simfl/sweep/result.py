"""A sweep's results, opened again."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from simfl.errors import SimflError
from simfl.results import Result

__all__ = ["SweepResult", "table"]


@dataclass(frozen=True)
class SweepResult:
    """The runs of a sweep.

    Attributes:
        path: the sweep's folder; the runs' folders lie beside it.
        runs: pandas DataFrame, one row a run: digest, the keys that were varied, seed, status (done, failed or open),
            final values, error.
    """

    path: Path
    runs: Any

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Reads a sweep's folder.

        Raises:
            SimflError: it holds no sweep.
        """
        return cls(Path(path), table(Path(path, "index.csv")))

    @property
    def failed(self) -> Any:
        """The rows of the runs that failed."""
        return self.runs[self.runs.status == "failed"]

    def result(self, digest: str) -> Result:
        """The complete results of one run.

        Raises:
            SimflError: the run is not complete.
        """
        return Result.open(self.path.parent / digest)

    def results(self) -> Iterator[Result]:
        """The complete results of every run that is done, in the order of ``runs``."""
        return (self.result(digest) for digest in self.runs.digest[self.runs.status == "done"])

    def figure(self, name: str) -> Any:
        """A figure of all runs, as a matplotlib Figure."""
        from simfl.report import draw

        return draw(name, self.path)[0]


def table(path: Path) -> Any:
    """A CSV file as a DataFrame; digests stay text, though some look like numbers.

    Raises:
        SimflError: it cannot be read.
    """
    import pandas

    try:
        return pandas.read_csv(path, dtype={"digest": str, "error": str, "choice": str, "baseline": str})
    except (OSError, ValueError) as error:
        raise SimflError(f"{path}: cannot be read ({error})") from None
