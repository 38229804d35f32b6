"""What a row of the participation matrix is: who is in the sum, or what each update counts in it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["with_samples"]


def with_samples(P: Any, samples: NDArray[np.integer]) -> Any:
    """The participation matrix in units of single updates, where a sum weights each by its client's samples.

    With ``weighting: samples`` a sum is sum s(i) n_i update(i). A row that holds only s(i) speaks of the clients' own
    products n_i update(i). The rank, the weak guarantee and who is exposed are the same for both, since n_i scales a
    column; how much a client weighs in a combination (semi-strong), and which columns are identical (strong), is not.

    Args:
        P: rows of s(i), shape (J, N); dense or scipy-sparse.
        samples: n_i > 0 of each client, shape (N,).

    Returns:
        scipy CSR array, shape (J, N).
    """
    from scipy.sparse import csr_array

    weighted = csr_array(P, dtype=np.float64, copy=True)
    weighted.data *= np.asarray(samples, dtype=np.float64)[weighted.indices]
    return weighted
