"""The tutorial, executed as written: on digits and a few rounds, and (slow) on Fashion-MNIST where it is."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from simfl.core.storage.data_folder import data_root
from simfl.experiments.sweep import processes
from tests.support import forked, page
from tests.support.slot_here import SlotHere

HERE = Path(__file__).resolve().parents[2]


def blocks():
    text = (HERE / "docs/tutorials/own-policy.md").read_text()
    text = re.sub(r"<!-- not run: [^>]*-->\n```bash\n.*?^```", "", text, flags=re.M | re.S)
    return re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S)


def follow(folder, *changes):
    found = blocks()
    assert [language for language, _ in found] == ["bash", "yaml", "python", "bash", "bash", "bash"]
    for before, after in changes:
        found = [(language, text.replace(before, after)) for language, text in found]

    def play():
        """In a process of its own, where the policy of the page is registered; sweeps' runs are executed there, too."""
        processes.Slot = SlotHere
        sys.path.insert(0, str(folder))
        for language, text in found:
            if language == "bash":
                for line in page.lines(text):
                    print(page.bash(line), flush=True)
            else:
                Path(text.split()[1]).write_text(text)

    done = forked.finish(forked.start(play, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE), timeout=3000)
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert (folder / "choices.html").stat().st_size > 10_000
    (weak,) = {
        int(found)
        for found in re.findall(r"^privacy_weak_lower +([1-9]\d*)\b", said.partition("fashion: valid")[2], re.M)
    }
    assert weak % 4 == 0 and "fair_teams:T=4" in said, "in few rounds, teams cannot be distinguished from one another"
    return said


def test_every_step_works_as_written(tmp_path):
    follow(
        tmp_path, ("fashion_mnist", "digits"), ("rounds: 60", "rounds: 4"), ("every: 5", "every: 1"),
        ("--replications 3", "--replications 1"), ("simfl run quickstart", "simfl run quickstart training.rounds=2"),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_it_works_on_the_real_data(tmp_path):
    if data_root() is None or not (data_root() / "FashionMNIST").exists():
        pytest.skip("Fashion-MNIST is not here")
    follow(tmp_path)
