"""Nothing of a results tree is opened but through the reader that checks; nothing is written through a link in it."""

import ast
import os
from pathlib import Path

import numpy as np
import pytest

import simfl
from simfl.core.errors import IntegrityError, SimflError
from simfl.core.storage.disk import refuse_links_of_results, write_atomically
from simfl.deployment.remote.jobs import RemoteJobs
from simfl.experiments.sweep.task import note_failure
from simfl.results.client_updates import UpdateStore
from simfl.results.export import export_rounds
from simfl.results.file_names import CONTENTS
from simfl.results.folder import ResultsFolder, UnfinishedTable, write_contents
from simfl.results.sealed_files import read_sealed, write_sealed
from simfl.results.tables import TableWriter
from simfl.runs.run import run
from simfl.scenario import Scenario

HOME = Path(simfl.__file__).parent
READERS = {"open", "read_text", "read_bytes", "read_csv", "memmap", "load", "fromfile", "loadtxt", "read_parquet"}
THROUGH = {"file", "check"}
"""Methods that hand out a path only after its content was checked."""
OTHERS = {
    "results.folder": "the reader that checks, also what grows",
    "results.sealed_files": "documents that hold their own digest",
    "core.storage.disk": "locks and the writer",
    "results.checkpoint": "checks the digest at the head of the file",
    "results.client_updates": "checks the seal of every row; vectors by ResultsFolder",
    "results.tables": "writes tables",
    "results.run_files": "tables whose path it is handed, checked",
    "runs.accounting": "facts of the run itself, checked by TableWriter.finish",
    "runs.simulation": "participation, just checked against the checkpoint's mark",
    "results.perfetto": "events just written or checked",
    "core.storage.data_folder": "data files of users; decoded data, with digests of their own",
    "core.registration.packages": "installed packages",
    "deployment.remote.client": "bytes of the server",
    "deployment.remote.job_times": "its own log of real times, which is in no digest",
    "report.live.watched_folder": "bytes that UnfinishedTable or ResultsFolder has checked",
    "report.live.live_clients": "bytes that UnfinishedTable or ResultsFolder has checked",
    "report.study_reader": "a path that ResultsFolder has checked",
    "report.study": "paths that ResultsFolder has checked",
    "report.figures.timeline": "a path that ResultsFolder has checked",
    "report.figures.latency": "a path that ResultsFolder has checked",
    "report.html_page": "templates",
    "report.live.page_server": "templates",
    "deployment.audit.page": "templates",
    "deployment.audit.reading": "logs of users",
    "deployment.flower.participation_file": "its own log, every line of which is sealed",
    "deployment.flower.real_server": "the last model of a real server, which is no result",
    "deployment.audit.log_matrix": "logs of users",
    "deployment.audit.log_table": "logs of users",
    "experiments.attack.after_run": "paths that ResultsFolder has checked",
    "results.export": "a path that ResultsFolder has checked",
    "experiments.sweep.plugin_pickling": "Python objects, by the SHA-256 in the task",
    "experiments.compare.run_numbers": "a path that ResultsFolder has checked",
    "experiments.sweep.stop_rule": "bytes that UnfinishedTable has checked",
    "api.results_index": "locks only",
    "papers.privacyfl.data_sets": "data files of users",
    "core.processor": "what the operating system says of the processor",
    "runs.run": "scenario.yaml, checked by ResultsFolder.check before",
    "experiments.sweep.worker": "its own log",
    "deployment.forecasting.forecast_page": "templates",
    "deployment.forecasting.measured_coverage": "a table of its own",
    "deployment.forecasting.past": "logs of users, and a path that ResultsFolder has checked",
    "deployment.forecasting.parts": "its own parts, which have the check sums of ZIP files",
}
"""Modules that open files, and why that is none of a results tree that nobody has checked."""
ELSEWHERE = (
    "learning.",
    "network.",
    "devices.",
    "scenario.",
    "cli.",
    "deployment.cli.",
    "attacks.",
    "privacy.",
    "secagg.",
)
"""Rooms that open data and scenario files of users."""


def opened(module: Path) -> list[str]:
    """Calls of a module that open a file otherwise than by a path that has just been checked."""
    found = []
    for node in ast.walk(ast.parse(module.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name not in READERS or name == "open" and isinstance(node.func, ast.Attribute):
            continue
        said = ast.unparse(node)
        if name == "load" and not said.startswith("np."):
            continue
        if not any(f".{through}(" in said for through in THROUGH):
            found.append(said)
    return found


def test_nobody_opens_a_results_file_but_through_the_reader_that_checks():
    names = {".".join(path.relative_to(HOME).with_suffix("").parts): path for path in HOME.rglob("*.py")}
    assert OTHERS.keys() <= names.keys()
    for name, path in names.items():
        if not name.startswith(ELSEWHERE) and name not in OTHERS:
            assert not opened(path), f"{name} opens a file; ResultsFolder.file hands out checked ones"


READING = {
    "results/folder.py",
    "results/sealed_files.py",
    "core/storage/data_folder.py",
    "runs/run.py",
    "learning/capacity.py",
}


def test_results_are_read_in_no_room_but_by_name():
    """Where files of results are named, their paths are not joined and opened by hand."""
    for path in HOME.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in ("read_text", "read_bytes") and isinstance(node.func.value, ast.BinOp):
                    said = ast.unparse(node)
                    allowed = path.relative_to(HOME).as_posix() in READING
                    assert allowed or "TEMPLATES" in said or "STYLES" in said, f"{path}: {said}"


TEXT = """
name: small
clients: 6
selection: {name: random, k: 3}
training: {name: fedavg, rounds: 4}
learning: {name: none, parameters: 5}
"""


@pytest.fixture
def elsewhere(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    yield tmp_path / "elsewhere"
    assert not list((tmp_path / "elsewhere").iterdir())


def test_served_runs_write_through_no_linked_folder(elsewhere, tmp_path):
    folder = tmp_path / "r" / "small" / "abc"
    folder.mkdir(parents=True)
    for name in ("joined", "updates"):
        (folder / name).symlink_to(elsewhere)
    jobs = RemoteJobs([0], UpdateStore(folder), "t", 1.0, {})
    with pytest.raises(SimflError, match="is a link"):
        jobs.join("pod", None)
    with pytest.raises(SimflError, match="is a link"):
        UpdateStore(folder).finalise()


def test_who_was_seen_touches_no_file_behind_a_link(tmp_path):
    folder = tmp_path / "r" / "small" / "abc"
    jobs = RemoteJobs([0], UpdateStore(folder), "t", 1.0, {})
    (folder / "joined").mkdir(parents=True)
    precious = tmp_path / "precious"
    precious.write_text("mine")
    os.utime(precious, (5, 5))
    (folder / "joined" / "0.json").symlink_to(precious)
    jobs._status.touch(0)
    assert precious.stat().st_mtime == 5 and precious.read_text() == "mine"
    _, token = jobs.join("pod", None)
    assert precious.read_text() == "mine" and jobs.client_of(token) == 0


def test_a_run_writes_through_no_linked_folder_of_its_name(elsewhere, tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "small").symlink_to(elsewhere)
    with pytest.raises(SimflError, match="is a link"):
        run(Scenario.parse(TEXT, "s"), tmp_path / "r")
    with pytest.raises(SimflError, match="is a link"):
        note_failure(tmp_path / "r" / "small" / "abc", "oh")


def test_the_root_of_the_results_may_be_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "r").symlink_to(tmp_path / "disk")
    assert run(Scenario.parse(TEXT, "s"), tmp_path / "r").path.exists()


def test_exports_and_pages_go_through_no_link_in_a_results_folder(elsewhere, tmp_path):
    folder = run(Scenario.parse(TEXT, "s"), tmp_path / "r").path
    (folder / "tables").symlink_to(elsewhere)
    (folder.parent / "latest").symlink_to(elsewhere)
    with pytest.raises(SimflError, match="is a link"):
        export_rounds(folder, folder / "tables" / "deep" / "rounds.csv")
    for target in (folder / "tables" / "x.html", folder.parent / "latest" / "x.html"):
        with pytest.raises(SimflError, match="is a link"):
            write_atomically(target, b"x")
    (tmp_path / "mine").symlink_to(elsewhere)
    refuse_links_of_results(tmp_path / "mine")  # a link of the user's own


def test_a_growing_table_is_believed_as_far_as_its_seals_reach(tmp_path):
    table, part = TableWriter(tmp_path / "rounds.csv", ("a", "b")), UnfinishedTable(tmp_path, "rounds.csv")
    for row in range(20):
        table.append([[row, 2 * row]])
        if row % 3 == 0:
            size, _ = table.mark()
        assert part.look() and part.size == size
    path, seals = tmp_path / "rounds.csv.part", tmp_path / "rounds.csv.seals.part"
    data, rng = path.read_bytes(), np.random.default_rng(3)
    assert part.began == 1
    for at in rng.integers(size, size=40):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(IntegrityError, match="rounds.csv.part: damaged"):
            UnfinishedTable(tmp_path, "rounds.csv").look()
    path.write_bytes(data)
    with pytest.raises(IntegrityError, match="damaged"):
        path.write_bytes(data.replace(b"1", b"2"))
        table.check()
    path.write_bytes(data)
    seals.unlink()
    with pytest.raises(IntegrityError, match="damaged"):
        UnfinishedTable(tmp_path, "rounds.csv").look()


def test_a_table_that_is_damaged_while_the_run_plays_ends_it(tmp_path):
    def damage(done, rounds, time_s):
        (path,) = tmp_path.rglob("rounds.csv.part")
        path.write_bytes(path.read_bytes().replace(b"0", b"1", 1))

    with pytest.raises(IntegrityError, match="rounds.csv.part: damaged during the run"):
        run(Scenario.parse(TEXT, "s"), tmp_path, progress=damage)


def test_the_files_of_a_sweep_fit_their_digests_whenever_a_kill_comes(tmp_path, monkeypatch):
    write_contents(tmp_path, {"sweep.yaml": b"s", "index.csv": b"old"})
    calls = []

    def killed(path, data, writes=write_atomically):
        if len(calls) == stop:
            raise KeyboardInterrupt
        calls.append(path)
        writes(path, data)

    monkeypatch.setattr("simfl.results.folder.write_atomically", killed)
    for stop in range(4):
        calls.clear()
        try:
            write_contents(tmp_path, {"index.csv": b"new%d" % stop})
        except KeyboardInterrupt:
            pass
        assert ResultsFolder.open_sweep(tmp_path).read("index.csv").startswith((b"old", b"new"))
    assert ResultsFolder.open_sweep(tmp_path).read("sweep.yaml") == b"s"
    (tmp_path / "index.csv").write_bytes(b"other")
    with pytest.raises(IntegrityError, match="index.csv: damaged"):
        ResultsFolder.open_sweep(tmp_path).file("index.csv")
    (tmp_path / CONTENTS).unlink()
    with pytest.raises(IntegrityError, match="contents.json: gone"):
        ResultsFolder.open_sweep(tmp_path)


@pytest.mark.parametrize("data", [b"", b"[]", b"[" * 100_000, b"{}", b'{"sha256": {}}', b"9" * 3_000_000])
def test_a_small_file_that_is_not_what_was_written_is_refused(tmp_path, data):
    path = tmp_path / "0.json"
    assert read_sealed(path) is None
    write_sealed(path, {"a": 1})
    assert read_sealed(path) == {"a": 1}
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1) if data == b"{}" else data)
    with pytest.raises(IntegrityError, match="0.json: damaged"):
        read_sealed(path)
