"""Trips: a request to a client, its work and the answer, on the clock.

Where nothing is shared and clients are not processes, a whole trip is known when it departs, and is one event. Where
messages share links, a request is on the link down until that says that it has ended; the work, and the way of what a
message is not on the link for, take what was drawn; the answer is on the link up from then on. Who dies in its work
sends no bytes. Who is cancelled leaves the link at once. Where a message crosses several links, it is on all of them
together; links that no message crosses together are followed one by one. Where clients are processes, one starts when
the request has arrived, and what it sends is the answer.

What happens at one instant has an order (:data:`simfl.agents.world.ARRIVALS`), and what arrives then is told in the
order in which the trips began. So a resumed run meets all events in the order of an undisturbed one. State are the
links and how far each trip is.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.exchange import REQUEST
from simfl.agents.client_node import ClientNode
from simfl.agents.world import ARRIVALS, DOWN_ENDS, UP_BEGINS, UP_ENDS, World
from simfl.clients.client_agents import ClientAgent
from simfl.core.types import Arrays
from simfl.network.fair_link import EqualLink, FairLink, UnequalLink
from simfl.network.fair_network import FairNetwork
from simfl.network.link_network import LinkNetwork, LinkPart, parts_of
from simfl.network.links import PathLinks, SharedLink

if TYPE_CHECKING:
    from simfl.agents.agent_nodes import AgentNodes

NOT_BEGUN, ON_LINK_DOWN, AT_WORK, ON_LINK_UP, ARRIVES, OVER = range(6)
"""How far a trip is. ``AT_WORK`` from when the request is on no link until the answer is on the link up, or on its way
if that shares none; ``ARRIVES`` if nothing holds it up any more."""


class Trip(ABC):
    """A request to one client, its work, and the answer.

    Attributes:
        download_s, compute_s, reply_s: durations of request, work and answer, seconds; those of messages alone on the
            shared link, until it is known how long they really took.
        lives: False if the client dies during the computation; the answer is then the end of its connection.
        down_bytes, up_bytes: sizes of request and answer.
        loss: what of it is lost on its way, as in :class:`simfl.agents.aggregation.exchange.Delays`.
        arrives_s: when the answer arrives, if nothing (more) holds it up and nobody cancels it.
        serial: orders what has been set going, for answers that arrive at the same time.
        stage: how far it is.
        process: the client's, while it is at work.
        assignment: what becomes of it, once it has reached a client with an agent of its own.
        deadline_s: seconds that its answer has; None = any time.
    """

    __slots__ = (
        "download_s", "compute_s", "reply_s", "lives", "down_bytes", "up_bytes", "loss", "arrives_s", "serial", "stage",
        "process", "assignment", "deadline_s",
    )  # fmt: skip

    def __init__(
        self,
        download_s: float,
        compute_s: float,
        reply_s: float,
        lives: bool,
        down_bytes: int,
        up_bytes: int,
        loss: int,
    ) -> None:
        self.download_s, self.compute_s, self.reply_s, self.lives = download_s, compute_s, reply_s, lives
        self.down_bytes, self.up_bytes, self.loss = down_bytes, up_bytes, loss
        self.arrives_s = 0.0
        self.serial = 0
        self.stage = NOT_BEGUN
        self.process: Any = None
        self.assignment: Any = None
        self.deadline_s: float | None = None

    @property
    @abstractmethod
    def client(self) -> int:
        """Whose it is."""

    @property
    @abstractmethod
    def begins_s(self) -> float:
        """When the request left the server, simulated seconds."""

    @property
    @abstractmethod
    def number(self) -> int:
        """Of the client's job."""

    @property
    @abstractmethod
    def version(self) -> int:
        """Of the model that goes out."""

    def meets(self, clients: Sequence[range], within: str) -> int:
        """How many of the clients, another than its own, are asked with it; see ``Node``."""
        return 0

    @property
    def is_work(self) -> bool:
        """Whether a model is to be trained, so that the client's agent gets the request."""
        return True

    @abstractmethod
    def on_arrival(self) -> None:
        """The answer, or the end of the connection, has arrived."""


class _Way(ABC):
    """A shared link, or several that messages cross together, and the time of the event that looks at it next.

    Attributes:
        link: with the messages on it.
        phase: of an instant in which messages on it end.
    """

    def __init__(self, link: FairLink | FairNetwork, phase: int) -> None:
        self.link, self.phase, self.looks_s = link, phase, inf

    @abstractmethod
    def s_per_byte(self, client: int) -> float:
        """Seconds a byte of a client's message that is alone."""

    @abstractmethod
    def enter(self, now_s: float, trip: Trip, alone_s: float) -> None:
        """A trip's message begins; it would end at ``alone_s`` if nothing held it up."""


class _OneLink(_Way):
    """One link."""

    def __init__(self, link: SharedLink, phase: int) -> None:
        share = link.equal_share
        self._one: FairLink = UnequalLink() if share is None else EqualLink(share)
        super().__init__(self._one, phase)
        self._whole = link
        self._line_and_share = None if share is None else (float(link.s_per_byte[0]), share)

    def s_per_byte(self, client: int) -> float:
        return float(self._whole.s_per_byte[client]) if self._line_and_share is None else self._line_and_share[0]

    def enter(self, now_s: float, trip: Trip, alone_s: float) -> None:
        if self._line_and_share is None:
            share = 1 / self._whole.bytes_per_s / float(self._whole.s_per_byte[trip.client])
        else:
            share = self._line_and_share[1]
        self._one.add(now_s, trip, trip.serial, alone_s, share)


class _SeveralLinks(_Way):
    """Links that messages cross together."""

    def __init__(self, part: LinkPart, s_per_byte: NDArray[np.float64], phase: int) -> None:
        self._network = part.network()
        super().__init__(self._network, phase)
        self._s_per_byte, self._group = s_per_byte, part.group

    def s_per_byte(self, client: int) -> float:
        return float(self._s_per_byte[client])

    def enter(self, now_s: float, trip: Trip, alone_s: float) -> None:
        bytes_per_s = 1 / float(self._s_per_byte[trip.client])
        self._network.add(now_s, trip, trip.serial, alone_s, bytes_per_s, int(self._group[trip.client]))


class _Direction:
    """The shared links in one direction.

    Attributes:
        links: those that messages cross, by what belongs together.
    """

    def __init__(self, shared: SharedLink | LinkNetwork | None, phase: int) -> None:
        self.links: list[_Way] = []
        self._place: NDArray[np.int64] | None = None
        if isinstance(shared, SharedLink):
            self.links.append(_OneLink(shared, phase))
        elif shared is not None:
            self._place = np.full(len(shared.codes), -1, dtype=np.int64)
            for place, part in enumerate(parts_of(shared.codes, shared.bytes_per_s)):
                self._place[part.members] = place
                self.links.append(_way(part, shared.s_per_byte, phase))

    def way(self, client: int) -> _Way | None:
        """What a client's messages cross; None = no shared link."""
        if self._place is None:
            return self.links[0] if self.links else None
        place = int(self._place[client])
        return None if place < 0 else self.links[place]


def _way(part: LinkPart, s_per_byte: NDArray[np.float64], phase: int) -> _Way:
    if len(part.links) > 1:
        return _SeveralLinks(part, s_per_byte, phase)
    lines = np.where(part.group >= 0, s_per_byte, s_per_byte[part.members[0]])  # nothing of others' lines
    return _OneLink(SharedLink(part.bytes_per_s[0], lines), phase)


class Trips:
    """All trips under way.

    Args:
        world: the clock.
        links: of which messages share some; None = they share none, or their waits are in their durations.
        agent: what a client at work does; None = clients are no processes, and do what the standard agent does.

    Attributes:
        share_links: they wait for one another on the clock.
        nodes: the clients with agents of their own; None = there are none.
        serial: of what was set going last.
    """

    def __init__(self, world: World, links: PathLinks | None, agent: ClientAgent | None) -> None:
        self.world, self.agent = world, agent
        self.nodes: AgentNodes | None = None
        self.serial = 0
        shared, self.share_links = None if links is None else links.shared, links is not None
        self.down = _Direction(None if shared is None else shared.down, DOWN_ENDS)
        self.up = _Direction(None if shared is None else shared.up, UP_ENDS)

    def nodes_of(self, trip: Trip) -> "AgentNodes | None":
        """Who has the agent that gets a trip's request, if it is one of the client's own."""
        nodes = self.nodes
        return nodes if nodes is not None and trip.is_work and nodes.has_own(trip.client) else None

    def next_serial(self) -> int:
        """A number for the next thing that is set going."""
        self.serial += 1
        return self.serial

    def depart(self, trip: Trip) -> None:
        """The request leaves the server now."""
        way = self.down.way(trip.client)
        if way is None or not trip.down_bytes:
            self._note_request(trip)
            self._on_download(trip)
            return
        trip.stage, now = ON_LINK_DOWN, self.world.now
        way.enter(now, trip, now + trip.down_bytes * way.s_per_byte(trip.client))
        self._watch(way)

    def cancel(self, trip: Trip, open_end: bool = False) -> None:
        """Nobody waits for it any more, perhaps for the run has ended (``open_end``). Its durations become what they
        would at least have been.
        """
        stage, trip.stage = trip.stage, OVER
        if trip.process is not None:
            self.world.stop(trip.process)
        if trip.assignment is not None and self.nodes is not None:
            self.nodes.cancel(trip.assignment, open_end)
        way = (self.down if stage == ON_LINK_DOWN else self.up).way(trip.client)
        if stage not in (ON_LINK_DOWN, ON_LINK_UP) or way is None:
            return
        wait_s = way.link.remove(self.world.now, trip.serial)
        if stage == ON_LINK_DOWN:
            trip.download_s += wait_s
            self._note_request(trip)
        else:
            trip.reply_s += wait_s
        trip.arrives_s = trip.begins_s + trip.download_s + trip.compute_s + trip.reply_s
        self._watch(way)

    def _note_request(self, trip: Trip) -> None:
        if (nodes := self.nodes_of(trip)) is not None:
            nodes.note_request(trip)

    # -- what happens -------------------------------------------------------------------------------

    def _on_download(self, trip: Trip) -> None:
        """The request is on no link any more: when it has arrived is known, and of a standard client all the rest."""
        trip.stage = AT_WORK
        received_s = trip.begins_s + trip.download_s
        if trip.loss == REQUEST:
            return
        if self.agent is None and self.nodes_of(trip) is None:
            self.send(trip, received_s + trip.compute_s)
        else:
            self.world.at(received_s, self._receive, trip)

    def _receive(self, trip: Trip) -> None:
        """The client has the request, and begins to work."""
        if trip.stage != AT_WORK:
            return
        if (nodes := self.nodes_of(trip)) is not None:
            nodes.receive(trip)
        elif self.agent is not None:
            trip.process = self.world.spawn(self.agent.run(ClientNode(self, trip)))  # type: ignore[arg-type]

    def send(self, trip: Trip, computed_s: float) -> None:
        """The answer, or the end of the connection of who has died, leaves the client."""
        trip.arrives_s = computed_s + trip.reply_s
        way = self.up.way(trip.client)
        if way is None or not trip.up_bytes:
            trip.stage = ARRIVES
            self.world.at(trip.arrives_s, self._on_arrival, trip, ARRIVALS, trip.serial)
        else:
            begins_s = max(computed_s, trip.arrives_s - trip.up_bytes * way.s_per_byte(trip.client))
            self.world.at(begins_s, self._answer, trip, UP_BEGINS, trip.serial)

    def _answer(self, trip: Trip) -> None:
        """The answer enters the link."""
        way = self.up.way(trip.client)
        if trip.stage != AT_WORK or way is None:
            return
        trip.stage = ON_LINK_UP
        way.enter(self.world.now, trip, trip.arrives_s)
        self._watch(way)

    def _on_arrival(self, trip: Trip) -> None:
        if trip.stage == ARRIVES and not trip.loss:
            trip.stage = OVER
            trip.on_arrival()

    def _watch(self, way: _Way) -> None:
        """There is an event not after the next end on this link."""
        if way.link.next_s < way.looks_s:
            way.looks_s = way.link.next_s
            self.world.at(way.looks_s, self._look, way, way.phase)

    def _look(self, way: _Way) -> None:
        now = self.world.now
        if now != way.looks_s:
            return  # an earlier event has taken its place
        way.looks_s = inf
        ended = []
        while way.link.next_s <= now:
            ended += way.link.end()
        self._watch(way)
        for trip, wait_s in ended:
            if way.phase == DOWN_ENDS:
                trip.download_s += wait_s
                self._note_request(trip)
                self._on_download(trip)
            else:
                trip.reply_s += wait_s
                trip.arrives_s = now
                trip.stage = ARRIVES
        if way.phase == UP_ENDS:
            self._tell([trip for trip, _ in ended])

    def _tell(self, arrived: list[Trip]) -> None:
        if len(arrived) == 1 and self.world.settled:
            self._on_arrival(arrived[0])
            return
        for trip in arrived:
            self.world.at(trip.arrives_s, self._on_arrival, trip, ARRIVALS, trip.serial)

    # -- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """The links; the trips are stored by those to whom they belong."""
        return {name: way.link.state() for name, way in self._named_links()}

    def _named_links(self) -> Iterator[tuple[str, _Way]]:
        for side, direction in (("down", self.down), ("up", self.up)):
            for number, way in enumerate(direction.links):
                yield f"{side}{number or ''}", way

    def restore(self, state: Arrays, trips: Collection[Trip]) -> None:
        """Goes back to a :meth:`state`; all trips under way are set going again."""
        replies = () if self.nodes is None else self.nodes.replies.values()
        by_serial: dict[int, Any] = {trip.serial: trip for trip in (*trips, *replies)}  # a first reply has its trip's
        for name, way in self._named_links():
            way.link.restore(np.asarray(state[name]), by_serial)
            self._watch(way)
        for trip in trips:
            self.go_on(trip)

    def go_on(self, trip: Trip) -> None:
        """Sets a trip going again, unless it is on a link."""
        if trip.stage == AT_WORK:
            self.resume(trip)
        elif trip.stage == ARRIVES:
            self.world.at(trip.arrives_s, self._on_arrival, trip, ARRIVALS, trip.serial)

    def resume(self, trip: Trip) -> None:
        """Sets a trip going again that is on no link, from when it began and its durations."""
        received_s, now_s = trip.begins_s + trip.download_s, self.world.now
        if (nodes := self.nodes_of(trip)) is not None:
            if trip.number in nodes.dead:
                self.send(trip, received_s + trip.compute_s)
            elif trip.assignment is None:
                self._on_download(trip)
        elif self.agent is None or received_s > now_s or trip.loss == REQUEST:
            self._on_download(trip)
        elif received_s + trip.compute_s > now_s:
            trip.stage = AT_WORK
            self._receive(trip)
        else:
            self.send(trip, received_s + trip.compute_s)
