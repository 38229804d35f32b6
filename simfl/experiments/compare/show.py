"""A comparison in the terminal: a row a configuration, and below it which differences are more than chance."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from textwrap import wrap
from typing import Any

from simfl.core.certificate_words import OF_ONE_RUN, ONLY_SUMS, basis_lines, said_of, unlike_sentences
from simfl.core.column_files import read_columns
from simfl.core.columns import (
    DERIVED_COLUMNS,
    FORMS,
    ROUND_COLUMNS,
    ROUNDING,
    SUMMARY_COLUMNS,
    TARGET_COLUMNS,
    Column,
    Form,
    heading,
    mean_text,
    unknown,
)
from simfl.core.errors import amount
from simfl.core.json_data import JsonObject
from simfl.experiments.compare.intervals import FEWEST_PAIRS, NORMAL_FROM, holm, least
from simfl.experiments.compare.run_numbers import BUDGETS, divergence_text, skipped_text, unequal_sums
from simfl.experiments.compare.shapes import collapse_sentence, premises
from simfl.experiments.compare.table_choice import choose_columns, in_order, select_configurations
from simfl.privacy.multiround.guarantee_trace import LOWER_BOUNDS, are_bounds

Rows = dict[tuple[str, str], JsonObject]
GAP = 2
"""Blanks between columns."""

NARROWEST = 8
"""Letters that a configuration's name has in any case; the rest is wrapped."""

OTHER = "not compared"
"""Instead of a difference of certificates that do not say the same."""

SPENT_BY_ALL = ", the most that all runs have reached; another configuration may lower it (--at fixes it)"


@dataclass(frozen=True)
class _Shown:
    """A column of a table: heading, and a cell a row."""

    heading: str
    cells: list[str]

    @property
    def width(self) -> int:
        return max(map(len, (self.heading, *self.cells)))


def show(
    document: JsonObject,
    console: Any = None,
    at: str | None = None,
    columns: Sequence[str] = (),
    where: Mapping[str, str] | None = None,
    sort: str | None = None,
) -> None:
    """Prints the tables of a ``comparison.json``.

    Args:
        document: its content.
        console: a rich console; default: standard output, for a terminal in its width, for a pipe without a limit.
        at: a budget, or ``all``: when all runs had spent the same; None = when each had ended.
        columns: names, in their order, or ``all``; default: those of
            :func:`~simfl.experiments.compare.table_choice.default_columns`.
        where: values of keys that vary; only such configurations are shown.
        sort: the column that orders the rows of a world, the best first; with a minus before it, the other way round.

    Raises:
        SimflError: no such column, key or value.
    """
    document = select_configurations(document, where or {})
    if console is None:
        from rich.console import Console

        console = Console(highlight=False, markup=False)
    limit = console.width if console.is_terminal else None
    every = read_columns(document.get("columns", ()))
    every = every or [unknown(name) for name in dict.fromkeys(row["metric"] for row in document["means"])]
    chosen = choose_columns(document, every, columns)
    order = (choose_columns(document, every, [sort.removeprefix("-")])[0], sort.startswith("-")) if sort else None
    target, worlds = document["target_accuracy"], _worlds(document)
    rule = f" ({document['target_rule']})" if document.get("target_rule") else ""
    to = "" if target is None or at else f"; target accuracy {target:g}{rule}"
    _line(console, f"{document['name']}: mean ± 95 % of {amount(len(document['seeds']), 'seed')}{to}", "italic")
    if at is None:
        _blocks(console, limit, document, document, worlds, chosen, order)
        _over_worlds(console, limit, document, chosen)
        _overhead_table(console, limit, document, {column.name: column for column in every})
    parts = [part for part in document.get("equal", ()) if at in (part["budget"], "all")]
    for part in parts:
        console.print()
        _line(console, _spent(part), "bold")
        _blocks(console, limit, document, part, worlds, _shown_columns(part, chosen if columns else every), order)
    if at is not None and not parts:
        _line(console, f"nothing can be compared at equal {at}: a run has spent none", "yellow")
    _notes(console, document, every, chosen, at, bool(columns), parts)


def _notes(
    console: Any, document: JsonObject, every: Sequence[Column], chosen: Sequence[Column], at: str | None, named: bool,
    parts: Sequence[JsonObject],
) -> None:  # fmt: skip
    """What stands below the tables; ``named``: whether somebody has named their columns."""
    seen = [each for each in (chosen if at is None or named else every) if each.shown or named]
    seeds = len(document["seeds"])
    for sentence in (*certificate_notes(document, seen), *[premises(seeds)] * (seeds > 1)):
        _line(console, sentence, "dim")
    left_out = sum(column.shown and column not in chosen for column in every)
    if left_out and not named and at is None:
        _line(console, f"--columns all shows {amount(left_out, 'more column')}", "dim")
    for sentence in (*_collapses([document] * (at is None) + list(parts), seen), *_warnings(document)):
        _line(console, f"warning: {sentence}", "yellow")


def _collapses(parts: Sequence[JsonObject], columns: Sequence[Column]) -> Iterator[str]:
    """In words, which values lie far from all others, and all values of their metric where seeds are few."""
    for part, column in product(parts, columns):
        if its := [row for row in part.get("far_values", ()) if row["metric"] == column.name]:
            form = FORMS[column.unit][1]
            ordered = {row["choice"]: sorted(row["values"].items(), key=lambda it: (it[1], int(it[0]))) for row in its}
            written = {label: {int(seed): form(value) for seed, value in pairs} for label, pairs in ordered.items()}
            far = {row["choice"]: row["collapsed_seeds"] for row in its if row["collapsed_seeds"]}
            yield collapse_sentence(heading(column), written, far)


def _worlds(document: JsonObject) -> dict[str, dict[str, str]]:
    """By world, its configurations and what they are called there."""
    worlds: dict[str, dict[str, str]] = {}
    for choice in document["choices"]:
        worlds.setdefault(choice.get("world", ""), {})[choice["choice"]] = choice.get("name", choice["choice"])
    return worlds


def _blocks(
    console: Any, limit: int | None, document: JsonObject, part: JsonObject, worlds: dict[str, dict[str, str]],
    columns: Any, order: tuple[Column, bool] | None,
) -> None:  # fmt: skip
    """The means and the differences of a part of the document, world by world; ``order`` is a column, and whether its
    worst comes first.
    """
    means: Rows = {(row["choice"], row["metric"]): row for row in part["means"]}
    seeds = len(document["seeds"])
    for world, names in worlds.items():
        if order is not None:
            values = {label: means.get((label, order[0].name), {}).get("mean") for label in names}
            names = {label: names[label] for label in in_order(values, order[0].better, order[1])}
        if len(worlds) > 1:
            console.print()
            _line(console, f"world: {world}", "bold")
        cells = [
            _Shown(heading(c), [mean_cell(c, means.get((each, c.name)), seeds) for each in names]) for c in columns
        ]
        _print(console, limit, list(names.values()), cells)
        if part["paired"]:
            _differences(console, limit, document, part, names, columns)


def _over_worlds(console: Any, limit: int | None, document: JsonObject, columns: Sequence[Column]) -> None:
    """What each choice changes over all worlds, and where that depends on the world."""
    rows: Rows = {(row["choice"], row["metric"]): row for row in document.get("pooled", ())}
    columns = [each for each in columns if (each.better or each.observer) and any(each.name == m for _, m in rows)]
    shown = {each.name for each in columns}
    effects = [row for (_, metric), row in rows.items() if metric in shown and row["pairs"] > 1]
    if not effects:
        return
    level = 1 - document["confidence"]
    family = holm([row["p_value"] for row in effects], level)
    depends = holm([row["interaction_p_value"] for row in effects], level)
    names, seeds = list(dict.fromkeys(choice for choice, _ in rows)), len(document["seeds"])
    console.print()
    worlds = effects[0]["worlds"]
    _line(console, f"difference to {document['baseline']}, mean over {worlds} worlds, same seeds", "italic")
    cells = []
    for column in columns:
        form, here = FORMS[column.unit][1], [rows.get((name, column.name)) for name in names]
        cells.append(
            _Shown(heading(column), [_pooled_cell(row, form, (level, family), depends, seeds) for row in here])
        )
    _print(console, limit, names, cells)
    _line(
        console, f"* and ** as above, among {len(effects)} differences. w: differs between worlds (family-wise).", "dim"
    )


def _pooled_cell(row: JsonObject | None, form: Form, levels: tuple[float, float], depends: float, seeds: int) -> str:
    if row is None or row["pairs"] < 2:
        return "–"
    if row["lower"] is None:
        return f"{'+' if row['difference'] > 0 else ''}{form(row['difference'])}"
    stars = "*" * sum(row["p_value"] <= level for level in levels)
    half = form(_half(row, "difference") or 0.0)
    sign = "+" if row["difference"] > 0 else ""
    some = f" ({row['pairs']}/{seeds})" if row["pairs"] < seeds else ""
    world = " w" if row["interaction_p_value"] <= depends else ""
    return f"{sign}{form(row['difference'])} ±{half}{stars}{world}{some}"


def _shown_columns(part: JsonObject, columns: Sequence[Column]) -> list[Column]:
    """The columns that tell something when all have spent the same: not what was spent, and none that nobody has."""
    measured = {row["metric"] for row in part["means"]}
    wanted_columns = [column for column in columns if column.shown or column.name in BUDGETS.values()]
    return [column for column in wanted_columns if column.name in measured and column.name != part["column"]]


def _spent(part: JsonObject) -> str:
    unit = next(c.unit for c in (*ROUND_COLUMNS, *SUMMARY_COLUMNS, *DERIVED_COLUMNS) if c.name == part["column"])
    value = f"{part['value']:.10g}" if unit == "count" else FORMS[unit][1](part["value"]) + FORMS[unit][0][1:]
    most = part.get("most", True)
    return f"at equal {part['budget']}: {value}{SPENT_BY_ALL if most else ''}"


def certificate_notes(document: JsonObject, columns: Iterable[Column]) -> Iterator[str]:
    """In words, what stands beside the certificates among some columns, and of whom only sums are taken to be seen."""
    lines = basis_lines(columns)
    yield from [*lines, OF_ONE_RUN] if lines else []
    assumes = {choice["choice"]: choice.get("assumes", (ONLY_SUMS,)) for choice in document["choices"]}
    yield from said_of([label for label, clauses in assumes.items() if ONLY_SUMS in clauses], assumes)


def _warnings(document: JsonObject) -> Iterator[str]:
    """In words, which configurations diverged, skipped rounds or have bounds only, and which certificates differ."""
    means: dict[str, dict[str, Any]] = {choice["choice"]: {} for choice in document["choices"]}
    for row in document["means"]:
        means[row["choice"]][row["metric"]] = row["mean"]
    for choice in document["choices"]:
        done = [run for run in choice["runs"] if run["status"] == "done"]
        if rounds := sorted(run["diverged_round"] for run in done if run.get("diverged_round") is not None):
            yield f"{choice['choice']} {divergence_text(rounds, len(done))}"
    if document["target_accuracy"] is None and any("test_accuracy" in numbers for numbers in means.values()):
        yield f"no time to a target: {document['baseline']} has not learned; give --target-accuracy"
    for name, numbers in means.items():
        if text := skipped_text(numbers):
            yield f"{name} {text}"
    if text := unequal_sums({name: numbers.get("aggregations") for name, numbers in means.items()}):
        yield text
    yield from (f"{name}: {LOWER_BOUNDS}" for name, numbers in means.items() if are_bounds(numbers))
    yield from unlike_warnings(document)


def unlike_warnings(document: JsonObject) -> list[str]:
    """In words, which certificates do not say the same of all configurations."""
    columns = {column.name: column for column in read_columns(document.get("columns", ()))}
    return unlike_sentences({each["choice"]: each.get("against", {}) for each in document["choices"]}, columns)


def _differences(
    console: Any, limit: int | None, document: JsonObject, part: JsonObject, names: dict[str, str], columns: Any
) -> None:
    """The differences inside a world; ``names`` by label."""
    base_label = next((label for label, name in names.items() if name == document["baseline"]), None)
    paired: Rows = {(row["choice"], row["metric"]): row for row in part["paired"] if row["choice"] in names}
    rows = [label for label in names if label != base_label]
    columns = [column for column in columns if any(paired.get((label, column.name)) for label in rows)]
    columns = [column for column in columns if column.better or column.observer]
    comparable = [row for row in paired.values() if row["pairs"] > 1 and row["metric"] in {c.name for c in columns}]
    seeds, confidence = len(document["seeds"]), document["confidence"]
    levels = 1 - confidence, holm([row.get("p_value", 1.0) for row in comparable], 1 - confidence)
    console.print()
    _line(console, f"difference to {document['baseline']}, same seeds", "italic")
    shown = [_cells(column, rows, paired, seeds, levels) for column in columns]
    said = {choice["choice"]: choice.get("against", {}) for choice in document["choices"]}
    for column, cells in zip(columns, (each.cells for each in shown), strict=True):
        base = said.get(base_label, {}).get(column.name)
        cells[:] = [OTHER if said[label].get(column.name) != base and (label, column.name) not in paired
                    else cell for label, cell in zip(rows, cells, strict=True)]  # fmt: skip
    _print(console, limit, [names[label] for label in rows], shown)
    if comparable:
        _line(console, _legend(len(comparable), max(row["pairs"] for row in comparable), 1 - confidence), "dim")


def _legend(count: int, pairs: int, level: float) -> str:
    """What the stars of so many differences mean, and which cannot be given with so few pairs."""
    brackets = "In brackets: half-width if seeds were not shared."
    if pairs < FEWEST_PAIRS:
        return f"Not settled: {pairs} seeds cannot show a difference; stars need {FEWEST_PAIRS}. {brackets}"
    text = (
        f"* significant at {100 * level:g} % when tested alone: of {count} differences between equals, about "
        f"{level * count:.2g} would have a star by chance alone. "
    )
    if least(pairs) > level / count:
        return f"{text}{pairs} seeds cannot show more among {count} differences; {NORMAL_FROM} can. {brackets}"
    return f"{text}** family-wise: among all {count} together (Holm). {brackets}"


def _overhead_table(console: Any, limit: int | None, document: JsonObject, known: dict[str, Column]) -> None:
    """What secure aggregation costs: differences to the same configuration without, and ratios to its values."""
    by_cell: Rows = {(row["choice"], row["metric"]): row for row in document.get("beside_plain", ())}
    if not by_cell:
        return
    rows = list(dict.fromkeys(choice for choice, _ in by_cell))
    metrics = dict.fromkeys(metric for _, metric in by_cell)
    plain = {choice: row["plain"] for (choice, _), row in by_cell.items()}
    columns = [_Shown("beside", [plain[label] for label in rows])]
    for column in (known.get(metric) or unknown(metric) for metric in metrics):
        form = FORMS[column.unit][1]
        cells = [_beside(by_cell.get((label, column.name)), form, column.unit) for label in rows]
        columns.append(_Shown(heading(column), cells))
    console.print()
    _line(console, "what secure aggregation costs beside the same without it, same seeds", "italic")
    _print(console, limit, rows, columns)


def _beside(row: JsonObject | None, form: Form, unit: str) -> str:
    if row is None:
        return "–"
    half = _half(row, "difference")
    spread = f" ±{form(half)}" if half and half > ROUNDING * abs(row["difference"]) else ""
    times = f" (x {row['ratio']:.3g})" if unit in ("bytes", "seconds") and row["ratio"] is not None else ""
    return ("+" if row["difference"] > 0 else "") + form(row["difference"]) + spread + times


def _line(console: Any, text: str, style: str) -> None:
    """For a terminal wrapped at words, for a pipe in one line."""
    console.print(text, style=style, soft_wrap=not console.is_terminal)


def mean_cell(column: Column, row: JsonObject | None, seeds: int) -> str:
    """A mean of a ``comparison.json`` over so many seeds, with the longer side of its interval."""
    if row is None:
        return "never" if column in TARGET_COLUMNS else "–"
    return mean_text(FORMS[column.unit][1], row["mean"], _half(row, "mean"), row["runs"], seeds)


def _half(row: JsonObject, middle: str) -> float | None:
    """The longer side of a row's interval; None where it has none."""
    if row["lower"] is None:
        return None
    return float(max(row["upper"] - row[middle], row[middle] - row["lower"]))


def _cells(column: Column, labels: Sequence[str], paired: Rows, seeds: int, levels: tuple[float, float]) -> _Shown:
    form = FORMS[column.unit][1]
    cells = [_difference(paired.get((label, column.name)), form, seeds, levels) for label in labels]
    return _Shown(heading(column), cells)


def _difference(row: JsonObject | None, form: Form, seeds: int, levels: tuple[float, float]) -> str:
    """A difference with a star for each of the levels, ascending in strictness, that its p value keeps."""
    if row is None:
        return "no pair"
    sign = "+" if row["difference"] > 0 else ""
    pairs = f" ({row['pairs']}/{seeds})" if row["pairs"] < seeds else ""
    if row["lower"] is None:
        return sign + form(row["difference"]) + pairs
    half, unpaired_half = _half(row, "difference") or 0.0, (row["unpaired_upper"] - row["unpaired_lower"]) / 2
    stars = "*" * sum(row.get("p_value", 1.0) <= level for level in levels)
    return f"{sign}{form(row['difference'])} ±{form(half)} [{form(unpaired_half)}]{stars}{pairs}"


# -- as wide as the terminal ---------------------------------------------------------------------------


def _print(console: Any, limit: int | None, labels: list[str], columns: list[_Shown]) -> None:
    """The columns side by side; those that do not fit follow below, under the same names."""
    widest = max((column.width for column in columns), default=0)
    line_width = max(map(len, labels))
    if limit is not None:
        line_width = max(NARROWEST, min(line_width, limit - GAP - widest))
    for number, part in enumerate(_parts(columns, None if limit is None else limit - line_width)):
        if number:
            console.print()
        _row(console, " " * line_width, [column.heading.rjust(column.width) for column in part], style="bold")
        for place, label in enumerate(labels):
            first, *rest = wrap(label, line_width)
            _row(console, first.ljust(line_width), [column.cells[place].rjust(column.width) for column in part])
            for line in rest:
                _row(console, line, [])


def _row(console: Any, name: str, cells: list[str], style: str | None = None) -> None:
    console.print((" " * GAP).join([name, *cells]), style=style, soft_wrap=True)


def _parts(columns: list[_Shown], line_width: int | None) -> Iterator[list[_Shown]]:
    part: list[_Shown] = []
    for column in columns:
        if part and line_width is not None and sum(c.width + GAP for c in (*part, column)) > line_width:
            yield part
            part = []
        part.append(column)
    if part:
        yield part
