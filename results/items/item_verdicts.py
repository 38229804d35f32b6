"""The verdict on an item, computed from what its source claims and what the tables of results/ hold.

The claim (the predicate, or the printed numbers where there is none) holds, fails or cannot be told; the numbers agree,
differ or cannot be told. Numbers agree if every printed value, within its rounding, lies inside simfl's 95 % interval,
with at least five seeds and half-widths below half of the difference that the source claims (the least between printed
values that the predicate orders, or the row's ``difference``).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from item_places import Quantity, number
from item_predicates import Outcome, Predicate, measured
from item_rows import Item

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
HERE = {"reproduced": "holds here", "as far as fitted": "holds here", "claim refuted": "fails here"}
"""What these verdicts are called of a reduced form, which can neither confirm nor refute what the source did."""


@dataclass(frozen=True)
class Verdict:
    """One of VERDICTS; ``here``: of a reduced row, the verdict that its numbers give in this form."""

    word: str
    here: str = ""


def verdict(item: Item) -> Verdict:
    if item.unplayed:
        return Verdict("not played")
    word = outcome(item)
    return Verdict("reduced", HERE.get(word, word)) if item.replaced else Verdict(word)


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
