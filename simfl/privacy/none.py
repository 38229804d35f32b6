"""No privacy metric."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from simfl.privacy.base import PRIVACY

__all__ = ["NoPrivacy"]


@PRIVACY("none")
@dataclass(frozen=True)
class NoPrivacy:
    """Nothing is measured."""

    def columns(self, participation: Any) -> dict[str, Iterable[Any]]:
        return {}
