"""The event loop: jobs per second of simfl's world against bare SimPy (``bare_simpy.py``), in one process.

    python benchmarks/world.py [K] [ROUNDS] [--part speed|scale|shared|against]... [--against CHECKOUT]

``speed`` prints the ratio (the machine's speed cancels out). ``scale``: processor time, its ratio to bare SimPy for as
many jobs, and peak memory of scenarios/million_clients.yaml and scenarios/fedbuff_scale.yaml (a million client
updates each) at a tenth, a third and all of their rounds, each in a process of its own. ``shared``: the processor time
of both at all of their rounds with a shared link of the server over that without, also where lines are unequal and
where the link is overloaded. ``against``: that of both at all of their rounds over that of another checkout's simfl.
Such ratios are of the least of three, which are played alternately. Without --part all of it, ``against`` if there is
a checkout.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bare_simpy import ROUNDS, SCENARIOS, UPDATES, bare_s, least

HERE = Path(__file__).resolve().parent.parent
EQUAL, UNEQUAL = "null", "{name: log_normal, median: 1.0e+6, sigma: 0.7}"
SHARED = [
    ("million_clients", EQUAL, "2.5e+8"),
    ("million_clients", UNEQUAL, "2.5e+8"),
    ("fedbuff_scale", EQUAL, "2.5e+8"),
    ("fedbuff_scale", EQUAL, "1.0e+8"),
]
"""Scenario, bytes per second of the clients' lines, and of the server's link. FedBuff's jobs need 1.6e8 in each
direction; less than that is overloaded."""

MEASURED = """
import json, resource, sys, time
from pathlib import Path
from simfl.runs.run import run
from simfl.scenario import Scenario
scenario = Scenario.load(sys.argv[1], [f"training.rounds={sys.argv[2]}", *sys.argv[4:]])
begin = time.process_time()
run(scenario, Path(sys.argv[3]))
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": time.process_time() - begin, "MB": memory}))
"""


def ours(k: int, rounds: int) -> float:
    """Processor seconds of simfl: selection, delays, computation, rounds.csv and participation.csv included."""
    from simfl.runs.run import run
    from simfl.scenario import Scenario

    scenario = Scenario.parse(
        f"""
        clients: {2 * k}
        network: {{name: star, latency_s: {{name: uniform, low: 0, high: 1}}}}
        devices: {{computation: 0.5}}
        selection: {{name: random, k: {k}}}
        training: {{name: fedavg, rounds: {rounds}}}
        learning: none
        privacy: none
        """,
        "benchmark",
    )
    with tempfile.TemporaryDirectory() as folder:
        begin = time.process_time()
        run(scenario, Path(folder))
        return time.process_time() - begin


def measured(name: str, rounds: int, *overrides: str, checkout: Path = HERE) -> dict[str, float]:
    """Processor seconds and peak memory of a shipped scenario, in a process of its own, with a checkout's simfl."""
    with tempfile.TemporaryDirectory() as folder:
        scenario = str(HERE / f"scenarios/{name}.yaml")
        command = [sys.executable, "-c", MEASURED, scenario, str(rounds), folder, *overrides]
        environment = os.environ | {"PYTHONPATH": str(checkout)}
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=checkout)
        found: dict[str, float] = json.loads(done.stdout)
        return found


def seconds(name: str, *overrides: str, checkout: Path = HERE) -> float:
    """Processor seconds of all rounds."""
    return measured(name, ROUNDS, *overrides, checkout=checkout)["seconds"]


def ratio(one: Callable[[], float], other: Callable[[], float]) -> str:
    """The least of three of one over the least of three of the other, played alternately."""
    first, second = least(one, other)
    return f"{first:.1f} s, {second:.1f} s, ratio {first / second:.2f}"


def speed(k: int, rounds: int) -> None:
    """Prints the ratio of one process."""
    ours(k, 2)
    whole, alone = least(partial(ours, k, rounds), partial(bare_s, k * rounds, k, True))
    speeds = f"bare SimPy {k * rounds / alone:,.0f} jobs/s, simfl {k * rounds / whole:,.0f}"
    print(f"{speeds}; time ratio {whole / alone:.2f}", flush=True)


def scale() -> None:
    """Prints time and memory over rounds."""
    for name, working in SCENARIOS.items():
        for played in (100, 300, 1000):
            found = measured(name, played)
            cost = found["seconds"] / bare_s(UPDATES * played, *working)
            print(
                f"{name}, {played} rounds: {found['seconds']:.1f} s, ratio {cost:.2f}, {found['MB']:.0f} MB", flush=True
            )


def shared() -> None:
    """Prints what a shared link costs."""
    for name, lines, bytes_per_s in SHARED:
        line = f"network.bandwidth_bytes_per_s={lines}"
        server = f"network.server={{down_bytes_per_s: {bytes_per_s}, up_bytes_per_s: {bytes_per_s}}}"
        cost = ratio(partial(seconds, name, line, server), partial(seconds, name, line))
        kind = "equal" if lines == EQUAL else "unequal"
        print(f"{name}, {kind} lines, a link of {bytes_per_s} bytes/s, and without: {cost}", flush=True)


def against(checkout: Path) -> None:
    """Prints the cost over that of another checkout."""
    for name in SCENARIOS:
        cost = ratio(partial(seconds, name), partial(seconds, name, checkout=checkout))
        print(f"{name}, here and in {checkout}: {cost}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("k", type=int, nargs="?", default=1000)
    parser.add_argument("rounds", type=int, nargs="?", default=100)
    parser.add_argument("--part", action="append", choices=("speed", "scale", "shared", "against"))
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    options = parser.parse_args()
    parts = options.part or ["speed", "scale", "shared"] + ["against"] * (options.against is not None)
    if "speed" in parts:
        speed(options.k, options.rounds)
    if "scale" in parts:
        scale()
    if "shared" in parts:
        shared()
    if "against" in parts:
        against(options.against.resolve())
    print(f"(this process peaked at {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB)")


if __name__ == "__main__":
    main()
