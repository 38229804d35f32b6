"""Privacy stages, accountants and metrics."""

from simfl.privacy.accountant import ACCOUNTANTS, Accountant, History
from simfl.privacy.base import COLUMNS, PRIVACY, Privacy
from simfl.privacy.certify.maps import Bound, Clip, ClipCoordinates, Map, Noise, Noised, PerClient, Scale
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.stage import STAGES, Loss, Members, Stage

__all__ = [
    "ACCOUNTANTS",
    "COLUMNS",
    "PRIVACY",
    "STAGES",
    "Accountant",
    "Bound",
    "Clip",
    "ClipCoordinates",
    "History",
    "Loss",
    "Map",
    "Members",
    "Noise",
    "Noised",
    "ObserverView",
    "PerClient",
    "Privacy",
    "Scale",
    "Stage",
]
