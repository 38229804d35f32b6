"""Where the stages of a scenario draw: no two of them the same noise."""

from collections.abc import Sequence
from dataclasses import replace
from inspect import isabstract

from simfl.core.registration.protocol import is_foreign
from simfl.core.rng import Streams
from simfl.privacy.stage import Stage

DRAWING = ("client", "server", "secrets", "noise", "sampler")
"""The methods of a stage that are given streams."""


def stage_streams(stages: Sequence[Stage], streams: Streams) -> tuple[Streams, ...]:
    """The streams of each stage: the run's own, but for one that may draw as an earlier one does. Its draws have its
    place in their addresses: two stages with noise of one address would add one noise, twice.

    Stages may draw alike if they have a class in common, besides what every stage is, that is given streams; and those
    of plugins, whose addresses nobody has looked at, as any.
    """
    classes_of = [
        [cls for cls in type(stage).__mro__ if not (cls in Stage.__mro__ or isabstract(cls))] for stage in stages
    ]
    drawing = [{cls for cls in classes if any(name in vars(cls) for name in DRAWING)} for classes in classes_of]
    foreign = [is_foreign(stage) for stage in stages]
    alike = [foreign[i] or any(classes & earlier for earlier in drawing[:i]) for i, classes in enumerate(drawing)]
    return tuple(replace(streams, within=f"stage {i}/") if it else streams for i, it in enumerate(alike))
