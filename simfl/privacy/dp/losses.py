"""What the noise in the sums leaves to be learned about each client, composed over the rounds it really took part in.

Adjacency is zero-out: a client's updates against none, everybody else and who took part being known. Participation must
not depend on data: where clients leave after a look at their own models, leaving tells something of their data
without any noise, and epsilon is infinite. Gaussian losses compose exactly, also where noise follows from earlier
sums (Dong, Roth and Su, "Gaussian differential privacy", 2022, Corollary 3.3); pure ones add up; Renyi divergences
add up and are turned into an epsilon by Canonne, Kamath and Steinke, "The discrete Gaussian for differential
privacy", 2020, Proposition 12.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import SERVER
from simfl.privacy.accountant import History, any_number
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.multiround.participation_matrix import with_samples
from simfl.privacy.stage import Loss

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ORDERS = np.array([*range(2, 65), *range(68, 129, 4), *range(144, 257, 16), 320, 384, 512, 768, 1024])
"""Orders of the Renyi divergences; whole, as some bounds hold for whole ones only."""


class EpsilonTimeline(NamedTuple):
    """The most and the median epsilon of all clients after each round, (rounds,), and each client's last one,
    (clients,).
    """

    most: NDArray[np.float64]
    median: NDArray[np.float64]
    last: NDArray[np.float64]


def losses(history: History) -> Iterator[Loss]:
    """What each stage that adds noise leaves."""
    for stage, facts in zip(history.stages, history.facts, strict=True):
        if facts and (loss := stage.loss(facts)) is not None:
            yield loss


def opened_noise(history: History) -> NDArray[np.bool_]:
    """From which round on shares of noise may be open to the server and the colluders that a stage allows for, whose
    epsilon against them is infinite then, bool (rounds,).
    """
    shared = [stage for stage in history.stages if stage.observer == "server" and not stage.at_client]
    opened = [history.open_to(stage.colluders) for stage in shared]
    return np.logical_or.reduce([np.zeros(history.shape[0], dtype=bool), *opened])


def noised_weights(history: History, loss: Loss) -> "csr_array":
    """The weight with which each client is in what each round noised, scipy CSR (rounds, clients)."""
    from scipy.sparse import csr_array

    P = history.participation[SERVER].astype(np.float64)
    if loss.weighted and history.samples is not None:
        P = with_samples(P, history.samples)
    if loss.span is None:
        return P
    summed = np.flatnonzero(loss.span)
    spans = loss.span[summed]
    ends = np.repeat(np.arange(len(summed)), spans)
    steps = np.arange(len(ends)) - np.repeat(np.cumsum(spans) - spans, spans)
    places = summed[ends], summed[ends - steps]
    return csr_array(csr_array((np.ones(len(ends)), places), shape=(P.shape[0], P.shape[0])) @ P)


def epsilon_timeline(history: History, delta: float) -> EpsilonTimeline:
    """Each client's epsilon over the rounds of a run or a log, for a delta in (0, 1)."""
    rounds, clients = history.shape
    if history.silent:
        return EpsilonTimeline(np.zeros(rounds), np.zeros(rounds), np.zeros(clients))
    if history.exposing:
        return EpsilonTimeline(np.full(rounds, np.inf), np.full(rounds, np.inf), np.full(clients, np.inf))
    opened = opened_noise(history)
    if opened.any():
        timeline = epsilon_timeline(replace(history, tolerated=any_number, recorded=None), delta)
        most, median = (np.where(opened, np.inf, values) for values in timeline[:2])
        return EpsilonTimeline(most, median, np.full(clients, np.inf))
    parts, orders = _composable(history)
    if not parts:  # what is not noised tells everything of whoever took part
        everybody = sum(history.participation.values()).tocoo()  # of every aggregator
        row, column = everybody.row.astype(np.int64), everybody.col.astype(np.int64)
        return _over_rounds(row, column, np.full(len(row), np.inf), rounds, clients)
    places, where = np.unique(np.concatenate([part.places for part in parts]), return_inverse=True)
    client, round = np.divmod(places, rounds)

    def so_far(values: NDArray[np.number]) -> NDArray[np.float64]:
        """Summed up over each client's rounds."""
        import pandas

        total: NDArray[np.float64] = pandas.Series(values).groupby(client).cumsum().to_numpy()
        return total

    columns = ([part.squares for part in parts], [part.pure for part in parts], [part.renyi for part in parts])
    each = [np.bincount(where, np.concatenate(values), len(places)) for values in columns]
    squares, epsilon, noised = so_far(each[0]), so_far(each[1]), each[2] > 0
    if orders.size:
        least = np.full(len(places), np.inf)
        for i, alpha in enumerate(ORDERS):
            divergence = so_far(np.where(noised, orders[round, i], 0.0)) + alpha * squares / 2
            least = np.minimum(least, rdp_epsilon(divergence, alpha, delta))
        epsilon = epsilon + least
    else:
        distinct, which = np.unique(squares, return_inverse=True)
        epsilon = epsilon + gaussian.epsilon(np.sqrt(distinct), delta)[which]
    return _over_rounds(round, client, epsilon, rounds, clients)


class _Composable(NamedTuple):
    """One stage's losses, an entry for each client of each round that it noised.

    Attributes:
        places: client * rounds + round.
        squares: of mu, times the weight where that counts.
        pure: epsilons.
        renyi: whether the stage's loss is given by Renyi divergences.
    """

    places: NDArray[np.int64]
    squares: NDArray[np.float64]
    pure: NDArray[np.float64]
    renyi: NDArray[np.bool_]


def _composable(history: History) -> tuple[list[_Composable], NDArray[np.float64]]:
    """The losses of all stages that add noise, and the sum of their Renyi divergences, (rounds, orders or 0)."""
    rounds, _ = history.shape
    parts, orders = [], np.zeros((rounds, 0))
    for loss in losses(history):
        weights = noised_weights(history, loss).tocoo()
        row, column, weight = weights.row.astype(np.int64), weights.col.astype(np.int64), weights.data
        mu = np.zeros(rounds) if loss.mu is None else loss.mu
        pure = np.zeros(rounds) if loss.pure is None else loss.pure
        scaled = mu[row] * weight if loss.weighted else mu[row]
        renyi = np.full(len(row), loss.rdp is not None)
        parts.append(_Composable(column * rounds + row, scaled**2, pure[row], renyi))
        if loss.rdp is not None:
            orders = loss.rdp if not orders.size else orders + loss.rdp
    return parts, orders


def rdp_epsilon(divergence: NDArray[np.float64], alpha: float, delta: float) -> NDArray[np.float64]:
    """The epsilon that a Renyi divergence of order alpha stands for."""
    return np.maximum(0.0, divergence + np.log1p(-1 / alpha) - (np.log(delta) + np.log(alpha)) / (alpha - 1))


def _over_rounds(
    round: NDArray[np.int64], client: NDArray[np.int64], epsilon: NDArray[np.float64], rounds: int, clients: int
) -> EpsilonTimeline:
    order = np.argsort(round, kind="stable")
    ends = np.searchsorted(round[order], np.arange(rounds), side="right")
    now, most, median, begin, highest, touched = np.zeros(clients), np.zeros(rounds), np.zeros(rounds), 0, 0.0, 0
    for t, end in enumerate(ends.tolist()):
        chosen = order[begin:end]
        touched += int((now[client[chosen]] == 0).sum())
        now[client[chosen]] = epsilon[chosen]
        highest, begin = max(highest, float(epsilon[chosen].max(initial=0.0))), end
        most[t] = highest
        median[t] = np.median(now) if 2 * touched >= clients else 0.0
    return EpsilonTimeline(most, median, now)
