"""The house holds: who may import whom (docs/design.md)."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import simfl

HOME = Path(simfl.__file__).parent
VALUES = {"types", "rng", "columns", "registry", "trace", "errors", "files", "distributions", "local", "version"}
RULES = {"selection", "training", "learning", "secagg", "privacy", "network", "devices", "metrics"}
WORLD = {"world", "agents", "checkpoint", "timeline"}
SHELL = (
    "scenario", "results", "finishing", "run", "sweep", "compare", "report", "opening", "audit", "export", "api", "cli",
    "__main__",
)  # fmt: skip
"""In order: a room of the shell imports from those before it."""
ONLY = {
    "simpy": {"world"},
    "networkx": {"network", "report"},
    "yaml": {"scenario"},
    "torch": {"learning", "training", "export"},
}


def module_of(path: Path) -> str:
    return ".".join(("simfl", *path.relative_to(HOME).with_suffix("").parts)).removesuffix(".__init__")


def room_of(module: str) -> str:
    """``simfl.learning.data.base`` -> ``learning``; the package itself is the facade, above everything."""
    return (*module.split("."), "")[1]


MODULES = {module_of(path): path for path in sorted(HOME.rglob("*.py"))}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def running(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below that can run: not those under ``if TYPE_CHECKING``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for other in child.orelse:
                yield other
                yield from running(other)
        else:
            yield child
            yield from running(child)


def imported(path: Path) -> set[str]:
    """Full names of what a file imports, at its top or inside a function; ``import_module("...")`` too."""
    names = set()
    for node in running(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
            if isinstance(node.args[0], ast.Constant):
                names.add(str(node.args[0].value))
    return names


def edges() -> dict[str, set[str]]:
    """Module -> the modules of simfl that it names in its imports."""
    found = {}
    for module, path in MODULES.items():
        named = {name if name in MODULES else name.rpartition(".")[0] for name in imported(path)}
        found[module] = named & MODULES.keys() - {module}
    return found


def test_every_room_is_on_a_floor():
    assert {room_of(module) for module in MODULES} - {""} == VALUES | RULES | WORLD | set(SHELL)


def test_nobody_imports_upwards_and_rule_families_keep_apart():
    below = {
        **dict.fromkeys(VALUES, VALUES),
        **{room: VALUES | {room} for room in RULES},
        **dict.fromkeys(WORLD, VALUES | RULES | WORLD),
        **{room: VALUES | RULES | WORLD | set(SHELL[: place + 1]) for place, room in enumerate(SHELL)},
        "": {"", *VALUES, *SHELL},
    }
    wrong = [
        f"{module} imports {other}"
        for module, others in edges().items()
        for other in others
        if room_of(other) not in below[room_of(module)]
    ]
    assert not wrong


def test_no_import_circle():
    """Counted file by file, imports inside functions included."""
    try:
        TopologicalSorter(edges()).prepare()
    except CycleError as error:
        raise AssertionError("a circle: " + " <- ".join(error.args[1])) from None


def test_libraries_stay_in_their_rooms():
    wrong = [
        f"{module} imports {name}"
        for module, path in MODULES.items()
        for name in imported(path)
        if (top := name.partition(".")[0]) in ONLY and room_of(module) not in ONLY[top]
    ]
    assert not wrong


def test_no_global_randomness_and_no_wall_clock():
    banned = {"random", "time", "datetime"}
    wrong = [
        f"{module} imports {name}"
        for module, path in MODULES.items()
        for name in imported(path)
        if name.partition(".")[0] in banned
    ]
    assert not wrong
