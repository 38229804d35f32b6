"""Time and memory of the report on a sweep of 1,000 runs: ``python benchmarks/report.py [FOLDER] [--seeds 10]``.

100 groups of ten seeds, 40 clients, 20 rounds each, nothing learned. The sweep is run first (minutes; what is
in FOLDER already is kept), then ``simfl export --rounds`` and ``simfl report`` run in processes of their own.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import simfl

SCENARIO = {
    "name": "big",
    "clients": 40,
    "network": {"name": "star", "latency_s": {"name": "log_normal", "median": 0.1, "sigma": 0.5},
                "bandwidth_bytes_per_s": 1e6},
    "devices": {"availability": {"name": "bernoulli", "dropout": 0.1},
                "computation": {"name": "random", "distribution": {"name": "half_normal", "sigma": 1.0}}},
    "selection": {"name": "random", "k": 4},
    "training": {"name": "fedavg", "rounds": 20},
    "learning": {"name": "none", "parameters": 1000, "samples": 10},
    "privacy": {"name": "multi_round", "every": 0, "budget": 100000},
}  # fmt: skip
GRID = {
    "selection.k": [1, 2, 4, 5, 8, 10, 13, 16, 20, 24],
    "devices.availability.dropout": [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45],
}


def measured(*words: str) -> str:
    """Processor seconds and peak memory of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "simfl", *words], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{spent:6.1f} s  peak so far {after.ru_maxrss / 1024:6.0f} MiB  {' '.join(words[:1])}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        swept = simfl.sweep(SCENARIO, GRID, replications=arguments.seeds, out=arguments.folder or Path(scratch))
        page = Path(scratch) / "report.html"
        print(measured("export", str(swept.path), "--rounds", str(Path(scratch) / "all.csv")))
        print(measured("report", str(swept.path), "-o", str(page)), f"{page.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
