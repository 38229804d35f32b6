"""What becomes of the distance between two neighbouring worlds on its way from training to the sum.

Two worlds are neighbours if one client's updates are there in one of them and not in the other (zero-out). A *bound*
says how long what one of its jobs sends can be, which is how far apart the two are. A *map* says what it makes of a
bound. A chain of maps has a certificate only where its links meet: whoever gives no map has that of :class:`Map`
itself, of which anything may come out. The rules are those of OpenDP and Tumult Core; their proofs are in
docs/explanation/proofs/maps.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.core.scenario_view import ScenarioView, aggregate_size

Facts = Mapping[str, NDArray[np.float64]]
"""What a stage said of every round, by name: float64 (rounds,), NaN where it said nothing."""


class Bound(NamedTuple):
    """The largest L2 and L1 norm and magnitude of a coordinate, a number or one for each round, (rounds,)."""

    l2: Any = inf
    l1: Any = inf
    linf: Any = inf


@dataclass(frozen=True)
class Map:
    """One link. Where a subclass says nothing, nothing is known of what comes out.

    Attributes:
        stays: of an update that stays the same it makes the same in every aggregate.
        stability: it brings no two updates further apart, in L2, than so many times their distance.
        sparse: coordinates that are 0 stay 0.
        per_client: what it makes of a client's update depends on no other client's. Else one client may move what
            others send, which no clip that follows undoes.
        leads: what comes out begins with what it makes of the update, coordinate by coordinate; more may follow.
    """

    @property
    def stays(self) -> bool:
        return False

    @property
    def stability(self) -> float:
        return inf

    @property
    def sparse(self) -> bool:
        return False

    @property
    def per_client(self) -> bool:
        return False

    @property
    def leads(self) -> bool:
        return False

    def apply(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """What it makes of the updates, (n, d); nothing, if it only describes what a stage's own code does."""
        return vectors

    def bound(self, before: Bound, facts: Facts) -> Bound:
        """Of what comes out.

        Args:
            before: of what goes in.
            facts: what the map's stage said of every round; empty before the first.
        """
        return Bound()


@dataclass(frozen=True)
class PerClient(Map):
    """Anything, of each update by itself: a clip that follows bounds what comes out."""

    per_client = True


@dataclass(frozen=True)
class Clip(Map):
    """Scaled down, whole, to a norm; what holds a number that is not finite becomes 0."""

    norm: float
    order: Literal[1, 2] = 2

    stays = True
    per_client = True
    sparse = True

    @property
    def stability(self) -> float:
        """The projection to a ball in L2 contracts; one factor for all coordinates does not contract in L1."""
        return 1.0 if self.order == 2 else inf

    def apply(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        return clip_norms(vectors, self.norm, self.order)

    def bound(self, before: Bound, facts: Facts) -> Bound:
        l1 = np.minimum(before.l1, self.norm) if self.order == 1 else before.l1
        return Bound(np.minimum(before.l2, self.norm), l1, np.minimum(before.linf, self.norm))


@dataclass(frozen=True)
class ClipCoordinates(Map):
    """Each coordinate clipped to a magnitude; what holds a number that is not finite becomes 0."""

    magnitude: float

    stays = True
    per_client = True
    sparse = True
    stability = 1.0

    def apply(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        sound = np.where(np.isfinite(vectors).all(axis=1, keepdims=True), vectors, 0)
        return np.clip(sound, -self.magnitude, self.magnitude)

    def bound(self, before: Bound, facts: Facts) -> Bound:
        return before._replace(linf=np.minimum(before.linf, self.magnitude))


@dataclass(frozen=True)
class Rounded(Map):
    """Rounded to whole numbers by a stage whose own loss counts how much longer that makes it; none for plugins, since
    noise of another stage would not count it.
    """

    stays = True
    per_client = True

    def bound(self, before: Bound, facts: Facts) -> Bound:
        return before


@dataclass(frozen=True)
class Noised(Map):
    """With noise that is accounted by its stage itself; the same in both worlds."""

    stays = True
    per_client = True
    stability = 1.0


@dataclass(frozen=True)
class Scale(Map):
    """Multiplied by a number that is the same for every client and round."""

    factor: float

    stays = True
    per_client = True
    sparse = True

    @property
    def stability(self) -> float:
        return abs(self.factor)

    def apply(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        return vectors * np.float32(self.factor)

    def bound(self, before: Bound, facts: Facts) -> Bound:
        return Bound(*(norm * abs(self.factor) for norm in before)) if self.factor else before


def as_applied(link: Map) -> Map:
    """A map; anything, where its class applies another one than that whose bound it inherits."""
    mro = type(link).__mro__
    applies, bounds = (next(i for i, cls in enumerate(mro) if name in vars(cls)) for name in ("apply", "bound"))
    return Map() if applies < bounds or "apply" in vars(link) else link


BY = {"client": "each client to its update", "share": "the clients, in parts", "server": "the server to the sum"}
"""Who adds noise, by :attr:`Noise.where`, in words."""


@dataclass(frozen=True)
class Noise:
    """Where a stage adds noise; what it leaves of an update :meth:`simfl.privacy.stage.Stage.loss` says.

    Attributes:
        where: ``client`` = to each update by itself; ``share`` = each client a part of the noise in the sum; ``server``
            = the server to the sum, which it has seen without.
        field: shares are whole numbers, which a protocol adds up without showing them; it shows real ones.
        gaussian: its loss is that of Gaussian noise, ``mu``.
        fresh: that of each aggregate is its own and ends with it, so that a client may hide in whether it is there.
    """

    where: Literal["client", "share", "server"]
    field: bool = False
    gaussian: bool = False
    fresh: bool = False

    def __post_init__(self) -> None:
        if self.where not in ("client", "share", "server"):
            raise TypeError(f"Noise({self.where!r}): noise is added by 'client', 'share' or 'server'")

    @property
    def observer(self) -> Literal["server", "outside"]:
        """Against whom it protects: ``server`` = also against the server; ``outside`` = who sees the models only."""
        return "server" if self.where == "client" or (self.where == "share" and self.field) else "outside"


# -- Updates scaled down to a norm, whole; and what noise asks of the rest of a scenario -----------------------

BELOW = 1 - 2.0**-20
"""So much below a norm is aimed at that rounding to float32 does not lead above it."""

Problem = tuple[str, str]


def norms(vectors: NDArray[np.float32], order: int = 2) -> NDArray[np.float64]:
    """The L1 or L2 norm of each row, float64 (n,); infinite where a number is not finite."""
    wide = np.abs(vectors, dtype=np.float64) if order == 1 else None
    lengths = np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64) if wide is None else wide.sum(axis=1)
    lengths = np.where(np.isfinite(lengths), lengths, np.inf)
    return lengths if order == 1 else np.sqrt(lengths)


def clip_norms(vectors: NDArray[np.float32], most: NDArray[np.float64] | float, order: int = 2) -> NDArray[np.float32]:
    """The rows of (n, d), those above the largest norm, a number or (n,), scaled down to it, those with a number that
    is not finite replaced by 0; of the norm L1 or L2.
    """
    lengths = norms(vectors, order)
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = np.where(lengths > most, BELOW * most / lengths, 1.0)
    if (factor == 1.0).all():
        return vectors
    sound = np.where(np.isfinite(lengths)[:, None], vectors, 0)
    return (sound * factor[:, None]).astype(np.float32)


def fits(setting: ScenarioView) -> list[Problem]:
    """What no noise can do without."""
    rule = setting.training
    if rule.many_aggregators:
        return [("", "needs one server that aggregates; use training: fedavg or fedbuff")]
    return []


def changed_by_others(setting: ScenarioView, name: str, repeats: bool) -> list[Problem]:
    """Which stages before a stage change the models that clients train, for which it has bounds: those that may move
    two updates apart; all of them where it ``repeats`` the same sum. (What comes after noise is every stage's matter.)
    """
    names, problems = [stage.name for stage in setting.privacy.stages], list[Problem]()
    why = "has epsilons of what clients train" + " and, with rounds, send again" * repeats
    for stage in setting.privacy.stages[: names.index(name)]:
        if repeats or stage.moves_apart:
            problems.append(("", f"{why}, but privacy.stages: {stage.name} changes that; leave one of them out"))
    return problems


def of_sums(setting: ScenarioView, max_weight: float | None = 1.0) -> list[Problem]:
    """What noise on a sum needs: that no weight is larger than it is made for."""
    if not (setting.training.by_samples and max_weight is None):
        return []
    why = "is null, but clients weigh as much as they hold samples; give the most, or use training.weighting: equal"
    return [("max_weight", why)]


def weights_differ(setting: ScenarioView) -> bool:
    """Whether updates may count differently, as their clients hold samples or as they are old.

    What the rule says of itself decides, and what it does with a few updates: no trial of some ages speaks for others.
    """
    rule = setting.training
    tried = rule.weights(np.array([1, 2, 2]), np.array([0, 0, 3])).tolist()
    return rule.by_samples or (rule.asynchronous and rule.weighs_staleness) or len(set(tried)) > 1


def same_weights(setting: ScenarioView) -> list[Problem]:
    """What noise needs of which every client adds a part: updates that all count once."""
    problems = of_sums(setting)
    if weights_differ(setting):
        instead = "training.weighting: equal and training.staleness: constant"
        why = f"adds noise in equal parts, but updates count differently; use {instead}"
        problems.append(("", f"{why}, or a central mechanism"))
    return problems


def participants(setting: ScenarioView) -> int:
    """Clients in a whole aggregate."""
    return aggregate_size(setting) or setting.clients
