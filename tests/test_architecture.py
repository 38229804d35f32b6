"""The house holds: who may import whom (docs/design.md)."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import simfl

HOME = Path(simfl.__file__).parent
VALUES = {"types", "rng", "columns", "variant", "registry", "trace", "errors", "files", "distributions", "local", "lab"}
VALUES |= {"answers", "cache", "disk", "packages", "plugin", "setting", "version", "outside", "addresses"}
VALUES |= {"payload", "coverage", "processor"}
RULES = {"selection", "training", "learning", "secagg", "privacy", "attacks", "network", "devices", "metrics"}
RULES |= {"measurement"}
WORLD = {"world", "agents", "checkpoint", "timeline"}
SHELL = (
    "scenario", "blame", "results", "stored", "updates", "clients", "accounting", "finishing", "play", "run", "examine",
    "sweep", "tidy", "compare", "http_server", "report", "listing", "opening", "attacking", "audit", "export",
    "serving", "client", "api", "cli", "__main__",
)  # fmt: skip
"""In order: a room of the shell imports from those before it."""
ONLY = {
    "simpy": {"world"},
    "networkx": {"network", "report"},
    "yaml": {"scenario"},
    "cryptography": {"secagg"},
    "dp_accounting": {"privacy"},
    "torch": {"learning", "training", "attacks", "export"},
    "timeit": {"cli"},
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


def test_no_drawing_and_no_file_writing_below_the_shell():
    """Drawing is the report's; the rules write nothing (a cache and the world's own records lie elsewhere)."""
    writing = {"savefig", "to_csv", "to_parquet", "write_text", "write_bytes"}
    wrong = []
    for module, path in MODULES.items():
        room = room_of(module)
        if room in SHELL or not room:
            continue
        wrong += [f"{module} imports {name}" for name in imported(path) if name.partition(".")[0] == "matplotlib"]
        for node in running(tree(path)) if room in RULES else ():
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func).rpartition(".")[2]
                mode = next((a.value for a in node.args[1:2] if isinstance(a, ast.Constant)), "r")
                if called in writing or (called == "open" and set(str(mode)) & set("wax+")):
                    wrong.append(f"{module}:{node.lineno} writes a file")
    assert not wrong


# -- plugins are asked by their protocol, never by what they happen to have or are called -------------

FOREIGN = {
    "draw", "gain",  # of a model's layers, torch modules
    "CSafeLoader", "__abstractmethods__", "__code__", "__file__", "__name__", "__pydantic_config__", "item", "mallopt",
    "position", "sched_getaffinity", "strerror", "toarray", "tocsr",
}  # fmt: skip
"""What other libraries' objects, or Python's, may lack. Any other constant name asked for by ``hasattr`` or ``getattr``
is a question that a protocol should have answered. Names that are not constant (all fields of a dataclass) are generic.
"""

STILL_ASKED: set[tuple[str, str]] = set()
"""Only ever shorter: (module, attribute) that are asked for all the same."""

STILL_NAMED: set[tuple[str, str]] = set()
"""Only ever shorter: (module, plugin) where a plugin's name decides."""


def test_no_plugin_is_asked_what_it_has():
    found = set()
    for module, path in MODULES.items():
        for node in running(tree(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("hasattr", "getattr"):
                asked = node.args[1]
                if isinstance(asked, ast.Constant) and asked.value not in FOREIGN:
                    found.add((module, asked.value))
    assert found - STILL_ASKED == set(), "declare it in the family's protocol"
    assert STILL_ASKED - found == set(), "mended: take it off the list"


def is_name(node: ast.AST) -> bool:
    """``x.name``, ``name``, ``x["name"]``, ``getattr(x, "name")``"""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value == "name"
    if isinstance(node, ast.Call):
        return len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and node.args[1].value == "name"
    return getattr(node, "attr", getattr(node, "id", "")) == "name"


def words_in(node: ast.AST) -> set[str]:
    return {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def test_no_plugin_name_decides():
    from simfl.registry import FAMILIES
    from simfl.scenario import Scenario

    assert Scenario.__dataclass_fields__  # every plugin is registered
    plugins = {name for registry in FAMILIES.values() for name, _ in registry.items()}
    assert len(plugins) > 50
    found = set()
    for module, path in MODULES.items():
        for node in running(tree(path)):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                words = set().union(*(words_in(side) for side in sides if not is_name(side)))
                if any(map(is_name, sides)):
                    found |= {(module, word) for word in words & plugins}
            elif isinstance(node, ast.Match) and is_name(node.subject):
                words = set().union(*(words_in(case.pattern) for case in node.cases))
                found |= {(module, word) for word in words & plugins}
    assert found - STILL_NAMED == set(), "let the plugin's protocol answer"
    assert STILL_NAMED - found == set(), "mended: take it off the list"
