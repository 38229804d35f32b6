"""Client algorithms and ways to personal models."""

from simfl.clients.base import CLIENTS, PERSONAL, ClientAlgorithm
from simfl.clients.local_training import LocalTraining
from simfl.clients.local_values import LocalContext, LocalPass, LocalResult, Parameter, RoundOutcome
from simfl.clients.personal.fedltn import FedLtn, Tickets
from simfl.clients.personal.lotteryfl import Drawers, LotteryFl
from simfl.clients.personal.private_layers import norm_coordinates
from simfl.clients.personal.sparse import prunable
from simfl.core.payload import MODEL, UPDATE, Download, PayloadPart, Upload

__all__ = [
    "CLIENTS",
    "MODEL",
    "PERSONAL",
    "UPDATE",
    "ClientAlgorithm",
    "Download",
    "Drawers",
    "FedLtn",
    "LocalContext",
    "LocalPass",
    "LocalResult",
    "LocalTraining",
    "LotteryFl",
    "Parameter",
    "PayloadPart",
    "RoundOutcome",
    "Tickets",
    "Upload",
    "norm_coordinates",
    "prunable",
]
