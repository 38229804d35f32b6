"""What README, tutorials, how-tos, experiments and results say, held against its evidence: docs/claims.yaml.

    python docs/site/claims.py              # complaints; exit code 1 if there are any
    python docs/site/claims.py --write      # numbers in the texts from their places
    python docs/site/claims.py --store STUDY ...   # after a study has been played again

The comment under a block of a page names its claims (prose.py says what needs one). A claim is *proven*, by tests
(that hold the sentence or its number against the program) or by a page with the proof; or *measured*, in a study:
files of results/, values by seed (``raw``), the command that made them, and the results version at which they hold.
Its ``numbers`` are places (claim_places.py), all numbers of the block in their order; or ``tests`` hold them against
the files. ``compare`` is what a comparing word rests on: an interval, and a margin where it says that there is no
difference. A study from before this rule may have no values by seed; then ``to_store`` says what storing them costs,
and the page that they are not stored.

A study is *stale* once the contents of its files, its command (without folders), the results version or, of speeds, the
benchmark have changed: its digest ``stored`` is of them all. Folders count for nothing.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path

import pandas
import yaml
from claim_places import looked_up, texts
from prose import ROOT, Block, blocks, pages

from simfl.core.version import RESULTS

REGISTRY = ROOT / "docs" / "claims.yaml"
UP = r"more accurate|ahead|higher|above|more|longer|slower|larger|greater"
ALIKE = r"no difference|no significant difference|as accurate|equally accurate|the same"
COMPARING = re.compile(
    r"\b(?<!-)(more accurate|less accurate|ahead|behind|faster|slower|quicker|fastest|significant(?:ly)?|no difference|"
    r"equally accurate|as accurate|hardly changes?|costs? nothing)\b",
    re.I,
)
"""Words of a measured block that need an interval."""
NOT_STORED = "values by seed are not stored"


def registry() -> Mapping[str, Mapping[str, dict]]:
    """Studies and claims."""
    return yaml.safe_load(REGISTRY.read_text())


@cache
def files_of(name: str) -> tuple[Path, ...]:
    """Files with this name below results/, benchmarks/ and docs/."""
    return tuple(path for folder in ("results", "benchmarks", "docs") for path in (ROOT / folder).rglob(name))


def located(path: str) -> Path:
    """A file of the repository, also after it was moved."""
    if (ROOT / path).is_file():
        return ROOT / path
    found = files_of(Path(path).name)
    if len(found) != 1:
        raise LookupError(f"{path} is not there")
    return found[0]


def statements(script: Path) -> str:
    """What a script does: without comments, docstrings and imports, which moves of modules change."""
    tree = ast.parse(script.read_text())
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [each for each in body if not isinstance(each, ast.Import | ast.ImportFrom)
                         and not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]  # fmt: skip
    return ast.dump(tree)


def digest(study: Mapping) -> str:
    """Of all that makes a study stale when it changes."""
    contents = [sha256(located(path).read_bytes()).hexdigest() for path in study["files"]]
    if "benchmark" in study:
        contents.append(sha256(statements(located(study["benchmark"])).encode()).hexdigest())
    command = re.sub(r"\S*/(?=[\w.]+)", "", study["command"])
    return sha256("\n".join([*sorted(contents), command, str(study["holds_at"])]).encode()).hexdigest()[:12]


def study_complaints(name: str, study: Mapping) -> Iterator[str]:
    """What is wrong with a study."""
    try:
        if digest(study) != str(study["stored"]):  # digits alone are a number in YAML
            yield f"study {name}: stale, its files, command or benchmark have changed"
        for script in re.findall(r"\S+\.py", study["command"]):
            located(script)
    except LookupError as error:
        yield f"study {name}: {error}"
        return
    if study["holds_at"] != RESULTS:
        yield f"study {name}: stale, it holds at results version {study['holds_at']} and this is {RESULTS}"
    if study["measured_at"] != study["holds_at"] and len(study.get("because", "")) < 20:
        yield f"study {name}: measured at results version {study['measured_at']}, and why it still holds is not said"
    if "raw" not in study:
        if len(study.get("to_store", "")) < 20:
            yield f"study {name}: no values by seed, and what storing them costs is not said"
        return
    if study["raw"].endswith(".csv"):
        rows, by = pandas.read_csv(located(study["raw"])), study.get("by", "seed")
        columns = [name for name in rows if re.search(r"_seed_\d+$", name)]  # a column a seed
        if (rows[by].nunique() if by in rows else len(columns)) < study["seeds"]:
            yield f"study {name}: {study['raw']} has not {study['seeds']} values of {by}"


@cache
def defined() -> Mapping[str, tuple[str, ...]]:
    """The files in which there is a test of a name."""
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.M):
            found[name] = (*found.get(name, ()), path.relative_to(ROOT).as_posix())
    return found


def evidence_complaints(key: str, claim: Mapping, studies: Mapping) -> Iterator[str]:
    """Whether what a claim rests on is there."""
    for node in claim.get("tests", ()):
        file, _, function = node.partition("::")
        there = defined().get(function, ())
        if file not in there and len(there) != 1:  # a test may move, if no other has its name
            yield f"claim {key}: no test {node}"
    for page in claim.get("pages", ()):
        if not (ROOT / page).is_file():
            yield f"claim {key}: no page {page}"
    if claim["kind"] == "measured":
        if claim.get("study") not in studies:
            yield f"claim {key}: no study {claim.get('study')}"
        if not claim.get("tests") and "numbers" not in claim and "compare" not in claim:
            yield f"claim {key}: measured, and neither a place nor a test holds its numbers"
    elif claim["kind"] != "proven":
        yield f"claim {key}: {claim['kind']} is no kind; a claim is proven or measured"
    elif not any(claim.get(each) for each in ("tests", "pages", "numbers")):
        yield f"claim {key}: proven, and nothing proves it"


def compared_complaints(key: str, claim: Mapping, block: Block) -> Iterator[str]:
    """Whether the interval of a comparison carries its words."""
    text = re.sub(r"\s+", " ", block.prose)
    for compare in claim.get("compare", ()):
        word, none = compare["word"], float(compare.get("none", 0))
        low, high = (looked_up(place)[0] for place in compare["interval"])
        if not re.search(rf"\b{re.escape(word)}\b", text):
            yield f"claim {key}: {block.page}:{block.line} does not say {word!r}"
        if compare.get("margin"):
            if not none - float(compare["margin"]) < low <= high < none + float(compare["margin"]):
                yield f"claim {key}: {low:g} to {high:g} is not within {compare['margin']} of {none:g}: not {word!r}"
        elif re.search(ALIKE, word):
            yield f"claim {key}: {word!r} needs a margin"
        elif not (low > none or high < none):
            yield f"claim {key}: {low:g} to {high:g} contains {none:g}: not {word!r}"
        elif compare.get("is", "above" if re.search(UP, word) else "below") != ("above" if low > none else "below"):
            yield f"claim {key}: {low:g} to {high:g} is on the other side of {none:g}: not {word!r}"


def expectation(claims: list[Mapping], studies: Mapping) -> list[tuple[str | None, float]]:
    """The numbers of the claims of a block, by their places."""
    seeds = [studies.get(claim.get("study"), {}).get("seeds") for claim in claims]
    return [
        each for claim, number in zip(claims, seeds, strict=True) for each in texts(claim.get("numbers", ()), number)
    ]


def block_complaints(block: Block, known: Mapping) -> Iterator[str]:
    """What is wrong with what a block of a page says."""
    place, claims, studies = f"{block.page}:{block.line}", known["claims"], known["studies"]
    for key in set(block.keys) - set(claims):
        yield f"{place}: no claim {key} in docs/claims.yaml"
    mine = [claims[key] for key in block.keys if key in claims]
    found = block.numbers()
    numbers = [each[0] for each in found]
    if not block.keys:
        if block.is_table and block.has_number:
            yield f"{place}: a table with numbers and no claim"
        elif not block.is_table and (numbers or block.words()):
            yield f"{place}: {', '.join([*numbers, *block.words()])}: no claim"
        return
    if any("numbers" in claim for claim in mine) and not block.is_table:
        expected = expectation(mine, studies)
        signs = [re.search(r"(?<![\w)])[-−+]$", block.prose[: each.start()]) for each in found]
        if [text or number for (text, _), number in zip_longest(expected, numbers, fillvalue=("?", 0))] != numbers:
            yield f"{place}: says {', '.join(numbers)}; its places {', '.join(str(text) for text, _ in expected)}"
        elif any(sign and text and (value < 0) != (sign[0] in "-−")
                 for (text, value), sign in zip(expected, signs, strict=True)):  # fmt: skip
            yield f"{place}: a sign is not that of its place"
    for key, claim in zip(block.keys, mine, strict=False):
        yield from compared_complaints(key, claim, block)
    measured = [claim for claim in mine if claim["kind"] == "measured"]
    carried = [compare["word"] for claim in mine for compare in claim.get("compare", ())]
    words = [] if block.is_table else [word for word in COMPARING.findall(re.sub(r"\s+", " ", block.prose))
                                       if not any(word in each for each in carried)]  # fmt: skip
    if measured and words and not any(claim.get("tests") for claim in mine):
        yield f"{place}: {', '.join(words)}: no interval"
    for claim in measured:
        if "raw" not in studies[claim["study"]] and NOT_STORED not in " ".join(block.page_text.split()):
            yield f"{place}: no values by seed, and the page does not say so"


def read(path: Path) -> list[Block]:
    """The blocks of a page."""
    return list(blocks(path.read_text(), path.relative_to(ROOT).as_posix()))


def complaints(known: Mapping | None = None, found: list[Block] | None = None) -> Iterator[str]:
    """All that is wrong."""
    known = registry() if known is None else known
    found = [block for path in pages() for block in read(path)] if found is None else found
    for name, study in known["studies"].items():
        yield from study_complaints(name, study)
    for key, claim in known["claims"].items():
        yield from evidence_complaints(key, claim, known["studies"])
    for key in set(known["claims"]) - {key for block in found for key in block.keys}:
        yield f"claim {key}: no page has it"
    for block in found:
        try:
            yield from block_complaints(block, known)
        except LookupError as error:
            yield f"{block.page}:{block.line}: {error}"


def rewritten(path: Path, known: Mapping) -> str:
    """A page whose numbers are those of their places."""
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    for block in read(path):
        expected = expectation([known["claims"][key] for key in block.keys], known["studies"])
        numbers = block.numbers()
        if block.is_table or len(expected) != len(numbers):
            continue
        whole = "\n".join(block.lines)
        for found, (new, _) in reversed(list(zip(numbers, expected, strict=True))):
            whole = whole[: found.start()] + (new or found[0]) + whole[found.end() :]
        for place, line in enumerate(whole.split("\n")):
            lines[block.line - 1 + place] = line + "\n"
    return "".join(lines)


def store(names: list[str]) -> None:
    """New digests of studies that were played again."""
    text = REGISTRY.read_text()
    for name in names:
        new = digest(registry()["studies"][name])
        text, count = re.subn(
            rf"(^  {re.escape(name)}:\n(?:    .*\n)*?    stored: )\S+", rf"\g<1>'{new}'", text, flags=re.M
        )
        assert count == 1, name
    REGISTRY.write_text(text)


def main() -> None:
    if "--store" in sys.argv:
        store(sys.argv[sys.argv.index("--store") + 1 :])
    elif "--write" in sys.argv:
        for path in pages():
            path.write_text(rewritten(path, registry()))
    else:
        found = list(complaints())
        print("\n".join([*found, f"{len(found)} complaints"]))
        sys.exit(bool(found))


if __name__ == "__main__":
    main()
