"""Every typical mistake of ``tests/cli/mistakes`` gets one line that names the right way, and leaves nothing behind."""

import re
import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from click.testing import CliRunner

import simfl
from simfl.cli import simfl as command
from tests.cli.mistakes import (
    BASE,
    Mistake,
    Script,
    combinations,
    command_line,
    keys,
    newer_commands,
    plugin_files,
    python_api,
    result_files,
    trial,
    yaml_text,
)

TYPED = [
    mistake
    for group in (command_line, yaml_text, keys, combinations, result_files, plugin_files, trial, newer_commands)
    for mistake in group.MISTAKES
]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A finished run, one that was interrupted and one whose table is damaged, each under that name."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "fl.yaml").write_text(BASE["fl.yaml"])
    done = simfl.run(folder / "fl.yaml", {"learning": "none"}, out=folder).path
    made = folder / "results" / "fl"
    for name in ("DONE", "OPEN", "DAMAGED"):
        shutil.copytree(done, made / name)
    (made / "OPEN" / "summary.json").unlink()
    with open(made / "DAMAGED" / "rounds.csv", "a") as table:
        table.write("1,2,3\n")
    return folder / "results"


@pytest.fixture
def folder(tmp_path, monkeypatch, results, no_plugins):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(results, tmp_path / "results")
    return tmp_path


def _laid(folder: Path, files: dict[str, str]) -> set[Path]:
    for name, text in {**BASE, **files}.items():
        (folder / name).mkdir() if text == "FOLDER" else (folder / name).write_text(text)
    return {*folder.rglob("*")}


def _has(text: str, words: Iterable[str]) -> bool:
    """Whether one line has all words; numbers and single letters stand alone."""

    def inside(word: str, line: str) -> bool:
        if len(word) < 3 and word.strip("-").isalnum():
            before = r"\w." if word[-1].isdigit() else r"\w"
            return re.search(rf"(?<![{before}]){re.escape(word)}(?!\w)", line) is not None
        return word.lower() in line.lower()

    return any(all(any(inside(each, line) for each in word.split("|")) for word in words) for line in text.split("\n"))


@pytest.mark.parametrize("mistake", TYPED, ids=lambda mistake: mistake.command)
def test_a_mistake_is_one_line_that_names_the_right_way(mistake: Mistake, folder):
    before = _laid(folder, mistake.files)
    result = CliRunner().invoke(command, shlex.split(mistake.command), prog_name="simfl")
    said = f"{result.output}\n[exit {result.exit_code}] {result.exception!r}"
    assert _has(result.output, mistake.words), said
    assert result.exit_code == mistake.code and "Traceback" not in result.output, said
    new = [path for path in {*folder.rglob("*")} - before if "__pycache__" not in path.parts]
    assert not new or result.exit_code == 1, said  # a run whose plugin fails has begun


@pytest.mark.parametrize("words", ["list selection", "schema"])
def test_list_and_schema_know_the_plugins_of_a_file(words: str, folder):
    (folder / "mine.py").write_text(plugin_files.HEAD + '@POLICIES("my_own_policy")' + plugin_files.BODY)
    assert "my_own_policy" not in CliRunner().invoke(command, words.split()).output
    result = CliRunner().invoke(command, [*words.split(), "--plugin", "mine.py"])
    assert result.exit_code == 0 and "my_own_policy" in result.output


@pytest.mark.parametrize(
    "script", [*python_api.MISTAKES, *trial.SCRIPTS, *newer_commands.SCRIPTS], ids=lambda script: script.code
)
def test_a_mistake_in_python_is_one_line_that_names_the_right_way(script: Script, folder):
    _laid(folder, script.files)
    with pytest.raises(Exception) as caught:
        exec(
            script.code,
            {"simfl": simfl, "np": np, "pd": pandas, "torch": torch, "DONE": folder / "results" / "fl" / "DONE"},
        )
    assert _has(str(caught.value), script.words), repr(caught.value)


def test_members_that_are_wrong_in_the_same_way_are_one_line(folder):
    _laid(folder, {})
    for values, said in (("13,14,15", "override selection.k=13"), ("4,13,14", "member selection.k=13 and 1 more")):
        lines = CliRunner().invoke(command, ["sweep", "fl.yaml", f"selection.k={values}"]).output.splitlines()
        assert len(lines) == 1 and lines[0].startswith(said) and "there are 12 clients" in lines[0], lines
