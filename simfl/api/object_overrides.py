"""Python objects among overrides, grids and scenarios: each is replaced by the text that stands for it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfl.core.errors import SimflError

if TYPE_CHECKING:
    from simfl.experiments.sweep.grid import Axis
    from simfl.experiments.sweep.plan import Plan
    from simfl.learning.objects.handles import Handle
    from simfl.scenario import Scenario


KEYS = ("learning.model", "learning.data", "learning.partition", "learning.backend")
"""Keys whose values may be objects."""

SECTION = "learning"


def hand_in(values: Mapping[str, Any], several: bool = False) -> "tuple[dict[str, Any], list[Handle]]":
    """Overrides, a grid or a scenario's data in which texts stand for the objects; they do while the handles are held.

    Args:
        values: by dotted keys, or nested.
        several: a list is a list of values, as in a grid; any other value is one.

    Raises:
        SimflError: a value is no such object as its key needs.
    """
    if not isinstance(values, Mapping):  # who reads it will say so
        return values, []
    handles: list[Handle] = []
    texts = {key: _text_for(str(key), value, several, handles) for key, value in values.items()}
    return texts, handles


def refuse_others(scenario: "Scenario", texts: Mapping[str, str]) -> None:
    """Compares objects with those that a run was made with.

    Args:
        scenario: of the run.
        texts: what stands for the objects, by key.

    Raises:
        SimflError: one is missing, or another.
    """
    from simfl.learning.objects.choice import handed_in

    needed = {plugin.key: f"{plugin.object}#{plugin.fingerprint}" for plugin in handed_in(scenario.learning)}
    if surplus := sorted(texts.keys() - needed.keys()):
        raise SimflError(f"{surplus[0]}: no object was passed to this run")
    for key, text in needed.items():
        if key not in texts:
            raise SimflError(f"{key}: pass the object of this run, {text}")
        if texts[key].rpartition("#")[2] != text.rpartition("#")[2]:
            raise SimflError(f"{key}: {texts[key]} is another object than that of this run, {text}")


def _text_for(key: str, value: Any, several: bool, handles: "list[Handle]") -> Any:
    if key == SECTION and isinstance(value, Mapping):
        return {name: _text_for(f"{key}.{name}", each, several, handles) for name, each in value.items()}
    if key not in KEYS:
        return value
    if several and isinstance(value, list) and not _is_index_lists(key, value):
        return [_text_for(key, each, False, handles) for each in value]
    from simfl.core.registration.protocol import is_plugin
    from simfl.learning.objects.handles import take

    is_choice = is_plugin(value) or isinstance(value, Mapping) and isinstance(value.get("name"), str)
    if value is None or isinstance(value, str) or is_choice:  # what YAML may say, or one of simfl's own plugins
        return value
    handles.append(take(key, value))
    return handles[-1].text


def _is_index_lists(key: str, value: list[Any]) -> bool:
    """Whether a list is one partition, not several."""
    import numpy as np

    if key != "learning.partition" or not value or any(isinstance(part, str) or callable(part) for part in value):
        return False
    return all(isinstance(part, (list, tuple, range, np.ndarray)) and all(np.ndim(i) == 0 for i in part[:1])
               for part in value)  # fmt: skip


Overrides = Iterable[str] | Mapping[str, Any]


def plan_of(
    scenario: "Scenario | Mapping[str, Any] | Path | str",
    grid: Mapping[str, Any] | None,
    zipped: Iterable[Sequence[str]],
    cases: Mapping[str, Mapping[str, Any]] | None,
    replications: int | None,
    usual: int = 1,
    check: "Callable[[Sequence[Axis]], object] | None" = None,
) -> "Plan":
    """The plan of what a sweep or comparison is asked for, with texts for the objects in it.

    Args:
        scenario, grid, zipped, cases, replications: as :func:`simfl.api.functions.sweep` takes them.
        usual: replications where neither the call nor a sweep file says.
        check: raises where the axes are not what is needed.
    """
    from simfl.experiments.sweep.grid import cases_of, parse_mapping
    from simfl.experiments.sweep.plan import plan_sweep
    from simfl.experiments.sweep.sweep_file import request

    if replications is not None and replications < 1:
        raise SimflError(f"replications: at least 1 (got {replications})")
    base, _, _handles = hand_in_all(scenario, (), {})  # the handles are held until all is planned
    texts, _of_grid = hand_in({} if grid is None else grid, several=True)
    named = {name: hand_in(overrides) for name, overrides in (cases or {}).items()}
    case_axes = cases_of({name: overrides for name, (overrides, _) in named.items()})
    wanted = request(base, parse_mapping(texts), map(list, zipped), case_axes, replications)
    if check is not None:
        check(wanted.axes)
    return plan_sweep(wanted.scenario, wanted.axes, wanted.replications or usual, wanted.plugins)


def hand_in_all(scenario: Any, overrides: Overrides, keys: Mapping[str, Any]) -> tuple[Any, list[str], "list[Handle]"]:
    """The scenario and the texts of its overrides, with texts for the objects among them; the objects' handles."""
    base, handles = hand_in(scenario) if isinstance(scenario, Mapping) else (scenario, [])
    texts, of_overrides = hand_in(overrides) if isinstance(overrides, Mapping) else (overrides, [])
    others, of_keys = hand_in(keys)
    return base, [*_texts(texts), *_texts(others)], [*handles, *of_overrides, *of_keys]


def _texts(overrides: Overrides) -> list[str]:
    from simfl.experiments.sweep.grid import value_text

    if isinstance(overrides, Mapping):
        return [f"{key}={value_text(value)}" for key, value in overrides.items()]
    if isinstance(overrides, str):
        raise SimflError(f"overrides are a mapping or a list of texts; did you mean [{overrides!r}]?")
    return list(overrides)
