"""Watching: what grows on disk is told truly, to this machine only, and Ctrl-C ends it cleanly."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from chromium import chromium, executable

from simfl.errors import SimflError
from simfl.report.growing import POINTS
from simfl.report.live import Watched
from simfl.report.server import ADDRESS, serving
from simfl.report.terminal import table

HERE = Path(__file__).resolve().parent.parent


@pytest.fixture
def playing(single, tmp_path):
    """A run that has come five rounds and a half."""
    folder = tmp_path / "sample" / single.name
    shutil.copytree(single, folder)
    (folder / "summary.json").unlink()
    lines = (folder / "rounds.csv").read_text().splitlines(keepends=True)
    (folder / "rounds.csv").unlink()
    (folder / "rounds.csv.part").write_text("".join(lines[:6]) + lines[6][:7])
    return folder


def test_a_half_written_line_does_not_count(playing, single):
    state = Watched(playing).look()
    (run,) = state["runs"]
    assert (run["state"], run["round"], run["rounds"]) == ("playing", 5, 14) and not state["finished"]
    rows = (single / "rounds.csv").read_text().splitlines()
    accuracy = float(rows[5].split(",")[rows[0].split(",").index("test_accuracy")])
    assert run["accuracy"] == accuracy == state["curves"]["test_accuracy"][-1]
    assert state["curves"]["round"] == [0, 1, 2, 3, 4]


def test_a_run_is_followed_to_its_end(playing, single):
    watched = Watched(playing)
    watched.look()
    shutil.copy(single / "rounds.csv", playing)
    shutil.copy(single / "summary.json", playing)
    state = watched.look()
    assert state["finished"] and state["runs"][0]["state"] == "done" and state["runs"][0]["round"] == 14


def test_a_sweep_tells_every_members_state(comparison, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(comparison.parent, folder)
    digests = [path.parent.name for path in sorted(folder.glob("*/summary.json"))]
    failed, waiting = digests[:2]
    (folder / failed / "summary.json").unlink()
    (folder / failed / "failed.json").write_text('{"error": "no luck"}')
    shutil.rmtree(folder / waiting)
    state = Watched(folder / comparison.name).look()
    states = {run["digest"]: run["state"] for run in state["runs"]}
    assert states == dict.fromkeys(digests, "done") | {failed: "failed", waiting: "waiting"}
    assert not state["finished"]
    assert {run["label"] for run in state["runs"]} >= {"random / seed 0", "batch_partition:T=2 / seed 2"}
    assert "no luck" in [run["error"] for run in state["runs"]]


def test_curves_of_long_runs_are_thinned(playing):
    part = playing / "rounds.csv.part"
    header, *rows = part.read_text().splitlines()
    part.write_text("\n".join([header, *(rows[0].replace("0,", f"{i},", 1) for i in range(2000))]) + "\n")
    curves = Watched(playing).look()["curves"]
    assert len(curves["round"]) <= POINTS + 1 and curves["round"][-1] == 1999


def test_nothing_to_watch_is_said(tmp_path):
    with pytest.raises(SimflError, match="no run here"):
        Watched(tmp_path).look()


def get(port, path="/", host=None):
    connection = http.client.HTTPConnection(ADDRESS, port, timeout=10)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read().decode()


def test_the_server_answers_this_machine_only(playing):
    with serving(Watched(playing)) as server:
        port = server.server_port
        assert server.server_address[0] == "127.0.0.1"
        status, headers, text = get(port)
        assert status == 200 and "<!doctype html>" in text and headers["Content-Security-Policy"]
        assert json.loads(get(port, "/state.json")[2])["runs"][0]["round"] == 5
        assert get(port, host="evil.example")[0] == 403
        assert get(port, "/../../etc/passwd")[0] == get(port, "/rounds.csv")[0] == 404
        with pytest.raises(SimflError, match="--port 0"), serving(Watched(playing), port):
            pass
    with pytest.raises(OSError):
        get(port)


def test_the_terminal_shows_the_same(playing):
    from rich.console import Console

    console = Console(width=120, record=True, file=open(os.devnull, "w"))
    console.print(table(Watched(playing).look()))
    text = console.export_text()
    assert "5/14" in text and "playing" in text and "1 playing" in text


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
    with serving(Watched(playing)) as server, chromium() as window:
        window.open(f"http://{ADDRESS}:{server.server_port}/", 390, 844)
        wait = """new Promise(done => {
            const facts = document.getElementById('facts');
            const look = () => facts.innerText.includes('%s') ? done(true) : setTimeout(look, 50);
            look();
        })"""
        assert window.js(wait % "round 5 of 14")
        assert window.js("document.querySelectorAll('#curves path').length") >= 3
        assert window.js("document.documentElement.scrollWidth") == 390
        shutil.copy(single / "rounds.csv", playing)
        shutil.copy(single / "summary.json", playing)
        assert window.js(wait % "round 14 of 14")
        assert window.js("document.getElementById('status').textContent") == "finished"
        assert window.errors == [] and all(ADDRESS in url or url.startswith("data:") for url in window.requests)
