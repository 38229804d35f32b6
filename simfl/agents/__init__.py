"""The server and its clients on the world's clock.

A client is a row in arrays until a model reaches it. The world decides when an update arrives and whether it
does; what it is gets computed later, in one batch, for those that count.
"""

from simfl.agents.aggregator import Aggregator
from simfl.agents.buffered import BufferedServer
from simfl.agents.drawn import DrawnServer
from simfl.agents.measuring import Measuring
from simfl.agents.parts import Cost, Parts, Phase, Round
from simfl.agents.serverless import Serverless
from simfl.agents.servers import SERVERS, Log, Server
from simfl.agents.summing import Sum, Summing
from simfl.agents.synchronous import SynchronousServer

__all__ = [
    "SERVERS",
    "Aggregator",
    "BufferedServer",
    "Cost",
    "DrawnServer",
    "Log",
    "Measuring",
    "Parts",
    "Phase",
    "Round",
    "Server",
    "Serverless",
    "Sum",
    "Summing",
    "SynchronousServer",
]
