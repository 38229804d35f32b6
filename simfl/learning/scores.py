"""When a global model is measured, and the numbers that are reported of its predictions."""

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, ConfigDict, Field

from simfl.core.columns import Column
from simfl.core.errors import ScenarioError
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.rng import Streams

Losses = NDArray[np.float64]
Classes = NDArray[np.int64]

METRIC = "metric_"
"""Stands before the names of what a model's method ``metrics`` says, in evaluation.csv and summary.json."""


def correct(loss: Losses, predicted: Classes, labels: Classes) -> NDArray[np.float64]:
    """1 for each sample, (n,), that is classified rightly, else 0; NaN where its loss (cross-entropy) is not finite.

    A model whose outputs are no numbers predicts nothing, whatever class the largest of them would be.
    """
    return np.where(np.isfinite(loss), predicted == labels, np.nan)


def overall_scores(loss: Losses, predicted: Classes, labels: Classes, classes: int) -> dict[str, float]:
    """``test_loss`` and ``test_accuracy``; with two classes ``test_mcc`` too. Not finite where the model diverged."""
    right = correct(loss, predicted, labels)
    scores = {"test_loss": float(loss.mean()), "test_accuracy": float(right.mean())}
    if classes == 2:
        scores["test_mcc"] = float("nan") if np.isnan(right).any() else matthews(predicted, labels)
    return scores


def matthews(predicted: Classes, labels: Classes) -> float:
    """Matthews correlation of two-class predictions, 0 where it is undefined. Reference: Matthews 1975."""
    table = np.bincount(2 * labels + predicted, minlength=4).astype(float)  # true 0: 0, 1; true 1: 2, 3
    true_negative, false_positive, false_negative, true_positive = table
    product = (
        (true_positive + false_positive)
        * (true_positive + false_negative)
        * (true_negative + false_positive)
        * (true_negative + false_negative)
    )
    if not product:
        return 0.0
    return float((true_positive * true_negative - false_positive * false_negative) / np.sqrt(product))


def class_scores(loss: Losses, predicted: Classes, labels: Classes, classes: int) -> dict[str, float]:
    """``test_loss_class_i`` and ``test_accuracy_class_i`` of every class i.

    NaN where it has no test sample; not finite where the model diverged.
    """
    count = np.bincount(labels, minlength=classes)
    with np.errstate(invalid="ignore"):
        losses = np.bincount(labels, weights=loss, minlength=classes) / count
        right = np.bincount(labels, weights=correct(loss, predicted, labels), minlength=classes) / count
    named = {f"test_loss_class_{i}": float(value) for i, value in enumerate(losses)}
    return named | {f"test_accuracy_class_{i}": float(value) for i, value in enumerate(right)}


_MODELS = {
    "accuracy": ("Client accuracy", "of the model that each client uses"),
    "trained_accuracy": ("Trained accuracy", "of the model that each client's last local training left"),
}
_STATISTICS = {
    "mean": "mean over the clients",
    "weighted": "mean over the clients, weighted by these samples",
    "min": "lowest client",
    "worst_decile": "mean of the lowest tenth",
}


def _columns(name: str, heading: str, whose: str) -> tuple[Column, ...]:
    """The statistics of one accuracy."""
    return tuple(
        Column(f"client_{name}_{kind}", f"{heading}, {kind.replace('_', ' ')}", "share",
               f"Accuracy on its own samples {whose}: {meaning}.", 1, shown=kind in ("mean", "min"))
        for kind, meaning in _STATISTICS.items()
    )  # fmt: skip


COLUMNS = tuple(column for name, texts in _MODELS.items() for column in _columns(name, *texts))
"""What measuring clients adds to rounds.csv."""

BEST_COLUMNS = _columns(
    "best_accuracy",
    "Best accuracy so far (optimistic)",
    "of the best of all models that its local trainings left so far (optimistic: these samples chose it)",
)
"""What ``evaluate.best`` adds to them."""


VALIDATION_COLUMNS = (
    Column("validation_loss", "Validation loss", "number", "Mean loss of the model on the validation part.", -1),
    Column("validation_accuracy", "Validation accuracy", "share", "Of the model on the validation part.", 1),
)
"""What ``evaluate.validation`` adds to rounds.csv."""


def on_training_samples(column: Column, how: str) -> Column:
    """What measuring clients adds where they have no test samples of their own, or others may have trained on these."""
    sentence = column.sentence.replace("its own samples", f"its own samples ({how}, optimistic)")
    return column._replace(heading=f"{column.heading} ({how})", sentence=sentence)


def client_scores(accuracy: NDArray[np.float64], samples: NDArray[np.int64], name: str) -> dict[str, float]:
    """``client_<name>_mean``, ``_weighted``, ``_min`` and ``_worst_decile`` of an accuracy, (clients,); nothing where
    there are none.

    ``weighted`` counts each client by the samples that it was measured on, (clients,), at least 1. The worst decile is
    the mean accuracy of the tenth of the clients (rounded up) with the lowest one. All are NaN where one is.
    """
    if not len(accuracy):
        return {}
    ranked = np.sort(accuracy) if np.isfinite(accuracy).all() else np.full(len(accuracy), np.nan)
    weighted = np.average(accuracy, weights=samples)
    lowest = ranked[: -(-len(ranked) // 10)]
    values = {"mean": ranked.mean(), "weighted": weighted, "min": ranked[0], "worst_decile": lowest.mean()}
    return {f"client_{name}_{kind}": float(value) for kind, value in values.items()}


@dataclass(frozen=True)
class EvaluationSettings:
    """Test loss and accuracy every so many rounds; more on request."""

    every: Annotated[
        int, Field(ge=0, description="evaluate after every so many rounds and after the last; 0 = never")
    ] = 1
    samples: Annotated[
        int | None, Field(ge=1, description="use so many test samples, drawn once; null = all of them")
    ] = None
    validation: Annotated[
        float, Field(ge=0, lt=1, description="share of the test part that is kept for validation, and not tested on")
    ] = field(default=0.0, metadata=SINCE_LATER)
    per_class: Annotated[bool, Field(description="loss and accuracy of every class too")] = False
    per_client: Annotated[
        bool, Field(description="accuracy of each client's model on its own test (else training) samples too")
    ] = False
    best: Annotated[
        bool, Field(description="with per_client: the best accuracy so far of the models that a client trained, too")
    ] = field(default=False, metadata=SINCE_LATER)

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    def parts(self, count: int, streams: Streams) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """Which of ``count`` test samples a model is tested on, and on which it is validated; None = on none.

        Raises:
            ScenarioError: nothing is left for one of them.
        """
        rest, validation = np.arange(count), None
        if self.validation:
            order = streams("validation").permutation(count)
            first = round(self.validation * count)
            validation, rest = order[:first], order[first:]
            if not (len(validation) and len(rest)):
                why = f"is {self.validation:g}, which leaves one part of {count} test samples empty"
                raise ScenarioError("evaluate.validation", why)
        if self.samples is not None:
            rest = rest[streams("evaluate").permutation(len(rest))[: self.samples]]
        return rest, validation


def _short(value: object) -> object:
    return {"every": value} if isinstance(value, int) and not isinstance(value, bool) else value


EvaluationField = Annotated[
    EvaluationSettings, BeforeValidator(_short, json_schema_input_type=Annotated[int, Field(ge=0)] | EvaluationSettings)
]
"""A field that holds an evaluation; a number is short for ``{every: n}``."""
