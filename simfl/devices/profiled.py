"""Computation and availability as the scenario's device profiles say."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.core.distributions import exponentials
from simfl.core.errors import ScenarioError
from simfl.core.rng import Address, Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Floats, Integers
from simfl.devices.base import AVAILABILITY, COMPUTATION, Computing
from simfl.devices.profiles import client_profiles
from simfl.devices.random_availability import IndependentDropout


@COMPUTATION("profile")
@dataclass(frozen=True)
class ProfileTime:
    """Samples, times local epochs, over the samples_per_s of the client's row in ``devices.profiles``; where the file
    has a column work_sigma, times exp(work_sigma z) with z standard normal, drawn for each job.
    """

    independent = True

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        return _needs_file(setting, "samples_per_s")

    def build(self, setting: ScenarioView, streams: Streams) -> "ProfileTiming":
        profiles = client_profiles(setting, streams)
        return ProfileTiming(_column(profiles, "samples_per_s"), profiles.get("work_sigma"), streams)


@AVAILABILITY("profile")
@dataclass(frozen=True)
class ProfileAvailability:
    """In every round each client is available with the probability in the column availability of its row in
    ``devices.profiles``, independently.
    """

    independent = True
    timeless = True

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        return _needs_file(setting, "availability")

    def build(
        self, setting: ScenarioView, streams: Streams, names: tuple[str, ...] | None = None
    ) -> IndependentDropout:
        return IndependentDropout(1 - _column(client_profiles(setting, streams), "availability"), streams)


def _needs_file(setting: ScenarioView, column: str) -> list[tuple[str, str]]:
    if setting.devices.profiles is not None:
        return []
    return [("", f"needs devices.profiles: FILE.csv, a file with the column {column}")]


def _column(profiles: dict[str, Floats], name: str) -> Floats:
    """
    Raises:
        ScenarioError: the file does not have it.
    """
    if name not in profiles:
        raise ScenarioError("", f"the file of devices.profiles has no column {name}")
    return profiles[name]


@dataclass(frozen=True)
class ProfileTiming(Computing):
    """Work time = samples x epochs / speed x exp(sigma z), z from the stream "computation" at the job's address.

    Attributes:
        samples_per_s: float64 (clients,).
        work_sigma: float64 (clients,), or None: nothing is drawn.
    """

    samples_per_s: Floats
    work_sigma: Floats | None
    streams: Streams

    def duration_s(
        self, clients: NDArray[np.integer], samples: Integers, epochs: float | Floats, where: Address
    ) -> Floats:
        median_s: Floats = samples * epochs / self.samples_per_s[clients]
        if self.work_sigma is None:
            return median_s
        z = self.streams.at("computation", where, lambda rng, size: rng.standard_normal(size))
        return np.asarray(median_s * exponentials(self.work_sigma[clients] * z))
