"""What the noise in the sums leaves to be learned about each client, composed over the rounds it really took part in.

Adjacency is zero-out: a client's updates against none, everybody else and who took part being known. Participation must
not depend on data: where clients leave after a look at their own models, leaving tells something of their data
without any noise, and epsilon is infinite. Gaussian losses compose exactly, also where noise follows from earlier
sums (Dong, Roth and Su, "Gaussian differential privacy", 2022, Corollary 3.3); pure ones add up; Renyi divergences
add up and are turned into an epsilon by Canonne, Kamath and Steinke, "The discrete Gaussian for differential
privacy", 2020, Proposition 12.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import SERVER
from simfl.privacy.accountant import History
from simfl.privacy.certify.chain import candidates, noise_where
from simfl.privacy.certify.maps import Facts
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.multiround.participation_matrix import with_samples
from simfl.privacy.stage import EQUAL, Loss

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


def losses(history: History) -> list[Loss]:
    """What each stage leaves whose noise protects, by itself: each of them holds, whatever the others add."""
    found = []
    for i, bound in candidates(history.stages, history.facts, history.recoded):
        stage, facts = history.stages[i], history.facts[i]
        if not facts:
            continue
        loss, where = stage.loss(facts, bound), noise_where(stage)
        if stage.observer == "server":
            loss = _with_unsummed(loss, facts, history)
        if where == "share":
            loss = replace(loss, opened=history.open_to(stage.colluders))
        found.append(_of_sums(replace(loss, weighted=loss.weighted or where == "server"), where, facts, history))
    return found


def _of_sums(loss: Loss, where: str, facts: Facts, history: History) -> Loss:
    """The loss, infinite in rounds of whose aggregate the stage says nothing, or no number, and where weights are not
    those of its law: shares of noise cover updates that count the same, and divergences are of updates that count 1.
    """
    P = noised_weights(history, replace(loss, weighted=True, span=None))
    counts = np.diff(P.indptr)
    unknown = np.asarray(np.isnan(np.stack(list(facts.values()))).all(axis=0))
    for numbers in (loss.mu, loss.pure, loss.rdp):
        if numbers is not None:
            unknown |= np.isnan(numbers.reshape(len(counts), -1)).any(axis=1)
    for t in np.flatnonzero(counts) if where == "share" or (where == "server" and loss.rdp is not None) else ():
        weights = P.data[P.indptr[t] : P.indptr[t + 1]]
        unit = weights.max() if where == "share" else 1.0
        unknown[t] |= bool((np.abs(weights - unit) > EQUAL * unit).any())
    if not (unknown & (counts > 0)).any():
        return loss
    mu = np.zeros(len(counts)) if loss.mu is None else np.nan_to_num(loss.mu, posinf=np.inf)
    return replace(loss, mu=np.where(unknown & (counts > 0), np.inf, mu))


def _with_unsummed(loss: Loss, facts: Facts, history: History) -> Loss:
    """The loss of a stage that protects against the server, also of updates that the server has seen, and no sum holds.

    In a round of which the stage says nothing the loss is the one that it says of all others, if that is one.
    """
    if history.uncounted:
        return Loss(mu=np.full(history.shape[0], np.inf))
    if history.unsummed is None:
        return loss
    said = ~np.isnan(np.stack(list(facts.values()))).all(axis=0)

    def everywhere(values: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        if values is None:
            return None
        known = values[said]
        return np.where(said, values, known.max() if np.ptp(known) == 0 else np.inf)

    mu = everywhere(loss.mu) if loss.rdp is None else np.full(history.shape[0], np.inf)
    return replace(loss, mu=mu, pure=everywhere(loss.pure), unsummed=history.unsummed)


def loss_factors(history: History, loss: Loss) -> "csr_array":
    """By how much a loss ``mu`` is multiplied for each client, scipy CSR (rounds, clients): its weight, where that
    counts; else the root of the number of its updates, in the sum or not, that have noise of their own.
    """
    weights = noised_weights(history, loss)
    if loss.weighted:
        return weights
    weights.data[:] = 1.0
    return weights if loss.unsummed is None else (weights + loss.unsummed).tocsr().sqrt()


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
    each = [_timeline(history, loss, delta) for loss in losses(history)]
    if not each:  # what is not noised tells everything of whoever took part
        everybody = history.seen.tocoo()
        row, column = everybody.row.astype(np.int64), everybody.col.astype(np.int64)
        return _over_rounds(row, column, np.full(len(row), np.inf), rounds, clients)
    return EpsilonTimeline(*(np.minimum.reduce(values) for values in zip(*each, strict=True)))


def _timeline(history: History, loss: Loss, delta: float) -> EpsilonTimeline:
    """What one loss alone leaves."""
    rounds, clients = history.shape
    weights = loss_factors(history, loss).tocoo()
    order = np.lexsort((weights.row, weights.col))
    round, client, weight = (
        weights.row[order].astype(np.int64),
        weights.col[order].astype(np.int64),
        weights.data[order],
    )

    def so_far(values: NDArray[np.number]) -> NDArray[np.float64]:
        """Summed up over each client's rounds; pandas makes infinity and more no number."""
        import pandas

        finite = np.isfinite(values)
        sums = pandas.DataFrame({"sum": np.where(finite, values, 0.0), "infinite": ~finite}).groupby(client).cumsum()
        return np.where(sums["infinite"].to_numpy() > 0, np.inf, sums["sum"].to_numpy())

    mu = np.zeros(rounds) if loss.mu is None else loss.mu
    squares, epsilon = so_far((mu[round] * weight) ** 2), np.zeros(len(round))
    if loss.pure is not None:
        epsilon = so_far(loss.pure[round] * (weight if loss.weighted else weight**2))
    if loss.rdp is not None:
        least = np.full(len(round), np.inf)
        for i, alpha in enumerate(ORDERS):
            least = np.minimum(least, rdp_epsilon(so_far(loss.rdp[round, i]) + alpha * squares / 2, alpha, delta))
        epsilon = epsilon + least
    else:
        distinct, which = np.unique(squares, return_inverse=True)
        epsilon = epsilon + gaussian.epsilon(np.sqrt(distinct), delta)[which]
    timeline = _over_rounds(round, client, epsilon, rounds, clients)
    if loss.opened is None or not loss.opened.any():
        return timeline
    most, median = (np.where(loss.opened, np.inf, values) for values in timeline[:2])
    return EpsilonTimeline(most, median, np.full(clients, np.inf))


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
