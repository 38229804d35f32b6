"""One run of each table of the pages on papers 001 and 002, stored beside this file, for everybody to verify.

    python results/paper001/stored.py
    simfl verify results/paper001/stored/*

They are the tables' runs with ``learning: none``: who is selected, who drops out, what the sums give away. That needs
no data and has the same bytes on every machine, which accuracies have not: their last digits depend on the processor.
"""

import shutil
import tempfile
from pathlib import Path

from cells import CELLS
from schemes import SCENARIOS

import simfl

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "stored"
LABELS = next(cell for cell in CELLS["authors"] if cell.setting == "non-IID, dropout by label").fixed
DROPOUT = LABELS["devices.availability.dropout"][0]
UNTAUGHT = {"learning": "none"}
OFTEN = {"privacy.every": 50}
RUNS = {
    "figure3": ("paper001_privacy.yaml", OFTEN),
    "table3": ("paper001_cifar10_authors.yaml", UNTAUGHT),
    "table4": ("paper001_mnist_authors.yaml", UNTAUGHT),
    "table4_by_label": ("paper001_mnist_authors.yaml", UNTAUGHT | {"devices.availability.dropout": DROPOUT}),
    "paper002": ("paper001_privacy.yaml", OFTEN | {"selection": "half_partition:T=6"}),
}
"""Folder -> scenario and overrides; batch T = 3 where nothing else is said."""


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        for name, (file, changes) in RUNS.items():
            result = simfl.run(SCENARIOS / file, [f"{key}={value}" for key, value in changes.items()], out=scratch)
            shutil.rmtree(FOLDER / name, ignore_errors=True)
            shutil.copytree(result.path, FOLDER / name, ignore=shutil.ignore_patterns(".lock"))


if __name__ == "__main__":
    main()
