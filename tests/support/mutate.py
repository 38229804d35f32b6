"""Mutation testing: plants random mistakes in a package of simfl, one at a time, and says which its tests find.

    python tests/support/mutate.py PACKAGE ... [--count 5] [--seed 0] [--limit 600]

Each mutant is one change of one module of ``simfl/PACKAGE`` in a temporary copy of the tree; ``tests/PACKAGE`` is run
on it until the first failure. ``killed`` by a failing test, ``timed out`` after ``--limit`` seconds (counts as killed),
or ``survived``: look at the line and write the test that is missing, or see that the change makes no difference.
The seed and the package's source decide the mutants, so two versions of the tests are compared on equal mutants.
"""

import argparse
import ast
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

HOME = Path(__file__).resolve().parents[2]
MOST_BYTES = 24 << 30  # of address space; torch alone maps some gigabytes
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip
Mutation = tuple[int, str, Callable[[], object]]  # line, what is changed, the change of the syntax tree


def mutations(tree: ast.Module) -> Iterator[Mutation]:
    """All mutations of a module; annotations, decorators and imports are left alone."""
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if field in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            for i, node in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(node, ast.AST):
                    yield from of_node(node, parent, field, i if isinstance(value, list) else None)


def of_node(node: ast.AST, parent: ast.AST, field: str, at: int | None) -> Iterator[Mutation]:
    def replace(new: ast.AST) -> Callable[[], object]:
        return lambda: setattr(parent, field, new) if at is None else getattr(parent, field).__setitem__(at, new)

    match node:
        case ast.Compare(ops=[first, *_]) if type(first) in COMPARISONS:
            other = COMPARISONS[type(first)]
            yield (
                node.lineno,
                f"{type(first).__name__} -> {other.__name__}",
                lambda: node.ops.__setitem__(0, other()),
            )
        case ast.BinOp(op=sign) | ast.AugAssign(op=sign) if type(sign) in OPERATORS:
            other = OPERATORS[type(sign)]
            yield node.lineno, f"{type(sign).__name__} -> {other.__name__}", lambda: setattr(node, "op", other())
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            yield node.lineno, f"{number} -> {number + 1}", replace(ast.Constant(number + 1))
        case ast.UnaryOp(op=ast.Not()):
            yield node.lineno, "not removed", replace(node.operand)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield node.lineno, "return None", lambda: setattr(node, "value", ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            yield node.lineno, f"dropped: {ast.unparse(node)[:60]}", replace(ast.Pass())


def sites(package: Path) -> list[tuple[Path, int]]:
    """Every mutation of the package: its module and its number there."""
    return [
        (path.relative_to(package), number)
        for path in sorted(package.rglob("*.py"))
        for number in range(sum(1 for _ in mutations(ast.parse(path.read_text()))))
    ]


def run_tests(tree: Path, package: str, limit_s: float) -> tuple[str, str]:
    """``passed``, ``killed`` or ``timed out``, and the first test that failed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--tb=no", "-p", "no:cacheprovider", "-rfE"]
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [*command, f"tests/{package}"], cwd=tree, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, resource.RLIM_INFINITY)),
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "timed out", f"{limit_s:g} s"
    failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return ("killed" if process.returncode else "passed"), failed[0][:120] if failed else output[-200:].strip()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("packages", nargs="+", metavar="PACKAGE")
    options.add_argument("--count", type=int, default=5, help="mutants of each package")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--limit", type=float, default=600.0, metavar="SECONDS", help="of the tests of one mutant")
    given = options.parse_args()
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="simfl-mutants-") as scratch:
        tree = Path(scratch) / "tree"
        leave = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", ".*_cache", ".hypothesis")
        shutil.copytree(HOME, tree, symlinks=True, ignore=leave)
        for package in given.packages:
            end, output = run_tests(tree, package, given.limit)
            if end != "passed":
                sys.exit(f"tests/{package} without a mutant: {end}: {output}")
            found = sites(tree / "simfl" / package)
            rng = np.random.default_rng([given.seed, *package.encode()])
            for index in rng.choice(len(found), size=min(given.count, len(found)), replace=False):
                module, number = found[index]
                path = tree / "simfl" / package / module
                source = path.read_text()
                syntax = ast.parse(source)
                line, what, change = list(mutations(syntax))[number]
                change()
                path.write_text(ast.unparse(ast.fix_missing_locations(syntax)) + "\n")
                end, output = run_tests(tree, package, given.limit)
                path.write_text(source)
                end = {"passed": "survived"}.get(end, end)
                ends[end] += 1
                print(
                    f"{end:9} {package}/{module}:{line} {what}", "" if end == "survived" else f"[{output}]", flush=True
                )
    print(", ".join(f"{count} {end}" for end, count in sorted(ends.items())), f"of {ends.total()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
