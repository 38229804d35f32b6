"""The twelve reliability bars, measured: a table of what was done, how many, how many failed
(docs/explanation/reliability.md).

    python benchmarks/reliability.py [--size five-minutes | nightly | smoke] [--only CHECK or BAR ...] [--seed 0]
    python benchmarks/reliability.py --only CHECK --case NUMBER      # a single case again
    python benchmarks/reliability.py --json FILE                     # the figures for machines

A check's cases are numbered; the seed and the number decide all that is drawn. What fails is printed with the command
that runs it again; *failed* counts it as it came out first. The checks are in ``tests/reliability/``, a file a bar;
they use the searches, judges and damages of ``tests/``. Exit code 1 if anything failed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":  # before anything loads these libraries
    os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from simfl.core.version import RESULTS  # noqa: E402
from tests.reliability import (  # noqa: E402
    certificates,
    code,
    damage,
    damage_logs,
    events,
    hostile,
    killing,
    mutants,
    numbers,
    protocols,
    published,
    streams,
    sweeps,
    traces,
)
from tests.reliability.check import SIZES, Check, Figure, Plan  # noqa: E402

BARS = (
    traces,
    killing,
    damage,
    damage_logs,
    mutants,
    hostile,
    code,
    events,
    protocols,
    numbers,
    certificates,
    streams,
    sweeps,
    published,
)
CHECKS: tuple[Check, ...] = tuple(check for bar in BARS for check in bar.CHECKS)
HEADINGS = (
    "bar",
    "check",
    "what is done, and what must come out",
    "how many",
    "failed",
    "at most",
    "besides",
    "processor s",
)


def table(figures: list[Figure]) -> str:
    """In Markdown."""
    rows = [HEADINGS, ("---",) * len(HEADINGS), *(figure.cells for figure in figures)]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)


def commit() -> str:
    """That of the working tree, and whether it differs."""
    here = Path(__file__).resolve().parent
    words = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=8"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip() or "unknown"


def main(arguments: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--size", choices=SIZES, default="five-minutes")
    options.add_argument("--only", nargs="+", metavar="CHECK", default=[], help="names of checks, or numbers of bars")
    options.add_argument("--case", type=int, help="run this case of the one check that --only names")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--json", type=Path, metavar="FILE")
    options.add_argument(
        "--record", action="store_true", help="write the golden digests anew, after a change of numerics"
    )
    given = options.parse_args(arguments)
    if given.record:
        published.record()
        return 0
    known = {name for check in CHECKS for name in (check.name, str(check.bar))}
    if unknown := set(given.only) - known:
        options.error(f"--only: no check {sorted(unknown)[0]!r}; there are {', '.join(check.name for check in CHECKS)}")
    chosen = [check for check in CHECKS if not given.only or {check.name, str(check.bar)} & set(given.only)]
    if given.case is not None and len(chosen) != 1:
        options.error("--case needs --only CHECK")
    figures = []
    with tempfile.TemporaryDirectory(prefix="simfl-bars-") as scratch:
        for check in chosen:
            plan = Plan(Path(scratch) / check.name, given.seed, given.size)
            figures.append(check.played(plan, given.case))
            print(
                " ".join(figures[-1].cells[i] for i in (0, 1, 3)), "done,", figures[-1].cells[4], "failed", flush=True
            )
    print(f"\n{table(figures)}\n\nAt commit {commit()}, results version {RESULTS}, seed {given.seed}.")
    if given.json:
        given.json.write_text(json.dumps([dict(zip(HEADINGS, figure.cells)) for figure in figures], indent=1) + "\n")
    return int(any(figure.failed for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
