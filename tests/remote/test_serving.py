"""Clients that are processes of their own: what they get, what they may send, and that nothing of it changes a byte."""

import io
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from shutil import copytree, rmtree

import numpy as np
import pytest
from click.testing import CliRunner
from pandas import read_csv

from simfl.cli import simfl as group
from simfl.core.errors import IntegrityError, ScenarioError
from simfl.core.types import Job, JobRequest, JobResult, RemoteClientError
from simfl.deployment.remote.client import ClientError, ClientJob, RemoteTraining, join
from simfl.deployment.remote.job_server import project, serve, serve_jobs
from simfl.deployment.remote.job_times import read_job_times
from simfl.deployment.remote.jobs import HEADER_BYTES, RemoteJobs
from simfl.results.client_updates import UpdateReplay, UpdateStore, npy_bytes
from simfl.results.folder import ResultsFolder
from simfl.runs.run import run, verify
from simfl.scenario import InvalidScenario, Scenario
from tests.support import forked

HERE = Path(__file__).resolve().parents[2]
TOKEN = "t0ken-of-the-project"
TEXT = """
name: served
clients: 6
devices: {availability: {name: bernoulli, dropout: 0.2}, failure: {name: bernoulli, probability: 0.1}}
selection: {name: random, k: 3}
training: {name: fedavg, rounds: 5, batch_size: 20, decay_at: [3]}
learning: {data: digits, model: {name: mlp, hidden: [8]}, backend: {name: external, clients: [0, 1, 4]}}
"""
FEDBUFF = ["training={name: fedbuff, concurrency: 4, buffer: 2, rounds: 6, batch_size: 20}", "selection=random"]
DATAPOD = re.search(r"```python\n# datapod.py\n(.*?)```", (HERE / "docs/how-to/serve.md").read_text(), re.S)[1]


def scenario(*overrides):
    return Scenario.parse(TEXT, "served", overrides)


def tables(folder):
    """The digests that must not depend on where clients train."""
    return {
        name: it
        for name, it in ResultsFolder.open(folder).files.items()
        if name not in ("scenario.yaml", "updates.csv", "columns.json")  # which says that they are taken at their word
    }


def internal(tmp_path, *overrides):
    return tables(run(scenario(*overrides, "learning.backend=auto"), tmp_path / "internal").path)


def pod(slot, before=lambda client, job: None):
    """A client with simfl's own local training, joined and built."""

    def joined(address):
        client = join(address, TOKEN, f"pod {slot}", slot)
        train = client.local_training()

        def work():
            for job in client.jobs():
                before(client, job)
                delta, loss = train(job, client.model(job))
                client.scores(loss=loss)
                client.send(job, delta, loss)

        return work

    return joined


PODS = pod(0), pod(1), pod(4)


def served(made, out, *clients, limit_s=120.0):
    """Plays a scenario with clients in threads: functions of the address that join and return what is to be done."""
    threads = []

    def ready(address, token):
        assert token == TOKEN
        works = [each(address) for each in clients]  # one after the other: torch's modules are not built side by side
        threads.extend(threading.Thread(target=_to_the_end, args=(work,)) for work in works)
        for thread in threads:
            thread.start()

    try:
        return serve(made, out, token=TOKEN, limit_s=limit_s, ready=ready).path
    finally:
        for thread in threads:
            thread.join(120)


def _to_the_end(work):
    with suppress(ClientError):  # the run has failed, as its test expects
        work()


# -- the same bytes ----------------------------------------------------------------------------------


@pytest.mark.timeout(900)
def test_three_processes_one_of_them_killed_and_started_again_give_the_bytes_of_the_internal_run(tmp_path):
    (tmp_path / "served.yaml").write_text(TEXT)
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "datapod.py").write_text(DATAPOD)
    stop = (
        "import os\nfrom simfl.deployment.remote.client import RemoteClient\n"
        "RemoteClient.scores = lambda *a, **b: os.kill(os.getpid(), 9)\n"
    )
    (tmp_path / "dying.py").write_text(stop + DATAPOD)
    served_here = forked.command("serve", "served.yaml", "--token-file", "token", "-q")
    server = forked.start(served_here, cwd=tmp_path, stdout=subprocess.PIPE)
    try:
        address = server.stdout.readline().strip()

        def pod(script, slot):
            return forked.start(forked.script(script, address, "token", slot), cwd=tmp_path)

        dying = pod("dying.py", "1")
        others = [pod("datapod.py", slot) for slot in "04"]
        assert dying.wait(200) == -signal.SIGKILL
        others.append(pod("datapod.py", "1"))
        assert [other.wait(200) for other in others] == [0, 0, 0]
        folder = tmp_path / server.communicate(timeout=200)[0].strip()
        assert server.returncode == 0
    finally:
        server.kill()
    assert tables(folder) == internal(tmp_path)
    assert all(verify(folder).values())


def test_buffered_remote_clients_give_the_bytes_of_the_internal_run_and_of_a_replay(tmp_path):
    made = scenario(*FEDBUFF)
    folder = served(made, tmp_path / "out", *PODS)
    assert tables(folder) == internal(tmp_path, *FEDBUFF)
    again = serve(made, tmp_path / "again", replay=folder).path
    assert (again / "summary.json").read_bytes() == (folder / "summary.json").read_bytes()
    kept, copied = ({path.name for path in (each / "updates").iterdir()} for each in (folder, again))
    assert kept == copied


def test_proximal_remote_clients_give_the_bytes_of_the_internal_run(tmp_path):
    changes = ("training.client=fedprox:mu=0.1", "training.rounds=2")
    assert tables(served(scenario(*changes), tmp_path, *PODS)) == internal(tmp_path, *changes)


def test_a_client_that_sends_garbage_ends_the_run_with_a_named_job_and_the_same_command_goes_on(tmp_path):
    refused, asked = [], []

    def garbage(client, job):
        try:
            client.send(job, np.full(len(client.model(job)), np.nan, dtype=np.float32), 1.0)
        except ClientError as error:
            refused.append(error.status)
            raise

    said = r"job \d+ of client 1 \(model version \d+\) has failed: .*\(1 refused, the last because .* not finite"
    with pytest.raises(RemoteClientError, match=said):
        served(scenario(), tmp_path, pod(0), pod(1, garbage), pod(4), limit_s=6)
    assert refused == [422]
    kept = len(UpdateStore(tmp_path / "served" / scenario().digest))
    folder = served(scenario(), tmp_path, pod(0), pod(1, lambda client, job: asked.append(str(job.id))), pod(4))
    assert tables(folder) == internal(tmp_path)
    rows = [row.split(",") for row in (folder / "updates.csv").read_text().splitlines()[1:]]
    assert [row[0] for row in rows if row[1] == "1"] == asked and 0 < kept < len(rows)


def test_an_interrupted_run_asks_nobody_twice(tmp_path):
    """The server forgets everything but the updates."""
    with pytest.raises(RemoteClientError, match="client 1 .*nobody has joined for it"):
        served(scenario(), tmp_path, pod(0), pod(4), limit_s=6)
    (folder,) = (tmp_path / "served").iterdir()
    sent = {row.split(",")[0] for row in (folder / "updates.csv.part").read_text().splitlines()[1:]}
    rmtree(folder / "checkpoint")
    asked = set()
    again = served(scenario(), tmp_path, *(pod(i, lambda client, job: asked.add(str(job.id))) for i in (0, 1, 4)))
    assert again == folder and sent and asked and not asked & sent
    assert tables(folder) == internal(tmp_path)


# -- what is kept ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return served(scenario("training.rounds=2"), tmp_path_factory.mktemp("out"), *PODS)


def test_updates_are_kept_by_their_digest_and_damage_is_seen(finished, tmp_path):

    rows = [line.split(",", 6) for line in (finished / "updates.csv").read_text().splitlines()[1:]]
    files = {path.stem: path.read_bytes() for path in (finished / "updates").iterdir()}
    assert not [name for name in ResultsFolder.open(finished).files if "joined" in name], (
        "when clients came is no result"
    )
    assert {row[4] for row in rows} == files.keys() and all(
        sha256(data).hexdigest() == name for name, data in files.items()
    )
    assert all(set(json.loads(row[6].strip('"').replace('""', '"'))) == {"loss"} for row in rows)
    for damage in ("flip", "remove"):
        copy = copytree(finished, tmp_path / damage / "served" / finished.name)
        victim = next((copy / "updates").iterdir())
        data = bytearray(victim.read_bytes())
        data[-1] ^= 1
        victim.unlink() if damage == "remove" else victim.write_bytes(data)
        for reader in (lambda at: ResultsFolder.open(at).check(), verify, lambda at: UpdateReplay(at, tmp_path / "x"),
                       lambda at: run(scenario("training.rounds=2"), at.parent.parent)):  # fmt: skip
            with pytest.raises(IntegrityError, match=victim.stem):
                reader(copy)
    assert run(scenario("training.rounds=2"), finished.parent.parent).reused  # complete results need nobody


def test_how_long_jobs_really_took_lies_beside_the_results_and_is_compared_with_nothing(finished, tmp_path):
    rows, silent = read_job_times(finished)
    names = [line.split(",")[0] for line in (finished / "updates.csv").read_text().splitlines()[1:]]
    assert sorted(str(row.job) for row in rows) == sorted(names) and silent == 0
    samples = read_csv(finished / "clients.csv").samples
    known = {client: RemoteTraining(client, project(scenario("training.rounds=2"))) for client in (0, 1, 4)}
    for row in rows:
        assert row.samples == samples[row.client] == known[row.client].samples(ClientJob(row.job, row.version))
        parts_s = row.download_s + row.work_s + row.upload_s
        assert row.work_s > 0 and parts_s == pytest.approx(row.received_s - row.handed_s, abs=1e-4)
        assert row.requested_s <= row.handed_s
    assert "job_times.csv" not in ResultsFolder.open(finished).files
    copy = copytree(finished, tmp_path / "served" / finished.name)
    (copy / "job_times.csv").write_text("what a clock says is no result\n")
    ResultsFolder.open(copy).check()
    compared = verify(copy)
    assert all(compared.values()) and "job_times.csv" not in compared


def test_the_command_client_even_throttled_gives_the_bytes_of_the_internal_run(finished, tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    slot = read_job_times(finished)[0][0].client
    options = ["--token-file", str(tmp_path / "token"), "--slot", str(slot)]
    options += ["--throttle", "latency_s=0.01,samples_per_s=5e3"]
    said = []

    def command(address):  # a process of its own: threads of one would meet in torch's global generator
        words = [sys.executable, "-m", "simfl", "serve", "client", address, *options]
        return lambda: said.append(subprocess.run(words, capture_output=True, text=True, check=False))

    folder = served(scenario("training.rounds=2"), tmp_path, command, *(pod(i) for i in (0, 1, 4) if i != slot))
    assert tables(folder) == tables(finished)
    (done,) = said
    assert done.returncode == 0 and re.fullmatch(rf"client {slot}: (1 update|[2-9] updates)\n", done.stdout), (
        done.stderr
    )
    rows = [row for row in read_job_times(folder)[0] if row.client == slot]
    assert rows and all(row.download_s >= 0.01 and row.work_s >= row.samples / 5e3 for row in rows)


def test_a_replay_of_another_run_names_the_job(finished, tmp_path):
    with pytest.raises(RemoteClientError, match="no update of client"):
        serve(scenario("training.rounds=2", "seed=5"), tmp_path, replay=finished)


def test_who_has_no_remote_clients_and_who_has_are_told(tmp_path):
    with pytest.raises(ScenarioError, match="simfl serve runs it"):
        run(scenario(), tmp_path)
    with pytest.raises(ScenarioError, match="no client is remote"):
        serve(scenario("learning.backend=auto"), tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("learning.backend.clients=[0, 6]", "names 6, but clients are 0 .. 5"),
        ("learning.backend.clients=[0, 0]", "twice"),
        ("learning.backend.inner={name: external, clients: [1]}", "has remote clients, too"),
        ("training.client=scaffold", "cannot train by 'scaffold', only plainly"),
        ("training.personal=fedbn", "cannot train by 'fedbn', only plainly"),
    ],
)
def test_impossible_remote_clients_are_refused_by_name(change, message):
    with pytest.raises(InvalidScenario, match=re.escape(message)):
        scenario(change)


def test_every_variant_that_says_it_keeps_nothing_keeps_nothing():
    from simfl.clients.base import CLIENTS, PERSONAL
    from simfl.clients.local_values import LocalContext, LocalResult
    from simfl.core.payload import Download

    model = np.arange(5, dtype=np.float32)
    for registry in (CLIENTS, PERSONAL):
        for name in registry:
            algorithm = registry.of({"name": name, **registry[name].example})
            if algorithm.stateless:
                context = LocalContext(Job(0, 0, 0, 0.0), Download(model, {}), {}, lambda model: 0.5, 3)
                local_pass = algorithm.begin(context)
                assert local_pass.start is model and local_pass.shift is None and local_pass.mask is None, name
                end = algorithm.end(context, local_pass, model, 3, 0.1)
                assert isinstance(end, LocalResult) and end.state is None and end.upload.kinds == {"update"}, name
                assert not algorithm.common([], 5) and algorithm.dense and not algorithm.uses_outcomes, name


def test_the_command_refuses_other_addresses_and_weak_tokens(tmp_path):
    (tmp_path / "served.yaml").write_text(TEXT)
    (tmp_path / "weak").write_text("short")
    for options, message in (
        (["--host", "0.0.0.0"], "would cross the network in clear"),
        (["--token-file", str(tmp_path / "weak")], "16 to 200 letters"),
    ):
        done = CliRunner().invoke(
            group, ["serve", str(tmp_path / "served.yaml"), "--out", str(tmp_path / "out"), *options]
        )
        assert done.exit_code == 2 and message in done.output and "Traceback" not in done.output


def test_a_server_cannot_send_plugins_or_another_version(tmp_path):
    from simfl.deployment.remote.client import RemoteClient

    client = type("Client", (), {"slot": 0, "project": {"scenario": {"plugins": ["x.py"]}, "results": 1, "name": "x"}})

    with pytest.raises(ClientError, match="plugins"):
        RemoteClient.local_training(client)
    client.project = {"scenario": {}, "results": -1, "name": "x"}
    with pytest.raises(ClientError, match="results version -1"):
        RemoteClient.local_training(client)


# -- HTTP ---------------------------------------------------------------------------------------------

D = 20
JOB = JobRequest(Job(7, 3, 2, 0.0), np.linspace(0, 1, D, dtype=np.float32))
OTHERS = JobRequest(Job(8, 5, 2, 0.0), np.linspace(0, 1, D, dtype=np.float32))
GOOD = npy_bytes(np.ones(D, dtype=np.float32))


@pytest.fixture
def jobs(tmp_path):
    made = RemoteJobs((3, 5), UpdateStore(tmp_path / "run"), TOKEN, 0.2, {"name": "x"})
    made.request([JOB, OTHERS])
    return made


@pytest.fixture
def address(jobs):
    with serve_jobs(jobs) as found:
        yield found.removeprefix("http://")


def http(address, method, path, token=TOKEN, body=None, **headers):
    connection = HTTPConnection(address, timeout=10)
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    data = answer.read()
    return answer.status, json.loads(data) if answer.getheader("Content-Type") == "application/json" else data


def bytes_of(array, **how):
    file = io.BytesIO()
    np.save(file, array, **how)
    return file.getvalue()


def test_a_client_joins_gets_its_job_and_model_and_sends_its_update(jobs, address):
    assert http(address, "GET", "/project") == (200, {"name": "x"})
    status, joined = http(address, "POST", "/clients", body=b'{"name": "a"}')
    assert status == 201 and joined["slot"] == 3
    mine = joined["token"]
    assert http(address, "GET", "/jobs", mine) == (
        200,
        {"state": "running", "why": "", "jobs": [{"job": 7, "version": 2}]},
    )
    status, model = http(address, "GET", "/models/2", mine)
    assert status == 200 and np.array_equal(np.load(io.BytesIO(model)), JOB.model)
    assert http(address, "POST", "/scores", mine, b'{"accuracy": 0.5}')[0] == 200
    assert http(address, "PUT", "/updates/7?loss=0.25", mine, GOOD)[0] == 201
    assert http(address, "PUT", "/updates/7?loss=0.25", mine, GOOD)[0] == 200  # again: no harm
    assert http(address, "PUT", "/updates/7?loss=0.5", mine, GOOD)[0] == 409
    assert http(address, "PUT", "/updates/7?loss=0.25", mine, npy_bytes(np.zeros(D)))[0] == 409
    assert http(address, "GET", "/jobs", mine)[1]["jobs"] == [] and http(address, "GET", "/models/2", mine)[0] == 404
    (sent,) = jobs.collect([JOB])
    assert np.array_equal(sent.delta, np.ones(D)) and sent.loss == 0.25
    record = jobs.updates.find(JOB)
    assert (
        json.loads(record.scores) == {"accuracy": 0.5} and jobs.updates.find(JOB._replace(model=JOB.model + 1)) is None
    )
    assert http(address, "POST", "/clients")[1]["slot"] == 5 and http(address, "POST", "/clients")[0] == 409
    again = http(address, "POST", "/clients", body=b'{"slot": 3}')[1]["token"]  # taken over
    assert http(address, "GET", "/jobs", mine)[0] == 401 and http(address, "GET", "/jobs", again)[0] == 200
    with pytest.raises(RemoteClientError, match="job 8 of client 5 .*none was sent"):
        jobs.collect([OTHERS])


HUGE = GOOD[:10].replace(b"\x76\x00", b"\x76\x00") + GOOD[10:].replace(b"(20,)", b"(9999999999999,)")
WRONG = {
    "no token": (401, "GET", "/project", None, None, {}),
    "a client's token is not the project's": (401, "POST", "/clients", "mine", b"{}", {}),
    "the project's token is no client's": (401, "GET", "/jobs", TOKEN, None, {}),
    "an empty token": (401, "GET", "/jobs", "", None, {}),
    "a token beyond ASCII": (401, "GET", "/jobs", "t\xf6ken", None, {}),
    "another name": (403, "GET", "/project", TOKEN, None, {"Host": "evil.example"}),
    "another name with a port": (403, "GET", "/project", TOKEN, None, {"Host": "evil.example:80"}),
    "nowhere": (404, "GET", "/", TOKEN, None, {}),
    "a folder above": (404, "GET", "/../models/2", "mine", None, {}),
    "a way of its own": (405, "DELETE", "/updates/7", "mine", None, {}),
    "no such method": (405, "BREW", "/updates/7", "mine", None, {}),
    "a model it needs not": (404, "GET", "/models/1", "mine", None, {}),
    "no version": (404, "GET", "/models/two", "mine", None, {}),
    "a negative version": (404, "GET", "/models/-2", "mine", None, {}),
    "another's job": (404, "PUT", "/updates/8?loss=1", "mine", GOOD, {}),
    "no such job": (404, "PUT", "/updates/9?loss=1", "mine", GOOD, {}),
    "no loss": (422, "PUT", "/updates/7", "mine", GOOD, {}),
    "two losses": (422, "PUT", "/updates/7?loss=1&loss=2", "mine", GOOD, {}),
    "a loss that is none": (422, "PUT", "/updates/7?loss=nan", "mine", GOOD, {}),
    "an endless loss": (422, "PUT", "/updates/7?loss=inf", "mine", GOOD, {}),
    "no array": (422, "PUT", "/updates/7?loss=1", "mine", b"nothing", {}),
    "nothing": (422, "PUT", "/updates/7?loss=1", "mine", b"", {}),
    "pickled": (422, "PUT", "/updates/7?loss=1", "mine", bytes_of(np.array([{}] * D)), {}),
    "doubles": (422, "PUT", "/updates/7?loss=1", "mine", bytes_of(np.ones(D)), {}),
    "big-endian": (422, "PUT", "/updates/7?loss=1", "mine", bytes_of(np.ones(D, dtype=">f4")), {}),
    "too few": (422, "PUT", "/updates/7?loss=1", "mine", bytes_of(np.ones(D - 1, dtype="<f4")), {}),
    "a matrix": (422, "PUT", "/updates/7?loss=1", "mine", bytes_of(np.ones((D, 1), dtype="<f4")), {}),
    "cut off": (422, "PUT", "/updates/7?loss=1", "mine", GOOD[:-1], {}),
    "more behind": (422, "PUT", "/updates/7?loss=1", "mine", GOOD + b"x", {}),
    "a shape of terabytes": (422, "PUT", "/updates/7?loss=1", "mine", HUGE, {}),
    "not finite": (422, "PUT", "/updates/7?loss=1", "mine", npy_bytes(np.full(D, np.inf)), {}),
    "too large": (413, "PUT", "/updates/7?loss=1", "mine", bytes(4 * D + HEADER_BYTES + 1), {}),
    "chunks": (400, "PUT", "/updates/7?loss=1", "mine", iter([GOOD]), {"Transfer-Encoding": "chunked"}),
    "a wait for nothing": (422, "GET", "/jobs?wait=-1", "mine", None, {}),
    "scores that are none": (422, "POST", "/scores", "mine", b'{"a": NaN}', {}),
    "scores in words": (422, "POST", "/scores", "mine", b'{"a": "1"}', {}),
    "scores in a list": (422, "POST", "/scores", "mine", b"[1]", {}),
    "no JSON": (400, "POST", "/scores", "mine", b"{", {}),
    "deep JSON": (400, "POST", "/scores", "mine", b"[" * 50_000, {}),
    "too many scores": (422, "POST", "/scores", "mine", json.dumps({str(i): i for i in range(101)}).encode(), {}),
    "a large score": (422, "POST", "/scores", "mine", b'{"a": 1' + b"0" * 400 + b"}", {}),
    "a slot that is none": (422, "POST", "/clients", TOKEN, b'{"slot": "3"}', {}),
    "a slot inside": (404, "POST", "/clients", TOKEN, b'{"slot": 0}', {}),
    "another field": (422, "POST", "/clients", TOKEN, b'{"x": 1}', {}),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_refused_and_changes_nothing(case, jobs, address):
    status, method, path, token, body, headers = WRONG[case]
    mine = http(address, "POST", "/clients")[1]["token"]
    found, answer = http(address, method, path, mine if token == "mine" else token, body, **headers)
    assert found == status and (method == "HEAD" or answer["error"])
    assert len(jobs.updates) == 0 and http(address, "GET", "/jobs", mine)[1]["jobs"] == [{"job": 7, "version": 2}]


def raw(address, request):
    """The status of whatever a socket is answered; None = closed without a word."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as peer:
        try:
            peer.sendall(request)
            peer.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has answered and hung up already
        answer = b""
        try:
            while part := peer.recv(1 << 16):
                answer += part
        except ConnectionResetError:
            pass
    found = re.match(rb"HTTP/1\.[01] (\d{3}) ", answer)
    return int(found[1]) if found else answer


def malformed(rng, mine):
    """A request that is wrong in one or several ways."""
    valid = [
        ("GET", "/project", TOKEN, b""), ("POST", "/clients", TOKEN, b'{"slot": 3}'), ("GET", "/jobs", mine, b""),
        ("GET", "/models/2", mine, b""), ("PUT", "/updates/7?loss=1", mine, GOOD),
        ("POST", "/scores", mine, b'{"a": 1}'),
    ]  # fmt: skip
    method, path, token, body = valid[rng.integers(len(valid))]
    junk = rng.integers(0, 256, rng.integers(1, 60), dtype=np.uint8).tobytes()
    host, length = b"127.0.0.1", str(len(body)).encode()
    way = rng.integers(9)
    if way == 0:
        return junk + b"\r\n\r\n"
    if way == 1:
        token = junk.hex()
    elif way == 2:
        method = "".join(rng.choice(list("ABCXYZ"), 4))
    elif way == 3:
        path = "/" + junk.hex() + path
    elif way == 4:
        host = junk.hex().encode() + b".example"
    elif way == 5:
        length = junk.hex().encode() + b"x"
    elif way == 6:
        length = str(len(body) + 10**6).encode()
        if not body:
            path += "/x"
    elif way == 7:
        method, path, token, body = valid[4]
        at = rng.integers(10 * 10)  # magic, or the array's description
        body = body[:at] + bytes([body[at] ^ int(rng.integers(1, 256))]) + body[at + 1 :]
        with suppress(Exception):  # a blank for another blank is no mistake
            body = body[:-1] if np.array_equal(np.load(io.BytesIO(body)), np.ones(D)) else body
        length = str(len(body)).encode()
    head = f"{method} {path} HTTP/1.1\r\n".encode() + b"Host: " + host + b"\r\nAuthorization: Bearer " + token.encode()
    request = head + b"\r\nContent-Length: " + length + b"\r\n\r\n" + body
    if way == 8:  # any bytes anywhere, and no token
        request = request.replace(token.encode(), b"x" * len(token))
        places = rng.integers(0, len(request), 8)
        request = bytes(int(rng.integers(256)) if i in places else byte for i, byte in enumerate(request))
    return request


@pytest.mark.parametrize("requests", [400, pytest.param(10_000, marks=pytest.mark.slow)])
def test_malformed_requests_give_4xx_and_nothing_else(requests, jobs, address, capfd):
    mine = http(address, "POST", "/clients", body=b'{"slot": 3}')[1]["token"]
    rng = np.random.default_rng(requests)
    answers = {}
    blank = (
        b"GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\x1c\r\n\r\n"  # white space to Python, not to HTTP
    )
    for request in [blank, *(malformed(rng, mine) for _ in range(requests))]:
        status = raw(address, request)
        assert isinstance(status, int) and 400 <= status < 500, (request, status)
        answers[status] = answers.get(status, 0) + 1
    assert {400, 401, 403, 404, 405, 422} <= answers.keys(), answers
    assert len(jobs.updates) == 0 and threading.active_count() < 20
    assert http(address, "PUT", "/updates/7?loss=1", mine, GOOD)[0] == 201  # and it still works
    assert capfd.readouterr().err == ""


def test_a_client_that_says_nothing_does_not_hold_up_the_others(address):
    host, port = address.split(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(30)]
    assert http(address, "GET", "/project")[0] == 200
    for peer in silent:
        peer.close()


def test_updates_survive_a_kill_in_the_middle_of_a_line(tmp_path):
    kept = UpdateStore(tmp_path)
    for job in (1, 2):
        kept.add(JobRequest(Job(job, 0, 0, 0.0), JOB.model), JobResult(np.full(D, job, dtype=np.float32), 0.1 * job))
    part = tmp_path / "updates.csv.part"
    whole = part.read_bytes()
    for end in range(len(whole) + 1):
        part.write_bytes(whole[:end])
        found = UpdateStore(tmp_path)
        assert len(found) == max(0, whole[:end].count(b"\n") - 1)
    found.add(JobRequest(Job(3, 0, 0, 0.0), JOB.model), JobResult(np.ones(D, dtype=np.float32), 1.0))
    assert len(UpdateStore(tmp_path)) == 3


def journal(folder, jobs=4):
    """A journal of some updates; the lines of its file."""
    kept = UpdateStore(folder)
    for job in range(jobs):
        kept.add(
            JobRequest(Job(job, 0, 0, 0.0), JOB.model),
            JobResult(np.full(D, job, dtype=np.float32), 0.5 * job),
            '{"a": 1}',
        )
    return (folder / "updates.csv.part").read_bytes().splitlines(keepends=True)


def test_no_change_of_the_journal_is_believed(tmp_path):
    """Every bit of it, rows moved, left out, doubled and of another run: refused, but for an end that is cut off."""
    folder = tmp_path / "a"
    lines = journal(folder)
    part = folder / "updates.csv.part"
    journal(tmp_path / "b")
    data = b"".join(lines)
    changes = [data[:i] + bytes([data[i] ^ (1 << i % 8)]) + data[i + 1 :] for i in range(len(data) - 1)]
    changes += [b"".join(lines[:i] + lines[i + 1 :]) for i in range(len(lines) - 1)]
    changes += [b"".join([*lines[:i], lines[i], *lines[i:]]) for i in range(len(lines))]
    changes += [b"".join([*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]]) for i in range(len(lines) - 1)]
    changes += [data.replace(b",0.5,", b",1.0,"), (tmp_path / "b" / "updates.csv.part").read_bytes()]
    hashes = [line.split(b",")[4] for line in lines]  # two updates change places
    swapped = data.replace(hashes[1], b"x").replace(hashes[2], hashes[1]).replace(b"x", hashes[2])
    for change in (*changes, swapped):
        assert change != data
        part.write_bytes(change)
        with pytest.raises(IntegrityError, match="updates.csv.part:[1-6]: damaged .*--force"):
            UpdateStore(folder)
    for keep in range(len(lines)):
        part.write_bytes(b"".join(lines[:keep]))
        assert len(UpdateStore(folder)) == max(0, keep - 1)


def test_a_journal_without_seals_is_refused(tmp_path):
    (tmp_path / "updates.csv.part").write_text("job,client,version,model,update,loss,scores\n1,0,0,a,b,0.5,\n")
    with pytest.raises(IntegrityError, match="older simfl.*--force"):
        UpdateStore(tmp_path)
    assert len(UpdateStore(tmp_path, anew=True)) == 0


def test_a_journal_that_went_on_is_sound(tmp_path):
    journal(tmp_path, 2)
    part = tmp_path / "updates.csv.part"
    part.write_bytes(part.read_bytes()[:-9])
    again = UpdateStore(tmp_path)
    for job in (7, 8):
        again.add(JobRequest(Job(job, 0, 0, 0.0), JOB.model), JobResult(np.ones(D, dtype=np.float32), 1.0))
    assert len(UpdateStore(tmp_path)) == 3
