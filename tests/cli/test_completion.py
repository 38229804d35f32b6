"""Completion as the shells ask for it, and in a bash that somebody types into."""

import os
import pty
import subprocess
import sys
from pathlib import Path
from shutil import which
from time import monotonic

import pytest
from click.testing import CliRunner

from simfl.cli import completing, simfl
from simfl.cli.completing import _known
from simfl.core.registration.family_index import FAMILIES
from simfl.scenario import Scenario
from simfl.scenario.builtin import builtins

HERE = Path(__file__).resolve().parents[2]


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
        shell = completing.Bash(simfl, {}, "simfl", "_SIMFL_COMPLETE")
        return [line.partition(",")[2] for line in shell.complete().splitlines()]


def test_commands_and_options():
    assert set(asked("simfl ")) == set(simfl.list_commands(None))
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
    assert asked("simfl show m") == ["mine.yaml", "masked_averaging", "million_clients", "million_learning"]
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
                                           "devices.computation.", "devices.failure=", "devices.failure.",
                                           "devices.profiles="]),
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


LINES = {
    "simfl val\tquicks\t": "simfl validate quickstart",
    "simfl run quickstart training.rou\t5": "simfl run quickstart training.rounds=5",
    "simfl run quickstart selection=batch\t": "simfl run quickstart selection=batch_partition",
    "simfl run quickstart devices.avail\t": "simfl run quickstart devices.availability",
    "simfl sweep quickstart selection=random,batch\t": "simfl sweep quickstart selection=random,batch_partition",
    "simfl run quickstart selection=batch_partition:mod\tun\t":
        "simfl run quickstart selection=batch_partition:mode=uniform",
}  # fmt: skip
"""What is typed, and what stands there then."""


def typed_into(shell, folder, **environment):
    """What an interactive shell shows: the tabs complete, Ctrl-A echo shows what stands there."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        shell, stdin=its, stdout=its, stderr=its, env=command(folder) | environment, cwd=folder, start_new_session=True
    )
    os.close(its)
    said = b""

    def until(mark):
        nonlocal said
        while mark not in said:
            said += os.read(ours, 65536)

    try:
        os.write(ours, b'echo rea""dy\n')
        until(b"ready\r\n")
        for number, line in enumerate(LINES):
            os.write(ours, f"{line}\x01echo @{number} \n".encode())
            until(f"\n@{number} simfl".encode())
            until(b"> ")
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return said.decode()


def test_a_real_bash(tmp_path):
    (tmp_path / "bashrc").write_text('PS1="> "\neval "$(_SIMFL_COMPLETE=bash_source simfl)"\n')
    said = typed_into(["bash", "--noprofile", "--rcfile", "bashrc", "-i"], tmp_path)
    shown = [line.strip() for line in said.splitlines()]
    for number, expected in enumerate(LINES.values()):
        assert f"@{number} {expected}" in shown, (expected, shown)


@pytest.mark.skipif(not which("zsh"), reason="zsh is not installed")
@pytest.mark.parametrize("begun", ["", "autoload -Uz compinit && compinit -u\n"], ids=["bare", "completing"])
def test_a_real_zsh(tmp_path, begun):
    """Also where nothing has set up zsh's own completion; no bell says that nothing fits."""
    (tmp_path / ".zshrc").write_text(f'PS1="> "\n{begun}eval "$(_SIMFL_COMPLETE=zsh_source simfl)"\n')
    said = typed_into(["zsh", "-d", "-i"], tmp_path, HOME=str(tmp_path), ZDOTDIR=str(tmp_path))
    shown = [line.strip() for line in said.splitlines()]
    for number, expected in enumerate(LINES.values()):
        assert f"@{number} {expected}" in shown, (expected, shown)
    assert "command not found" not in said and "\a" not in said


def test_zsh_is_told_all_words_with_their_texts(monkeypatch):
    monkeypatch.setenv("COMP_WORDS", "simfl run quickstart selection=ba")
    monkeypatch.setenv("COMP_CWORD", "3")
    shell = completing.Zsh(simfl, {}, "simfl", "_SIMFL_COMPLETE")
    kind, value, about = shell.complete().split("\n")
    assert (kind, value) == ("plain", "selection=batch_partition") and about.startswith("K/T of N/T")
    assert "compdef _simfl_completion simfl" in shell.source()
