"""A run or more of every page of docs/papers, stored beside this file, for everybody to verify.

    python results/stored/stored.py
    simfl run --verify results/stored/*/

They are the pages' runs with ``learning: none``: who is selected, who drops out, what the sums give away, what is sent
when. That needs no data and has the same bytes on every machine, which accuracies have not: their last digits depend on
the processor.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import simfl
from simfl.experiments import runner
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent
sys.path.append(str(RESULTS / "paper001"))

from cells import CELLS  # noqa: E402
from schemes import SCENARIOS  # noqa: E402


class Stored(NamedTuple):
    """A stored run: of a page of docs/papers, by a scenario and what is changed in it."""

    page: str
    file: str
    changes: dict[str, Any]


LABELS = next(cell for cell in CELLS["authors"] if cell.setting == "non-IID, dropout by label").fixed
DROPOUT = LABELS["devices.availability.dropout"][0]
UNTAUGHT = {"learning": "none"}
OFTEN = {"privacy.every": 50}
HALF = {"name": "half_partition", "k": 12, "T": 4}
RUNS = {
    "figure3": Stored("paper001", "paper001_privacy.yaml", OFTEN),
    "table3": Stored("paper001", "paper001_cifar10_authors.yaml", UNTAUGHT),
    "table4": Stored("paper001", "paper001_mnist_authors.yaml", UNTAUGHT),
    "table4_by_label": Stored(
        "paper001", "paper001_mnist_authors.yaml", UNTAUGHT | {"devices.availability.dropout": DROPOUT}
    ),
    "paper002": Stored("paper002", "paper001_privacy.yaml", OFTEN | {"selection": "half_partition:T=6"}),
    "paper003": Stored("paper003", "paper003_basecagg.yaml", UNTAUGHT | {"training.rounds": 40}),
    "guarded": Stored("guarded", "guarded.yaml", UNTAUGHT | OFTEN | {"training.rounds": 100}),
    "selection": Stored("selection", "selection.yaml", UNTAUGHT | OFTEN | {"selection": HALF}),
    "privacyfl": Stored("privacyfl", "privacyfl_serverless.yaml", UNTAUGHT),
    "latency": Stored("latency", "privacyfl_latency.yaml", {"trace": "events"}),
}
"""By their folders; batch T = 3 in paper 001 where nothing else is said."""


def scenario(name: str) -> Scenario:
    """What the run of a folder plays."""
    stored = RUNS[name]
    return runner.scenario(SCENARIOS / stored.file, stored.changes, seed=0)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        for name in RUNS:
            result = simfl.run(scenario(name), out=scratch)
            shutil.rmtree(HERE / name, ignore_errors=True)
            shutil.copytree(result.path, HERE / name, ignore=shutil.ignore_patterns(".lock", "last.ckpt"))


if __name__ == "__main__":
    main()
