"""The house holds: who may import whom (docs/design.md)."""

import ast
from pathlib import Path

import simfl

HOME = Path(simfl.__file__).parent
VALUES = {"types", "rng", "columns", "variant", "registry", "trace", "errors", "files", "distributions", "local"}
VALUES |= {"answers", "packages", "plugin", "setting"}
RULES = {"selection", "training", "learning", "secagg", "privacy", "attacks", "network", "devices", "metrics"}
WORLD = {"world", "agents", "checkpoint", "timeline"}
SHELL = {
    "cli",
    "scenario",
    "run",
    "accounting",
    "finishing",
    "results",
    "audit",
    "sweep",
    "compare",
    "report",
    "export",
    "api",
}
SHELL |= {"__main__", "blame", "examine"}
ONLY = {
    "simpy": {"world"},
    "networkx": {"network", "report"},
    "yaml": {"scenario"},
    "torch": {"learning", "training", "export"},
}


def imports():
    for path in HOME.rglob("*.py"):
        room = path.relative_to(HOME).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                own = node.module == "simfl"
                names = [f"simfl.{alias.name}" if own else node.module for alias in node.names]
            else:
                continue
            for name in names:
                yield path, room, name.split(".")


def test_every_room_is_on_a_floor():
    rooms = {path.relative_to(HOME).parts[0].removesuffix(".py") for path in HOME.rglob("*.py")} - {"__init__"}
    assert rooms <= VALUES | RULES | WORLD | SHELL


def test_nobody_imports_upwards_and_rule_families_keep_apart():
    wrong = []
    for path, room, name in imports():
        if name[0] != "simfl" or len(name) < 2 or room == "__init__":
            continue
        other = name[1]
        below = {
            **dict.fromkeys(VALUES, VALUES),
            **dict.fromkeys(RULES, VALUES | {room}),
            **dict.fromkeys(WORLD, VALUES | RULES | WORLD),
            **dict.fromkeys(SHELL, VALUES | RULES | WORLD | SHELL),
        }[room]
        if other not in below | {"__version__", "RESULTS"}:
            wrong.append(f"{path.relative_to(HOME)} imports simfl.{other}")
        if room == "report" and other == "run":
            wrong.append(f"{path.relative_to(HOME)} imports simfl.run")
    assert not wrong


def test_libraries_stay_in_their_rooms():
    wrong = [
        f"{path.relative_to(HOME)} imports {name[0]}"
        for path, room, name in imports()
        if name[0] in ONLY and room not in ONLY[name[0]]
    ]
    assert not wrong


def test_no_global_randomness_and_no_wall_clock():
    banned = {"random", "time", "datetime"}
    wrong = [f"{path.relative_to(HOME)} imports {name[0]}" for path, _, name in imports() if name[0] in banned]
    assert not wrong
