"""What a sweep will cost, by one short run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from timeit import default_timer

from simfl.core.errors import amount
from simfl.experiments.sweep.plan import Member, Plan
from simfl.results.file_names import is_finished
from simfl.runs.run import run
from simfl.scenario import Scenario

SHORT = 4
"""Rounds of the short run; the first is not counted for the others, since much is made in it."""


@dataclass(frozen=True)
class ExpectedCost:
    """What is left of a sweep, if each run is like the first.

    Attributes:
        runs: in all, or of the shard.
        left: of them not finished.
        round_s, run_s: wall seconds of a round and of a run, None = unknown.
        run_bytes: of a run on the disk, None = unknown.
    """

    runs: int
    left: int
    round_s: float | None = None
    run_s: float | None = None
    run_bytes: float | None = None

    @property
    def text(self) -> str:
        """The same in words."""
        text = f"{amount(self.runs, 'run')}, {self.left} of them left"
        if self.run_s is None or self.run_bytes is None:
            rest = "" if self.round_s is None else f"; a round takes about {self.round_s:.2g} s here"
            return f"{text}{rest}, and a run as many as its stop rule needs" if rest else text
        return (
            f"{text}; if each takes what the first does, about {self.run_s:.2g} s and {self.run_bytes / 1e6:.2g} MB a "
            f"run, {self.run_s * self.left:.2g} seconds of one job and {self.run_bytes * self.left / 1e6:.2g} MB in all"
        )


def cost(plan: Plan, members: Sequence[Member], out: Path) -> ExpectedCost:
    """How many of some runs of a plan are left, and what they may take.

    Raises:
        SimflError: the first run fails.
    """
    left = [member for member in members if not is_finished(out / plan.name / member.digest)]
    if not left:
        return ExpectedCost(len(members), 0)
    scenario = Scenario.parse(left[0].scenario, plan.name, folder=plan.folder)
    rounds = scenario.training.rounds
    short = replace(scenario, training=replace(scenario.training, rounds=min(SHORT, rounds or SHORT)))
    ends: list[float] = []
    with TemporaryDirectory() as folder:
        start_s = default_timer()
        path = run(short, Path(folder), progress=lambda *_: ends.append(default_timer() - start_s)).path
        size_bytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    each_s = (ends[-1] - ends[0]) / max(1, len(ends) - 1)
    if rounds is None:
        return ExpectedCost(len(members), len(left), each_s)
    run_s, run_bytes = ends[0] + (rounds - 1) * each_s, size_bytes * max(1.0, rounds / len(ends))
    return ExpectedCost(len(members), len(left), each_s, run_s, run_bytes)
