"""Secure aggregation among everybody (Bonawitz et al., CCS 2017)."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from simfl.secagg.base import PROTOCOLS
from simfl.secagg.pairwise import PairwiseMasks


@PROTOCOLS("secagg")
@dataclass(frozen=True, kw_only=True)
class SecAgg(PairwiseMasks):
    """Every pair of clients has a mask, every client one of its own; shares of the others' secrets take them off.

    The sum stays hidden from a server with up to ``threshold`` of the others; it needs more than those to answer.
    """

    threshold: Annotated[
        float, Field(ge=0, lt=1, description="share of the other clients who, with the server, learn nothing")
    ] = 0.5

    def sizes(self, n: int) -> tuple[int, int] | None:
        return (n - 1, int(self.threshold * (n - 1)) + 1) if n > 1 else None
