"""Devices whose battery drains as they work and charges all the time, and that take part while it is full enough."""

from dataclasses import dataclass

import numpy as np

from simfl.plugins.devices import AVAILABILITY, Available


@AVAILABILITY("battery")
@dataclass(frozen=True)
class Battery:
    """A full battery lasts for ``work_s`` seconds of work and charges within ``charge_s``."""

    work_s: float = 4.0
    charge_s: float = 60.0
    least: float = 0.5

    def build(self, setting, streams, names=None):
        return Charged(self, streams("battery").random(setting.clients))


class Charged(Available):
    dropout = None

    def __init__(self, battery, level):
        self.battery, self.level, self.since_s = battery, level, 0.0

    def draw(self, round, now_s):
        self.level = np.minimum(1.0, self.level + (now_s - self.since_s) / self.battery.charge_s)
        self.since_s = now_s
        return self.level >= self.battery.least

    def on_work(self, clients, seconds, now_s):
        self.draw(0, now_s)
        self.level[clients] = np.maximum(0.0, self.level[clients] - seconds / self.battery.work_s)

    def state(self):
        return {"level": self.level.copy(), "since_s": np.float64(self.since_s)}

    def restore(self, state):
        self.level, self.since_s = state["level"].copy(), float(state["since_s"])
