"""Start-up: processor time of ``simfl validate`` and ``simfl run`` next to importing what they need.

    python benchmarks/startup.py [--rounds 11]

Only ratios are judged. The commands to be compared take turns in one go, each in a process of its own, and the medians
of their processor times are divided, so that a busy machine changes little. Two limits (exit code 1 beyond them):

- ``simfl validate quickstart`` takes at most 2 times ``import numpy, pydantic, yaml, click``;
- ``simfl run quickstart`` takes at most 1.35 times ``import torch`` and the run's own work, which is the time of the
  same run repeated in a process that has executed it before.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent.parent
LIBRARIES = "import numpy, pydantic, yaml, click"
SECOND_RUN = """
import sys, time
from pathlib import Path
from simfl.runs.run import run
from simfl.scenario import Scenario

scenario = Scenario.load("quickstart")
run(scenario, Path(sys.argv[1]), force=True)
before = time.process_time()
run(scenario, Path(sys.argv[1]), force=True)
print(time.process_time() - before)
"""
LIMITS = {"validate": 2.0, "run": 1.35}


def processor_s(*words: str) -> float:
    """Seconds of processor time, user and system, of one Python process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env=ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def second_run_s(out: str) -> float:
    """Seconds of processor time of a run in a process that has executed it before."""
    code = [sys.executable, "-c", SECOND_RUN, out]
    return float(subprocess.run(code, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout)


def medians(rounds: int, *measures: Callable[[], float]) -> list[float]:
    """The median of each measure, taken in turns; a first turn, which compiles and fills caches, is not counted."""
    turns = [[measure() for measure in measures] for _ in range(rounds + 1)][1:]
    return [median(times) for times in zip(*turns, strict=True)]


ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
ENVIRONMENT |= {"PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11, help="turns of each command")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as out:
        run = ("-m", "simfl", "run", "quickstart", "--force", "-q", "--out", out)
        libraries, validate = medians(
            rounds, lambda: processor_s("-c", LIBRARIES), lambda: processor_s("-m", "simfl", "validate", "quickstart")
        )
        torch, work, whole = medians(
            rounds, lambda: processor_s("-c", "import torch"), lambda: second_run_s(out), lambda: processor_s(*run)
        )
    ratios = {"validate": validate / libraries, "run": whole / (torch + work)}
    print(f"{LIBRARIES} {libraries:.2f} s, import torch {torch:.2f} s, the run's own work {work:.2f} s")
    for name, seconds in (("validate", validate), ("run", whole)):
        print(f"simfl {name} quickstart {seconds:.2f} s, {ratios[name]:.2f} times (at most {LIMITS[name]})")
    return int(any(ratios[name] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
