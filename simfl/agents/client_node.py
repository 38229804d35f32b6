"""A client at work, as its agent sees it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simfl.agents.trips import Trip, Trips


class ClientNode:
    """The place of a client's agent while it works on one request.

    Args:
        trips: which move its messages.
        trip: of the request that has arrived.
    """

    __slots__ = ("trips", "trip")

    def __init__(self, trips: "Trips", trip: "Trip") -> None:
        self.trips, self.trip = trips, trip

    def receive(self, kind: str) -> Any:
        """The request; an event that has happened."""
        return self.trips.world.past(self.trip)

    def train(self, request: "Trip") -> Any:
        """An event when the work is done. Who dies before never sees it: its connection ends then."""
        ends_s = request.begins_s + request.download_s + request.compute_s
        if request.lives:
            return self.trips.world.until(ends_s, request)
        self.trips.world.at(ends_s, self._die)
        return self.trips.world.event()

    def _die(self, _: object) -> None:
        trip = self.trip
        if trip.process is not None and trip.process.is_alive:
            self.trips.world.stop(trip.process)
            self.trips.send(trip, self.trips.world.now)

    def reply(self, request: "Trip", update: object) -> Any:
        """Sends the answer; an event that has happened."""
        self.trips.send(request, self.trips.world.now)
        return self.trips.world.past(True)
