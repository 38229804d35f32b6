"""Random scenarios on random topologies: both engines, and what follows a kill at a random time, the same bytes."""

from collections import Counter

import numpy as np
import pytest

from simfl.core.errors import SimflError
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from tests.agents.test_engines import peers_drawn
from tests.agents.test_trees import rows_of
from tests.support.kills import files, killed_at_time
from tests.support.random_scenarios import random_text
from tests.support.search import PLUGINS, impatient
from tests.support.sizes import repeats

PARTS = 2


def topology_drawn(rng: np.random.Generator) -> str:
    """A tree, or several servers, as YAML."""
    parts, rounds = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    if rng.random() < 0.25:
        return f"{{name: servers, servers: {parts}, edge_rounds: {rounds}}}"
    keys = [f"name: tree, edges: {parts}, edge_rounds: {rounds}, latency_s: {float(rng.choice([0, 0.5]))}"]
    for key, share in (
        (f"cloud_buffer: {int(rng.integers(1, parts + 1))}", 0.3),
        ("selects: cloud", 0.2),
        ("noise: cloud", 0.2),
    ):
        keys += [key] if rng.random() < share else []
    return f"{{{', '.join(keys)}}}"


def drawn(number: int) -> tuple[str, list[str]]:
    """A valid scenario on a topology, as text and overrides."""
    rng = np.random.default_rng([57, number])
    while True:
        text, _ = random_text(rng, plugins=True)
        overrides = peers_drawn(rng) if number % 4 > 1 else [f"topology={topology_drawn(rng)}"]
        try:
            Scenario.parse(text, "random", overrides, PLUGINS)
        except InvalidScenario:
            continue
        return text, overrides


def played(text: str, overrides: list[str], out):
    with impatient():
        return run(Scenario.parse(text, "random", overrides, PLUGINS), out, force=True).path


@pytest.mark.parametrize("part", range(PARTS))
def test_engines_and_resumed_runs_have_the_same_bytes(part, tmp_path):
    counts: Counter[str] = Counter()
    for number in range(part, repeats(32, 2000), PARTS):
        text, overrides = drawn(number)
        try:
            folder = played(text, overrides, tmp_path / "whole")
        except SimflError:
            counts["refused"] += 1
            continue
        whole = files(folder)
        counts["whole"] += 1
        try:
            other = files(played(text, [*overrides, "agents.engine=processes"], tmp_path / "processes"))
            assert other == whole, f"scenario {number}: engines differ"
            counts["engines"] += 1
        except SimflError:
            pass
        share = np.random.default_rng([58, number]).random()
        time_s, out = float(rows_of(folder)[-1]["time_s"]) * share, tmp_path / f"killed{number}"
        made = Scenario.parse(text, "random", overrides, PLUGINS)
        with impatient():
            counts["killed"] += killed_at_time(time_s, lambda made=made, out=out: run(made, out))
            assert files(run(made, out).path) == whole, f"scenario {number}: resumed differs"
    assert counts["engines"] and counts["killed"] and counts["whole"] >= counts["refused"], counts
