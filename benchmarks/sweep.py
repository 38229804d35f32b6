"""What a sweep costs beyond its runs: planning, starting a worker, handing out a run, writing the index.

    python benchmarks/sweep.py [RUNS]

Plays RUNS (default 200) tiny runs, protocol only, then hands the same runs, now complete, to the same worker once more:
what that takes is all but the run itself. Results go to /dev/shm where there is one, so that the disk hides nothing.
The same is measured with an earlier commit (``base.py``) in the same call.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
from base import COMMIT, HERE, base  # noqa: E402

from simfl.experiments.sweep.execution import INDEX_WRITES, How, Index, execute
from simfl.experiments.sweep.grid import Axis
from simfl.experiments.sweep.plan import plan_sweep
from simfl.experiments.sweep.task import Task
from simfl.experiments.sweep.worker_process import Slot
from simfl.results.folder import write_contents

TINY = """
name: tiny
clients: 50
devices: {availability: {name: bernoulli, dropout: 0.2}}
selection: {name: random, k: 10}
training: {name: fedavg, rounds: 3}
learning: none
privacy: none
"""


LINES = {
    "run": "a run, handed to a worker, ms",
    "planning": "  planning: reading, checking, digest, ms",
    "handing": "  handing out: sending, reading again, ms",
    "index": "  its share of the index, ms",
    "beyond": "  together: beyond the run itself, for each run, ms",
    "start": "once a job: starting its worker, with a first run, s",
    "again": "the sweep again, all complete, s",
}


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    if "--json" in sys.argv:
        print(json.dumps(measured(runs)))
        return
    with base() as earlier:
        then, now = (in_a_process(runs, folder) for folder in (earlier, HERE))
    print(f"{runs} runs, one job{'now':>45}{COMMIT:>10}")
    for name, line in LINES.items():
        print(f"{line:<55} {now[name]:8.2f} {then[name]:9.2f}")


def in_a_process(runs: int, folder: Path) -> dict[str, float]:
    """What is measured with the simfl of a folder."""
    words = [sys.executable, "-P", __file__, str(runs), "--json"]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measured(runs: int) -> dict[str, float]:
    """Milliseconds for each run, and seconds for a job, by the names of :data:`LINES`."""
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as scratch:
        folder = Path(scratch)
        file = folder / "tiny.yaml"
        file.write_text(TINY)
        axes = (Axis("seed", tuple(map(str, range(runs)))),)
        plan_sweep(file, axes[:0])  # imports
        planning_s, plan = timed(lambda: plan_sweep(file, axes))

        tasks = [Task(m.scenario, "tiny", m.digest, scratch, scratch) for m in plan.members]
        slot = Slot()
        start_s, _ = timed(lambda: slot.execute(tasks[0]))
        run_s, _ = timed(lambda: [slot.execute(task) for task in tasks])
        hand_s, _ = timed(lambda: [slot.execute(task) for task in tasks])  # complete: all of it but the run itself
        slot.close()
        index = Index(plan, folder / "tiny")
        table = folder / "index"
        table.mkdir()
        index_s, _ = timed(lambda: write_contents(table, {"index.csv": index.csv()}))
        sweep_s, _ = timed(lambda: execute(plan, folder, folder / "tiny" / "sweep", How(jobs=1)))
    each = 1000 / runs
    return {"run": run_s * each, "planning": planning_s * each, "handing": hand_s * each,
            "index": INDEX_WRITES * index_s * each, "start": start_s, "again": planning_s + sweep_s,
            "beyond": (planning_s + hand_s + INDEX_WRITES * index_s) * each}  # fmt: skip


def timed(work):
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


if __name__ == "__main__":
    main()
