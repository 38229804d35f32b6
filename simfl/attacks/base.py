"""What an observer is: it sees exactly what the server sees, and guesses; only the scorer holds the truth. And one: all
clients but one against that one, who take everything they know off a sum."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.clients.local_training import LocalTraining
from simfl.clients.local_values import Parameter
from simfl.core.columns import Column
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Aggregate, Arrays, Floats, Integers, Job, Vectors

if TYPE_CHECKING:
    import torch

Label = Annotated[
    str, Field(pattern=r"^([a-z][a-z0-9_]*)?$", max_length=40, description="put before the names of its columns")
]
"""Tells several attacks in one scenario from one another: the names of their columns must differ."""


class CoalitionView(NamedTuple):
    """What colluding clients know of an aggregation, beside what the server sees.

    Attributes:
        clients: those in it, int32 (c,), ascending.
        vectors: what each has added to the sum, weight included, (c, d).
        divisor: what the sum was divided by.
        known: what the protocol lets them take off the sum, (d,), by strategy.
    """

    clients: NDArray[np.int32]
    vectors: Floats
    divisor: float
    known: Mapping[str, NDArray[Any]]


class ServerView(NamedTuple):
    """One aggregation as the server sees it.

    Attributes:
        round: its number, from 0.
        total: the sum as it arrived, with its row of weights and shares, before the server's stages.
        jobs: what was asked of whom, n, by ascending client.
        sent: the models that the clients had received, by :attr:`simfl.core.types.Job.start`.
        vectors: each client's vector as it arrived, (n, d); None unless the protocol shows them and they are not coded.
        model: the new global model, (d,).
        before: the global model before it, (d,); with ``model`` all that the public sees.
        read: the sum in the coordinates of the model, (d,): the total's vector or, where a stage codes what clients
            send, what the server's stages decode.
        inside: what the observer's coalition knows; None where it has none in the sum.
    """

    round: int
    time_s: float
    total: Aggregate
    jobs: tuple[Job, ...]
    sent: Mapping[int, Vectors]
    vectors: Vectors | None
    model: Vectors
    before: Vectors
    read: Vectors
    inside: CoalitionView | None = None


class TrueUpdates(NamedTuple):
    """What the clients of an aggregation had to send, (n, d), before any stage, which only the scorer knows.

    Of clients int32 (n,), ascending; ``memory`` is what :meth:`Observer.update_memory` has kept until then.
    """

    clients: NDArray[np.int32]
    updates: Vectors
    memory: Mapping[str, Any] = {}


class Picture(NamedTuple):
    """A sample, what was recovered of it, and what one would say without an attack: the mean sample.

    Values in [0, 1], (channels, height, width).
    """

    title: str
    true: Vectors
    recovered: Vectors
    guess: Vectors


class Curve(NamedTuple):
    """A receiver operating characteristic: rates of false and true alarms, ascending."""

    title: str
    false: Floats
    true: Floats


class Finding(NamedTuple):
    """The result of an attack on the finished run; numbers of the attack's ``finals`` stand in the summary."""

    numbers: Mapping[str, float]
    pictures: tuple[Picture, ...] = ()
    curves: tuple[Curve, ...] = ()


class Observer(Plugin, Protocol):
    """A frozen dataclass whose methods are pure; its state, and the scorer's memory, are saved in checkpoints.

    Clients 0 and 1 send the updates 1 and 3, the server sees their mean, 2. Client 1 works with the server: it takes
    its own update off the sum, 2 * 2 - 3, and knows that of client 0, whose model had been 0.5:

    >>> from simfl.attacks.base import Collusion
    >>> clients, mean, model = np.array([0, 1]), np.array([2.0]), np.array([0.5])
    >>> view = ServerView(
    ...     round=0, time_s=60.0, total=Aggregate(mean, clients, np.array([1, 1])), vectors=None, read=mean,
    ...     jobs=(Job.of(0, 0, 0, 0.0), Job.of(0, 1, 0, 0.0)), sent={0: model}, before=model, model=model + mean,
    ...     inside=CoalitionView(clients=np.array([1]), vectors=np.array([[3.0]]), divisor=2.0, known={}),
    ... )
    >>> observer = Collusion(victim=0)
    >>> guess, state = observer.observe(view, observer.start(2, 1), Streams(0))
    >>> guess.estimates["naive"].tolist()
    [1.0]
    >>> dict(observer.error(guess, TrueUpdates(clients, np.array([[1.0], [3.0]]))))
    {'actual': 1.5, 'residual_naive': 0.0, 'estimate_naive': 1.5}

    Attributes:
        columns: the errors that are columns of rounds.csv, too.
        finals: the numbers of its finding that stand in the summary.
    """

    columns: tuple[Column, ...] = ()
    finals: tuple[Column, ...] = ()

    def start(self, clients: int, dimension: int) -> Arrays:
        """Its state before the first aggregation."""
        return {}

    def coalition(self, clients: int) -> NDArray[np.int32]:
        """Colluding clients whose knowledge it shares, beside what the server sees; nobody by default."""
        return np.empty(0, dtype=np.int32)

    @abstractmethod
    def observe(self, seen: ServerView, state: Arrays, streams: Streams) -> tuple[Any, Arrays]:
        """Its guess after an aggregation, or None, and its next state. Its draws are of the purpose "attack"."""

    def init_memory(self, clients: int, dimension: int) -> Arrays:
        """The scorer's memory before the first aggregation."""
        return {}

    def update_memory(self, truth: TrueUpdates, memory: Arrays, streams: Streams) -> Arrays:
        """The scorer's memory after an aggregation; the observer never sees it."""
        return memory

    def error(self, guess: Any, truth: TrueUpdates) -> Mapping[str, float]:
        """How far the guess is from the truth, by name; rows of ``attacks.csv``."""
        return {}

    # -- what becomes of it after the last aggregation ---------------------------------------------------

    def challenge(self, truth: "GroundTruth", streams: Streams) -> Any:
        """The scorer's question, e.g. which of these samples were trained on."""
        return None

    def answer(self, challenge: Any, state: Arrays, knowledge: "AttackerKnowledge", streams: Streams) -> Any:
        """The attacker's answer from all that it has observed; None = none."""
        return None

    def score(self, answer: Any, truth: "GroundTruth", knowledge: "AttackerKnowledge", streams: Streams) -> Finding:
        """The scorer's measure of how right the answer is."""
        return Finding({})


OBSERVERS = Registry[Observer](
    "attack", protocol=Observer, modules=modules_of("simfl.attacks", "inversion", "least_squares", "membership")
)


def with_label(columns: Sequence[Column], label: str) -> tuple[Column, ...]:
    """The columns under names of their own."""
    if not label:
        return tuple(columns)
    return tuple(c._replace(name=f"{label}_{c.name}", heading=f"{c.heading} ({label})") for c in columns)


# -- What is seen of an aggregation, as linear equations in the clients' updates: rows times updates = values

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
            return [("view", f"{why}; use training.server_learning_rate: 1.0 and training.server_optimiser: sgd")]
        return []
    coding = [stage.name for stage in setting.privacy.stages if stage.codes]
    noises = [stage.adds_noise for stage in setting.privacy.stages if stage.adds_noise is not None]
    noisy = any(noise.where == "server" for noise in noises)
    if not coding or not (setting.secagg.shows_updates or noisy):
        return []
    what = "single updates" if setting.secagg.shows_updates else "the sum before the server's noise"
    return [("view", f"is server, which reads {what}, but privacy.stages: {coding[0]} codes them; use view: public")]


def rows(seen: ServerView, clients: int, view: View) -> Floats:
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

    rows: Floats
    values: Floats


def equations(seen: ServerView, clients: int, view: View, coordinates: Integers | slice) -> Equations:
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


class _Guess(NamedTuple):
    """Estimates of the victim's vector, (d,), by strategy, and the model it had started from."""

    estimates: dict[str, Floats]
    model: Vectors


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


class AttackerKnowledge(NamedTuple):
    """Background knowledge of an attacker, which takes part in training and so knows the model and its settings.

    Attributes:
        module: the model, a torch module of its own, on the processor.
        parameters: where each of its parameters lies in the flat vector.
        shape: of one sample.
        low, high: the smallest and largest value of a sample; of images, of each channel, (channels, 1, 1).
    """

    module: Any
    parameters: Sequence[Parameter]
    shape: tuple[int, ...]
    classes: int
    low: Vectors
    high: Vectors
    local: LocalTraining

    def weights(self, flat: "torch.Tensor") -> "dict[str, torch.Tensor]":
        """The parameters and running statistics of a flat model, (d,), as views of it by name."""
        return {p.name: flat[p.elements].view(p.shape) for p in self.parameters}

    @property
    def trained_size(self) -> int:
        """Elements of the parameters that gradients move; the first ones of the flat vector."""
        return sum(prod(p.shape) for p in self.trained_parameters)

    @property
    def trained_parameters(self) -> Sequence[Parameter]:
        """The parameters that gradients move; running statistics stand behind them."""
        return [parameter for parameter in self.parameters if not parameter.statistic]


class GroundTruth(NamedTuple):
    """Training and test samples, known to the scorer only.

    Attributes:
        x, y: all training samples, (n, *shape) and int64 (n,).
        positions_of: the positions of the samples that a client has trained on.
        latest_of: the positions of those that a client's latest job has trained on.
        trained: those of all clients, each once.
        x_test, y_test: samples that nobody trains on.
    """

    x: Vectors
    y: Integers
    positions_of: Callable[[int], Integers]
    latest_of: Callable[[int], Integers]
    trained: Integers
    x_test: Vectors
    y_test: Integers
