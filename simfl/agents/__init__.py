"""The server and its clients on the world's clock.

A client is a row in arrays until a model reaches it. The world decides when an update arrives and whether it
does; what it is gets computed later, in one batch, for those that count.
"""

from simfl.agents import own_models, sampled_staleness, synchronous  # noqa: F401  (they register)
from simfl.agents.buffered import server  # noqa: F401
from simfl.agents.edges import tree_server  # noqa: F401
