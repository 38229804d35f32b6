"""The prose of a page: its paragraphs, list items and tables, the claims that they name, and their numbers.

A *block* is a paragraph, a list item or a table. The comment under it, ``<!-- claim: KEY, KEY -->``, names its claims
(claims.py). Prose is what is left without code blocks, text in backticks, formulas, targets of links and headings. In
it a number needs a claim, in digits, or as a word before a unit of measurement ("three seconds"), unless it only names
something: a reference (Table 4.3, RFC 5869), a year of a citation, a version, part of a name (CIFAR-10), the value of
a letter (T = 4, ε ≤ 8, as if in backticks), or a number that stands in code or backticks of the same section and has
no unit of measurement. So do the words of :data:`STRONG`. A table needs one claim as a whole if a cell has a number.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARK = re.compile(r"^\s*<!-- claim: ([\w, -]+?) -->$")
STRONG = re.compile(r"\b(significant(?:ly)?|never|any|every|nothing|no difference|fastest)\b", re.I)
ITEM = re.compile(r"^\s*(?:[*-]|\d+\.) ")
CODE = re.compile(r"`[^`]*`|\$[^$]+\$")
NUMBER = re.compile(
    r"(?<![\w.^])(?:\d[\d,]*\d|\d)(?:\.\d+)?(?:\^[-−]?\d+|[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)?(?:·10\^?[-−⁻]?[\d⁰¹²³⁴⁵⁶⁷⁸⁹]+)?(?![\w])|(?<![\w.])\.\d+"
)
UNIT = (
    r"(?:seconds?|minutes?|hours?|days?|s|ms|µs|ns|%|percent|points?|times|MB|GB|kB|MiB|GiB|KiB|TB|bytes?|bits?|"
    r"megabytes?|gigabytes?)\b|%"
)
WORDED = re.compile(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|sixty|ninety|"
    rf"hundred|thousand|million|half an|a few)(?: and a half)?[ -](?:{UNIT}|hour)",
)
NAMES = re.compile(
    r"(?:\b(?:[Tt]ables?|[Ff]igures?|Fig\.|Theorems?|Propositions?|Lemmas?|Remarks?|Definitions?|Algorithms?|Protocols?|"
    r"[Ss]ections?|[Cc]hapters?|[Aa]ppendix|[Ee]quations?|[Pp]apers?|RFC|arXiv|ISO|PEP|Python|numpy|PyTorch|Flower|Ray|FLGo|"
    r"KDD|versions?|[Ee]xperiments?|[Ss]teps?|[Rr]ounds?|[Ss]eeds?|[Cc]lients?|exit code|[Ll]evels?|Shamir)"
    r"\s(?:[A-Z]\.)?\d[\d.,]*\w?(?:-\d+)?(?:(?:, | and | or | to |–)\d[\d.,]*\w?(?:-\d+)?)*)"
    r"|\d{4}-\d\d-\d\d|\b(?:19|20)\d\d[a-z]?\b(?=[),:;]|\. |$|, | \|)"
    r"|(?:\b|(?<=[εδαστηκβγμρλ]))(?:[A-Za-z]|[εδαστηκβγμρλΔ])(?:_\w)?'? ?[=≤<>≥] ?-?\.?\d[\d.,⁻⁰¹²³⁴⁵⁶⁷⁸⁹e-]*"
    r"(?:(?:, | and | or | to )\d[\d.]*)*"
    r"|\b[A-Za-z]+-\d[\d.]*\b(?:,? and -\d+)?|\b\d+(?:\.\d+){2,}\b|\b\d+[A-Za-z]\w*"
    r"|\b(?:FedLTN|LotteryFL) 0\.\d\b"
    r"|\b\d+ ?[−+/·×] ?[A-Za-zα-ωΔ√(⌈]\w*|[A-Za-zα-ωΔ)⌉] ?[−+/·×] ?\d+(?![\d.,])"
    r"|\b\d[\d.]* [kMG]bit/s|\b95 % (?:confidence(?: intervals?)?|intervals?)"
)


@dataclass
class Block:
    """A paragraph, list item or table of a page.

    Attributes:
        line: number of its first line, from 1.
        lines: its lines, without the comment that names claims.
        keys: the claims that it names.
        section: code and backticks of its section.
        page, page_text: where it stands.
    """

    line: int
    lines: list[str]
    keys: tuple[str, ...] = ()
    section: str = ""
    page: str = ""
    page_text: str = field(default="", repr=False)

    @property
    def is_table(self) -> bool:
        return self.lines[0].lstrip().startswith("|")

    @property
    def prose(self) -> str:
        """Its text, with blanks for what is not prose, so that places in it are places in the text."""
        text = "\n".join(self.lines)
        text = re.sub(r"(?<=\])\([^)]*\)|<!--.*?-->|https?://\S+", blank, text, flags=re.S)
        return CODE.sub(blank, text)

    def numbers(self) -> list[re.Match[str]]:
        """Numbers that need a claim, in order."""
        prose = NAMES.sub(blank, ITEM.sub(blank, self.prose))
        digits = [found for found in NUMBER.finditer(prose) if not self.is_setting(prose, found)]
        return sorted([*digits, *WORDED.finditer(prose)], key=lambda found: found.start())

    @property
    def has_number(self) -> bool:
        """Whether a number stands in it that is no name, settings among them."""
        return bool(NUMBER.search(NAMES.sub(blank, self.prose)))

    def is_setting(self, prose: str, found: re.Match[str]) -> bool:
        """Whether the number stands in the section's code, and has no unit of measurement."""
        if re.match(rf"[\s-]*(?:{UNIT}|±)", prose[found.end() :]) or re.search(r"[±−+]\s*$", prose[: found.start()]):
            return False
        return bool(re.search(rf"(?<![\w.]){re.escape(found[0].replace(',', ''))}(?![\w.]*\d)", self.section))

    def words(self) -> list[str]:
        """Strong words that need a claim."""
        return [found[0] for found in STRONG.finditer(self.prose)]


def blank(found: re.Match[str]) -> str:
    """As many blanks, and all line ends."""
    return re.sub(r"[^\n]", " ", found[0])


def without_code(text: str) -> str:
    """A page's text with blanks for blocks of code, their comments, formulas and headings."""
    text = re.sub(r"^(?:<!-- (?!claim:)[^>]*-->\n)?[ ]*(```|~~~).*?^[ ]*\1", blank, text, flags=re.M | re.S)
    text = re.sub(r"^\$\$.*?\$\$", blank, text, flags=re.M | re.S)
    return re.sub(r"^(?:#.*|\|[ \-|:]+)$", blank, text, flags=re.M)


def blocks(text: str, page: str = "") -> Iterator[Block]:
    """The blocks of a page."""
    current: Block | None = None
    section, lines = "", without_code(text).splitlines()
    whole = text.splitlines()
    heads = [place for place, line in enumerate(whole) if line.startswith("#") and not lines[place].strip()]
    sections = {place: "\n".join(whole[a:b]) for a, b in zip([0, *heads], [*heads, len(whole)], strict=True)
                for place in range(a, b)}  # fmt: skip
    for place, line in enumerate(lines):
        if mark := MARK.match(line):
            if current is not None:
                current.keys += tuple(re.split(r",\s*", mark[1]))
            continue
        starts = not line.strip() or ITEM.match(line)
        starts = starts or (current is not None and line.lstrip().startswith("|") != current.is_table)
        if starts or current is None or current.keys:
            if current is not None and line.strip() == "" and whole[place].startswith("|"):
                continue  # the line under a table's head
            if current is not None:
                yield current
            current = None
        if line.strip():
            if current is None:
                section = "\n".join(code_of(sections.get(place, "")))
                current = Block(place + 1, [], section=section, page=page, page_text=text)
            current.lines.append(line)
    if current is not None:
        yield current


def code_of(section: str) -> Iterator[str]:
    """Blocks of code, and what stands in backticks."""
    yield from re.findall(r"^[ ]*```.*?^[ ]*```", section, re.M | re.S)
    yield from re.findall(r"`[^`\n]+`", section)


def pages() -> list[Path]:
    """README, tutorials, how-tos, experiments, and the READMEs of results that name claims."""
    folders = [ROOT / "docs" / name for name in ("tutorials", "how-to", "experiments")]
    studies = (path for path in sorted(ROOT.glob("results/*/README.md")) if "<!-- claim: " in path.read_text())
    return [ROOT / "README.md", *(path for folder in folders for path in sorted(folder.rglob("*.md"))), *studies]
