"""What secure aggregation costs: a table beside plain, and of a single run what its own tables say."""

from collections.abc import Iterator

from simfl.core.certificate_words import IF_ONLY_SUMS, WORST, about
from simfl.core.columns import unknown
from simfl.core.json_data import JsonObject
from simfl.core.payload import SAMPLES, UPDATE
from simfl.experiments.compare.overhead import HIDES, TOLD, overhead_rows
from simfl.report.guarantee_bounds import AS_FAR, GuaranteeBounds, least, weak_bounds
from simfl.report.measures import StudyMeasure, UnitScale, measures
from simfl.report.page_tables import Cell, Head, PageTable, Row
from simfl.report.study import Group, Study

SUMMED = (UPDATE.name, SAMPLES.name)
"""Parts that sums hide, where there is secure aggregation."""


def beside_table(study: Study) -> PageTable | None:
    """A row a group with secure aggregation that another group differs from in nothing but that it has none."""
    rows = overhead_rows({g.label: (g.values, {run.seed: run.finals for run in g.runs}) for g in study.groups})
    if not rows:
        return None
    rows_of = {(row["choice"], row["metric"]): row for row in rows}
    columns = {column.name: column for run in study.runs for column in run.columns.values()}
    known = [StudyMeasure(columns.get(name) or unknown(name), lambda run: None) for name in TOLD]
    known = [measure for measure in known if any(name == measure.name for _, name in rows_of)]
    heads = [Head("group", "Configuration", key=True), Head("plain", "Beside", key=True)]
    scales = {m.name: m.scale(row["difference"] for (_, name), row in rows_of.items() if name == m.name) for m in known}
    for measure in known:
        unit = {"%": "points"}.get(scales[measure.name].unit, scales[measure.name].unit)
        heads.append(Head(measure.name, measure.label, unit, about(measure.column), True))
        if measure.column.unit in ("bytes", "seconds"):
            heads.append(Head(f"{measure.name}_ratio", f"{measure.label}, times", "", about(measure.column), True))
    table_rows = []
    for label in dict.fromkeys(choice for choice, _ in rows_of):
        mine = {name: row for (choice, name), row in rows_of.items() if choice == label}
        cells = [Cell(label, label), *[Cell(plain, plain) for plain in {row["plain"] for row in mine.values()}]]
        for measure in known:
            cells += _cells(measure, scales[measure.name], mine.get(measure.name))
        table_rows.append(Row(tuple(cells), study.group(label)))
    return PageTable(tuple(heads), tuple(table_rows))


def _cells(measure: StudyMeasure, scale: UnitScale, row: JsonObject | None) -> Iterator[Cell]:
    """The difference and, where it means something, how many times plain's value that is."""
    timed = measure.column.unit in ("bytes", "seconds")
    if row is None:
        yield from [Cell("–")] * (1 + timed)
        return
    sign = "+" if row["difference"] > 0 else ""
    yield Cell(sign + scale.text(row["difference"]), row["difference"], _half(scale, row, "difference", "lower"))
    if timed:
        plain = UnitScale(1.0, "", 2)
        half = _half(plain, row, "ratio", "ratio_lower") if row["ratio"] is not None else ""
        yield Cell(plain.text(row["ratio"]), row["ratio"], half)


def _half(scale: UnitScale, row: JsonObject, middle: str, lower: str) -> str:
    return "" if row[lower] is None else scale.half(row[middle], row[middle] - row[lower])


def describe_masking(study: Study) -> list[str]:
    """What secure aggregation has given and cost the first group, in sentences; none where its runs had none."""
    group = study.groups[0]
    known = {m.name: m for m in measures(study) if all(m.of(run) is not None for run in group.runs)}
    if HIDES not in known or "clear_bytes" not in known:
        return []

    def mean(name: str) -> float:
        return known[name].over(group).estimate if name in known else 0.0

    def words(name: str, value: float) -> str:
        return known[name].scale([value]).quantity(value)

    total, clear = mean("bytes"), mean("clear_bytes")
    each = "" if len(group.runs) == 1 else " on average"
    overlap = "; phases of several units overlap" if group.first.jobs is not None else ""
    moved, phases_took = words("bytes", total), words("secagg_s", mean("secagg_s"))
    clearly = f"the {words('bytes', clear)} that the same models and updates take in clear"
    beyond = f", {total / clear:.3g} times {clearly}" if clear else ""
    sentences = [
        _guarantee(group),
        f"It moved {moved}{each}{beyond}. Its own phases took {phases_took} in all{overlap}; how much earlier "
        "plain would have ended, a comparison with secagg=plain tells.",
    ]
    losses = [f"{words(name, mean(name))} {what}" for name, what in (
        ("secagg_failed", "sums, or preparations of units, failed"), ("clipped", "coordinates were clipped"),
        ("wrapped", "coordinates of sums wrapped around")) if mean(name)]  # fmt: skip
    return [*sentences, f"{'; '.join(losses)}."] if losses else sentences


def in_clear(study: Study) -> list[str]:
    """What the server sees beside sums: every update, where others have secure aggregation; and what else is sent."""
    sentences = []
    for group in study.groups:
        sent = {name for run in group.runs for name in run.summary.get("in_clear") or () if name not in SUMMED}
        if sent:
            what = f"In {group.label} each client also sends {' and '.join(sorted(sent))}"
            sentences.append(f"{what}: nobody hides among others there, whatever is summed.")
    open_ = [group.label for group in study.groups if not group.hides]
    if open_ and any(HIDES in run.finals for run in study.runs):
        assumed = [g.label for g in study.groups if not g.hides and any(run.takes_sums_for_granted for run in g.runs)]
        if seen := [label for label in open_ if label not in assumed]:
            sentences.append(f"Without secure aggregation ({', '.join(seen)}) the server sees every update.")
        if assumed:
            sentences.append(f"Of {', '.join(assumed)} guarantees are given {IF_ONLY_SUMS}, which no protocol sees to.")
    return sentences


def _guarantee(group: Group) -> str:
    """Whether the guarantee that theory gives holds of what the server saw.

    What the server can do is said of upper bounds, what it cannot of lower ones. Theory's T is a lower bound itself.
    """
    choice = group.first.scenario.get("secagg", {})
    name = choice.get("name", "") if isinstance(choice, dict) else str(choice)
    if more := sorted({what for run in group.runs for what in run.summary.get("beside_sums") or ()}):
        return f"The server saw more than sums ({name}), so that no multi-round guarantee holds: {'; '.join(more)}."
    saw = f"The server saw sums only ({name})"
    promised = [run.finals.get("guarantee_weak") for run in group.runs]
    T = min((value for value in promised if value is not None), default=0.0) if None not in promised else 0.0
    seen = [bounds for bounds in map(weak_bounds, group.runs) if bounds is not None]
    if len(seen) < len(group.runs):
        theory = f"; theory promises the multi-round guarantee T = {T:g}, and what they give away" if T > 1 else ""
        return f"{saw}{theory or '; what they give away in several rounds'} was not computed."
    smallest = least(seen)
    if T <= 1:
        none = "but the policy promises no" if T else "and theory knows no"
        return f"{saw}, {none} multi-round guarantee: {_reach(smallest)}."
    guarantee = f"the multi-round guarantee T = {T:g}"
    if smallest.upper < T:
        return f"{saw}, but {guarantee} does not hold: {DOWN.format('something')} fewer than {T:g} clients."
    if smallest.lower < T:
        return f"{saw}, theory promises {guarantee}, and nothing that was computed contradicts it: {_reach(smallest)}."
    ever = "now or later" if smallest.lower == T else f"and never to fewer than {T:g}"
    return f"{saw}, and {guarantee} holds: {DOWN.format('nothing')} fewer than {smallest.lower:g} clients, {ever}."


DOWN = f"{WORST}, combining all sums, it can narrow {{}} down to"


def _reach(smallest: GuaranteeBounds) -> str:
    """Down to how few clients the server can narrow something."""
    if smallest.upper <= 1:
        return f"{DOWN.format('something')} 1 client"
    if smallest.exact:
        return f"{DOWN.format('nothing')} fewer than {smallest.lower:g} clients"
    return f"the smallest sum that it gets by combining all, {WORST}, contains {smallest.clients}, {AS_FAR}"
