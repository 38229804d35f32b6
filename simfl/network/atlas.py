"""World cities with coordinates and rounded populations, for latencies without measurements."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

EARTH_RADIUS_KM = 6371.0


class City(NamedTuple):
    """Degrees north and east, and millions of people."""

    latitude: float
    longitude: float
    population: float


ATLAS = {
    "Amsterdam": City(52.37, 4.90, 0.9),
    "Athens": City(37.98, 23.73, 0.7),
    "Atlanta": City(33.75, -84.39, 0.5),
    "Auckland": City(-36.85, 174.76, 1.5),
    "Bangalore": City(12.97, 77.59, 8.4),
    "Bangkok": City(13.75, 100.50, 8.3),
    "Barcelona": City(41.39, 2.17, 1.6),
    "Bogota": City(4.71, -74.07, 7.4),
    "Boston": City(42.36, -71.06, 0.7),
    "Brussels": City(50.85, 4.35, 1.2),
    "Bucharest": City(44.43, 26.10, 1.8),
    "Buenos Aires": City(-34.60, -58.38, 3.1),
    "Cairo": City(30.04, 31.24, 9.5),
    "Cape Town": City(-33.92, 18.42, 4.0),
    "Chennai": City(13.08, 80.27, 7.0),
    "Chicago": City(41.88, -87.63, 2.7),
    "Copenhagen": City(55.68, 12.57, 0.6),
    "Dallas": City(32.78, -96.80, 1.3),
    "Denver": City(39.74, -104.99, 0.7),
    "Dhaka": City(23.81, 90.41, 10.0),
    "Dubai": City(25.20, 55.27, 3.3),
    "Dublin": City(53.35, -6.26, 0.6),
    "Frankfurt": City(50.11, 8.68, 0.8),
    "Geneva": City(46.20, 6.14, 0.2),
    "Hanoi": City(21.03, 105.85, 8.0),
    "Helsinki": City(60.17, 24.94, 0.7),
    "Hong Kong": City(22.30, 114.17, 7.4),
    "Houston": City(29.76, -95.37, 2.3),
    "Istanbul": City(41.01, 28.98, 15.5),
    "Jakarta": City(-6.21, 106.85, 10.6),
    "Johannesburg": City(-26.20, 28.05, 5.6),
    "Kiev": City(50.45, 30.52, 2.9),
    "Lagos": City(6.52, 3.38, 14.0),
    "Lima": City(-12.05, -77.04, 9.7),
    "Lisbon": City(38.72, -9.14, 0.5),
    "London": City(51.51, -0.13, 8.9),
    "Los Angeles": City(34.05, -118.24, 3.9),
    "Madrid": City(40.42, -3.70, 3.3),
    "Manila": City(14.60, 120.98, 1.8),
    "Melbourne": City(-37.81, 144.96, 5.0),
    "Mexico": City(19.43, -99.13, 9.2),
    "Miami": City(25.76, -80.19, 0.4),
    "Milan": City(45.46, 9.19, 1.4),
    "Montreal": City(45.50, -73.57, 1.8),
    "Moscow": City(55.76, 37.62, 12.6),
    "Nairobi": City(-1.29, 36.82, 4.4),
    "New Delhi": City(28.61, 77.21, 16.8),
    "New York": City(40.71, -74.01, 8.5),
    "Osaka": City(34.69, 135.50, 2.7),
    "Oslo": City(59.91, 10.75, 0.7),
    "Paris": City(48.86, 2.35, 2.1),
    "Perth": City(-31.95, 115.86, 2.1),
    "Prague": City(50.08, 14.44, 1.3),
    "Rome": City(41.90, 12.50, 2.8),
    "San Francisco": City(37.77, -122.42, 0.9),
    "Santiago": City(-33.45, -70.67, 6.2),
    "Sao Paulo": City(-23.55, -46.63, 12.3),
    "Seattle": City(47.61, -122.33, 0.7),
    "Seoul": City(37.57, 126.98, 9.7),
    "Shanghai": City(31.23, 121.47, 24.9),
    "Singapore": City(1.35, 103.82, 5.7),
    "Stockholm": City(59.33, 18.07, 1.0),
    "Sydney": City(-33.87, 151.21, 5.3),
    "Taipei": City(25.03, 121.57, 2.6),
    "Tel Aviv": City(32.09, 34.78, 0.5),
    "Tokyo": City(35.68, 139.69, 14.0),
    "Toronto": City(43.65, -79.38, 2.8),
    "Vancouver": City(49.28, -123.12, 0.7),
    "Vienna": City(48.21, 16.37, 1.9),
    "Warsaw": City(52.23, 21.01, 1.8),
    "Washington": City(38.91, -77.04, 0.7),
    "Zurich": City(47.38, 8.54, 0.4),
}


def distance_km(latitude: NDArray[np.float64], longitude: NDArray[np.float64]) -> NDArray[np.float64]:
    """Great-circle distances between places given in degrees, shape (n, n), by the haversine formula."""
    north, east = np.radians(latitude), np.radians(longitude)
    half = (north[:, None] - north) / 2, (east[:, None] - east) / 2
    haversine = np.sin(half[0]) ** 2 + np.cos(north[:, None]) * np.cos(north) * np.sin(half[1]) ** 2
    return 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.minimum(haversine, 1)))
