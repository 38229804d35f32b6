"""What tests tell a selection policy, and what doubles of one have by themselves."""

import numpy as np

from simfl.core.types import VIEW_FIELDS, View
from simfl.selection.base import Policy


class Blind:
    """A policy that reads nothing of the clients, asks nobody, keeps no state and admits every sum."""

    name, unit_size, fixed_size = "p", 1, True
    reads = frozenset()
    asks, asked_batch = "", 0
    reads_history = False
    columns = ()
    receipts = Policy.receipts

    @property
    def unit_sizes(self):
        return {self.unit_size}

    def admits(self, view, clients):
        return True

    def start(self, clients):
        return {}

    def observe(self, view, summed):
        return {}


def informed(policy, view, seed=0):
    """The view with random reports of all that the policy declares, NaN for who never took part, and its state."""
    rng, n = np.random.default_rng([seed, 7]), len(view.available)
    never = view.participation == 0
    reports = {}
    for name in VIEW_FIELDS:
        values = rng.integers(0, view.round + 1, n) if name == "last_round" else rng.gamma(1.0, 5.0, n)
        values = np.minimum(values, 1.0) if name == "accuracy" else np.ceil(values) if name == "samples" else values
        always = name in ("samples", "estimate_s", "upload_estimate_s")
        reports[name] = np.where(never & (not always), np.nan, values.astype(float))
    reports["upload_estimate_s"] = reports["estimate_s"] * rng.random(n)
    reports["asked_loss"] = np.where(view.available & (rng.random(n) < 0.7), rng.gamma(1.0, 1.0, n), np.nan)
    shown = policy.reads | ({"asked_loss"} if policy.asks else set())
    known = {name: values for name, values in reports.items() if name in shown}
    return View(view.round, view.available, view.participation, known, policy.start(n))
