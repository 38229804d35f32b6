"""The script of a study: its options, and its runs one after the other, resumed and shared out among processes.

The scripts of results/ use it, and a script of one's own may:

>>> options = parser("Accuracy by rate.", seeds=3).parse_args(["--seeds", "2", "--shard", "2/3"])
>>> options.seeds, options.shard, str(options.out)
(2, Shard(number=2, of=3), 'results')
"""

import argparse
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pandas

from simfl.experiments.shard import Shard
from simfl.results.file_names import is_finished
from simfl.runs.run import run
from simfl.scenario import Scenario

Key = TypeVar("Key", bound=Hashable)


def parser(
    description: str | None, seeds: int | None = None, *, costs: bool = True, shards: bool = True
) -> argparse.ArgumentParser:
    """The options of a study: ``--out``, and ``--seeds``, ``--finished`` with ``--cost``, and ``--shard`` where it has
    them.

    Args:
        description: the script's docstring.
        seeds: how many seeds it runs, from 0 on, where nothing else is asked for; None = it has no such option.
        costs: whether it makes its runs by :func:`run_all`, or seeds by :func:`seeds_left`.
        shards: whether it makes them by :func:`run_all`.
    """
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if seeds is not None:
        options.add_argument("--seeds", type=int, default=seeds, help=f"0 to this less one (default: {seeds})")
    options.add_argument("--out", type=Path, default=Path("results"), help="where the runs lie (default: results)")
    if costs:
        options.add_argument("--finished", action="store_true", help="run nothing; tabulate what is finished")
        options.add_argument("--cost", action="store_true", help="run nothing; say what is left, and how long it takes")
    if costs and shards:
        how = "run every N-th from the I-th on, and make no table"
        options.add_argument("--shard", type=Shard.parse, metavar="I/N", help=how)
    return options


def scenario(base: Path, changes: Mapping[str, object], seed: int) -> Scenario:
    """A scenario file with keys changed, by texts as in ``simfl run FILE key=value``, or by values, and this seed."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in changes.items()}
    return Scenario.load(base, [*(f"{key}={value}" for key, value in texts.items()), f"seed={seed}"])


def by_seed(
    names: Sequence[str], folders: Mapping[tuple[Hashable, ...], Path], measures: Callable[[Path], Mapping[str, float]]
) -> pandas.DataFrame:
    """A row a finished run, for a table beside the means: what its key says, by these names, then its measures."""
    rows = [{**dict(zip(names, key, strict=True)), **measures(folder)} for key, folder in folders.items()]
    return pandas.DataFrame(rows)


def run_all(
    runs: Mapping[Key, Scenario],
    options: argparse.Namespace,
    seconds: float | None = None,
    tell: Callable[[str], None] = print,
) -> dict[Key, Path]:
    """The folders of a study's runs, in their order: finished ones are used again, interrupted ones go on.

    Args:
        runs: the scenarios, by whatever the script calls them.
        options: those of :func:`parser`; with ``finished`` the runs that are not finished are left out.
        seconds: processor seconds of one run, about, for ``--cost``.
        tell: is told what has been run.

    Raises:
        SystemExit: with ``shard`` or ``cost``, when all is run or said that was asked for: no table follows. With
            ``finished``, where no run is.
    """
    folders = {key: options.out / scenario.name / scenario.digest for key, scenario in runs.items()}
    mine = list(runs)[options.shard.number - 1 :: options.shard.of] if options.shard else list(runs)
    if options.cost:
        tell(_cost_text("runs", len(mine), sum(not is_finished(folders[key]) for key in mine), seconds))
        raise SystemExit(0)
    for place, key in enumerate([] if options.finished else mine):
        known = is_finished(folders[key])
        run(runs[key], options.out, resume=True)
        if not known:
            tell(f"{place + 1}/{len(mine)} {key}")
    if options.shard:
        raise SystemExit(0)
    done = {key: folder for key, folder in folders.items() if is_finished(folder)}
    if options.finished and not done:
        raise SystemExit(f"none of {len(folders)} runs is finished in {options.out}; no table is written")
    return done


def spread(measures: pandas.DataFrame) -> dict[str, float]:
    """Each column's mean over its rows, the seeds, and its standard deviation as ``<column>_sd``, to four places."""
    row: dict[str, float] = {}
    for name in measures:
        row |= {f"{name}": round(measures[name].mean(), 4), f"{name}_sd": round(measures[name].std(), 4)}
    return row


def seeds_left(
    options: argparse.Namespace, table: pandas.DataFrame, seconds: float, tell: Callable[[str], None] = print
) -> list[int]:
    """The seeds to be run of a study whose table is filled seed by seed, and whose runs leave no folders.

    Args:
        options: those of :func:`parser`; with ``finished`` none is left.
        table: the rows so far, by ``seed``.
        seconds: processor seconds of a seed, about, for ``--cost``.
        tell: is told the cost.

    Raises:
        SystemExit: with ``cost``, when it is said.
    """
    left = sorted(set(range(options.seeds)) - set(table.seed))
    if options.cost:
        tell(_cost_text("seeds", options.seeds, len(left), seconds))
        raise SystemExit(0)
    return [] if options.finished else left


def _cost_text(things: str, number: int, left: int, seconds: float | None) -> str:
    said = f"{number} {things}, {number - left} of them finished"
    return said if seconds is None else f"{said}; the others take about {left * seconds / 60:.0f} minutes of one core"
