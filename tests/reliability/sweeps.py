"""Bar 11: sweeps and runs on many workers survive what befalls the workers."""

import shutil

from tests.experiments.test_sweep import TINY, disturbed_sweep, installed
from tests.reliability.check import Case, Check, Outcome, Plan, when
from tests.reliability.tested import tested

SWEEPS = {"five-minutes": (range(20, 62), 1, 4), "nightly": (range(20, 66), 11, 25)}
"""Numbers of well-behaved members (beside one that hangs and one that is impossible), replications, workers killed."""


def workers(plan: Plan) -> Case:
    """The same sweep twice at once, in one of them a worker stalls and others get SIGKILL."""
    numbers, replications, kills = SWEEPS[plan.size]

    def case(number: int) -> Outcome:
        folder = plan.scratch / str(number)
        folder.mkdir()
        (folder / "tiny.yaml").write_text(TINY)
        faulty = installed(folder / "installed")
        found, _ = disturbed_sweep(folder, faulty, [13, 17, *numbers], replications, kills, limit_s=5)
        failed = {row["devices.availability"] for row in found if row["status"] == "failed"}
        wrong = when(failed != {"faulty:number=13", "faulty:number=17"}, f"failed: {failed}")
        wrong += [f"{row}" for row in found if row["status"] not in ("done", "failed")]
        hung = sum(row["devices.availability"] == "faulty:number=13" for row in found)
        shutil.rmtree(folder)
        return Outcome(tuple(wrong), {"members": len(found), "workers killed or stalled": kills, "hung": hung})

    return case


CHECKS = (
    Check(11, "workers", "a sweep whose workers get SIGKILL or stall, with a run that hangs and one that is "
          "impossible; all others complete, the undisturbed sweep's index, no half-written file",
          "members", (0, 44, 528), workers),
    tested(11, "dask-workers", "one run's training on a Dask cluster, three of whose workers get SIGKILL within a "
           "round, and another joins; then all is lost; the bits of one process",
           "learning/test_cluster_backend.py::test_workers_that_die_and_one_that_joins_change_no_byte",
           "learning/test_cluster_backend.py::test_what_is_lost_with_all_workers_is_sent_again", slow=True),
    tested(11, "sweep-tests", "one sweep on a folder at a time, Ctrl-C (130, children gone, the command to go on), "
           "full disks",
           "experiments/test_sweep.py::test_ctrl_c_ends_the_children_and_the_same_command_goes_on",
           "experiments/test_sweep.py::test_a_sweep_is_not_played_twice_at_once_and_no_worker_outlives_it",
           "core/test_disk.py::test_a_full_disk_names_the_file_and_leaves_nothing",
           "core/test_disk.py::test_a_file_limit_ends_with_one_line",
           nightly=("experiments/test_sweep.py", "remote/test_serving.py", "learning/test_cluster_backend.py")),
)  # fmt: skip
