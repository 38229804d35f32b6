"""A vector of the row space together with the combination of rounds that makes it, in exact fractions (roots, in a
round itself, to a hundred digits)."""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, lcm, log2

import numpy as np
from numpy.typing import NDArray

from simfl.core.prime_field import Residues, echelon, matvec
from simfl.core.types import Floats, Integers
from simfl.privacy.multiround.basis import Basis
from simfl.privacy.multiround.guarantee_trace import Budget


@dataclass(frozen=True)
class Witness:
    """What the server computes exactly: ``sum of coefficients[t] * aggregate(t) = sum of values[i] * update(i)``."""

    coefficients: dict[int, Fraction]
    values: dict[int, Fraction]
    shape: tuple[int, int]

    @property
    def combination(self) -> Floats:
        """The coefficient of every round, shape (J,)."""
        return _spread(self.coefficients, self.shape[0])

    @property
    def vector(self) -> Floats:
        """The value at every client, shape (N,): ``combination @ P``."""
        return _spread(self.values, self.shape[1])

    @property
    def ratio(self) -> Fraction:
        """Sum of magnitudes over the largest magnitude: what the semi-strong notion minimises."""
        magnitudes = [abs(v) for v in self.values.values()]
        return sum(magnitudes, Fraction(0)) / max(magnitudes)


def _spread(entries: dict[int, Fraction], length: int) -> Floats:
    array = np.zeros(length)
    for place, value in entries.items():
        array[place] = float(value)
    return array


def of_round(basis: Basis, t: int) -> Witness:
    """Round t itself."""
    rounds = basis.of
    span = slice(rounds.indptr[t], rounds.indptr[t + 1])
    weights = {int(i): rounds.values.fraction(c) for i, c in zip(rounds.clients[span], rounds.codes[span], strict=True)}
    return Witness({t: Fraction(1)}, weights, rounds.shape)


def birth(basis: Basis, rank: int, support: NDArray[np.integer], p: int) -> int:
    """The rank at which a vector that lives on ``support`` (classes) enters the row space, at most ``rank``; 0 = never.

    Taken modulo p.
    """
    solution = _combination(basis, rank, support, p)
    return 0 if solution is None else int(np.flatnonzero(solution[0])[-1]) + 1


def _combination(basis: Basis, rank: int, support: NDArray[np.integer], p: int) -> tuple[Residues, Integers] | None:
    """The combination of the rows that leaves only ``support`` mod p, and the columns that determine it."""
    rows = basis.residues(rank, p)
    width = rows.shape[1]
    elsewhere = np.setdiff1d(np.arange(width), support)
    form, pivots = echelon(
        np.concatenate([rows, np.eye(rank, dtype=np.uint64)], axis=1), p, np.concatenate([elsewhere, support])
    )
    if len(pivots) < rank or pivots[-1] not in support:
        return None
    return form[-1, width:], pivots


def on_support(basis: Basis, rank: int, support: NDArray[np.integer], budget: Budget) -> Witness | None:
    """A vector of the first ``rank`` rows that is 0 outside ``support`` (classes), exact; None if there is none
    or the budget does not allow for it."""
    return _on_support(basis, rank, support, budget)[0]


def lives(basis: Basis, rank: int, support: NDArray[np.integer], budget: Budget) -> bool | None:
    """Whether the first ``rank`` rows have a vector that is 0 outside ``support`` (classes), proven in fractions; None
    if the budget does not allow for it."""
    witness, decided = _on_support(basis, rank, support, budget)
    return witness is not None if decided else None


def _on_support(basis: Basis, rank: int, support: NDArray[np.integer], budget: Budget) -> tuple[Witness | None, bool]:
    """The vector, and whether the question is decided."""
    p, _ = basis.primes
    if not budget.take(2.0 * rank * rank * (rank + basis.codes.shape[1])):
        return None, False
    solution = _combination(basis, rank, np.asarray(support), p)
    if solution is None:
        return None, True
    combination, pivots = solution
    rank = int(np.flatnonzero(combination)[-1]) + 1
    if rank < len(pivots):
        return _on_support(basis, rank, support, budget)
    witnesses = _solve(basis, rank, pivots, [int(pivots[-1])], budget)
    if witnesses is None:
        return None, False
    inside = set(np.flatnonzero(np.isin(basis.classes.label, support)).tolist())
    return (witnesses[0] if inside.issuperset(witnesses[0].values) else None), True


def isolating(basis: Basis, rank: int, classes: list[int], budget: Budget) -> list[Witness] | None:
    """For each class that is isolated at ``rank`` the combination of rounds that isolates it, exact."""
    p, _ = basis.primes
    if not budget.take(2.0 * rank * rank * basis.codes.shape[1]):
        return None
    _, pivots = echelon(basis.residues(rank, p), p)
    if len(pivots) < rank:
        return None
    return _solve(basis, rank, pivots, classes, budget)


def _solve(basis: Basis, rank: int, columns: Integers, ones: list[int], budget: Budget) -> list[Witness] | None:
    """The combinations of the first ``rank`` rows that are, on ``columns``, 1 at one class and 0 elsewhere; None also
    where the weights are no fractions."""
    if not basis.of.values.rational:
        return None
    p, _ = basis.primes
    rows, scales = _integers(basis, rank)
    matrix = rows[:, columns].T.copy()
    if not budget.take(lifting_work(matrix, len(ones))):
        return None
    right = (columns[:, None] == np.array(ones)).astype(np.int64).astype(object)
    solutions = solve(matrix, right, p)
    if solutions is None:
        return None
    return [_witness(basis, rows, scales, solution) for solution in solutions]


def _integers(basis: Basis, rank: int) -> tuple[NDArray[np.object_], list[int]]:
    """The first rows, each times the scale that makes it whole."""
    rows = np.zeros((rank, basis.codes.shape[1]), dtype=object)
    scales = []
    for row, codes in zip(rows, basis.codes, strict=False):
        used, where = np.unique(codes, return_inverse=True)
        weights = [basis.of.values.fraction(c) for c in used]
        scales.append(lcm(*(w.denominator for w in weights)))
        row[:] = np.array([int(w * scales[-1]) for w in weights], dtype=object)[where]
    return rows, scales


def _witness(basis: Basis, rows: NDArray[np.object_], scales: list[int], solution: list[Fraction]) -> Witness:
    common = lcm(*(z.denominator for z in solution))
    whole = np.array([int(z * common) for z in solution], dtype=object)
    values = whole @ rows
    label = basis.classes.label
    clients = np.flatnonzero((label >= 0) & (values[np.maximum(label, 0)] != 0))
    return Witness(
        {int(t): z * s for t, z, s in zip(basis.rounds, solution, scales, strict=False) if z},
        {int(i): Fraction(int(values[label[i]]), common) for i in clients},
        basis.of.shape,
    )


def lifting_work(matrix: NDArray[np.object_], columns: int = 1) -> float:
    """Upper estimate of the work of :func:`solve`, in modular multiplications."""
    n = len(matrix)
    bits = _determinant_bits(matrix)
    product = 1 if _small(matrix) else 100
    return 6.0 * n**3 + columns * (bits / 16 + 1) * product * n * n


def solve(matrix: NDArray[np.object_], right: NDArray[np.object_], p: int) -> list[list[Fraction]] | None:
    """The rational x with ``matrix @ x == right`` for every column of ``right``; None if singular mod p.

    Integers, (n, n) and (n, columns); p is a prime below 2**32. Reference: J. D. Dixon, Exact solution of linear
    equations using p-adic expansions, Numer. Math. 40 (1982).
    """
    n, columns = right.shape
    residues = np.concatenate([(matrix % p).astype(np.uint64), np.eye(n, dtype=np.uint64)], axis=1)
    form, pivots = echelon(residues, p, np.arange(n))
    if len(pivots) < n:
        return None
    inverse = form[:, n:]
    a = matrix.astype(np.int64) if _small(matrix) else matrix
    rest = right.astype(a.dtype) if _small(right) else right
    bits = 2 * (_determinant_bits(matrix) + log2(1 + max((abs(int(v)) for v in right.flat), default=0))) + 2
    x = np.zeros((n, columns), dtype=object)
    power, digits, attempt = 1, 0, 4
    while True:
        digit = np.stack([matvec(inverse, (rest[:, j] % p).astype(np.uint64), p) for j in range(columns)], axis=1)
        x += digit.astype(object) * power
        rest = (rest - a @ digit.astype(a.dtype)) // p
        power *= p
        digits += 1
        last = digits * log2(p) > bits
        if digits >= attempt or last:
            attempt *= 2
            solutions = [_reconstruct(matrix, right[:, j], x[:, j], power) for j in range(columns)]
            if len(whole := [f for f in solutions if f is not None]) == columns:
                return whole
            if last:
                return None


def _small(a: NDArray[np.object_]) -> bool:
    """Whether products with 32-bit digits, summed over a row, fit 64-bit integers."""
    return max((abs(int(v)) for v in a.flat), default=0) * (a.shape[0] + 1) < 2**30


def _determinant_bits(matrix: NDArray[np.object_]) -> float:
    """Hadamard's bound on the logarithm of any minor."""
    return sum(max(0.0, log2(max(1, sum(int(v) ** 2 for v in row))) / 2) for row in matrix) + 1


def _reconstruct(
    matrix: NDArray[np.object_], right: NDArray[np.object_], x: NDArray[np.object_], modulus: int
) -> list[Fraction] | None:
    """The vector of fractions with small terms that is x mod ``modulus``, if it solves the system."""
    half = isqrt(modulus // 2)
    denominator = 1
    for value in x:
        scaled = int(value) * denominator % modulus
        if min(scaled, modulus - scaled) > half // denominator:
            part = _denominator(scaled, modulus, half)
            denominator *= part
            if not 0 < denominator <= half:
                return None
    scaled = x * denominator % modulus
    numerators = np.where(scaled > modulus // 2, scaled - modulus, scaled)
    if np.any(matrix @ numerators != right * denominator):
        return None
    return [Fraction(int(v), denominator) for v in numerators]


def _denominator(value: int, modulus: int, bound: int) -> int:
    """The smallest d with |d * value mod modulus| <= bound, from Euclid's algorithm."""
    r0, r1, d0, d1 = modulus, value, 0, 1
    while r1 > bound:
        q = r0 // r1
        r0, r1 = r1, r0 - q * r1
        d0, d1 = d1, d0 - q * d1
    return abs(d1)
