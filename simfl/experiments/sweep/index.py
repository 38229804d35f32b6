"""``index.csv``: a row a run, from what lies on disk, hence the same however the runs came about."""

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from simfl.core.errors import IntegrityError
from simfl.core.json_data import JsonObject
from simfl.experiments.sweep import run_status
from simfl.experiments.sweep.plan import Member, Plan
from simfl.experiments.sweep.stop_rule import StopRule

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
        try:
            summary = run_status.summary(folder)
        except IntegrityError as error:  # it is run again, as if it had never been complete
            print(f"warning: {error}", file=sys.stderr)
            summary = None
        try:
            failure = run_status.failure(folder)
        except IntegrityError as error:  # the same
            print(f"warning: {error}", file=sys.stderr)
            failure = None
        if summary is not None:
            values = {k: v for k, v in summary.items() if k not in LEFT_OUT and not isinstance(v, (dict, list))}
            self._rows[digest] = {"status": run_status.DONE, "error": None, "values": values}
        elif failure is not None:
            self._rows[digest] = {"status": run_status.FAILED, "error": failure["error"], "values": {}}
        else:
            rule = self.stop.get(digest)
            is_pruned = rule is not None and rule.find_stop(folder) is not None
            status = run_status.PRUNED if is_pruned else run_status.OPEN
            self._rows[digest] = {"status": status, "error": None, "values": {}}
        return self.status(digest)

    def status(self, digest: str) -> str:
        """``done``, ``failed``, ``pruned`` or ``open``."""
        return str(self._rows[digest]["status"])

    def error(self, digest: str) -> str | None:
        """Why a run failed."""
        error: str | None = self._rows[digest]["error"]
        return error

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
        columns, rows = self.table()
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n", restval=None)
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()

    def _row(self, member: Member) -> JsonObject:
        row = self._rows[member.digest]
        keys = {axis.key: value for axis, value in zip(self.plan.axes, member.values, strict=True)}
        fixed = {**keys, "digest": member.digest, "seed": member.seed, "status": row["status"], "error": row["error"]}
        return {**row["values"], **fixed}
