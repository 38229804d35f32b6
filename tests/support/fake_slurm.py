"""A Slurm on PATH that runs nothing by itself: what is submitted waits until a test executes a task of it."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = {
    "sbatch": """
        test -e "$SPOOL/refuses" && { echo "sbatch: error: invalid partition specified: gpu" >&2; exit 1; }
        job=$((77 + $(ls "$SPOOL" | grep -c '[.]sh$')))
        cp "${@: -1}" "$SPOOL/$job.sh"
        echo "Submitted batch job $job"
    """,
    "srun": """
        while [[ $1 == --* ]]; do
            case $1 in --unbuffered) shift;; *) shift 2;; esac
        done
        echo $$ > "$SPOOL/pid-$SLURM_ARRAY_TASK_ID"
        exec "$@"
    """,
    "squeue": """
        test -s "$SPOOL/queue" || { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }
        cat "$SPOOL/queue"
    """,
    "scontrol": """
        test "$1" = requeue && echo "$2" >> "$SPOOL/requeued"
    """,
}


@dataclass
class FakeSlurm:
    """A cluster whose files lie in a folder.

    Attributes:
        spool: what was submitted, ``JOB.sh``; ``queue``, what ``squeue`` prints; ``requeued``, what was put back.
    """

    spool: Path

    @classmethod
    def install(cls, folder: Path, monkeypatch) -> "FakeSlurm":
        spool, commands = folder / "spool", folder / "slurm-bin"
        spool.mkdir()
        commands.mkdir()
        for name, script in SCRIPTS.items():
            (commands / name).write_text(f"#!/bin/bash\n{script}")
            (commands / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("SPOOL", str(spool))
        return cls(spool)

    @property
    def jobs(self) -> list[int]:
        """What was submitted."""
        return sorted(int(path.stem) for path in self.spool.glob("*.sh"))

    def script(self, job: int) -> str:
        return (self.spool / f"{job}.sh").read_text()

    def requeued(self) -> list[str]:
        path = self.spool / "requeued"
        return path.read_text().split() if path.exists() else []

    def start(self, job: int, task: int) -> "subprocess.Popen[str]":
        """Begins a task of an array."""
        about = {"ARRAY_JOB_ID": job, "ARRAY_TASK_ID": task, "JOB_ID": job + 100 + task, "PROCID": 0, "LOCALID": 0,
                 "NODEID": 0, "NTASKS": 1, "JOB_NUM_NODES": 1}  # fmt: skip
        environment = os.environ | {f"SLURM_{key}": str(value) for key, value in about.items()}
        return subprocess.Popen(["bash", self.spool / f"{job}.sh"], env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip

    def preempt(self, task: int, number: signal.Signals, begun) -> None:
        """Sends a signal to a task as soon as ``begun()``."""
        deadline = time.monotonic() + 60
        while not begun():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(int((self.spool / f"pid-{task}").read_text()), number)
