"""No privacy metric."""

from dataclasses import dataclass
from typing import Any

from simfl.privacy.base import COLUMNS, PRIVACY

__all__ = ["NoMetric"]


@PRIVACY("none")
@dataclass(frozen=True)
class NoMetric:
    """Leaves the privacy columns empty."""

    def columns(self, P: Any) -> dict[str, list[float | int | None]]:
        return {column: [None] * P.shape[0] for column in COLUMNS}
