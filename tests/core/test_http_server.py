"""What strangers can take from ``serve`` and ``watch`` (memory, time, connections), and which names they answer to."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest

from simfl.core.errors import SimflError
from simfl.core.http import bounded_server, handler
from simfl.core.http.bounded_server import ConnectionLimits, check_name, is_server_name
from simfl.core.types import Job, JobRequest
from simfl.deployment.remote.client import join
from simfl.deployment.remote.job_server import serve_jobs
from simfl.deployment.remote.jobs import RemoteJobs
from simfl.report.live.page_server import serve_page
from simfl.report.live.watched_folder import WatchedFolder
from simfl.results.client_updates import UpdateStore

HERE = Path(__file__).resolve().parents[2]
TOKEN = "t0ken-of-the-project"
D = 20

SERVER = """
import resource, sys
from pathlib import Path
import numpy as np
from simfl.core.types import JobRequest
from simfl.deployment.remote.jobs import RemoteJobs
from simfl.deployment.remote.job_server import serve_jobs
from simfl.plugins import Job
from simfl.results.client_updates import UpdateStore

def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10))

jobs = RemoteJobs((3,), UpdateStore(Path(sys.argv[1])), sys.argv[2], 600.0, {"name": "x"})
asked = [JobRequest(Job(7 + i, 3, i, 0.0), np.full(20, i, dtype=np.float32)) for i in range(6)]
jobs.request(asked)
with serve_jobs(jobs) as address:
    print(address, flush=True)
    before = peak_mb()
    try:
        jobs.collect(asked)
        for line in sys.stdin:
            break
    except BaseException as error:
        jobs.end(type(error).__name__)
        raise
    finally:
        print(peak_mb() - before, flush=True)
"""
"""``simfl serve`` without a simulation: six jobs of one client; prints by how much its memory grew at most."""


@contextmanager
def server_process(tmp_path, command=None):
    """A server in a process of its own, and its address."""
    about = dict(cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(HERE)}, text=True)
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process = subprocess.Popen(
        command or [sys.executable, "-c", SERVER, str(tmp_path / "run"), TOKEN], **about, **pipes
    )
    try:
        yield process, process.stdout.readline().split()[0]
    finally:
        process.kill()
        process.communicate()


def place(address):
    host, port = address.removeprefix("http://").rstrip("/").split(":")
    return host, int(port)


@contextmanager
def attack(address, connections, connected):
    """So many threads that connect, hand the connection to ``connected`` and begin anew, until the end."""
    over = threading.Event()

    def work():
        while not over.is_set():
            with suppress(OSError), socket.create_connection(place(address), timeout=5) as peer:
                connected(peer, over)
            over.wait(0.01)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(connections)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(20)


HEADER = b"X: " + b"x" * 65_000 + b"\r\n"
REQUEST = b"GET /project HTTP/1.1\r\n" + 97 * HEADER + b"\r\n"


def flood(peer, over):
    """A request of 97 headers of 65 kB that is never complete, as far as the server reads it."""
    peer.sendall(b"GET /project HTTP/1.1\r\n")
    for _ in range(97):
        peer.sendall(HEADER)
    over.wait(60)


def storm(peer, over):
    """Complete requests of that size, one after the other."""
    peer.sendall(REQUEST)
    while not over.is_set() and peer.recv(1 << 16):
        pass


def drip(peer, over):
    """A byte of a header every 0.5 s, as long as the server reads it."""
    peer.sendall(b"GET /project HTTP/1.1\r\nX: ")
    while not over.wait(0.5):
        peer.sendall(b"x")


def test_a_flood_of_headers_takes_little_memory(tmp_path):
    """Of 120 connections; they took 336 MB and more before headers were bounded."""
    with server_process(tmp_path) as (process, address):
        done, sent = threading.Semaphore(0), threading.Event()
        sent.set()

        def once(peer, over):
            try:
                flood(peer, sent)
            finally:
                done.release()
                over.wait(60)

        with attack(address, 120, once):
            for _ in range(120):  # refused, or everything is sent
                assert done.acquire(timeout=20)
            answer_all(address, 6)
            process.stdin.write("end\n")
            process.stdin.flush()
            grown = float(process.stdout.readline())
    assert grown < 60, grown


def answer_all(address, jobs):
    """A client's whole way, each request of which must succeed at once; returns how many there were."""
    requests = 2
    client = join(address, TOKEN, patience_s=0)
    for number, job in zip(range(jobs), client.jobs()):  # in this order: no job is waited for that never comes
        model = client.model(job)
        assert np.array_equal(model, np.full(D, number, dtype=np.float32))
        client.scores(loss=0.5)
        client.send(job, model + 1, 0.5)
        requests += 4
    return requests


def test_512_dripping_connections_leave_26_of_26_right_requests_served(tmp_path):
    with server_process(tmp_path) as (process, address), attack(address, 512, drip):
        time.sleep(1.5)  # more than the server takes are open by now
        assert answer_all(address, 6) == 26
        process.stdin.write("end\n")
        process.stdin.flush()
        assert float(process.stdout.readline()) < 100
    assert len(UpdateStore(tmp_path / "run")) == 6


@pytest.mark.parametrize("connected", [storm, drip])
def test_an_interrupt_under_attack_ends_the_server_within_5_seconds(tmp_path, connected):
    with server_process(tmp_path) as (process, address), attack(address, 120, connected):
        join(address, TOKEN)  # who is never told of the end
        time.sleep(0.5)
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
        took_s = time.monotonic() - begun
    assert took_s < 5 and "KeyboardInterrupt" in stderr


@pytest.mark.slow
@pytest.mark.parametrize("connected", [storm, drip])
def test_an_interrupt_under_attack_ends_simfl_serve_within_5_seconds(tmp_path, connected):
    (tmp_path / "served.yaml").write_text(
        "name: served\nclients: 4\nselection: {name: random, k: 4}\ntraining: {name: fedavg, rounds: 2}\n"
        "learning: {data: digits, model: mlp, backend: {name: external, clients: [0, 1]}}\n"
    )
    (tmp_path / "token").write_text(TOKEN)
    command = [sys.executable, "-m", "simfl", "serve", "served.yaml", "--token-file", "token", "-q"]
    with server_process(tmp_path, command) as (process, address), attack(address, 120, connected):
        time.sleep(3)
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        took_s = time.monotonic() - begun
    assert took_s < 5 and process.returncode


# -- both servers -------------------------------------------------------------------------------------

RIGHT = {"serve": "/project", "watch": "/state.json"}


@pytest.fixture
def jobs(tmp_path):
    made = RemoteJobs((3, 5), UpdateStore(tmp_path / "served"), TOKEN, 0.2, {"name": "x"})
    made.request([JobRequest(Job(7, 3, 2, 0.0), np.zeros(D, dtype=np.float32))])
    return made


@pytest.fixture(params=RIGHT)
def started(request, jobs, tmp_path):
    """Starts a server with limits; gives its address and a path that it answers."""
    (tmp_path / "scenario.yaml").write_text("name: x\n")
    (tmp_path / "rounds.csv.part").write_text("round,time_s\n")
    with ExitStack() as stack:

        def start(**limits):
            if request.param == "serve":
                address = stack.enter_context(serve_jobs(jobs, limits=ConnectionLimits(**limits)))
            else:
                server = stack.enter_context(serve_page(WatchedFolder(tmp_path), limits=ConnectionLimits(**limits)))
                address = f"http://127.0.0.1:{server.server_port}"
            return address, RIGHT[request.param]

        yield start


def get(address, path, token=TOKEN, **headers):
    connection = HTTPConnection(*place(address), timeout=20)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} | headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_a_request_has_a_time_limit_in_all_not_between_two_bytes(started):
    address, path = started(request_s=1.0)
    with socket.create_connection(place(address)) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\n")
        begun = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() < begun + 20:
                peer.sendall(b"x")
                time.sleep(0.1)
        assert 0.5 < time.monotonic() - begun < 10
    assert get(address, path)[0] == 200


@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 431), (1 << 17, 431)])
@pytest.mark.parametrize("line", ["request", "header"])
def test_the_head_of_a_request_has_as_many_bytes_as_it_may_and_not_one_more(started, more, status, line):
    address, path = started(head_bytes=2000)
    rest = f" HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    head = f"GET {path}?x=%s{rest}\r\n" if line == "request" else f"GET {path}{rest}X: %s\r\n\r\n"
    request = head % ("x" * (2000 - len(head) + 2 + more))
    assert len(request) == 2000 + more
    with socket.create_connection(place(address), timeout=20) as peer:
        peer.sendall(request.encode())
        answer = peer.makefile("rb").read()
    assert answer.split()[1] == str(status).encode()
    assert status == 200 or b"at most 2000 bytes" in answer


def test_a_hundred_headers_at_most(started):
    address, path = started()
    assert get(address, path, **{f"X-{i}": "1" for i in range(90)})[0] == 200
    assert get(address, path, **{f"X-{i}": "1" for i in range(101)})[0] == 431


@pytest.mark.parametrize("limits", [dict(connections=4), dict(connections_per_address=4)])
def test_whoever_has_kept_the_server_waiting_for_longest_makes_room(started, limits):
    address, path = started(**limits)
    silent = [socket.create_connection(place(address)) for _ in range(4)]
    assert get(address, path)[0] == 200
    silent[0].settimeout(10)
    assert silent[0].recv(1) == b""  # the first has made room
    for peer in silent[1:]:
        peer.sendall(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        assert peer.recv(15) == b"HTTP/1.0 200 OK"  # the others have not
        peer.close()
    many = [socket.create_connection(place(address)) for _ in range(20)]
    assert get(address, path)[0] == 200
    for peer in (*many, silent[0]):
        peer.close()


def test_who_has_a_token_is_not_evicted_and_waits_for_a_job_longer_than_a_request_may_take(jobs):
    """A long poll and a slow upload, while connections without a token come and go."""
    with serve_jobs(jobs, limits=ConnectionLimits(connections=4, request_s=1.0, bytes_per_s=50)) as address:
        client = join(address, TOKEN, slot=5)
        answers = []
        poll = threading.Thread(target=lambda: answers.append(get(address, "/jobs?wait=3", client.token)))
        poll.start()
        body = json.dumps({"loss": 0.25}).encode().ljust(100)
        with socket.create_connection(place(address), timeout=20) as upload:
            head = f"POST /scores HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {client.token}\r\n"
            upload.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
            time.sleep(0.2)
            silent = []
            for at in range(0, len(body), 5):  # 2 s: more than request_s, less than request_s + 100 / 50
                silent.append(socket.create_connection(place(address)))
                upload.sendall(body[at : at + 5])
                time.sleep(0.1)
            assert upload.recv(15) == b"HTTP/1.0 200 OK"
        poll.join(20)
        assert [status for status, _ in answers] == [200]
        for peer in silent:
            peer.close()


def test_who_has_a_token_and_dawdles_is_dropped_too(jobs):
    with serve_jobs(jobs, limits=ConnectionLimits(request_s=0.5, bytes_per_s=1000)) as address:
        client = join(address, TOKEN, slot=5)
        with socket.create_connection(place(address), timeout=20) as upload:
            head = f"POST /scores HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {client.token}\r\n"
            upload.sendall(f"{head}Content-Length: 1000\r\n\r\n".encode())
            begun = time.monotonic()
            with pytest.raises(OSError):
                while time.monotonic() < begun + 20:
                    upload.sendall(b" ")
                    time.sleep(0.1)
        assert 1 < time.monotonic() - begun < 10


def test_the_rest_of_a_refused_request_is_read_for_a_short_time_only(jobs, monkeypatch):
    monkeypatch.setattr(handler, "DRAIN_S", 0.5)
    with serve_jobs(jobs) as address, socket.create_connection(place(address), timeout=20) as peer:
        peer.sendall(b"POST /clients HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n")
        assert peer.recv(12) == b"HTTP/1.0 401"
        begun = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() < begun + 20:
                peer.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() - begun < 5


def test_connections_are_counted_by_address_and_the_one_with_most_makes_room():
    from simfl.core.http.bounded_server import BoundedServer
    from simfl.core.http.handler import BoundedHandler

    server = BoundedServer(
        "127.0.0.1", 0, BoundedHandler, limits=ConnectionLimits(connections=6, connections_per_address=4)
    )
    with ExitStack() as stack:
        stack.callback(server.server_close)

        def connected(origin):
            ours, theirs = socket.socketpair()
            stack.callback(ours.close), stack.callback(theirs.close)
            server._connections[ours] = bounded_server.Connection(ours, origin, 10.0)
            return server._connections[ours]

        first = connected("10.0.0.1")
        crowd = [connected("10.0.0.2") for _ in range(3)]
        assert server._victim("10.0.0.2") is None and server._victim("10.0.0.3") is None
        crowd.append(connected("10.0.0.2"))
        assert server._victim("10.0.0.2") is crowd[0], "it has its share"
        assert server._victim("10.0.0.1") is None, "there is room for others"
        connected("10.0.0.3")
        assert server._victim("10.0.0.1") is crowd[0] is not first, "full: the crowd makes room, not who came first"
        crowd[0].admit()
        crowd[1].expect(None)
        assert server._victim("10.0.0.1") is crowd[2], "who has a token or is being answered stays"


def test_an_ipv6_network_counts_as_one_address():
    assert (
        bounded_server.origin_of("2001:db8:1:2::1")
        == bounded_server.origin_of("2001:db8:1:2:ffff::9")
        == "2001:db8:1:2::/64"
    )
    assert bounded_server.origin_of("2001:db8:1:3::1") != bounded_server.origin_of("2001:db8:1:2::1")
    assert bounded_server.origin_of("::ffff:10.0.0.1") == bounded_server.origin_of("10.0.0.1") == "10.0.0.1"
    assert bounded_server.origin_of("fe80::1%eth0") == "fe80::/64"


# -- names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "host", "arrived_at", "right"),
    [
        ("192.0.2.7:8765", "0.0.0.0", "192.0.2.7", True),
        ("192.0.2.7", "0.0.0.0", "192.0.2.7", True),
        ("192.0.2.8", "0.0.0.0", "192.0.2.7", False),
        ("127.0.0.1:80", "0.0.0.0", "127.0.0.1", True),
        ("localhost:80", "0.0.0.0", "127.0.0.1", True),
        ("localhost", "0.0.0.0", "192.0.2.7", False),
        ("Box.Example.org:1", "0.0.0.0", "192.0.2.7", True),
        ("box", "0.0.0.0", "192.0.2.7", True),
        ("box", "127.0.0.1", "127.0.0.1", False),
        ("other.example.org", "0.0.0.0", "192.0.2.7", False),
        ("evil.example", "0.0.0.0", "192.0.2.7", False),
        ("box.evil.example", "0.0.0.0", "192.0.2.7", False),
        ("192.0.2.7.evil.example", "0.0.0.0", "192.0.2.7", False),
        ("fl.example.org:443", "127.0.0.1", "127.0.0.1", True),
        ("FL.example.org", "0.0.0.0", "192.0.2.7", True),
        ("[2001:DB8:0:0::7]:80", "::", "2001:db8::7", True),
        ("[2001:db8::8]:80", "::", "2001:db8::7", False),
        ("192.0.2.7", "::", "::ffff:192.0.2.7", True),
        ("[::1]", "::", "::1", True),
        ("localhost", "::", "::ffff:127.0.0.1", True),
        ("localhost", "localhost", "127.0.0.1", True),
        ("127.0.0.1", "localhost", "127.0.0.1", True),
        ("", "0.0.0.0", "192.0.2.7", False),
        (":80", "0.0.0.0", "192.0.2.7", False),
    ],
)
def test_a_server_answers_to_its_own_names_and_to_no_other(header, host, arrived_at, right, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "box.example.org")
    assert is_server_name(header, host, arrived_at, ("fl.example.org",)) is right


def test_names_are_given_to_the_server_and_nonsense_is_refused(jobs):
    with serve_jobs(jobs, names=("fl.example.org", "2001:db8::1")) as address:
        shown, _, port = address.rpartition(":")
        assert shown == "http://fl.example.org"
        here = f"127.0.0.1:{port}"
        for name, status in (("fl.example.org", 200), ("[2001:db8::1]:80", 200), (here, 200), ("evil.example", 403)):
            assert get(here, "/project", Host=name)[0] == status
        assert b"--name" in get(here, "/project", Host="evil.example")[1]
    for name in ("", "http://x", "x:80", "a b", "x/", "*", "evil.example\n", "[::1]"):
        with pytest.raises(SimflError, match="--name .*without http:// and port"):
            check_name(name)
    for name in ("x", "fl.example.org", "192.0.2.1", "2001:db8::1", "fl_1"):
        check_name(name)
