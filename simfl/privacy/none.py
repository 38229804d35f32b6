"""No privacy metric."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from simfl.columns import Column
from simfl.privacy.base import PRIVACY, History, Privacy

__all__ = ["NoMetric"]


@PRIVACY("none")
@dataclass(frozen=True, kw_only=True)
class NoMetric(Privacy):
    """Leaves the privacy columns empty."""

    columns: ClassVar[tuple[Column, ...]] = ()

    def accounts(self, history: History) -> Mapping[str, Iterable[float | int | None]]:
        return {}
