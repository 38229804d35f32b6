"""The recipes for other people's trackers, executed as written where these are installed, without a network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2]
BLOCKS = dict(
    re.findall(r"^## ([^\n]+)\n.*?^```python\n(.*?)^```", (HERE / "docs/how-to/track.md").read_text(), re.M | re.S)
)


@pytest.fixture
def played(tmp_path):
    (tmp_path / "scenarios").symlink_to(HERE / "scenarios")

    def play(title, **more):
        places = os.pathsep.join([str(HERE), *sys.path])
        environment = os.environ | {"PYTHONPATH": places, "WANDB_MODE": "offline"} | more
        done = subprocess.run([sys.executable, "-c", BLOCKS[title]], cwd=tmp_path, env=environment, capture_output=True,
                              text=True, timeout=300)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return tmp_path

    return play


def test_the_page_has_both():
    assert set(BLOCKS) == {"MLflow", "Weights & Biases"}


def test_mlflow(played):
    pytest.importorskip("mlflow")
    folder = played("MLflow")
    curves = sorted((folder / "mlruns").glob("*/*/metrics/test_accuracy"))
    assert len(curves) == 2
    for path in curves:
        rows = [line.split() for line in path.read_text().splitlines()]
        assert [int(row[2]) for row in rows] == [0, 1, 2, 3]  # time stamp, value, step
        assert {path.name for path in path.parents[1].glob("artifacts/*")} == {"summary.json", "scenario.yaml"}


def test_wandb(played, tmp_path):
    pytest.importorskip("wandb")
    folder = played("Weights & Biases", WANDB_DIR=str(tmp_path), WANDB_SILENT="true", HOME=str(tmp_path))
    assert len(list((folder / "wandb").glob("offline-run-*/*.wandb"))) == 2
