"""The paper's schemes, and their runs; for the scripts beside this file."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import simfl
from simfl.api.result_objects import Result, SweepResult
from simfl.experiments import runner

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
PAPER = {
    "random": "random",
    "weighted": "weighted",
    "partition": "partition",
    "batch T=6": "batch_partition:T=6",
    "batch T=4": "batch_partition:T=4",
    "batch T=3": "batch_partition:T=3",
}
AUTHORS = {
    "random": "random",
    "weighted": "weighted",
    "partition": "partition:mode=least_total",
    "batch T=6": "batch_partition:T=6,mode=least_total",
    "batch T=4": "batch_partition:T=4,mode=least_total",
    "batch T=3": "batch_partition:T=3,mode=least_total",
}
"""As the authors' public code selects: the available batches of least summed participation."""


def arguments(description: str, seeds: int, shorter: bool = False) -> argparse.ArgumentParser:
    """What every script is asked for; ``shorter``: also for fewer rounds than its table has."""
    parser = runner.parser(description, seeds, costs=False)
    parser.set_defaults(rounds=None, first_seed=0)
    if shorter:
        parser.add_argument("--rounds", type=int, help="fewer than the table has; files are named for them")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    how = "run every N-th from the I-th on, and make no table"
    parser.add_argument("--shard", type=runner.Shard.parse, default=runner.Shard(1, 1), metavar="I/N", help=how)
    return parser


def swept(file: str, grid: Mapping[str, Any], options: argparse.Namespace, seeds: int) -> SweepResult:
    """The runs of a scenario for every combination of values and so many seeds; finished ones are reused."""
    grid = {"seed": options.first_seed, **grid}
    if options.rounds:
        grid = {**grid, "training.rounds": options.rounds}
    found = simfl.sweep(
        SCENARIOS / file, grid, replications=seeds, jobs=options.jobs, out=options.out, shard=tuple(options.shard)
    )
    if len(found.failed):
        raise SystemExit(f"failed:\n{found.failed.error}")
    return found


def stem(name: str, options: argparse.Namespace) -> str:
    """What the files of a table are called."""
    return f"{name}_{options.rounds}_rounds" if options.rounds else name


def play(
    file: str, schemes: Mapping[str, str], fixed: Mapping[str, Any], options: argparse.Namespace
) -> dict[str, list[Result]]:
    """The runs of every scheme, one a seed, in the order of the seeds; empty lists where others run the rest."""
    runs = swept(file, {"selection": list(schemes.values()), **fixed}, options, options.seeds)
    names = {choice: name for name, choice in schemes.items()}
    found: dict[str, list[Result]] = {name: [] for name in schemes}
    if options.shard.of > 1:
        return found
    for choice, result in zip(runs.runs.selection, runs.results(), strict=True):
        found[names[choice]].append(result)
    return found
