"""The weak notion: whether a span holds a vector other than 0 with fewer than T entries that are not 0, for T up to 4.

Let H be a parity check of the span modulo a prime: its rows are a basis of the vectors orthogonal to it, and it has a
column h_i for each client. A vector v lies in the span if and only if the sum of v_i h_i is 0. So a vector with fewer
than T entries is a linear dependency of T - 1 columns, or fewer. Columns that are dependent stay so under any linear
map; here it is one onto T - 1 random coordinates. If there no T - 1 images are dependent, no light vector exists: that
is a proof. If some are, it is chance in about one of p / C(N, T - 1) cases, and the other prime is asked.
"""

import numpy as np
from numpy.typing import NDArray

from simfl.core.prime_field import Residues, inverses, matvec, modulo, negative, times
from simfl.selection.guard.span import Form, Span

LARGEST = 4
"""The largest T that is checked."""

CHUNK = 2**20
"""Entries of an array at a time."""


def keeps_weak(span: Span, T: int) -> bool:
    """Whether it is proven that every vector of the span but 0 has at least ``T`` entries, 1 to 4, that are not 0."""
    return T <= 1 or any(not _dependent(_images(form, T - 1), form.prime) for form in span.forms)


def _images(form: Form, count: int) -> Residues:
    """The columns of a parity check under a random linear map, (count, clients)."""
    rng = np.random.Generator(np.random.Philox(key=[form.prime, count]))
    free = np.setdiff1d(np.arange(form.rows.shape[1]), form.pivots)
    images = np.zeros((count, form.rows.shape[1]), dtype=np.uint64)
    for image in images:
        image[free] = rng.integers(0, form.prime, len(free), dtype=np.uint64)
        image[form.pivots] = negative(matvec(form.rows[:, free], image[free], form.prime), form.prime)
    return images


def _dependent(images: Residues, p: int) -> bool:
    """Whether of the columns of (n, clients) some n may be dependent; never False where they are."""
    if not images[-1].all():
        return True  # a column of zeros, or chance
    if len(images) == 1:
        return False
    if len(images) == 2:
        return _parallel(images[0][None], images[1][None], np.zeros((1, images.shape[1]), dtype=bool), p)
    clients = np.arange(images.shape[1])
    step = max(1, CHUNK // len(clients))
    return any(
        _parallel(*_project_out(images, clients[start : start + step], p), p) for start in range(0, len(clients), step)
    )


def _project_out(images: Residues, out: NDArray[np.int64], p: int) -> tuple[Residues, Residues, NDArray[np.bool_]]:
    """The first two coordinates of all columns, (len(out), clients), once one of the columns ``out`` is projected out
    with the help of the third; and where that is the column itself.
    """
    factors = times(negative(images[:2, out], p), inverses(images[2, out], p), p)
    x, y = modulo(images[:2, None, :] + factors[:, :, None] * images[2], p)
    return x, y, out[:, None] == np.arange(images.shape[1])


def _parallel(x: Residues, y: Residues, itself: NDArray[np.bool_], p: int) -> bool:
    """Whether in a row of (x, y) two columns may be parallel, not counting those that are the row's own."""
    if ((y == 0) & ~itself).any():
        return True
    ratios = times(x, inverses(y, p), p)
    ratios[itself] = p
    ratios.sort(axis=1)
    return bool((ratios[:, 1:] == ratios[:, :-1]).any())
