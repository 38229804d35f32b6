"""What is seen of an aggregation, as linear equations in the clients' updates: rows times updates = values."""

from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.attacks.base import ServerView
from simfl.core.scenario_view import ScenarioView

View = Annotated[
    Literal["server", "public"],
    Field(description="who looks: the server, or the public, which sees the global models only"),
]


def unread(setting: ScenarioView, view: View) -> list[tuple[str, str]]:
    """Problems of an attack that is shown less than there is: other equations a coordinate, coded updates or sums."""
    if setting.compression.subsamples:
        why = f"solves the same equations for all coordinates, but compression: {setting.compression.name} sends some"
        return [("", f"{why}; leave one of the two out")]
    if view == "public":
        rule, one = setting.training, np.ones(1, dtype=np.float32)
        state = rule.start(1)
        if state or rule.step(np.zeros_like(one), one, state)[0] != one:
            why = "is public, which takes the model's change for the mean update; the server makes another of it"
            return [("view", f"{why}; use server_learning_rate: 1.0 and server_optimiser: sgd")]
        return []
    coding = [stage.name for stage in setting.privacy.stages if stage.codes]
    noises = [stage.adds_noise for stage in setting.privacy.stages if stage.adds_noise is not None]
    noisy = any(noise.where == "server" for noise in noises)
    if not coding or not (setting.secagg.shows_updates or noisy):
        return []
    what = "single updates" if setting.secagg.shows_updates else "the sum before the server's noise"
    return [("view", f"is server, which reads {what}, but privacy.stages: {coding[0]} codes them; use view: public")]


def rows(seen: ServerView, clients: int, view: View) -> NDArray[np.float64]:
    """The weights of the equations, (m, N).

    A server that is shown single updates has an equation for each; else there is one a sum, scaled so that an update
    which counts like the average one has weight 1.
    """
    total = seen.total
    n = len(total.clients)
    assert total.shares is not None, "who sums fills them in"
    if view == "server" and seen.vectors is not None:
        weights = np.zeros((n, clients))
        weights[np.arange(n), total.clients] = 1
        return weights
    weights = np.zeros((1, clients))
    weights[0, total.clients] = total.shares * n
    return weights


class Equations(NamedTuple):
    """Rows (m, N) and values (m, c) of one aggregation."""

    rows: NDArray[np.float64]
    values: NDArray[np.float64]


def equations(seen: ServerView, clients: int, view: View, coordinates: NDArray[np.int64] | slice) -> Equations:
    """The linear equations of one aggregation.

    ``server``: each update as it arrived, with its own noise, where the protocol shows them; else the sum, with the
    noise that the clients put into it. Noise that the server adds itself does not protect against it. ``public``: the
    change of the global model, taken for the mean update.

    Args:
        seen: the aggregation.
        clients: N.
        view: whose it is.
        coordinates: of the model, c of them.
    """
    weights, n = rows(seen, clients, view), len(seen.total.clients)
    if view == "public":
        values = (seen.model[coordinates].astype(np.float64) - seen.before[coordinates])[None] * n
    elif seen.vectors is not None:
        members = np.isin([job.client for job in seen.jobs], seen.total.clients)
        values = seen.vectors[members][:, coordinates].astype(np.float64)
    else:
        values = seen.read[coordinates].astype(np.float64)[None] * n
    return Equations(weights, values)
