"""What is told about how far a run is: the phase it is in, never more than is known."""

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from simfl.cli import simfl
from simfl.cli.progress import shown
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.support.scenario_samples import GOOD

HERE = Path(__file__).resolve().parents[2]


def scenario(*overrides):
    return Scenario.parse(GOOD, "good", ["learning=none", "training.rounds=6", *overrides])


def test_a_run_tells_its_phases_in_order(tmp_path):
    told = []

    def phase(name, done):
        told.append((name, done))

    run(scenario(), tmp_path, progress=lambda done, rounds, time_s: told.append(done), phase=phase)
    assert told == [("building", 0), ("running", 0), 1, 2, 3, 4, 5, 6, ("finishing", 6)]
    told.clear()
    run(scenario(), tmp_path, phase=phase)
    assert told == [], "it was complete"


def test_a_run_that_goes_on_tells_where(tmp_path):
    class Stop(Exception):
        pass

    def stop(done, rounds, time_s):
        if done == 4:
            raise Stop

    with pytest.raises(Stop):
        run(scenario(), tmp_path, progress=stop)
    told = []
    run(scenario(), tmp_path, phase=lambda name, done: told.append((name, done)))
    assert told == [("building", 0), ("running", 4), ("finishing", 6)]


class Screen(io.StringIO):
    """What stood on the line, one entry a drawing."""

    def isatty(self):
        return True


def drawn(steps):
    from rich.console import Console

    screen = Screen()
    with shown(console=Console(file=screen, force_terminal=True, width=100, color_system=None)) as (done, begins):
        for step in steps:
            begins(*step) if isinstance(step[0], str) else done(*step)
    return screen.getvalue()


def test_the_line_says_only_what_is_known():
    told = drawn([("building", 0), ("running", 0)])
    assert "building network" in told and "None" not in told and "round 0" not in told and "100%" not in told
    told = drawn([("running", 0), (60, 60, 1.5), ("finishing", 60)])
    last = told[told.rindex("working out") :]
    assert "so far" in last and "left" not in last, "nobody knows how long the privacy computation takes"
    endless = drawn([("running", 0), (3, 0, 1.5)])
    assert "None" not in endless and "round 3 of" not in endless


def terminal(tmp_path, *words):
    """What a command shows on a terminal's stderr."""
    ours, its = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(HERE), "TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-m", "simfl", *words]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=its)
    os.close(its)
    said = b""
    while True:
        try:
            block = os.read(ours, 65536)
        except OSError:
            break
        if not block:
            break
        said += block
    os.close(ours)
    assert process.wait(60) == 0, said
    return said.decode()


@pytest.mark.parametrize(
    "words",
    [
        ("run", "quickstart", "learning=none"),
        ("sweep", "quickstart", "learning=none", "seed=1,2", "--jobs", "1"),
        ("compare", "quickstart", "learning=none", "selection=random,weighted", "--replications", "1", "--jobs", "1"),
    ],
    ids=lambda words: words[0],
)
def test_on_a_terminal_it_is_said_how_to_watch(tmp_path, words):
    said = terminal(tmp_path, *words, "training.rounds=3")
    folder = said.partition("to watch it: simfl watch ")[2].split()[0]
    assert (tmp_path / folder).is_dir(), said
    assert "None" not in said


def test_nothing_is_said_where_nobody_looks(tmp_path):
    small = ["learning=none", "training.rounds=2", "secagg=ideal"]
    ended = CliRunner().invoke(simfl, ["run", "quickstart", *small, "--out", str(tmp_path)])
    assert ended.exit_code == 0 and not ended.stderr


# -- other commands that said less or more than they knew --------------------------------------------


@pytest.mark.parametrize("choice", ["random", "batch_partition:T=4", "bernoulli", "weighted"])
def test_theory_has_no_row_that_says_nothing(choice):
    ended = CliRunner().invoke(simfl, ["theory", "quickstart", f"selection={choice}"])
    assert ended.exit_code == 0, ended.output
    facts, _, attacks = ended.stdout.partition("\n\n")
    rows = dict(line.split(maxsplit=1) for line in facts.splitlines() if not line.startswith("not known"))
    assert all(len(line.split()) > 4 for line in attacks.splitlines())
    assert all("not known" not in value and value != "None" for value in rows.values())
    assert sum(line.startswith("not known") for line in ended.stdout.splitlines()) <= 1


def test_data_writes_the_format_that_the_name_asks_for(tmp_path):
    for name, begins in (("x.png", b"\x89PNG"), ("x.pdf", b"%PDF"), ("x.svg", b"<?xml")):
        ended = CliRunner().invoke(simfl, ["show", "data", "quickstart", "--out", str(tmp_path / name)])
        assert ended.exit_code == 0 and (tmp_path / name).read_bytes().startswith(begins), ended.output
    before = sorted(tmp_path.iterdir())
    for name in ("x.jpg", "x"):
        ended = CliRunner().invoke(simfl, ["show", "data", "quickstart", "--out", str(tmp_path / name)])
        assert ended.exit_code == 2 and "must end in .pdf, .svg or .png" in ended.stderr and not ended.stdout
    assert sorted(tmp_path.iterdir()) == before
