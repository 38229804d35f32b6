"""Every result of the four sources, what simfl does with it, and what comes out: docs/papers/index.md.

    python results/items/items.py > docs/papers/index.md

items.csv beside this file has a row for each theorem, definition, table, figure and appendix: its source, what it is
about, the module and the test or table that carry it, the command, simfl's numbers, the printed ones, and a verdict:
``reproduced``, ``differs``, or ``not played``, with the reason. Numbers are not typed: a text in braces is a place in a
table of results/,

    {folder/file|column=value;column=value|column|format}

where the column may be ``mean±half`` (a value and half of its interval), ``mean[low,high]``, or ``max column``,
``median column`` and ``mean column`` of all rows that are chosen.
"""

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pandas

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent
VERDICTS = ("reproduced", "differs", "not played")
SOURCES = {
    "001": "Securing Secure Aggregation (arXiv 2106.03328)",
    "002": "On Multi-Round Privacy in Federated Learning",
    "003": "Secure Aggregation for Buffered Asynchronous FL (arXiv 2110.02177)",
    "thesis": "A Practical Approach to Federated Learning (MIT thesis, 2022)",
}
HEAD = """# Item by item

After this page you know, of every definition, theorem, table and figure of the four sources, where simfl has it, which
command computes it, and whether the numbers agree.

* *Reproduced*: what is claimed holds here, and printed numbers agree as far as simfl's intervals can tell.
* *Differs*: it was computed, and does not agree; the reason is given as far as it is known.
* *Not played*: not computed, or in a reduced form only, with the reason.

± and brackets are 95 % intervals over the seeds. The page is made by `python results/items/items.py` from
`results/items/items.csv`, in which numbers are places in the tables of `results/` and not typed.
"""


@cache
def table(name: str) -> pandas.DataFrame:
    """A table of results/, all cells as texts."""
    return pandas.read_csv(RESULTS / f"{name}.csv", dtype=str, keep_default_na=False)


def same(cell: str, value: str) -> bool:
    """Whether a cell is this text or this number."""
    try:
        return float(cell) == float(value)
    except ValueError:
        return cell == value


def lookup(place: str) -> str:
    """The text of one place, see the head of this file.

    Raises:
        LookupError: not exactly one row, where one value is asked for.
    """
    name, where, column, form = place.split("|")
    chosen = table(name)
    for condition in filter(None, where.split(";")):
        key, value = condition.split("=", 1)
        chosen = chosen.loc[[same(cell, value) for cell in chosen[key]]]
    if column.startswith(("max ", "median ", "mean ")):
        statistic, column = column.split()
        return format(chosen[column].astype(float).agg(statistic), form)
    if len(chosen) != 1:
        raise LookupError(f"{place}: {len(chosen)} rows")
    row = chosen.iloc[0]
    value, half, low, high = re.fullmatch(r"(\w+)(?:±(\w+)|\[(\w+),(\w+)\])?", column).groups()
    if form in ("d", ",d"):
        return format(int(row[value]), form)
    shown = format(float(row[value]), form)
    if half and row[half]:
        shown += f" ± {format(float(row[half]), form)}"
    if low:
        shown += f" ({format(float(row[low]), form)} to {format(float(row[high]), form)})"
    return shown.replace("-", "−")


def filled(text: str) -> str:
    """A text whose places are numbers."""
    return re.sub(r"\{([^{}]+)\}", lambda found: lookup(found[1]), text)


def items() -> pandas.DataFrame:
    """items.csv, its places filled in."""
    rows = table("items/items").copy()
    for column in ("ours", "because"):
        rows[column] = rows[column].map(filled)
    return rows


def page() -> Iterator[str]:
    """The lines of docs/papers/index.md."""
    rows = items()
    yield from HEAD.splitlines()
    yield ""
    yield f"| source | {' | '.join(VERDICTS)} | all |"
    yield "|---|---|---|---|---|"
    for source, name in SOURCES.items():
        counts = rows[rows.source == source].verdict.value_counts()
        yield f"| {name} | {' | '.join(str(counts.get(each, 0)) for each in VERDICTS)} | {counts.sum()} |"
    counts = rows.verdict.value_counts()
    yield f"| all | {' | '.join(str(counts.get(each, 0)) for each in VERDICTS)} | {counts.sum()} |"
    for source, name in SOURCES.items():
        yield from ("", f"## {name}", "")
        yield "| item | about | where | command | simfl | printed | verdict |"
        yield "|---|---|---|---|---|---|---|"
        for row in rows[rows.source == source].itertuples():
            verdict = f"**{row.verdict}**" + (f": {row.because}" if row.because else "")
            where = " ".join(f"`{path}`" for path in dict.fromkeys((row.where, row.evidence)) if path)
            command = f"`{row.command}`" if row.command else ""
            link = row.page.removeprefix("papers/") if row.page.startswith("papers/") else f"../{row.page}"
            subject = f"[{row.subject}]({link})"
            yield f"| {row.item} | {subject} | {where} | {command} | {row.ours} | {row.printed} | {verdict} |"


def main() -> None:
    sys.stdout.write("\n".join(page()) + "\n")


if __name__ == "__main__":
    main()
