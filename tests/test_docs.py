"""The documentation, executed as written.

Every block of a page that is marked ``bash`` or ``python`` runs, in order, in one folder with the shipped scenarios;
``text`` is what the command before it printed, ``yaml`` a valid scenario, and a block that begins with a file's name is
that file. A block may say why it is not run: ``<!-- not run: 80 minutes, CIFAR-10 -->``.
"""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas
import pytest
from page import blocks

from simfl.opening import Result
from simfl.registry import FAMILIES, Registry
from simfl.run import run
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent.parent
DOCS = HERE / "docs"
PAGES = sorted(path.stem for path in DOCS.glob("*.md") if any(block[0] for block in blocks(path.read_text())))
OWN = {"index", "notebook"} | {"how-to-extend", "how-to-report", "fedbuff", "tutorial-own-policy"}
"""Executed when the site is built; by tests of their own."""


@pytest.fixture(scope="module")
def player():
    """A process that has imported what pages need, and plays each in a fork of its own."""
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    with subprocess.Popen([sys.executable, HERE / "tests/page.py"], env=environment, preexec_fn=one_core, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # fmt: skip
        yield process
        process.stdin.close()


@pytest.fixture
def played(player, tmp_path):
    def play(page):
        (tmp_path / "scenarios").symlink_to(HERE / "scenarios")
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
    folder = played("how-to-report")
    for name in ("comparison.html", "privacy.pdf", "privacy.csv", "accuracy.svg", "accuracy.csv"):
        assert (folder / name).stat().st_size > 500


def test_the_page_on_fedbuff_trains(played):
    (folder,) = (played("fedbuff") / "results/fedbuff").iterdir()
    summary = Result.open(folder).summary
    assert summary["test_accuracy"] >= 0.9 and summary["privacy_weak_lower"] == 4


def test_the_examples_of_plugins_run_and_do_what_they_say(played, tmp_path):
    played("how-to-extend")
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
    assert clients("relay").tolist() == [0, 1]
    assert clients("lowest").tolist() == [0, 1, 2, 0, 1, 2]
    assert rounds("smallest_sum")["privacy_weak_upper"].tolist() == [4, 4]
    assert rounds("smallest_sum")["appearances_max"].tolist() == [1, clients("smallest_sum").value_counts().max()]
    assert rounds("fresh")["staleness_max"].tolist() == [0, 0, 0]


def test_the_page_on_plugins_has_a_short_example_of_every_family():
    import simfl.agents  # noqa: F401  # with the scenario's, these are all families
    import simfl.scenario  # noqa: F401

    text = (DOCS / "how-to-extend.md").read_text()
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


def test_links_between_pages_lead_somewhere():
    for path in (*DOCS.glob("*.md"), HERE / "README.md"):
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text()):
            if "://" not in target and not target.startswith("generated/"):
                assert (path.parent / target).exists(), (path.name, target)


def test_the_readme_lists_every_command():
    from simfl.cli import COMMANDS

    listed = re.findall(r"^\| `simfl (\w+)", (HERE / "README.md").read_text(), re.M)
    assert sorted(listed) == sorted(COMMANDS)


def test_the_citation_names_this_version():
    import yaml

    from simfl.version import VERSION

    citation = yaml.safe_load((HERE / "CITATION.cff").read_text())
    assert citation["version"] == VERSION and citation["license"] in (HERE / "setup.cfg").read_text()
    assert citation["cff-version"] == "1.2.0" and citation["authors"] and citation["message"] and citation["title"]
