"""A real SuperLink and SuperNodes on loopback, which tests kill and start again."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

PROJECT = """\
[project]
name = "bridge"
version = "1.0.0"
license = { text = "Apache-2.0" }
dependencies = []

[tool.flwr.app]
publisher = "nobody"

[tool.flwr.app.components]
serverapp = "app.server_app:app"
clientapp = "app.client_app:app"

[tool.flwr.app.config]
rounds = 1
"""
BIN = Path(sys.executable).parent
LOOK_S = 0.3


class Federation:
    """Processes of Flower below one folder.

    Args:
        folder: for everything that they write.
        server, client: the code of the ServerApp and of the ClientApp.
        keys: whether nodes are let in with registered keys only, over TLS.
    """

    def __init__(self, folder, server, client, keys=False):
        self.folder, self.processes, self.port = folder, {}, free_port()
        app = folder / "app" / "app"
        app.mkdir(parents=True)
        (folder / "app" / "pyproject.toml").write_text(PROJECT)
        (app / "__init__.py").write_text("")
        (app / "server_app.py").write_text(textwrap.dedent(server))
        (app / "client_app.py").write_text(textwrap.dedent(client))
        home = folder / "home"
        home.mkdir()
        self.keys, self.safe = keys, ["--insecure"]
        if keys:
            certify(folder)
            self.safe = ["--root-certificates", folder / "ca.crt"]
        how = f'root-certificates = "{folder}/ca.crt"' if keys else "insecure = true"
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "local"\n[superlink.local]\naddress = "127.0.0.1:{self.port}"\n{how}\n'
        )
        root = Path(__file__).resolve().parents[2]
        self.environment = {**os.environ, "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0",
                            "PYTHONPATH": str(root), "PATH": f"{BIN}:{os.environ['PATH']}"}  # fmt: skip

    def __enter__(self):
        self.start_link()
        return self

    def __exit__(self, *_):
        for name in list(self.processes):
            self.kill(name)

    def start_link(self):
        at = self.folder
        safe = ["--ssl-certfile", at / "link.crt", "--ssl-keyfile", at / "link.key", "--ssl-ca-certfile", at / "ca.crt",
                "--enable-supernode-auth"] if self.keys else self.safe  # fmt: skip
        self._start("link", "flower-superlink", *safe, "--port", self.port, "--database", at / "link.db",
                    "--disable-runtime-dependency-installation")  # fmt: skip
        wait_until(lambda: is_open(self.port), 60)

    def register(self, name):
        """Makes a key for a node and lets it in."""
        key = self.folder / f"{name}.key"
        quiet(["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-C", "", "-f", key])
        quiet([BIN / "flwr", "supernode", "register", f"{key}.pub", "local"], env=self.environment, cwd=self.folder)

    def start_node(self, name, number):
        options = ["--auth-supernode-private-key", self.folder / f"{name}.key"] if self.keys else []
        self._start(name, "flower-supernode", *self.safe, "--superlink", f"127.0.0.1:{self.port}", "--port",
                    free_port(), "--node-config", f'device="{name}" number={number}', *options)  # fmt: skip

    def kill(self, name):
        """SIGKILL to a process and its children."""
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def run(self, rounds, limit_s=240):
        """Plays so many rounds; what the server has printed and logged."""
        command = [BIN / "flwr", "run", self.folder / "app", "local", "--stream", "--run-config", f"rounds={rounds}"]
        done = subprocess.run([*map(str, command)], env=self.environment, cwd=self.folder, capture_output=True,
                              text=True, timeout=limit_s)  # fmt: skip
        return done.stdout + done.stderr

    def _start(self, name, command, *words):
        with open(self.folder / f"{name}.log", "a") as log:
            self.processes[name] = subprocess.Popen([str(BIN / command), *map(str, words)], env=self.environment,
                                                    cwd=self.folder, stdout=log, stderr=log,
                                                    start_new_session=True)  # fmt: skip


def quiet(command, **options):
    subprocess.run([*map(str, command)], check=True, capture_output=True, **options)


def certify(folder):
    """A certificate of the loopback, and of who has signed it."""
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    quiet(
        ["openssl", "req", "-x509", *curve, "-keyout", folder / "ca.key", "-out", folder / "ca.crt", "-subj", "/CN=ca"]
    )
    quiet(
        [
            "openssl",
            "req",
            *curve[:-2],
            "-keyout",
            folder / "link.key",
            "-out",
            folder / "link.csr",
            "-subj",
            "/CN=link",
        ]
    )
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    quiet(["openssl", "x509", "-req", "-in", folder / "link.csr", "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key",
           "-CAcreateserial", "-days", "2", "-out", folder / "link.crt", "-extfile", folder / "names"])  # fmt: skip


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition, limit_s):
    pause = threading.Event()
    for _ in range(int(limit_s / LOOK_S)):
        if condition():
            return
        pause.wait(LOOK_S)
    raise AssertionError(f"not within {limit_s} s")
