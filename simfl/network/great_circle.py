"""Latencies from the coordinates of nodes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import ScenarioError, amount
from simfl.network.cities import EARTH_RADIUS_KM, FIBRE_KM_PER_S
from simfl.network.link_values import number, shown

LATITUDE, LONGITUDE = ("latitude", "lat"), ("longitude", "lon", "lng", "long")


class Coordinates(NamedTuple):
    """Where nodes are.

    Attributes:
        at: unit vectors from the centre of the earth, float64 (3,), by node.
        unlocated: nodes without coordinates, which stand at the middle of their neighbours.
        nowhere: nodes without coordinates that no link connects with any that has them.
    """

    at: Mapping[str, NDArray[np.float64]]
    unlocated: Sequence[str]
    nowhere: Sequence[str]

    @classmethod
    def of(
        cls, nodes: Mapping[str, Mapping[str, Any]], links: Sequence[tuple[str, str]], file: str, key: str
    ) -> "Coordinates":
        """
        Args:
            nodes: the values of each node.
            links: their ends.
            file: for messages.

        Raises:
            ScenarioError: no node has coordinates, or some are impossible.
        """
        at = {node: where for node, values in nodes.items() if (where := _vector(node, values, file, key)) is not None}
        if not at:
            names = sorted({name for values in nodes.values() for name in values})
            has = f"nodes have {shown(names)}" if names else "nodes have no values"
            raise ScenarioError("latency", f"{file}: no node has Latitude and Longitude (or lat and lon); {has}")
        neighbours: dict[str, set[str]] = {node: set() for node in nodes}
        for src, dst in links:
            neighbours[src].add(dst)
            neighbours[dst].add(src)
        missing = [node for node in nodes if node not in at]
        left = missing
        while step := {
            node: near for node in left if (near := [at[it] for it in sorted(neighbours[node]) if it in at])
        }:
            for node, near in step.items():
                middle = np.sum(near, axis=0)
                at[node] = middle / length if (length := math.hypot(*middle)) > 1e-9 else near[0]
            left = [node for node in left if node not in step]
        return cls(at, [node for node in missing if node in at], left)

    def latency_s(self, one: str, other: str, path_factor: float) -> float:
        """Seconds one way: ``path_factor`` times the great circle, at the speed of light in fibre."""
        chord = math.dist(self.at[one], self.at[other])
        return path_factor * 2 * EARTH_RADIUS_KM * math.asin(min(chord / 2, 1.0)) / FIBRE_KM_PER_S

    def notes(self, path_factor: float) -> list[str]:
        """In words, what was read and assumed."""
        notes = [f"latency by great circle: {path_factor:g} times the distance at {FIBRE_KM_PER_S:,.0f} km/s"]
        for nodes, what in (
            (self.unlocated, "at the middle of their neighbours"),
            (self.nowhere, "left out with their links, as no neighbour has any"),
        ):
            if nodes:
                notes.append(f"{amount(len(nodes), 'node')} without coordinates {what}: {shown(nodes)}")
        return notes


def coordinate_names(values: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The names of a node's latitude and longitude; None where it has none."""
    names = {name.lower(): name for name, value in values.items() if value not in (None, "")}
    north, east = (next((names[each] for each in wanted if each in names), None) for wanted in (LATITUDE, LONGITUDE))
    return north, east


def _vector(node: str, values: Mapping[str, Any], file: str, key: str) -> NDArray[np.float64] | None:
    north, east = coordinate_names(values)
    if north is None or east is None:
        return None
    where = f"{file}: node '{node}': "
    latitude = math.radians(number(values[north], north, where, key, -90, 90))
    longitude = math.radians(number(values[east], east, where, key, -180, 360))
    level = math.cos(latitude)
    return np.array([level * math.cos(longitude), level * math.sin(longitude), math.sin(latitude)])
