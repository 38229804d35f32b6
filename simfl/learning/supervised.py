"""Supervised learning on real data: the learner of every scenario that trains something."""

from dataclasses import dataclass, field, replace
from math import inf
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from simfl.core.columns import Column
from simfl.core.processor import BF16_CAUTION, processor
from simfl.core.registration.protocol import SINCE_LATER, is_foreign
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.learning.backends.base import BACKENDS
from simfl.learning.backends.choices import Auto
from simfl.learning.base import LEARNING, Learner
from simfl.learning.data.base import DATA
from simfl.learning.holdout import Holdout
from simfl.learning.models.base import MODELS, check_size, check_tokens
from simfl.learning.partitions.base import PARTITIONS, Iid
from simfl.learning.scores import (
    BEST_COLUMNS,
    COLUMNS,
    VALIDATION_COLUMNS,
    EvaluationField,
    EvaluationSettings,
    on_training_samples,
)
from simfl.learning.transforms.base import TRANSFORMS, Unchanged
from simfl.learning.work import Augment

ALONE = "the training function keeps nothing of a client where pickling does not see it, as in files, modules or caches"


@LEARNING("supervised")
@dataclass(frozen=True)
class Supervised:
    """Supervised learning: a data set, split over the clients, and a model that they train together."""

    data: Annotated[Any, DATA]
    model: Annotated[Any, MODELS]
    loss: Annotated[
        Literal["cross_entropy", "mse", "l1", "huber", "bce"] | None,
        Field(description="what is minimised; null = the model's method loss, or else cross_entropy of classes"),
    ] = field(default=None, metadata=SINCE_LATER)
    partition: Annotated[Any, PARTITIONS] = Iid()
    transform: Annotated[
        Any, TRANSFORMS, Field(description="what is done to the data, perhaps not to the test part")
    ] = Unchanged()
    holdout: Annotated[
        Holdout | None, Field(description="what clients keep for validation and own tests; null = they train on all")
    ] = None
    augment: Annotated[Augment | None, Field(description="random crops and flips of training images")] = None
    evaluate: EvaluationField = EvaluationSettings()
    backend: Annotated[Any, BACKENDS] = Auto()
    device: Annotated[
        Literal["auto", "cpu", "cuda", "cuda_tf32"],
        Field(description="where tensors live; auto = cuda where there is one; cuda_tf32 = with products in TF32"),
    ] = "cpu"
    bf16: Annotated[
        bool, Field(description="compute products in bfloat16: faster where the processor can, else much slower")
    ] = False

    norm_statistics: Annotated[
        Literal["private", "averaged"],
        Field(description="running statistics of norm layers: only where they stay with the clients, or anywhere"),
    ] = "private"

    example = {"data": "digits", "model": "mlp"}

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        """Own samples of clients that get others with every version."""
        if self.evaluate.best and not self.evaluate.per_client:
            return [("evaluate.best", "is about each client's own accuracy; set evaluate.per_client to true, too")]
        if self.evaluate.validation and self.holdout is not None and self.holdout.foreign:
            return [("evaluate.validation", "takes of the test part, on which clients test, too; use holdout.test")]
        if self.holdout is None or not self.partition.changes:
            return []
        why = f"sets samples aside once, but partition: {self.partition.name} gives clients others over time"
        return [("holdout", f"{why}; leave one of the two out")]

    def cautions(self, setting: ScenarioView) -> list[str]:
        """A precision that the processor of this machine has no instructions for."""
        slow = self.bf16 and self.device == "cpu" and processor().bf16 is False
        return [BF16_CAUTION] if slow else []

    @property
    def external(self) -> tuple[int, ...]:
        return self.backend.external

    @property
    def uses_cluster(self) -> bool:
        return bool(self.backend.uses_cluster)

    def without_remote_clients(self) -> Self:
        return replace(self, backend=self.backend.without_remote_clients())

    @property
    def evaluate_every(self) -> int:
        return self.evaluate.every

    @property
    def columns(self) -> tuple[Column, ...]:
        return (VALIDATION_COLUMNS if self.evaluate.validation else ()) + self._client_columns()

    def _client_columns(self) -> tuple[Column, ...]:
        if not self.evaluate.per_client:
            return ()
        columns = COLUMNS + BEST_COLUMNS if self.evaluate.best else COLUMNS
        if self.holdout is None or not self.holdout.tests:
            return tuple(on_training_samples(column, "on training samples") for column in columns)
        origins = self.transform.origins(1)
        alone = self.partition.disjoint and origins is not None and len(origins) == 1
        alone = alone or not self.holdout.test  # these are of the data's test part
        return columns if alone else tuple(on_training_samples(each, "perhaps trained on") for each in columns)

    @property
    def validates(self) -> bool:
        return self.holdout is not None and self.holdout.validation > 0

    @property
    def tokens(self) -> bool:
        return bool(self.model.tokens)

    @property
    def steepness(self) -> float | None:
        """Infinite also where a sample may decide what others are, or which of them a client trains on."""
        alone = self.holdout is None and self.transform.origins(1) is not None
        known = alone and self.backend.plain_sgd and self.loss in (None, "cross_entropy")
        return float(self.model.steepness) if known else inf

    @property
    def everybody_holds_samples(self) -> bool:
        return bool(self.partition.leaves_nobody_out and self.holdout is None)

    @property
    def by_seed(self) -> bool:
        return bool(self.partition.by_seed or self.data.by_seed)

    @property
    def per_client(self) -> bool:
        """A backend of a plugin that says no more of its steps may let one client's samples move another's."""
        return bool(self.backend.plain_sgd or not is_foreign(self.backend))

    @property
    def premise(self) -> str:
        return ALONE if self.backend.own_steps else ""

    @property
    def counts_change(self) -> bool:
        return bool(self.partition.counts_change)

    @property
    def measures_losses(self) -> bool:
        return not self.external

    def preview(self, setting: ScenarioView) -> list[str]:
        """Compares the data's headers with the model, without torch; what this leaves unchecked.

        Raises:
            ScenarioError, MissingError: as ``build``.
        """
        outline = self.data.outline(setting)
        if outline is None:
            return [f"the content of data '{self.data.name}', and what is made of it"]
        outline = self.transform.outline(outline)
        if self.augment is not None:
            self.augment.suiting(outline.shape, self.data.name)
        check_tokens(self.model, outline.tokens)
        sized = check_size(self.model, outline.shape, outline.classes)
        checked = {
            f"model '{self.model.name}'": sized,
            f"partition '{self.partition.name}' of these data": self.partition.always_possible,
            f"backend '{self.backend.name}'": isinstance(self.backend, Auto),
            f"device '{self.device}'": not self.device.startswith("cuda"),
        }
        return [what for what, done in checked.items() if not done]

    def build(self, setting: ScenarioView, streams: Streams) -> Learner:
        from simfl.learning.learner import SupervisedLearner

        ready = {name: vars(self)[name].prepare(setting) for name in ("model", "partition", "backend")}
        return SupervisedLearner(replace(self, **ready), setting, streams)
