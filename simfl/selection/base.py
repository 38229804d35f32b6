"""What a selection policy is: whole units of clients out of a view, with a stream, and nothing else."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import PluginError
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Units, View
from simfl.core.validation import describe_type, read_only

if TYPE_CHECKING:
    from simfl.selection.theory.families import Family

Mode = Literal["auto", "uniform", "fair", "least_total"]
"""How a policy made of units picks among the rows of its family that are available (MR section 4, Algorithm 2).

``uniform``: each with the same probability. ``fair``: uniformly among those that contain the least-used client, taken
among the clients that some available row contains, ties at random. ``least_total``: the units of least summed
participation, ties at random. ``auto``: ``fair`` where availability rates differ, else ``uniform``.
"""


class Policy(Plugin, Protocol):
    """Decides who takes part; a frozen dataclass whose fields are its YAML keys.

    Only ``k``, ``unit_size`` and ``select`` are needed; what has a value here is that where a policy says nothing.

    Six clients in the fixed groups 0 1, 2 3 and 4 5. Client 3 is not available, which rules its group out. Of the other
    groups the one with the least-used client is selected: client 4, who has taken part once. Any number of such rounds
    shows sums of whole groups only, of at least two clients; a group is available with probability 1/4, so that on
    average 2 (1 - (3/4)^3) = 1.15625 clients are selected:

    >>> from simfl.selection.partition import PartitionSelection
    >>> policy = PartitionSelection(k=2, mode="fair")
    >>> there, used = np.array([True, True, True, False, True, True]), np.array([2, 2, 0, 0, 1, 3])
    >>> policy.select(View(5, there, used), 2, np.random.default_rng(0)).tolist()
    [[4, 5]]
    >>> family = policy.family(6)
    >>> family.size(), family.guarantee(None), family.cardinality(np.full(6, 0.5))
    (3, (2, 2), 1.15625)

    Attributes:
        name: what the scenario calls it.
        k: clients in one synchronous aggregation.
        unit_size: clients that always take part together; FedBuff asks for one unit at a time.
        fixed_size: False: the policy ignores the ``k`` it is asked for and returns any number of units. Such a policy
            cannot fill the slots of a buffered (asynchronous) server one unit at a time.
        shuffle: clients are relabelled by the seed, so that units are not runs of consecutive client numbers.
        mode: how it picks among the rows of its family, for those who read theory; None = there is one way.
        uniform: every available row of its family is equally likely, whatever happened before; False = not known.
        sampling: how it draws clients anew every round, whatever happened before: ``poisson`` = each available one with
            the same probability, independently; ``fixed_size`` = every k of them are equally likely; empty = otherwise.
    """

    k: int
    unit_size: int

    fixed_size: bool = True
    shuffle: bool = False
    mode: Any = None
    uniform: bool = False
    sampling: Literal["", "poisson", "fixed_size"] = ""

    @property
    def inclusion(self) -> float | None:
        """An available client's probability of being selected, where that is known."""
        return None

    @abstractmethod
    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        """Exactly ``k`` available clients in whole units, shape (k // unit_size, unit_size), or no row: nobody now.

        ``k`` is any positive multiple of ``unit_size``, not only the policy's own.
        Pure: the same view, k and stream give the same units, and no argument is changed.

        Raises:
            ValueError: ``k`` is no positive multiple of ``unit_size``.
        """
        ...

    def family(self, clients: int) -> "Family | None":
        """The rows that the policy may select, from which all theory about it follows; None = not known.

        Raises:
            ValueError: so many clients do not fit the policy.
        """
        return None

    def disjoint_units(self, clients: int) -> int:
        """Units without a common client that can be found one by one, however badly they are chosen."""
        return clients // self.unit_size


POLICIES = Registry[Policy](
    "selection",
    protocol=Policy,
    modules=modules_of(
        "simfl.selection",
        "batch_partition",
        "bernoulli",
        "half_partition",
        "partition",
        "random",
        "weighted",
        all="everyone",
    ),
)


def resolved_policy(setting: ScenarioView) -> Policy:
    """The scenario's selection, for theory and others that ask once everything is resolved."""
    return setting.selection  # type: ignore[return-value]  # its k is a number then


def resolve_mode(policy: Any, setting: ScenarioView) -> Any:
    """The policy with ``mode: auto`` replaced by what it means in the scenario."""
    if policy.mode != "auto":
        return policy
    return replace(policy, mode="uniform" if setting.devices.availability.equal_rates else "fair")


def nobody(unit_size: int) -> Units:
    """The empty selection."""
    return np.empty((0, unit_size), dtype=np.int32)


def ask(policy: Policy, view: View, k: int, rng: np.random.Generator) -> Units:
    """Asks a policy once, as in :meth:`Policy.select`: it sees arrays that it cannot change, and its answer is checked.

    Raises:
        PluginError: it changed the view, or answered something impossible.
    """
    seen = View(view.round, read_only(view.available), read_only(view.participation))
    return check_units(policy.select(seen, k, rng), view, k, policy)


def check_units(units: object, view: View, k: int, policy: Policy) -> Units:
    """The units, if they are what the policy was asked for.

    Raises:
        PluginError: another type or shape; clients that there are not, that are not available or that come twice;
            more or fewer than ``k`` though the policy's size is fixed.
    """

    def refuse(what: str) -> PluginError:
        return PluginError(f"selection '{policy.name}'", what)

    if not isinstance(units, np.ndarray) or units.dtype != np.int32 or units.ndim != 2:
        raise refuse(f"select must give int32 of shape (units, {policy.unit_size}), not {describe_type(units)}")
    if units.shape[1] != policy.unit_size:
        raise refuse(f"select gave units of {units.shape[1]} clients; its unit_size is {policy.unit_size}")
    if not units.size:
        return units
    low, high = int(units.min()), int(units.max())
    if low < 0 or high >= len(view.available):
        raise refuse(f"selected client {low if low < 0 else high}; clients are 0 to {len(view.available) - 1}")
    clients = units.ravel()
    if not (here := view.available[clients]).all():
        raise refuse(f"selected client {clients[np.argmin(here)]}, who is not available")
    ordered = np.sort(clients)
    if (twice := ordered[1:][ordered[1:] == ordered[:-1]]).size:
        raise refuse(f"selected client {twice[0]} more than once")
    if policy.fixed_size and units.size != k:
        raise refuse(f"selected {units.size} clients where {k} were asked for (a policy may set fixed_size = False)")
    return units


@dataclass(frozen=True)
class _Shuffled:
    policy: Policy
    order: NDArray[np.integer]

    shuffle = True

    @property
    def fixed_size(self) -> bool:
        return self.policy.fixed_size

    @property
    def mode(self) -> Any:
        return self.policy.mode

    def family(self, clients: int) -> "Family | None":
        return self.policy.family(clients)

    def disjoint_units(self, clients: int) -> int:
        return self.policy.disjoint_units(clients)

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
        return self.order[ask(self.policy, seen, k, rng)].astype(np.int32)


def shuffle_clients(policy: Policy, order: NDArray[np.integer]) -> Policy:
    """The same policy over relabelled clients, so that its units are not runs of consecutive client numbers.

    ``order`` is a permutation of the clients; client ``order[j]`` takes the place of client ``j``.
    """
    return _Shuffled(policy, np.asarray(order))  # type: ignore[return-value]  # its k only reads
