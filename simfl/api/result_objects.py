"""Results opened again, to work with them in Python: a run, a sweep, a comparison."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from simfl.core.certificate_words import basis_lines
from simfl.core.column_files import columns_by_name, read_columns
from simfl.core.columns import Column, heading, number, order_columns
from simfl.core.errors import SimflError, amount
from simfl.core.json_data import JsonObject
from simfl.experiments.sweep.grid import value_text
from simfl.results.file_names import SCENARIO, is_finished, is_swept
from simfl.results.folder import ResultsFolder, columns_of_runs, no_results
from simfl.results.run_files import SHOWN_ROWS, as_printed, html_table, indexed_rounds, participation_matrix, read_table
from simfl.scenario import Scenario
from simfl.scenario.plugin_files import Trust

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


@dataclass(frozen=True, repr=False)
class Result:
    """A finished run.

    Attributes:
        path: its folder.
        rounds: pandas DataFrame, one row a server round.
        participation: scipy CSR array (rounds, clients), the real-valued participation matrix P.
        summary: final values.
        trust_plugins: whether ``scenario`` may execute plugin files that the folder names, whatever they are.
    """

    path: Path
    rounds: "DataFrame"
    participation: Any
    summary: JsonObject
    trust_plugins: bool = field(default=False, repr=False, kw_only=True)

    @classmethod
    def open(cls, path: Path | str, trust_plugins: bool = False) -> "Result":
        """Reads a results folder. Nothing in it is executed.

        Raises:
            SimflError: it holds no finished run.
            IntegrityError: a file of it is damaged.
        """
        reader = ResultsFolder.open(path)
        reader.file(SCENARIO)  # is not damaged
        rounds = read_table(reader.file("rounds.csv"))
        matrix = participation_matrix(reader.file("participation.csv"), len(rounds), int(reader.summary["clients"]))
        return cls(reader.path, rounds, matrix, reader.summary, trust_plugins=trust_plugins)

    @cached_property
    def scenario(self) -> Scenario:
        """The resolved scenario; read when first asked for, for reading it executes the plugin files that it names.

        Raises:
            InvalidScenario: it cannot be read, or names plugin files that have not been executed here before and were
                not trusted when the folder was opened.
        """
        return Scenario.load(ResultsFolder.open(self.path).file(SCENARIO), trust=Trust(self.trust_plugins))

    def figure(self, name: str) -> "Figure":
        """A figure of the run, as a matplotlib Figure."""
        return _figure(self.path, name)

    def __repr__(self) -> str:
        summary, values = self.summary, {name: self.summary.get(name) for name in ("time_s", "test_accuracy")}
        numbers = "".join(f", {name} {value:.4g}" for name, value in values.items() if value is not None)
        what = f"{summary['name']}: seed {summary['seed']}, {amount(summary['rounds'], 'round')}{numbers}"
        return f"<Result {what}, in {self.path}>"

    def _repr_html_(self) -> str:
        from pandas import DataFrame

        known = ResultsFolder.open(self.path).columns()
        columns = [
            column
            for column in order_columns(known.values())
            if column.shown and self.summary.get(column.name) is not None
        ]
        rows = [(heading(column), number(column, self.summary[column.name])) for column in columns]
        frame = DataFrame(rows, columns=["", "value"])
        diverged_round = self.summary.get("diverged_round")
        notes = [f"Seed {self.summary['seed']}, digest {self.summary['digest']}.", *basis_lines(columns)]
        diverged = [] if diverged_round is None else [f"Diverged at round {diverged_round}."]
        return html_table(str(self.summary["name"]), frame, " ".join([*notes, *diverged]))


@dataclass(frozen=True, repr=False)
class SweepResult:
    """The runs of a sweep.

    Attributes:
        path: the sweep's folder; the runs' folders lie beside it.
        runs: pandas DataFrame, one row a run: digest, the keys that were varied, seed, status (done, failed or open),
            final values, error.
        trust_plugins: as of :class:`Result`, for those that :meth:`result` opens.
    """

    path: Path
    runs: "DataFrame"
    trust_plugins: bool = field(default=False, repr=False, kw_only=True)

    @classmethod
    def open(cls, path: Path | str, trust_plugins: bool = False) -> Self:
        """Reads a sweep's folder. Nothing in it is executed.

        Raises:
            SimflError: it holds no sweep.
        """
        index = ResultsFolder.open_sweep(Path(path)).file("index.csv")
        runs = read_table(index)
        if missing := [name for name in ("digest", "seed", "status") if name not in runs]:
            raise SimflError(f"{index}: not the index of a sweep (no column {', '.join(missing)})")
        return cls(Path(path), runs, trust_plugins=trust_plugins)

    @property
    def failed(self) -> "DataFrame":
        """The rows of the runs that failed."""
        return self.runs[self.runs.status == "failed"]

    def result(self, digest: str) -> Result:
        """The complete results of one run.

        Raises:
            SimflError: the run is not complete.
        """
        return Result.open(self.path.parent / digest, self.trust_plugins)

    def results(self) -> Iterator[Result]:
        """The complete results of every run that is done, in the order of ``runs``."""
        return (self.result(digest) for digest in self.runs.digest[self.runs.status == "done"])

    def rounds(self) -> "DataFrame":
        """The rounds of all runs that are done: a DataFrame with a row a run and round.

        Columns: digest, the keys that were varied, seed, then those of ``rounds.csv``.
        """
        return indexed_rounds(self.runs, self.path.resolve().parent)

    def figure(self, name: str = "", **axes: Any) -> "Figure":
        """A figure of all runs, as a matplotlib Figure: one of a name or, as ``simfl plot --x ... --y ...``, a measure
        against a key that varies.

        Args:
            name: of the figure; with ``x``, the measure y, e.g. ``test_accuracy``.
            axes: ``x``, a key, another measure, or ``round`` or ``time`` for curves; ``color`` and ``panels``, keys (a
                text or several); ``where``, values of other keys; ``y`` instead of the name. All others are settings of
                matplotlib, with "_" for the first ".": ``figure_figsize=(7, 3)``, ``font_size=8``.

        Raises:
            SimflError: there is no such figure, key, value or measure, or nothing to draw.
        """
        return _figure(self.path, name, **axes)

    def pivot(
        self, rows: str | Sequence[str], columns: str | Sequence[str], cell: str,
        where: Mapping[str, object] | None = None,
    ) -> "DataFrame":  # fmt: skip
        """One measure as a table: a row for each value of some keys, a column for each value of others.

        Args:
            rows, columns: keys that vary, or the last parts of them that no other ends with.
            cell: the measure, e.g. ``test_accuracy``.
            where: values of all other keys that vary.

        Returns:
            Texts, means with the longer side of their 95 % interval.

        Raises:
            SimflError: no such key, value or measure, or another key varies, too.
        """
        from simfl.report.study_reader import read_study
        from simfl.report.study_tables import pivot

        return pivot(read_study([self.path]), _keys(rows), _keys(columns), cell, _texts(where))

    def latex(
        self, columns: str | Sequence[str] = (), *, rows: str | Sequence[str] = (), cell: str = "",
        where: Mapping[str, object] | None = None,
    ) -> str:  # fmt: skip
        """A LaTeX table (booktabs) of means with the longer side of their 95 % interval, the best in bold.

        Args:
            columns: names of measures, e.g. ``["test_accuracy", "time_s"]``; default: all that differ.
            rows, cell, where: with these columns are keys, and the table is that of :meth:`pivot`.

        Raises:
            SimflError: no run is complete, or none has such a measure.
        """
        from simfl.report.study_reader import read_study
        from simfl.report.study_tables import latex, latex_pivot, pivot

        study = read_study([self.path])
        if not (rows or cell or where):
            return latex(study, _keys(columns))
        table = pivot(study, _keys(rows), _keys(columns), cell, _texts(where), percent=True)
        return latex_pivot(study, table, cell)

    def __repr__(self) -> str:
        what = f"{self.path.resolve().parent.name}: runs: {counts_of(self.runs) or 'none'}"
        return f"<{type(self).__name__} {what}, in {self.path}>"

    def _repr_html_(self) -> str:
        known = self._columns()
        shown = [name for name in self.runs.columns if name not in known or known[name].shown]
        frame = self.runs[shown].dropna(axis=1, how="all")
        notes = basis_lines(known[name] for name in frame.columns if name in known)
        note = " ".join([f"Runs: {counts_of(self.runs)}.", *notes])
        return html_table(self.path.name, as_printed(frame, known), note)

    def _columns(self) -> "dict[str, Column]":
        """What the numbers of the runs that a notebook shows mean."""
        done = self.runs.digest[self.runs.status == "done"][:SHOWN_ROWS]
        return columns_by_name() | columns_of_runs(self.path.resolve().parent / digest for digest in done)


@dataclass(frozen=True, repr=False)
class SearchResult(SweepResult):
    """The runs of a search.

    Attributes:
        trials: DataFrame, a row a run in the order of the proposals, as ``search.csv`` holds it.
        together: what all runs give away: epsilons (None = infinite), why, and what hides clients in all their sums;
            None where no run says an epsilon, and the search is for no privacy.
    """

    trials: "DataFrame"
    together: JsonObject | None = None

    @classmethod
    def open(cls, path: Path | str, trust_plugins: bool = False) -> Self:
        """Reads a search's folder. Nothing in it is executed.

        Raises:
            SimflError: it holds no search.
        """
        reader = ResultsFolder.open_sweep(Path(path))
        if "search.csv" not in reader:
            raise SimflError(f"{path}: no search here")
        runs, trials = (read_table(reader.file(name)) for name in ("index.csv", "search.csv"))
        loss = json.loads(reader.read("together.json")) if "together.json" in reader else None
        return cls(reader.path, runs, trials=trials, together=loss, trust_plugins=trust_plugins)

    @property
    def front(self) -> "DataFrame":
        """The best feasible run or, of several objectives, the rows of those that no other dominates."""
        return self.trials[self.trials.best == 1]

    @property
    def best(self) -> Result | None:
        """The complete results of the best feasible run (of several, the first); None where none is feasible."""
        return self.result(self.front.run.iloc[0]) if len(self.front) else None

    def _repr_html_(self) -> str:
        known = self._columns()
        notes = basis_lines((known[name] for name in self.trials.columns if name in known), attrgetter("name"))
        loss = [f"All runs together: {name} {it}." for name, it in (self.together or {}).items()]
        notes = [f"Best: {', '.join(map(str, self.front.number))}.", *loss, *notes]
        return html_table(self.path.name, self.trials, " ".join(notes))


@dataclass(frozen=True, repr=False)
class ComparisonResult(SweepResult):
    """The runs of a comparison and what follows from them.

    Attributes:
        means: DataFrame, a row for each configuration and metric: mean over the seeds, standard deviation, 95 %
            interval.
        paired: DataFrame, a row for each configuration but the baseline and each metric: mean difference over the seeds
            that both have, its 95 % interval, the interval if seeds were not shared, and the ratio of the two widths.
        document: all of it as ``comparison.json`` holds it.
    """

    means: "DataFrame"
    paired: "DataFrame"
    document: JsonObject

    @classmethod
    def open(cls, path: Path | str, trust_plugins: bool = False) -> Self:
        """Reads a comparison's folder. Nothing in it is executed.

        Raises:
            SimflError: it holds no comparison.
        """
        reader = ResultsFolder.open_sweep(Path(path))
        if "comparison.json" not in reader:
            raise SimflError(f"{path}: no comparison here")
        document = json.loads(reader.read("comparison.json"))
        names = ("index.csv", "comparison.csv", "paired.csv")
        runs, means, paired = (read_table(reader.file(name)) for name in names)
        return cls(reader.path, runs, means, paired, document, trust_plugins=trust_plugins)

    def rounds(self) -> "DataFrame":
        """The rounds of all runs that are done, as of a sweep, with the column ``choice`` in front."""
        of = {run["digest"]: each["choice"] for each in self.document["choices"] for run in each["runs"]}
        frame = super().rounds()
        frame.insert(0, "choice", frame.digest.map(of))
        return frame

    def _repr_html_(self) -> str:
        from pandas import DataFrame

        from simfl.experiments.compare.show import certificate_notes, mean_cell
        from simfl.experiments.compare.table_choice import default_columns

        shown = default_columns(self.document, read_columns(self.document.get("columns", ())))
        seeds = len(self.document["seeds"])
        means = {(row["choice"], row["metric"]): row for row in self.document["means"]}
        labels = [choice["choice"] for choice in self.document["choices"]]
        cells = {
            heading(column): [mean_cell(column, means.get((label, column.name)), seeds) for label in labels]
            for column in shown
        }
        diverged = "; ".join(f"{choice['choice']} diverged" for choice in self.document["choices"]
                         if any(run.get("diverged_round") is not None for run in choice["runs"]))  # fmt: skip
        note = f"Means ± 95 % over {seeds} seeds; baseline {self.document['baseline']}. {diverged}"
        said = " ".join([note.strip(), *certificate_notes(self.document, shown)])
        return html_table(self.document["name"], DataFrame({"": labels, **cells}), said)

    def show(
        self, at: str | None = None, columns: Sequence[str] = (), where: Mapping[str, str] | None = None,
        sort: str | None = None,
    ) -> None:  # fmt: skip
        """Prints the tables of ``simfl compare``; ``at``, ``columns``, ``where`` and ``sort`` as its options."""
        from simfl.experiments.compare.show import show

        show(self.document, at=at, columns=columns, where=where, sort=sort)


def open(path: Path | str, trust_plugins: bool = False) -> Result | SweepResult | ComparisonResult | SearchResult:
    """What :func:`simfl.api.functions.open` gives."""
    if is_finished(Path(path)):
        return Result.open(path, trust_plugins)
    if not is_swept(Path(path)):
        raise SimflError(f"{path}: {no_results(Path(path), 'no run, sweep or comparison here')}")
    reader = ResultsFolder.open_sweep(Path(path))
    kind = ComparisonResult if "comparison.json" in reader else SweepResult
    return (SearchResult if "search.csv" in reader else kind).open(path, trust_plugins)


def _figure(
    path: Path, name: str, *, x: str = "", y: str = "", color: str | Sequence[str] = (),
    panels: str | Sequence[str] = (), where: Mapping[str, object] | None = None, **looks: object,
) -> "Figure":  # fmt: skip
    from simfl.report import draw, draw_by

    if not x:
        if y or color or panels or where:
            raise SimflError("figure: color, panels and where go with x, e.g. figure('test_accuracy', x='dropout') or, "
                             "for curves, figure('test_accuracy', x='round')")  # fmt: skip
        return draw(name, path, **looks)[0]
    if bool(name) == bool(y):
        raise SimflError("figure: with x, give the measure as y or as name, e.g. figure('test_accuracy', x='dropout')")
    return draw_by(path, y or name, x, color=_keys(color), panels=_keys(panels), where=_texts(where), **looks)[0]


def _keys(keys: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(filter(None, keys.split(","))) if isinstance(keys, str) else tuple(keys)


def _texts(values: Mapping[str, object] | None) -> dict[str, str]:
    """Values of keys as they stand in tables."""
    return {key: value_text(value) for key, value in (values or {}).items()}


def counts_of(runs: "DataFrame") -> str:
    """How many runs have which status, in words."""
    return ", ".join(f"{count} {status}" for status, count in runs.status.value_counts().items())
