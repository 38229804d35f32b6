"""Names of the files of a results folder: of a run, a sweep or a comparison."""

import os
from pathlib import Path

from simfl.core.errors import SimflError
from simfl.results.tables import VECTORS

SUMMARY, SCENARIO, CLIENTS, LATENCY = "summary.json", "scenario.yaml", "clients.csv", "latency.csv"
GZ = ".gz"
"""Ends the name of a table of many clients, which is compressed."""

ACCURACIES, MACHINE, FINDINGS = "accuracies.csv", "machine.json", "findings.json"
BEGUN, CONTENTS, FAILURE = "begun.json", "contents.json", "failed.json"
"""What a run in progress began with; the files of a sweep or comparison; why a run failed."""

PRUNED = "pruned.json"
"""Says that a search has stopped a run early."""

PRIVACY, OBSERVERS = "privacy.csv", "observers.csv"
"""What accountants say of each client; and of each observer, where there are several."""

UPDATES = "updates.csv"
"""What remote clients have sent: a row an update, which names the SHA-256 of its file."""

UPDATES_FOLDER, JOINED = "updates", "joined"
"""Folders: of the files ``SHA-256.npy`` that updates.csv names; and of who has joined, during the run."""

JOB_TIMES = "job_times.csv"
"""How long the jobs of remote clients really took; of no digest, and compared with nothing."""

JOINED_LIST = "clients.json"
"""In ``joined``: the clients that have a file there."""

LAST = "last.ckpt"
"""The last checkpoint of a finished run, from which one with more rounds goes on."""

OWN = (
    SCENARIO, CLIENTS, CLIENTS + GZ, LATENCY, ACCURACIES, ACCURACIES + GZ, "rounds.csv", "participation.csv",
    "evaluation.csv", "jobs.csv", "phases.csv", "messages.csv", "facts.csv", "attacks.csv", FINDINGS, PRIVACY,
    OBSERVERS, "aggregations.csv", "aggregates.csv", VECTORS, "events.jsonl", UPDATES, "model.npy", "columns.json",
    JOB_TIMES, MACHINE, BEGUN, FAILURE, PRUNED, LAST, SUMMARY,
)  # fmt: skip
"""Names of the files that a run may write; nothing else in its folder is its own."""

BESIDE = (MACHINE, JOB_TIMES, LAST)
"""Files of a run that say how it was computed, and how far: they differ between reruns, and nothing compares them."""

SWEEPS = (
    CONTENTS, "sweep.yaml", "index.csv", "comparison.csv", "comparison.json", "paired.csv", "equal.csv",
    "equal_paired.csv", "runs.csv", "pooled.csv", "beside_plain.csv", "search.csv", "together.json",
)  # fmt: skip
"""Names of the files of sweeps, comparisons and searches."""


def is_finished(path: Path) -> bool:
    """Whether a folder holds the results of a run, sound or not."""
    return os.path.exists(path / SUMMARY)  # and False of what can be no path


def is_swept(path: Path) -> bool:
    """Whether a folder holds the files of a sweep or comparison, sound or not."""
    return any((path / name).exists() for name in SWEEPS)


def refuse_result_files(*targets: Path) -> None:
    """Before a figure, a page or a trace is written somewhere.

    Raises:
        SimflError: a target is a file of results themselves.
    """
    for path in targets:
        results = any((path.parent / name).exists() for name in (SCENARIO, SUMMARY, "sweep.yaml"))
        if results and path.name in (*OWN, *SWEEPS):
            raise SimflError(f"{path}: holds results; choose another name")
