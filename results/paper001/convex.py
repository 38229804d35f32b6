"""Logistic regression with an l2 term: its loss, its optimum, and the constants of Theorem 2 (arXiv 2106.03328).

A client's loss is the mean cross-entropy of its samples plus l2 / 2 |x|^2, x being all weights and intercepts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

__all__ = ["Constants", "Task", "constants"]


@dataclass(frozen=True)
class Task:
    """Samples (n, features), their classes (n,), the number of classes and the weight of the l2 term."""

    x: np.ndarray
    y: np.ndarray
    classes: int
    l2: float

    @property
    def inputs(self) -> np.ndarray:
        """Samples with a 1 behind each, (n, features + 1)."""
        return np.column_stack([self.x, np.ones(len(self.x))])

    def of(self, chosen: np.ndarray) -> "Task":
        """The task of some of the samples."""
        return replace(self, x=self.x[chosen], y=self.y[chosen])

    def loss(self, model: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss at a model (classes * (features + 1),), weights before intercepts, and its gradient."""
        features = self.x.shape[1]
        weights = np.asarray(model, dtype=np.float64)
        table = np.column_stack([weights[: self.classes * features].reshape(self.classes, features),
                                 weights[self.classes * features :]])  # fmt: skip
        logits = self.inputs @ table.T
        logits -= logits.max(axis=1, keepdims=True)
        error = np.exp(logits)
        total = error.sum(axis=1)
        rows = np.arange(len(self.y))
        value = np.mean(np.log(total) - logits[rows, self.y]) + self.l2 / 2 * weights @ weights
        error /= total[:, None]
        error[rows, self.y] -= 1
        slope = error.T @ self.inputs / len(self.y)
        return float(value), np.concatenate([slope[:, :-1].ravel(), slope[:, -1]]) + self.l2 * weights

    def optimum(self) -> tuple[float, np.ndarray]:
        """The least loss and where it is."""
        start = np.zeros(self.classes * (self.x.shape[1] + 1))
        found = minimize(self.loss, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9})
        return float(found.fun), found.x


@dataclass(frozen=True)
class Constants:
    """What Theorem 2 asks for; ``least`` and ``best`` are L* and x*."""

    smoothness: float
    convexity: float
    gradient_variance: np.ndarray
    gradient_bound: float
    heterogeneity: float
    initial_distance: float
    least: float
    best: np.ndarray


def constants(task: Task, parts: Sequence[np.ndarray], batch: int, start: np.ndarray) -> Constants:
    """Constants that hold for every model that training can reach from ``start``, with steps of at most 1 / l2.

    With z a sample and a 1 behind it, a sample's gradient without the l2 term is (p - e_y) z', of norm at most
    sqrt(2) |z|; the Hessian of its cross-entropy is (diag(p) - p p') x z z', and diag(p) - p p' is at most 1/2. A
    step is a convex combination of the model and of -gradient / l2, so that models stay within the larger of |start|
    and sqrt(2) max |z| / l2 of zero.

    Args:
        task: all samples.
        parts: the samples of each client, equally many.
        batch: samples of a step, drawn without replacement.
        start: x(0).
    """
    squares = np.square(task.inputs).sum(axis=1)
    steepest = np.sqrt(2 * squares.max())
    own = [task.of(part) for part in parts]
    size = len(parts[0])
    curvature = [np.linalg.eigvalsh(each.inputs.T @ each.inputs / size)[-1] / 2 for each in own]
    least, best = task.optimum()
    return Constants(
        smoothness=max(curvature) + task.l2,
        convexity=task.l2,
        gradient_variance=np.array([2 * squares[part].mean() for part in parts]) * (size - batch) / (size - 1) / batch,
        gradient_bound=steepest + task.l2 * max(np.linalg.norm(start), steepest / task.l2),
        heterogeneity=least - float(np.mean([each.optimum()[0] for each in own])),
        initial_distance=float(np.linalg.norm(start - best)),
        least=least,
        best=best,
    )
