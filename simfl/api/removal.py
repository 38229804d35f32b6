"""Removes runs, sweeps and comparisons: nothing else, nothing that is in use, and each one whole or not at all."""

import os
import re
import secrets
import shutil
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from simfl.api.find_results import holds_results
from simfl.api.results_index import Entry, lock_files
from simfl.core.errors import SimflError
from simfl.core.storage.disk import file_lock
from simfl.results.file_names import BEGUN, CONTENTS, FAILURE, SUMMARY, is_swept
from simfl.results.sealed_files import read_sealed

REMOVED = ".removed-"
"""A folder whose name begins so is no longer one of results, and waits for the next removal."""

DIGEST_NAME = re.compile(r"((sweep|compare|search)-)?[0-9a-f]{12}")


def check_removable(folder: Path, root: Path) -> Path:
    """The folder's path below the root of the results, if it may be removed.

    Raises:
        SimflError: it is not of the form ROOT/NAME/FOLDER, a part of the way is a link, or no results are in it.
        BusyError: tasks of Slurm are queued for it.
    """
    bases = {os.path.abspath(root), os.path.realpath(root)}
    path = Path(os.path.abspath(folder))
    base = next((Path(base) for base in bases if path.is_relative_to(base)), None)
    if base is None:
        raise SimflError(f"{folder}: is not in {root}; --out names another folder of results")
    if len(path.relative_to(base).parts) != 2:
        raise SimflError(f"{folder}: is no run, sweep or comparison in {root}")
    for part in (path.parent, path):
        if part.is_symlink():
            raise SimflError(f"{part}: is a link; simfl removes nothing through links")
    if not path.is_dir():
        raise SimflError(f"{folder}: no such folder")
    if not _is_simfl(path):
        raise SimflError(f"{folder}: holds no run, sweep or comparison of simfl; nothing was removed")
    _check_not_queued(path)
    return path


def _is_simfl(folder: Path) -> bool:
    """Whether simfl made a folder: by its name, or by a file in it that fits its own digest."""
    if DIGEST_NAME.fullmatch(folder.name) and holds_results(folder):
        return True
    for name in (SUMMARY, BEGUN, FAILURE, CONTENTS):
        with suppress(SimflError):
            if read_sealed(folder / name) is not None:
                return True
    return False


def _check_not_queued(folder: Path) -> None:
    """
    Raises:
        BusyError: the folder is of a sweep that has tasks in Slurm's queue.
    """
    if is_swept(folder):
        from simfl.experiments.sweep.slurm import check_not_queued  # only here: it imports all that executes sweeps

        check_not_queued(folder)


def remove(folder: Path) -> None:
    """Removes a folder that :func:`check_removable` has given.

    It is renamed first: a kill afterwards leaves nothing that looks like results.

    Raises:
        BusyError: a process is at work in it, or will be: tasks of Slurm are queued.
    """
    gone = folder.with_name(f"{REMOVED}{folder.name}-{secrets.token_hex(4)}")
    with ExitStack() as stack:
        for lock in {folder / ".lock", *lock_files(folder)}:
            stack.enter_context(file_lock(lock, f"{folder}: a process is at work here; nothing of it was removed"))
        _check_not_queued(folder)  # once more: one could have been submitted meanwhile, and cannot be from now on
        os.rename(folder, gone)
    for left in [gone, *folder.parent.glob(f"{REMOVED}*")]:  # also by a removal that was killed, or is at work
        if not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
    with suppress(OSError):  # other results are in it
        folder.parent.rmdir()


def only_here(sweep: Entry, entries: Sequence[Entry]) -> list[Path]:
    """The runs of a sweep or comparison that are on disk and belong to no other one.

    Args:
        sweep: the sweep.
        entries: all of its scenario.

    Raises:
        SimflError: of another one it is not known which runs belong to it.
    """
    siblings = [entry for entry in entries if entry.kind != "run" and entry.path.name != sweep.path.name]
    if unknown := next((entry.path for entry in siblings if not entry.members), None):
        raise SimflError(f"{unknown}: which runs belong to it is not known; remove it first, or do not remove the runs")
    others = {digest for entry in siblings for digest in entry.members}
    mine = set(sweep.members) - others
    return [entry.path for entry in entries if entry.kind == "run" and entry.path.name in mine]
