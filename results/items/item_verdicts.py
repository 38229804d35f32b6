"""The verdict on an item, computed from what its source claims and what the tables of results/ hold.

The claim (the predicate, or the printed numbers where there is none) holds, fails or cannot be told; the numbers agree,
differ or cannot be told. Numbers agree if every printed value, within its rounding, lies inside simfl's 95 % interval,
with at least five seeds and half-widths below half of the difference that the source claims (the least between printed
values that the predicate orders, or the row's ``difference``).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml
from item_places import Quantity, number, quantity
from item_predicates import Outcome, Predicate, measured

HERE = Path(__file__).resolve().parent
SEEDS = 5
VERDICTS = (
    "reproduced",
    "as far as fitted",
    "claim holds, numbers differ",
    "numbers agree, claim not seen",
    "differs",
    "claim refuted",
    "undecided",
    "reduced",
    "not played",
)


@dataclass(frozen=True)
class ItemValue:
    """A number of an item: its place, what the source prints for it, and what is known of its runs."""

    at: str
    printed: str = ""
    seeds: str = ""
    exact: str = ""

    @property
    def quantity(self) -> Quantity:
        return quantity(self.at, self.seeds, bool(self.exact))

    @property
    def rounding(self) -> float:
        """Half a unit of the last printed digit."""
        return 0.5 * 10 ** int(Decimal(self.printed).as_tuple().exponent)


@dataclass(frozen=True)
class Item:
    """A row: what a source claims, and where the numbers are that bear on it. There is no field for a verdict."""

    source: str
    item: str
    subject: str
    claim: str
    page: str
    values: dict[str, ItemValue] = field(default_factory=dict)
    predicate: str = ""
    difference: str = ""
    replaced: str = ""
    fitted: str = ""
    assumed: str = ""
    unplayed: str = ""
    note: str = ""
    shown: str = ""
    command: str = ""
    minutes: float | None = None
    where: str = ""

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> "Item":
        """Raises TypeError for an unknown key."""
        values = {
            name: ItemValue(**{k: str(v) for k, v in each.items()}) for name, each in row.get("values", {}).items()
        }
        known = {each.name for each in fields(cls)}
        texts = {key: str(value) if key in known - {"minutes"} else value for key, value in row.items()}
        return cls(**{**texts, "values": values})


def items() -> list[Item]:
    """The rows of every rows file beside this one."""
    return [Item.parse(row) for path in sorted(HERE.glob("*.yaml")) for row in yaml.safe_load(path.read_text("utf-8"))]


@dataclass(frozen=True)
class Verdict:
    """One of VERDICTS; ``here``: of a reduced row, the verdict that its numbers give in this form."""

    word: str
    here: str = ""


def verdict(item: Item) -> Verdict:
    if item.unplayed:
        return Verdict("not played")
    word = outcome(item)
    return Verdict("reduced", word) if item.replaced else Verdict(word)


def outcome(item: Item) -> str:
    """The verdict as if nothing had been replaced."""
    quantities = {name: each.quantity for name, each in item.values.items()}
    predicate = Predicate(item.predicate) if item.predicate else None
    claim = claimed(predicate, quantities)
    agree = numbers(item, predicate, quantities)
    printed = any(each.printed for each in item.values.values())
    if claim is False:
        return "differs" if item.fitted or item.assumed else "claim refuted"
    if claim and (agree or not printed):
        return "as far as fitted" if item.fitted else "reproduced"
    if claim and agree is False:
        return "claim holds, numbers differ"
    if agree and predicate is None:
        return "as far as fitted" if item.fitted else "reproduced"
    if agree:
        return "numbers agree, claim not seen"
    return "differs" if agree is False else "undecided"


def claimed(predicate: Predicate | None, quantities: Mapping[str, Quantity]) -> Outcome:
    """Whether the predicate holds; a measured value of fewer than five seeds may refute, and not confirm."""
    if predicate is None:
        return None
    told = predicate.outcome(quantities)
    few = any(quantities[name].seeds is not None and quantities[name].seeds < SEEDS for name in predicate.labels())
    return None if told and few else told


def claimed_difference(item: Item, predicate: Predicate | None) -> float:
    """The least difference that the source claims; NaN: it names none."""
    printed = {name: number(float(each.printed)) for name, each in item.values.items() if each.printed}
    differences = [abs(measured(Predicate(item.difference).tree, {}).estimate)] if item.difference else []
    for a, b in predicate.claimed_steps if predicate else ():
        try:
            differences.append(abs(measured(a, printed).estimate - measured(b, printed).estimate))
        except KeyError:
            continue
    return min((each for each in differences if each > 0), default=math.nan)


def numbers(item: Item, predicate: Predicate | None, quantities: Mapping[str, Quantity]) -> Outcome:
    """Whether the printed values lie inside simfl's intervals, and these are narrow enough to tell."""
    limit = claimed_difference(item, predicate) / 2
    outcomes: list[Outcome] = []
    for name, each in item.values.items():
        if each.printed:
            found, value, off = quantities[name], float(each.printed), each.rounding * (1 + 1e-9)
            if value < found.low - off or value > found.high + off:
                return False
            sharp = found.exact or (found.seeds >= SEEDS and found.half < limit)
            outcomes.append(True if sharp else None)
    return all(outcomes) or None if outcomes else None
