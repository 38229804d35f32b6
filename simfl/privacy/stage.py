"""What a privacy stage is: a mechanism that changes what is summed, e.g. clipping or noise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from inspect import getattr_static, isabstract
from itertools import compress
from math import inf, sqrt
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from simfl.core.columns import Column
from simfl.core.payload import Kind
from simfl.core.registration.protocol import Plugin, is_foreign
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.rng import Streams
from simfl.core.types import Arrays, Bools, Floats, Integers, Job, Vectors
from simfl.privacy.certify.maps import Bound, Facts, Map, Noise, as_applied

EQUAL = 1e-9
"""So much two weights may differ, relatively, and count as the same: less than any rule distinguishes."""

FINE = 0.01
"""Steps of a grid, one for each part of noise, in the scale of the noise: finer ones hardly change its law."""

DRAWING = ("client", "server", "secrets", "noise", "sampler")
"""The methods of a stage that are given streams."""

NOT_FINITE = Column("not_finite", "Updates that are no numbers", "count",
                    "Updates in the sum that held a number that is not finite and so became 0.", -1, "sum",
                    shown=False)  # fmt: skip
"""Stages that make 0 of such updates list it; the servers fill it in."""


class Members(NamedTuple):
    """Whose updates one aggregate holds.

    Attributes:
        number: of the aggregation, from 0; with its name the address of a stage's draws.
        jobs: the jobs they come from, n, by ascending client.
        weights: float64 (n,): what each counted.
        divisor: what the sum was divided by.
        opened: of each job the last of its secrets, those that were opened after the upload; empty where none were,
            None where that is not known, as of a log.
        examples: int64 (n,): training samples of each job's client; None where they are not known, as of a log.
        fixed: the divisor where it is the same in every round, whoever came; else None.
        follows_data: whether a client is in it may have depended on its data.
        step: by how much a protocol's rounding has moved each coordinate of an update at most, before its weight; 0 =
            it adds up exactly, or whole numbers.
        coordinates: of the vectors that were summed.
        slope: the most that the gradient of one training sample's loss is long, for clients that minimise a loss convex
            in the model, infinite for others; for stages of single samples. None = not known: nothing is learned.
        moves: by how much one training sample moves the model of each job, float64 (n,), where that follows from how it
            was trained; None = from the slope, the samples and the penalty.
        positions: the training samples of each job, int64, by their places in one data set, as often as it trains on
            them: one sample may be with several clients, or twice with one. Like the slope; None = not known.
        known: what those who see the sum know of single updates in it, noise included: ``own`` = clients aggregate, and
            each knows its own; ``all`` = they see every one; ``server`` = the server does, others do not.
            Empty = nothing: whom a server tells the sum alone.
        clipped: coordinates that the protocol has clipped after all noise of the clients was in them.
    """

    number: int
    jobs: tuple[Job, ...]
    weights: Floats
    divisor: float
    opened: tuple[tuple[bytes, ...], ...] | None = None
    examples: Integers | None = None
    fixed: float | None = None
    follows_data: bool = False
    step: float = 0.0
    coordinates: int = 0
    slope: float | None = None
    moves: Floats | None = None
    positions: tuple[Integers, ...] | None = None
    known: Literal["", "own", "all", "server"] = ""
    clipped: int = 0

    def covering(self, scale: float = inf) -> int:
        """Of the parts of noise in the sum those that certainly cover each update: all, or without that of the one who
        looks; or its own alone, where that is seen with it, or where noise of others was clipped with their updates, or
        rounded with them to a grid that is not far finer than the noise of all, of this ``scale``.
        """
        n = self.n_summed
        alone = self.clipped or self.known == "all" or n * self.step > FINE * scale
        return min(1, n) if alone else max(min(1, n), n - (self.known == "own"))

    @property
    def rounding(self) -> float:
        """By how much rounding has moved an update at most, in L2, before its weight; it comes after all clipping, so
        that it belongs to the sensitivity of every noise that is added to the sum.
        """
        return self.step * sqrt(self.coordinates)

    @property
    def n_summed(self) -> int:
        """How many of them are in the sum."""
        return int((self.weights > 0).sum())

    @property
    def equal_weights(self) -> bool:
        """Whether all that are in the sum count the same, but for rounding: parts of noise do so then, too."""
        inside = self.weights[self.weights > 0]
        return bool(np.ptp(inside) <= EQUAL * inside.max()) if inside.size else True

    def honest(self, colluders: int) -> int:
        """Clients in the sum whose equal parts of noise protect each of them, if so many tell theirs; 0 where weights
        differ: the heaviest update may then be covered by hardly more than its own part.
        """
        return max(self.covering() - colluders, 0) if self.equal_weights else 0

    @property
    def squares(self) -> float:
        """The sum of the squared weights: so often the variance of one part of noise is in the sum."""
        return float((self.weights**2).sum())


@dataclass(frozen=True)
class Loss:
    """What each round's aggregate tells about a client that is in it: its update against none, the zero-out adjacency.

    Attributes:
        mu: of Gaussian noise, sensitivity over standard deviation, (rounds,).
        pure: a pure epsilon, (rounds,).
        rdp: bounds of the Renyi divergences of the orders :data:`simfl.privacy.dp.losses.ORDERS`, (rounds, orders).
        weighted: mu is of an update of weight 1 and grows with it; else the weight is no matter. So it is of noise that
            the server adds, and of no other, whatever a stage says.
        span: what was noised in a round is the sum of so many of the last aggregates that there were, (rounds,); None
            = its own alone.
        unsummed: how many updates of each client were noised that are in no sum, CSR (rounds, clients); None = none.
        opened: from which round on shares of the noise may be known to those against whom it protects, bool (rounds,);
            None = never.
    """

    mu: Floats | None = None
    pure: Floats | None = None
    rdp: Floats | None = None
    weighted: bool = False
    span: Integers | None = None
    unsummed: Any = None
    opened: Bools | None = None


class Stage(Plugin, Protocol):
    """A privacy mechanism, e.g. clipping or noise: a frozen dataclass whose methods are pure.

    Stages work in the order of the scenario at the clients and in the reverse order at the server. A client's vector
    may grow there (a bit beside it, a padded length); the server's part of the same stage takes that away again.

    Two clients send (3, 4), of norm 5, and (0.3, 0.4), of norm 0.5. Central Gaussian noise clips to norm 1, which
    shortens the first. Noise of standard deviation 1 in the sum is one of 1/2 in the mean, and one client moves the sum
    by at most 1, so that the mechanism is Gaussian with mu = sensitivity / std = 1:

    >>> from simfl.core.types import JobId
    >>> from simfl.privacy.dp.stages.central_gaussian import CentralGaussian
    >>> stage, streams = CentralGaussian(clip_norm=1.0, noise_multiplier=1.0), Streams(0)
    >>> jobs = tuple(Job(JobId.of(0, client), client, 0, 0.0) for client in (0, 1))
    >>> state, updates = stage.start(2), np.array([[3.0, 4.0], [0.3, 0.4]], dtype=np.float32)
    >>> sent = stage.client(updates, jobs, state, streams)
    >>> sent.round(3).tolist() == np.float32([[0.6, 0.8], [0.3, 0.4]]).tolist()
    True
    >>> members = Members(number=0, jobs=jobs, weights=np.ones(2), divisor=2.0)
    >>> stage.facts(members, state)
    {'sensitivity': 1.0, 'rounding': 0.0, 'std': 1.0, 'noise_std': 0.5}
    >>> noised, _ = stage.server(sent.mean(axis=0), members, state, streams)
    >>> noised.round(3) - sent.mean(axis=0).round(3)
    array([-0.631,  0.339], dtype=float32)

    Attributes:
        columns: the facts that are columns of rounds.csv, too.
        adds_noise: where it adds noise, and of what kind; None = it adds none.
        whole: its clients send whole numbers, int64, to be added up in a protocol's field as they are; the server's
            part gets what the sum is there, divided as any other. Only the last stage can.
        seeds: secrets that each client shares with others so that they can be opened after the upload.
        covers: the kinds of parts (:data:`simfl.core.payload.Kind`) of what leaves a client that it changes; those that
            it does not cover pass it as they are.
        certificate: its column that holds an epsilon of its own; empty = none does.
        epsilon_delta: the δ of that epsilon, 0 = it is pure; None = it does not say.
        colluders: clients who tell the server what they know, whom its noise allows for.
        public_state: what :meth:`server` keeps follows from what is released: from numbers, noise and noised sums. Any
            other state that changes ends a run whose server adds noise after it, as clients could send it again.
        of_samples: it protects single samples, so that it needs to know how much one can move a model: ``slope``.
    """

    columns: tuple[Column, ...] = ()
    adds_noise: Noise | None = None
    whole: bool = False
    seeds: int = 0
    covers: frozenset[Kind] = frozenset({"update"})
    certificate: str = ""
    of_samples: bool = False
    colluders: int = 0
    public_state: bool = False
    epsilon_delta: float | None = None

    @property
    def changes_coordinates(self) -> bool:
        """Whether what clients send is in other coordinates than the model's: whole numbers, or another length."""
        return self.whole or self.length(3) != 3

    @property
    def moves_apart(self) -> bool:
        """Whether its clients' part may bring two updates further apart, in L2."""
        return any(link.stability > 1 for link in self.links)

    @property
    def codes(self) -> bool:
        """Whether what it makes of an update cannot be read without its server's part."""
        legible = self.links and all(link.leads for link in self.links)
        return self.changes_coordinates and (self.whole or not legible)

    def secrets(self, job: Job, streams: Streams) -> tuple[bytes, ...]:
        """The :attr:`seeds` secrets of a job, of 32 bytes each; the server's part gets those that were opened."""
        return ()

    def length(self, dimension: int) -> int:
        """Coordinates of what it makes of a vector of so many."""
        return dimension

    def start(self, dimension: int) -> Arrays:
        """Its state before the first aggregation; where nothing is learned, vectors are empty all the same."""
        return {}

    def client(self, vectors: Vectors, jobs: tuple[Job, ...], state: Arrays, streams: Streams) -> Vectors:
        """What n clients send, (n, d'), of their vectors, (n, d); by itself, what the maps make of them."""
        for link in self.maps:
            vectors = link.apply(vectors)
        return vectors

    def server(self, vector: Vectors, members: Members, state: Arrays, streams: Streams) -> tuple[Vectors, Arrays]:
        """What the server makes of the aggregate, (d',) -> (d,), and the stage's next state."""
        return vector, state

    def facts(self, members: Members, state: Arrays) -> dict[str, float]:
        """What accountants need to know of this aggregation, e.g. the noise multiplier and who shared it."""
        return {}

    @property
    def maps(self) -> tuple[Map, ...]:
        """What its client's part does, noise aside, link by link; anything, of a stage that does not say so. A stage
        that clips or scales only and says it here needs no :meth:`client`.
        """
        return (Map(),)

    @property
    def server_maps(self) -> tuple[Map, ...]:
        """What its server's part does to the sum before it adds noise (other maps than `Scale`, `ClipCoordinates` and
        `Clip` in L2 leave no bound); nothing, of a stage without one, and anything of one that does not say so.
        """
        return () if getattr_static(type(self), "server") is Stage.server else (Map(),)

    @property
    def links(self) -> tuple[Map, ...]:
        """The maps, if they speak of what they do."""
        return tuple(map(as_applied, self.maps))

    @property
    def server_links(self) -> tuple[Map, ...]:
        """The same of its server's part."""
        return tuple(map(as_applied, self.server_maps))

    @property
    def observer(self) -> Literal["", "server", "outside"]:
        """Against whom it protects: ``server`` = also against the server, which sees who takes part; ``outside`` =
        those who see the models only; empty = nobody, it adds no noise.
        """
        return "" if self.adds_noise is None else self.adds_noise.observer

    def loss(self, facts: Facts, bound: Bound) -> Loss:
        """What its noise leaves to be learned of a client, by what it said of each round.

        Args:
            facts: of :meth:`facts`.
            bound: how long what it noises can be.
        """
        return Loss(mu=np.full(len(next(iter(facts.values()))), inf))


def stage_streams(stages: Sequence[Stage], streams: Streams) -> tuple[Streams, ...]:
    """The streams of each stage: the run's own, but for one that may draw as an earlier one does. Its draws have its
    place in their addresses: two stages with noise of one address would add one noise, twice.

    Stages may draw alike if they have a class in common, besides what every stage is, that is given streams; and those
    of plugins, whose addresses nobody has looked at, as any.
    """
    classes_of = [
        [cls for cls in type(stage).__mro__ if not (cls in Stage.__mro__ or isabstract(cls))] for stage in stages
    ]
    drawing = [{cls for cls in classes if any(name in vars(cls) for name in DRAWING)} for classes in classes_of]
    foreign = [is_foreign(stage) for stage in stages]
    alike = [foreign[i] or any(classes & earlier for earlier in drawing[:i]) for i, classes in enumerate(drawing)]
    return tuple(replace(streams, within=f"stage {i}/") if it else streams for i, it in enumerate(alike))


def of_each_sample(members: Members, penalty: float) -> Floats:
    """By how much, in the Euclidean norm, one sample of its client moves each weighted update in the sum, (n,).

    What SGD's own steps allow (:mod:`simfl.learning.work`). Exact minimisers of a mean of k losses and an L2
    penalty: 2 L / (k penalty) by Chaudhuri, Monteleoni and Sarwate, JMLR 2011, Corollary 8, with the samples k and the
    slope L of the run. Infinite where these are not known, or clients may leave after a look at their data.
    """
    inside = members.weights > 0
    if members.moves is not None and not members.follows_data:
        return np.asarray(members.moves[inside] * members.weights[inside])
    if members.slope is None or members.examples is None or members.follows_data or not penalty:
        return np.full(int(inside.sum()), inf)
    with np.errstate(divide="ignore"):
        return 2 * np.float64(members.slope) / (members.examples[inside] * penalty) * members.weights[inside]


def of_one_sample(members: Members, each: Floats) -> float:
    """The most that one sample does to a sum: what a copy of it does to each update in the sum, (n,), of all copies."""
    if members.positions is None:
        return float(each.sum())  # nobody knows: it may be in every update
    inside = list(compress(members.positions, members.weights > 0))
    copies = np.repeat(each, [len(positions) for positions in inside])
    return float(np.bincount(np.concatenate([*inside, np.zeros(0, np.int64)]), copies).max(initial=0.0))


STAGES = Registry[Stage](
    "stage",
    promises=("maps", "server_maps", "loss", "facts", "public_state"),
    protocol=Stage,
    derived=("links", "server_links", "observer", "codes", "moves_apart"),
    modules=modules_of(
        "simfl.privacy.dp.stages",
        "discrete_laplace",
        central_gaussian="adaptive_gaussian central_gaussian clipping tree_gaussian",
        discrete_noise="discrete_gaussian skellam xnoise",
        local_noise="laplace_shares local_gaussian local_laplace local_staircase",
    ),
)
