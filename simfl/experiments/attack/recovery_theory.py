"""What least squares over rounds will recover under a policy, before anything is learned: its rows alone decide."""

import numpy as np

from simfl.attacks.least_squares import solve
from simfl.core.json_data import JsonObject
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Floats, View
from simfl.selection.asking import ask
from simfl.selection.base import Policy

MOST_CLIENTS = 150
"""More take minutes."""

WINDOWS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0)
"""Rounds that are combined, in multiples of the clients."""

DRAWS = 11


def windows(setting: ScenarioView) -> list[JsonObject]:
    """For some numbers of rounds what solving their sums tells; everybody is available, and nobody fails.

    Returns:
        Each with ``rounds``, ``rank``, the mean errors without noise of equally long updates that are uncorrelated
        (``error_uncorrelated``, 1 - rank / N) and all the same (``error_alike``), and ``noise_amplification``
        (tr(G^+) / N, by what the variance of a sum's noise is multiplied), medians over some draws, and its 90th
        percentile ``noise_amplification_90``. With a mean cosine of c between updates expect an error of
        (1 - c) error_uncorrelated + c error_alike. Empty for more than :data:`MOST_CLIENTS` clients,
        and where the policy looks at what happens in a run.
    """
    n, streams = setting.clients, Streams(setting.seed)
    policy = setting.selection
    if n > MOST_CLIENTS or policy.reads or policy.asks or policy.reads_history:
        return []
    sizes = sorted({round(n * factor) for factor in WINDOWS})
    rows_by_size: dict[int, list[tuple[int, float, float]]] = {size: [] for size in sizes}
    for draw in range(DRAWS):
        rows = _rows(policy, n, sizes[-1], streams, draw)
        for size in sizes:
            solution = solve(rows[:size].T @ rows[:size])
            rows_by_size[size].append((solution.rank, solution.amplification, solution.alike))
    return [_row(size, n, np.array(values)) for size, values in rows_by_size.items()]


def _rows(policy: Policy, clients: int, rounds: int, streams: Streams, draw: int) -> Floats:
    """0/1 rows of the participation matrix, (rounds, clients)."""
    rows = np.zeros((rounds, clients))
    available, participation = np.ones(clients, dtype=bool), np.zeros(clients, dtype=np.int64)
    for t in range(rounds):
        view = View(t, available, participation)
        units = ask(policy, view, policy.k, streams("attack/rows", draw, t))
        rows[t, units.ravel()] = 1
        participation[units.ravel()] += 1
    return rows


def _row(rounds: int, clients: int, values: Floats) -> JsonObject:
    rank = float(np.median(values[:, 0]))
    low, high = np.quantile(values[:, 1], (0.5, 0.9)).tolist()
    return {
        "rounds": rounds,
        "rank": rank,
        "error_uncorrelated": 1 - rank / clients,
        "error_alike": float(np.median(values[:, 2])),
        "noise_amplification": low,
        "noise_amplification_90": high,
    }
