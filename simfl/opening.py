"""Results opened again, to work with them in Python: a run, a sweep, a comparison."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from simfl.errors import SimflError
from simfl.results import participation_matrix, read_table
from simfl.scenario import Scenario
from simfl.stored import SCENARIO, Stored, is_finished

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ComparisonResult", "Result", "SweepResult", "open"]


@dataclass(frozen=True)
class Result:
    """A finished run.

    Attributes:
        path: its folder.
        scenario: the resolved scenario.
        rounds: pandas DataFrame, one row a server round.
        participation: scipy CSR array (rounds, clients), the real-valued participation matrix P.
        summary: final values.
    """

    path: Path
    scenario: Scenario
    rounds: Any
    participation: Any
    summary: dict[str, Any]

    @classmethod
    def open(cls, path: Path | str) -> "Result":
        """Reads a results folder.

        Raises:
            SimflError: it holds no finished run.
            IntegrityError: a file of it is damaged.
        """
        stored = Stored.open(path)
        scenario = Scenario.load(stored.file(SCENARIO))
        rounds = read_table(stored.file("rounds.csv"))
        matrix = participation_matrix(stored.file("participation.csv"), len(rounds), scenario.clients)
        return cls(stored.path, scenario, rounds, matrix, stored.summary)

    def figure(self, name: str) -> "Figure":
        """A figure of the run, as a matplotlib Figure."""
        return _figure(self.path, name)


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
        index = Path(path, "index.csv")
        runs = read_table(index)
        if missing := [name for name in ("digest", "seed", "status") if name not in runs]:
            raise SimflError(f"{index}: not the index of a sweep (no column {', '.join(missing)})")
        return cls(Path(path), runs)

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

    def figure(self, name: str) -> "Figure":
        """A figure of all runs, as a matplotlib Figure."""
        return _figure(self.path, name)


@dataclass(frozen=True)
class ComparisonResult(SweepResult):
    """The runs of a comparison and what follows from them.

    Attributes:
        means: DataFrame, a row for each choice and metric: mean over the seeds, standard deviation, 95 % interval.
        paired: DataFrame, a row for each choice but the baseline and each metric: mean difference over the seeds that
            both have, its 95 % interval, the interval if seeds were not shared, and the ratio of the two widths.
        document: all of it as ``comparison.json`` holds it.
    """

    means: Any
    paired: Any
    document: dict[str, Any]

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Reads a comparison's folder.

        Raises:
            SimflError: it holds no comparison.
        """
        path = Path(path)
        try:
            document = json.loads((path / "comparison.json").read_text())
        except (OSError, ValueError) as error:
            raise SimflError(f"{path}: no comparison here ({error})") from None
        runs, means, paired = (read_table(path / name) for name in ("index.csv", "comparison.csv", "paired.csv"))
        return cls(path, runs, means, paired, document)

    def show(self) -> None:
        """Prints the tables of ``simfl compare``."""
        from simfl.compare.show import show

        show(self.document)


def open(path: Path | str) -> Result | SweepResult | ComparisonResult:
    """The results in the folder of a run, a sweep or a comparison.

    Raises:
        SimflError: there are none.
    """
    if is_finished(Path(path)):
        return Result.open(path)
    if Path(path, "comparison.json").exists():
        return ComparisonResult.open(path)
    if Path(path, "sweep.yaml").exists():
        return SweepResult.open(path)
    raise SimflError(f"{path}: no run, sweep or comparison here")


def _figure(path: Path, name: str) -> "Figure":
    from simfl.report import figure

    return figure(path, name)
