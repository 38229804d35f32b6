"""Watching: what grows on disk is told truly, to this machine only, and Ctrl-C ends it cleanly."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from email.utils import formatdate
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.core.errors import SimflError
from simfl.core.http.bounded_server import ConnectionLimits
from simfl.core.storage.disk import sha256
from simfl.privacy.multiround.matrix_metrics import MatrixAnalysis
from simfl.report.axes import name_runs
from simfl.report.live import live_clients, watched_folder
from simfl.report.live.page_server import ADDRESS, serve_page
from simfl.report.live.terminal import clients_table, shown, table
from simfl.report.live.watched_folder import POINTS, RoundsTail, WatchedFolder
from simfl.results.sealed_files import write_failure, write_sealed
from simfl.results.tables import ROUNDS
from tests.support.chromium import chromium, executable
from tests.support.damages import growing as growing_table
from tests.support.damages import reseal, seal_begun, unfinish

HERE = Path(__file__).resolve().parents[2]


@pytest.fixture
def playing(single, tmp_path):
    """A run that has come five rounds and a half."""
    folder = tmp_path / "sample" / single.name
    shutil.copytree(single, folder)
    return unfinish(folder, 5, "5,0.1")


def test_a_half_written_line_does_not_count(playing, single):
    state = WatchedFolder(playing).look()
    (run,) = state["runs"]
    assert (run["state"], run["round"], run["rounds"]) == ("running", 5, 14) and not state["finished"]
    rows = (single / "rounds.csv").read_text().splitlines()
    accuracy = float(rows[5].split(",")[rows[0].split(",").index("test_accuracy")])
    assert run["accuracy"] == accuracy == state["shown"][0]["curves"]["test_accuracy"][-1]
    assert state["shown"][0]["curves"]["round"] == [0, 1, 2, 3, 4]


def test_the_clients_of_a_run_are_told_one_by_one(playing, single):
    """Counts from the table itself; who stands alone by the rank of the rows, in floating point."""
    lines = (single / "participation.csv").read_text().splitlines(keepends=True)
    assert WatchedFolder(playing).look()["clients"][0]["samples"] > 0
    for rows in (0, 7, len(lines) - 1):
        growing_table(playing, "participation.csv", "".join(lines[: rows + 1]), "9,")  # half a line
        people = WatchedFolder(playing).look()["clients"]
        P = np.zeros((14, 12))
        for line in lines[1 : rows + 1]:
            t, client, weight = line.split(",")
            P[int(t), int(client)] = float(weight)
        assert [one["rounds"] for one in people] == P.sum(0).tolist() and len(people) == 12
        for i, one in enumerate(people):
            twins = [j for j in range(12) if j != i and P[:, i].any() and (P[:, i] == P[:, j]).all()]
            assert one["unit"] == twins
            ranks = [np.linalg.matrix_rank(np.vstack([P[: t + 1], np.eye(12)[i]])) for t in range(14)]
            alone = [t for t in range(14) if ranks[t] == np.linalg.matrix_rank(P[: t + 1])]
            assert one["exposed"] == (alone[0] if alone else None)
    (playing / "joined").mkdir()
    known = {"client": 3, "name": "pod", "updates": 2, "refused": 1, "scores": {"a": 1}}
    write_sealed(playing / "joined" / "3.json", known)
    outside = WatchedFolder(playing).look()["clients"]
    assert outside[3]["name"] == "pod" and outside[3]["updates"] == 2 and outside[3]["seen_s"] > 1e9
    assert "updates" not in outside[4]


def weighted(rows):
    """A table of participation, and its matrix."""
    lines = [f"{t},{i},{weight}" for t, row in enumerate(rows) for i, weight in enumerate(row) if weight]
    return "\n".join(["round,client,weight", *lines]) + "\n", np.array(rows, dtype=float)


def clients_of(folder, rows):
    growing_table(folder, "participation.csv", weighted(rows)[0])
    return WatchedFolder(folder).look()["clients"]


def terminal_rows(state):
    """The clients' lines as the terminal shows them, by client."""
    from rich.console import Console

    console = Console(width=200, record=True, file=open(os.devnull, "w"))
    console.print(clients_table(state))
    text = console.export_text()
    assert " ".join(text.split()).endswith("sees beside sums of whole rounds is not counted.")
    return {int(line.split()[0]): line for line in text.splitlines() if line[:1].isdigit()}


def test_exposure_does_not_end_at_the_last_round_from_which_it_is_worked_out(playing):
    rng = np.random.default_rng(0)
    rows = np.array([rng.permutation([1] * 5 + [0] * 7) for _ in range(live_clients.MOST_ROUNDS + 1)])
    before, after = clients_of(playing, rows[:-1]), clients_of(playing, rows)
    ranks = [np.linalg.matrix_rank(rows[: t + 1]) for t in range(30)]
    assert {one["exposed"] for one in before} == {one["exposed"] for one in after} == {ranks.index(12)}
    assert {one["unknown_after"] for one in before + after} == {None}
    assert [one["rounds"] for one in after] == rows.sum(0).tolist()


LATE = [
    [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    [0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0],
    [0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
]
"""Exposed are 0 from round 0 on, 4 from round 3 on, 7 from round 5 on; 1, 2, 3 stay together, and so do 5 and 6."""


def test_what_later_rounds_expose_is_not_known_rather_than_denied(playing, monkeypatch):
    whole = {i: (one["exposed"], one["unit"], one["unknown_after"]) for i, one in enumerate(clients_of(playing, LATE))}
    assert {i: exposed for i, (exposed, *_) in whole.items() if exposed is not None} == {0: 0, 4: 3, 7: 5}
    assert whole[1] == (None, [2, 3], None) and whole[5] == (None, [6], None) and whole[11] == (None, [], None)
    monkeypatch.setattr(live_clients, "MOST_ROUNDS", 3)
    part = clients_of(playing, LATE)
    assert [one["unit"] for one in part] == [unit for _, unit, _ in whole.values()], "by all rounds"
    assert {i: one["exposed"] for i, one in enumerate(part) if one["exposed"] is not None} == {0: 0}
    assert [i for i, one in enumerate(part) if one["unknown_after"] is not None] == [4, 7]
    assert part[4]["unknown_after"] == part[7]["unknown_after"] == 3
    shown = terminal_rows(part)
    assert "round 0" in shown[0] and "not in the first 3 rounds" in shown[4]
    assert not re.search("not|round", shown[1] + shown[11])


def test_a_budget_that_ends_and_weights_in_doubt_leave_exposure_unknown(playing, monkeypatch):
    rng = np.random.default_rng(0)
    rows = np.array([rng.permutation([1] * 4 + [0] * 8) for _ in range(30)])
    assert all(one["exposed"] is not None for one in clients_of(playing, rows))
    of = MatrixAnalysis.of
    monkeypatch.setattr(MatrixAnalysis, "of", lambda matrix: of(matrix, budget=1000))
    (known,) = {one["unknown_after"] for one in clients_of(playing, rows) if one["exposed"] is None}
    assert known == of(rows, 1000).basis.known < 30
    monkeypatch.setattr(MatrixAnalysis, "of", of)
    doubtful = LATE[:1] + [[0.271828, 0.314159, *[0] * 10], [0, 0.271828, 0.141421, *[0] * 9]]
    part = clients_of(playing, doubtful)
    assert [(one["exposed"], one["unknown_after"]) for one in part[:4]] == [
        (0, None),
        (None, 1),
        (None, 1),
        (None, None),
    ]
    assert part[0]["unit"] == part[1]["unit"] == []


def test_what_cannot_be_worked_out_is_not_known(playing, monkeypatch):
    part = clients_of(playing, [[1, 1, *[0] * 10], [0, np.inf, 1, *[0] * 9]])
    assert {(one["unit"], one["exposed"], one["unknown_after"]) for one in part} == {(None, None, 0)}
    assert [one["rounds"] for one in part[:3]] == [1, 2, 1]
    assert all(line.count("not known") == 2 for line in terminal_rows(part).values())
    monkeypatch.setattr(live_clients, "MOST_BYTES", 10)
    part = clients_of(playing, LATE)
    assert {(one["rounds"], one["unit"], one["exposed"], one["unknown_after"]) for one in part} == {
        (None, None, None, 0)
    }
    assert all(line.count("not known") == 3 for line in terminal_rows(part).values())


@pytest.mark.skipif(executable() is None, reason="there is no Chromium on this machine")
def test_the_live_page_says_how_far_exposure_is_known(playing, monkeypatch):
    monkeypatch.setattr(live_clients, "MOST_ROUNDS", 3)
    clients_of(playing, LATE)
    with serve_page(WatchedFolder(playing)) as server, chromium() as window:
        window.open(f"http://{ADDRESS}:{server.server_port}/", 390, 844)
        wait = """new Promise(done => {
            const rows = () => document.querySelectorAll('#clients tr').length;
            const look = () => rows() === 12 ? done(true) : setTimeout(look, 50);
            look();
        })"""
        assert window.js(wait)
        cells = window.js("[...document.querySelectorAll('#clients tr')].map(r => r.cells[4].textContent).join('|')")
        shown = cells.split("|")
        assert shown[0] == "from round 0" and shown[4] == "not in the first 3 rounds" and shown[1] == "\u2013"
        assert window.errors == []


def test_a_run_is_followed_to_its_end(playing, single):
    watched = WatchedFolder(playing)
    watched.look()
    shutil.copy(single / "rounds.csv", playing)
    shutil.copy(single / "participation.csv", playing)
    shutil.copy(single / "summary.json", playing)
    state = watched.look()
    assert state["finished"] and state["runs"][0]["state"] == "done" and state["runs"][0]["round"] == 14


def test_a_sweep_tells_every_members_state(comparison, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(comparison.parent, folder)
    digests = [path.parent.name for path in sorted(folder.glob("*/summary.json"))]
    failed, waiting = digests[:2]
    (folder / failed / "summary.json").unlink()
    write_failure(folder / failed, "no luck")
    seal_begun(folder / failed, "scenario.yaml", "clients.csv")
    for name in ("rounds.csv", "participation.csv", "evaluation.csv"):
        (folder / failed / name).unlink(missing_ok=True)
    shutil.rmtree(folder / waiting)
    state = WatchedFolder(folder / comparison.name).look()
    states = {run["digest"]: run["state"] for run in state["runs"]}
    assert states == dict.fromkeys(digests, "done") | {failed: "failed", waiting: "waiting"}
    assert not state["finished"]
    assert {run["label"] for run in state["runs"]} >= {"random / seed 0", "batch_partition:T=2 / seed 2"}
    assert "no luck" in [run["error"] for run in state["runs"]]


def test_curves_of_long_runs_are_thinned(playing):
    part = playing / "rounds.csv.part"
    header, *rows = part.read_text().splitlines()
    many = (rows[0].replace("0,", f"{i},", 1) for i in range(2000))
    growing_table(playing, "rounds.csv", "\n".join([header, *many]) + "\n")
    curves = WatchedFolder(playing).look()["shown"][0]["curves"]
    assert len(curves["round"]) <= POINTS + 1 and curves["round"][-1] == 1999


def test_nothing_to_watch_is_said(tmp_path):
    with pytest.raises(SimflError, match="no run here"):
        WatchedFolder(tmp_path).look()


def get(port, path="/", host=None):
    connection = http.client.HTTPConnection(ADDRESS, port, timeout=10)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read().decode()


def test_the_server_answers_this_machine_only(playing):
    with serve_page(WatchedFolder(playing)) as server:
        port = server.server_port
        assert server.server_address[0] == "127.0.0.1"
        status, headers, text = get(port)
        assert status == 200 and "<!doctype html>" in text and headers["Content-Security-Policy"]
        assert json.loads(get(port, "/state.json")[2])["runs"][0]["round"] == 5
        assert get(port, host="evil.example")[0] == 403
        assert get(port, "/../../etc/passwd")[0] == get(port, "/rounds.csv")[0] == 404
        with pytest.raises(SimflError, match="--port 0"), serve_page(WatchedFolder(playing), port):
            pass
    with pytest.raises(OSError):
        get(port)


def test_the_terminal_shows_the_same(playing):
    from rich.console import Console

    console = Console(width=120, record=True, file=open(os.devnull, "w"))
    console.print(table(WatchedFolder(playing).look()))
    text = console.export_text()
    assert "5/14" in text and "running" in text and "1 running" in text


def test_the_terminal_shows_every_client_of_a_served_run(playing):
    """Remote ones with when they were last seen and what they told, as they told it; the others beside them."""
    from rich.console import Console

    (playing / "joined").mkdir()
    known = {"client": 3, "name": "[red]pod[/red]", "updates": 2, "refused": 1, "scores": {"[b]acc": 0.8125, "loss": 2}}
    write_sealed(playing / "joined" / "3.json", known)
    os.utime(playing / "joined" / "3.json", (0, 1_000_000_000))
    state = WatchedFolder(playing).look()
    console = Console(width=160, record=True, file=open(os.devnull, "w"))
    console.print(shown(state))
    runs, _, told = console.export_text().partition("last seen")
    assert "5/14" in runs
    lines = told.splitlines()[1:]
    first = re.split(r" {2,}", lines[0].strip())
    third = state["clients"][3]
    assert first[:3] == ["3 [red]pod[/red]", str(third["samples"]), str(third["rounds"])]
    assert first[-3:] == [formatdate(1e9, localtime=True)[5:-6], "2, 1 refused", "[b]acc 0.8125, loss 2"]
    others = [re.split(r" {2,}", line.strip())[0].split()[0] for line in lines[1:] if line[:1].isdigit()]
    assert others == [str(i) for i in range(12) if i != 3]


def started(*arguments):
    command = [sys.executable, "-m", "simfl", "watch", *arguments]
    environment = os.environ | {"PYTHONPATH": str(HERE), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command, cwd=HERE, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_ctrl_c_ends_it_cleanly(playing):
    process = started(str(playing))
    try:
        address = process.stdout.readline().split()[0]
        assert address.startswith("http://127.0.0.1:")
        assert get(int(address.rstrip("/").rpartition(":")[2]))[0] == 200
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0 and stderr == "stopped watching\n"


def test_without_a_terminal_it_prints_once(playing):
    process = started("--terminal", str(playing))
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0 and "5/14" in stdout and not stderr


@pytest.mark.skipif(executable() is None, reason="there is no Chromium on this machine")
def test_the_live_page_follows_the_run(playing, single):
    with serve_page(WatchedFolder(playing)) as server, chromium() as window:
        window.open(f"http://{ADDRESS}:{server.server_port}/", 390, 844)
        wait = """new Promise(done => {
            const facts = document.getElementById('facts');
            const look = () => facts.innerText.includes('%s') ? done(true) : setTimeout(look, 50);
            look();
        })"""
        assert window.js(wait % "5 of 14 rounds")
        assert window.js("document.querySelectorAll('#curves path').length") >= 3
        assert window.js("document.documentElement.scrollWidth") == 390
        for name in ("rounds.csv", "participation.csv", "summary.json"):
            shutil.copy(single / name, playing)
        assert window.js(wait % "14 of 14 rounds")
        assert window.js("document.getElementById('status').textContent") == "finished"
        assert window.errors == [] and all(ADDRESS in url or url.startswith("data:") for url in window.requests)


def test_runs_are_chosen_and_laid_over_one_another(comparison):
    watched = WatchedFolder(comparison)
    runs = watched.look()["runs"]
    digests = [run["digest"] for run in runs]
    assert [run["digest"] for run in watched.look()["shown"]] == digests[-1:], "nothing is chosen: the last one"
    chosen = [digests[4], digests[1], "000000000000", "../../etc", digests[4]]
    state = watched.look(chosen)
    assert [run["digest"] for run in state["shown"]] == [digests[4], digests[1]]
    assert [run["label"] for run in state["shown"]] == [runs[4]["label"], runs[1]["label"]]
    for run in state["shown"]:
        rows = (comparison.parent / run["digest"] / "rounds.csv").read_text().splitlines()
        place = rows[0].split(",").index("test_accuracy")
        assert run["curves"]["test_accuracy"] == [float(row.split(",")[place]) for row in rows[1:]]
        assert run["curves"].keys() == {"round", "time_s", *(column["name"] for column in state["columns"])}
    assert len(watched.look(digests)["shown"]) == 8
    with serve_page(watched) as server:
        text = get(server.server_port, f"/state.json?run={digests[0]}&run={digests[2]}&other=1")[2]
        assert [run["digest"] for run in json.loads(text)["shown"]] == [digests[0], digests[2]]


def test_a_run_whose_rounds_are_over_is_ending(playing, single):
    growing_table(playing, "rounds.csv", (single / "rounds.csv").read_text())
    state = WatchedFolder(playing).look()
    assert state["runs"][0]["ending"] and not state["finished"] and state["runs"][0]["state"] == "running"


@pytest.mark.skipif(executable() is None, reason="there is no Chromium on this machine")
def test_the_page_lays_runs_over_one_another(comparison):
    with serve_page(WatchedFolder(comparison)) as server, chromium() as window:
        address = f"http://{ADDRESS}:{server.server_port}/"
        window.open(address, 390, 844)
        wait = """new Promise(done => {
            const look = () => document.querySelectorAll('#shown li').length === %d ? done(true) : setTimeout(look, 50);
            look();
        })"""
        assert window.js(wait % 1)
        for box in (1, 2, 3):
            assert window.js(f"document.querySelectorAll('#runs input')[{box}].click() ?? true")
            assert window.js(wait % box)
        figure = "document.querySelector('#curves figure').querySelectorAll('path')"
        assert window.js(f"{figure}.length") == 3
        assert window.js(f"new Set([...{figure}].map(p => getComputedStyle(p).stroke)).size") == 3
        assert window.js(f"new Set([...{figure}].map(p => getComputedStyle(p).strokeDasharray)).size") == 3, (
            "in grey too"
        )
        labels = window.js("[...document.querySelectorAll('#shown li')].map(li => li.innerText).join('|')")
        assert len(set(labels.split("|"))) == 3
        assert window.js("document.documentElement.scrollWidth") == 390
        assert window.js("location.hash.split(',').length") == 3
        assert window.js("document.querySelectorAll('#runs input')[2].click() ?? true") and window.js(wait % 2)
        assert "simfl" not in window.js("document.getElementById('status').textContent")
        assert window.errors == []
    assert "SIMFL WATCH" not in (HERE / "simfl/report/live/templates/watch.js").read_text().upper()


@pytest.mark.parametrize(
    "garbage", [b"\xff\xfe\x00\n\x00\n", b"round,time_s\n1\n,,,\nx,nan,inf\n2,1e999\n", b'"\n', b"\n\n", b"[" * 100_000]
)
@pytest.mark.parametrize("name", ["rounds.csv.part", "participation.csv.part", "scenario.yaml", "clients.csv",
                                  "begun.json", "rounds.csv.seals.part", "joined/3.json"])  # fmt: skip
def test_damaged_files_do_not_end_the_watching_and_are_told(playing, name, garbage):
    """Whatever stands in a file beside a run in progress: a line that names it, and nothing that is not true."""
    (playing / "joined").mkdir()
    write_sealed(playing / "joined" / "3.json", {"client": 3, "name": "", "updates": 1, "refused": 0, "scores": {}})
    true = WatchedFolder(playing).look()
    assert true["runs"][0]["error"] is None
    data = (playing / name).read_bytes()
    for damaged in (b"", garbage, data[: len(data) // 2], b"7" + data[1:], garbage + data):
        (playing / name).write_bytes(damaged)
        state = WatchedFolder(playing).look()
        said = state["runs"][0]["error"] or ""
        assert name.removesuffix(".part").removesuffix(".seals") in said or state == true and "seals" in name
        json.dumps(state, allow_nan=False)
        assert state["runs"][0]["accuracy"] in (None, true["runs"][0]["accuracy"])
        keys = ("rounds", "exposed", "unknown_after")
        told = {one["client"]: tuple(one[key] for key in keys) for one in true["clients"]}
        assert all(tuple(one[key] for key in keys) in ((0, None, 0), told[one["client"]]) for one in state["clients"])


def test_exposure_of_a_finished_run_is_told_from_checked_tables(single, tmp_path):
    folder = shutil.copytree(single, tmp_path / single.name)
    lines = (folder / "participation.csv").read_text().splitlines(keepends=True)
    (folder / "participation.csv").write_text("".join(lines[: len(lines) // 2]))
    state = WatchedFolder(folder).look()
    assert "participation.csv: damaged" in state["runs"][0]["error"]
    assert not any(one["rounds"] or one["exposed"] for one in state["clients"])


def test_a_round_far_away_costs_no_memory(playing):
    growing_table(playing, "participation.csv", "round,client,weight\n1000000000,1,1.0\n")
    assert [one["rounds"] for one in WatchedFolder(playing).look()["clients"]][:3] == [0, 1, 0]


def test_a_damaged_run_is_told_as_one(single, tmp_path):
    folder = shutil.copytree(single, tmp_path / single.name)
    (folder / "rounds.csv").write_text((folder / "rounds.csv").read_text().replace("1", "2", 1))
    (run,) = WatchedFolder(folder).look()["runs"]
    assert run["state"] == "failed" and "rounds.csv: damaged" in run["error"]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1500), st.lists(st.integers(1, 4000), max_size=12), st.sampled_from([128, 1000, 1 << 23]))
def test_a_table_read_as_it_grows_is_the_table(rows, cuts, block):
    """Whatever the pieces in which it came: the rows, the points and the last values of the whole."""
    lines = [f"{i},{i / 2},{'' if i % 3 else i / 4},,1.5,{i % 5}" for i in range(rows)]
    data = "\n".join(["round,time_s,test_accuracy,train_loss,mean_cardinality,fairness_gap", *lines, ""]).encode()
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(watched_folder, "BLOCK_BYTES", block):
        table, end = RoundsTail(Path(folder)), 0
        for cut in [*cuts, len(data)]:
            end = min(len(data), end + cut)
            sealed = data[: data.rfind(b"\n", 0, end) + 1]
            growing_table(Path(folder), "rounds.csv", sealed.decode(), data[len(sealed) : end].decode())
            table.look()
            assert table.rows == max(0, data[:end].count(b"\n") - 1)
        curves = table.curves()
        assert table.last("test_accuracy") == (None if rows == 0 else (rows - 1) // 3 * 3 / 4)
    assert len(curves["round"]) <= POINTS + 1
    if rows:
        numbers = [int(value) for value in curves["round"]]
        assert numbers[0] == 0 and numbers[-1] == rows - 1 and len({*np.diff(numbers[:-1])}) <= 1
        assert curves["fairness_gap"] == [number % 5 for number in numbers]


def test_a_long_table_is_read_once(tmp_path):
    """A million rows: the second look takes the row that is new, not those that were there."""
    (tmp_path / "scenario.yaml").write_text("name: long\ntraining: {rounds: 1000001}\n")
    seal_begun(tmp_path, "scenario.yaml")
    part, seals = tmp_path / "rounds.csv.part", tmp_path / "rounds.csv.seals.part"
    row = ",0.5," + "1," * 12 + "2.5,1.25,0.75\n"
    with open(part, "w") as file:
        file.write(",".join(ROUNDS) + "\n")
        file.writelines(f"{i}{row}" for i in range(1_000_000))
    seals.write_text(f"{part.stat().st_size} {sha256(part)}\n")
    watched = WatchedFolder(tmp_path)
    assert watched.look()["runs"][0]["round"] == 1_000_000
    with open(part, "a") as file:
        file.write(f"1000000{row}")
    seals.write_text(f"{part.stat().st_size} {sha256(part)}\n")
    with mock.patch.object(RoundsTail, "_take") as taken:
        watched.look()
    assert [len(call.args[0]) for call in taken.call_args_list] == [1]


def test_who_hangs_up_or_falls_silent_leaves_no_traceback(playing, capfd):
    state = b"GET /state.json HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"
    with serve_page(WatchedFolder(playing), limits=ConnectionLimits(request_s=0.5)) as server:
        address = ADDRESS, server.server_port
        for request in (b"", b"GET /", state, state, b"\x00\xff\r\n\r\n"):
            client = socket.create_connection(address)
            client.sendall(request)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing resets
            client.close()
        silent = socket.create_connection(address)
        silent.settimeout(20)
        assert silent.recv(1) == b""  # the server gave up
        waiting = [socket.create_connection(address) for _ in range(100)]
        connection = http.client.HTTPConnection(*address, timeout=20)
        connection.request("GET", "/state.json")
        assert connection.getresponse().status == 200
        for client in (*waiting, silent):
            client.close()
    assert "Traceback" not in capfd.readouterr().err


def test_a_failed_run_whose_folder_is_renamed_or_a_link_is_told_as_it_is(playing, tmp_path):
    """Its digest stands in begun.json."""
    write_failure(playing, "out of memory")
    moved = playing.rename(playing.with_name("kept.bak"))
    (tmp_path / "link").symlink_to(moved)
    for place in (moved, tmp_path / "link"):
        (told,) = WatchedFolder(place).look()["runs"]
        assert (told["state"], told["error"]) == ("failed", "out of memory")


def test_runs_beside_one_another_are_named_by_what_differs(comparison, tmp_path):
    """N9: the legend of a folder of results was a digest, its title one scenario's of several."""
    watched = WatchedFolder(comparison.parent)
    state = watched.look()
    labels = [run["label"] for run in state["runs"]]
    assert labels[:4] == ["batch_partition / seed 0", "batch_partition / seed 1", "batch_partition / seed 2",
                          "partition / seed 0"]  # fmt: skip
    assert (state["title"], len(set(labels))) == ("sample", 9) and watched.look()["runs"] == state["runs"]
    for name in ("one", "ten"):
        run = tmp_path / "results" / "both" / name
        shutil.copytree(comparison.parent / state["runs"][0]["digest"], run)
        text = (run / "scenario.yaml").read_text()
        (run / "scenario.yaml").write_text(text.replace("name: sample", f"name: {name}"))
        reseal(run, "scenario.yaml")
    state = WatchedFolder(tmp_path / "results").look()
    assert state["title"] == "results" and [run["label"] for run in state["runs"]] == ["one / seed 0", "ten / seed 0"]


def test_names_of_runs_are_different_and_say_the_digest_only_where_they_must():
    def scenario(name, seed, k):
        return {"name": name, "seed": seed, "selection": {"name": "random", "k": k}}

    def names(scenarios):
        return name_runs([Path(digest) for digest in scenarios], {Path(d): s for d, s in scenarios.items() if s})

    assert names({"a": scenario("x", 0, 2), "b": scenario("x", 0, 10)}) == ["k=2 / seed 0", "k=10 / seed 0"]
    assert names({"a": scenario("x", 0, 2), "b": scenario("y", 0, 9)}) == ["x / seed 0", "y / seed 0"]
    assert names({"a": scenario("x", 0, 2), "b": scenario("x", 0, 2)}) == ["seed 0 (a)", "seed 0 (b)"]
    assert names({"a": scenario("x", 0, 2), "b": {}}) == ["seed 0", "b"]
