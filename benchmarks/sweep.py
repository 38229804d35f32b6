"""What a sweep costs beyond its runs: planning, starting a worker, handing out a run, writing the index.

    python benchmarks/sweep.py [RUNS]

Plays RUNS (default 200) tiny runs, protocol only, then hands the same runs, now complete, to the same worker once more:
what that takes is all but the run itself. Results go to /dev/shm where there is one, so that the disk hides nothing.
"""

import sys
import tempfile
import time
from pathlib import Path

from simfl.experiments.sweep.execution import INDEX_WRITES, How, execute
from simfl.experiments.sweep.grid import Axis
from simfl.experiments.sweep.index import Index
from simfl.experiments.sweep.plan import plan_sweep
from simfl.experiments.sweep.task import Task
from simfl.experiments.sweep.worker_process import Slot

TINY = """
name: tiny
clients: 50
devices: {availability: {name: bernoulli, dropout: 0.2}}
selection: {name: random, k: 10}
training: {name: fedavg, rounds: 3}
learning: none
privacy: none
"""


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
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
        index_s, _ = timed(lambda: index.write(folder / "index.csv"))
        sweep_s, _ = timed(lambda: execute(plan, folder, folder / "tiny" / "sweep", How(jobs=1)))
    each = 1000 / runs
    beyond = planning_s + hand_s + INDEX_WRITES * index_s
    print(f"{runs} runs, one job")
    print(f"a run, handed to a worker             {run_s * each:7.2f} ms")
    print("beyond the run itself, for each run:")
    print(f"  planning: reading, checking, digest {planning_s * each:7.2f} ms")
    print(f"  handing out: sending, reading again {hand_s * each:7.2f} ms")
    print(f"  its share of the index              {INDEX_WRITES * index_s * each:7.2f} ms")
    print(f"  together                            {beyond * each:7.2f} ms")
    print(f"once a job: starting its worker       {start_s:7.2f} s, with a first run")
    print(f"the sweep again, all complete         {(planning_s + sweep_s):7.2f} s")


def timed(work):
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


if __name__ == "__main__":
    main()
