"""The multi-round privacy columns of a run."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from simfl.privacy.base import COLUMNS, PRIVACY
from simfl.privacy.budget import BUDGET
from simfl.privacy.study import trace

__all__ = ["Guarantees"]


@PRIVACY("multi_round")
@dataclass(frozen=True)
class Guarantees:
    """Strong, semi-strong and weak multi-round privacy of the aggregates. Reference: So et al., arXiv 2106.03328."""

    every: Annotated[
        int, Field(ge=0, description="rounds between evaluations; 0 = after the last round only (strong: always)")
    ] = 1
    budget: Annotated[
        int, Field(ge=0, le=10**15, description="work of each metric's computation; 10^9 is a few seconds")
    ] = BUDGET

    def columns(self, P: Any) -> dict[str, list[float | int | None]]:
        found = trace(P, self.every, self.budget)
        whole = [_listed(c, int) for c in (found.strong, found.weak_lower, found.weak_upper)]
        return dict(zip(COLUMNS, [whole[0], _listed(found.semi_strong, float), *whole[1:]], strict=True))


def _listed(column: Any, kind: type) -> list[float | int | None]:
    return [None if np.isnan(value) else kind(value) for value in column]
