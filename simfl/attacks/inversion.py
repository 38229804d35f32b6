"""Training samples out of recovered updates (arXiv 2106.03328, Figure 9; Geiping et al. 2020)."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from simfl.attacks.base import OBSERVERS, AttackerKnowledge, Finding, GroundTruth, Picture, unread, with_label
from simfl.attacks.least_squares import Recovery
from simfl.clients.local_values import Parameter
from simfl.core.columns import Column
from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays, Floats, Integers, Vectors

SIGMA, RADIUS = 1.5, 5
"""Of the Gaussian window, 11 pixels wide. Reference: Wang et al. 2004."""


def psnr(true: Vectors, recovered: Vectors) -> float:
    """Peak signal-to-noise ratio, dB: -10 log10 of the mean squared error."""
    error = float(np.mean(np.square(true.astype(np.float64) - recovered)))
    return -10 * float(np.log10(max(error, 1e-30)))


def ssim(true: Vectors, recovered: Vectors) -> float:
    """Structural similarity, mean over channels and inner pixels; NaN for pictures smaller than its window."""
    from scipy.ndimage import gaussian_filter

    if true.ndim != 3 or min(true.shape[1:]) <= 2 * RADIUS:
        return float("nan")

    def smooth(picture: Floats) -> Floats:
        sigma = (0, SIGMA, SIGMA)
        inner: Floats = gaussian_filter(picture, sigma, truncate=RADIUS / SIGMA)
        return inner[:, RADIUS:-RADIUS, RADIUS:-RADIUS]

    x, y = true.astype(np.float64), recovered.astype(np.float64)
    mx, my = smooth(x), smooth(y)
    vx, vy, cxy = smooth(x * x) - mx * mx, smooth(y * y) - my * my, smooth(x * y) - mx * my
    c1, c2 = 0.01**2, 0.03**2
    ratio = (2 * mx * my + c1) * (2 * cxy + c2) / ((mx * mx + my * my + c1) * (vx + vy + c2))
    return float(ratio.mean())


def assign_samples(true: Vectors, recovered: Vectors) -> Integers:
    """For each true sample its one of (m, ...), by the least squared error in all; -1 where there are fewer."""
    from scipy.optimize import linear_sum_assignment

    n, flat = len(true), _flat(true)
    place = np.full(n, -1, dtype=np.int64)
    if len(recovered):
        other = _flat(recovered)
        cost = np.square(flat).sum(1)[:, None] + np.square(other).sum(1) - 2 * flat @ other.T
        rows, columns = linear_sum_assignment(cost)
        place[rows] = columns
    return place


def _flat(samples: Vectors) -> Floats:
    """(n, ...) as (n, d), also where there is no sample."""
    return samples.reshape(len(samples), prod(samples.shape[1:])).astype(np.float64)


LEAST = 1e-6
"""Changes of a bias below this share of the largest one are rounding."""


def samples_of(update: Vectors, knowledge: AttackerKnowledge) -> Vectors:
    """The different samples that a first layer's units tell, (m, *shape), those that most units agree on first:
    of a unit, its weights over its bias (Geiping et al. 2020, section 3.2).

    Of the update, (d,), of a client or a sum. Exact for one sample whatever the local steps and momentum, not with
    weight decay; of several samples, for each that fires some ReLU unit alone.

    Raises:
        ScenarioError: the model does not begin with a linear layer with a bias, both trained.
    """
    weight, bias = _first_layer(knowledge)
    rows = update[weight.elements].reshape(weight.shape).astype(np.float64)
    steps = update[bias.elements].astype(np.float64)
    large = np.abs(steps) > LEAST * np.abs(steps).max(initial=0)
    if not large.any():
        return np.empty((0, *knowledge.shape), dtype=np.float32)
    samples = (rows[large] / steps[large, None]).reshape(-1, *knowledge.shape)
    width = knowledge.high - knowledge.low
    inside = ((samples >= knowledge.low - 0.05 * width) & (samples <= knowledge.high + 0.05 * width)).reshape(
        len(samples), prod(samples.shape[1:])
    )
    order = np.argsort(-np.abs(steps[large]), kind="stable")
    samples = np.clip(samples, knowledge.low, knowledge.high)[order][inside.all(axis=1)[order]]
    return _different(samples.astype(np.float32))


def _first_layer(knowledge: AttackerKnowledge) -> tuple[Parameter, Parameter]:
    from simfl.attacks.matching import takes_samples

    first, *rest = knowledge.parameters
    owner = first.name.removesuffix("weight")
    has_bias = bool(rest) and rest[0].name == f"{owner}bias"
    if first.layer != "Linear" or not has_bias or not takes_samples(knowledge, owner.rstrip(".")):
        why = "is analytic, but the model does not begin with a trained linear layer with a bias; use cosine"
        raise ScenarioError("method", why)
    return first, rest[0]


def _different(samples: Vectors) -> Vectors:
    """One of each group of nearly equal samples, the largest groups first."""
    flat, left = samples.reshape(len(samples), prod(samples.shape[1:])), np.arange(len(samples))
    groups: list[tuple[int, int]] = []
    while len(left):
        near = np.square(flat[left] - flat[left[0]]).mean(axis=1) < 1e-6 * (1 + np.square(flat[left[0]]).mean())
        groups.append((int(near.sum()), int(left[0])))
        left = left[~near]
    return samples[[first for _, first in sorted(groups, key=lambda group: -group[0])]]


UNROLLED = 8
"""Most local steps that are simulated; of more, their sum is taken for one step."""


FINALS = (
    Column("inversion_psnr", "Recovered samples", "number",
           "Peak signal-to-noise ratio, dB, of all samples of the clients' latest jobs, each as inversion "
           "recovers it from the aggregations that it keeps, else as the mean sample; median.", -1, None),
    Column("inversion_guess_psnr", "Mean sample", "number",
           "The same, dB, of the mean sample, which needs no attack; median.", 0, None, shown=False),
    Column("inversion_ssim", "Recovered samples, SSIM", "number",
           "Structural similarity of the same samples; median; pictures only.", -1, None,
           shown=False),
)  # fmt: skip


class Answer(NamedTuple):
    """What the attacker says of a client: samples in its update."""

    client: int
    samples: Vectors


@OBSERVERS("inversion")
@dataclass(frozen=True, kw_only=True)
class Inversion(Recovery):
    """Recovers training samples from the updates of some clients, after the last aggregation."""

    method: Annotated[
        Literal["analytic", "cosine"],
        Field(description="divide weights by biases of a first linear layer; or match the gradient's direction"),
    ] = "cosine"
    clients: Annotated[tuple[int, ...], Field(min_length=1, description="whose samples")] = (0, 1, 2, 3)
    samples: Annotated[int, Field(ge=1, le=64, description="samples that cosine looks for in an update")] = 1
    steps: Annotated[int, Field(ge=1, le=10**6, description="of the optimiser of cosine")] = 1200
    variation: Annotated[float, Field(ge=0, description="weight of the total variation in cosine")] = 0.01
    restarts: Annotated[
        int, Field(ge=1, le=100, description="random beginnings of cosine; the cheapest end counts")
    ] = 2

    @property
    def finals(self) -> tuple[Column, ...]:
        return with_label(FINALS, self.label)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        wrong = [client for client in self.clients if not 0 <= client < setting.clients]
        names = f"names {', '.join(map(str, wrong))}; clients are 0 to {setting.clients - 1}"
        text = "looks for numbers, and learning.model takes tokens; membership works with tokens"
        tokens = [("method", text)] if setting.learning.tokens else []
        return [*([("clients", names)] if wrong else []), *tokens, *unread(setting, self.view)]

    def answer(self, challenge: object, state: Arrays, knowledge: AttackerKnowledge, streams: Streams) -> list[Answer]:
        known: dict[int, tuple[Vectors, Vectors]] = {}
        for batch in self.recovered_updates(state):
            rows = zip(batch.clients.tolist(), batch.starts, batch.updates, strict=True)
            known |= {client: (start, update) for client, start, update in rows}
        wanted = [client for client in self.clients if client in known]
        return [Answer(client, self._samples(client, *known[client], knowledge, streams)) for client in wanted]

    def _samples(
        self, client: int, start: Vectors, update: Vectors, knowledge: AttackerKnowledge, streams: Streams
    ) -> Vectors:
        if self.method == "analytic":
            return samples_of(update, knowledge)
        from simfl.attacks.matching import Target, label_counts, match

        local, shape = knowledge.local, (self.samples, *knowledge.shape)
        steps, rate = int(local.steps(np.array([self.samples]))[0]), local.learning_rate
        labels = label_counts(knowledge, update, self.samples, rate * steps)
        unrolled = steps if steps <= UNROLLED else 1
        target = Target(start, update, labels, unrolled, rate, local.momentum, local.weight_decay)
        middle, width = (knowledge.high + knowledge.low) / 2, knowledge.high - knowledge.low
        draws = (streams("attack/inversion", client, i).normal(size=shape) for i in range(self.restarts))
        first = [np.clip(middle + width * d / 4, knowledge.low, knowledge.high).astype(np.float32) for d in draws]
        return match(knowledge, target, first, self.steps, self.variation)

    def score(
        self, answer: list[Answer], truth: GroundTruth, knowledge: AttackerKnowledge, streams: Streams
    ) -> Finding:
        width = np.where(knowledge.high > knowledge.low, knowledge.high - knowledge.low, 1)

        def scale(samples: Vectors) -> Vectors:
            return ((samples - knowledge.low) / width).astype(np.float32)

        mean, said = scale(truth.x_test.mean(axis=0)), {one.client: one.samples for one in answer}
        rows, pictures = [], []
        for client in self.clients:
            true = scale(truth.x[truth.latest_of(client)])
            recovered = scale(said[client]) if client in said else true[:0]
            for number, (one, place) in enumerate(zip(true, assign_samples(true, recovered), strict=True)):
                best = recovered[place] if place >= 0 else mean
                rows.append((psnr(one, best), psnr(one, mean), ssim(one, best)))
                if number < 2:
                    pictures.append(Picture(f"client {client}", one, best, mean))
        return Finding(self.column_names(_numbers(np.array(rows).reshape(-1, 3))), tuple(pictures))


def _numbers(rows: Floats) -> Mapping[str, float]:
    """Medians over samples (one perfect picture would make a mean infinite)."""
    if not len(rows):
        return {}
    recovered, guess, alike = np.median(rows, axis=0).tolist()
    beats = float(np.mean(rows[:, 0] > rows[:, 1] + 6))
    return {
        "inversion_psnr": recovered,
        "inversion_guess_psnr": guess,
        "inversion_ssim": alike,
        "inversion_recovered": beats,
    }
