"""The report: one HTML file that needs nothing else, and asks nobody for anything."""

import base64
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfl.core.certificate_words import about
from simfl.core.errors import amount
from simfl.core.json_data import JsonObject
from simfl.core.version import VERSION
from simfl.experiments.compare.intervals import CONFIDENCE
from simfl.report import style
from simfl.report.advice import MARGIN, Advice, advise, cautions, family_level
from simfl.report.figures import Kind, NothingToDraw, figures
from simfl.report.measures import StudyMeasure, compare_with_baseline, spread_sentences, with_values
from simfl.report.page_tables import beside_table, csv_of, equal_table, group_table, round_table, run_table
from simfl.report.saving import csv_text
from simfl.report.study import Study
from simfl.report.summary_text import attack_summary, describe, enumerate_words, in_clear
from simfl.report.svg import inline

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"

TILES = (
    "test_accuracy",
    "time_to_target_s",
    "time_s",
    "privacy_semi_strong",
    "mean_cardinality",
    "fairness_excess",
    "bytes",
)
GUARANTEE = "privacy_semi_strong", "guarantee_semi_strong"
"""The guarantee on a tile: what the runs came to, and what theory knows."""

MOST_TILES = 6
SHORT = 14
"""Letters of a baseline's name that fit on a tile."""


@dataclass(frozen=True)
class PageFigure:
    """A figure on the page; ``lone`` = it has a line for itself though it is narrow."""

    kind: Kind
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


def page(study: Study, margin: float = MARGIN) -> str:
    """The report of a study as HTML; the same bytes for the same results.

    Args:
        study: finished runs.
        margin: the loss of accuracy that does not matter, as a share of the test samples.
    """
    environment = page_environment(TEMPLATES)
    environment.filters |= {"listed": enumerate_words, "csv_link": lambda table: _data("text/csv", csv_of(table))}
    template = environment.get_template("report.html")
    return template.render(
        study=study, **_findings_context(study, margin), **_tables_context(study), **_page_context(study)
    )


def page_environment(templates: Path) -> "Environment":
    """What makes pages of the templates in a folder."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(templates)
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def _findings_context(study: Study, margin: float) -> JsonObject:
    """What the template says of the study's findings: advice, sentences, tiles and figures."""
    advice = advise(study, margin)
    page_figures = list(_figures(study))
    sections = dict.fromkeys(figure.kind.section for figure in page_figures)
    return {
        "advice": advice,
        "sentences": [*describe(study), *advise_worlds(study, margin)],
        "cautions": [*cautions(study), *in_clear(study)],
        "attacked": attack_summary(study),
        "facts": _facts(study),
        "tiles": _tiles(study, advice),
        "sections": {name: _section(page_figures, name) for name in sections},
    }


def _tables_context(study: Study) -> JsonObject:
    groups, equal_budgets, beside = group_table(study), equal_table(study), beside_table(study)
    rows = round_table(study.groups[0].first) if study.kind == "run" else run_table(study)
    tables = filter(None, (groups, equal_budgets, beside, rows))
    named = dict.fromkeys(head.name for table in tables for head in table.columns)
    return {
        "groups": groups,
        "spreads": spread_sentences(study),
        "bases": study.certificate_notes(study.columns[name] for name in named if name in study.columns),
        "censored": any(cell.censored for row in groups.rows for cell in row.cells),
        "equal": equal_budgets,
        "beside": beside,
        "rows": rows,
        "rows_title": "Rounds" if study.kind == "run" else "Runs",
    }


def _page_context(study: Study) -> JsonObject:
    """The scenario, and what the page itself is made of."""
    text = study.groups[0].first.text
    return {
        "version": VERSION,
        "scenario": _highlight(text),
        "scenario_file": _data("text/yaml", text),
        "style": (TEMPLATES / "report.css").read_text(encoding="utf-8"),
        "script": "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.js", "hover.js")),
        "keys": {group.label: _key(group.number) for group in study.groups if group.number is not None},
        "replications": study.seeds,
        "slug": re.sub(r"[^A-Za-z0-9._-]+", "-", study.title),
    }


def _figures(study: Study) -> Iterator[PageFigure]:
    for kind in figures():
        try:
            with style.settings(svg_fonttype="none"):
                fig, table = kind.draw_in_place(study)
                svg = inline(fig, kind.name, f"{kind.title}. {kind.caption}")
        except NothingToDraw:
            continue
        yield PageFigure(kind, svg, _data("text/csv", csv_text(table)))


def _section(page_figures: list[PageFigure], section: str) -> list[PageFigure]:
    """The figures of a section; of an odd number of narrow ones, the last has a line for itself."""
    in_section = [figure for figure in page_figures if figure.kind.section == section]
    narrow = [figure for figure in in_section if not figure.kind.wide]
    return [replace(f, lone=True) if len(narrow) % 2 and f is narrow[-1] else f for f in in_section]


def _data(kind: str, text: str) -> str:
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


def _facts(study: Study) -> list[str]:
    """What was simulated, in a few words each."""
    seeds = {run.seed for run in study.runs}
    runs = [amount(len(list(study.runs)), "run")] if not study.single or len(seeds) > 1 else []
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


def _name(choice: object) -> str:
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
        value, before = measure.over(group), measure.over(baseline).estimate
        scale = measure.scale([value.estimate, before])
        notes, verdict = [], 0
        guarantee = measure.name == GUARANTEE[0]
        if guarantee:
            rounds = _span([int(run.summary["rounds"]) for run in group.runs], "rounds")
            ends = known[GUARANTEE[1]].over(group).estimate if GUARANTEE[1] in known else math.nan
            notes.append(f"after {rounds}" + ("" if math.isnan(ends) else f", {ends:g} for any number of rounds"))
        if group is not baseline and (effect := compare_with_baseline(measure, group, baseline, level)):
            name = baseline.label if len(baseline.label) <= SHORT else "baseline"
            notes.append(f"{name}: {scale.quantity(before)}")
            verdict = effect.verdict
        elif measure.name == "mean_cardinality" and (expected := group.first.summary.get("expected_cardinality")):
            notes.append(f"theory: {scale.text(expected)}")
        elif value.count > 1 and not guarantee:
            no = math.isnan(value.half_width)
            notes.append(f"{'' if no else f'± {scale.text(value.half_width)} '}over {value.count} seeds")
        if value.count < len(group.runs):
            notes.append(f"{value.count} of {len(group.runs)} seeds")
        if guarantee and group is not baseline:  # only what holds for any number of rounds is better or worse
            lasting = known.get(GUARANTEE[1]) and compare_with_baseline(known[GUARANTEE[1]], group, baseline, level)
            verdict = lasting.verdict if lasting else 0
        label = f"{measure.label} guarantee" if guarantee else measure.label
        unit = "clients" if guarantee else scale.unit
        tiles.append(Tile(label, scale.text(value.estimate), unit, "; ".join(notes), about(measure.column), verdict))
    return tiles[:MOST_TILES]


def _key(number: int) -> JsonObject:
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


def _highlight(text: str) -> Any:
    """YAML with its keys marked."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"(?m)^(\s*(?:- )?)([\w.-]+)(?=:)", r"\1<b>\2</b>", str(escape(text))))  # noqa: S704 (escaped)


# -- How far what a study says rests on the world: what is recommended in each, and in how many a ranking holds

RANKED = ("test_accuracy", "time_to_target_s", "time_s", "fairness_excess")
"""Measures by which each choice is ranked against the baseline: of the two times, the first that there is."""

VERDICTS = {1: "better", -1: "worse"}


def advise_worlds(study: Study, margin: float = MARGIN) -> list[str]:
    """What is recommended in each world of a study, and in how many of them each choice is; none where it has one."""
    worlds = study.worlds()
    picks: Counter[str] = Counter()
    sentences = []
    for name, part in worlds.items():
        advice = advise(part, margin)
        if advice is not None and advice.pick is not None:
            picks[advice.pick.label] += 1
            sentences.append(f"In {name}: choose {advice.pick.label}.")
        elif advice is not None:
            sentences.append(f"In {name}: no recommendation, {advice.reason}.")
    of = amount(len(worlds), "world")
    counts = [f"{choice} is recommended in {count} of {of}." for choice, count in picks.items()]
    summary = counts or ["No choice is recommended in any world."]
    return [*summary, *rankings(worlds), *sentences] if sentences else []


def rankings(worlds: dict[str, Study]) -> list[str]:
    """In how many worlds each choice is better or worse than the baseline, measure by measure.

    Each difference is paired by seed, and counts where it is significant among all of its world (Bonferroni).
    """
    parts = [*worlds.values()]
    known = [{measure.name: measure for measure in with_values(part, hidden=True)} for part in parts]
    nouns = {name: measures[name].noun for name in RANKED for measures in known if name in measures}
    if "time_to_target_s" in nouns:
        nouns.pop("time_s", None)
    choices = dict.fromkeys(group.label for part in parts for group in part.groups if group.label != part.baseline)
    lines, unclear = [], []
    for choice in choices:
        said = []
        for name, noun in nouns.items():
            verdicts = _by_world(worlds, choice, [measures.get(name) for measures in known])
            said += [f"{noun} {text}"] if (text := _verdicts(dict(verdicts), len(worlds))) else []
        if said:
            lines.append(f"{choice} against {parts[0].baseline}: {', '.join(said)}.")
        else:
            unclear.append(choice)
    if unclear and nouns:
        of = ", ".join(nouns.values())
        lines.append(f"Undecided against {parts[0].baseline} in every world ({of}): {', '.join(unclear)}.")
    level = f"{100 * (1 - CONFIDENCE):g} %"
    note = f"A world counts where the difference, paired by seed, is significant among all of that world ({level})."
    return [*lines, note] if lines else []


def _verdicts(of: Mapping[str, int], worlds: int) -> str:
    """``worse in 2 of 4 (sticky, groups), better in 1 of 4 (trace)``; nothing where nothing is decided."""
    parts = []
    for verdict, word in VERDICTS.items():
        names = [name for name, it in of.items() if it == verdict]
        if names:
            where = "" if len(names) == worlds else f" ({', '.join(names)})"
            parts.append(f"{word} in {len(names)} of {worlds}{where}")
    return ", ".join(parts)


def _by_world(
    worlds: dict[str, Study], choice: str, measures: Sequence[StudyMeasure | None]
) -> Iterator[tuple[str, int]]:
    """The verdict on a choice in each world that has it, by the world's own measure."""
    for (name, part), measure in zip(worlds.items(), measures, strict=True):
        group = next((each for each in part.groups if each.label == choice), None)
        if group is None or measure is None:
            continue
        if effect := compare_with_baseline(measure, group, part.group(part.baseline), family_level(part)):
            yield name, effect.verdict
