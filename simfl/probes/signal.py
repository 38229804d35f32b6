"""How far an observer can tell a client's updates from none, measured, against what the accountants say.

Both worlds, with the client's updates and with zeros in their place, are played with the same draws, so that samplers
of any kind go through; the noise is measured over other draws. Whatever the mechanism, no statistic of what is seen can
move by more than the root of chi², in its own standard deviations (Hammersley, Chapman and Robbins), also after any
processing; for Gaussian noise of a loss mu, by mu.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import SERVER
from simfl.privacy.accountant import History
from simfl.privacy.certify.chain import candidates
from simfl.privacy.dp.losses import ORDERS, loss_factors, losses
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.stage import Loss
from simfl.probes.play import Played, Sum, Vectors, play
from simfl.scenario import Scenario
from simfl.scenario.column_owners import accountants

SURE = 3.1
"""Standard deviations of a measurement by which it is lowered before it counts."""
SAME = 1e-5
"""What moves or varies by less, relative to what is seen, has not."""
SLACK = 1.02
"""By so much a measurement has to be above what is said."""


@dataclass(frozen=True)
class Refuted:
    """What is said and what was measured.

    Attributes:
        what: of what, in words.
        said, measured: numbers.
    """

    what: str
    said: float
    measured: float

    def __str__(self) -> str:
        return f"{self.what}: {self.said:.4g} is said, {self.measured:.4g} was measured"


def allowed(history: History, loss: Loss, client: int) -> float:
    """Standard deviations by which a loss lets a client move any statistic over all rounds."""
    weights = loss_factors(history, loss).toarray()[:, client]
    took_part = weights > 0
    squares = 0.0 if loss.mu is None else float(((loss.mu * weights)[took_part] ** 2).sum())
    if loss.pure is None and loss.rdp is None:
        return sqrt(squares)
    factor = np.exp(squares)
    if loss.pure is not None:
        times = 1.0 if loss.weighted else weights[took_part] ** 2
        factor *= 1 + 4 * np.sinh((loss.pure[took_part] * times).sum() / 2) ** 2
    if loss.rdp is not None:
        factor *= np.exp(loss.rdp[took_part, int(np.flatnonzero(ORDERS == 2)[0])].sum())
    return sqrt(factor - 1)


def seen(sums: list[Sum], client: int, observer: str, shown: bool) -> NDArray[np.float64]:
    """All that an observer, ``server`` or ``outside``, sees of a client in a run, as one vector; ``shown``: the server
    sees single updates.
    """
    if observer == "outside":
        return np.concatenate([each.released for each in sums])
    if not shown:
        return np.concatenate([each.total for each in sums])
    return np.concatenate([each.sent[each.clients == client].ravel() for each in sums])


def worlds(clients: int, dimension: int, client: int, rng: np.random.Generator) -> Iterator[Vectors]:
    """Updates of all clients among which one client's is hard to hide: long, at corners, against the crowd, alike."""
    crowd = rng.standard_normal((clients, dimension))
    directions = (rng.standard_normal(dimension), np.eye(dimension)[0], np.sign(rng.standard_normal(dimension)))
    for size in (1e3, 1.0, 1e-2):
        for direction in directions:
            found = np.zeros((clients, dimension))
            found[client] = size * direction
            yield found
    against = 0.5 * crowd
    against[client] = -1e3 * np.sign(crowd.sum(axis=0))
    yield against
    yield np.repeat(crowd[:1], clients, axis=0)


def without(updates: Vectors, client: int) -> Vectors:
    """The neighbouring world."""
    other = updates.copy()
    other[client] = 0
    return other


def separation(moved: Vectors, noised: Vectors) -> tuple[float, float]:
    """In how many standard deviations of its own a statistic moves: about, and at the least.

    The statistic is linear: the direction in which the mean moves; or that one seen through the covariance of the
    noise, found in the first half of the draws and measured in the second. At the least: its noise is taken to be as
    large as its spread and kurtosis let it be.

    Args:
        moved: by how much what is seen moved, (draws, n).
        noised: what is seen in one of the worlds, (draws, n).
    """
    scale = SAME * max(1.0, float(np.abs(noised).max()), float(np.abs(moved).max()))
    mean, spread = moved.mean(axis=0), noised.std(axis=0, ddof=1)
    if np.any((spread < scale) & (np.abs(moved).min(axis=0) > scale)):
        return inf, inf
    some = spread >= scale
    if not some.any() or np.abs(mean).max() < scale:
        return 0.0, 0.0
    moved, noised, mean = moved[:, some] / spread[some], noised[:, some] / spread[some], mean[some] / spread[some]
    half = len(moved) // 2
    covariance = np.cov(noised[:half], rowvar=False).reshape(len(mean), -1) + 0.02 * np.eye(len(mean))
    through = np.linalg.solve(covariance, moved[:half].mean(axis=0))
    return max(_along(moved @ mean, noised @ mean), _along(moved[half:] @ through, noised[half:] @ through))


def _along(change: NDArray[np.float64], noise: NDArray[np.float64]) -> tuple[float, float]:
    """The same of one statistic, (draws,)."""
    n, centred = len(change), noise - noise.mean()
    variance = float(centred @ centred) / (n - 1)
    if variance < SAME**2 * max(1.0, float(change.mean()) ** 2):
        return inf, inf
    kurtosis = float((centred**4).mean()) / variance**2
    most = variance / max(1 - SURE * sqrt(max(kurtosis - 1, 2) / n), 0.1)
    least = abs(float(change.mean())) - SURE * float(change.std(ddof=1)) / sqrt(n)
    return abs(float(change.mean())) / sqrt(variance), max(least, 0.0) / sqrt(most)


@dataclass(frozen=True)
class _Claim:
    """A loss of the accountants, and where it can be measured."""

    stage: str
    loss: Loss
    observer: str
    gaussian: bool


def _claims(history: History) -> list[_Claim]:
    noisy = [
        history.stages[i] for i, _ in candidates(history.stages, history.facts, history.recoded) if history.facts[i]
    ]
    return [
        _Claim(stage.name, loss, str(stage.observer), stage.adds_noise is not None and stage.adds_noise.gaussian)
        for stage, loss in zip(noisy, losses(history), strict=True)
    ]


def refuted_noise(scenario: Scenario, samples: NDArray[np.int64], dimension: int, draws: int = 120) -> list[Refuted]:
    """Losses and printed epsilons that are smaller than what was measured.

    Args:
        scenario: what to play; nothing is learned in it.
        samples: of each client, (clients,).
        dimension: of updates.
        draws: of the noise.
    """
    base = play(scenario, samples, np.zeros((scenario.clients, dimension)))
    history, rng = base.history, np.random.default_rng(scenario.seed)
    claims = (
        [] if history.any_view.uncovered or not base.sums or SERVER not in history.participation else _claims(history)
    )
    found, at = [], {"server": 0.0, "outside": 0.0}
    for claim in claims:
        limits = [allowed(history, claim.loss, client) for client in range(scenario.clients)]
        if not any(0 < limit < inf for limit in limits):
            continue
        client, updates = _worst_world(base, claim.observer, limits, dimension, rng)
        limit = limits[client]
        measured = _measured(base, updates, client, claim.observer, limit, draws)
        if measured > SLACK * limit:
            what = f"stage '{claim.stage}': standard deviations by which client {client} moves what the "
            found.append(Refuted(f"{what}{_who(claim.observer)} sees", limit, measured))
        if claim.gaussian:
            at[claim.observer] = max(at[claim.observer], measured)
            printed = _printed(scenario, history, client)
            floor = {name: float(gaussian.epsilon(measured, delta)) for name, (_, delta) in printed.items()}
            only = len({each.observer for each in claims}) == 1 and len(claims) == 1
            found += [
                Refuted(f"epsilon of client {client} by accountant '{name}'", said, floor[name])
                for name, (said, _) in printed.items()
                if only and floor[name] > SLACK * said
            ]
    return found


def _who(observer: str) -> str:
    return "server" if observer == "server" else "world outside"


def _printed(scenario: Scenario, history: History, client: int) -> dict[str, tuple[float, float]]:
    """Epsilon and delta of a client, or of the worst one, as each accountant prints it."""
    printed = {}
    for accountant in accountants(scenario):
        delta = dict(vars(accountant)).get("delta")
        each = accountant.clients(history).get("epsilon")
        if delta is not None and each is not None:
            printed[accountant.name] = float(each[client]), float(delta)
    return printed


def _worst_world(
    base: Played, observer: str, limits: list[float], dimension: int, rng: np.random.Generator
) -> tuple[int, Vectors]:
    """The client and updates that move most, in units of what is allowed: the best of many, improved by climbing."""
    clients, shown = len(limits), base.parts.protocol.shows_updates

    def score(updates: Vectors, client: int) -> float:
        if not 0 < limits[client] < inf:
            return -inf
        with_it, other = (base.again(each).sums for each in (updates, without(updates, client)))
        one, two = (seen(sums, client, observer, shown) for sums in (with_it, other))
        return float(np.linalg.norm(one - two)) / limits[client]

    tried = [(c, updates) for c in range(clients) for updates in worlds(clients, dimension, c, rng)]
    scores = [score(updates, client) for client, updates in tried]
    best = int(np.argmax(scores))
    (client, updates), most = tried[best], scores[best]
    for _ in range(12):
        step = updates * (1 + 0.3 * rng.standard_normal(updates.shape)) + 0.1 * rng.standard_normal(updates.shape)
        if (value := score(step, client)) > most:
            updates, most = step, value
    return client, updates


def _measured(base: Played, updates: Vectors, client: int, observer: str, limit: float, draws: int) -> float:
    """Standard deviations by which a client moves what an observer sees; more draws where it may be above a limit.

    Of a server that sees single updates over all that reach it: those in no sum are as telling as the others.
    """
    shown = base.parts.protocol.shows_updates
    summed = sum(int((each.clients == client).sum()) for each in base.sums)
    all_of_them = base.uploads()[client] / summed if shown and observer == "server" and summed else 1.0
    views: tuple[list[NDArray[np.float64]], ...] = ([], [])
    least = 0.0
    for times, clearly in ((1, 1.1), (3, 1.05), (12, 1.0)):
        for view, world in zip(views, (updates, without(updates, client)), strict=True):
            first = len(view) + 1
            view += [
                seen(base.again(world, k).sums, client, observer, shown) for k in range(first, first + times * draws)
            ]
        one, two = np.array(views[0]), np.array(views[1])
        about, least = separation(one - two, two) if one.shape[1] else (0.0, 0.0)
        about, least = (value * sqrt(max(all_of_them, 1.0)) for value in (about, least))
        if about < clearly * limit or least > SLACK * limit:
            break
    return least
