"""What the noise in the sums leaves to be learned about each client, composed over the rounds it really took part in.

Adjacency is zero-out: a client's updates against none, everybody else and who took part being known. Participation must
not depend on data: where clients leave after a look at their own models, leaving tells something of their data
without any noise, and epsilon is infinite. Gaussian losses compose exactly, also where noise follows from earlier
sums (Dong, Roth and Su, "Gaussian differential privacy", 2022, Corollary 3.3); pure ones add up; Renyi divergences
add up and are turned into an epsilon by Canonne, Kamath and Steinke, "The discrete Gaussian for differential
privacy", 2020, Proposition 12.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import SERVER, Bools, Floats, Integers
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
    """The most and the median epsilon of all clients after each round, (rounds,), and each one's last, (clients,)."""

    most: Floats
    median: Floats
    last: Floats


def losses(history: History) -> list[Loss]:
    """What each stage leaves whose noise protects, by itself: each of them holds, whatever the others add."""
    each_loss = []
    for i, bound in candidates(history.stages, history.facts, history.beside):
        stage, facts = history.stages[i], history.facts[i]
        if not facts:
            continue
        loss = _of_every_round(stage.loss(facts, bound), facts, history)
        if stage.observer == "server":
            loss = _with_unsummed(loss, facts, history)
        loss = replace(loss, weighted=noise_where(stage) == "server")
        if noise_where(stage) == "share":
            loss = _of_equal_shares(replace(loss, opened=history.open_to(stage.colluders)), history)
        each_loss.append(loss)
    return each_loss


def _of_every_round(loss: Loss, facts: Facts, history: History) -> Loss:
    """The loss, infinite where updates were summed or the stage said something, and its loss is no number, none or
    below 0; and where updates were summed and it said nothing.
    """
    if loss.mu is None and loss.pure is None and loss.rdp is None:
        loss = replace(loss, mu=np.full(history.shape[0], np.inf))
    summed = np.diff(history.participation[SERVER].indptr) > 0
    said = ~np.isnan(np.stack(list(facts.values()))).all(axis=0)

    def sure(values: Floats | None) -> Floats | None:
        if values is None:
            return None
        shape = (-1,) + (1,) * (values.ndim - 1)
        unknown = np.where(summed | said, np.inf, 0.0).reshape(shape)
        return np.where((values >= 0) & (said | ~summed).reshape(shape), values, unknown)

    span = None if loss.span is None else np.maximum(loss.span, summed | said)
    return replace(loss, mu=sure(loss.mu), pure=sure(loss.pure), rdp=sure(loss.rdp), span=span)


def _of_equal_shares(loss: Loss, history: History) -> Loss:
    """The loss, infinite where updates that bear shares of noise count differently."""
    rows = noised_weights(history, Loss(weighted=True))
    least, most = (np.zeros(rows.shape[0]) for _ in range(2))
    for t in np.flatnonzero(np.diff(rows.indptr)):
        inside = rows.data[rows.indptr[t] : rows.indptr[t + 1]]
        least[t], most[t] = inside.min(), inside.max()
    level = most - least <= EQUAL * most
    mu = np.zeros(len(level)) if loss.mu is None else loss.mu
    return loss if level.all() else replace(loss, mu=np.where(level, mu, np.inf))


def _with_unsummed(loss: Loss, facts: Facts, history: History) -> Loss:
    """The loss of a stage that protects against the server, also of updates that the server has seen, and no sum holds.

    In a round of which the stage says nothing the loss is the one that it says of all others, if that is one.
    """
    if (alone := history.any_view.alone) is None:
        from scipy.sparse import csr_array

        return Loss(mu=np.full(history.shape[0], np.inf), unsummed=csr_array(np.ones(history.shape)))
    if not alone.nnz:
        return loss
    said = ~np.isnan(np.stack(list(facts.values()))).all(axis=0)

    def everywhere(values: Floats | None) -> Floats | None:
        if values is None:
            return None
        known = values[said]
        return np.where(said, values, known.max() if known.size and known.min() == known.max() else np.inf)

    mu = everywhere(loss.mu) if loss.rdp is None else np.full(history.shape[0], np.inf)
    return replace(loss, mu=mu, pure=everywhere(loss.pure), unsummed=alone)


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
    if history.any_view.uncovered:
        return EpsilonTimeline(np.full(rounds, np.inf), np.full(rounds, np.inf), np.full(clients, np.inf))
    each = [_timeline(history, loss, delta) for loss in losses(history)]
    if not each:  # what is not noised tells everything of whoever took part
        everybody = history.seen.tocoo()
        row, column = everybody.row.astype(np.int64), everybody.col.astype(np.int64)
        return _infinite_from(_over_rounds(row, column, np.full(len(row), np.inf), rounds, clients), history.open_to(0))
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

    def so_far(values: NDArray[np.number]) -> Floats:
        """Summed up over each client's rounds; pandas makes infinity and more no number."""
        import pandas

        finite = np.isfinite(values)
        sums, ends = (
            pandas.Series(each).groupby(client).cumsum().to_numpy() if each.any() else np.zeros(each.shape)
            for each in (np.where(finite, values, 0.0), ~finite)
        )
        return np.where(ends > 0, np.inf, sums)

    mu = np.zeros(rounds) if loss.mu is None else loss.mu
    squares = so_far((mu[round] * weight) ** 2)
    if loss.rdp is not None and loss.weighted:  # how divergences grow with a weight is the mechanism's own
        squares = squares + so_far(np.where(np.abs(weight - 1) > EQUAL, np.inf, 0.0))
    updates = np.maximum(np.ceil(weight - EQUAL), 1.0) if loss.weighted else weight**2
    pure = None if loss.pure is None else so_far(loss.pure[round] * updates)
    rdp = None if loss.rdp is None else (so_far(loss.rdp[round, i]) for i in range(len(ORDERS)))
    epsilon = _epsilons(squares, pure, rdp, delta)
    timeline = _over_rounds(round, client, epsilon, rounds, clients)
    return timeline if loss.opened is None else _infinite_from(timeline, loss.opened)


def _infinite_from(timeline: EpsilonTimeline, opened: Bools) -> EpsilonTimeline:
    """Infinite for everybody from the round on, bool (rounds,), after which more than sums may be known."""
    if not opened.any():
        return timeline
    most, median = (np.where(opened, np.inf, values) for values in timeline[:2])
    return EpsilonTimeline(most, median, np.full(len(timeline.last), np.inf))


def _epsilons(squares: Floats, pure: Floats | None, rdp: Iterable[Floats] | None, delta: float) -> Floats:
    """What squares of mu, pure epsilons and Renyi divergences, order by order, amount to, each of the same shape."""
    if rdp is None:
        distinct, which = np.unique(squares, return_inverse=True)
        epsilon = gaussian.epsilon(np.sqrt(distinct), delta)[which]
    else:
        epsilon = np.full(squares.shape, np.inf)
        for alpha, divergence in zip(ORDERS, rdp, strict=True):
            epsilon = np.minimum(epsilon, rdp_epsilon(divergence + alpha * squares / 2, alpha, delta))
    return epsilon if pure is None else epsilon + pure


class RunLoss(NamedTuple):
    """A bound of what a run tells of each client: squares of mu and pure epsilons, (clients,), and Renyi divergences,
    (orders, clients), or None. Those of runs whose noise is independent add up.
    """

    squares: Floats
    pure: Floats
    rdp: Floats | None = None

    def epsilons(self, delta: float) -> Floats:
        """Of each client, (clients,); 0 of one of whom nothing is told."""
        total = self.squares + self.pure + (0 if self.rdp is None else self.rdp.sum(axis=0))
        epsilons = np.where(total > 0, _epsilons(self.squares, self.pure, self.rdp, delta), 0.0)
        return np.where(np.isnan(total) | np.isnan(epsilons), np.inf, epsilons)

    def of_most(self) -> "RunLoss":
        """For everybody the most that it tells of any client."""
        rdp = None if self.rdp is None else np.broadcast_to(self.rdp.max(axis=1, keepdims=True), self.rdp.shape)
        squares, pure = (np.full_like(each, each.max(initial=0.0)) for each in (self.squares, self.pure))
        return RunLoss(squares, pure, rdp)

    def plus(self, other: "RunLoss") -> "RunLoss":
        """What both tell; a client that one of them does not have is told nothing of by it."""
        clients = max(len(self.squares), len(other.squares))

        def add(one: Floats, another: Floats) -> Floats:
            total = np.zeros((*one.shape[:-1], clients))
            total[..., : one.shape[-1]] += one
            total[..., : another.shape[-1]] += another
            return total

        rdp = self.rdp if other.rdp is None else other.rdp if self.rdp is None else add(self.rdp, other.rdp)
        if rdp is not None and rdp.shape[-1] < clients:
            rdp = add(rdp, np.zeros((len(rdp), clients)))
        return RunLoss(add(self.squares, other.squares), add(self.pure, other.pure), rdp)


def run_losses(history: History) -> list[RunLoss]:
    """Bounds of what all rounds together tell of each client; each of them holds."""
    clients = history.shape[1]
    if history.silent:
        return [RunLoss(np.zeros(clients), np.zeros(clients))]
    each = [] if history.any_view.uncovered else losses(history)
    if not each:
        open_to_all = history.any_view.uncovered or bool(history.open_to(0).any())
        seen = np.asarray(history.seen.sum(axis=0)).ravel() > 0
        return [RunLoss(np.where(seen | open_to_all, np.inf, 0.0), np.zeros(clients))]
    return [_run_loss(history, loss) for loss in each]


def _run_loss(history: History, loss: Loss) -> RunLoss:
    """What one loss alone leaves."""
    weights = loss_factors(history, loss)
    if loss.opened is not None and loss.opened.any():
        return RunLoss(np.full(weights.shape[1], np.inf), np.zeros(weights.shape[1]))
    squared, taking_part = weights.power(2).T, weights.astype(bool).astype(np.float64).T
    none = np.zeros(weights.shape[0])
    squares = squared @ (none if loss.mu is None else loss.mu**2)
    heavy = weights.copy()
    heavy.data = np.maximum(np.ceil(heavy.data - EQUAL), 1.0)
    pure = (heavy.T if loss.weighted else squared) @ (none if loss.pure is None else loss.pure)
    if loss.rdp is not None and loss.weighted:
        other = (weights.toarray() > 0) & (np.abs(weights.toarray() - 1) > EQUAL)
        squares = np.where(other.any(axis=0), np.inf, squares)
    return RunLoss(squares, pure, None if loss.rdp is None else (taking_part @ loss.rdp).T)


def rdp_epsilon(divergence: Floats, alpha: float, delta: float) -> Floats:
    """The epsilon that a Renyi divergence of order alpha stands for."""
    return np.maximum(0.0, divergence + np.log1p(-1 / alpha) - (np.log(delta) + np.log(alpha)) / (alpha - 1))


def _over_rounds(round: Integers, client: Integers, epsilon: Floats, rounds: int, clients: int) -> EpsilonTimeline:
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
