"""Which nodes of a real server take part in a round, and whose replies may be aggregated: without Flower.

Its participation log (:mod:`simfl.deployment.flower.participation_file`) has one line for each client in
each sum, as ``simfl audit`` reads it.
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from simfl.deployment.audit.log_columns import LogOptions
from simfl.deployment.audit.reading import read
from simfl.deployment.flower.participation_file import Node, ParticipationFile, same_id
from simfl.deployment.forecasting.forecast_text import what_is_left
from simfl.deployment.forecasting.next_round import guarantees, least_values, notions_below
from simfl.deployment.forecasting.policies import scenario_policy
from simfl.plugins import CLEAR_FIELDS, SimflError, Streams, View, amount
from simfl.plugins.selection import Policy, ask, nobody, observe, order_of_clients, shuffle_clients

_log = logging.getLogger("flwr")

REPORTED = frozenset({"seconds", "samples", *CLEAR_FIELDS})
"""Fields of the :class:`simfl.core.types.View` that come with replies."""


class NodeSelection:
    """The rounds of a server under a policy: alternately :meth:`select` and :meth:`conclude`.

    The draws of round t are those of round t of a simulation with the same seed. Where the log already has rounds, they
    count as earlier rounds of this server; what a policy has observed in them it does not know any more.

    Args:
        policy: as for ``simfl run selection=``, e.g. ``batch_partition:k=8,T=4``.
        nodes: how many there are, numbered as they first connect (by id those that connect together); or their ids, in
            the order of their client numbers. An id is compared as text: 12 and "12" are the same.
        seed: of the policy's draws.
        log: file to which the clients in each sum are appended before it may be opened.
        past: a log of an earlier deployment, of any form that ``simfl audit`` reads; its clients are ids of nodes, and
            its rounds come before those of ``log``. Where it has all of the ``nodes``, others of its clients take part
            no more.
        past_options: how ``past`` is read where it has more than one reading, as fields of
            :class:`simfl.deployment.audit.log_columns.LogOptions`: ``{"where": {"status": "ok"}}``.
        floor: least guarantees, e.g. ``semi_strong=3``.

    Attributes:
        round: number of the coming or current round, from 0.
        stopped: why nobody is selected any more; empty while somebody may be.
        left: what earlier sums have left of the guarantee that the policy keeps, a sentence; empty without both.
        needs: what replies must report, of :data:`REPORTED`.
        unknown: ids of connected nodes for which no number was left, as of the last :meth:`select`.

    Raises:
        SimflError: one of them cannot be.
    """

    def __init__(
        self,
        policy: str,
        nodes: int | Sequence[Node],
        seed: int = 0,
        log: Path | str | None = None,
        floor: str | Iterable[str] = (),
        past: Path | str | None = None,
        past_options: Mapping[str, Any] | None = None,
    ) -> None:
        ids = [] if isinstance(nodes, int) else list(nodes)
        n = self.clients = nodes if isinstance(nodes, int) else len(ids)
        self.client_of: dict[Node, int] = {}
        self.node_of: dict[int, Node] = {}
        for client, node in enumerate(ids):
            self._assign(node, client)
        self.policy = node_policy(policy, n, seed)
        self.bounds = least_values([floor] if isinstance(floor, str) else floor, "floor")
        self.streams = Streams(seed)
        self.round, self.stopped, self.units = 0, "", nobody(self.policy.unit_size)
        self.participation = np.zeros(n, dtype=np.int64)
        self.history: list[NDArray[np.int32]] = []
        self.text, self.left = policy, ""
        self.before: NDArray[np.bool_] | None = None
        self.needs = (self.policy.reads | ({"seconds"} if "estimate_s" in self.policy.reads else set())) & REPORTED
        self.reports = {name: np.full(n, np.nan) for name in sorted(self.needs | (self.policy.reads & {"last_round"}))}
        self.state = self.policy.start(n)
        self.unknown: list[Node] = []
        self.log = None if log is None else ParticipationFile(Path(log), n)
        options = LogOptions.of(past_options or {}, "past_options")
        if past is None and past_options:
            raise SimflError("past_options: there is no past of which they could speak")
        if past is not None:
            self._take_past(past, options)
        for number, entries in groupby(self.log.entries if self.log else [], lambda entry: entry.round):
            if number < self.round:
                raise SimflError(f"{log}: has round {number}, which the {self.round} rounds of the past hold, too")
            self._count(number, np.sort([self._assign(node, client) for _, client, node in entries]).astype(np.int32))
            self.round = number + 1
        self._guard_the_past()

    def _guard_the_past(self) -> None:
        """Hands earlier sums to a policy that keeps what they have left, whoever chose them, and says what that is."""
        n = max(self.clients, 1 + max((int(row[-1]) for row in self.history), default=0))
        rows = np.zeros((len(self.history), n), dtype=bool)
        for row, members in zip(rows, self.history, strict=True):
            row[members] = True
        view = View(0, np.ones(self.clients, dtype=bool), self.participation, before=rows, history=())
        if not len(rows) or not self.policy.reads_history or self.policy.client_guarantees(view) is None:
            return
        self.before = rows
        self.left = what_is_left(self.policy, self.text, view, f"round {self.round}")
        _log.info("%s", self.left)

    def _take_past(self, path: Path | str, options: LogOptions) -> None:
        """Counts the rounds of another deployment's log."""
        past = read(path, options=options)
        clients = [same_id(node) for node in past.clients]
        others = [node for node in clients if node not in self.client_of]
        gone = {node: self.clients + place for place, node in enumerate(others)}
        if len(clients) - len(others) < self.clients:
            gone = {}
        if not gone and len(clients) > self.clients:
            raise SimflError(f"{path}: has {amount(len(clients), 'client')}, and nodes is {self.clients}")
        free = iter([client for client in range(self.clients) if client not in self.node_of])
        known = self.client_of | gone
        places = [known[node] if node in known else self._assign(node, next(free, -1)) for node in clients]
        if -1 in places:
            raise SimflError(f"{path}: has clients that are none of the nodes")
        matrix = past.matrix.tocsr()
        if (self.policy.reads_history or self.bounds) and np.ptp(matrix.data) > 0:
            who = self.text if self.policy.reads_history else "a floor"
            raise SimflError(f"{path}: its sums have weights, and {who} looks at plain sums only")
        for number, (start, end) in enumerate(pairwise(matrix.indptr.tolist())):
            self._count(number, np.sort(np.array(places, dtype=np.int32)[matrix.indices[start:end]]))
        self.round = matrix.shape[0]

    def select(self, connected: Iterable[Node]) -> list[Node]:
        """The ids of the nodes that take part in the round, in whole units; none where there is no available row.

        Args:
            connected: the ids of the nodes that are there now. New ones are numbered as long as numbers are left.
        """
        nodes = sorted(map(same_id, connected), key=lambda node: (isinstance(node, str), node))
        unused = [client for client in range(self.clients) if client not in self.node_of]
        new = [node for node in nodes if node not in self.client_of]
        for node, client in zip(new, unused):
            self._assign(node, client)
        self.unknown = new[len(unused) :]
        available = np.zeros(self.clients, dtype=bool)
        available[[self.client_of[node] for node in nodes if node in self.client_of]] = True
        self.view = self._view(available)
        self.units = nobody(self.policy.unit_size)
        if not self.stopped:
            units = ask(self.policy, self.view, self.policy.k, self.streams("selection", self.round))
            if self._keeps_floor(units.ravel()):
                self.units = units
        return self._nodes(self.units.ravel())

    def conclude(self, replies: Mapping[Node, Mapping[str, float]], only_all: bool = False) -> list[Node]:
        """Ends the round: the ids of the nodes whose replies are aggregated, by client; the others' are dropped.

        A unit counts only if all of its nodes have replied, and the sum only if the policy admits it and it keeps the
        floor. It is in the log when this returns.

        Args:
            replies: for each node that has delivered an update, what it has reported, of ``needs``.
            only_all: the sum can be opened of all these nodes or not at all, as under a protocol that has added them.
        """
        replies = {same_id(node): values for node, values in replies.items()}
        here = np.zeros(self.clients, dtype=bool)
        here[[self.client_of[node] for node in replies]] = True
        members = np.sort(self.units[here[self.units].all(axis=1)].ravel())
        if only_all and members.size < here.sum():
            members = members[:0]
        if not (members.size and self.policy.admits(self.view, members) and self._keeps_floor(members)):
            members = members[:0]
        for node, values in replies.items():
            client = self.client_of[node]
            for name in self.needs if client in members else self.needs - {*CLEAR_FIELDS}:
                self.reports[name][client] = values[name]
        nodes = self._nodes(members)
        if members.size and self.log:
            self.log.append(self.round, members.tolist(), nodes)
        self._count(self.round, members)
        self.state = observe(self.policy, self._view(np.ones(self.clients, dtype=bool)), members)
        self.round += 1
        return nodes

    def _assign(self, node: Node, client: int) -> int:
        node = same_id(node)
        if isinstance(node, str) and re.search(r'[,"\s]|^$', node):
            raise SimflError(f"node {node!r}: its id has a space, a comma or a quotation mark, or is empty")
        if self.client_of.setdefault(node, client) != client or self.node_of.setdefault(client, node) != node:
            raise SimflError(f"node {node} and client {client}: each node is one client, in the log and in nodes")
        return client

    def _nodes(self, clients: NDArray[np.int32]) -> list[Node]:
        return [self.node_of[client] for client in clients.tolist()]

    def _count(self, number: int, members: NDArray[np.int32]) -> None:
        self.participation[members[members < self.clients]] += 1
        if members.size:
            self.history.append(members)
        if "last_round" in self.reports:
            self.reports["last_round"][members[members < self.clients]] = number

    def _view(self, available: NDArray[np.bool_]) -> View:
        """What the policy may see; samples and durations that no reply has told are the median of the others'."""
        reports = dict(self.reports)
        if "estimate_s" in self.policy.reads:
            reports["estimate_s"] = _median_where_unknown(self.reports["seconds"])
        if "samples" in reports:
            reports["samples"] = _median_where_unknown(reports["samples"])
        since = 0 if self.before is None else len(self.before)
        new = (row[row < self.clients] for row in self.history[since:])
        history = tuple(new) if self.policy.reads_history else None
        return View(self.round, available, self.participation, reports, self.state, history, self.before)

    def _keeps_floor(self, members: NDArray[np.int32]) -> bool:
        """Whether all guarantees hold with one more sum of these clients; if not, this is the end."""
        if not members.size or not self.bounds:
            return True
        sums = [*self.history, members]
        ends = np.cumsum([0, *map(len, sums)])
        places = np.concatenate(sums)
        size = max(self.clients, 1 + int(places.max()))
        matrix = csr_array((np.ones(ends[-1]), places, ends), shape=(len(sums), size))
        if broken := notions_below(values := guarantees(matrix), self.bounds):
            what = ", ".join(
                f"{name} is shown to be {values[name]:.4g} only, not {self.bounds[name]:g}" for name in broken
            )
            self.stopped = f"with the sum of round {self.round}, {what}"
        return not self.stopped


def _median_where_unknown(values: NDArray[np.float64]) -> NDArray[np.float64]:
    known = values[~np.isnan(values)]
    return np.where(np.isnan(values), np.median(known) if known.size else 1.0, values)


REAL: dict[str, Any] = {
    "devices": {"availability": {"name": "bernoulli", "dropout": {"name": "uniform", "low": 0.1, "high": 0.9}}},
    "learning": {"data": "digits", "model": "logistic"},
}
"""A scenario like a real deployment: clients that train, and are not equally often available (``mode: auto``)."""


def node_policy(text: str, clients: int, seed: int) -> Policy:
    """The policy of a text such as ``batch_partition:k=8,T=4``, its clients assigned by the seed if it shuffles.

    Raises:
        SimflError: there is none, it cannot be, or needs what a real server does not have.
    """
    policy = scenario_policy(text, clients, REAL)
    if policy.receipts(2) is not None:
        raise SimflError(f"policy {text}: has clients check what they are told, and Flower's clients check nothing")
    if policy.asks:
        raise SimflError(f"policy {text}: asks clients before it selects, and a strategy of Flower sends once a round")
    if "upload_estimate_s" in policy.reads:
        raise SimflError(f"policy {text}: reads how long uploads take, which a server of Flower does not see")
    return shuffle_clients(policy, order_of_clients(policy, clients, Streams(seed))) if policy.shuffle else policy
