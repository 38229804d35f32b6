"""The report: one HTML file that needs nothing else, and asks nobody for anything."""

import base64
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simfl.report import style
from simfl.report.advice import Advice, advise, cautions, change, family_level
from simfl.report.beside import beside_table, in_clear
from simfl.report.equal import equal_table
from simfl.report.figures import NothingToDraw, figures
from simfl.report.measures import Measure, with_values
from simfl.report.saving import csv_text
from simfl.report.study import Group, Study
from simfl.report.svg import inline
from simfl.report.tables import csv_of, group_table, round_table, run_table
from simfl.report.telling import told

__all__ = ["page"]

TEMPLATES = Path(__file__).parent / "templates"

TILES = (
    "test_accuracy",
    "time_to_target_s",
    "time_s",
    "privacy_semi_strong",
    "mean_cardinality",
    "fairness_gap",
    "bytes",
)
GUARANTEE = "privacy_semi_strong", "guarantee_semi_strong"
"""The guarantee on a tile: what the runs came to, and what theory knows."""

MOST_TILES = 6
SHORT = 14
"""Letters of a baseline's name that fit on a tile."""


@dataclass(frozen=True)
class Drawn:
    """A figure on the page."""

    name: str
    title: str
    caption: str
    section: str
    wide: bool
    svg: str
    download: str
    lone: bool = False


@dataclass(frozen=True)
class Tile:
    """A number at a glance."""

    label: str
    value: str
    unit: str
    note: str
    about: str
    verdict: int = 0


def page(study: Study) -> str:
    """The report of a study as HTML; the same bytes for the same results."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from simfl.version import VERSION

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["listed"] = _listed
    advice = advise(study)
    drawn = list(_drawn(study))
    groups, equal, beside = group_table(study), equal_table(study), beside_table(study)
    rows = round_table(study.groups[0].first) if study.kind == "run" else run_table(study)
    return environment.get_template("report.html").render(
        study=study,
        version=VERSION,
        advice=advice,
        sentences=told(study),
        cautions=[*cautions(study), *in_clear(study)],
        facts=_facts(study),
        tiles=_tiles(study, advice),
        sections={name: _paired(drawn, name) for name in dict.fromkeys(figure.section for figure in drawn)},
        groups=groups,
        censored=any(cell.censored for row in groups.rows for cell in row.cells),
        rows=rows,
        rows_title="Rounds" if study.kind == "run" else "Runs",
        groups_csv=_data("text/csv", csv_of(groups)),
        beside=beside,
        beside_csv=_data("text/csv", csv_of(beside)) if beside else "",
        equal=equal,
        equal_csv=_data("text/csv", csv_of(equal)) if equal else "",
        rows_csv=_data("text/csv", csv_of(rows)),
        scenario=_tinted(study.groups[0].first.text),
        scenario_file=_data("text/yaml", study.groups[0].first.text),
        style=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
        script="\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.js", "hover.js")),
        keys={group.label: _key(group.number) for group in study.groups if group.number is not None},
        replications=study.seeds,
        slug=re.sub(r"[^A-Za-z0-9._-]+", "-", study.title),
    )


def _drawn(study: Study) -> Iterator[Drawn]:
    for kind in figures():
        try:
            with style.settings(svg_fonttype="none"):
                fig, table = kind.draw(study)
                svg = inline(fig, kind.name, f"{kind.title}. {kind.caption}")
        except NothingToDraw:
            continue
        yield Drawn(
            kind.name, kind.title, kind.caption, kind.section, kind.wide, svg, _data("text/csv", csv_text(table))
        )


def _paired(drawn: list[Drawn], section: str) -> list[Drawn]:
    """The figures of a section; of an odd number of narrow ones, the last has a line for itself."""
    found = [figure for figure in drawn if figure.section == section]
    narrow = [figure for figure in found if not figure.wide]
    return [replace(f, lone=True) if len(narrow) % 2 and f is narrow[-1] else f for f in found]


def _listed(words: Iterable[str]) -> str:
    """``a, b and c``"""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _data(kind: str, text: str) -> str:
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


def _facts(study: Study) -> list[str]:
    """What was simulated, in a few words each."""
    seeds = {run.seed for run in study.runs}
    runs = [f"{len(list(study.runs))} runs"] if not study.single or len(seeds) > 1 else []
    failed = sum(member.status != "done" for member in study.members)
    first = study.groups[0].first
    learning = first.scenario.get("learning", {})
    words = [_name(learning.get(key)) for key in ("data", "partition", "model")]
    selections = {_name(group.first.scenario.get("selection")) for group in study.groups}
    return [
        *runs,
        *([f"{failed} failed or unfinished"] if failed else []),
        f"{len(seeds)} seeds" if len(seeds) > 1 else f"seed {min(seeds)}",
        _span([run.clients for run in study.runs], "clients"),
        _span([int(run.summary["rounds"]) for run in study.runs], "rounds"),
        *([" · ".join(word for word in words if word)] if any(words) else []),
        *([next(iter(selections))] if study.single and selections else []),
    ]


def _name(choice: Any) -> str:
    return str(choice.get("name", "")) if isinstance(choice, dict) else ""


def _span(values: list[int], noun: str) -> str:
    low, high = min(values), max(values)
    return f"{low:,} {noun}" if low == high else f"{low:,}–{high:,} {noun}"


def _tiles(study: Study, advice: Advice | None) -> list[Tile]:
    """The numbers of the run, or of the group to choose; none where there is no choice."""
    group = advice.pick if advice else study.groups[0] if study.single else None
    tiles: list[Tile] = []
    if group is None:
        return tiles
    baseline, level = study.group(study.baseline), family_level(study)
    known = {measure.name: measure for measure in with_values(study)}
    for measure in known.values():
        if measure.name not in TILES or (measure.name == "time_to_target_s" and study.single):
            continue
        found, before = measure.over(group), measure.over(baseline).mean
        scale = measure.scale([found.mean, before])
        notes, verdict = [], 0
        guarantee = measure.name == GUARANTEE[0]
        if guarantee:
            notes.append(_long_run(group, known.get(GUARANTEE[1])))
        if group is not baseline and (effect := change(measure, group, baseline, level)):
            name = baseline.label if len(baseline.label) <= SHORT else "baseline"
            notes.append(f"{name}: {scale.quantity(before)}")
            verdict = effect.verdict
        elif measure.name == "mean_cardinality" and (expected := group.first.summary.get("expected_cardinality")):
            notes.append(f"theory: {scale.text(expected)}")
        elif found.count > 1 and not guarantee:
            notes.append(f"± {scale.text(found.half)} over {found.count} seeds")
        if found.count < len(group.runs):
            notes.append(f"{found.count} of {len(group.runs)} seeds")
        if guarantee and group is not baseline:  # only what holds for any number of rounds is better or worse
            lasting = known.get(GUARANTEE[1]) and change(known[GUARANTEE[1]], group, baseline, level)
            verdict = lasting.verdict if lasting else 0
        label = f"{measure.label} guarantee" if guarantee else measure.label
        unit = "clients" if guarantee else scale.unit
        tiles.append(Tile(label, scale.text(found.mean), unit, "; ".join(notes), measure.column.sentence, verdict))
    return tiles[:MOST_TILES]


def _long_run(group: Group, lasting: Measure | None) -> str:
    """After how many rounds a guarantee was computed, and what becomes of it."""
    rounds = _span([int(run.summary["rounds"]) for run in group.runs], "rounds")
    if lasting is None or math.isnan(ends := lasting.over(group).mean):
        return f"after {rounds}"
    return f"after {rounds}, {ends:g} for ever"


def _key(number: int) -> dict[str, Any]:
    """A group's line for the names above the figures: colour, dashes and marker of :mod:`simfl.report.style`."""
    dashes = style.DASHES[number % len(style.DASHES)]
    return {
        "number": number,
        "color": f"var(--s{number % len(style.SERIES)})",
        "dashes": "none" if dashes == "-" else " ".join(f"{1.5 * part:g}" for part in dashes[1]),
        "marker": _outline(style.MARKERS[number % len(style.MARKERS)]),
    }


def _outline(marker: str) -> str:
    """A marker of matplotlib as the path of an SVG of 26 x 8, in its middle."""
    from matplotlib.markers import MarkerStyle

    shape = MarkerStyle(marker)
    polygons: Any = shape.get_path().transformed(shape.get_transform()).to_polygons()
    (corners, *_) = polygons
    return "M" + "L".join(f"{13 + 6 * x:.2f} {4 - 6 * y:.2f}" for x, y in corners) + "Z"


def _tinted(text: str) -> Any:
    """YAML with its keys marked."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"(?m)^(\s*(?:- )?)([\w.-]+)(?=:)", r"\1<b>\2</b>", str(escape(text))))  # noqa: S704 (escaped)
