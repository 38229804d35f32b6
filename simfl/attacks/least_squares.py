"""Least squares over rounds: what combining all sums tells of each client's update (arXiv 2106.03328, Appendix G)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.attacks.base import OBSERVERS, Label, ServerView, TrueUpdates, View, equations, unread, with_label
from simfl.core.columns import Column
from simfl.core.processor import one_thread
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays, Floats

MOST_CLIENTS = 2000

COLUMNS = (
    Column("recovery_error", "Recovery error", "share",
           "Squared error of the updates that least squares recovers from all sums so far, relative to each client's "
           "own mean update, mean over the clients; 0 = recovered, 1 = no better than guessing nothing.", 1),
    Column("recovery_expected", "Recovery error, theory", "share",
           "What the projector onto the sums' null space leaves of the updates, and the noise that was there, expect.",
           1, shown=False),
    Column("recovery_uncorrelated", "Recovery error, uncorrelated updates", "share",
           "1 - rank / clients: the mean error without noise if updates are equally long and uncorrelated. No lower "
           "bound: updates that point the same way are recovered better.", 1, shown=False),
    Column("recovery_alike", "Recovery error, equal updates", "share",
           "The mean error without noise if all updates are the same. With a mean cosine of c between updates of equal "
           "length expect (1 - c) of the error for uncorrelated ones and c of this.", 1, shown=False),
    Column("update_cosine", "Mean cosine of updates", "number",
           "Between the mean updates of every two clients, mean over the pairs.", 0, shown=False),
    Column("recovery_weighted", "Recovery error, weighted", "share",
           "Sum of the squared errors over the sum of the squared lengths of the updates.", 1, shown=False),
    Column("recovered_clients", "Recovered clients", "share",
           "Share of the clients whose update is recovered with an error below 0.1.", -1),
    Column("noise_amplification", "Noise amplification", "number",
           "By what the variance of a sum's noise is multiplied in a recovered update, mean over the clients.", 1,
           shown=False),
)  # fmt: skip


class Solution(NamedTuple):
    """The estimator for a Gram matrix, and how far it is off: exact for known sums, an expectation under noise.

    y = P delta + zeta, one row a sum; the estimate is H y with H = (G + ridge)^+ P', G = P'P. With M = I - H P,
    updates that are orthogonal to each other and noise of variance s^2 a coordinate,

        E |estimate_i - delta_i|^2 = sum_j M_ij^2 |delta_j|^2 + d s^2 (H H')_ii.

    Without a ridge M projects onto P's null space: equal norms give M_ii without noise, and 1 - rank(P) / N on
    average. That is no lower bound. Updates of equal length with a cosine of c between any two, and no noise, are
    missed by

        (1 - c) |M|^2 / N + c |M 1|^2 / N

    on average, because their Gram matrix is (1 - c) I + c 1 1'. Sums that tell the mean update (M 1 = 0) miss 1 - c
    of what they would miss of uncorrelated updates. For any other updates of equal length it holds in expectation,
    c their mean cosine, where it is left to chance which client has which update.

    Attributes:
        inverse: (G + ridge)^+, (N, N): the estimate is ``inverse @ P.T @ y``.
        miss: M = I - inverse G, (N, N): what the sums do not tell.
        spread: (H H')_ii, (N,): by what the noise of a sum is multiplied.
    """

    rank: int
    inverse: Floats
    miss: Floats
    spread: Floats

    @property
    def uncorrelated_error(self) -> float:
        """Mean relative error without noise of updates that are equally long and orthogonal; 1 - rank / N if no ridge.

        No lower bound: updates that point the same way are missed by less (:attr:`alike`).
        """
        return float(np.square(self.miss).sum() / len(self.miss))

    @property
    def alike(self) -> float:
        """Mean relative error without noise of updates that are all the same."""
        return float(np.square(self.miss.sum(axis=1)).sum() / len(self.miss))

    @property
    def amplification(self) -> float:
        """tr(H H') / N; tr(G^-1) / N once the sums tell everything."""
        return float(self.spread.mean())


def solve(gram: Floats, ridge: float = 0.0) -> Solution:
    """
    Args:
        gram: G = P'P, (N, N).
        ridge: added to its diagonal; 0 = the pseudo-inverse.
    """
    n = len(gram)
    with one_thread():
        values, vectors = np.linalg.eigh(gram)
        known = values > max(values[-1], 0.0) * n * 10 * np.finfo(float).eps
        rank = int(known.sum())
        if ridge:
            values, known = np.maximum(values, 0.0), np.ones(n, dtype=bool)
        basis, scale = vectors[:, known], 1 / (values[known] + ridge)
        inverse = (basis * scale) @ basis.T
        if rank == n and not ridge:
            miss = np.zeros((n, n))  # exactly, not what rounding leaves
        else:
            miss = np.eye(n) - (basis * (scale * values[known])) @ basis.T
    return Solution(rank, inverse, miss, np.square(basis) @ (scale**2 * values[known]))


def expected_errors(solution: Solution, norms: Floats, noise: float = 0.0) -> Floats:
    """E e_i, relative to |delta_i|^2, for orthogonal updates, (N,); NaN where the update is zero.

    ``norms``: |delta_j|^2, (N,). ``noise``: d s^2, the expected squared length of a sum's noise.
    """
    with one_thread():
        off = np.square(solution.miss) @ norms + noise * solution.spread
    return np.divide(off, norms, out=np.full(len(norms), np.nan), where=norms > 0)


def errors(estimates: Floats, truth: Floats) -> tuple[Floats, Floats]:
    """Squared lengths of the errors and of the true updates, (N,) each; (N, d) both."""
    return np.square(estimates - truth).sum(axis=1), np.square(truth).sum(axis=1)


class Guess(NamedTuple):
    """The least-squares solution of all sums so far.

    Attributes:
        gram: P'P, (N, N).
        moments: P'Y, (N, c).
        energy: the summed squares of Y.
        rows: equations seen.
    """

    solution: Solution
    gram: Floats
    moments: Floats
    energy: float
    rows: float

    @property
    def estimates(self) -> Floats:
        """The recovered updates, (N, c)."""
        with one_thread():
            return self.solution.inverse @ self.moments


@OBSERVERS("least_squares")
@dataclass(frozen=True)
class LeastSquares:
    """Solves all sums so far for each client's update, as if it were the same in every round."""

    view: View = "server"
    estimator: Annotated[
        Literal["pinv", "ridge"], Field(description="the pseudo-inverse, or shrunk estimates that noise harms less")
    ] = "pinv"
    ridge: Annotated[
        float, Field(gt=0, description="of ridge: variance of a sum's noise over that of an update, if known")
    ] = 1.0
    coordinates: Annotated[
        int | None, Field(ge=1, description="coordinates of the model that are solved for, drawn once; null = all")
    ] = 4096
    every: Annotated[int, Field(ge=1, description="rounds between two solutions")] = 1
    forget: Annotated[
        float, Field(ge=0, lt=1, description="share of all that is known that is forgotten with every aggregation")
    ] = 0.0
    label: Label = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        return with_label(COLUMNS, self._label)

    @property
    def _label(self) -> str:
        return self.label or ("" if self.view == "server" else self.view)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        why = f"solves for {setting.clients} clients at once; {MOST_CLIENTS} are the most"
        return [*([("name", why)] if setting.clients > MOST_CLIENTS else []), *unread(setting, self.view)]

    # -- the observer ----------------------------------------------------------------------------------

    def start(self, clients: int, dimension: int) -> Arrays:
        c = dimension if self.coordinates is None else min(self.coordinates, dimension)
        return {
            "gram": np.zeros((clients, clients)),
            "moments": np.zeros((clients, c)),
            "energy": np.float64(0),
            "rows": np.float64(0),
        }

    def observe(self, seen: ServerView, state: Arrays, streams: Streams) -> tuple[Guess | None, Arrays]:
        state = self.learn(seen, state, streams)
        if (seen.round + 1) % self.every:
            return None, state
        ridge = self.ridge if self.estimator == "ridge" else 0.0
        solution = solve(state["gram"], ridge)
        return Guess(solution, state["gram"], state["moments"], float(state["energy"]), float(state["rows"])), state

    def learn(self, seen: ServerView, state: Arrays, streams: Streams) -> Arrays:
        """The state with the equations of one more aggregation."""
        clients, keep = len(state["gram"]), 1 - self.forget
        chosen = chosen_coordinates(len(seen.model), self.coordinates, streams)
        rows, values = equations(seen, clients, self.view, chosen)
        used = np.flatnonzero(rows.any(axis=0))
        part = rows[:, used]
        gram, moments = state["gram"] * keep, state["moments"] * keep
        gram[np.ix_(used, used)] += np.einsum("mi,mj->ij", part, part)  # no matrix product: its bits depend on threads
        moments[used] += np.einsum("mi,mc->ic", part, values)
        energy = state["energy"] * keep + np.square(values).sum()
        return {"gram": gram, "moments": moments, "energy": energy, "rows": state["rows"] * keep + len(rows)}

    # -- the scorer ------------------------------------------------------------------------------------

    def init_memory(self, clients: int, dimension: int) -> Arrays:
        return {
            "sums": self.start(clients, dimension)["moments"],
            "counts": np.zeros(clients),
            "squares": np.zeros(clients),
        }

    def update_memory(self, truth: TrueUpdates, memory: Arrays, streams: Streams) -> Arrays:
        keep = 1 - self.forget
        sums, counts, squares = (memory[name] * keep for name in ("sums", "counts", "squares"))
        updates = truth.updates[:, chosen_coordinates(truth.updates.shape[1], self.coordinates, streams)]
        sums[truth.clients] += updates
        counts[truth.clients] += 1
        squares[truth.clients] += np.square(updates, dtype=np.float64).sum(axis=1)
        return {"sums": sums, "counts": counts, "squares": squares}

    def error(self, guess: Guess, truth: TrueUpdates) -> Mapping[str, float]:
        solution, counts = guess.solution, truth.memory["counts"]
        values = {
            "recovery_uncorrelated": solution.uncorrelated_error,
            "recovery_alike": solution.alike,
            "noise_amplification": solution.amplification,
            "recovery_rank": float(solution.rank),
        }
        if truth.memory["sums"].shape[1]:
            mean_updates = truth.memory["sums"] / np.where(counts > 0, counts, 1)[:, None]
            drift = np.maximum(truth.memory["squares"] - counts * np.square(mean_updates).sum(axis=1), 0)
            values |= scores(guess, mean_updates, drift)
        names = {column.name for column in COLUMNS}
        label = f"{self._label}_" if self._label else ""
        return {f"{label}{name}" if name in names else name: value for name, value in values.items()}


def scores(guess: Guess, mean_updates: Floats, drift: Floats) -> dict[str, float]:
    """How far the guess is from the clients' own updates, and what theory expects.

    A client that was never seen counts with an error of 1: nothing is known of it. To sums, that a client's updates
    change is noise; where every equation is of one client alone, the estimate averages the change as the truth does.

    Args:
        guess: what the sums tell.
        mean_updates: each client's mean update, (N, c).
        drift: the squared distances of its updates from it, summed, (N,).
    """
    solution = guess.solution
    off, norms = errors(guess.estimates, mean_updates)
    some = norms > 0
    each = np.divide(off, norms, out=np.ones(len(norms)), where=some)
    with one_thread():
        left = (
            guess.energy - 2 * np.sum(guess.moments * mean_updates) + np.sum(mean_updates * (guess.gram @ mean_updates))
        )
    if not np.any(guess.gram - np.diag(np.diag(guess.gram))):
        left -= drift.sum()
    noise = max(float(left), 0.0) / max(guess.rows, 1.0)
    with one_thread():
        hidden = np.square(solution.miss @ mean_updates).sum(axis=1)
    theory = np.divide(hidden + noise * solution.spread, norms, out=np.ones(len(norms)), where=some)
    orthogonal = np.where(some, expected_errors(solution, norms, noise), 1.0)
    low, median, high = np.quantile(each, (0.1, 0.5, 0.9)).tolist()
    return {
        "recovery_error": float(each.mean()),
        "recovery_expected": float(theory.mean()),
        "recovery_expected_orthogonal": float(orthogonal.mean()),
        "recovery_weighted": float(off.sum() / norms.sum()) if some.any() else 1.0,
        "recovered_clients": float(np.mean(each < 0.1)),
        "recovery_error_10": low,
        "recovery_error_50": median,
        "recovery_error_90": high,
        "noise_per_coordinate": noise / mean_updates.shape[1],
        **cosine(mean_updates),
    }


def cosine(mean_updates: Floats) -> dict[str, float]:
    """The mean cosine between every two vectors other than zero, (N, c); nothing for fewer than two."""
    lengths = np.sqrt(np.square(mean_updates).sum(axis=1))
    some = int((lengths > 0).sum())
    if some < 2:
        return {}
    total = (mean_updates[lengths > 0] / lengths[lengths > 0, None]).sum(axis=0)
    return {"update_cosine": float((np.square(total).sum() - some) / (some * (some - 1)))}


@cache
def chosen_coordinates(dimension: int, count: int | None, streams: Streams) -> Any:
    """The coordinates that are looked at, ascending int64 (count,); all as a slice where there are no more."""
    if count is None or count >= dimension:
        return slice(None)
    return np.sort(streams("attack/coordinates").choice(dimension, count, replace=False, shuffle=False))


# -- What an attacker keeps for the end of a run: single updates where they are shown, else what sums tell of them

SHOWN = "whose", "starts", "updates"
"""Of a state: what is kept of the updates of a round, as they are in :class:`Recovered`."""


class Recovered(NamedTuple):
    """Updates, float32 (n, d), as the attacker knows them, of clients (n,), and the models they began from, (n, d)."""

    clients: NDArray[np.int32]
    starts: NDArray[np.float32]
    updates: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """Keys of every attack on recovered updates."""

    view: View = "server"
    window: Annotated[
        int, Field(ge=1, description="last aggregations that are kept, where single updates are shown")
    ] = 1

    label: Label = ""

    def column_names(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Numbers under the names of its columns."""
        return {f"{self.label}_{name}" if self.label else name: value for name, value in numbers.items()}

    def start(self, clients: int, dimension: int) -> Arrays:
        return {"clients": np.int64(clients)}

    def observe(self, seen: ServerView, state: Arrays, streams: Streams) -> tuple[None, Arrays]:
        """Keeps what :meth:`recovered_updates` needs; it guesses nothing during the run."""
        clients = int(state["clients"])
        state = {**state, "model": seen.model, "before": seen.before}
        if seen.vectors is not None and self.view == "server":
            return None, self._shown(seen, state)
        solver = LeastSquares(view=self.view, coordinates=None)
        known = {name[5:]: value for name, value in state.items() if name.startswith("sums/")}
        known = known or solver.start(clients, len(seen.model))
        known = solver.learn(seen, known, streams)
        return None, state | {f"sums/{name}": value for name, value in known.items()}

    def _shown(self, seen: ServerView, state: Arrays) -> Arrays:
        """With the updates of the last aggregations, each with the model it began from; arrays of their own a round."""
        assert seen.vectors is not None
        members = np.isin([job.client for job in seen.jobs], seen.total.clients)
        starts = np.stack([seen.sent[job.start] for job, member in zip(seen.jobs, members, strict=True) if member])
        old = [f"/{t}" for t in _rounds(state)[: 1 - self.window or None]]
        recent = {name: value for name, value in state.items() if not name.endswith(tuple(old))}
        new = seen.total.clients, starts, seen.vectors[members]
        return recent | {f"{name}/{seen.round}": value for name, value in zip(SHOWN, new, strict=True)}

    def recovered_updates(self, state: Arrays) -> list[Recovered]:
        """All updates that are known, one batch an aggregation; of sums, one batch of every client's estimate."""
        if rounds := _rounds(state):
            return [Recovered(*(np.asarray(state[f"{name}/{t}"]) for name in SHOWN)) for t in rounds]
        if "sums/gram" not in state:
            return []
        gram = np.asarray(state["sums/gram"])
        with one_thread():
            estimates = (solve(gram).inverse @ state["sums/moments"]).astype(np.float32)
        clients = np.flatnonzero(np.diag(gram)).astype(np.int32)
        starts = np.broadcast_to(np.asarray(state["before"], dtype=np.float32), (len(clients), estimates.shape[1]))
        return [Recovered(clients, starts, estimates[clients])]


def _rounds(state: Arrays) -> list[int]:
    """Of the updates that are kept, ascending."""
    return sorted(int(name.partition("/")[2]) for name in state if name.startswith(f"{SHOWN[0]}/"))
