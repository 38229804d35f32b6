"""The paper's schemes, and their runs; for figures.py and tables.py."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import simfl
from simfl.opening import Result, SweepResult

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
PAPER = {
    "random": "random",
    "weighted": "weighted",
    "partition": "partition",
    "batch T=6": "batch_partition:T=6",
    "batch T=4": "batch_partition:T=4",
    "batch T=3": "batch_partition:T=3",
}


def swept(file: str, grid: Mapping[str, Any], options: argparse.Namespace, seeds: int) -> SweepResult:
    """The runs of a scenario for every combination of values and the seeds 0, 1, ...; finished ones are reused."""
    found = simfl.sweep(SCENARIOS / file, grid, replications=seeds, jobs=options.jobs, out=options.out)
    if len(found.failed):
        raise SystemExit(f"failed:\n{found.failed.error}")
    return found


def play(
    file: str, schemes: Mapping[str, str], fixed: Mapping[str, Any], options: argparse.Namespace
) -> dict[str, list[Result]]:
    """The runs of every scheme, one a seed."""
    runs = swept(file, {"selection": list(schemes.values()), **fixed}, options, options.seeds)
    names = {choice: name for name, choice in schemes.items()}
    found: dict[str, list[Result]] = {name: [] for name in schemes}
    for choice, result in zip(runs.runs.selection, runs.results(), strict=True):
        found[names[choice]].append(result)
    return found
