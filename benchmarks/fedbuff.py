"""Asynchronous protocol without training: time, memory and cost per client update, each run in a process of its own.

    python benchmarks/fedbuff.py [ROUNDS]

Plays scenarios/fedbuff_scale.yaml whole (10^6 updates), then ROUNDS (default 100) of its rounds with 30,000 to
1,000,000 clients, and with fewer clients selected at a time. Times are CPU seconds of one process, start included
only in the first line's wall time.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
SCENARIO = HERE / "scenarios" / "fedbuff_scale.yaml"
MEASURED = """
import json, resource, sys, time
from pathlib import Path
begin = time.perf_counter()
from simfl.runs.run import run
from simfl.scenario import Scenario
scenario = Scenario.load(sys.argv[1], sys.argv[3:])
imported = time.process_time()
done = run(scenario, Path(sys.argv[2]))
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"wall_s": time.perf_counter() - begin, "cpu_s": time.process_time() - imported,
                  "MB": usage.ru_maxrss / 1024, **done.summary}))
"""


def play(*overrides: str) -> dict:
    """The summary of one run, with its wall and CPU seconds and its peak memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", MEASURED, str(SCENARIO), folder, *overrides]
        found: dict = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> None:
    rounds = sys.argv[1] if len(sys.argv) > 1 else "100"
    whole = play()
    jobs = sum(whole["jobs"].values())
    print(
        f"fedbuff_scale: {whole['client_updates']:,} updates aggregated, {jobs:,} jobs, mean concurrency "
        f"{whole['mean_concurrency']:,.0f}: {whole['wall_s']:.1f} s wall, {whole['cpu_s']:.1f} s CPU, "
        f"{whole['MB']:.0f} MB"
    )
    print("   clients  lookahead   us CPU an update     MB")
    for clients, lookahead in [(30_000, 10_000), (100_000, 10_000), (300_000, 10_000), (1_000_000, 10_000),
                               (100_000, 1_000), (1_000_000, 1_000)]:  # fmt: skip
        some = play(f"clients={clients}", f"training.lookahead={lookahead}", f"training.rounds={rounds}")
        each = 1e6 * some["cpu_s"] / some["client_updates"]
        print(f"{clients:10,} {lookahead:10,} {each:18.1f} {some['MB']:6.0f}")


if __name__ == "__main__":
    main()
