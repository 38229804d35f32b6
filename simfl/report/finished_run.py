"""A finished run and its tables, read from its results folder when first asked for."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfl.core.certificate_words import ONLY_SUMS, assumptions
from simfl.core.columns import Column
from simfl.core.errors import SimflError
from simfl.core.json_data import JsonObject
from simfl.experiments.compare.run_numbers import measures, to_target
from simfl.results.file_names import ACCURACIES, CLIENTS, FINDINGS, LATENCY, SCENARIO
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import participation_matrix, read_table

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Run:
    """A finished run; its tables are read, and checked, when first asked for."""

    results: ResultsFolder

    @classmethod
    def open(cls, path: Path) -> "Run":
        """
        Raises:
            SimflError: the folder holds no finished run.
            IntegrityError: its summary is damaged.
        """
        return cls(ResultsFolder.open(path))

    @property
    def path(self) -> Path:
        """The folder."""
        return self.results.path

    @property
    def summary(self) -> JsonObject:
        """The contents of ``summary.json``."""
        return self.results.summary

    @property
    def seed(self) -> int:
        return int(self.summary["seed"])

    @property
    def digest(self) -> str:
        return str(self.summary["digest"])

    @property
    def clients(self) -> int:
        """Number of clients."""
        return int(self.summary["clients"])

    @cached_property
    def finals(self) -> dict[str, float]:
        """The summary's numbers, by name."""
        return measures(self.summary)

    @property
    def diverged_round(self) -> int | None:
        """The first round with a loss that is no finite number; None where there is none."""
        first: int | None = self.summary.get("diverged_round")
        return first

    @cached_property
    def columns(self) -> dict[str, Column]:
        """What its numbers mean, by name."""
        return self.results.columns()

    @property
    def takes_sums_for_granted(self) -> bool:
        """Whether its certificates hold only if nothing but sums is seen, which no protocol saw to."""
        return any(ONLY_SUMS in assumptions(column) for name, column in self.columns.items() if name in self.finals)

    def to_target(self, target: float) -> dict[str, float]:
        """Time, rounds and bytes to a target accuracy; nothing where it is never reached."""
        if target not in self._to_target:
            self._to_target[target] = to_target(self.results.file("rounds.csv"), target)
        return self._to_target[target]

    @cached_property
    def _to_target(self) -> dict[float, dict[str, float]]:
        return {}

    @cached_property
    def text(self) -> str:
        """The resolved scenario, YAML."""
        return self.results.file(SCENARIO).read_text(encoding="utf-8")

    @cached_property
    def scenario(self) -> JsonObject:
        """The resolved scenario as plain data."""
        from simfl.scenario.yaml.reader import read

        value = read(self.text, str(self.path / SCENARIO)).value
        if not isinstance(value, dict):
            raise SimflError(f"{self.path / SCENARIO}: not a scenario")
        return value

    @cached_property
    def rounds(self) -> "DataFrame":
        """``rounds.csv``."""
        return read_table(self.results.file("rounds.csv"))

    @cached_property
    def participation(self) -> Any:
        """The participation matrix, scipy CSR array of shape (rounds, clients)."""
        return participation_matrix(self.results.file("participation.csv"), len(self.rounds), self.clients)

    @cached_property
    def jobs(self) -> "DataFrame | None":
        """``jobs.csv`` of an asynchronous run, else None."""
        return read_table(self.results.file("jobs.csv")) if "jobs.csv" in self.results else None

    @cached_property
    def phases(self) -> "DataFrame | None":
        """``phases.csv`` of a run with an aggregation protocol that has phases, else None."""
        return read_table(self.results.file("phases.csv")) if "phases.csv" in self.results else None

    @cached_property
    def clients_table(self) -> "DataFrame":
        """``clients.csv``: client, name, samples, latency_s, perhaps links_down and links_up, and a column for each
        label; empty for very many clients.

        See :func:`simfl.runs.clients_table.clients_files`.
        """
        import pandas

        if CLIENTS not in self.results:
            return pandas.DataFrame()
        return pandas.read_csv(self.results.file(CLIENTS), dtype={"name": str}, keep_default_na=False)

    @cached_property
    def accuracies(self) -> "DataFrame | None":
        """``accuracies.csv``: client, accuracy, trained, best if asked for; None if not measured."""
        return read_table(self.results.file(ACCURACIES)) if ACCURACIES in self.results else None

    @cached_property
    def latency(self) -> "DataFrame | None":
        """``latency.csv``: from, to, latency_s for every two of few clients and the server (-1), else None."""
        return read_table(self.results.file(LATENCY)) if LATENCY in self.results else None

    @cached_property
    def attack_findings(self) -> list[JsonObject]:
        """What came of the run's attacks: ``findings.json``, empty where there is none."""
        if FINDINGS not in self.results:
            return []
        by_attack: list[JsonObject] = json.loads(self.results.read(FINDINGS))
        return by_attack

    @cached_property
    def events(self) -> Path | None:
        """``events.jsonl`` where the run recorded it."""
        return self.results.file("events.jsonl") if "events.jsonl" in self.results else None
