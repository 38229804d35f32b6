"""What every choice of a scenario's ``privacy`` has: stages, accountants, and columns."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field

from simfl.core.columns import ROUND_COLUMNS, Column
from simfl.core.coverage import blind_noise
from simfl.core.payload import SUMMABLE, Kind
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.scenario_view import ScenarioView
from simfl.privacy.accountant import ACCOUNTANTS, Accountant, History
from simfl.privacy.certify.chain import Beside, candidates, is_known, noise_where
from simfl.privacy.certify.maps import fits
from simfl.privacy.stage import STAGES, Stage

COLUMNS = tuple(column for column in ROUND_COLUMNS if column.name.startswith("privacy_"))
"""The columns of ``rounds.csv`` that belong to the scenario's ``privacy``."""


PRIVACY = Registry[Accountant](
    "privacy",
    default="multi_round",
    promises=("covers",),
    protocol=Accountant,
    modules=modules_of("simfl.privacy", base="none", **{"multiround.guarantees": "multi_round"}),
)


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """What every choice of ``privacy`` has besides its own metrics, of which it is the first accountant."""

    covers: ClassVar[frozenset[Kind]] = SUMMABLE

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
        """Stages in an order in which they cannot work, and noise that is not what its epsilon is of."""
        early = [i for i, stage in enumerate(self.stages[:-1]) if stage.whole]
        problems = [(f"stages.{i}", "sends whole numbers; only the last stage can") for i in early]
        for i, stage in enumerate(self.stages):
            problems += [(f"stages.{i}", why) for why in _unfit(stage, setting)]
        return [*problems, *self._changed_noise(setting)]

    def _changed_noise(self, setting: ScenarioView) -> Iterator[tuple[str, str]]:
        """Stages for which the noise of another one protects nothing that is known.

        Shares of noise are what they say only where they are summed as they are. Where the server adds noise, what it
        adds it to must have a bound. Noise that covers each update by itself does so whatever becomes of it.
        """
        stages = self.stages
        known = bool(candidates(stages, [{}] * len(stages), Beside.of(setting)))
        for i, noise in enumerate(stages):
            if noise.whole or (not noise.certificate and (noise.adds_noise is None or known)):
                continue
            ends = noise.certificate or noise.adds_noise.where == "share"
            unknown = [j for j in range(len(stages)) if j != i and not is_known(stages[j])]
            for j in range(i + 1, len(stages)) if ends else unknown:
                why = f"changes what the noise of privacy.stages: {noise.name} is made for"
                before = f"put stage {stages[j].name} before {noise.name}" if j > i else "say what it does (maps)"
                yield f"stages.{j}", f"{why}; {before}, or leave it out"


def _unfit(stage: Stage, setting: ScenarioView) -> Iterator[str]:
    """What a stage's noise cannot do without in a scenario, and has not."""
    where = noise_where(stage)
    if where:
        yield from (why for _, why in fits(setting))
    aggregate = setting.training.aggregate
    if where != "client" and (where or stage.certificate) and not aggregate.sum_only:
        yield f"noises a sum, but the aggregate {aggregate.name} is none; use training.aggregate: mean"
    if where != "server" and (where or stage.certificate) and (why := blind_noise(setting)):
        yield why
    unnamed = next((column.name for column in stage.columns if column.name.startswith("epsilon")), "")
    if where == "server" and setting.secagg.moves_sums == "around":
        yield f"noises a sum that may wrap by one update (secagg: {setting.secagg.name}); use secagg.on_wrap: stop"
    if stage.certificate and not is_known(stage):
        yield f"has an epsilon of its own, '{stage.certificate}', but does not say what it does to updates (maps)"
    if stage.certificate and not setting.training.keeps_changes:
        why = "does not say that it sums what clients train (sends_changes)"
        yield f"has an epsilon of what clients train, but training: {setting.training.name} {why}"
    if unnamed and not stage.certificate:
        yield f"fills '{unnamed}', but does not say what that is of; name it as the stage's certificate"


@PRIVACY("none")
@dataclass(frozen=True, kw_only=True)
class NoMetric(Privacy):
    """Leaves the privacy columns empty."""

    columns: ClassVar[tuple[Column, ...]] = ()

    def accounts(self, history: History) -> Mapping[str, Iterable[float | int | None]]:
        return {}
