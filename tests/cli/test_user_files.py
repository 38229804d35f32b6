"""Files that a user, or somebody else's scenario, names: pipes, devices, folders and links in a circle are one line."""

import json
import os
import signal

import pytest
from click.testing import CliRunner

from simfl.cli import simfl as group
from simfl.core.storage.disk import open_regular
from simfl.results.sealed_files import write_failure
from tests.support.damages import reseal_sweep, seal_begun

WORLD = """
clients: 4
selection: {name: random, k: 2}
training: {name: fedavg, rounds: 2}
learning: none
"""
KINDS = ("pipe", "device", "folder", "circle", "endless")


@pytest.fixture(autouse=True)
def limit():
    """A command that waits for a pipe ends here."""

    def late(number, frame):
        pytest.fail("it waits for ever")  # no Exception, which the command would report

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def make(kind, path):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/null")
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        other = path.with_name("other-" + path.name)
        path.symlink_to(other)
        other.symlink_to(path)


NAMED = {
    "scenario": ("bad.yaml", "", ["run", "bad.yaml"]),
    "scenario to validate": ("bad.yaml", "", ["validate", "bad.yaml"]),
    "scenario to copy": ("bad.yaml", "", ["new", "mine.yaml", "--from", "bad.yaml"]),
    "extends": ("bad.yaml", "extends: bad.yaml", ["run", "s.yaml"]),
    "plugin": ("bad.py", "plugins: [bad.py]", ["run", "s.yaml"]),
    "further plugin": ("bad.py", "", ["run", "s.yaml", "--plugin", "bad.py"]),
    "CSV data": ("bad.csv", "learning: {data: {name: csv, path: bad.csv, label: y}, model: mlp}", ["run", "s.yaml"]),
    "NPZ data": ("bad.npz", "learning: {data: {name: npz, path: bad.npz}, model: logistic}", ["run", "s.yaml"]),
    "graph": ("bad.csv", "network: {name: file, path: bad.csv, server: a}", ["run", "s.yaml"]),
    "GraphML": ("bad.graphml", "network: {name: file, path: bad.graphml, server: a}", ["run", "s.yaml"]),
    "trace": ("bad.csv", "devices: {availability: {name: trace, path: bad.csv}}", ["run", "s.yaml"]),
    "log": ("bad.csv", "", ["audit", "bad.csv"]),
    "log of JSON": ("bad.jsonl", "", ["audit", "bad.jsonl"]),
    "log of arrays": ("bad.npz", "", ["audit", "bad.npz"]),
    "log in Parquet": ("bad.parquet", "", ["audit", "bad.parquet"]),
    "token": ("bad.token", "", ["serve", "s.yaml", "--token-file", "bad.token"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", NAMED)
def test_what_is_no_file_is_refused_in_one_line(tmp_path, monkeypatch, what, kind):
    monkeypatch.chdir(tmp_path)
    name, more, words = NAMED[what]
    make(kind, tmp_path / name)
    key = more.partition(":")[0]
    kept = "\n".join(line for line in WORLD.splitlines() if not (key and line.startswith(f"{key}:")))
    (tmp_path / "s.yaml").write_text(f"{kept}\n{more}\n")
    done = CliRunner().invoke(group, words)
    lines = done.stderr.strip().splitlines()
    assert done.exit_code == 2, done.output
    said = lines if not lines or not lines[0].startswith("Usage") else lines[-1:]  # click's own refusal of a folder
    assert len(said) == 1 and "internal" not in said[0], done.output
    assert name in said[0] or (tmp_path / name).readlink().name in said[0]  # perhaps by the way from here
    assert sorted(path.name for path in tmp_path.iterdir() if "bad" not in path.name) == ["s.yaml"]


@pytest.mark.parametrize("kind", KINDS)
def test_completion_waits_for_nothing(tmp_path, monkeypatch, kind):
    from simfl.cli.completing import _data

    make(kind, tmp_path / "bad.yaml")
    (tmp_path / "s.yaml").write_text(f"extends: bad.yaml\n{WORLD}")
    assert _data(str(tmp_path / "s.yaml"))["clients"] == 4


def test_ordinary_files_are_read_through_links(tmp_path):
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "b").symlink_to("a")
    with open_regular(tmp_path / "b") as file:
        assert file.read() == b"content"
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "c")


# -- control characters --------------------------------------------------------------------------------

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202egnp.exe\nline"


@pytest.fixture
def failed(tmp_path):
    """A run whose failure, written by somebody else, would rename and clear the terminal."""
    folder = tmp_path / "results" / "world" / "0123456789ab"
    folder.mkdir(parents=True)
    (folder / "scenario.yaml").write_text(f"name: {json.dumps('x' + HOSTILE)}\nseed: 0\n{WORLD}")
    write_failure(folder, HOSTILE)
    seal_begun(folder, "scenario.yaml")
    index = tmp_path / "results" / "world" / "sweep-0"
    index.mkdir()
    (index / "sweep.yaml").write_text("name: world\n")
    cell = '"' + HOSTILE.replace("\n", " ").replace("\r", " ") + '"'
    (index / "index.csv").write_text(f"digest,learning,seed,status,error\n0123456789ab,{cell},0,failed,{cell}\n"
                                     f"1123456789ab,b,0,failed,{cell}\n")  # fmt: skip
    reseal_sweep(index)
    return tmp_path / "results"


@pytest.mark.parametrize(
    "words",
    [["ls", "."], ["ls", "--all", "."], ["watch", "--terminal", "world/0123456789ab"],
     ["watch", "--terminal", "world/sweep-0"], ["run", "--verify", "world/0123456789ab"], ["report", "world/sweep-0"],
     ["validate", "world/0123456789ab/scenario.yaml"]],
)  # fmt: skip
def test_nothing_that_a_file_says_controls_the_terminal(failed, monkeypatch, words):
    monkeypatch.chdir(failed)
    monkeypatch.setenv("COLUMNS", "300")
    done = CliRunner().invoke(group, words)
    assert done.exit_code in (0, 2, 4) and done.output
    strange = {c for c in done.output if not c.isprintable()} - {"\n"}
    assert not strange, (strange, done.output)
    if words[0] in ("ls", "watch"):
        assert "owned" in done.output  # it is shown, spelled out


def test_a_folder_called_strangely_is_spelled_out(tmp_path):
    folder = tmp_path / "a\x1b[2Jb"
    done = CliRunner().invoke(group, ["ls", str(folder)])
    assert done.exit_code == 2 and "\x1b" not in done.output and "\\x1b[2Jb" in done.output
