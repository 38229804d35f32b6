"""Quantities as people write them (``100ms``, ``20%``, ``latency_ms: 100``), in the unit that a key's name says."""

import re
from collections.abc import Iterable

from simfl.scenario.yaml.places import KeyPath

SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "sec": 1, "seconds": 1, "min": 60, "minutes": 60,
           "h": 3600, "hours": 3600, "d": 86_400, "days": 86_400}  # fmt: skip
BYTES = {"b": 1, "bytes": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2**10, "mib": 2**20, "gib": 2**30,
         "bit": 1 / 8, "bits": 1 / 8, "kbit": 125, "mbit": 125e3, "gbit": 125e6}  # fmt: skip
RATES = {f"{size}{per}s": factor for size, factor in BYTES.items() for per in ("/", "_per_")}
RATES |= {"bps": 1 / 8, "kbps": 125, "mbps": 125e3, "gbps": 125e6}

DIMENSIONS = {"seconds": SECONDS, "bytes per second": RATES, "bytes": BYTES}
OWN = {"computation": "seconds", "seconds": "seconds"}
"""Keys that name no unit but have one."""

_QUANTITY = re.compile(r"([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*(%|[A-Za-zµ/_]+)")
_BITS = re.compile(r"^([kMG])b(|/s)$")
"""Mb/s are megabits, MB/s megabytes."""


def _of_key(key: str) -> tuple[str, str, float] | None:
    """What a key's name says: stem, dimension and factor; ``latency_ms`` -> ("latency", "seconds", 0.001)."""
    parts = key.lower().split("_")
    for cut in range(1, len(parts)):
        unit = "_".join(parts[cut:])
        for dimension, units in DIMENSIONS.items():
            if unit in units:
                return "_".join(parts[:cut]), dimension, units[unit]
    return ("", OWN[key], 1) if key in OWN else None


def as_number(path: KeyPath, text: str) -> float | None:
    """The number meant by a quantity with a unit, in the unit of the nearest key above it that has one; None if none.

    Args:
        path: of the value.
        text: what stands there.
    """
    if not (match := _QUANTITY.fullmatch(text.strip())):
        return None
    number, unit = float(match[1]), _BITS.sub(r"\1bit\2", match[2]).lower()
    keys = (_of_key(key) for key in reversed(path) if isinstance(key, str))
    known = next((key for key in keys if key is not None), None)
    if known is None:
        return _round(number / 100) if unit == "%" else None
    units = DIMENSIONS[known[1]]
    return _round(number * units[unit] / known[2]) if unit in units else None


def key_in_unit(word: str, value: object, known: Iterable[str]) -> str | None:
    """The key that an unknown one means in another unit, with the value in that key's unit: ``latency_s: 0.1``."""
    if (written := _of_key(word)) is None:
        return None
    for key in known:
        meaning = _of_key(key)
        if meaning is not None and meaning[:2] == written[:2]:
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return f"{key}: {_round(value * written[2] / meaning[2])}"
            return f"{key}, in {meaning[1]}"
    return None


def _round(value: float) -> float:
    value = float(f"{value:.12g}")
    return int(value) if value.is_integer() and abs(value) < 1e15 else value
