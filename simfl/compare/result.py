"""A comparison's results, opened again."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from simfl.errors import SimflError
from simfl.sweep.result import SweepResult, table

__all__ = ["ComparisonResult"]


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
        tables = (table(path / name) for name in ("index.csv", "comparison.csv", "paired.csv"))
        return cls(path, *tables, document)

    def show(self) -> None:
        """Prints the tables of ``simfl compare``."""
        from simfl.compare.show import show

        show(self.document)
