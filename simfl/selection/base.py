"""What a selection policy is: whole units of clients out of a view, with a stream, and nothing else."""

from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.registry import Registry
from simfl.types import Units, View

__all__ = ["POLICIES", "Policy", "Mode", "resolve_mode", "nobody", "shuffled"]

POLICIES = Registry("selection")

Mode = Literal["auto", "uniform", "fair", "least_total"]
"""How a policy made of units picks among the rows of its family that are available (MR section 4, Algorithm 2).

``uniform``: each with the same probability. ``fair``: uniformly among those that contain the least-used client, taken
among the clients that some available row contains, ties at random. ``least_total``: the units of least summed
participation, ties at random. ``auto``: ``fair`` where availability rates differ, else ``uniform``.
"""


class Policy(Protocol):
    """Decides who takes part; a frozen dataclass whose fields are its YAML keys.

    A class may say ``fixed_size = False``: it then ignores the ``k`` it is asked for and returns any number of
    units. Such a policy cannot fill the slots of a buffered (asynchronous) server one unit at a time.

    Attributes:
        k: clients in one synchronous aggregation.
        unit_size: clients that always take part together; FedBuff asks for one unit at a time.
    """

    k: int

    @property
    def unit_size(self) -> int: ...

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        """Exactly ``k`` available clients in whole units, shape (k // unit_size, unit_size), or no row: nobody now.

        ``k`` is any positive multiple of ``unit_size``, not only the policy's own.
        Pure: the same view, k and stream give the same units, and no argument is changed.

        Raises:
            ValueError: ``k`` is no positive multiple of ``unit_size``.
        """
        ...


def resolve_mode(policy: Any, scenario: Any) -> Any:
    """The policy with ``mode: auto`` replaced by what it means in the scenario."""
    if policy.mode != "auto":
        return policy
    return replace(policy, mode="uniform" if scenario.devices.availability.equal else "fair")


def nobody(unit_size: int) -> Units:
    """The empty selection."""
    return np.empty((0, unit_size), dtype=np.int32)


@dataclass(frozen=True)
class _Shuffled:
    policy: Any
    order: NDArray[np.integer]
    fixed_size = True

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def k(self) -> int:
        return self.policy.k

    @property
    def unit_size(self) -> int:
        return self.policy.unit_size

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        seen = View(view.round, view.available[self.order], view.participation[self.order])
        return self.order[self.policy.select(seen, k, rng)].astype(np.int32)


def shuffled(policy: Policy, order: NDArray[np.integer]) -> Policy:
    """The same policy over relabelled clients, so that its units are not runs of consecutive client numbers.

    Args:
        policy: any policy with a fixed assignment of clients to units.
        order: permutation of the clients; client ``order[j]`` takes the place of client ``j``.
    """
    return _Shuffled(policy, np.asarray(order))  # type: ignore[return-value]  # its k only reads
