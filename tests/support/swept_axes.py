"""The axes of a sweep as a command line or Python names them, if they fit together."""

from collections.abc import Iterable, Mapping

from simfl.experiments.sweep.grid import Axis, check_axes, parse, parse_mapping


def axes(texts: Iterable[str]) -> tuple[Axis, ...]:
    return check_axes(parse(texts))


def axes_of(grid: Mapping[str, object]) -> tuple[Axis, ...]:
    return check_axes(parse_mapping(grid))
