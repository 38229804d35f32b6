"""What a sweep will cost, by one short run."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from timeit import default_timer

from simfl.core.errors import amount
from simfl.experiments.sweep.plan import Plan
from simfl.results.file_names import is_finished
from simfl.runs.run import run
from simfl.scenario import Scenario

SHORT = 4
"""Rounds of the short run; the first is not counted for the others, since much is made in it."""


def cost(plan: Plan, out: Path) -> str:
    """In words: how many runs are left, and the seconds and bytes of all of them if each is like the first.

    Raises:
        SimflError: the first run fails.
    """
    left = [member for member in plan.members if not is_finished(out / plan.name / member.digest)]
    text = f"{amount(len(plan.members), 'run')}, {len(left)} of them left"
    if not left:
        return text
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
        return f"{text}; a round takes about {each_s:.2g} s here, and a run as many as its stop rule needs"
    run_s, run_bytes = ends[0] + (rounds - 1) * each_s, size_bytes * max(1.0, rounds / len(ends))
    return (
        f"{text}; if each takes what the first does, about {run_s:.2g} s and {run_bytes / 1e6:.2g} MB a run, "
        f"{run_s * len(left):.2g} seconds of one job and {run_bytes * len(left) / 1e6:.2g} MB in all"
    )
