"""The event loop: messages per second of simfl's world against bare SimPy timeouts, in one process.

    python benchmarks/world.py [K] [ROUNDS]

Prints the ratio (the machine's speed cancels out), then time and peak memory of scenarios/million_clients.yaml
at a tenth, a third and all of its rounds, each in a process of its own.
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
MEASURED = """
import json, resource, sys, time
from pathlib import Path
begin = time.perf_counter()
from simfl.run import run
from simfl.scenario import Scenario
done = run(Scenario.load(sys.argv[1], [f"training.rounds={sys.argv[2]}"]), Path(sys.argv[3]))
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": time.perf_counter() - begin, "MB": memory}))
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
    from simfl.run import run
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


def main() -> None:
    k, rounds = (int(value) for value in (*sys.argv[1:], "1000", "100")[:2])
    ours(k, 2)
    times = [(bare(k, rounds), ours(k, rounds)) for _ in range(3)]
    alone, whole = (min(column) for column in zip(*times))
    messages = 2 * k * rounds
    speeds = f"bare SimPy {messages / alone:,.0f} messages/s, simfl {messages / whole:,.0f}"
    print(f"{speeds}; time ratio {whole / alone:.2f}")
    for share in (0.1, 0.3, 1.0):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", MEASURED, str(HERE / "scenarios/million_clients.yaml"),
                       str(int(1000 * share)), folder]  # fmt: skip
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(f"million_clients, {int(1000 * share)} rounds: {found['seconds']:.1f} s, {found['MB']:.0f} MB")
    print(f"(this process peaked at {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB)")


if __name__ == "__main__":
    main()
