"""A run in MLflow, Weights & Biases or TensorBoard while it is run: ``--log``. Importing this imports none of them."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from simfl.core.errors import SimflError, suggestion

if TYPE_CHECKING:
    from simfl.runs.tracking.tracker import Tracker

TRACKERS = {"mlflow": "MlflowTracker", "tensorboard": "TensorboardTracker", "wandb": "WandbTracker"}
"""The class of each name that ``--log`` takes."""


def tracker_class(name: str) -> type["Tracker"]:
    """The tracker of a name that ``--log`` takes.

    Raises:
        SimflError: there is none.
    """
    if name not in TRACKERS:
        raise SimflError(f"log: there is no '{name}' among {', '.join(TRACKERS)}{suggestion(name, TRACKERS)}")
    return getattr(import_module("simfl.runs.tracking.libraries"), TRACKERS[name])


def prepare_trackers(names: Sequence[str], scenario: str) -> None:
    """Makes what all runs of a scenario share, before the first of them.

    Raises:
        SimflError: a tracker has another name.
        MissingError: its library is not installed.
        TrackerError: its library failed.
    """
    for name in names:
        tracker = tracker_class(name)
        with tracker.failures("nothing was run"):
            tracker.prepare(scenario)
