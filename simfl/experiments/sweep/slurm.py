"""A sweep as a job array of Slurm, through submitit.

The runs that are left when the array is submitted are divided among its tasks. A task that reaches its time limit, or
is preempted, is put back into the queue and goes on with what is left of its part: complete runs are used again, and
interrupted ones continue from their last checkpoint, which is at most a fiftieth of a run away.
"""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfl.core.children import environment
from simfl.core.errors import BusyError, MissingError, SimflError, requires_extra
from simfl.core.storage.disk import file_lock, make_folder
from simfl.experiments.sweep.execution import How, execute, open_members, write_definition
from simfl.experiments.sweep.plan import Plan
from simfl.results.notes import texts_of
from simfl.results.sealed_files import read_sealed, write_sealed
from simfl.runs.tracking import prepare_trackers

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission

SUBMITTED = "slurm.json"
"""In a sweep's folder: the number of its last array."""

MAX_TASKS = 100
"""Tasks of an array, if ``--jobs`` does not say."""

MINUTES = 60
"""Time limit of a task, if ``--time`` does not say; it goes on afterwards."""

SQUEUE_LIMIT_S = 120
"""In which squeue has to answer."""

MAX_REQUEUES = 1000

SHORT = {"A": "account", "C": "constraint", "J": "job-name", "c": "cpus-per-task", "p": "partition", "q": "qos",
         "t": "time", "w": "nodelist", "x": "exclude"}  # fmt: skip
"""Options of sbatch that are often written with one letter."""

REFUSED = {
    "array": "--jobs says how many tasks the array has",
    "signal": "simfl asks for it",
    "ntasks": "a task of the array is one process; --cpus-per-task says how many runs it executes at a time",
    "nodes": "a task of the array is one process on one node",
}


@dataclass(frozen=True)
class Submission:
    """An array that is queued or running.

    Attributes:
        job: its number.
        tasks: how many it has, or has left.
        runs: that are left to it; None if it was submitted before.
    """

    job: str
    tasks: int
    runs: int | None = None


@dataclass(frozen=True)
class ArrayTask:
    """What one task of an array executes. It is pickled, and called on the node.

    Attributes:
        plan: the sweep.
        out: root of all results, absolute.
        folder: the sweep's, absolute.
        how: with the digests of the runs of this part.
    """

    plan: Plan
    out: Path
    folder: Path
    how: How

    def __call__(self) -> None:
        """Runs what is left of the part, as many runs at a time as the task has processors."""
        from submitit.core.job_environment import JobEnvironment

        put_back = signal.getsignal(JobEnvironment._usr_sig())  # of submitit, which calls checkpoint and requeues
        signal.signal(signal.SIGUSR1, put_back)
        jobs = int(os.environ.get("SLURM_CPUS_PER_TASK", 1))
        execute(self.plan, self.out, self.folder, replace(self.how, jobs=jobs))

    def checkpoint(self) -> "DelayedSubmission":
        """What is to be called when the task is taken from the queue again: the same; the runs' folders know more."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def submit(plan: Plan, out: Path, folder: Path, how: How, options: str) -> Submission | None:
    """Writes an array for the runs that are left, and submits it.

    Args:
        plan: the sweep.
        out: root of all results, seen by all nodes.
        folder: the sweep's.
        how: as for :func:`simfl.experiments.sweep.execution.execute`; ``jobs`` is the number of the array's tasks.
        options: of sbatch, e.g. ``--partition=cpu --time=4:00:00 --mem=4G``.

    Returns:
        What was submitted, now or before if that is still at work; None if no run is left.

    Raises:
        MissingError: submitit or Slurm is not installed here.
        SimflError: an option is not for a sweep, or Slurm has refused the array.
    """
    parameters = _parameters(options)
    if how.shard != (1, 1) or how.engine != "processes":
        raise SimflError("--slurm: divides the runs itself, without --shard and --engine")
    prepare_trackers(texts_of(how.log), plan.name)
    out, folder = out.resolve(), folder.resolve()
    make_folder(folder, folder.parent.parent)
    with file_lock(folder / ".lock-slurm", f"{folder}: another process is submitting this sweep"):
        earlier = read_sealed(folder / SUBMITTED) or {}
        if tasks := _tasks_left(str(earlier.get("job", ""))):
            return Submission(str(earlier["job"]), tasks)
        left = open_members(write_definition(plan, out, folder, how), how)
        if not left:
            return None
        count = min(how.jobs or MAX_TASKS, len(left))
        shares = [replace(how, jobs=None, only=tuple(left[i::count])) for i in range(count)]
        job = _send([ArrayTask(plan, out, folder, share) for share in shares], folder / "slurm", plan.name, parameters)
        write_sealed(folder / SUBMITTED, {"job": job, "tasks": count})
        return Submission(job, count, len(left))


def _send(parts: list[ArrayTask], folder: Path, name: str, parameters: Mapping[str, Any]) -> str:
    """The number of a new array."""
    with requires_extra("slurm", "--slurm"):
        from submitit import SlurmExecutor
    try:
        executor = SlurmExecutor(folder, max_num_timeout=MAX_REQUEUES)
        minutes = _minutes(parameters.get("time"))
        more = {key: value for key, value in parameters.items() if key != "time"}
        setup = [f"export {name}={shlex.quote(value)}" for name, value in environment().items()]
        executor.update_parameters(time=minutes, job_name=f"simfl-{name}", array_parallelism=len(parts), setup=setup,
                                   additional_parameters={"requeue": True, **more})  # fmt: skip
        with executor.batch():
            jobs = [executor.submit(part) for part in parts]
    except RuntimeError as error:  # no srun here, or sbatch has refused it
        raise SimflError(f"--slurm: {' '.join(str(error).split())[-400:]}") from None
    return str(jobs[0].job_id).partition("_")[0]


def check_not_queued(folder: Path) -> None:
    """Whether no array of a sweep's is queued or running, so that its folder may be removed.

    Raises:
        BusyError: there is one.
        SimflError: Slurm does not answer.
    """
    job = str((read_sealed(folder / SUBMITTED) or {}).get("job", ""))
    try:
        tasks = _tasks_left(job)
    except MissingError:  # the results were copied to a machine without Slurm
        return
    if tasks:
        what = "a task of it is" if tasks == 1 else f"{tasks} tasks of it are"
        raise BusyError(f"{folder}: {what} queued or running in Slurm; stop them with: scancel {job}")


def _tasks_left(job: str) -> int:
    """How many tasks of an array are queued or running; none where Slurm no longer knows it.

    Raises:
        MissingError: there is no Slurm here.
        SimflError: Slurm does not answer.
    """
    if not job:
        return 0
    try:
        answer = subprocess.run(["squeue", "--noheader", "--array", "--jobs", job, "--format=%i"],
                               capture_output=True, text=True, check=False, timeout=SQUEUE_LIMIT_S)  # fmt: skip
    except FileNotFoundError:
        raise MissingError("--slurm: there is no squeue here; run it on a login node of the cluster") from None
    except subprocess.TimeoutExpired:
        raise SimflError(f"--slurm: squeue has not answered for {SQUEUE_LIMIT_S} s") from None
    if answer.returncode and "invalid job id" not in answer.stderr.lower():  # submitting again would run all twice
        raise SimflError(f"--slurm: squeue does not answer: {' '.join(answer.stderr.split())[-400:]}")
    return len(answer.stdout.split()) if answer.returncode == 0 else 0


def _parameters(options: str) -> dict[str, Any]:
    """Options of sbatch by their long names, True where one has no value; refuses those that are not for a sweep."""
    parameters: dict[str, Any] = {}
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise SimflError(f"--slurm {options!r}: {error}") from None
    key = ""
    for word in words:
        if match := re.fullmatch(r"--([a-z][a-z-]*)(?:=(.*))?", word):
            key, value = match[1], match[2]
        elif match := re.fullmatch(r"-([A-Za-z])(.*)", word):
            if match[1] not in SHORT:
                raise SimflError(f"--slurm: {word}: write the option with its long name, --name=value")
            key, value = SHORT[match[1]], match[2] or None
        elif key and parameters[key] is True:
            parameters[key] = word
            continue
        else:
            raise SimflError(f"--slurm: {word!r} is no option of sbatch; e.g. --partition=cpu --time=4:00:00")
        if key in REFUSED:
            raise SimflError(f"--slurm: --{key} is not for a sweep: {REFUSED[key]}")
        parameters[key] = True if value is None else value
    _minutes(parameters.get("time"))
    return parameters


def _minutes(time: object) -> int:
    """A time limit of sbatch in whole minutes, rounded up: ``90``, ``90:00``, ``1:30:00``, ``1-12``, ``1-12:30``."""
    if time is None:
        return MINUTES
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", str(time))
    if not match:
        raise SimflError(f"--slurm: --time={time}: write minutes, H:MM:SS or D-HH:MM:SS")
    days, *numbers = match.groups()
    parts = [int(number) for number in numbers if number is not None]
    if days is not None:
        hours, minutes, seconds = [*parts, 0, 0][:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, minutes, seconds = 0, *[*parts, 0][:2]
    return max(1, (int(days or 0) * 24 + hours) * 60 + minutes + (seconds > 0))
