"""What a strategy and a secure workflow of Flower share: who is there, who is selected, the log and the model;
and which device each node is, as a SuperNode that starts again may have a new id.
"""

import io
import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Event
from typing import Any
from zipfile import BadZipFile

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from simfl.api.files import read_regular, write_atomically
from simfl.deployment.flower.node_selection import NodeSelection
from simfl.deployment.flower.participation_file import Node, same_id
from simfl.plugins import SimflError, amount, suggestion

IDENTITIES = {
    "reported": "each client answers a query with its device",
    "authenticated": "every SuperNode has a registered key, and so the same id for ever",
    "node_id": "a device that restarts is counted as another one",
}
"""Ways to know, and what each takes for granted."""

DEVICE = "device"
"""The key of the client's answer, in any ConfigRecord."""

QUERY_S = 60.0
"""Real seconds that a node has for its answer."""

NAMED = 10
"""Devices that a message names."""


class Identity:
    """Who is connected.

    Args:
        way: one of ``IDENTITIES``, or the device of each node's id.
        query: type of the message with which clients are asked.

    Raises:
        SimflError: it is none of these.
    """

    def __init__(self, way: str | Mapping[int, str], query: str = MessageType.QUERY) -> None:
        if not isinstance(way, Mapping) and way not in IDENTITIES:
            choices = "; ".join(f"'{name}' ({what})" for name, what in IDENTITIES.items())
            raise SimflError(
                f"identity: {way!r}{suggestion(str(way), IDENTITIES) or f': say how a device is recognised: {choices}'}"
            )
        if way == "node_id":
            _log.warning("identity='node_id': a device that restarts without a registered key is counted as another "
                         "one, so that neither floors nor an audit see that two nodes are one device")  # fmt: skip
        self.way, self.query = way, query
        self.device_of: dict[int, Node] = {} if isinstance(way, str) else {n: same_id(d) for n, d in way.items()}
        self._here: set[Node] = set()
        self._unknown: set[Node] = set()

    def devices(self, grid: Grid) -> dict[Node, int]:
        """The id of each connected device's node; of two nodes of one device the one that said so last."""
        nodes = list(grid.get_node_ids())
        new = [node for node in nodes if node not in self.device_of]
        if self.way == "reported":
            self._ask(grid, new)
        elif isinstance(self.way, str):
            self.device_of |= {node: node for node in new}
        elif new:
            _log.warning("no device is known of %s, which take no part", _names(new))
        order = {node: place for place, node in enumerate(self.device_of)}
        return {self.device_of[node]: node for node in sorted(set(nodes) & order.keys(), key=order.__getitem__)}

    def _ask(self, grid: Grid, new: Iterable[int]) -> None:
        """Asks nodes which device they are."""
        content = RecordDict({"getpropertiesins.config": ConfigRecord()})  # clients of the older interface read it
        messages = [Message(content, dst_node_id=node, message_type=self.query) for node in new]
        replies = grid.send_and_receive(messages, timeout=QUERY_S) if messages else ()
        silent, why = {message.metadata.dst_node_id for message in messages}, ""
        for reply in replies:
            why = reply.error.reason if reply.has_error() else why
            records = [] if reply.has_error() else reply.content.config_records.values()
            said: Any = next((record[DEVICE] for record in records if DEVICE in record), None)
            if isinstance(said, (str, int)) and re.fullmatch(r'[^,"\s]+', str(said)):
                self.device_of[reply.metadata.src_node_id] = same_id(said)
                silent.discard(reply.metadata.src_node_id)
        if silent:
            _log.warning("%s did not say which device they are (%r in answer to a %s message) and take no part%s",
                         _names(silent), DEVICE, self.query, f": {why}" if why else "")  # fmt: skip

    def warn(self, here: Iterable[Node], unknown: Iterable[Node]) -> None:
        """Names at WARNING who has gone and who has no place, once each."""
        here, unknown = set(here), set(unknown)
        for devices, what in (
            (self._here - here, "not connected any more: %s"),
            (unknown - self._unknown, "more nodes than the policy has: %s take no part"),
        ):
            if devices:
                _log.warning(what, _names(devices))
        self._here, self._unknown = here, unknown


def _names(nodes: Iterable[Node]) -> str:
    names = sorted(map(str, nodes))
    return f"{amount(len(names), 'node')} ({', '.join(names[:NAMED])}{', ...' * (len(names) > NAMED)})"


_log = logging.getLogger("flwr")


class Deployment:
    """A policy on a real server.

    Args:
        policy, nodes, seed, log, floor, past, past_options: as for
            :class:`simfl.deployment.flower.node_selection.NodeSelection`; nodes are devices, and paths absolute.
        identity: how a device is recognised when its node has another id: ``reported``, each client says which device
            it is (``ConfigRecord({"device": ...})`` in answer to a query); ``authenticated``, SuperNodes have
            registered keys; a mapping from ids to devices; or ``node_id``, if devices that restart may count as others.
        skipped_round_s: real seconds to wait before the round after a skipped one.
        query: type of the message with which clients are asked who they are.

    Attributes:
        selection: who has taken part, and ``stopped``: why training has ended, if the floor was reached.

    Raises:
        SimflError: one of them cannot be.
    """

    def __init__(
        self, policy: str, nodes: int | list[Node], *, seed: int = 0, identity: str | Mapping[int, str] = "",
        log: Path | str | None = None, floor: str | tuple[str, ...] = (), skipped_round_s: float = 10.0,
        past: Path | str | None = None, past_options: Mapping[str, Any] | None = None, query: str = MessageType.QUERY,
    ) -> None:  # fmt: skip
        for what, path in (("log", log), ("past", past)):
            if path is not None and not Path(path).is_absolute():
                raise SimflError(f"{what}: {str(path)!r} is relative to where Flower happens to start the server; give "
                                 f"an absolute path, e.g. {str(Path.home() / path)!r}")  # fmt: skip
        if log is not None and Path(log).suffix == ".npz":
            raise SimflError(f"log: {log}: the last model is kept in a file of this name; give another, e.g. "
                             f"{Path(log).with_suffix('.csv').name}")  # fmt: skip
        self.identity, self.skipped_round_s = Identity(identity, query), skipped_round_s
        self.selection = NodeSelection(policy, nodes, seed, log, floor, past, past_options)
        if self.selection.log and self.selection.log.taken_out:
            _log.warning(self.selection.log.taken_out)
        self.model = None if log is None else Path(log).with_suffix(".npz")
        self.device_at: dict[int, Node] = {}

    def choose(self, grid: Grid) -> list[int]:
        """The ids of the nodes that train in this round; none if it is skipped, which is waited for and said."""
        before = self.selection.stopped
        here = self.identity.devices(grid)
        nodes = [here[device] for device in self.selection.select(here)]
        self.device_at = {node: device for device, node in here.items()}
        self.identity.warn(here, self.selection.unknown)
        if (stopped := self.selection.stopped) and not before:
            _log.warning("no further training: %s", stopped)
        elif not nodes and not stopped:
            name, known = self.selection.policy.name, len(here) - len(self.selection.unknown)
            _log.warning("round %s of the participation log is skipped: no available row of %s among %s of %s nodes",
                         self.selection.round, name, known, self.selection.clients)  # fmt: skip
            Event().wait(self.skipped_round_s)
        return nodes

    def keep(self, arrays: ArrayRecord, number: int) -> None:
        """Keeps the model of a round's sum beside the log."""
        if self.model is None:
            return
        file = io.BytesIO()
        values = {f"array_{place}": array.numpy() for place, array in enumerate(arrays.values())}
        np.savez(file, round=number, names=np.array([*arrays.keys()]), **values)
        write_atomically(self.model, file.getvalue())

    def resume(self, initial: ArrayRecord) -> ArrayRecord:
        """The model of the last sum, the initial one where there is none; which one it is, is said.

        Raises:
            SimflError: the file is no model of the initial one's arrays.
        """
        if not self.selection.history:
            return initial
        entries = self.selection.log.entries if self.selection.log else []
        last_round, path = entries[-1].round if entries else -1, self.model
        _log.info("round 1 is round %s of the participation log", self.selection.round)
        if path is None or not path.exists():
            _log.warning("rounds of before count, and their model is not here: training begins with the initial one")
            return initial
        try:
            with np.load(io.BytesIO(read_regular(path)), allow_pickle=False) as file:
                names, number = file["names"].tolist(), int(file["round"])
                arrays = {name: file[f"array_{place}"] for place, name in enumerate(names)}
        except (OSError, EOFError, ValueError, KeyError, RuntimeError, BadZipFile) as error:
            wrong = f"cannot be read as a model ({error}); take it away to begin with the initial one"
            raise SimflError(f"{path}: {wrong}") from None
        shapes = [(name, tuple(array.shape)) for name, array in initial.items()]
        if [(name, array.shape) for name, array in arrays.items()] != shapes:
            raise SimflError(f"{path}: has other arrays than the initial model; take it away to begin with that one")
        if number < last_round:
            _log.warning("the model of round %s, the last in the log, was not kept; training continues with that of %s",
                         last_round, number)  # fmt: skip
        else:
            _log.info("training continues with the model of round %s (%s)", number, path)
        return ArrayRecord(array_dict={name: Array(array) for name, array in arrays.items()})

    def end(self, before: int, rounds: int) -> None:
        """Raises where no round has had a sum.

        Args:
            before: how many sums there were when the run began.
            rounds: how many it has had.

        Raises:
            SimflError: there is none more.
        """
        if rounds and len(self.selection.history) == before:
            why = self.selection.stopped or "see the warnings above"
            raise SimflError(f"none of {rounds} rounds had a sum, and the model is that of before: {why}")
