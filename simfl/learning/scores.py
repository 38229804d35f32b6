"""From predictions to the numbers that are reported."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["class_scores", "client_scores", "matthews", "overall_scores"]

Losses = NDArray[np.float64]
Classes = NDArray[np.int64]


def overall_scores(loss: Losses, predicted: Classes, labels: Classes, classes: int) -> dict[str, float]:
    """``test_loss`` and ``test_accuracy``; with two classes ``test_mcc`` too.

    Args:
        loss: cross-entropy of each sample, shape (n,).
        predicted: predicted class of each sample, shape (n,).
        labels: true class of each sample, shape (n,).
        classes: number of classes.
    """
    scores = {"test_loss": float(loss.mean()), "test_accuracy": float((predicted == labels).mean())}
    if classes == 2:
        scores["test_mcc"] = matthews(predicted, labels)
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
    """``test_loss_class_i`` and ``test_accuracy_class_i`` of every class i, NaN where it has no test sample."""
    count = np.bincount(labels, minlength=classes)
    with np.errstate(invalid="ignore"):
        losses = np.bincount(labels, weights=loss, minlength=classes) / count
        right = np.bincount(labels, weights=predicted == labels, minlength=classes) / count
    named = {f"test_loss_class_{i}": float(value) for i, value in enumerate(losses)}
    return named | {f"test_accuracy_class_{i}": float(value) for i, value in enumerate(right)}


def client_scores(right: NDArray[np.bool_], owners: NDArray[np.int64], clients: int) -> dict[str, float]:
    """``client_accuracy_mean``, ``_min`` and ``_worst_decile`` over the clients that hold samples.

    The worst decile is the mean accuracy of the tenth of the clients (rounded up) with the lowest one.

    Args:
        right: whether each sample is classified rightly, shape (n,).
        owners: the client that holds it, shape (n,).
        clients: number of clients.
    """
    held = np.bincount(owners, minlength=clients)
    accuracy = np.sort((np.bincount(owners, weights=right, minlength=clients)[held > 0]) / held[held > 0])
    worst = accuracy[: -(-len(accuracy) // 10)]
    return {
        "client_accuracy_mean": float(accuracy.mean()),
        "client_accuracy_min": float(accuracy[0]),
        "client_accuracy_worst_decile": float(worst.mean()),
    }
