"""Which device each connected node is: a SuperNode that starts again may have a new id."""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

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

_log = logging.getLogger("flwr")


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
