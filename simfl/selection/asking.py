"""Asking a selection policy: what it is shown, and whether its answer is possible."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from simfl.core.columns import Column
from simfl.core.errors import PluginError, ScenarioError, suggestion
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import CLEAR_FIELDS, VIEW_FIELDS, Arrays, Receipts, Units, View
from simfl.core.validation import checked_arrays, describe_type, read_only
from simfl.selection.base import Guarantee, Policy, Scalars
from simfl.selection.units.sizes import order_problems

if TYPE_CHECKING:
    from simfl.selection.theory.families import Family


def ask(policy: Policy, view: View, k: int, rng: np.random.Generator) -> Units:
    """Asks a policy once, as in :meth:`Policy.select`: it sees arrays that it cannot change, and its answer is checked.

    Raises:
        PluginError: it changed the view, or answered something impossible.
    """
    return check_units(policy.select(seen_by(policy, view), k, rng), view, k, policy)


def ask_candidates(policy: Policy, view: View, k: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Asks a policy whom to ask before it selects, as in :meth:`Policy.candidates`; checked as in :func:`ask`.

    Raises:
        PluginError: it answered something impossible.
    """
    clients = policy.candidates(seen_by(policy, view), k, rng)
    if not isinstance(clients, np.ndarray) or clients.dtype != np.int32 or clients.ndim != 1:
        name = f"selection '{policy.name}'"
        raise PluginError(name, f"candidates must give int32 of shape (clients,), not {describe_type(clients)}")
    check_units(clients[:, None], view, len(clients), _Singles(policy.name))
    return clients


def observe(policy: Policy, view: View, summed: NDArray[np.int32]) -> Arrays:
    """Tells a policy of an aggregation, as in :meth:`Policy.observe`.

    Raises:
        PluginError: its state is none that a checkpoint can hold.
    """
    return checked_arrays(policy.observe(seen_by(policy, view), summed), f"selection '{policy.name}'", "observe")


@dataclass(frozen=True)
class _Singles:
    """What :func:`check_units` reads of a policy, for clients that are asked one by one."""

    name: str
    unit_size: int = 1
    fixed_size: bool = True
    unit_sizes: frozenset[int] = frozenset({1})


def seen_by(policy: Policy, view: View) -> View:
    """What the policy is shown: arrays that it cannot change, of the reports those that it declares."""
    declared = policy.reads | ({"asked_loss"} if policy.asks else set())
    return View(
        view.round,
        read_only(view.available),
        read_only(view.participation),
        MappingProxyType({name: read_only(view.reports[name]) for name in sorted(declared) if name in view.reports}),
        MappingProxyType(dict(view.state)),
        view.history,
        None if view.before is None else read_only(view.before),
    )


def check_units(units: object, view: View, k: int, policy: "Policy | _Singles") -> Units:
    """The units, if they are what the policy was asked for.

    Raises:
        PluginError: another type or shape; clients that there are not, that are not available or that come twice;
            more or fewer than ``k`` though the policy's size is fixed.
    """

    def refuse(what: str) -> PluginError:
        return PluginError(f"selection '{policy.name}'", what)

    if not isinstance(units, np.ndarray) or units.dtype != np.int32 or units.ndim != 2:
        raise refuse(f"select must give int32 of shape (units, {policy.unit_size}), not {describe_type(units)}")
    if units.shape[1] not in policy.unit_sizes:
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


class Around:
    """A policy whose field ``inner`` is another one.

    Attributes:
        inner: the policy that is asked.
    """

    inner: Any

    @property
    def k(self) -> int:
        return int(self.inner.k)

    @property
    def fixed_size(self) -> bool:
        return bool(self.inner.fixed_size)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(self.inner.reads)

    @property
    def asks(self) -> Literal["", "loss", "batch_loss"]:
        return self.inner.asks

    @property
    def asked_batch(self) -> int:
        return int(self.inner.asked_batch)

    @property
    def premise(self) -> str:
        return str(self.inner.premise)

    @property
    def scalars(self) -> Scalars:
        return self.inner.scalars

    def candidates(self, view: View, k: int, rng: np.random.Generator) -> NDArray[np.int32]:
        return ask_candidates(self.inner, view, k, rng)

    def start(self, clients: int) -> Arrays:
        return self.inner.start(clients)

    def observe(self, view: View, summed: NDArray[np.int32]) -> Arrays:
        return observe(self.inner, view, summed)


class AroundUnits(Around):
    """A policy around another, whose units are those of the other one."""

    @property
    def unit_size(self) -> int:
        return self.inner.unit_size

    @property
    def mode(self) -> Any:
        return self.inner.mode

    @property
    def unit_sizes(self) -> frozenset[int]:
        return self.inner.unit_sizes

    def family(self, clients: int) -> "Family | None":
        return self.inner.family(clients)

    def disjoint_units(self, clients: int) -> int:
        return self.inner.disjoint_units(clients)


@dataclass(frozen=True)
class _Shuffled(AroundUnits):
    inner: Policy
    order: NDArray[np.integer]

    shuffle = True

    @property
    def reads_history(self) -> bool:
        return self.inner.reads_history

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.inner.columns

    def receipts(self, clients: int) -> Receipts | None:
        return self.inner.receipts(clients)

    @property
    def name(self) -> str:
        return self.inner.name

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        return self.order[ask(self.inner, self._relabel(view), k, rng)].astype(np.int32)

    def candidates(self, view: View, k: int, rng: np.random.Generator) -> NDArray[np.int32]:
        return self.order[ask_candidates(self.inner, self._relabel(view), k, rng)].astype(np.int32)

    def observe(self, view: View, summed: NDArray[np.int32]) -> Arrays:
        return observe(self.inner, self._relabel(view), self._places(summed))

    def admits(self, view: View, clients: NDArray[np.int32]) -> bool:
        return self.inner.admits(self._relabel(view), self._places(clients))

    def guarantee(self, clients: int) -> Guarantee | None:
        return self.inner.guarantee(clients)

    def client_guarantees(self, view: View) -> NDArray[np.float64] | None:
        guarantees = self.inner.client_guarantees(self._relabel(view))
        if guarantees is not None:
            guarantees = guarantees.copy()
            guarantees[self.order] = guarantees[: len(self.order)].copy()
        return guarantees

    def _relabel(self, view: View) -> View:
        reports = {name: values[self.order] for name, values in view.reports.items()}
        available, used = view.available[self.order], view.participation[self.order]
        history = None if view.history is None else tuple(map(self._places, view.history))
        if (before := view.before) is not None:  # a column for each place, then those of who take part no more
            before = np.hstack([before[:, self.order], before[:, len(self.order) :]])
        return View(view.round, available, used, reports, view.state, history, before)

    def _places(self, clients: NDArray[np.int32]) -> NDArray[np.int32]:
        """The places of some clients, ascending."""
        return np.sort(np.argsort(self.order)[clients]).astype(np.int32)


def shuffle_clients(policy: Policy, order: NDArray[np.integer]) -> Policy:
    """The same policy over relabelled clients, so that its units are not runs of consecutive client numbers.

    ``order`` is a permutation of the clients; client ``order[j]`` takes the place of client ``j``.
    """
    return _Shuffled(policy, np.asarray(order))  # type: ignore[return-value]  # its k only reads


def order_of_clients(policy: Policy, clients: int, streams: Streams) -> NDArray[np.integer]:
    """The client in each place of the policy's units, (clients,), as its ``shuffle`` says.

    Raises:
        ScenarioError: that is a list of other clients.
    """
    if isinstance(policy.shuffle, bool):
        return streams("assignment").permutation(clients) if policy.shuffle else np.arange(clients)
    if problems := order_problems(policy.shuffle, clients):
        raise ScenarioError("selection.shuffle", problems[0][1])
    return np.array(policy.shuffle)


ROUND_BY_ROUND = "synchronous"
OBSERVED_BY = frozenset({ROUND_BY_ROUND, "buffered"})
"""Servers that see single jobs: how long each takes, and the losses that come with its update."""


def unreadable(setting: ScenarioView) -> list[str]:
    """What the policy cannot be told, in words about it."""
    policy, server = setting.selection, setting.training.server
    problems = [f"reads '{name}', which nobody knows{suggestion(name, VIEW_FIELDS)}" for name in sorted(policy.reads)
                if name not in VIEW_FIELDS]  # fmt: skip
    losses = policy.reads & set(CLEAR_FIELDS)
    if (losses or policy.asks) and not setting.learning.measures_losses:
        problems.append("reads losses of the clients, and there are none: use learning with data that simfl trains on")
    if policy.asks and server != ROUND_BY_ROUND:
        problems.append("asks clients before it selects, which needs rounds; use training: fedavg")
    elif (losses or "seconds" in policy.reads) and server not in OBSERVED_BY:
        problems.append("reads what single jobs tell, which this training rule does not look at; use training: fedavg")
    return problems
