"""The event loop: messages per second of simfl's world against bare SimPy timeouts, in one process.

    python benchmarks/world.py [K] [ROUNDS]

Prints the ratio (the machine's speed cancels out), then processor time, its ratio to the bare timeouts of as many jobs,
and peak memory of scenarios/million_clients.yaml and scenarios/fedbuff_scale.yaml (a million client updates each) at a
tenth, a third and all of their rounds, each in a process of its own. Last, the processor time of both at all of their
rounds with a shared link of the server over that without: the least of three, and with a link that is overloaded.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import simpy

HERE = Path(__file__).resolve().parent.parent
SHARED = {"million_clients": ("2.5e+8",), "fedbuff_scale": ("2.5e+8", "1.0e+8")}
"""Bytes per second of a server's link. FedBuff's jobs need 1.6e8 in each direction; less than that is overloaded."""

PLAYED = 1000

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


def bare(k: int, rounds: int) -> float:
    """Seconds for the same pattern in SimPy alone: two timeouts a client, the server waits for all."""
    env, rng = simpy.Environment(), np.random.default_rng(0)

    def client(down: float, up: float):
        yield env.timeout(down)
        yield env.timeout(up)

    def server():
        for _ in range(rounds):
            delays = rng.random((2, k)).tolist()
            yield env.all_of([env.process(client(*pair)) for pair in zip(*delays)])

    begin = time.perf_counter()
    env.run(env.process(server()))
    return time.perf_counter() - begin


def ours(k: int, rounds: int) -> float:
    """Seconds for simfl's agents: selection, delays, computation, rounds.csv and participation.csv included."""
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
        begin = time.perf_counter()
        run(scenario, Path(folder))
        return time.perf_counter() - begin


def measured(name: str, rounds: int, *overrides: str) -> dict[str, float]:
    """Processor seconds and peak memory of a shipped scenario, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-c",
            MEASURED,
            str(HERE / f"scenarios/{name}.yaml"),
            str(rounds),
            folder,
            *overrides,
        ]
        found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        return found


def main() -> None:
    k, rounds = (int(value) for value in (*sys.argv[1:], "1000", "100")[:2])
    ours(k, 2)
    times = [(bare(k, rounds), ours(k, rounds)) for _ in range(3)]
    alone, whole = (min(column) for column in zip(*times))
    messages = 2 * k * rounds
    speeds = f"bare SimPy {messages / alone:,.0f} messages/s, simfl {messages / whole:,.0f}"
    print(f"{speeds}; time ratio {whole / alone:.2f}")
    per_job = alone / (k * rounds)
    for name in ("million_clients", "fedbuff_scale"):
        for played in (100, 300, 1000):
            found = measured(name, played)
            ratio = found["seconds"] / (1000 * played * per_job)
            print(f"{name}, {played} rounds: {found['seconds']:.1f} s, ratio {ratio:.2f}, {found['MB']:.0f} MB")
    for name, widths in SHARED.items():
        alone_s = min(measured(name, PLAYED)["seconds"] for _ in range(3))
        for bytes_per_s in widths:
            server = f"network.server={{down_bytes_per_s: {bytes_per_s}, up_bytes_per_s: {bytes_per_s}}}"
            shared_s = min(measured(name, PLAYED, server)["seconds"] for _ in range(3))
            print(f"{name}, {PLAYED} rounds, a shared link of {bytes_per_s} bytes/s: {shared_s / alone_s:.2f} times")
    print(f"(this process peaked at {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB)")


if __name__ == "__main__":
    main()
