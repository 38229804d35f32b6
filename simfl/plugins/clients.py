"""Client algorithms and ways to personal models."""

from simfl.clients.base import CLIENTS, PERSONAL, ClientAlgorithm
from simfl.clients.local_training import LocalTraining
from simfl.clients.local_values import (
    ClientState,
    LocalContext,
    LocalPass,
    LocalResult,
    Parameter,
    RoundOutcome,
    Vector,
)
from simfl.clients.personal import merge_private, norm_coordinates
from simfl.core.payload import MODEL, UPDATE, Download, PayloadPart, Upload

__all__ = [
    "CLIENTS", "ClientAlgorithm", "ClientState", "Download", "LocalContext", "LocalPass", "LocalResult",
    "LocalTraining", "MODEL", "PERSONAL", "Parameter", "PayloadPart", "RoundOutcome", "UPDATE", "Upload", "Vector",
    "merge_private", "norm_coordinates",
]  # fmt: skip
