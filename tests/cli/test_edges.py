"""What may lie before a command, and what a machine may lack: each a line and an exit code."""

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest
from click.testing import CliRunner

from simfl.cli import main
from simfl.cli import simfl as group
from simfl.core.errors import is_exhausted
from simfl.results.tables import without_formulas
from tests.support.damages import KINDS, damaged

TINY = "name: tiny\nclients: 6\nselection: {name: random, k: 2}\ntraining: {name: fedavg, rounds: 3}\n"
NOTHING_LEARNT = TINY + "learning: {name: none, parameters: 5}\n"


def call(*words):
    return CliRunner().invoke(group, [str(word) for word in words])


# -- a machine without memory, or without locks ----------------------------------------------------------------


@pytest.mark.parametrize("memory_kb", [250_000, 400_000])
def test_too_little_memory_is_one_line_and_exit_6(tmp_path, memory_kb):
    (tmp_path / "tiny.yaml").write_text(TINY + "learning: {data: digits, model: logistic}\n")
    assert with_memory(tmp_path, memory_kb, "run", "tiny.yaml", "-q") == (6, "out of memory\n")


@pytest.mark.parametrize("memory_kb", [1_000_000, 1_500_000, 2_000_000])
def test_parquet_that_needs_more_memory_is_one_line_and_exit_6(tmp_path, memory_kb):
    """A file of 60 kB that stands for 20 million rows."""
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    zeros = pyarrow.array(np.zeros(20_000_000))
    parquet.write_table(pyarrow.table({"a": zeros, "label": zeros.cast("int8")}), tmp_path / "a.parquet")
    (tmp_path / "tiny.yaml").write_text(TINY + "learning: {data: {name: parquet, path: a.parquet}, model: logistic}\n")
    assert with_memory(tmp_path, memory_kb, "validate", "tiny.yaml", "--deep") == (6, "out of memory\n")


def with_memory(folder, memory_kb, *words):
    """The exit code of a command that has so much memory, and what it says."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (1024 * memory_kb, 1024 * memory_kb))  # noqa: E731
    line = [str(Path(sys.executable).parent / "simfl"), *words]
    done = subprocess.run(line, cwd=folder, preexec_fn=limit, capture_output=True, text=True, check=False)  # noqa: PLW1509
    return done.returncode, done.stderr


def chain(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "exhausted"),
    [
        (MemoryError(), True),
        (OSError(12, "Cannot allocate memory"), True),
        (OSError(28, "No space left on device", "x"), True),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("can't start new thread"), True),
        (chain(RuntimeError("x"), MemoryError()), True),
        (ImportError("No module named 'torch'"), False),
        (OSError(2, "No such file or directory", "out of memory.yaml"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_what_says_that_memory_or_disk_are_full(error, exhausted):
    assert is_exhausted(error) is exhausted


def test_without_locks_the_command_says_where_it_runs(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(SystemExit, match="^simfl runs on Linux and macOS, .* on Windows run it in WSL$"):
        main()


# -- a sweep's file that somebody has changed --------------------------------------------------------------------


@pytest.mark.parametrize("change", ["edited", "cut", "gone and linked"])
def test_a_changed_sweep_file_in_its_folder_is_not_another_sweep(tmp_path, monkeypatch, change):
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(NOTHING_LEARNT)
    assert call("sweep", "tiny.yaml", "seed=0,1", "--jobs", 1, "-q").exit_code == 0
    (file,) = Path("results").glob("*/*/sweep.yaml")
    whole = file.read_bytes()
    assert call("sweep", file, "--jobs", 1, "-q").exit_code == 0
    other = whole.replace(b"0", b"5") if change == "edited" else whole[: len(whole) // 2]
    if change.endswith("linked"):
        file.unlink()
        Path("mine.yaml").write_bytes(whole.replace(b"0", b"5"))
        file.symlink_to("../../../mine.yaml")
    else:
        file.write_bytes(other)
    before = sorted(Path("results").rglob("*"))
    for command in ("sweep", "compare"):
        done = call(command, file, "--jobs", 1, "-q")
        assert done.exit_code == 4 and done.stderr.count("\n") == 1 and f"{file}: damaged" in done.stderr
        assert "change a copy outside" in done.stderr
    assert sorted(Path("results").rglob("*")) == before
    Path("copy.yaml").write_bytes(whole.replace(b"- 0", b"- 5"))
    assert call("sweep", "copy.yaml", "--jobs", 1, "-q").exit_code == 0


# -- what a forecast goes on from, and what it writes ------------------------------------------------------------


@pytest.fixture(scope="module")
def forecasts(tmp_path_factory):
    """A forecast's folder with its parts, that of another, and the command."""
    home = tmp_path_factory.mktemp("forecasts")
    for name, shift in (("one", 0), ("two", 1)):
        rows = [f"{t},{(t * (1 + shift) + i) % 8}" for t in range(12) for i in range(3)]
        (home / f"{name}.csv").write_text("\n".join(["round,client", *rows]) + "\n")
        assert call("forecast", home / f"{name}.csv", *HOW, "-o", home / name).exit_code == 0
    return home


HOW = ("--futures", 20, "--horizon", 4, "--processes", 1, "--guarantees", 0)


@pytest.mark.parametrize("kind", [*KINDS, "other", "other's name", "pipe", "zero", "folder inside"])
def test_a_part_of_a_forecast_that_is_not_what_was_written_is_simulated_again(forecasts, tmp_path, kind):
    import os
    import shutil

    here = shutil.copytree(forecasts / "one", tmp_path / "one")
    parts, other = sorted((here / "parts").iterdir()), sorted((forecasts / "two" / "parts").iterdir())
    assert len(parts) == 2
    rng = np.random.default_rng([*kind.encode()])
    if kind == "other":
        parts[0].write_bytes(parts[1].read_bytes())
    elif kind == "other's name":
        parts[0].write_bytes(other[0].read_bytes())
    elif kind in ("pipe", "zero"):
        parts[0].unlink()
        os.mkfifo(parts[0]) if kind == "pipe" else parts[0].symlink_to("/dev/zero")
    elif kind == "folder inside":
        (here / "parts" / "deep").mkdir()
    else:
        while damaged(here / "parts", forecasts / "two" / "parts", rng) is None:
            pass
    done = call("forecast", forecasts / "one.csv", *HOW, "-o", here)
    assert done.exit_code == 0, done.output
    for name in ("clients.csv", "rounds.csv", "differences.csv"):
        assert (here / name).read_bytes() == (forecasts / "one" / name).read_bytes()
    assert sum(path.is_file() for path in (here / "parts").iterdir()) == 2


def test_a_link_in_the_place_of_the_parts_is_not_followed(forecasts, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "one" / "parts").symlink_to(tmp_path / "elsewhere")
    done = call("forecast", forecasts / "one.csv", *HOW, "-o", tmp_path / "one")
    assert done.exit_code == 2 and "is a link" in done.stderr and not any((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "=1"])
def test_no_name_of_a_log_is_a_formula_in_a_table(tmp_path, name):
    clients = [name, "b", "-5", "d"]
    rows = [{"round": t, "client": clients[(t + i) % 4]} for t in range(12) for i in range(2)]
    pandas.DataFrame(rows).to_csv(tmp_path / "log.csv", index=False)
    done = call("forecast", tmp_path / "log.csv", *HOW, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    said = set(pandas.read_csv(tmp_path / "out" / "clients.csv", dtype=str).client)
    assert said == {f"'{name}", "b", "-5", "d"}


def test_numbers_are_no_formulas():
    assert [without_formulas(cell) for cell in (-5, "-5", "+1e3", "", "a=b", None)] == [
        -5,
        "-5",
        "+1e3",
        "",
        "a=b",
        None,
    ]


# -- a figure of a plugin file, and errors in a terminal ---------------------------------------------------------


def test_what_a_plugins_figure_raises_is_the_plugins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(NOTHING_LEARNT)
    folder = call("run", "tiny.yaml", "-q").output.strip()
    Path("bad.py").write_text(
        "from simfl.plugins.figures import figure\n\n@figure('bad_edges', 'Bad', 'other')\ndef draw(study):\n"
        "    return {}['no such key']\n"
    )
    typed = ["plot", folder, "--plugin", "bad.py", "--figure", "bad_edges", "-o", "bad.svg"]
    # in a process of its own, for a figure stays registered
    done = subprocess.run([sys.executable, "-m", "simfl", *typed], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "internal error" not in done.stderr
    assert "bad.py failed: " in done.stderr and "bad.py:5: KeyError" in done.stderr


def test_a_terminal_that_nobody_sees_cuts_no_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(NOTHING_LEARNT.replace("name: tiny", "name: a_long_name_of_a_scenario_" + 30 * "x"))
    assert call("sweep", "tiny.yaml", "seed=0,1", "--jobs", 1, "-q").exit_code == 0
    (folder,) = Path("results").glob("*/sweep-*")
    member = next(path for path in folder.parent.iterdir() if (path / "summary.json").exists())
    (member / "summary.json").write_text("{}")
    done = call("watch", folder, "--terminal")
    assert f"{member / 'summary.json'}: damaged" in done.output


# -- calibration of a log without sizes --------------------------------------------------------------------------


def test_a_log_without_bytes_gives_times_and_says_so(tmp_path):
    rng, rows = np.random.default_rng(0), []
    for client, speed, delay_s in ((0, 50.0, 0.2), (1, 10.0, 1.5)):
        for _ in range(40):
            samples = int(rng.integers(10, 200))
            down_s, up_s = delay_s * (1 + 0.01 * rng.standard_normal(2))
            rows.append((client, samples, down_s, samples / speed, up_s))
    names = ["client", "samples", "download_s", "work_s", "upload_s"]
    pandas.DataFrame(rows, columns=names).to_csv(tmp_path / "times.csv", index=False)
    done = call("serve", "calibrate", tmp_path / "times.csv", "-o", tmp_path / "p.csv")
    assert done.exit_code == 0, done.output
    assert "not settled" not in done.output
    assert "Not separable: bandwidths: the log has no down_bytes and up_bytes; times only are fitted" in done.output
    table = pandas.read_csv(tmp_path / "p.csv").set_index("client")
    assert table.samples_per_s.round(6).tolist() == [50.0, 10.0]
    assert abs(table.latency_s - [0.2, 1.5]).max() < 0.01 and np.isinf(table.down_bytes_per_s).all()
    (tmp_path / "w.yaml").write_text(TINY.replace("clients: 6", "clients: 2") + "devices: {profiles: p.csv}\n")
    assert call("validate", tmp_path / "w.yaml").exit_code == 0
    done = call("serve", "calibrate", tmp_path / "times.csv", "--server-up", 1e6)
    assert done.exit_code == 2 and "up_bytes" in done.stderr
    pandas.DataFrame(rows, columns=names).assign(up_bytes=5).to_csv(tmp_path / "half.csv", index=False)
    done = call("serve", "calibrate", tmp_path / "half.csv")
    assert done.exit_code == 2 and "it has no column down_bytes" in done.stderr
