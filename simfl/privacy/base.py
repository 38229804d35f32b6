"""What every choice of a scenario's ``privacy`` has: stages, accountants, and columns."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from pydantic import Field

from simfl.core.columns import ROUND_COLUMNS
from simfl.core.coverage import blind_noise
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.scenario_view import ScenarioView
from simfl.privacy.accountant import ACCOUNTANTS, Accountant
from simfl.privacy.dp.stages.clip import fits, is_sum
from simfl.privacy.stage import STAGES, Stage

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

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        """Stages in an order in which they cannot work, and noise that is not what its epsilon is of."""
        early = [i for i, stage in enumerate(self.stages[:-1]) if stage.whole]
        problems = [(f"stages.{i}", "sends whole numbers; only the last stage can") for i in early]
        for i, stage in enumerate(self.stages):
            problems += [(f"stages.{i}", why) for why in _unfit(stage, setting)]
        return [*problems, *self._changed_noise()]

    def _changed_noise(self) -> Iterator[tuple[str, str]]:
        """Stages that come after noise in the sum, and change its shares or what it is made for.

        Shares of noise are what they say only where they are summed as they are. Where the server adds the noise, to
        sums of updates that are bounded, these must not become longer. Noise that covers each update by itself does so
        whatever becomes of it.
        """
        for i, noise in enumerate(self.stages):
            if noise.at_client or noise.whole or not (noise.observer or noise.certificate):
                continue  # whole numbers have to be last
            for j, stage in enumerate(self.stages[i + 1 :], i + 1):
                if not (noise.at_server and stage.shortens):
                    why = f"changes what the noise of privacy.stages: {noise.name} is made for"
                    yield f"stages.{j}", f"{why}; put stage {stage.name} before {noise.name}, or leave it out"


def _unfit(stage: Stage, setting: ScenarioView) -> Iterator[str]:
    """What a stage's noise cannot do without in a scenario, and has not."""
    noisy = stage.observer or stage.certificate
    if stage.observer:
        yield from (why for _, why in fits(setting))
    if noisy and not stage.at_client:
        yield from (why for _, why in is_sum(setting))
    if noisy and not stage.at_server and (why := blind_noise(setting)):
        yield why
    unnamed = next((column.name for column in stage.columns if column.name.startswith("epsilon")), "")
    if unnamed and not stage.certificate:
        yield f"fills '{unnamed}', but does not say what that is of; name it as the stage's certificate"
