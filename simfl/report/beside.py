"""What secure aggregation costs: a table beside plain, and of a single run what its own tables say."""

from collections.abc import Iterator
from typing import Any

from simfl.columns import unknown
from simfl.compare.beside_plain import HIDES, TOLD, beside_plain
from simfl.payload import SAMPLES, UPDATE
from simfl.report.measures import Measure, Scale, measures
from simfl.report.study import Group, Study
from simfl.report.tables import ROUNDING, Cell, Head, Row, Table

__all__ = ["beside_table", "in_clear", "masked"]

SUMMED = (UPDATE.name, SAMPLES.name)
"""Parts that sums hide, where there is secure aggregation."""


def beside_table(study: Study) -> Table | None:
    """A row a group with secure aggregation that another group differs from in nothing but that it has none."""
    rows = beside_plain({g.label: (g.values, {run.seed: run.finals for run in g.runs}) for g in study.groups})
    if not rows:
        return None
    found = {(row["choice"], row["metric"]): row for row in rows}
    columns = {column.name: column for run in study.runs for column in run.columns.values()}
    known = [Measure(columns.get(name) or unknown(name), lambda run: None) for name in TOLD]
    known = [measure for measure in known if any(name == measure.name for _, name in found)]
    heads = [Head("group", "Group", key=True), Head("plain", "Beside", key=True)]
    scales = {m.name: m.scale(row["difference"] for (_, name), row in found.items() if name == m.name) for m in known}
    for measure in known:
        unit = {"%": "points"}.get(scales[measure.name].unit, scales[measure.name].unit)
        heads.append(Head(measure.name, measure.label, unit, measure.column.sentence, True))
        if measure.column.unit in ("bytes", "seconds"):
            heads.append(Head(f"{measure.name}_ratio", f"{measure.label}, times", "", measure.column.sentence, True))
    made = []
    for label in dict.fromkeys(choice for choice, _ in found):
        mine = {name: row for (choice, name), row in found.items() if choice == label}
        cells = [Cell(label, label), *[Cell(plain, plain) for plain in {row["plain"] for row in mine.values()}]]
        for measure in known:
            cells += _cells(measure, scales[measure.name], mine.get(measure.name))
        made.append(Row(tuple(cells), study.group(label)))
    return Table(tuple(heads), tuple(made))


def _cells(measure: Measure, scale: Scale, row: dict[str, Any] | None) -> Iterator[Cell]:
    """The difference and, where it means something, how many times plain's value that is."""
    timed = measure.column.unit in ("bytes", "seconds")
    if row is None:
        yield from [Cell("–")] * (1 + timed)
        return
    sign = "+" if row["difference"] > 0 else ""
    yield Cell(sign + scale.text(row["difference"]), row["difference"], _half(scale, row, "difference", "lower"))
    if timed:
        plain = Scale(1.0, "", 2)
        half = _half(plain, row, "ratio", "ratio_lower") if row["ratio"] is not None else ""
        yield Cell(plain.text(row["ratio"]), row["ratio"], half)


def _half(scale: Scale, row: dict[str, Any], middle: str, lower: str) -> str:
    if row[lower] is None or (half := row[middle] - row[lower]) <= ROUNDING * abs(row[middle]):
        return ""
    return f"±\u202f{scale.text(half)}"


def masked(study: Study) -> list[str]:
    """What secure aggregation has given and cost the first group, in sentences; none where its runs had none."""
    group = study.groups[0]
    known = {m.name: m for m in measures(study) if all(m.of(run) is not None for run in group.runs)}
    if HIDES not in known or "clear_bytes" not in known:
        return []

    def mean(name: str) -> float:
        return known[name].over(group).mean if name in known else 0.0

    def words(name: str, value: float) -> str:
        return known[name].scale([value]).quantity(value)

    total, clear = mean("bytes"), mean("clear_bytes")
    each = "" if len(group.runs) == 1 else " on average"
    overlap = "; phases of several units overlap" if group.first.jobs is not None else ""
    moved, own = words("bytes", total), words("secagg_s", mean("secagg_s"))
    clearly = f"the {words('bytes', clear)} that the same models and updates take in clear"
    beyond = f", {total / clear:.3g} times {clearly}" if clear else ""
    sentences = [
        _given(group),
        f"It moved {moved}{each}{beyond}. Its own phases took {own} in all{overlap}; how much earlier "
        "plain would have ended, a comparison with secagg=plain tells.",
    ]
    lost = [f"{words(name, mean(name))} {what}" for name, what in (
        ("secagg_failed", "sums, or preparations of units, failed"), ("clipped", "coordinates were clipped"),
        ("wrapped", "coordinates of sums wrapped around")) if mean(name)]  # fmt: skip
    return [*sentences, f"{'; '.join(lost)}."] if lost else sentences


def in_clear(study: Study) -> list[str]:
    """What the server sees beside sums: every update, where others have secure aggregation; and what else is sent."""
    return [*_besides(study), *_shown(study)]


def _besides(study: Study) -> list[str]:
    """Parts of what each client sends, other than its update and sample count, that reach the server as they are."""
    found = {}
    for group in study.groups:
        sent = {name for run in group.runs for name in run.summary.get("in_clear") or () if name not in SUMMED}
        if sent:
            found[group.label] = " and ".join(sorted(sent))
    return [
        f"In {label} each client also sends {what}: nobody hides among others there, whatever is summed."
        for label, what in found.items()
    ]


def _shown(study: Study) -> list[str]:
    open_ = [group.label for group in study.groups if not group.hides]
    if not open_ or not any(HIDES in run.finals for run in study.runs):
        return []
    return [
        f"Without secure aggregation ({', '.join(open_)}) the server sees every update: the guarantees given there are "
        "those of sums alone."
    ]


def _given(group: Group) -> str:
    """Whether the guarantee that theory gives holds of what the server saw."""
    choice = group.first.scenario.get("secagg", {})
    name = choice.get("name", "") if isinstance(choice, dict) else str(choice)
    saw = f"The server saw sums only ({name})"
    promised = [run.summary.get("guarantee_weak") for run in group.runs]
    seen = [run.summary.get("privacy_weak_lower") for run in group.runs]
    if any(value is None for value in (*promised, *seen)):
        return f"{saw}; theory promises no multi-round guarantee for them."
    least, found = min(value for value in promised if value), min(value for value in seen if value is not None)
    down = f"combining all sums, it can narrow {'something' if found < max(least, 2) else 'nothing'} down to"
    if least <= 1:
        end = "1 client" if found == 1 else f"fewer than {found:g} clients"
        return f"{saw}, but the policy promises no multi-round guarantee: {down} {end}."
    if found < least:
        return f"{saw}, but the multi-round guarantee T = {least:g} does not hold: {down} fewer than {least:g} clients."
    ever = "now or later" if found == least else f"and never to fewer than {least:g}"
    return f"{saw}, and the multi-round guarantee T = {least:g} holds: {down} fewer than {found:g} clients, {ever}."
