"""The global random generators while somebody else's code is executed, so that what it draws is always the same."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


@contextmanager
def seed_generators(seed: int) -> Iterator[None]:
    """A block in which the global generators of Python, numpy and torch, if imported, begin with a seed.

    They are as before afterwards.
    """
    python, torch = sys.modules.get("random"), sys.modules.get("torch")  # what is not imported has drawn nothing
    numpy = np.random.get_state()  # noqa: NPY002  # the global one is what others' code draws from
    states = python and python.getstate(), torch and torch.get_rng_state()
    try:
        np.random.seed(seed % 2**32)  # noqa: NPY002
        if python is not None:
            python.seed(seed)
        if torch is not None:
            torch.default_generator.manual_seed(seed)
        yield
    finally:
        np.random.set_state(numpy)  # noqa: NPY002
        if python is not None:
            python.setstate(states[0])
        if torch is not None:
            torch.set_rng_state(states[1])
