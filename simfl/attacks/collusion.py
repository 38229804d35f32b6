"""All clients but one against that one: what is left of a sum when everything they know is taken off."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.attacks.base import OBSERVERS, Observer, ServerView, TrueUpdates
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays


class _Guess(NamedTuple):
    """Estimates of the victim's vector, (d,), by strategy, and the model it had started from."""

    estimates: dict[str, NDArray[np.float64]]
    model: NDArray[np.float32]


@OBSERVERS("collusion")
@dataclass(frozen=True)
class Collusion(Observer):
    """The n - 1 attack: the server and all other clients look for one client's model.

    They take their own updates off the sum (``naive``), and then what the protocol lets them know of its noise, by
    strategy. Of each, ``attacks.csv`` has the mean squared ``residual_``, and for one ``weight`` of the victim's
    model the ``estimate_`` beside the ``actual`` value. Reference: Byrd et al., ICAIF 2022, section 5.4.
    """

    victim: Annotated[int, Field(ge=0, description="the honest client's number")] = 0
    weight: Annotated[
        int, Field(ge=0, description="the coordinate that is written down; the last if there are fewer")
    ] = 0

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if self.victim >= setting.clients:
            return [("victim", f"is {self.victim}; the largest number of a client is {setting.clients - 1}")]
        if coding := [stage.name for stage in setting.privacy.stages if stage.changes_coordinates]:
            why = f"takes clients' own updates off the sum, but privacy.stages: {coding[0]} codes what they send"
            return [("", f"{why}; leave one of the two out")]
        if setting.compression.subsamples:
            return [
                ("", f"knows no update of which compression: {setting.compression.name} sends parts; leave one out")
            ]
        return []

    def coalition(self, clients: int) -> NDArray[np.int32]:
        return np.delete(np.arange(clients, dtype=np.int32), self.victim)

    def observe(self, seen: ServerView, state: Arrays, streams: Streams) -> tuple[Any, Arrays]:
        job = next((job for job in seen.jobs if job.client == self.victim), None)
        if job is None or self.victim not in seen.total.clients or seen.inside is None or not len(seen.model):
            return None, state
        weight = 1.0
        if seen.total.shares is not None:  # its weight is what theirs leave of the divisor
            (place,) = np.flatnonzero(seen.total.clients == self.victim)
            weight = float(seen.total.shares[place]) * seen.inside.divisor
        naive = (seen.total.vector * seen.inside.divisor - seen.inside.vectors.sum(axis=0)) / weight
        known = {name: naive - noise / weight for name, noise in seen.inside.known.items()}
        return _Guess({"naive": naive, **known}, seen.sent[job.start]), state

    def error(self, guess: _Guess, truth: TrueUpdates) -> Mapping[str, float]:
        actual = truth.updates[int(np.searchsorted(truth.clients, self.victim))].astype(np.float64)
        at = min(self.weight, len(actual) - 1)
        start, errors = float(guess.model[at]), {"actual": float(guess.model[at]) + float(actual[at])}
        for name, estimate in guess.estimates.items():
            errors[f"residual_{name}"] = float(np.mean((estimate - actual) ** 2))
            errors[f"estimate_{name}"] = start + float(estimate[at])
        return errors
