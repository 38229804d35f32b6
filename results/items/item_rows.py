"""The rows of the YAML files beside this one: what a source claims, and where the numbers are that bear on it.

Keys that a row does not need are left out; there is none for a verdict, and an unknown one is an error.

    source, item, subject    001, 002, 003 or thesis; as the source calls it; what it is about
    claim, predicate         in words, and as an expression of labels (item_predicates.py)
    values                   label: {at: place, printed: as the source has it, seeds: the column that counts the runs,
                             exact: why there are none, hidden: yes for what the page does not show}
    difference               the difference that the source claims, if the predicate orders no printed values
    replaced                 network, data, rounds or machine that are not the source's, and what stands for them
    fitted, assumed          settings chosen by the printed result; settings that are not printed
    unplayed                 why nothing was computed
    shown                    what the page has as printed, if that is no list of numbers
    note                     a remark; {place} is a number
    command, minutes         of one core
    where, page              a module or script; a page of docs/
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml
from item_places import Quantity, quantity

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class ItemValue:
    """A number of an item: its place, what the source prints for it, and what is known of its runs."""

    at: str
    printed: str = ""
    seeds: str = ""
    exact: str = ""
    hidden: str = ""

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
