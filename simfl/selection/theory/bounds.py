"""A bound proved about selection: full rank of the participation matrix (MR Theorem 3)."""

from math import exp, log, log1p


def full_rank_probability(n: int, k: float) -> float:
    """Lower bound on the probability that n rounds of independent selection reveal every client's model; 0 = it says
    nothing.

    1 - 2n(1-s)^n - n(n-1)(s^2 + (1-s)^2)^n with s = k/n: the probability that two rows or columns of the n x n
    participation matrix coincide or one is zero. Asymptotic: the paper multiplies the last term by 1 + o(1), taken as 1
    here, for a fixed s < 1/2. For selection of exactly K clients the paper proves 1 - 2 exp(-c'n) without giving c', so
    there is no number to return. Of n clients, each takes part with probability k/n, whatever its dropout.

    Raises:
        ValueError: not 0 <= k <= n, or n < 1.

    References:
        MR (arXiv 2106.03328) Theorem 3, equation 32, after Jain et al. 2020.
    """
    if n < 1 or not 0 <= k <= n:
        raise ValueError("needs n >= 1 and 0 <= k <= n")
    s = k / n
    if s in (0.0, 1.0):
        return float(n == 1 and s == 1.0)
    zero = 2 * n * exp(n * log1p(-s))
    same = n * (n - 1) * exp(n * log(s * s + (1 - s) ** 2))
    return max(0.0, 1.0 - zero - same)
