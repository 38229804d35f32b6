"""Completion as the shells ask for it, and in a bash that somebody types into."""

import os
import pty
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest
from click.testing import CliRunner

from simfl.cli import COMMANDS, shells, simfl
from simfl.cli.completing import _known
from simfl.registry import FAMILIES
from simfl.scenario import Scenario
from simfl.scenario.builtin import builtins

HERE = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMFL_CACHE", str(tmp_path / "cache"))


def asked(line, breaks="=:"):
    """What bash is told to put in the place of what stands behind the last break of the last word."""
    environment = {"_SIMFL_COMPLETE": "bash_complete", "COMP_LINE": line, "COMP_WORDBREAKS": breaks}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        shell = shells.Bash(simfl, {}, "simfl", "_SIMFL_COMPLETE")
        return [line.partition(",")[2] for line in shell.complete().splitlines()]


def test_commands_and_options():
    assert set(asked("simfl ")) == set(COMMANDS)
    assert asked("simfl ru") == ["run"]
    assert "--force" in asked("simfl run quickstart --f")
    assert asked("simfl plot --font ") == ["sans", "serif"]


def test_scenarios(tmp_path):
    assert asked("simfl run ")[-len(builtins()) :] == builtins()
    (tmp_path / "mine.yaml").write_text("")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/other.yml").write_text("")
    (tmp_path / "notes.txt").write_text("")
    assert asked("simfl validate mine.yaml ")[:3] == ["inner/", "mine.yaml", "cities"]
    assert asked("simfl show m") == ["mine.yaml", "masked_averaging", "million_clients"]
    assert asked("simfl sweep inner/") == ["inner/other.yml"] and asked("simfl show n") == []
    assert asked("simfl new x --from pap") == [name for name in builtins() if name.startswith("pap")]


def test_every_key_and_every_plugin_is_offered_and_valid():
    """Read off the registries, not off the completion."""
    names = {key.rstrip("=.") for key in asked("simfl run quickstart ", "") if not key.startswith("-")}
    assert names == Scenario.__dataclass_fields__.keys() - {"source"}
    for key, family in (("selection", "selection"), ("training", "training"), ("devices.availability", "availability")):
        assert asked(f"simfl run quickstart {key}=") == list(FAMILIES[family])
    assert set(_known()["families"]) == set(FAMILIES)
    for key in asked("simfl run quickstart training.", ""):
        if key.endswith("="):
            problem = CliRunner().invoke(simfl, ["show", "quickstart", f"{key}?"]).stderr
            assert "unknown key" not in problem, key


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("simfl run quickstart training.ro", ["training.rounds="]),
        ("simfl run quickstart selection=batch", ["batch_partition"]),
        ("simfl run quickstart selection.", ["selection.k="]),  # random, as the scenario says
        ("simfl run quickstart selection=batch_partition selection.T", ["selection.T="]),
        ("simfl run quickstart selection=batch_partition:T", ["T="]),
        ("simfl run quickstart selection=batch_partition:T=4,mo", ["4,mode="]),
        ("simfl run quickstart selection=batch_partition:mode=u", ["uniform"]),
        ("simfl sweep quickstart selection=random,half", ["random,half_partition"]),
        ("simfl compare quickstart trace=rounds,ev", ["rounds,events"]),
        ("simfl run fedbuff training.staleness.", ["training.staleness.alpha="]),
        ("simfl run quickstart trace=e", ["events"]),
        ("simfl run quickstart network.latency_s=log", ["log_normal"]),
        ("simfl run quickstart network.latency_s.m", ["network.latency_s.median="]),
        ("simfl run quickstart devices.", ["devices.availability=", "devices.availability.", "devices.computation=",
                                           "devices.computation.", "devices.failure=", "devices.failure."]),
        ("simfl run quickstart nothing.of.it", []),
        ("simfl run no_such training.ro", ["training.rounds="]),
        ("simfl list sel", ["selection"]),
        ("simfl plot results --figure accuracy_", ["accuracy_time"]),
        ("simfl run 'quick", ["quickstart"]),
    ],
)  # fmt: skip
def test_what_fits(line, found):
    assert asked(line) == found


def test_the_keys_are_those_of_the_plugin_that_the_file_or_what_it_extends_chooses(tmp_path):
    (tmp_path / "mine.yaml").write_text("extends: quickstart\nselection: {name: half_partition, T: 2}\n")
    (tmp_path / "more.yaml").write_text("extends: mine.yaml\n")
    assert "selection.T=" in asked("simfl run more.yaml selection.")
    (tmp_path / "mine.yaml").write_text("extends: [")
    assert "training.rounds=" in asked("simfl run more.yaml training.")
    (tmp_path / "mine.yaml").write_text("extends: more.yaml")
    assert "training.rounds=" in asked("simfl run more.yaml training.")


def test_the_cache_is_dropped_when_it_is_damaged_or_old(tmp_path):
    expected = asked("simfl list ")
    (file,) = (tmp_path / "cache").iterdir()
    for text in ("{", "[]", '{"state": "older", "families": {}}'):
        file.write_text(text)
        assert asked("simfl list ") == expected and len(file.read_text()) > 1000


def command(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/simfl").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m simfl "$@"\n')
    (tmp_path / "bin/simfl").chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(HERE), "TERM": "dumb", "PS1": "> "}


def test_it_is_fast_and_imports_no_plugins(tmp_path):
    line = "simfl run quickstart training.ro"
    asked(line)
    code = "import sys, simfl.cli as c\ntry: c.main()\nfinally: print(sorted(sys.modules), file=sys.stderr)"
    environment = command(tmp_path) | {"_SIMFL_COMPLETE": "bash_complete", "COMP_LINE": line}
    times = []
    for _ in range(5):
        begin = monotonic()
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        times.append(monotonic() - begin)
    assert done.stdout == "plain,training.rounds=\n"
    loaded = set(done.stderr.strip("[]\n").replace("'", "").split(", "))
    assert not loaded & {"torch", "numpy", "scipy", "pydantic", "simfl.scenario.model"}
    assert min(times) < 1, f"{min(times):.2f} s: about 0.1 s where nothing else runs"


def test_a_real_bash(tmp_path):
    """Typed into an interactive bash: the tab completes, Ctrl-A echo shows what stands there."""
    ours, its = pty.openpty()
    bash = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"], stdin=its, stdout=its, stderr=its, env=command(tmp_path),
        cwd=tmp_path, start_new_session=True,
    )  # fmt: skip
    os.close(its)
    typed = [
        'eval "$(_SIMFL_COMPLETE=bash_source simfl)"; echo rea""dy\n',
        "simfl val\tquicks\t\x01echo =1 \n",
        "simfl run quickstart training.rou\t5\x01echo =2 \n",
        "simfl run quickstart selection=batch\t\x01echo =3 \n",
        "simfl run quickstart devices.avail\t\x01echo =4 \n",
        "simfl sweep quickstart selection=random,batch\t\x01echo =5 \n",
        "simfl run quickstart selection=batch_partition:mod\tun\t\x01echo =6 \n",
        "exit\n",
    ]
    said = b""

    def until(mark):
        nonlocal said
        while mark not in said:
            said += os.read(ours, 65536)

    try:
        os.write(ours, typed[0].encode())
        until(b"ready\r\n")
        for line in typed[1:-1]:
            os.write(ours, line.encode())
            until(b"\n" + line[line.index("=", line.index("\x01")) :].strip().encode() + b" simfl")
        os.write(ours, typed[-1].encode())
        until(b"> exit")
    finally:
        bash.kill()
        os.close(ours)
    shown = [line.strip() for line in said.decode().splitlines()]
    for expected in (
        "=1 simfl validate quickstart",
        "=2 simfl run quickstart training.rounds=5",
        "=3 simfl run quickstart selection=batch_partition",
        "=4 simfl run quickstart devices.availability",
        "=5 simfl sweep quickstart selection=random,batch_partition",
        "=6 simfl run quickstart selection=batch_partition:mode=uniform",
    ):
        assert expected in shown, (expected, shown)


def test_zsh_is_told_all_words_with_their_texts(monkeypatch):
    monkeypatch.setenv("COMP_WORDS", "simfl run quickstart selection=ba")
    monkeypatch.setenv("COMP_CWORD", "3")
    shell = shells.Zsh(simfl, {}, "simfl", "_SIMFL_COMPLETE")
    kind, value, about = shell.complete().split("\n")
    assert (kind, value) == ("plain", "selection=batch_partition") and about.startswith("K/T of N/T")
    assert "compdef _simfl_completion simfl" in shell.source()
