"""What is asked for from Python, with texts for the objects in it."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfl.api.object_overrides import hand_in

if TYPE_CHECKING:
    from simfl.experiments.sweep.sweep_file import Request
    from simfl.learning.objects.handles import Handle
    from simfl.scenario import Scenario

Overrides = Iterable[str] | Mapping[str, Any]


def sweep_request_of(
    scenario: "Scenario | Mapping[str, Any] | Path | str",
    grid: Mapping[str, Any] | None,
    zipped: Iterable[Sequence[str]],
    cases: Mapping[str, Mapping[str, Any]] | None,
    replications: int | None,
) -> "tuple[Request, list[Handle]]":
    """What a sweep is asked for, with texts for the objects in it; their handles, to be held until it is planned."""
    from simfl.core.errors import SimflError
    from simfl.experiments.sweep.cases import cases_of
    from simfl.experiments.sweep.grid import parse_mapping
    from simfl.experiments.sweep.sweep_file import request

    if replications is not None and replications < 1:
        raise SimflError(f"replications: at least 1 (got {replications})")
    base, _, handles = hand_in_all(scenario, (), {})
    texts, of_grid = hand_in({} if grid is None else grid, several=True)
    named = {name: hand_in(overrides) for name, overrides in (cases or {}).items()}
    case_axes = cases_of({name: overrides for name, (overrides, _) in named.items()})
    of_cases = [handle for _, each in named.values() for handle in each]
    sweep_request = request(base, parse_mapping(texts), map(list, zipped), case_axes, replications)
    return sweep_request, [*handles, *of_grid, *of_cases]


def hand_in_all(scenario: Any, overrides: Overrides, keys: Mapping[str, Any]) -> tuple[Any, list[str], "list[Handle]"]:
    """The scenario and the texts of its overrides, with texts for the objects among them; the objects' handles."""
    base, handles = hand_in(scenario) if isinstance(scenario, Mapping) else (scenario, [])
    texts, of_overrides = hand_in(overrides) if isinstance(overrides, Mapping) else (overrides, [])
    others, of_keys = hand_in(keys)
    return base, [*_texts(texts), *_texts(others)], [*handles, *of_overrides, *of_keys]


def _texts(overrides: Overrides) -> list[str]:
    from simfl.core.errors import SimflError
    from simfl.experiments.sweep.grid import value_text

    if isinstance(overrides, Mapping):
        return [f"{key}={value_text(value)}" for key, value in overrides.items()]
    if isinstance(overrides, str):
        raise SimflError(f"overrides are a mapping or a list of texts; did you mean [{overrides!r}]?")
    return list(overrides)
