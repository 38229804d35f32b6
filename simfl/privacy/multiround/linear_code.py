"""The row space as a linear code modulo a prime, over clients that vanish together merged into weighted places."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.core.prime_field import Residues, echelon, inverses, matvec, negative, times
from simfl.privacy.multiround.basis import Basis

PLACES = 20
"""Bits for the number of a place in a sort key, beside 32 of a residue; the budget keeps codes far shorter."""


@dataclass(frozen=True)
class LinearCode:
    """A code in reduced echelon form.

    Attributes:
        form: residues, shape (r, M): the generating rows.
        pivots: int64, shape (r,).
        weight: int64, shape (M,), ascending: clients merged into each place.
        classes: for each place the classes merged into it.
    """

    form: Residues
    pivots: NDArray[np.int64]
    weight: NDArray[np.int64]
    classes: list[NDArray[np.int64]]
    p: int

    @property
    def free(self) -> NDArray[np.int64]:
        """The places without a pivot, shape (k,)."""
        return np.setdiff1d(np.arange(len(self.weight)), self.pivots)

    def support(self, places: NDArray[np.integer]) -> NDArray[np.int64]:
        """The classes behind some places."""
        return np.sort(np.concatenate([self.classes[place] for place in places]))

    def dependent(self, places: NDArray[np.integer]) -> bool:
        """Whether some codeword vanishes outside these places: their rows of the null-space basis are dependent."""
        free = self.free
        rows = (places[:, None] == free).astype(np.uint64)
        for row, place in zip(rows, places, strict=True):
            pivot_row = np.flatnonzero(self.pivots == place)
            if len(pivot_row):
                row[:] = negative(self.form[pivot_row[0], free], self.p)
        return len(echelon(rows, self.p)[1]) < len(places)

    def functionals(self, count: int) -> Residues:
        """Random combinations of the columns of the null-space basis, shape (count, M).

        Place c belongs to row q_c of the null-space basis Q; a codeword v obeys sum v_c q_c = 0. A column of the
        result holds ``count`` random linear functionals of q_c, the same ones for all c.
        """
        rng = np.random.Generator(np.random.Philox(key=self.p + count))
        free = self.free
        result = np.zeros((count, len(self.weight)), dtype=np.uint64)
        for row in result:
            row[free] = rng.integers(0, self.p, len(free), dtype=np.uint64)
            row[self.pivots] = negative(matvec(self.form[:, free], row[free], self.p), self.p)
        return result


def code_work(basis: Basis, rank: int) -> int:
    """Work of :func:`code`, in modular multiplications."""
    return rank * rank * basis.codes.shape[1]


def code(basis: Basis, rank: int, p: int) -> LinearCode:
    """The code of the first ``rank`` rows. Two columns are merged where they are proportional: then a codeword
    vanishes at both or at neither."""
    present = basis.present(rank)
    columns = basis.residues(rank, p)[:, present]
    first = columns[np.argmax(columns != 0, axis=0), np.arange(len(present))]
    scaled = times(columns, inverses(first, p), p)
    _, place, label = np.unique(scaled, axis=1, return_index=True, return_inverse=True)
    label = label.ravel()
    weight = np.bincount(label, weights=basis.size[present]).astype(np.int64)
    order = np.argsort(weight, kind="stable")
    form, pivots = echelon(columns[:, place[order]], p)
    return LinearCode(form, pivots, weight[order], [present[label == c] for c in order], p)
