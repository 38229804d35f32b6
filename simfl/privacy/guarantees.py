"""The multi-round privacy columns of a run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.columns import Column
from simfl.privacy.base import COLUMNS, PRIVACY, History, Privacy
from simfl.privacy.budget import BUDGET
from simfl.privacy.study import trace
from simfl.types import SERVER

__all__ = ["Guarantees"]


@PRIVACY("multi_round")
@dataclass(frozen=True, kw_only=True)
class Guarantees(Privacy):
    """Strong, semi-strong and weak multi-round privacy of the aggregates. Reference: So et al., arXiv 2106.03328.

    Where clients aggregate, each is an observer of its own sums, who knows its own updates; the columns hold the
    smallest guarantee against any of them.
    """

    every: Annotated[
        int, Field(ge=0, description="rounds between evaluations; 0 = after the last round only (strong: always)")
    ] = 1
    budget: Annotated[
        int, Field(ge=0, le=10**15, description="work of each metric's computation; 10^9 is a few seconds")
    ] = BUDGET

    columns: ClassVar[tuple[Column, ...]] = COLUMNS

    def accounts(self, history: History) -> Mapping[str, Iterable[float | int | None]]:
        seen = [self._trace(_foreign(P, who)) for who, P in history.participation.items()]
        least = [np.fmin.reduce([columns[i] for columns in seen]) for i in range(len(COLUMNS))]
        kinds = (int, float, int, int)
        return {column.name: _listed(values, kind) for column, values, kind in zip(COLUMNS, least, kinds, strict=True)}

    def _trace(self, P: Any) -> tuple[NDArray[np.float64], ...]:
        found = trace(P, self.every, self.budget)
        return found.strong, found.semi_strong, found.weak_lower, found.weak_upper


def _foreign(P: Any, aggregator: int) -> Any:
    """The sums as they look to their aggregator, who knows its own part of them."""
    if aggregator == SERVER:
        return P
    P = P.tocsc(copy=True)
    P.data[P.indptr[aggregator] : P.indptr[aggregator + 1]] = 0
    P.eliminate_zeros()
    return P.tocsr()


def _listed(column: Any, kind: type) -> list[float | int | None]:
    return [None if np.isnan(value) else kind(value) for value in column]
