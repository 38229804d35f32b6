"""Secure aggregation among neighbours (Bell et al., CCS 2020)."""

from dataclasses import dataclass
from math import floor
from typing import Annotated

from pydantic import Field

from simfl.core.scenario_view import ScenarioView
from simfl.secagg.base import PROTOCOLS
from simfl.secagg.neighbours import degree_and_threshold
from simfl.secagg.pairwise import PairwiseMasks
from simfl.secagg.sessions import Cohort


@PROTOCOLS("secagg_plus")
@dataclass(frozen=True, kw_only=True)
class SecAggPlus(PairwiseMasks):
    """SecAgg in which each client has a few neighbours on a random circle: as many as the rates below ask for."""

    corrupted: Annotated[float, Field(ge=0, lt=1, description="share of the clients who collude with the server")] = 0.1
    dropped: Annotated[
        float, Field(ge=0, lt=1, description="share of the clients whose updates are lost; those of broken units too")
    ] = 0.1
    security_bits: Annotated[float, Field(ge=1, le=256, description="a breach is as likely as 2 to minus this")] = 40.0
    correctness_bits: Annotated[float, Field(ge=1, le=256, description="a failure within those rates, likewise")] = 30.0
    neighbours: Annotated[
        int | None,
        Field(ge=2, multiple_of=2, description="of each client, with threshold; null = as few as are safe"),
    ] = None
    threshold: Annotated[int | None, Field(ge=1, description="shares that open a secret, with neighbours")] = None

    def sizes(self, n: int) -> tuple[int, int] | None:
        if self.neighbours is not None and self.threshold is not None:
            return (self.neighbours, self.threshold) if self.neighbours < n else None
        return degree_and_threshold(n, self.corrupted, self.dropped, self.security_bits, self.correctness_bits)

    def known(self, cohort: Cohort) -> dict[str, int]:
        known, n = super().known(cohort), cohort.units.size
        if known and self.neighbours is None:
            rates = {"colluding_at_random": self.corrupted, "dropouts_at_random": self.dropped}
            known |= {name: floor(round(rate * n, 9)) for name, rate in rates.items()}
        return known

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems, n = super().check(setting), setting.selection.k
        if (self.neighbours is None) != (self.threshold is None):
            problems.append(("neighbours", "and threshold are given together, or neither is"))
        elif self.neighbours is not None and self.threshold is not None and self.threshold > self.neighbours:
            problems.append(("threshold", f"is {self.threshold}; of {self.neighbours} neighbours no more can answer"))
        elif n is not None and self.neighbours is not None and self.neighbours >= n:
            most = (n - 1) // 2 * 2
            valid = f"the largest even number is {most}" if most else "use secagg"
            problems.append(
                ("neighbours", f"is {self.neighbours}, but each of {n} clients has {n - 1} others; {valid}")
            )
        elif n is not None and self.sizes(n) is None:
            problems.append((
                "name", f"of {n} clients, no number of neighbours below {n - 1} is safe at these rates; use secagg"
            ))  # fmt: skip
        return problems
