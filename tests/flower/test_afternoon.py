"""The tutorial of an operator's afternoon, executed as written on a real SuperLink and SuperNodes."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from simfl.deployment.audit.log_columns import LogOptions
from simfl.deployment.audit.reading import read
from tests.flower.federation import BIN
from tests.support.page import blocks

HERE = Path(__file__).resolve().parents[2]
PAGE = HERE / "docs/tutorials/afternoon.md"
ANSWERS = {"columns": {"round": "when", "client": "device"}, "where": {"status": "ok"}}

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        shutil.which("flower-superlink", path=str(BIN)) is None,
        reason="the extra flower is not installed: pip install 'simfl[flower]'",
    ),
]


def test_the_promise_is_held(tmp_path):
    shutil.copytree(HERE / "docs/examples", tmp_path / "docs/examples")
    (tmp_path / "clinics").mkdir()
    script = ["set -eu", f'simfl() {{ "{BIN}/python" -m simfl "$@"; }}']
    for language, code, _ in blocks(PAGE.read_text()):
        if language == "python":
            (tmp_path / re.match(r"# (clinics/\w+\.py)\n", code)[1]).write_text(code)
        elif language == "bash":
            script.append(code)
    environment = {**os.environ, "PYTHONPATH": str(HERE), "PATH": f"{BIN}:{os.environ['PATH']}",
                   "FLWR_TELEMETRY_ENABLED": "0"}  # fmt: skip
    with subprocess.Popen(
        ["bash", "-c", "\n".join(script)], cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said, _ = process.communicate(timeout=840)
        finally:
            for leader in [process.pid, *(int(file.read_text()) for file in tmp_path.glob("node-*.pid"))]:
                try:
                    os.killpg(leader, signal.SIGKILL)
                except ProcessLookupError:
                    pass
    assert process.returncode == 0, said[-4000:]
    assert said.count("No client is exposed to the server") == 2, said[-4000:]
    past = read(tmp_path / "sites.csv", options=LogOptions(**ANSWERS))
    deployed = read(tmp_path / "participation.csv")
    both = read(tmp_path / "participation.csv", options=LogOptions(**ANSWERS, past=tmp_path / "sites.csv"))
    assert set(deployed.clients) <= set(past.clients) and len(both.clients) == 6, "devices that restart are the same"
    assert both.matrix.shape == (past.matrix.shape[0] + deployed.matrix.shape[0], 6) and len(deployed.rounds) >= 2
    rows = both.matrix.toarray()
    for client in range(6):  # no combination of all sums is one client's update: by least squares
        alone = np.eye(6)[client]
        weights, *_ = np.linalg.lstsq(rows.T, alone, rcond=None)
        assert np.abs(rows.T @ weights - alone).max() > 1e-6
