"""The roles in simfl's docstrings and comments (``:class:`x``` and its like) lead somewhere."""

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import simfl

HOME = Path(simfl.__file__).parent
ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc|obj):`~?([^`]+)`")


def roles() -> Iterator[tuple[str, str]]:
    """(module, what a role of it names)"""
    for path in sorted(HOME.rglob("*.py")):
        if path.stem != "__main__":
            module = ".".join(("simfl", *path.relative_to(HOME).with_suffix("").parts)).removesuffix(".__init__")
            yield from ((module, name) for name in ROLE.findall(path.read_text(encoding="utf-8")))


def member(owner: object, name: str) -> tuple[bool, object]:
    """Whether something has a member, and the member; a field of a class may have no value."""
    if hasattr(owner, name):
        return True, getattr(owner, name)
    classes = owner.__mro__ if isinstance(owner, type) else ()
    return any(name in vars(cls).get("__annotations__", {}) for cls in classes), None


def leads_somewhere(owner: object, names: list[str]) -> bool:
    for name in names:
        there, owner = member(owner, name)
        if not there:
            return False
    return True


def resolves(name: str) -> bool:
    """Whether a full name is that of a module, or of something in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        try:
            known = find_spec(module) is not None
        except ModuleNotFoundError:  # what stands before its last point is no package
            known = False
        if known:
            return leads_somewhere(import_module(module), parts[length:])
    return False


def resolves_within(module: str, name: str) -> bool:
    """Whether a short name is that of something in the module, or of a member of one of its classes."""
    home = import_module(module)
    owners = [home, *(value for value in vars(home).values() if isinstance(value, type))]
    return any(leads_somewhere(owner, name.split(".")) for owner in owners)


def test_every_role_leads_somewhere():
    every = set(roles())
    assert sum(name.startswith("simfl.") for _, name in every) > 60 and len(every) > 150
    nowhere = [
        f"{module}: {name}"
        for module, name in sorted(every)
        if not (resolves(name) if name.startswith("simfl.") else resolves_within(module, name))
    ]
    assert not nowhere, "\n".join(nowhere)


@pytest.mark.parametrize(
    "name",
    [
        "simfl.RESULTS", "simfl.scenario.nowhere", "simfl.secagg.base.PhaseRequest", "simfl.secagg.base.Protocol.addd",
        "simfl.clients.base.x.y",
    ],
)  # fmt: skip
def test_a_role_that_leads_nowhere_is_seen(name):
    assert not resolves(name)


def test_fields_and_members_are_found():
    assert resolves("simfl.secagg.base.Protocol.add") and resolves("simfl.scenario.yaml")
    assert resolves("simfl.secagg.sessions.Cohort.units") and resolves("simfl.core.coverage.coverage_problems")
    assert resolves_within("simfl.secagg.base", "Protocol.add") and resolves_within("simfl.secagg.base", "recover")
