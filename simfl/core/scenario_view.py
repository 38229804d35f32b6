"""What a plugin may read of the scenario it stands in; nothing else may be relied on.

``check``, ``resolve`` and ``build`` of every family are given one. The scenario is one; tests and notebooks may make
another of a few attributes.
"""

from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeGuard

from simfl.core.errors import amount
from simfl.core.rng import Streams
from simfl.core.types import Floats, RemoteClients

if TYPE_CHECKING:
    from simfl.attacks.base import Observer
    from simfl.clients.client_agents import Agents
    from simfl.compression.base import Compression
    from simfl.devices.base import Availability, Computation, Failure
    from simfl.learning.base import Learning
    from simfl.network.base import Network
    from simfl.privacy.accountant import Accountant
    from simfl.privacy.stage import Stage
    from simfl.secagg.base import Protocol as Aggregation
    from simfl.selection.base import Policy
    from simfl.training.base import BufferedRule, Rule

    class ChosenPrivacy(Accountant, Protocol):
        """The scenario's ``privacy``: its own metrics, the stages, and the other accountants."""

        @property
        def stages(self) -> tuple[Stage, ...]: ...

        @property
        def accountants(self) -> tuple[Accountant, ...] | None: ...

        @property
        def protects(self) -> bool: ...

        @property
        def recovery_budget(self) -> int: ...

    class ChosenTraining(Rule, Protocol):
        """The scenario's ``training``, as other plugins see it.

        Attributes:
            weight_decay: of the clients' local training.
            descends: what clients send is the model of plain SGD, and nothing else of their data.
        """

        @property
        def weight_decay(self) -> float: ...

        @property
        def descends(self) -> bool: ...


@dataclass(frozen=True)
class RuntimeOptions:
    """With what a run is computed: no part of the scenario, its file or its digest, and no result depends on it.

    Attributes:
        remote_clients: the clients that are processes of their own; None = there are none.
        scheduler: address of a Dask scheduler; None = one in this process.
        insecure: a scheduler on another machine may be used without TLS.
        objects: handles of the objects that were handed in; they are known while they are held.
    """

    remote_clients: RemoteClients | None = None
    scheduler: str | None = None
    insecure: bool = False
    objects: tuple[object, ...] = ()


class ChosenDevices(Protocol):
    """The scenario's ``devices``; ``profiles`` names the CSV file of device profiles, if there is one."""

    @property
    def profiles(self) -> str | None: ...

    @property
    def availability(self) -> "Availability": ...

    @property
    def computation(self) -> "Computation": ...

    @property
    def failure(self) -> "Failure": ...


class ScenarioView(Protocol):
    """The scenario around a plugin, complete and frozen.

    Attributes:
        clients: their number; they are 0 .. clients-1.
        seed: decides every random draw.
        network, devices, selection, training, learning, compression, secagg, privacy, attacks: the other choices. Those
            before a plugin in the order of the scenario's keys have been resolved when it is.
        means: with what it is computed, no part of it.
    """

    @property
    def clients(self) -> int: ...

    @property
    def seed(self) -> int: ...

    @property
    def network(self) -> "Network": ...

    @property
    def devices(self) -> ChosenDevices: ...

    @property
    def agents(self) -> "Agents": ...

    @property
    def selection(self) -> "Policy": ...

    @property
    def training(self) -> "ChosenTraining": ...

    @property
    def learning(self) -> "Learning": ...

    @property
    def compression(self) -> "Compression": ...

    @property
    def secagg(self) -> "Aggregation": ...

    @property
    def privacy(self) -> "ChosenPrivacy": ...

    @property
    def attacks(self) -> "tuple[Observer, ...]": ...

    @property
    def means(self) -> RuntimeOptions: ...

    def file(self, name: str) -> Path:
        """The path of what a field names: from the scenario file's folder or else the data folder; or absolute."""


def has_buffer(rule: "Rule") -> "TypeGuard[BufferedRule]":
    """Whether a rule has a buffer: those of asynchronous servers have."""
    return rule.asynchronous


def aggregate_size(setting: ScenarioView) -> int | None:
    """Updates in an aggregate; None where a policy selects now more, now fewer."""
    rule = setting.training
    return rule.buffer if has_buffer(rule) else setting.selection.k


def summands(setting: ScenarioView) -> int | None:
    """Updates in a sum that is opened, of all that are aggregated or of one unit; None as of :func:`aggregate_size`."""
    return setting.selection.unit_size if setting.secagg.sums_units else aggregate_size(setting)


def changing_weights(setting: ScenarioView) -> bool:
    """Whether an update that stays the same may weigh otherwise from sum to sum, as its client's samples grow; rows of
    a participation matrix hold one number of samples a client, or none.
    """
    return setting.training.by_samples and setting.learning.counts_change


def agents_send_own(setting: ScenarioView) -> bool:
    """Whether what each client sends is of its own update only, no longer, and weighs what its own samples say."""
    return setting.agents.per_client and not (setting.training.by_samples and setting.agents.client.tells_samples)


def no_sample_bound(setting: ScenarioView) -> str | None:
    """Why nothing is known of what one sample does to a model, whatever the data; None = something may be."""
    rule, learning = setting.training, setting.learning
    if learning.steepness is None:
        return "nothing is learned"
    if learning.steepness == inf:
        return "learning's model, backend, transform or holdout does not say what one sample does to an update"
    if not (rule.algorithm.minimises or rule.descends):
        return f"{rule.algorithm.name} sends other models than those of plain SGD without momentum or clips"
    return None


def tolerated_colluders(setting: ScenarioView, summed: int | None = None) -> int:
    """Clients who with the server learn no single update from the protocol, whoever they are, where nobody fails.

    With more of them the server knows masks, and single updates are open to it, whatever the sums are: no certificate
    against so many holds. 0 where the protocol promises nothing, or not of so small a sum; -1 where it shows updates.

    Args:
        setting: the scenario.
        summed: clients in the sum, of those prepared for; only looked at where the scenario does not say how many.
    """
    fixed = has_buffer(setting.training) or setting.selection.fixed_size
    members = (summands(setting) if fixed else None) or summed
    protocol = setting.secagg
    tolerated = (protocol.tolerance(members, setting.clients) if members else None) or 0
    return -1 if protocol.shows_updates else tolerated


def surely_tolerated(setting: ScenarioView, summed: int | None = None) -> int:
    """The same before the run, whatever happens: 0 where clients can be lost after they have shared masks.

    Their silence cuts graphs of neighbours, or is a colluder's with the one share that opens a failed sum. Of a sum two
    updates at least have to be left.
    """
    tolerated = tolerated_colluders(setting, summed)
    if summed and not setting.secagg.assumes:
        tolerated = min(tolerated, min(summed, summands(setting) or summed) - 2)
    return tolerated if setting.secagg.assumes or not can_lose_clients(setting) else min(tolerated, 0)


def dropout_rates(setting: ScenarioView) -> Floats | None:
    """Long-run probability of being unavailable at a round, (clients,); None = unknown."""
    if not setting.agents.all_stay:
        return None
    return setting.devices.availability.build(setting, Streams(setting.seed)).dropout


def never_fails(setting: ScenarioView) -> bool:
    """Whether certainly no client fails, at work or in a phase, no message is lost, and every client answers."""
    return setting.devices.failure.never and not setting.network.loss and setting.agents.all_standard


def failure_rates(setting: ScenarioView) -> Floats | None:
    """Probability that each client fails at work, float64 (clients,), independently; None where something else may."""
    if setting.network.loss or not setting.agents.all_standard:
        return None
    return setting.devices.failure.rates(setting, Streams(setting.seed))


def can_lose_clients(setting: ScenarioView) -> bool:
    """Whether a client may be silent in an aggregation: it fails, is too late, or is not waited for."""
    losses, protocol = setting.training.losses, setting.secagg
    late = losses is not None and (losses.quorum or losses.deadline_s is not None)
    return late or protocol.deadline_s is not None or not never_fails(setting)


def tolerance_problem(setting: ScenarioView, colluders: int) -> str:
    """Why nothing can be promised against so many colluders, with the nearest number; empty where it can."""
    most = max(0, tolerated_colluders(setting, summands(setting) or setting.clients))
    if colluders <= most:
        return ""
    why = f"secagg: {setting.secagg.name} hides single updates from at most {amount(most, 'colluder')} of a sum"
    return f"is {colluders}, but {why}; the nearest value is {most}"
