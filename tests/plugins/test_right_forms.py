"""What a plugin gives may have any form that Python lets it have, and what is no hook may be called as it likes."""

import re
from dataclasses import dataclass, field, make_dataclass
from functools import cached_property, partial, partialmethod, wraps
from inspect import get_annotations
from operator import attrgetter
from types import FunctionType, MappingProxyType
from typing import Final

import numpy as np
import pytest

from simfl.clients.base import PERSONAL, ClientAlgorithm
from simfl.core.errors import PluginError
from simfl.core.registration.family_index import FAMILIES
from simfl.core.registration.protocol import refuse_misfits
from simfl.core.registration.said_types import seen_as
from simfl.core.validation import checked_arrays
from simfl.metrics.base import METRICS, Metric
from simfl.network.base import Links
from simfl.selection.base import POLICIES
from simfl.topology.base import TOPOLOGIES
from tests.plugins.test_loading import forgotten  # noqa: F401  # what a test registers is gone after it


def with_generator(method):
    """Gives a method more than it is called with."""

    @wraps(method)
    def called(self, *some):
        return method(self, *some, None)

    return called


class Lazily:
    """A property of one's own."""

    def __init__(self, method):
        self.method = method

    def __get__(self, plugin, owner):
        return self if plugin is None else self.method(plugin)


def policy(**members):
    members = {"k": 1, "unit_size": 1, "select": lambda self, view, k, rng: None} | members
    cls = type("Form", (), members | {"__doc__": "A form.", "__module__": __name__})
    return POLICIES("form")(dataclass(frozen=True)(cls))()


@pytest.mark.parametrize(
    "members",
    [
        {"select": with_generator(lambda self, view, k, rng, extra: None)},
        {"unit_size": property(attrgetter("k"))},
        {"unit_size": property(partial(lambda size, self: size, 1))},
        {"unit_size": Lazily(lambda self: 1)},
        {"select": partialmethod(lambda self, extra, view, k, rng: None, 3)},
        {"start": staticmethod(lambda clients: {})},
        {"start": lambda self, *some, **more: {}},
        {"start": lambda self, clients: MappingProxyType({"turn": np.zeros(1)})},
        {"check": lambda self, setting: (problem for problem in [("k", "no")])},
        {"observed": lambda self, client: client},
        {"observes": staticmethod(max)},
        {"observe": staticmethod(max)},
        {"names": ("a", "b")},
    ],
)
def test_a_form_that_is_right(members):
    plugin = policy(**members)
    assert plugin.unit_size == 1 and plugin.select(None, 1, None) is None
    assert list(plugin.check(None)) in ([], [("k", "no")]) and plugin.start(4).keys() <= {"turn"}


def test_methods_of_another_package_are_nobodys_slip():
    def starts(self, clients):
        return clients

    with pytest.raises(TypeError, match="simfl does not read 'starts'"):
        policy(starts=starts)
    base = type("Base", (), {"starts": starts, "__module__": "another.package"})
    members = {"k": 1, "unit_size": 1, "select": lambda self, view, k, rng: None, "__module__": __name__}
    POLICIES("form")(dataclass(type("Form", (base,), members)))


FORMS = {
    "method": lambda self, clients, dimension: 3,
    "static": staticmethod(lambda clients, dimension: 3),
    "class": classmethod(lambda cls, clients, dimension: 3),
    "partial": partialmethod(lambda self, extra, clients, dimension: 3, 1),
    "property": property(lambda self: lambda clients, dimension: 3),
    "cached": cached_property(lambda self: lambda clients, dimension: 3),
    "no function": property(lambda self: 3),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_comes_from_a_base_is_looked_at_and_called_by_the_plugins_name(form):
    members = {"columns": None, "start": FORMS[form], "__module__": __name__}
    base = type("Base", (Metric,), members)
    if form == "cached":
        FORMS[form].__set_name__(base, "start")
    kinds = [METRICS(name)(dataclass(frozen=True)(type("Form", (base,), {"columns": (), "__module__": __name__})))
             for name in ("one", "other")]  # fmt: skip
    wanted = "a function" if form == "no function" else r"dict\[.*"
    for cls, name in zip(kinds, ("one", "other"), strict=True):
        with pytest.raises(PluginError, match=f"^metric '{name}': start must give {wanted}, not int$"):
            cls().start(4, 2)


def test_a_decorator_around_an_inherited_hook_is_not_lost():
    class Base(Metric):
        columns = ()

        def start(self, clients, dimension):
            return {}

    def twice(method):
        @wraps(method)
        def called(*args):
            return {**method(*args), "turn": np.zeros(1)}

        return called

    first = METRICS("one")(dataclass(frozen=True)(type("Form", (Base,), {"__module__": __name__})))
    members = {"start": twice(first.start), "__module__": __name__}
    assert METRICS("other")(dataclass(frozen=True)(type("Form", (first,), members)))().start(4, 2).keys() == {"turn"}


def test_a_member_that_is_overridden_may_be_anything():
    base = type("Base", (), {"unit_size": lambda self: 1, "__module__": __name__})
    members = {"k": 1, "unit_size": 1, "select": lambda self, view, k, rng: None, "__module__": __name__}
    POLICIES("form")(dataclass(frozen=True)(type("Form", (base,), members)))


@pytest.mark.parametrize("member", [property(lambda self: 1), lambda self: 1, staticmethod(lambda: 1)])
def test_a_field_is_no_method(member):
    with pytest.raises(TypeError, match="'k' is a field and a method; leave one of them out"):
        policy(k=member, __annotations__={"k": int})


def test_a_hook_gives_any_class_of_its_family():
    """Whether it is registered, derived from one that is, or only inherits from the family's protocol."""

    class Helper(ClientAlgorithm):
        pass

    class Named:
        def for_model(self, parameters, initial):
            return self.gives()

    registered = PERSONAL("form")(dataclass(type("Form", (Named,), {"__module__": __name__})))
    derived = type("Derived", (registered,), {})
    named = registered()
    for kind in (Helper, registered, derived):
        registered.gives = kind
        assert type(named.for_model([], None)) is kind
    for kind in (object, Named, policy):
        registered.gives = staticmethod(kind)
        with pytest.raises(PluginError, match="^personal 'form': for_model must give ClientAlgorithm, not "):
            named.for_model([], None)


def test_what_is_in_a_value_is_said_as_types_are():
    @dataclass(slots=True)
    class Slots:
        a: int = 1

    assert seen_as(({"a": 1.0, "b": [2]}, 3)) == "tuple[dict[str, float, list[int]], int]"
    assert seen_as(Slots()) == "Slots"


def test_a_state_is_what_a_checkpoint_holds():
    held = {"complex": np.zeros(1, complex), "time": np.zeros(1, "M8[s]"), "bytes": np.array([b"a"])}
    assert checked_arrays(held, "metric 'form'", "start").keys() == held.keys()
    for value in (None, [[1], [1, 2]], np.array([object()])):
        with pytest.raises(PluginError, match="start must give arrays by name"):
            checked_arrays({"a": value}, "metric 'form'", "start")


def hooks_of(protocol):
    """The methods that simfl calls of a family's plugins."""
    said = {name: item for each in reversed(protocol.__mro__) for name, item in vars(each).items() if name[0] != "_"}
    return sorted(name for name, item in said.items() if isinstance(item, FunctionType))


@pytest.mark.parametrize("family", sorted({*FAMILIES} - {"server"}))
def test_a_key_cannot_have_the_name_of_a_hook(family):
    registry = FAMILIES[family]
    assert hooks_of(registry.protocol)
    for name in hooks_of(registry.protocol):
        cls = make_dataclass("Key", [(name, float, 2.0)], bases=(registry.protocol,), frozen=True, namespace={
            "__doc__": "A key.", "__module__": __name__})  # fmt: skip
        with pytest.raises(TypeError, match=f"'key': its key '{name}' has the name of a method that simfl calls"):
            registry("key")(cls)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("class It(Tree):\n    edges: int = 3\n", "must be a dataclass; write @dataclass"),
        ("@dataclass(frozen=True, kw_only=True)\nclass It(Tree):\n    pause_s: float = float('nan')\n",
         "the default of 'pause_s' is nan, which no scenario can give"),
        ("@dataclass(frozen=True, kw_only=True)\nclass It(Tree):\n    pause_s: float = float('inf')\n",
         "the default of 'pause_s' is inf, which no scenario can give"),
        ("class It(Tree):\n    edge_rounds: int = 3\n", "must be a dataclass; write @dataclass"),
        ("class It(Tree):\n    note: 'ClassVar[str]' = 'a'\n    aggregator = 'hub'\n", None),
        ("class It(Tree):\n    has_root: bool = True\n    NOTE: Final = 3\n", None),
        ("@dataclass(frozen=True, kw_only=True)\nclass It(Tree):\n"
         "    best: float = field(default=float('inf'), init=False, metadata={'yaml': False})\n", None),
        ("@dataclass(frozen=True, kw_only=True)\nclass It(Tree):\n    edges: int = 3\n", None),
    ],
)  # fmt: skip
def test_keys_are_those_of_the_class_itself(text, says):
    namespace = {
        "Tree": TOPOLOGIES["tree"],
        "dataclass": dataclass,
        "field": field,
        "Final": Final,
        "__name__": __name__,
    }
    exec(text, namespace)
    if says is None:
        assert TOPOLOGIES("it")(namespace["It"]) is namespace["It"]
        return
    with pytest.raises(TypeError, match=re.escape(f"topology 'it'{'' if says[0] == 'm' else ':'} {says}")):
        TOPOLOGIES("it")(namespace["It"])


def slips():
    """Of every family each constant and hook that its protocol gives a value or a body for, without its last letter."""
    for family, registry in FAMILIES.items():
        protocol = registry.protocol.__mro__[:-1]
        given = {name: item for each in reversed(protocol) for name, item in vars(each).items() if name[0] != "_"}
        names = {*given, *(name for each in protocol for name in get_annotations(each))}
        for name, item in given.items():
            if name not in ("name", "unsaid", "class_for") and len(name) > 3 and name[:-1] not in names:
                yield pytest.param(family, name, item, id=f"{family}-{name}")


@pytest.mark.parametrize(("family", "name", "item"), [*slips()])
def test_a_slip_in_a_name_is_refused(family, name, item):
    registry = FAMILIES[family]
    base = next(cls for _, cls in registry.items() if cls.__module__.startswith("simfl."))  # other tests' say more
    cls = type("Slip", (base,), {name[:-1]: item, "__doc__": "A slip.", "__module__": __name__})
    with pytest.raises(TypeError, match=f"simfl does not read '{name[:-1]}'; did you mean '"):
        registry("slip")(cls)


def test_what_another_class_of_simfl_declares_is_no_slip():
    """A network that is its own links says ``names``, which is near the ``name`` of a plugin."""
    cls = type("It", (Links,), {"names": None, "build": lambda self, setting, streams: self, "__module__": __name__})
    refuse_misfits(cls, FAMILIES["network"].protocol, "network 'it'")
