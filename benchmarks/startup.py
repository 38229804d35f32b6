"""Start-up: processor time of ``simfl validate`` and ``simfl run`` next to importing what they need.

    python benchmarks/startup.py [--rounds 11]

Only ratios are judged. The commands to be compared take turns in one go, each in a process of its own, and the medians
of their processor times are divided, so that a busy machine changes little. Two ratios are printed beside their aims:

- ``simfl validate quickstart`` to ``import numpy, pydantic, yaml, click`` (aim: 2);
- ``simfl run quickstart`` to ``import torch`` and the run's own work, which is the time of the same run repeated in a
  process that has executed it before (aim: 1.35).

Both commands are also compared with those of an earlier commit (``base.py``), which take turns with them: the exit code
is 1 if one takes more than 1.1 times as long as there. An aim that is missed is said to be missed, and is no error.
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

sys.path.append(str(Path(__file__).parent))
from base import COMMIT, HERE, base  # noqa: E402

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
AIMS = {"validate": 2.0, "run": 1.35}
MOST = 1.1
"""Times what the command took at the base."""


def processor_s(*words: str, of: Path = HERE) -> float:
    """Seconds of processor time, user and system, of one Python process with the simfl of a folder."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = ENVIRONMENT | {"PYTHONPATH": str(of)}
    subprocess.run([sys.executable, "-P", *words], check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def second_run_s(out: str) -> float:
    """Seconds of processor time of a run in a process that has executed it before."""
    code = [sys.executable, "-P", "-c", SECOND_RUN, out]
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
    validate = ("-m", "simfl", "validate", "quickstart")
    with tempfile.TemporaryDirectory() as out, base() as earlier:
        run = ("-m", "simfl", "run", "quickstart", "--force", "-q", "--out", out)
        libraries, validate_s, validate_then_s = medians(
            rounds,
            lambda: processor_s("-c", LIBRARIES),
            lambda: processor_s(*validate),
            lambda: processor_s(*validate, of=earlier),
        )
        torch, work, run_s, run_then_s = medians(
            rounds,
            lambda: processor_s("-c", "import torch"),
            lambda: second_run_s(out),
            lambda: processor_s(*run),
            lambda: processor_s(*run, of=earlier),
        )
    print(f"{LIBRARIES} {libraries:.2f} s, import torch {torch:.2f} s, the run's own work {work:.2f} s")
    slower = False
    for name, seconds, then_s, least_s in (
        ("validate", validate_s, validate_then_s, libraries),
        ("run", run_s, run_then_s, torch + work),
    ):
        ratio, change = seconds / least_s, seconds / then_s
        aim = f"aim {AIMS[name]}, {'reached' if ratio <= AIMS[name] else 'missed'}"
        print(f"simfl {name} quickstart {seconds:.2f} s, {ratio:.2f} times ({aim}), "
              f"{change:.2f} times the {then_s:.2f} s of {COMMIT} (at most {MOST})")  # fmt: skip
        slower |= change > MOST
    return int(slower)


if __name__ == "__main__":
    sys.exit(main())
