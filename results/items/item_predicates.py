"""What an item claims, as an expression of its values: holds (True), fails (False), or cannot be told (None).

    a > b, a < b < c, a == b        at 95 %: the interval of the difference lies on this side of 0
    a + b, a - b, a * b, a / b      paired by seed where both have values by seed, else over all ends of both intervals
    near(a, b, 0.5)                 the interval of a - b lies within ± 0.5 (fails where it lies outside)
    rises(a, b, c), falls(a, b, c)  every step
    test("tests/file.py::test")     holds: a proof, definition or enumeration that this test carries
    refuted_by("tests/file.py::test")     fails: a counter-example that this test computes; and, or, not

Expressions are parsed and not evaluated by Python, so that a row can do nothing else.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

import pandas
from item_places import Quantity, number, sampled

HERE = Path(__file__).resolve().parents[2]
Outcome = bool | None
ARITHMETIC: dict[type, Callable] = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
                                    ast.Div: operator.truediv}  # fmt: skip


def combined(a: Quantity, b: Quantity, calculate: Callable) -> Quantity:
    """Arithmetic on values: by seed where both have the same seeds, else on all ends, whatever their dependence."""
    if a.samples is not None and b.samples is not None and set(a.samples.index) == set(b.samples.index):
        return sampled(calculate(a.samples, b.samples))
    if b.exact and a.samples is not None:
        return sampled(calculate(a.samples, b.estimate))
    if a.exact and b.samples is not None:
        return sampled(calculate(a.estimate, b.samples))
    if calculate is operator.truediv and not b.low * b.high > 0:
        raise ZeroDivisionError("the interval of a divisor holds 0")
    ends = pandas.Series([calculate(x, y) for x in (a.low, a.high) for y in (b.low, b.high)])
    seeds = [each.seeds for each in (a, b) if each.seeds is not None]
    low, high = ends.min(skipna=False), ends.max(skipna=False)
    return Quantity(calculate(a.estimate, b.estimate), low, high, min(seeds, default=None))


def compared(sign: ast.cmpop, difference: Quantity) -> Outcome:
    """Whether a difference is above, below or at 0."""
    low, high = difference.low, difference.high
    if isinstance(sign, (ast.Lt, ast.LtE)):
        low, high = -high, -low
    if isinstance(sign, (ast.Eq, ast.NotEq)):
        same = low == 0 if difference.exact else False if low * high > 0 else None
        return same if isinstance(sign, ast.Eq) else opposite(same)
    strict = isinstance(sign, (ast.Gt, ast.Lt))
    if low > 0 or (low == 0 and not strict):
        return True
    return False if high < 0 or (high == 0 and strict) else None


def opposite(outcome: Outcome) -> Outcome:
    return None if outcome is None else not outcome


def all_of(outcomes: list[Outcome]) -> Outcome:
    return False if False in outcomes else None if None in outcomes else True


def near(difference: Quantity, margin: float) -> Outcome:
    if -margin <= difference.low and difference.high <= margin:
        return True
    return False if difference.low > margin or difference.high < -margin else None


class Predicate:
    """A parsed expression, of labels for values."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text, mode="eval").body
        self.claimed_steps: list[tuple[ast.expr, ast.expr]] = []

    def labels(self) -> set[str]:
        called = {node.func.id for node in ast.walk(self.tree) if isinstance(node, ast.Call)}  # type: ignore[attr-defined]
        return {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)} - called

    def tests(self) -> Iterator[str]:
        """The tests that carry it."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and node.func.id in ("test", "refuted_by"):  # type: ignore[attr-defined]
                yield ast.literal_eval(node.args[0])

    def outcome(self, values: Mapping[str, Quantity]) -> Outcome:
        self.claimed_steps = []
        return self._outcome(self.tree, values)

    def _outcome(self, node: ast.expr, values: Mapping[str, Quantity]) -> Outcome:
        match node:
            case ast.BoolOp(op=ast.And(), values=parts):
                return all_of([self._outcome(each, values) for each in parts])
            case ast.BoolOp(op=ast.Or(), values=parts):
                return opposite(all_of([opposite(self._outcome(each, values)) for each in parts]))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return opposite(self._outcome(operand, values))
            case ast.Compare(left=left, ops=signs, comparators=others):
                return all_of([self._step(sign, *pair, values) for sign, pair in zip(signs, pairwise([left, *others]))])
            case ast.Call(func=ast.Name(id="rises" | "falls" as name), args=parts):
                sign = ast.Lt() if name == "rises" else ast.Gt()
                return all_of([self._step(sign, a, b, values) for a, b in pairwise(parts)])
            case ast.Call(func=ast.Name(id="near"), args=[a, b, margin]):
                return near(difference(a, b, values), ast.literal_eval(margin))
            case ast.Call(func=ast.Name(id="test" | "refuted_by" as name), args=[ast.Constant(value=str(place))]):
                check_test(place)
                return name == "test"
        raise SyntaxError(f"no predicate: {ast.unparse(node)}")

    def _step(self, sign: ast.cmpop, a: ast.expr, b: ast.expr, values: Mapping[str, Quantity]) -> Outcome:
        self.claimed_steps.append((a, b))
        return compared(sign, difference(a, b, values))


def difference(a: ast.expr, b: ast.expr, values: Mapping[str, Quantity]) -> Quantity:
    """a - b; a comparison that cannot fail, of constants alone or of something with itself, is refused."""
    if ast.dump(a) == ast.dump(b) or not any(isinstance(node, ast.Name) for node in (*ast.walk(a), *ast.walk(b))):
        raise SyntaxError(f"compares nothing: {ast.unparse(a)} with {ast.unparse(b)}")
    return combined(measured(a, values), measured(b, values), operator.sub)


def measured(node: ast.expr, values: Mapping[str, Quantity]) -> Quantity:
    """The value of an arithmetic expression."""
    match node:
        case ast.Name(id=name):
            return values[name]
        case ast.Constant(value=int() | float() as value):
            return number(float(value))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return combined(number(0.0), measured(operand, values), operator.sub)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            return combined(measured(left, values), measured(right, values), ARITHMETIC[type(op)])
    raise SyntaxError(f"no value: {ast.unparse(node)}")


@cache
def check_test(place: str) -> None:
    """Raises LookupError if there is no such test, or if it is marked to be skipped."""
    path, _, name = place.partition("::")
    file = HERE / path
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if file.exists() else ():
        if isinstance(node, ast.FunctionDef) and node.name == name:
            marks = [ast.unparse(each) for each in node.decorator_list]
            if not any("skip" in mark or "xfail" in mark for mark in marks) and name.startswith("test_"):
                return
    raise LookupError(f"no test that is run: {place}")
