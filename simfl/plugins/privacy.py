"""Privacy stages, accountants and metrics."""

from simfl.core.certificate_words import SAMPLE_EPSILON
from simfl.core.scenario_view import can_lose_clients, no_sample_bound, summands
from simfl.privacy.accountant import ACCOUNTANTS, Accountant, History
from simfl.privacy.base import COLUMNS, PRIVACY, Privacy
from simfl.privacy.certify.maps import (
    Bound,
    Clip,
    ClipCoordinates,
    Map,
    Noise,
    Noised,
    PerClient,
    Scale,
    changed_by_others,
    weights_differ,
)
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.dp.mechanisms import gaussian, laplace, staircase
from simfl.privacy.stage import STAGES, Loss, Members, Stage, of_each_sample, of_one_sample

__all__ = [
    "ACCOUNTANTS", "Accountant", "Bound", "COLUMNS", "Clip", "ClipCoordinates", "History", "Loss", "Map", "Members",
    "Noise", "Noised", "ObserverView", "PRIVACY", "PerClient", "Privacy", "SAMPLE_EPSILON", "STAGES", "Scale",
    "Stage", "can_lose_clients", "changed_by_others", "gaussian", "laplace", "no_sample_bound", "of_each_sample",
    "of_one_sample", "staircase", "summands", "weights_differ",
]  # fmt: skip
