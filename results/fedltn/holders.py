"""FedLTN with LotteryFL's mean: each weight is averaged over the clients whose masks keep it.

best.py uses this plugin file; zeros.py is its counterpart, LotteryFL with the mean of FedLTN.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.papers.lottery_tickets.fedltn import FedLtn, Tickets
from simfl.papers.lottery_tickets.sparse import prunable
from simfl.plugins.clients import PERSONAL, ClientAlgorithm, Parameter, norm_coordinates


@PERSONAL("fedltn_holders")
@dataclass(frozen=True)
class FedLtnHolders(FedLtn):
    """``fedltn``, whose server averages a weight over those who keep it; one that nobody keeps stays as it is."""

    def for_model(self, parameters: Sequence[Parameter], initial: NDArray[np.float32]) -> ClientAlgorithm:
        return Holders(self, prunable(parameters), initial, norm_coordinates(parameters, len(initial)))


@dataclass(frozen=True)
class Holders(Tickets):
    """FedLTN's clients; the server reads their masks."""

    partial = True
