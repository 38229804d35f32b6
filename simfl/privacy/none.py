"""No privacy metric."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from simfl.core.columns import Column
from simfl.privacy.accountant import History
from simfl.privacy.base import PRIVACY, Privacy


@PRIVACY("none")
@dataclass(frozen=True, kw_only=True)
class NoMetric(Privacy):
    """Leaves the privacy columns empty."""

    columns: ClassVar[tuple[Column, ...]] = ()

    def accounts(self, history: History) -> Mapping[str, Iterable[float | int | None]]:
        return {}
