"""The layers hold: which package may import which (docs/explanation/architecture.md)."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import simfl

HOME = Path(simfl.__file__).parent
LAYERS = (
    {"deployment", "papers"},
    {"plugins"},
    {"cli"},
    {"api"},
    {"report"},
    {"experiments", "probes"},
    {"runs"},
    {"agents", "scenario"},
    {"learning", "results", "training"},
    {"attacks"},
    {"clients", "compression", "devices", "metrics", "network", "privacy", "secagg", "selection", "topology"},
    {"core"},
)
"""From the top: a package imports itself and packages of lower layers, never its neighbours."""
RULES = {
    "attacks",
    "clients",
    "compression",
    "devices",
    "learning",
    "metrics",
    "network",
    "privacy",
    "secagg",
    "selection",
    "topology",
    "training",
}
"""Packages of families of plugins: one never imports another, whatever its layer, but for those of ``SHARED``."""
RIMS = {"deployment", "papers"}
"""Packages that nothing inside imports, and that import the public face alone."""
SHARED = {"attacks": {"clients"}, "learning": {"attacks", "clients"}, "training": {"clients"}}
"""What clients compute, and what attackers know of it, is told to those who train and who measure."""
ONLY = {
    "simpy": {"agents.world"},
    "networkx": {"network", "report", "topology"},
    "yaml": {"scenario.yaml"},
    "cryptography": {"secagg.crypto"},
    "dp_accounting": {"privacy.dp.accountants"},
    "torch": {"learning", "training", "attacks", "results.export"},
    "matplotlib": {"api", "deployment.audit", "report"},
    "timeit": {"cli", "deployment.cli"},
    "optuna": {"experiments.search"},
    "flwr": {"deployment.flower"},
}
"""Which packages and modules may import a library."""
REAL_CLOCK = {"simfl.deployment.remote.wall_clock"}
"""The one module that may read the real clock: for logs of real clients, which lie beside the results."""
LONG = {"simfl.experiments.sweep.processes.execute"}
"""Functions of more than 40 lines."""


def module_of(path: Path) -> str:
    return ".".join(("simfl", *path.relative_to(HOME).with_suffix("").parts)).removesuffix(".__init__")


def package_of(module: str) -> str:
    """``simfl.learning.data.base`` -> ``learning``; ``""`` and ``__main__`` are the two files at the root."""
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


def test_the_root_holds_packages_only():
    files = {path.name for path in HOME.iterdir() if path.is_file()}
    packages = {path.relative_to(HOME).parts[0] for path in HOME.glob("*/**/*.py")}
    assert files == {"__init__.py", "__main__.py", "py.typed"}
    assert all((HOME / name / "__init__.py").is_file() for name in packages)


def test_a_module_has_one_idea():
    """At most 400 lines, and at most 40 in a function besides its docstring; ``LONG`` only gets shorter."""
    lines = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in MODULES.items()}
    assert {module: count for module, count in lines.items() if count > 400} == {}
    functions = {
        f"{module}.{node.name}": code_lines(node)
        for module, path in MODULES.items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef)
    }
    assert {name for name, count in functions.items() if count > 40} == LONG


ONE_USER = {
    "simfl.deployment.flower.identity": "which device a node is, apart from which nodes are selected",
    "simfl.privacy.dp.mechanisms.discrete_laplace": "one file a mechanism",
}
"""Short modules with one user that stay apart, each with the reason."""


def is_registered(module: str, path: Path, named: set[str]) -> bool:
    """Whether others find it by a registration: a plugin, a figure, a command, or a module imported by its name."""
    decorators = (
        ast.unparse(decorator.func)
        for node in tree(path).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
    )
    package = words_in(tree(path.with_name("__init__.py")))  # commands, Flower's classes
    by_name = module in named or any(word.startswith(f"{module}:") for word in named)
    by_name = by_name or path.stem in package
    public = package_of(module) in ("api", "plugins") or path.name in ("__init__.py", "__main__.py")
    return by_name or public or any(decorator.isupper() or decorator == "figure" for decorator in decorators)


def entry_points() -> set[str]:
    """What the package's metadata names: commands, names of Python, plugins."""
    metadata = ConfigParser(delimiters="=")
    metadata.read(HOME.parent / "setup.cfg", encoding="utf-8")
    return {
        line.partition(" = ")[2] for lines in metadata["options.entry_points"].values() for line in lines.split("\n")
    }


def imported_at_start(path: Path) -> set[str]:
    """What a module's import imports: nothing inside a function, where what is slow or rare waits for its use."""
    nodes = [node for node in running(tree(path)) if isinstance(node, ast.ImportFrom) and not node.col_offset]
    return {f"{node.module}.{alias.name}" for node in nodes for alias in node.names} | {str(n.module) for n in nodes}


def test_a_short_module_has_two_users():
    """Without a registration it has two users or more than 120 lines, else it lies in its user.

    It stays apart where its user imports it inside a function only, or the two together have more than 400 lines.
    """
    named = {text for path in MODULES.values() for text in words_in(tree(path))} | entry_points()
    lines = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in MODULES.items()}
    users: dict[str, list[str]] = {module: [] for module in MODULES}
    for module, others in edges().items():
        for other in others:
            users[other].append(module)
    short = {
        module
        for module, path in MODULES.items()
        if lines[module] <= 120 and not is_registered(module, path, named) and len(users[module]) < 2
        if all(lines[user] + lines[module] <= 400 for user in users[module])
        if all(module in imported_at_start(MODULES[user]) for user in users[module])
    }
    assert short - ONE_USER.keys() == set(), "fold it into its user"
    there = {module for module in ONE_USER if package_of(module) not in RIMS or module in MODULES}
    assert there - short == set(), "it has gone, or has users: take it off the list"


def code_lines(function: ast.FunctionDef) -> int:
    """Lines of a function without its docstring."""
    assert function.end_lineno is not None
    first = function.body[0]
    documented = ast.get_docstring(function, clean=False) is not None
    docstring = first.end_lineno - first.lineno + 1 if documented and first.end_lineno is not None else 0
    return function.end_lineno - function.lineno + 1 - docstring


def test_every_package_is_on_one_layer():
    packages = {package_of(module) for module in MODULES}
    named = [package for layer in LAYERS for package in layer if package not in RIMS or package in packages]
    assert sorted(named) == sorted({package_of(module) for module in MODULES} - {"", "__main__"})


def test_nobody_imports_upwards_and_rule_families_keep_apart():
    below: dict[str, set[str]] = {}
    lower: set[str] = set()
    for layer in reversed(LAYERS):
        for package in layer:
            others = RULES - SHARED.get(package, set()) if package in RULES else set()
            below[package] = lower - others | {package}
        lower |= layer
    below |= {"": {"core", "api"}, "__main__": {"cli"}}
    wrong = [
        f"{module} imports {other}"
        for module, others in edges().items()
        for other in others
        if package_of(other) not in below[package_of(module)]
    ]
    assert not wrong


def test_rims_use_the_public_face_only():
    public = {"", "api", "plugins"}
    wrong = [
        f"{module} imports {other}"
        for module, others in edges().items()
        for other in others
        if package_of(module) in RIMS and package_of(other) not in {*public, package_of(module)}
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
        if (top := name.partition(".")[0]) in ONLY
        and not any(f"{module}.".startswith(f"simfl.{place}.") for place in ONLY[top])
    ]
    assert not wrong


def test_no_global_randomness_and_no_wall_clock():
    banned = {"random", "time", "datetime"}
    wrong = [
        f"{module} imports {name}"
        for module, path in MODULES.items()
        for name in imported(path)
        if name.partition(".")[0] in banned and module not in REAL_CLOCK
    ]
    assert not wrong


def test_no_drawing_and_no_file_writing_below_the_shell():
    """Who may draw says ``ONLY``; the rules write nothing (a cache and the world's own records lie elsewhere)."""
    writing = {"savefig", "to_csv", "to_parquet", "write_text", "write_bytes"}
    wrong = []
    for module, path in MODULES.items():
        for node in running(tree(path)) if package_of(module) in RULES else ():
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func).rpartition(".")[2]
                mode = next((a.value for a in node.args[1:2] if isinstance(a, ast.Constant)), "r")
                if called in writing or (called == "open" and set(str(mode)) & set("wax+")):
                    wrong.append(f"{module}:{node.lineno} writes a file")
    assert not wrong


# -- plugin files import one public package ------------------------------------------------------------


def plugin_files() -> Iterator[tuple[str, str]]:
    """(name, text) of the plugin files that the tests, the results and the pages on plugins have."""
    root = HOME.parent
    for path in (*root.glob("tests/support/plugins/*.py"), *root.glob("results/*/*.py")):
        text = path.read_text(encoding="utf-8")
        if "from simfl.plugins" in text or path.parent.name == "plugins":
            yield path.name, text
    for page in root.glob("docs/how-to/extend*.md"):
        yield from re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def test_plugin_files_import_the_public_package_only():
    files = list(plugin_files())
    assert len(files) > 25
    for name, text in files:
        modules = {node.module or "" for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
        inner = {module for module in modules if module.startswith("simfl.")}
        assert all(f"{module}.".startswith(("simfl.plugins.", "simfl.papers.")) for module in inner), name


def test_the_public_package_lists_what_it_imports_and_imports_no_torch():
    modules = [module for module in MODULES if module.startswith("simfl.plugins.")]
    for module in modules:
        nodes = [node for node in tree(MODULES[module]).body if isinstance(node, ast.ImportFrom)]
        assert {alias.name for node in nodes for alias in node.names} == set(import_module(module).__all__)
    code = f"import sys, {', '.join(modules)}; assert not {{'torch', 'matplotlib', 'pandas'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": str(HOME.parent)})


# -- plugins are asked by their protocol, never by what they happen to have or are called -------------

FOREIGN = {
    "draw", "gain", "loss", "metrics",  # of a model's layers, torch modules
    "CSafeDumper", "CSafeLoader", "__abstractmethods__", "__code__", "__file__", "__name__", "__pydantic_config__",
    "item", "mallopt",
    "_is_protocol", "position", "sched_getaffinity", "strerror", "toarray", "tocsr",
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
    from simfl.core.registration.family_index import FAMILIES
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
