"""What a selection policy is: whole units of clients out of a view, with a stream, and nothing else."""

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.columns import Column
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays, Receipts, Units, View

if TYPE_CHECKING:
    from simfl.selection.theory.families import Family

Scalars = Annotated[
    Literal["covered", "clear"],
    Field(description="clear: losses and sample counts that clients send for the selection are taken to be public"),
]

Mode = Literal["auto", "uniform", "fair", "least_total"]
"""How a policy made of units picks among the rows of its family that are available (MR section 4, Algorithm 2).

``uniform``: each with the same probability. ``fair``: uniformly among those that contain the least-used client, taken
among the clients that some available row contains, ties at random. ``least_total``: the units of least summed
participation, ties at random. ``auto``: ``fair`` where availability rates differ, else ``uniform``.
"""


Shuffle = bool | tuple[Annotated[int, Field(ge=0)], ...]
"""Clients are assigned to units by the seed (true), in their order (false), or in that of a list of all of them."""


class Guarantee(NamedTuple):
    """Multi-round privacy that holds for any number of rounds, by notion; None = not known."""

    strong: int | None = None
    semi_strong: int | None = None
    weak: int | None = None


@runtime_checkable
class CanBeAsked(Protocol):
    """A family that says of which sums its guarantee speaks; any other gives none."""

    @abstractmethod
    def contains(self, clients: NDArray[np.integer], losses: bool) -> bool:
        """Whether its guarantee speaks of a sum of these: a row, or whole units where there are ``losses``."""


@runtime_checkable
class HasRows(Protocol):
    """Any family."""

    @abstractmethod
    def size_log10(self) -> float:
        """The logarithm of the number of its rows."""


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
        shuffle: clients are relabelled by the seed, or by a list of them, so that units are not runs of consecutive
            client numbers.
        mode: how it picks among the rows of its family, for those who read theory; None = there is one way.
        uniform: every available row of its family is equally likely, whatever happened before; False = not known.
        sampling: how it draws clients anew every round, whatever happened before: ``poisson`` = each available one with
            the same probability, independently; ``fixed_size`` = every k of them are equally likely; empty = otherwise.
        reads: fields of the :class:`simfl.core.types.View` that it looks at, of
            :data:`simfl.core.types.VIEW_FIELDS`. Losses and accuracies, and the numbers of samples, are sent in clear.
        asks: what clients are asked for before the selection, see :meth:`candidates`: ``loss`` = their mean loss over
            all of their samples; ``batch_loss`` = over ``asked_batch`` of them, drawn anew each time; empty = nothing.
        asked_batch: samples of a ``batch_loss``.
        scalars: ``clear``: the scenario says that the numbers sent in clear are public, so that certificates speak of
            sums of updates only; ``covered``: certificates that do not cover them are refused or withdrawn.
        premise: what certificates take for granted of how it selects, in words; empty = nothing.
        reads_history: the view has the clients in each sum so far.
        columns: of rounds.csv that are there for this policy: :data:`simfl.core.columns.REFUSED` or none.
    """

    k: int
    unit_size: int

    fixed_size: bool = True
    shuffle: Shuffle = False
    mode: Any = None
    uniform: bool = False
    sampling: Literal["", "poisson", "fixed_size"] = ""
    reads: frozenset[str] = frozenset()
    asks: Literal["", "loss", "batch_loss"] = ""
    asked_batch: int = 0
    scalars: Scalars = "covered"
    premise: str = ""
    reads_history: bool = False
    columns: tuple[Column, ...] = ()

    @property
    def unit_sizes(self) -> frozenset[int]:
        """Sizes of the units that ``select`` may return, one for all of a selection."""
        return frozenset({self.unit_size})

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

    def candidates(self, view: View, k: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Where it ``asks``: the available clients who are sent the model and asked, int32 (n,), distinct.

        Their answers are ``view.asked_loss`` of the :meth:`select` that follows, NaN where none came in time.
        """
        raise NotImplementedError

    def start(self, clients: int) -> Arrays:
        """Its state before the first round, named arrays; ``view.state`` shows it."""
        return {}

    def observe(self, view: View, summed: NDArray[np.int32]) -> Arrays:
        """Its state after an aggregation of the clients ``summed``, int32 (n,), n may be 0.

        Args:
            view: the aggregation's number, with all that the server knows now, and the state until now.
            summed: whose updates were aggregated, ascending.
        """
        return {}

    def admits(self, view: View, clients: NDArray[np.int32]) -> bool:
        """Whether the sum of these clients may be opened: asked by synchronous servers of those whose updates have
        arrived, in whole units, and who hold samples. A sum that is refused is not recovered; the round is skipped.

        Pure as :meth:`select`, whose ``view`` it is given.
        """
        return True

    def client_guarantees(self, view: View) -> NDArray[np.float64] | None:
        """The guarantee that :meth:`admits` keeps to each client after ``view.before``, (n or more,); None = none."""
        return None

    def family(self, clients: int) -> "Family | None":
        """The rows that the policy may select, from which all theory about it follows; None = not known.

        Raises:
            ValueError: so many clients do not fit the policy.
        """
        return None

    def guarantee(self, clients: int) -> Guarantee | None:
        """What the policy itself sees to by :meth:`admits`, whoever fails; None = only what follows from its family."""
        return None

    def receipts(self, clients: int) -> Receipts | None:
        """What it costs clients to check the server's selection (:mod:`simfl.selection.verifiable`): they sign what
        they were told before they send anything, and what is summed before it is opened; None = they believe it.
        """
        return None

    def disjoint_units(self, clients: int) -> int:
        """Units without a common client that can be found one by one, however badly they are chosen."""
        return clients // self.unit_size


POLICIES = Registry[Policy](
    "selection",
    promises=("uniform", "sampling", "inclusion", "family", "guarantee", "client_guarantees", "receipts"),
    protocol=Policy,
    modules=modules_of(
        "simfl.selection",
        "guarded",
        "verifiable",
        by_loss="oort power_of_choice",
        by_time="fedcs tifl",
        participant_list="given",
        partition="batch_partition half_partition partition",
        random="all bernoulli random weighted",
    ),
)


def resolve_mode(policy: Any, setting: ScenarioView) -> Any:
    """The policy with ``mode: auto`` replaced by what it means in the scenario."""
    if policy.mode != "auto":
        return policy
    alike = setting.devices.availability.equal_rates and setting.agents.all_stay
    return replace(policy, mode="uniform" if alike else "fair")


def nobody(unit_size: int) -> Units:
    """The empty selection."""
    return np.empty((0, unit_size), dtype=np.int32)
