"""Executes a planned sweep: what is complete is kept, what is missing is run, and the index says how it went."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from simfl.core.errors import IntegrityError, SimflError
from simfl.core.json_data import JsonObject
from simfl.core.storage.disk import file_lock, make_folder
from simfl.experiments.sweep import cluster, processes
from simfl.experiments.sweep.plan import Member, Plan
from simfl.experiments.sweep.plugin_pickling import written_objects
from simfl.experiments.sweep.stop_rule import StopRule
from simfl.experiments.sweep.task import DONE, FAILED, OPEN, PRUNED, Task, finished_summary, note_failure
from simfl.experiments.sweep.worker_process import Slot
from simfl.results.folder import write_contents
from simfl.results.notes import Notes, add_notes, texts_of
from simfl.results.sealed_files import read_failure
from simfl.results.tables import table_bytes
from simfl.runs.tracking import prepare_trackers

LEFT_OUT = {"name", "digest", "seed", "sha256"}
"""Parts of a summary that the row has already, or that are no results."""


class Index:
    """The state of every member of a plan.

    Args:
        plan: the sweep.
        runs: the folder that holds the runs' folders.
        stop: when runs are stopped early, by digest.
    """

    def __init__(self, plan: Plan, runs: Path, stop: Mapping[str, StopRule] | None = None) -> None:
        self.plan, self.runs, self.stop = plan, runs, stop or {}
        self._rows: dict[str, JsonObject] = {}
        for member in plan.members:
            self.refresh(member.digest)

    def refresh(self, digest: str) -> str:
        """Looks at a run's folder again; its status."""
        folder = self.runs / digest
        summary, failure = (_read(document, folder) for document in (finished_summary, read_failure))
        if summary is not None:
            values = {k: v for k, v in summary.items() if k not in LEFT_OUT and not isinstance(v, (dict, list))}
            self._rows[digest] = {"status": DONE, "error": None, "values": values}
        elif failure is not None:
            self._rows[digest] = {"status": FAILED, "error": failure["error"], "values": {}}
        else:
            rule = self.stop.get(digest)
            is_pruned = rule is not None and rule.find_stop(folder) is not None
            status = PRUNED if is_pruned else OPEN
            self._rows[digest] = {"status": status, "error": None, "values": {}}
        return self.status(digest)

    def status(self, digest: str) -> str:
        """``done``, ``failed``, ``pruned`` or ``open``."""
        return str(self._rows[digest]["status"])

    def error(self, digest: str) -> str | None:
        """Why a run failed."""
        return self._rows[digest]["error"]

    def counts(self, digests: Iterable[str]) -> Counter[str]:
        """How many of some runs have which status."""
        return Counter(map(self.status, digests))

    def table(self) -> tuple[list[str], list[JsonObject]]:
        """Columns and rows: digest, one column a key, seed, status, the values of the summaries, error."""
        keys = [axis.key for axis in self.plan.axes if axis.key != "seed"]
        rows = [self._row(member) for member in self.plan.members]
        fixed = ["digest", *keys, "seed", "status"]
        values = dict.fromkeys(key for row in self._rows.values() for key in row["values"])
        columns = [*fixed, *(key for key in values if key not in fixed), "error"]
        return columns, rows

    def csv(self) -> bytes:
        """The table as the content of ``index.csv``."""
        return table_bytes(*self.table())

    def _row(self, member: Member) -> JsonObject:
        row = self._rows[member.digest]
        keys = {axis.key: value for axis, value in zip(self.plan.axes, member.values, strict=True)}
        fixed = {**keys, "digest": member.digest, "seed": member.seed, "status": row["status"], "error": row["error"]}
        return {**row["values"], **fixed}


SHARED = ".lock-index"
"""Held by whoever writes a file that all shards write."""

LONGEST_S = 2e6
"""The longest time limit, 23 days: how long a system call can wait."""

INDEX_WRITES = 50
"""The index is brought up to date so often during a sweep."""


def _read(document: Callable[[Path], JsonObject | None], folder: Path) -> JsonObject | None:
    """A document of a run; None where it is damaged: it is run again, as if it had never been complete."""
    try:
        return document(folder)
    except IntegrityError as error:
        print(f"warning: {error}", file=sys.stderr)
        return None


@dataclass(frozen=True)
class How:
    """How a sweep is executed; nothing of it changes a result.

    Attributes:
        jobs: runs at the same time; None = one for each core that this process may use.
        retry_failed: run those again that failed before.
        time_limit_s: wall seconds of one run; None = no limit.
        shard: (i, n) runs every n-th member from the i-th on, 1 <= i <= n.
        engine: ``processes`` on this machine, or ``dask``.
        scheduler: address of a Dask scheduler; None = inside this process.
        insecure: accept a scheduler on another machine without TLS.
        stop: when runs are stopped early, by digest.
        slots: places of the engine ``processes`` that outlive this sweep, for the next one.
        only: digests of the runs to execute; None = all. Others of the shard are left alone.
        log: names of trackers, see :mod:`simfl.runs.tracking`; runs that are complete already are not logged.
        run_name, tags, note: about the sweep; the tags are added to each of its runs, too.
    """

    jobs: int | None = None
    retry_failed: bool = False
    time_limit_s: float | None = None
    shard: tuple[int, int] = (1, 1)
    engine: Literal["processes", "dask"] = "processes"
    scheduler: str | None = None
    insecure: bool = False
    stop: Mapping[str, StopRule] = field(default_factory=dict)
    slots: list[Slot] | None = field(default=None, compare=False)
    only: tuple[str, ...] | None = None
    log: Sequence[str] = ()
    run_name: str = ""
    tags: Sequence[str] = ()
    note: str = ""

    @cached_property
    def notes(self) -> Notes:
        """What is written about the sweep."""
        return Notes(self.run_name, texts_of(self.tags), self.note)

    def __post_init__(self) -> None:
        shard, shards = self.shard
        if not 1 <= shard <= shards:
            raise SimflError(f"shard {shard}/{shards}: the shards of {shards} are 1/{shards} to {shards}/{shards}")
        if self.jobs is not None and self.jobs < 1:
            raise SimflError(f"jobs: at least 1 (got {self.jobs})")
        if self.time_limit_s is not None and not 0 < self.time_limit_s <= LONGEST_S:
            raise SimflError(
                f"the time limit must be positive and at most {LONGEST_S:g} s (got {self.time_limit_s}); without one "
                "runs take as long as they need"
            )
        if self.engine not in ("processes", "dask"):
            raise SimflError(f"engine: processes or dask (got {self.engine})")
        if self.scheduler is not None and self.engine != "dask":
            raise SimflError("a scheduler's address needs the engine dask")
        assert self.notes is not None  # raises where they are wrong

    def members(self, plan: Plan) -> tuple[Member, ...]:
        """Those that are to be executed, complete ones included."""
        shard, shards = self.shard
        mine = plan.members[shard - 1 :: shards]
        return mine if self.only is None else tuple(member for member in mine if member.digest in self.only)

    @property
    def lock(self) -> str:
        """The name of the lock that is held while these members are executed."""
        shard, shards = self.shard
        if self.only is not None:
            return f".lock-from-{self.only[0]}"
        return ".lock" if shards == 1 else f".lock-{shard}-of-{shards}"

    def execute(self, tasks: list[Task]) -> Generator[tuple[str, str], None, None]:
        """The engine at work; yields ("started", "ended" or "put back", digest)."""
        # cores that this process may use; all of the machine where the system does not tell (macOS, Windows)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        jobs = self.jobs or cores or 1
        if self.engine == "processes":
            return processes.execute(tasks, jobs, self.time_limit_s, self.slots)
        return cluster.execute(tasks, jobs, self.time_limit_s, self.scheduler, self.insecure)


@dataclass(frozen=True)
class Counts:
    """How far a sweep (or this shard of it) has come, in runs.

    Attributes:
        total: all of them.
        reused: complete, or failed and not to be retried, before this sweep began.
        done, failed: complete (or stopped early) and failed now, the kept ones included.
        running: at present.
    """

    total: int
    reused: int
    done: int
    failed: int
    running: int

    @property
    def left(self) -> int:
        """Neither ended nor running."""
        return self.total - self.done - self.failed - self.running


Watch = Callable[[Counts], None]


def execute(plan: Plan, out: Path, folder: Path, how: How, watch: Watch | None = None) -> Index:
    """Runs the members of a plan into ``out/<name>/<digest>/``, the sweep's own files into ``folder``.

    Args:
        plan: the sweep.
        out: root of all results.
        folder: gets ``sweep.yaml`` and ``index.csv``.
        how: engine, jobs, limits.
        watch: called whenever a run has begun or ended.

    Returns:
        The state of every member, other shards' included.

    Raises:
        BusyError: another process is running the same sweep (or shard) into the same folder.
        SimflError: the engine cannot work.
    """
    out = out.resolve()
    prepare_trackers(texts_of(how.log), plan.name)
    make_folder(folder, folder.parent.parent)
    with file_lock(folder / how.lock, f"{folder}: another process is running this sweep"):
        index = write_definition(plan, out, folder, how)
        mine, missing = how.members(plan), set(open_members(index, how))
        try:
            with written_objects(plan.objects if missing else (), folder) as objects:
                tasks = [_task(plan, member, out, how, objects) for member in mine if member.digest in missing]
                _execute(index, mine, tasks, folder, how, watch)
        finally:
            _write(index, folder)
    return index


def write_definition(plan: Plan, out: Path, folder: Path, how: How) -> Index:
    """Writes what a sweep is and what users note about it; the state of its members."""
    with file_lock(folder / SHARED):
        write_contents(folder, {"sweep.yaml": plan.to_yaml().encode()})
        add_notes(folder, how.notes)
    index = Index(plan, out / plan.name, how.stop)
    for member in how.members(plan) if how.tags else ():
        if index.status(member.digest) == DONE:
            add_notes(index.runs / member.digest, Notes(tags=how.notes.tags))
    return index


def open_members(index: Index, how: How) -> list[str]:
    """The digests of the members that are left to be run, in the order of the plan."""
    finished = {DONE, PRUNED} | (set() if how.retry_failed else {FAILED})
    return [member.digest for member in how.members(index.plan) if index.status(member.digest) not in finished]


def _execute(
    index: Index, mine: tuple[Member, ...], tasks: list[Task], folder: Path, how: How, watch: Watch | None
) -> None:
    missing = {task.digest for task in tasks}
    counts = index.counts(member.digest for member in mine if member.digest not in missing)
    every = max(1, len(tasks) // INDEX_WRITES)

    def tell() -> None:
        if watch is not None:
            ended = counts[DONE] + counts[PRUNED], counts[FAILED]
            watch(Counts(len(mine), len(mine) - len(tasks), *ended, counts["running"]))

    tell()
    if not tasks:
        return
    _write(index, folder)
    with closing(how.execute(tasks)) as events:
        for event, digest in events:
            if event == "started":
                counts["running"] += 1
            else:
                counts["running"] = max(0, counts["running"] - 1)
            if event == "ended":
                missing.discard(digest)
                if index.refresh(digest) == OPEN:  # it ran on another machine, into a folder that is not this one
                    note_failure(index.runs / digest, "its results are not on this machine: --out must be shared")
                    index.refresh(digest)
                counts[index.status(digest)] += 1
                if len(missing) % every == 0:
                    _write(index, folder)
            tell()


def _write(index: Index, folder: Path) -> None:
    """Several shards may write at once: each reads what the others have done before it writes."""
    with file_lock(folder / SHARED):
        for member in index.plan.members:
            if index.status(member.digest) != DONE:
                index.refresh(member.digest)
        write_contents(folder, {"index.csv": index.csv()})


def _task(plan: Plan, member: Member, out: Path, how: How, objects: tuple[str, str] | tuple[()]) -> Task:
    rule = how.stop.get(member.digest)
    about = member.scenario, plan.name, member.digest, str(plan.folder), str(out), plan.plugins, objects
    return Task(
        *about, stop=None if rule is None else asdict(rule), log=texts_of(how.log), label=plan.label(member),
        tags=how.notes.tags,
    )  # fmt: skip


@contextmanager
def shown(quiet: bool = False) -> Iterator[Watch | None]:
    """A line that says how many runs are done, running, failed and left, and for how long; None where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    words = [TextColumn(f"{{task.fields[{name}]}} {name}") for name in ("done", "running", "failed", "left")]
    columns = (*words, BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("", total=None, done=0, running=0, failed=0, left=0)

        def watch(now: Counts) -> None:
            # what was complete before is no part of the bar, or the time left would be far too short
            bars.update(bar, total=now.total - now.reused, completed=now.done + now.failed - now.reused,
                        done=now.done, running=now.running, failed=now.failed, left=now.left)  # fmt: skip

        yield watch
