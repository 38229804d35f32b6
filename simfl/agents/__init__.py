"""The server and its clients on the world's clock.

A client is a row in arrays until a model reaches it. The world decides when an update arrives and whether it
does; what it is gets computed later, in one batch, for those that count.
"""

from simfl.agents.parts import Parts, Round
from simfl.agents.synchronous import SynchronousServer

__all__ = ["Parts", "Round", "SynchronousServer"]
