"""Peak memory of whole runs by the number of clients, three repeats each.

    python results/referee/memory.py

Plays ``scenarios/million_clients.yaml`` (nothing is learned) and ``million_learning.yaml`` for five rounds in a process
of their own, with 10^5, 3·10^5 and 10^6 clients. Writes memory.csv beside this file, a row a run.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas

HERE = Path(__file__).resolve().parent
SCENARIOS = ("million_clients", "million_learning")
CLIENTS = (100_000, 300_000, 1_000_000)
REPEATS, ROUNDS = 3, 5


def peak_bytes(scenario: str, clients: int) -> int:
    """Of a process that plays it."""
    file = HERE.parent.parent / "scenarios" / f"{scenario}.yaml"
    with tempfile.TemporaryDirectory() as folder:
        words = ["run", str(file), f"clients={clients}", f"training.rounds={ROUNDS}", "--out", folder]
        process = subprocess.Popen([sys.executable, "-m", "simfl", *words], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
    assert not status, (scenario, clients)
    return used.ru_maxrss * 1024


def main() -> None:
    rows = [
        {"scenario": scenario, "clients": clients, "repeat": repeat, "peak_bytes": peak_bytes(scenario, clients)}
        for scenario in SCENARIOS
        for clients in CLIENTS
        for repeat in range(REPEATS)
    ]
    pandas.DataFrame(rows).to_csv(HERE / "memory.csv", index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
