"""How far an observer can tell a client's updates from none, measured, against what the accountants say.

Both worlds, with the client's updates and with zeros in their place, are played with the same draws, so that samplers
of any kind go through; the noise is measured over other draws. Whatever the mechanism, no statistic of what is seen can
move by more than the root of chi², in its own standard deviations (Hammersley, Chapman and Robbins), also after any
processing; for Gaussian noise of a loss mu, by mu.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from simfl.core.types import SERVER, Floats
from simfl.privacy.accountant import History
from simfl.privacy.certify.chain import candidates
from simfl.privacy.dp.losses import ORDERS, loss_factors, losses
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.multiround.participation_matrix import with_samples
from simfl.privacy.stage import Loss
from simfl.probes.simulate import DIMENSION, Played, Vectors, simulate
from simfl.scenario import Scenario
from simfl.scenario.column_owners import accountants

SURE = 3.1
"""Standard deviations of a measurement by which it is lowered before it counts."""
SAME = 1e-5
"""What moves or varies by less, relative to what is seen, has not."""
SLACK = 1.02  # by so much a measurement has to be above what is said


class Refuted(NamedTuple):
    """What is said of something, in words, and what was measured."""

    what: str
    said: float
    measured: float

    def __str__(self) -> str:
        return f"{self.what}: {self.said:.4g} is said, {self.measured:.4g} was measured"


def refuted_noise(base: Played, draws: int) -> list[Refuted]:
    """Losses and printed epsilons that are smaller than what was measured with so many draws, or more if in doubt."""
    history, rng, refuted = base.history, np.random.default_rng(base.scenario.seed), list[Refuted]()
    if history.any_view.uncovered or not base.sums or SERVER not in history.participation:
        return []
    accounted = candidates(history.stages, history.facts, history.beside)
    noisy = [history.stages[i] for i, _ in accounted if history.facts[i]]
    for stage, loss in zip(noisy, losses(history), strict=True):
        limits = [most_allowed(history, loss, client) for client in range(base.scenario.clients)]
        if min(limits) == inf:
            continue
        client, updates = _worst_world(base, str(stage.observer), limits, rng)
        measured = _measure(base, updates, client, str(stage.observer), limits[client], draws)
        who = "server" if stage.observer == "server" else "world outside"
        if measured > SLACK * limits[client]:
            what = f"stage '{stage.name}': standard deviations by which client {client} moves what the {who} sees"
            refuted.append(Refuted(what, limits[client], measured))
        if len(noisy) == 1 and stage.adds_noise is not None and stage.adds_noise.gaussian:
            refuted += _below(base, measured)
    return refuted


def most_allowed(history: History, loss: Loss, client: int) -> float:
    """Standard deviations by which a loss lets a client move any statistic over all rounds."""
    weights = loss_factors(history, loss).toarray()[:, client]
    there = weights > 0
    squares = 0.0 if loss.mu is None else float(((loss.mu[there] * weights[there]) ** 2).sum())
    if loss.pure is None and loss.rdp is None:
        return sqrt(squares)
    factor = np.exp(squares)
    if loss.pure is not None:
        factor *= 1 + 4 * np.sinh((loss.pure[there] * (1.0 if loss.weighted else weights[there] ** 2)).sum() / 2) ** 2
    if loss.rdp is not None:
        factor *= np.exp(loss.rdp[there, int(np.flatnonzero(ORDERS == 2)[0])].sum())
    return sqrt(factor - 1)


def _below(base: Played, measured: float) -> list[Refuted]:
    """Epsilons, the largest of any client, below that of Gaussian noise which so much was measured of."""
    refuted = []
    for accountant in accountants(base.scenario):
        delta = dict(vars(accountant)).get("delta")
        columns = {name: list(values) for name, values in accountant.accounts(base.history).items()}
        for name, values in columns.items():
            if delta is None or not name.startswith("epsilon") or name.endswith("median"):
                continue
            printed, bound = inf if values[-1] is None else values[-1], float(gaussian.epsilon(measured, delta))
            if bound > SLACK * printed:
                refuted.append(Refuted(f"{name} of accountant '{accountant.name}'", printed, bound))
    return refuted


def _seen(base: Played, updates: Vectors, client: int, observer: str, redraw: int = 0) -> Floats:
    """All that an observer, ``server`` or ``outside``, sees of a client in a run, as one vector."""
    sums = base.again(updates, redraw).sums
    if observer == "outside":
        return np.concatenate([each.released for each in sums])
    if not base.parts.protocol.shows_updates:
        return np.concatenate([each.total for each in sums])
    return np.concatenate([each.sent[each.clients == client].ravel() for each in sums])


def _without(updates: Vectors, client: int) -> Vectors:
    return np.where(np.arange(len(updates))[:, None] == client, 0.0, updates)


def _worlds(clients: int, client: int, rng: np.random.Generator) -> Iterator[Vectors]:
    """Updates of all clients among which one client's is hard to hide: long, at corners, against the crowd, alike."""
    crowd, corner = rng.standard_normal((clients, DIMENSION)), np.sign(rng.standard_normal(DIMENSION))
    for size in (1e3, 1.0, 1e-2):
        for direction in (rng.standard_normal(DIMENSION), np.eye(DIMENSION)[0], corner):
            updates = np.zeros((clients, DIMENSION))
            updates[client] = size * direction
            yield updates
    against = 0.5 * crowd
    against[client] = -1e3 * np.sign(crowd.sum(axis=0))
    yield against
    yield np.repeat(crowd[:1], clients, axis=0)


def _worst_world(base: Played, observer: str, limits: list[float], rng: np.random.Generator) -> tuple[int, Vectors]:
    """The client and updates that move most, in units of what is allowed: the best of many, improved by climbing."""

    def score(updates: Vectors, client: int) -> float:
        one, two = (_seen(base, each, client, observer) for each in (updates, _without(updates, client)))
        return float(np.linalg.norm(one - two)) / max(limits[client], 1e-9)

    tried = [(c, w) for c, limit in enumerate(limits) if limit < inf for w in _worlds(len(limits), c, rng)]
    scores = [score(updates, client) for client, updates in tried]
    (client, updates), most = tried[int(np.argmax(scores))], max(scores)
    for _ in range(12):
        step = updates * (1 + 0.3 * rng.standard_normal(updates.shape)) + 0.1 * rng.standard_normal(updates.shape)
        if (value := score(step, client)) > most:
            updates, most = step, value
    return client, updates


def _measure(base: Played, updates: Vectors, client: int, observer: str, limit: float, draws: int) -> float:
    """Standard deviations by which a client moves what an observer sees; more draws where it may be above a limit.

    Of a server that sees single updates over all that reach it: those in no sum are as telling as the others.
    """
    summed = sum(int((each.clients == client).sum()) for each in base.sums)
    single = base.parts.protocol.shows_updates and observer == "server" and summed
    more = sqrt(max(base.uploads(client) / summed, 1.0)) if single else 1.0
    worlds, views, least = (updates, _without(updates, client)), (list[Vectors](), list[Vectors]()), 0.0
    for times, clearly in ((1, 1.1), (3, 1.05), (12, 1.0)):
        for view, world in zip(views, worlds, strict=True):
            first = len(view) + 1
            view += [_seen(base, world, client, observer, k) for k in range(first, first + times * draws)]
        one, two = np.array(views[0]), np.array(views[1])
        about, least = separation(one - two, two) if one.shape[1] else (0.0, 0.0)
        if more * about < clearly * limit or more * least > SLACK * limit:
            break
    return more * least


def separation(moved: Vectors, noised: Vectors) -> tuple[float, float]:
    """In how many standard deviations of its own a statistic of views, (draws, n), moves: about, and at the least.

    The statistic is linear: the direction in which the mean moves; or that one seen through the covariance of the
    noise, found in the first half of the draws and measured in the second.
    """
    scale = SAME * max(1.0, float(np.abs(noised).max()), float(np.abs(moved).max()))
    mean, spread = moved.mean(axis=0), noised.std(axis=0, ddof=1)
    if np.any((spread < scale) & (np.abs(moved).min(axis=0) > scale)):
        return inf, inf
    if not (some := spread >= scale).any() or np.abs(mean).max() < scale:
        return 0.0, 0.0
    moved, noised, mean = moved[:, some] / spread[some], noised[:, some] / spread[some], mean[some] / spread[some]
    half = len(moved) // 2
    covariance = np.cov(noised[:half], rowvar=False).reshape(len(mean), -1) + 0.02 * np.eye(len(mean))
    through = np.linalg.solve(covariance, moved[:half].mean(axis=0))
    return max(_along(moved @ mean, noised @ mean), _along(moved[half:] @ through, noised[half:] @ through))


def _along(difference: Floats, noise: Floats) -> tuple[float, float]:
    """The same of one statistic, (draws,): its noise is at most as large as its spread and kurtosis let it be."""
    n, centred = len(difference), noise - noise.mean()
    variance, mean = float(centred @ centred) / (n - 1), abs(float(difference.mean()))
    if variance < SAME**2 * max(1.0, mean**2):
        return inf, inf
    kurtosis = float((centred**4).mean()) / variance**2
    most = variance / max(1 - SURE * sqrt(max(kurtosis - 1, 2) / n), 0.1)
    least = mean - SURE * float(difference.std(ddof=1)) / sqrt(n)
    return mean / sqrt(variance), max(least, 0.0) / sqrt(most)


# -- What updates count in a sum, and whose draws stand in it: measured, against what the accountants are told

SMALL = 1e-2  # updates that nobody clips; rounding still is far less
EQUAL = 0.03
"""Coefficients differ where they do by more, relatively."""
MEANT = 200
"""Draws over which coefficients are averaged where noise moves them."""


def refutations(scenario: Scenario, draws: int) -> list[Refuted]:
    """All that probes of a scenario's sums and noise refute, the noise measured with so many draws or more."""
    base, rng = simulate(scenario), np.random.default_rng(scenario.seed)
    sent = base.again(rng.standard_normal((scenario.clients, DIMENSION))).sums
    rounding = [] if scenario.secagg.certificate else [it for i, each in enumerate(sent) for it in _off(each, i)]
    return [*rounding, *refuted_weights(base), *repeated_noise(base), *refuted_noise(base, draws)]


def _off(total: Any, number: int) -> list[Refuted]:
    """A sum that is farther from the weighted sum of what was sent than rounding is said to move it."""
    if not total.shares.size or total.clipped:
        return []
    off = float(np.abs(total.total - total.shares @ total.sent).max(initial=0))
    exact = 1e-5 * max(1.0, float(np.abs(total.sent).max(initial=0)))
    most = float(np.abs(total.shares).sum()) * total.step
    what = f"rounding of a coordinate of aggregate {number} by the protocol"
    return [Refuted(what, most, off)] if off > most + exact else []


def coefficients(base: Played, redraw: int = 0) -> Floats:
    """What each client's update counts in each released aggregate, (sums, clients): same draws, all other updates 0."""
    direction = SMALL * np.where(np.arange(DIMENSION) % 2, -1.0, 1.0)
    nothing = [each.released for each in base.again(base.nothing, redraw).sums]
    seen = np.zeros((len(nothing), base.scenario.clients))
    for client in range(base.scenario.clients):
        one = base.nothing
        one[client] = direction
        for t, each in enumerate(base.again(one, redraw).sums):
            seen[t, client] = float((each.released - nothing[t]) @ direction) / float(direction @ direction)
    return seen


def refuted_weights(base: Played) -> list[Refuted]:
    """Clients who count otherwise in an aggregate than the participation matrix says, relative to the heaviest one.

    Of aggregates that single updates decide, of compressed ones, and where updates that stay are said to change, the
    matrix says nothing.
    """
    history = base.history
    view = history.any_view
    if view.opaque or history.beside.coded or not view.same or SERVER not in history.participation:
        return []
    matrix = history.participation[SERVER].astype(np.float64)
    rows = (matrix if history.samples is None else with_samples(matrix, history.samples)).toarray()
    summed = rows[[done.number for done in base.rounds if len(done.clients)]]
    counted = [t for t, each in enumerate(base.sums) if len(each.clients)]
    clipped = [base.sums[t].clipped for t in counted]
    refuted = _unequal(summed, coefficients(base)[counted], 0.0, clipped)
    if not refuted:
        return []
    draws = np.array([coefficients(base, k)[counted] for k in range(1, MEANT + 1)])
    return _unequal(summed, draws.mean(axis=0), SURE * draws.std(axis=0) / np.sqrt(MEANT), clipped)


def _unequal(rows: Floats, measured: Floats, error: Any, clipped: Sequence[int]) -> list[Refuted]:
    """Clients who count otherwise than their row says, up to an error; sums that a protocol clipped are left out."""
    refuted, errors = [], np.broadcast_to(error, rows.shape)
    for t, (row, column, off) in enumerate(zip(rows, np.abs(measured), errors, strict=True)):
        most = column.max() or 1.0
        said, counted = row / (row.max() or 1.0), column / most
        gap = np.abs(said - counted) - 2 * off / most
        client = int(np.argmax(gap))
        if gap[client] > EQUAL and not clipped[t]:
            what = f"weight of client {client} in aggregate {t}, the heaviest being 1"
            refuted.append(Refuted(what, float(said[client]), float(counted[client])))
    return refuted


def repeated_noise(base: Played) -> list[Refuted]:
    """Draws of clients' noise that stand in two places as if they were two: of two stages, jobs or aggregates."""
    recorder = base.again(base.nothing)
    noise = [use for uses in recorder.uses_by_call for use in uses if use.purpose not in base.public]
    times = Counter(use.address for use in noise)
    stages: dict[tuple[str, ...], set[int]] = {}
    for use in recorder.streams.uses:
        if use.purpose not in base.public:
            stages.setdefault(use.address, set()).add(use.stage)
    places = {address: max(times[address], len(by)) for address, by in stages.items()}
    return [
        Refuted(f"places in which noise of the stream {'/'.join(address)} stands", 1, count)
        for address, count in places.items() if count > 1
    ][:3]  # fmt: skip
