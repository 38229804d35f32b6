"""The searches behind ``tests/runs/test_invariants.py`` and ``tests/runs/test_kills.py``, in any number;
``benchmarks/reliability.py`` counts."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np

from simfl.agents import sampled_staleness, servers
from simfl.agents.aggregation import global_model, policy_queries
from simfl.agents.buffered import block_server
from simfl.agents.buffered import server as buffered
from simfl.core.errors import SimflError
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.support.invariants import violations
from tests.support.kills import counted, files, killed_at
from tests.support.random_scenarios import random_scenario

PLUGINS = Path(__file__).parent / "plugins"
SOON = 300


@contextmanager
def impatient() -> Iterator[None]:
    """Runs that nothing will ever end are given up soon."""
    with (
        mock.patch.object(policy_queries, "MAX_EMPTY_ATTEMPTS", SOON),
        mock.patch.object(servers, "MAX_EMPTY_ATTEMPTS", SOON),
        mock.patch.object(buffered, "MAX_FAILED_JOBS", SOON),
        mock.patch.object(block_server, "MAX_FAILED_JOBS", SOON),
        mock.patch.object(sampled_staleness, "MAX_FAILED_JOBS", SOON),
        mock.patch.object(global_model, "MAX_STAGNANT_ROUNDS", SOON),
    ):
        yield


def broken(numbers: Iterable[int], out: Path, seed: int) -> tuple[dict[int, list[str]], Counter[str]]:
    """What random scenarios violate, by number, and how many were played, tied or stalled."""
    wrong, ends = {}, Counter()
    for number in numbers:
        scenario, tied = random_scenario(np.random.default_rng([seed, number]), PLUGINS)
        try:
            done = run(scenario, out, force=True)
        except SimflError as error:
            if "stalls" not in str(error):
                wrong[number] = [f"refused: {error}"]
            ends["stalled"] += 1
            continue
        ends["tied" if tied else "not tied"] += 1
        if found := violations(done.path):
            wrong[number] = found
    return wrong, ends


def whole(made: Scenario, out: Path) -> tuple[dict[str, bytes], int] | None:
    """The files of an undisturbed run and its number of steps; None if it stalls."""
    try:
        with counted() as steps:
            folder = run(made, out).path
    except SimflError:
        return None
    return files(folder), steps.done


def after_kills(made: Scenario, out: Path, steps: Iterable[int]) -> tuple[dict[str, bytes], int]:
    """The files of a run that dies at each of these steps, counted from where it was resumed, and how often it died."""
    died = 0
    for step in steps:
        if not killed_at(step, lambda: run(made, out)):
            break
        died += 1
    return files(run(made, out).path), died


def killed(number: int, out: Path, seed: int, tries: int = 2, last: int = 0) -> tuple[int, list[str]]:
    """Kills of a random scenario, and those after which it had other bytes.

    Args:
        number: with the seed, names the scenario.
        out: a folder of its own.
        seed: of the search.
        tries: how often it dies twice, at random steps.
        last: of how many of its last steps it dies at each.
    """
    rng = np.random.default_rng([seed, number])
    found = None
    while found is None:
        made, _ = random_scenario(rng, PLUGINS)
        found = whole(made, out / "whole")
    expected, steps = found
    plans = [rng.integers(steps, size=2).tolist() for _ in range(tries)]
    plans += [[step] for step in range(max(0, steps - last), steps)]
    kills, wrong = 0, []
    for i, plan in enumerate(plans):
        again, died = after_kills(made, out / str(i), plan)
        kills += died
        if again != expected:
            wrong.append(f"scenario {number}, killed at steps {plan}")
    return kills, wrong
