"""Panels world by world: who compares points of a figure does so within a panel, with one colour a choice in all."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from simfl.report import style
from simfl.report.figures.base import NothingToDraw
from simfl.report.study import COLOURED, Group, Study

MOST_WORLDS = 12


def few_worlds(study: Study) -> dict[str, tuple[Group, ...]]:
    """The groups by world.

    Raises:
        NothingToDraw: there are more worlds than have room.
    """
    if len(study.by_world) > MOST_WORLDS:
        raise NothingToDraw(f"has room for {MOST_WORLDS} worlds, not {len(study.by_world)}; draw a part by --where")
    return study.by_world


def with_colours(study: Study, groups: tuple[Group, ...]) -> Iterator[tuple[Group, Group]]:
    """The groups of a world, each also as it is drawn: with the name and the colour of its choice."""
    choices = list(dict.fromkeys(map(study.choice_of, study.groups)))
    for group in groups:
        choice = study.choice_of(group)
        number = group.number if len(study.by_world) == 1 else choices.index(choice)
        yield group, replace(group, label=choice, number=number if number is None or number < COLOURED else None)


def grid(worlds: int, panels: int, sharey: bool = True) -> Any:
    """A figure with a row of panels for each world, whose columns share x; all share y if ``sharey``, else columns."""
    several = worlds > 1
    return style.figure(
        worlds, panels, wide=True, height_in=2.2 * worlds if several else 3.1,
        sharey=sharey or ("col" if several else False), sharex="col" if several else False,
    )  # fmt: skip
