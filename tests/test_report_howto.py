"""The how-to page about reports, executed as written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent.parent


def test_the_page_works_as_written(tmp_path):
    blocks = re.findall(r"^```(bash|python)\n(.*?)^```", (HERE / "docs/how-to-report.md").read_text(), re.M | re.S)
    assert len(blocks) == 6
    (tmp_path / "scenarios").symlink_to(HERE / "scenarios")
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "simfl").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m simfl "$@"\n')
    (binaries / "simfl").chmod(0o755)
    environment = os.environ | {"PYTHONPATH": str(HERE), "PATH": f"{binaries}:{os.environ['PATH']}"}
    for language, text in blocks:
        command = ["bash", "-euc", text] if language == "bash" else [sys.executable, "-c", text]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        if done.returncode:
            pytest.fail(f"{text}\n{done.stderr}")
    for name in ("comparison.html", "privacy.pdf", "privacy.csv", "accuracy.svg", "accuracy.csv"):
        assert (tmp_path / name).stat().st_size > 500
