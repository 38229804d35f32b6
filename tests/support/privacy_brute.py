"""The three guarantees by exhaustion, in fractions, written independently of simfl.privacy.

Irrational numbers come as fractions of some thousand binary digits. Whatever small matrices of small numbers can make
of them is either 0 or by far larger than ``ZERO``.
"""

from fractions import Fraction
from itertools import combinations

ZERO = Fraction(1, 2**400)


def exact(P):
    return [[Fraction(float(x)) for x in row] for row in P]


def eliminate(rows):
    """Row echelon form: the non-zero rows and their pivot columns."""
    rows, pivots = [list(r) for r in rows], []
    width = len(rows[0]) if rows else 0
    top = 0
    for c in range(width):
        chosen = next((i for i in range(top, len(rows)) if abs(rows[i][c]) > ZERO), None)
        if chosen is None:
            continue
        rows[top], rows[chosen] = rows[chosen], rows[top]
        rows[top] = [x / rows[top][c] for x in rows[top]]
        for i in range(len(rows)):
            if i != top and rows[i][c]:
                f = rows[i][c]
                rows[i] = [x - f * y for x, y in zip(rows[i], rows[top], strict=True)]
        pivots.append(c)
        top += 1
    return rows[:top], pivots


def rank(rows):
    return len(eliminate(rows)[1]) if rows and rows[0] else 0


def null_space(rows, width):
    """A basis of {y : rows y = 0}."""
    reduced, pivots = eliminate(rows)
    basis = []
    for f in sorted(set(range(width)) - set(pivots)):
        y = [Fraction(0)] * width
        y[f] = Fraction(1)
        for r, p in zip(reduced, pivots, strict=True):
            y[p] = -r[f]
        basis.append(y)
    return basis


def strong(rows):
    """The size of the smallest class of identical columns that are not 0."""
    columns = [c for c in zip(*rows, strict=True) if any(abs(x) > ZERO for x in c)]
    return min(
        sum(all(abs(x - y) <= ZERO for x, y in zip(c, other, strict=True)) for other in columns) for c in columns
    )


def weak(rows):
    """Least w such that deleting all but w columns loses rank, i.e. a vector lives on w columns."""
    rows, _ = eliminate(rows)
    full, n = len(rows), len(rows[0])
    for w in range(1, n + 1):
        for support in combinations(range(n), w):
            outside = [[r[c] for c in range(n) if c not in support] for r in rows]
            if (rank(outside) if w < n else 0) < full:
                return w
    raise AssertionError("no vector")


def semi_strong(rows):
    """min |v|_1 with v_i = 1 over the vertices: v in R is fixed by r - 1 zeros on independent columns."""
    rows, _ = eliminate(rows)
    r, n = len(rows), len(rows[0])
    best = None
    for zeros in combinations(range(n), r - 1):
        z = (
            null_space([[row[c] for row in rows] for c in zeros], r)
            if zeros
            else [[Fraction(1)] + [Fraction(0)] * (r - 1)]
        )
        if len(z) != 1:
            continue
        v = [abs(sum(a * row[c] for a, row in zip(z[0], rows, strict=True))) for c in range(n)]
        value = sum(v) / max(v)
        best = value if best is None else min(best, value)
    return best


def isolated(rows, client):
    """Whether the client's unit vector is a combination of the rows."""
    unit = [Fraction(int(i == client)) for i in range(len(rows[0]))]
    return rank([*rows, unit]) == rank(rows)
