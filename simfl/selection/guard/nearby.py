"""Certificates for a span with one row more, by projections from those before it, of all clients at once.

For a client i of a reserved unit S of T clients, the row of S forces w_j = 1 on S: the sum of w over S is T, and no
entry is larger. What is left is to find a point of the affine space of all w that are 1 on S, with w - T e_i orthogonal
to the span, in the cube |w_j| <= 1. Projections onto a slightly smaller cube and onto the space, in turn, end inside
after a few steps where the space goes through the smaller cube (von Neumann's alternating projections; Bauschke and
Borwein, SIAM Review 38, 1996, section 4), and prove nothing where it does not.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CUBE = 0.97
"""Half the edge of the smaller cube."""

STEPS = 40

RISE = 1e-6
"""Least product of the new row with a direction that is to meet it."""


def nearby(
    weights: Floats, units: NDArray[np.int32], frame: Floats, row: NDArray[np.bool_], wanted: NDArray[np.int64]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Certificates, (clients, clients), and for whom they are.

    Args:
        weights: those for the span without the row, (clients, clients).
        units: disjoint, (units, T): rows of the span, whose clients are certified T.
        frame: an orthonormal basis of the span with the row, (rank, clients), the new direction last.
        row: (clients,).
        wanted: who needs a certificate.
    """
    T, n = units.shape[1], len(weights)
    is_wanted = np.isin(units, wanted)
    units, is_wanted = units[is_wanted.any(axis=1)], is_wanted[is_wanted.any(axis=1)]
    away = np.eye(n) - frame.T @ frame
    along = frame[-1] - (frame[-1][units][:, None] @ _pull(away + np.outer(frame[-1], frame[-1]), units))[:, 0]
    rise = along @ row
    certified = np.zeros(n, dtype=bool)
    missing = (T * row - weights @ row)[units] / np.where(np.abs(rise) > RISE, rise, np.inf)[:, None]
    start = weights[units] + missing[:, :, None] * along[:, None]
    inside_unit = np.zeros((len(units), 1, n), dtype=bool)
    np.put_along_axis(inside_unit[:, 0], units, True, axis=1)
    at, inside = _inside(start, start.copy(), units, inside_unit, (away, _pull(away, units)), is_wanted)
    inside &= is_wanted & (np.abs(rise) > RISE)[:, None]
    certified[units[inside]] = True
    moved = weights.copy()
    moved[units[inside]] = at[inside]
    return moved, certified


def _inside(
    start: Floats, at: Floats, units: NDArray[np.int32], inside_unit: NDArray[np.bool_], onto: tuple[Floats, Floats],
    is_wanted: NDArray[np.bool_],
) -> tuple[Floats, NDArray[np.bool_]]:  # fmt: skip
    """Points of the affine spaces through ``start``, (units, T, clients), and which of them lie in the cube."""
    away, pull = onto
    places = np.broadcast_to(units[:, None], (*units.shape, units.shape[1]))
    for _ in range(STEPS):
        inside: NDArray[np.bool_] = np.abs(np.where(inside_unit, 0.0, at)).max(axis=2) <= 1
        if inside[is_wanted].all():
            break
        moved = (np.where(inside_unit, at, np.clip(at, -CUBE, CUBE)) - start) @ away
        at = start + moved - np.take_along_axis(moved, places, axis=2) @ pull
    return at, inside


def _pull(away: Floats, units: NDArray[np.int32]) -> Floats:
    """What takes a move's entries on a unit back to 0 and keeps it orthogonal to the span, (units, T, clients)."""
    pull: Floats = np.linalg.pinv(away[units[:, :, None], units[:, None]], rcond=1e-9, hermitian=True) @ away[units]
    return pull
