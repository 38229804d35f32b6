"""The documentation, executed as written.

Every block of a page that is marked ``bash`` or ``python`` runs, in order, in one folder with the shipped scenarios;
``text`` is what the command before it printed, ``yaml`` a valid scenario, and a block that begins with a file's name is
that file. A block may say why it is not run: ``<!-- not run: 80 minutes, CIFAR-10 -->``.
"""

import ast
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas
import pytest
from click.testing import CliRunner

from simfl.api.result_objects import Result
from simfl.cli import simfl as cli
from simfl.core.registration.family_index import FAMILIES
from simfl.core.registration.registry import Registry
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.support.page import blocks
from tests.whole.test_architecture import LAYERS

HERE = Path(__file__).resolve().parents[2]
DOCS = HERE / "docs"
WRITTEN = [path for path in sorted(DOCS.rglob("*.md")) if path.parent.name != "generated"]
PAGES = [path.relative_to(DOCS).with_suffix("").as_posix() for path in WRITTEN
         if any(block[0] for block in blocks(path.read_text()))]  # fmt: skip
PLUGINS = [page for page in PAGES if page.startswith("how-to/extend") and page != "how-to/extend-scenarios"]
OWN = {"index", "tutorials/notebook", "tutorials/own-policy", "how-to/report", "how-to/fedbuff", *PLUGINS}
"""Executed when the site is built; by tests of their own."""


@pytest.fixture(scope="module")
def player():
    """A process that has imported what pages need, and plays each in a fork of its own."""
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    with subprocess.Popen([sys.executable, HERE / "tests/support/page.py"], env=environment, preexec_fn=one_core,
                          text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # fmt: skip
        yield process
        process.stdin.close()


@pytest.fixture
def played(player, tmp_path):
    def play(page):
        for name in ("scenarios", "docs"):
            if not (tmp_path / name).exists():
                (tmp_path / name).symlink_to(HERE / name)
        print(DOCS / f"{page}.md", tmp_path, sep="\t", file=player.stdin, flush=True)
        status = player.stdout.readline()
        assert status == "0\n", f"{page}.md\n{(tmp_path / 'page.log').read_text()[-4000:]}"
        return tmp_path

    return play


def one_core():
    """One core, hence one worker: most of the time here goes into starting workers."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


@pytest.mark.parametrize("page", [page for page in PAGES if page not in OWN])
def test_every_block_of_the_page_runs(page, played):
    played(page)


def test_the_page_on_reports_leaves_what_it_says(played):
    folder = played("how-to/report")
    for name in ("comparison.html", "privacy.pdf", "privacy.csv", "accuracy.svg", "accuracy.csv"):
        assert (folder / name).stat().st_size > 500


def test_the_page_on_fedbuff_trains(played):
    (folder,) = (played("how-to/fedbuff") / "results/fedbuff").iterdir()
    summary = Result.open(folder).summary
    assert summary["test_accuracy"] >= 0.9 and summary["privacy_weak_lower"] == 4


def test_the_examples_of_plugins_run_and_do_what_they_say(played, tmp_path):
    for page in sorted(PLUGINS, key=len):  # the first one has their scenario
        played(page)
    found = {}
    for folder in (tmp_path / "results/small").iterdir():  # read as files: their plugins stay out of this process
        chosen = (folder / "scenario.yaml").read_text().split("plugins:")[0]
        found |= {name: folder for name in re.findall(r"name: (\w+)", chosen)}

    def rounds(name):
        return pandas.read_csv(found[name] / "rounds.csv")

    def clients(name):
        return pandas.read_csv(found[name] / "participation.csv")["client"]

    plain = run(Scenario.load(tmp_path / "small.yaml"), tmp_path / "plain").path
    for name in ("by_hand", "two_phases"):
        np.testing.assert_allclose(np.load(found[name] / "model.npy"), np.load(plain / "model.npy"), atol=1e-5)
        np.testing.assert_allclose(
            rounds(name)["train_loss"], pandas.read_csv(plain / "rounds.csv")["train_loss"], 1e-4
        )
    assert clients("relay").tolist() == [0, 1, 1, 2]
    assert clients("lowest").tolist() == [0, 1, 2, 0, 1, 2]
    assert rounds("smallest_sum")["privacy_weak_upper"].tolist() == [4, 4]
    assert rounds("smallest_sum")["appearances_max"].tolist() == [1, clients("smallest_sum").value_counts().max()]
    assert rounds("fresh")["staleness_max"].tolist() == [0, 0, 0]


def test_the_pages_on_plugins_have_a_short_example_of_every_family():
    import simfl.agents  # noqa: F401  # with the scenario's, these are all families
    import simfl.scenario  # noqa: F401

    text = "\n".join((DOCS / f"{page}.md").read_text() for page in PLUGINS)
    code = [code for language, code, why in blocks(text) if language == "python" and not why]
    shown = set()
    for block in code:
        assert sum(bool(line.strip()) for line in block.splitlines()) < 30, block
        for module, names in re.findall(r"^from (simfl\S*) import (.+)$", block, re.M):
            for name in names.split(", "):
                found = getattr(import_module(module), name, None)
                if isinstance(found, Registry) and f"@{name}(" in block:
                    shown.add(found.family)
    assert shown == set(FAMILIES) and "@figure(" in text


def test_what_is_not_run_says_why_and_names_what_is_there():
    for page in PAGES:
        for _, code, _ in blocks((DOCS / f"{page}.md").read_text()):
            for script in re.findall(r"^python (\S+\.py)", code, re.M):
                assert (HERE / script).is_file(), (page, script)
            for scenario in re.findall(r"scenarios/\w+\.yaml", code):
                assert (HERE / scenario).is_file(), (page, scenario)
    text = "".join((DOCS / f"{page}.md").read_text() for page in PAGES)
    reasons = re.findall(r"^<!-- not run(.*)-->\n```", text, re.M)
    assert reasons and all(re.fullmatch(r": \S.{5,} ", reason) for reason in reasons)
    assert text.count("<!-- not run") == len(reasons)


def test_the_output_in_the_readme_is_that_of_its_command(tmp_path):
    (shown,) = (text for language, text, _ in blocks((HERE / "README.md").read_text()) if language == "text")
    words = ["run", "scenarios/quickstart.yaml", "--out", str(tmp_path)]
    printed = CliRunner().invoke(cli, words, catch_exceptions=False).stdout.splitlines()
    assert len(shown.splitlines()) == 6
    for line, real in zip(shown.splitlines(), printed, strict=False):
        name, value, rest = line.split(maxsplit=2)
        near = 0.03 if name == "test_accuracy" else 0  # processors round differently
        assert (name, rest) == tuple(real.split(maxsplit=2)[::2])
        assert abs(float(real.split()[1]) - float(value)) <= near, name


def rounds_s(result, count):
    """When so many rounds had ended."""
    return result.rounds.time_s[count - 1]


def test_the_python_of_the_readme_runs_and_learns(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, agent = (code for language, code, _ in blocks((HERE / "README.md").read_text()) if language == "python")
    variables = {}
    exec(compile(code, "README.md", "exec"), variables)
    words = [sys.executable, "-c", f"import simfl\n{agent}"]  # where its agent is registered, and nowhere else
    said = subprocess.run(words, env=os.environ | {"PYTHONPATH": str(HERE)}, capture_output=True, text=True, check=True)
    assert float(said.stdout) > rounds_s(variables["result"], 5), "naps take time"
    rounds = variables["result"].rounds
    assert len(rounds) == 20 and rounds.time_s.is_monotonic_increasing and rounds.time_s[0] > 0
    assert rounds.test_accuracy.iloc[-1] > 0.9  # the labels are a half-space of the samples
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["time_s", "test_accuracy", "privacy_weak_lower"] and len(printed) == 6


def test_links_between_pages_lead_somewhere():
    for path in (*WRITTEN, HERE / "README.md", HERE / "CONTRIBUTING.md", *HERE.glob("results/**/README.md")):
        for target, heading in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", path.read_text()):
            if "://" not in target and "generated/" not in target:
                file = path.parent / target if target else path
                assert file.exists(), (str(path), target)
                assert not heading or heading in anchors(file), (str(path), target, heading)


def anchors(page):
    """What may stand behind the ``#`` of a link to a page: its headings, as GitHub and the site write them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    texts = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in texts}


def test_the_page_on_the_architecture_has_the_layers():
    text = (DOCS / "explanation/architecture.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.M)
    drawn = re.findall(r"^ *(\d+) ((?:  +\w+)+?)(?:  {4}.*)?$", text, re.M)
    layers = [(str(len(LAYERS) - i), package) for i, layer in enumerate(LAYERS) for package in sorted(layer)]
    assert sorted(rows) == sorted(layers)
    assert sorted((number, package) for number, names in drawn for package in names.split()) == sorted(layers)


def test_the_page_on_the_architecture_names_what_is_there():
    """Every row of its tables that begins with a step: the file, and in it the functions and methods of the row."""
    text = (DOCS / "explanation/architecture.md").read_text()
    rows = re.findall(r"^\| \d+ \| `(simfl/\S+\.py)` \| (.+?) \|", text, re.M)
    assert len(rows) > 30
    for file, names in rows:
        tree = ast.parse((HERE / file).read_text())
        owners = [("", tree), *((f"{node.name}.", node) for node in tree.body if isinstance(node, ast.ClassDef))]
        defined = {prefix + node.name for prefix, owner in owners for node in owner.body if hasattr(node, "name")}
        assert set(re.findall(r"`([\w.]+)`", names)) <= defined, file
    for test in re.findall(r"`(test_\w+)`", text):
        assert any(f"def {test}(" in path.read_text() for path in HERE.glob("tests/*/test_*.py")), test


@pytest.mark.parametrize("word", [
    "gossip", "straggler", "over-selection", "dropout", "staleness", "non-IID", "personalisation", "secure aggregation",
    "differential privacy", "client drift", "heterogeneity", "cross-device", "cross-silo",
])  # fmt: skip
def test_the_concepts_explain_the_words_of_the_field(word):
    text = " ".join((DOCS / "explanation/concepts.md").read_text().split())
    assert word.lower() in text.replace("*", "").lower()


def test_the_page_of_commands_lists_every_command():
    from simfl.cli import COMMANDS, INSIDE, others

    names = {*COMMANDS, *(" ".join(words) for words in INSIDE), *others().entries}
    listed = re.findall(r"^\| `simfl ([\w -]+?)(?: [A-Z\[]|`| -o)", (DOCS / "reference/commands.md").read_text(), re.M)
    assert sorted(listed) == sorted(names)


def test_the_citation_names_this_version():
    import yaml

    from simfl.core.version import VERSION

    citation = yaml.safe_load((HERE / "CITATION.cff").read_text())
    assert citation["version"] == VERSION and citation["license"] in (HERE / "setup.cfg").read_text()
    assert citation["cff-version"] == "1.2.0" and citation["authors"] and citation["message"] and citation["title"]
