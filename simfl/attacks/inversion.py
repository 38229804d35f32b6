"""Training samples out of recovered updates (arXiv 2106.03328, Figure 9; Geiping et al. 2020)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.attacks.analytic import samples_of
from simfl.attacks.base import OBSERVERS, Finding, Picture, with_label
from simfl.attacks.context import AttackerKnowledge, GroundTruth
from simfl.attacks.image_similarity import assign_samples, psnr, ssim
from simfl.attacks.update_recovery import Recovery
from simfl.attacks.view import unread
from simfl.core.columns import Column
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays

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
    samples: NDArray[np.float32]


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
        known: dict[int, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}
        for batch in self.recovered_updates(state):
            rows = zip(batch.clients.tolist(), batch.starts, batch.updates, strict=True)
            known |= {client: (start, update) for client, start, update in rows}
        wanted = [client for client in self.clients if client in known]
        return [Answer(client, self._samples(client, *known[client], knowledge, streams)) for client in wanted]

    def _samples(
        self,
        client: int,
        start: NDArray[np.float32],
        update: NDArray[np.float32],
        knowledge: AttackerKnowledge,
        streams: Streams,
    ) -> NDArray[np.float32]:
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

        def scale(samples: NDArray[np.float32]) -> NDArray[np.float32]:
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


def _numbers(rows: NDArray[np.float64]) -> Mapping[str, float]:
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
