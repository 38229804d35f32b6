"""What every choice of a scenario's ``privacy`` has: stages, accountants, and columns."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from pydantic import Field

from simfl.core.columns import ROUND_COLUMNS
from simfl.core.coverage import blind_noise
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.scenario_view import ScenarioView
from simfl.privacy.accountant import ACCOUNTANTS, Accountant
from simfl.privacy.stage import STAGES

COLUMNS = tuple(column for column in ROUND_COLUMNS if column.name.startswith("privacy_"))
"""The columns of ``rounds.csv`` that belong to the scenario's ``privacy``."""


PRIVACY = Registry[Accountant](
    "privacy",
    default="multi_round",
    protocol=Accountant,
    modules=modules_of("simfl.privacy", "none", multi_round="multiround.guarantees"),
)


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """What every choice of ``privacy`` has besides its own metrics, of which it is the first accountant."""

    stages: Annotated[
        tuple[Annotated[Any, STAGES], ...], Field(description="what is done to updates and their sum, in order")
    ] = ()
    accountants: Annotated[
        tuple[Annotated[Any, ACCOUNTANTS], ...] | None,
        Field(description="what else is said of what the sums give away; null = zero_out where a stage adds noise"),
    ] = None

    def resolve(self, setting: ScenarioView) -> Self:
        """With the accountant of what the stages protect."""
        if self.accountants is not None:
            return self
        return replace(self, accountants=tuple(ACCOUNTANTS.of("zero_out") for _ in self.stages[:1] if self.protects))

    @property
    def protects(self) -> bool:
        """Whether a stage adds noise."""
        return any(stage.observer for stage in self.stages)

    @property
    def recovery_budget(self) -> int:
        """Operations that measuring what is recovered of single updates may take; 0 = it is not measured."""
        return 0

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        """Stages in an order in which they cannot work, or at clients who do not know what is summed."""
        early = [i for i, stage in enumerate(self.stages[:-1]) if stage.whole]
        problems = [(f"stages.{i}", "sends whole numbers; only the last stage can") for i in early]
        if problem := blind_noise(setting):
            problems += [(f"stages.{i}", problem) for i, stage in enumerate(self.stages) if stage.at_client]
        return problems
