"""Wherever a certificate is printed it is said whom it is against, what it protects, and what it takes for granted.

Certificates are found by the columns that describe them and by words that claim something; places are every terminal
output, page, JSON document, table and picture that a run, a comparison, a search, a log or a forecast gets.
"""

import ast
import json
import re
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from rich.console import Console

import simfl
from simfl.cli import simfl as command
from simfl.core.certificate_words import NOT_SERVER, SERVER_TOO
from simfl.core.columns import COLLUDER_COLUMNS, ROUND_COLUMNS, SUMMARY_COLUMNS, Column
from simfl.core.registration.family_index import FAMILIES
from simfl.deployment.forecasting.forecast_text import text as forecast_text
from simfl.privacy.ledger.ledger_scope import LEDGER_COLUMNS
from simfl.report import draw, read_study
from simfl.report.figures import NothingToDraw, figures
from simfl.report.html_page import page as report_page
from simfl.report.live.page_server import _page as live_page
from simfl.report.live.terminal import clients_table
from simfl.report.live.watched_folder import WatchedFolder

pytestmark = pytest.mark.usefixtures("sweeps_here")

HOME = Path(simfl.__file__).parent
NAMED = re.compile(r"privacy_(strong|semi_strong|weak)|guarantee_|epsilon|mu_|tolerated")
"""How certificates are called."""

SUMS = "(if only sums are seen)"
CASE = "worst case"
CLAIM = re.compile(r"exposed\b|reconstruct|can compute|single out|own update away|narrow (some|no)thing|gets no sum|"
                   r"\bT = \d|guarantee .*(ends|holds|keeps)", re.IGNORECASE)  # fmt: skip
"""Words that claim something of what an observer can learn, or cannot."""

NO_CLAIM = re.compile(r"beyond the budget|nobody hides|hides anybody")
SHORT = 8
"""Words up to which a line is a heading, a label or a row of a table, for which the whole text is looked at."""

PROTOCOLS = ("ideal", "plain", "secagg")
SCENARIO = """
name: words
clients: 6
selection: {{name: {policy}}}
training: {{name: fedavg, rounds: 9, weighting: equal}}
learning: none
secagg: {secagg}
privacy: {{name: multi_round, every: 1, colluders: 1, {more}}}
"""
NOISY = "ledger: true, accountants: [zero_out], stages: [{name: clipping, norm: 1.0}, {name: central_gaussian}]"
SILENT = "ledger: false"
POLICIES = {"random": "random, k: 3", "batch_partition": "batch_partition, k: 4, T: 2"}


class Printed(NamedTuple):
    """A text that a user meets: where, what, and under which protocol; None = of a log."""

    place: str
    text: str
    secagg: str | None


def cli(*words: object) -> str:
    result = CliRunner().invoke(command, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code in (0, 3), result.output
    return result.stdout


def in_words(html: str) -> str:
    """The text of a page, an element a line, and a picture a line; what stands in titles, too."""
    html = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    titles = re.findall(r'(?:title|aria-label)="([^"]*)"', html)
    html = re.sub(r"<svg\b.*?</svg>", lambda svg: f"<p>{re.sub('<[^>]*>', ' ', svg[0])}</p>", html, flags=re.DOTALL)
    html = re.sub(r"\s*\n\s*", " ", html)
    html = re.sub(r"</?(p|li|td|th|dd|dt|div|h\d|figcaption|summary|tr)\b[^>]*>", "\n", html)
    lines = [re.sub(r"<[^>]*>", "", line) for line in [*html.splitlines(), *titles]]
    return unescape("\n".join(" ".join(line.split()) for line in lines if line.strip()))


def in_picture(fig: object) -> str:
    """Every text of a figure; a wrapped one in a line."""
    from matplotlib.text import Text

    return "\n".join(" ".join(text.get_text().split()) for text in fig.findobj(Text) if text.get_text())


def pictures(folder: Path, secagg: str | None) -> Iterator[Printed]:
    study = read_study([folder])
    for kind in figures():
        try:
            fig, _ = draw(kind.name, study)
        except NothingToDraw:
            continue
        yield Printed(f"figure {kind.name} of {folder.parent.name}/{folder.name}", in_picture(fig), secagg)


PLAYED = [("ideal", "random", NOISY), ("ideal", "batch_partition", SILENT), ("plain", "random", SILENT),
          ("secagg", "random", NOISY), ("secagg", "batch_partition", SILENT)]  # fmt: skip


def svg_of_words(words: str) -> bytes:
    """A picture with the words of a figure and nothing else; to draw it takes half of the time of all of this."""
    return f'<svg viewBox="0 0 1 1"><text>{escape(words)}</text></svg>'.encode()


@pytest.fixture(scope="module")
def module_patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def printed(tmp_path_factory, module_patch) -> list[Printed]:
    found = []
    module_patch.setattr("simfl.report.svg.picture", lambda fig, format: svg_of_words(in_picture(fig)))
    for secagg, policy, more in PLAYED:
        home = tmp_path_factory.mktemp(f"{secagg}-{policy}")
        file = home / "words.yaml"
        file.write_text(SCENARIO.format(policy=POLICIES[policy], secagg=secagg, more=more))
        found += of_scenario(file, home / "out", secagg, deep=secagg == "ideal")
    return [*found, *of_logs(tmp_path_factory.mktemp("logs"))]


def of_scenario(file: Path, out: Path, secagg: str, deep: bool) -> Iterator[Printed]:
    where = f"{file.parent.name}"
    noisy = "central_gaussian" in file.read_text()
    run = Path(cli("run", file, "--out", out, "-q").strip())
    yield Printed(f"{where}: run", cli("run", file, "--out", out, "-v"), secagg)
    asked = [*(["--epsilon", "1"] if noisy else []), "--colluders", "1"]
    yield Printed(f"{where}: theory", cli("theory", file, *asked), secagg)
    yield Printed(f"{where}: report", in_words(report_page(read_study([run]))), secagg)
    yield Printed(f"{where}: notebook", in_words(simfl.open(run)._repr_html_()), secagg)
    yield Printed(f"{where}: notebook of a study", in_words(read_study([run])._repr_html_()), secagg)
    yield from pictures(run, secagg)
    if not deep:
        return
    state = WatchedFolder(run).look()
    yield Printed(
        f"{where}: watch", "\n".join([*(c["heading"] for c in state["columns"]), *state.get("bases", ())]), secagg
    )
    varied = "selection.k=3,4" if "random, k" in file.read_text() else "selection.mode=uniform,fair"
    cli("compare", file, varied, "--replications", 2, "--out", out, "-q")
    (compared,) = (out / "words").glob("compare-*")
    yield Printed(f"{where}: compare", "\n".join(shown(simfl.open(compared).show)), secagg)
    yield Printed(f"{where}: report of compare", in_words(report_page(read_study([compared]))), secagg)
    yield Printed(f"{where}: notebook of compare", in_words(simfl.open(compared)._repr_html_()), secagg)
    tex = re.sub(r"\\(?=[_%{}&])", "", simfl.open(compared).latex())
    yield Printed(f"{where}: latex", " ".join(tex.replace("caption{", "\n").split()), secagg)
    yield from pictures(compared, secagg)
    goal = "epsilon_max" if noisy else "privacy_strong"
    sought = cli("search", file, varied, "--minimise", goal, "--runs", 2, "--out", out)
    yield Printed(f"{where}: search", sought, secagg)
    (searched,) = (out / "words").glob("search-*")
    yield Printed(f"{where}: notebook of search", in_words(simfl.open(searched)._repr_html_()), secagg)


def shown(print_it) -> list[str]:
    from contextlib import redirect_stdout
    from io import StringIO

    with redirect_stdout(StringIO()) as out:
        print_it()
    return out.getvalue().splitlines()


LOGS = {
    "open": ["ab", "bc", "ac", "ad"],
    "closed": ["ab", "cd", "ab", "cd"],
    "mixed": ["ab", "cde", "ab", "de"],
}


def of_logs(home: Path) -> Iterator[Printed]:
    from simfl.deployment.audit.audit_report import audit
    from simfl.deployment.audit.page import drawing
    from simfl.deployment.audit.reading import read
    from simfl.deployment.forecasting.forecast_result import forecast
    from simfl.deployment.forecasting.past import read_past

    for name, rounds in LOGS.items():
        file = home / f"{name}.csv"
        lines = [f"{t},{client}" for t, clients in enumerate(rounds) for client in clients]
        file.write_text("\n".join(["round,client", *lines]) + "\n")
        more = ["--html", home / f"{name}.html", "--noise", "central_gaussian", "--ledger"]
        yield Printed(f"{name}: audit", cli("audit", file), None)
        yield Printed(f"{name}: audit with colluders", cli("audit", file, "--colluders", 1), None)
        yield Printed(f"{name}: audit with noise", cli("audit", file, *more), None)
        yield Printed(f"{name}: page of audit", in_words((home / f"{name}.html").read_text()), None)
        log = read(file)
        yield Printed(f"{name}: figure of audit", in_picture(drawing(audit(log.matrix, log.rounds, log.clients))), None)
        of = forecast(read_past(file), ["batch_partition:k=2,T=2"], horizon=4, futures=4, guarantees=2)
        yield Printed(f"{name}: forecast", forecast_text(of), None)
        yield Printed(f"{name}: page of forecast", in_words(of.html()), None)
        yield Printed(f"{name}: figure of forecast", in_picture(of.figure()), None)
    yield Printed("live page", in_words(live_page()), None)
    with (home / "null").open("w") as null:
        console = Console(width=1000, record=True, file=null)
        one = {"client": 0, "name": "", "samples": 1, "rounds": 1, "unit": [], "exposed": 0, "unknown_after": None}
        console.print(clients_table([one]))
        yield Printed("watch in the terminal", " ".join(console.export_text().split()), None)


def certificates() -> dict[str, Column]:
    """Every column of simfl that is a certificate by what it is called, of whatever plugin."""
    listed = [*ROUND_COLUMNS, *SUMMARY_COLUMNS, *COLLUDER_COLUMNS, *LEDGER_COLUMNS]
    for family in FAMILIES.values():
        for cls in family.values():
            columns = getattr(cls, "columns", ())
            listed += [column for column in columns if isinstance(column, Column)] if isinstance(columns, tuple) else []
    return {column.name: column for column in listed if NAMED.match(column.name)}


def test_every_certificate_says_whom_it_is_against_what_it_protects_and_what_it_takes_for_granted():
    found = certificates()
    assert {"privacy_strong", "guarantee_weak", "epsilon_max", "epsilon_pld", "epsilon_rdp", "epsilon_weight",
            "epsilon_model", "mu_alone", "privacy_weak_lower_colluders",
            "tolerated_colluders"} <= found.keys()  # fmt: skip
    for column in found.values():
        assert column.observer and column.protects and column.assumes, column.name
        if re.match("privacy_|guarantee_|mu_alone", column.name):
            assert CASE in column.assumes and "server" in column.observer + column.sentence, column.name


def names_in(text: str, column: Column) -> list[str]:
    """How a text calls a column, if it does."""
    words = r"(?<![\w-]){}(?![\w-]|, any number|, colluders|, at most)"
    return [name for name in (column.name, column.heading) if re.search(words.format(re.escape(name)), text)]


def test_beside_every_certificate_stands_what_it_says(printed):
    """A line that begins with what the column is called, and goes on with its basis."""
    seen, known = set(), certificates()
    wrong = []
    for place, text, secagg in printed:
        for column in known.values() if secagg else ():
            for name in names_in(text, column):
                whom = [column.observer, *([NOT_SERVER, SERVER_TOO] if column.name.startswith("epsilon") else [])]
                beside = [line for line in text.splitlines()
                          if name in line and any(f"against {each}" in line for each in whom)]  # fmt: skip
                whole = [line for line in beside if f"protects {column.protects}" in line
                         and all(each in line for each in column.assumes.split("; "))]  # fmt: skip
                if not whole or any(SUMS in line for line in whole) != (secagg == "ideal"):
                    wrong.append((place, name, beside[:1]))
                seen.add(column.name)
    assert not wrong, wrong[:10]
    assert {"privacy_strong", "privacy_weak_lower", "guarantee_semi_strong", "epsilon_max", "mu_alone",
            "privacy_strong_colluders"} <= seen  # fmt: skip


def test_every_claim_names_the_server_and_the_worst_case(printed):
    wrong, claims = [], 0
    for place, text, _ in printed:
        for line in text.splitlines():
            if CLAIM.search(line) and not NO_CLAIM.search(line):
                claims += 1
                beside = line if len(re.findall(r"[a-z]+", line)) > SHORT else text
                if CASE not in beside or not re.search(r"\bserver\b", beside):
                    wrong.append((place, line))
    assert claims > 50 and not wrong, wrong[:10]


def test_what_only_a_protocol_can_promise_is_said_to_be_assumed_where_there_is_none(printed):
    """Of logs always, and of runs where nothing but ``ideal`` sees to it."""
    numbers = re.compile(r"strong|epsilon|ε|exposed", re.IGNORECASE)
    relevant = [each for each in printed if numbers.search(each.text)]
    assert {each.secagg for each in relevant} == {None, *PROTOCOLS} and len(relevant) > 70
    for place, text, secagg in relevant:
        assert (SUMS in text) == (secagg in (None, "ideal")), place


def keys(document: object) -> Iterator[str]:
    if isinstance(document, dict):
        for key, value in document.items():
            yield key
            yield from keys(value)
    elif isinstance(document, list):
        for value in document:
            yield from keys(value)


@pytest.mark.parametrize("secagg", PROTOCOLS)
def test_documents_of_runs_describe_their_certificates(tmp_path, secagg):
    file, out = tmp_path / "words.yaml", tmp_path / "out"
    file.write_text(SCENARIO.format(policy=POLICIES["random"], secagg=secagg, more=NOISY))
    asked = ("--minimise", "epsilon_max", "--require", "privacy_weak>=1")
    documents = {
        "run": cli("run", file, "--out", out, "--json"),
        "theory": cli("theory", file, "--epsilon", 1, "--json"),
        "search": cli("search", file, "selection.k=3..4", *asked, "--runs", 2, "--out", out, "--json", "-q"),
    }
    for name, text in documents.items():
        document = json.loads(text)
        bases = document["certificates"]
        known = bases.keys() | {"guarantee_strong", "tolerated_colluders"} if name == "theory" else bases.keys()
        named = {key for key in keys(document) if NAMED.match(key) and key not in known}
        assert bases and not named - {"guarantee_colluders"}, (name, named)
        for key, basis in bases.items():
            assert basis["observer"] and basis["protects"] and basis["assumes"], (name, key)
            assert ("only sums are seen" in basis["assumes"]) == (secagg == "ideal"), (name, key)
    compared = json.loads(cli("compare", file, "selection.k=3,4", "--replications", 2, "--out", out, "--json", "-q"))
    for entry in compared["columns"]:
        if NAMED.match(entry["name"]):
            assert entry["observer"] and entry["protects"] and entry["assumes"], entry
            assert ("only sums are seen" in entry["assumes"]) == (secagg == "ideal"), entry
    for choice in compared["choices"]:
        assert ("only sums are seen" in choice["assumes"]) == (secagg == "ideal")


def test_documents_of_logs_take_for_granted_that_only_sums_are_seen(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("round,client\n" + "".join(f"{t},{c}\n" for t in range(4) for c in ("ab", "cd")[t % 2]))
    noise = ("--noise", "central_gaussian", "--ledger")
    for words in (("audit", file), ("audit", file, *noise), ("forecast", file, "--futures", 2, "--horizon", 2)):
        document = json.loads(cli(*words, "--json"))
        assert document["observer"] == "server" and "update" in document["protects"]
        assert "only sums are seen" in document["assumes"] and any(CASE in each for each in document["assumes"])
        for part in (document[name] for name in ("epsilon", "ledger") if name in document):
            assert part["observer"] and "only sums are seen" in part["assumes"]


def test_configurations_with_and_without_a_protocol_are_told_apart(tmp_path):
    file, out = tmp_path / "words.yaml", tmp_path / "out"
    file.write_text(SCENARIO.format(policy=POLICIES["random"], secagg="ideal", more=SILENT))
    text = cli("compare", file, "secagg=ideal,plain,secagg", "--replications", 2, "--out", out)
    (compared,) = (out / "words").glob("compare-*")
    study = read_study([compared])
    fig, _ = draw("privacy", study)
    for said in (text, in_words(report_page(study)), in_picture(fig), in_words(simfl.open(compared)._repr_html_())):
        assert f"{SUMS} is said of ideal." in said
    plain, secagg = (next(run for run in study.runs if run.scenario["secagg"]["name"] == name)
                     for name in ("plain", "secagg"))  # fmt: skip
    assert plain.finals["privacy_strong"] == 1 and not plain.takes_sums_for_granted
    assert not secagg.takes_sums_for_granted


def test_a_run_that_does_not_say_what_it_takes_for_granted_takes_the_most(tmp_path):
    """As runs of earlier versions, whose ``columns.json`` has none of it."""
    from simfl.core.column_files import columns_by_name

    old = [{"name": "privacy_strong", "heading": "Strong", "unit": "number", "sentence": "As it was."}]
    column = columns_by_name(json.dumps(old).encode())["privacy_strong"]
    assert "server" in column.observer and CASE in column.assumes and "only sums are seen" in column.assumes


UNSAID = """
from dataclasses import dataclass
from simfl.plugins import Column
from simfl.plugins.privacy import ACCOUNTANTS, Accountant

@ACCOUNTANTS("unsaid")
@dataclass(frozen=True)
class Unsaid(Accountant):
    columns = (Column("epsilon_own", "Own epsilon", "number", "Whatever it means.", -1),)

    def accounts(self, history):
        return {"epsilon_own": [0.1] * history.shape[0]}
"""


def test_an_epsilon_of_a_plugin_that_does_not_say_what_it_is_about_is_printed_as_such(tmp_path):
    (tmp_path / "unsaid.py").write_text(UNSAID)
    file = tmp_path / "words.yaml"
    file.write_text(SCENARIO.format(policy=POLICIES["random"], secagg="ideal", more="accountants: [unsaid]"))
    said = cli("run", file, "--plugin", tmp_path / "unsaid.py", "--out", tmp_path / "out", "-v")
    (line,) = (line for line in said.splitlines() if line.startswith("epsilon_own:"))
    assert "against an observer that is not said" in line and SUMS in line


def test_the_words_stand_in_one_place():
    """Strings of the code, apart from docstrings, which can hold no others."""
    words = re.compile(r"worst case|only sums are seen")
    for path in HOME.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        spelt = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in documented
                 and isinstance(node.value, str) and words.search(node.value)]  # fmt: skip
        assert not spelt or path.stem == "certificate_words", (path, spelt)
    for path in [*HOME.rglob("*.html"), *HOME.rglob("*.js")]:
        assert not words.search(path.read_text(encoding="utf-8")), path
