"""Every result of the four sources, what it claims, and what simfl's tables say to it: docs/papers/index.md.

    python results/items/items.py > docs/papers/index.md

The YAML files beside this one have a row for each theorem, definition, table, figure and appendix: its claim as a
predicate, the printed values, and the places of simfl's in tables of results/. A verdict is computed from these by
item_verdicts.py and cannot be written.
"""

import re
import sys
from collections.abc import Iterator

from item_places import quantity, shown
from item_predicates import Predicate
from item_rows import Item, items
from item_verdicts import VERDICTS, Verdict, verdict

SOURCES = {
    "001": "Securing Secure Aggregation (arXiv 2106.03328)",
    "002": "On Multi-Round Privacy in Federated Learning",
    "003": "Secure Aggregation for Buffered Asynchronous FL (arXiv 2110.02177)",
    "thesis": "A Practical Approach to Federated Learning (MIT thesis, 2022)",
}
HEAD = """# Item by item

After this page you know what every definition, theorem, table and figure of the four sources claims, which command
plays it, and what came out. Verdicts are computed from the tables of `results/` by `results/items/item_verdicts.py`:

* *Reproduced*: the claim holds at 95 %, and every printed number lies inside simfl's interval, of five seeds or more,
  whose half is below half of the claimed difference; or a test carries the proof or definition. *As far as fitted*:
  the same, but a setting was fitted to the printed result.
* *Claim holds, numbers differ*; *numbers agree, claim not seen*; *differs*; *undecided* (seeds or intervals do not do).
* *Claim refuted*: the interval excludes it, or there is a counter-example, in the source's own setting.
* *Reduced*: network, data, rounds or machine were replaced; what came out in this form is in brackets.
* *Not played*, and why.

Intervals are of 95 %, n counts seeds; a claim may have several rows (Remark 4: five).
Made by `python results/items/items.py`.
"""


def filled(text: str) -> str:
    """A text whose places, in braces, are numbers."""
    return re.sub(r"\{([^{}]+)\}", lambda place: shown(quantity(place[1]), place[1].split("|")[3]), text)


def measured_text(item: Item) -> str:
    """simfl's values: those with a name where there are several, and the tests that carry the claim."""
    visible = {name: each for name, each in item.values.items() if not each.hidden}
    quantities = {name: each.quantity for name, each in visible.items()}
    texts = [
        (f"{name.replace('_', ' ')} " if len(visible) > 1 else "") + shown(quantities[name], each.at.split("|")[3])
        for name, each in visible.items()
    ]
    seeds = {each.seeds for each in quantities.values() if each.seeds}
    ends = ["n=" + "–".join(str(each) for each in sorted({min(seeds), max(seeds)}))] if seeds else []
    files = [place.partition("::")[0].rpartition("/")[2] for place in Predicate(item.predicate or "0").tests()]
    return "; ".join([", ".join(texts)] * bool(texts) + ends + [f"`{name}`" for name in dict.fromkeys(files)])


def printed_text(item: Item) -> str:
    return item.shown or ", ".join(each.printed for each in item.values.values() if each.printed).replace("-", "−")


def verdict_text(item: Item, found: Verdict) -> str:
    """The verdict, and what belongs to it."""
    parts = [
        f"**{found.word}**" + (f" ({found.here})" if found.here else ""),
        item.unplayed or item.replaced,
        f"fitted: {item.fitted}" if item.fitted else "",
        f"assumed: {item.assumed}" if item.assumed else "",
        filled(item.note),
    ]
    return "; ".join(filter(None, parts))


def counts(words: list[str], name: str) -> str:
    return f"| {name} | {' | '.join(str(words.count(each)) for each in VERDICTS)} | {len(words)} |"


def page() -> Iterator[str]:
    """The lines of docs/papers/index.md."""
    rows = [(item, verdict(item)) for item in items()]
    commands = list(dict.fromkeys(item.command for item, _ in rows if item.command))
    yield from HEAD.splitlines()
    yield ""
    yield f"| source | {' | '.join(VERDICTS)} | all |"
    yield f"|{'---|' * (len(VERDICTS) + 2)}"
    for source in SOURCES:
        yield counts([found.word for item, found in rows if item.source == source], source)
    yield counts([found.word for _, found in rows], "all")
    for source, name in SOURCES.items():
        yield from ("", f"## {name}", "")
        yield "|item|claim|printed|simfl|verdict|command|"
        yield "|---|---|---|---|---|---|"
        for item, found in rows:
            if item.source == source:
                link = item.page.removeprefix("papers/") if item.page.startswith("papers/") else f"../{item.page}"
                number = f"[{commands.index(item.command) + 1}](#commands)" if item.command else ""
                cells = (f"[{item.item}]({link})", item.claim, printed_text(item), measured_text(item))
                yield f"|{'|'.join((*cells, verdict_text(item, found), number))}|"
    yield from ("", "## Commands", "", "Minutes of one core; training needs MNIST, CIFAR-10 or KDD 99.", "")
    minutes = {item.command: item.minutes for item, _ in rows}
    for number, command in enumerate(commands, 1):
        yield f"{number}. `{command}` ({minutes[command]:g} min)"


def main() -> None:
    sys.stdout.write("\n".join(page()) + "\n")


if __name__ == "__main__":
    main()
