"""Which plugin fills which column of the results; no two fill one."""

from collections.abc import Iterable, Iterator
from typing import Any

from simfl.core.certificate_words import (
    AND,
    AT_DELTA,
    ENDS,
    UNSAID,
    UNSAID_DELTA,
    against,
    premises_of,
    taking_for_granted,
)
from simfl.core.column_files import wrong_values
from simfl.core.columns import BYTES_SENT_UP, ROUND_COLUMNS, SUMMARY_COLUMNS, TARGET_COLUMNS, Column
from simfl.metrics.base import Metric
from simfl.privacy.stage import NOT_FINITE, Stage
from simfl.scenario.yaml.places import KeyPath, dotted_key

RESERVED = ("name", "digest", "seed", "clients", "jobs", "staleness_histogram", "sha256", "status", "error", "in_clear",
            "beside_sums", "sums_of_units", "backend", "device")  # fmt: skip
"""What stands in summaries and in ``index.csv`` beside the columns."""


def accountants(scenario: Any) -> tuple[Any, ...]:
    """Whoever fills columns of rounds.csv after the last round."""
    return scenario.privacy, *(scenario.privacy.accountants or ())


def plugin_columns(scenario: Any) -> tuple[Column, ...]:
    """The columns of rounds.csv that plugins add to simfl's own, in the order of the scenario's keys."""
    owners = (owner for _, owner in _others(scenario))
    known = {column.name for column in ROUND_COLUMNS}
    columns = [column for owner in (*owners, *scenario.attacks, *scenario.metrics) for column in owner.columns]
    if scenario.network.loss or not scenario.agents.all_standard:
        columns.insert(0, BYTES_SENT_UP)
    columns_by_name = {column.name: column for column in columns if column.name not in known}
    return tuple(  # an epsilon that has no value any more is infinite, if its column does not say how it ends
        column._replace(final="end") if "epsilon" in column.name and column.final == "last" else column
        for column in columns_by_name.values()
    )


def with_bases(scenario: Any, columns: Iterable[Column]) -> list[Column]:
    """Columns of a run with what stands beside its certificates: whom they are against, at which δ, and what is taken
    for granted. A plugin's epsilon that says nothing is against nobody knows whom.
    """
    stages = scenario.privacy.stages or ()
    deltas = dict(_deltas(scenario))
    mine = {column.name for owner in accountants(scenario) for column in owner.columns}
    noisy = [stage.observer for stage in stages if stage.observer]
    known, ends = [], ENDS if scenario.training.ends_by_models else ""
    for column in columns:
        if not column.observer and (column.name in mine or "epsilon" in column.name):
            column = column._replace(**UNSAID)
        if "epsilon" in column.name:
            delta = deltas.get(column.name, UNSAID_DELTA)
            column = column._replace(assumes=AND.join(filter(None, [delta, column.assumes, ends])))
        known.append(against(column, noisy))
    return taking_for_granted(known, AND.join(filter(None, [premises_of(scenario), scenario.topology.premise])))


def _deltas(scenario: Any) -> Iterator[tuple[str, str]]:
    """The epsilons of whoever says δ, and it in words: what it says, or a plugin's own key ``delta``."""
    privacy, plain = scenario.privacy, scenario.plain()
    owners = [*(privacy.accountants or ()), *(privacy.stages or ()), scenario.secagg]
    keys = [*(plain["privacy"]["accountants"] or ()), *(plain["privacy"]["stages"] or ()), plain["secagg"]]
    for owner, key in zip(owners, keys, strict=True):
        delta = key.get("delta") if owner.epsilon_delta is None else owner.epsilon_delta
        if isinstance(delta, (int, float)):
            yield from ((column.name, f"{AT_DELTA}{delta:g}") for column in owner.columns)


def problems(scenario: object) -> list[tuple[KeyPath, str]]:
    """Plugins whose columns are none, or have the name of another's or of one of simfl's."""
    return list(_not_valid(scenario)) or list(_clashes(scenario))


def _not_valid(scenario: Any) -> Iterator[tuple[KeyPath, str]]:
    """Columns that cannot be shown, such as those of an unknown unit."""
    others = ((path, owner.columns) for path, owner in _others(scenario))
    metrics = ((path, (*metric.columns, *metric.finals)) for path, metric in _metrics(scenario))
    for i, metric in enumerate(scenario.metrics):
        no_after, no_end = type(metric).after is Metric.after, type(metric).end is Metric.end
        if hook := "after" if metric.columns and no_after else "end" if metric.finals and no_end else "":
            yield ("metrics", i), f"has columns that nothing fills; its class needs the method {hook}"
    for path, columns in (*others, *metrics):
        for column in columns:
            if not isinstance(column, Column):
                yield path, f"{column!r} among its columns is no Column of simfl.plugins"
            else:
                yield from ((path, f"its column '{column.name}' has {wrong}") for wrong in wrong_values(column))


def _clashes(scenario: object) -> Iterator[tuple[KeyPath, str]]:
    """Plugins whose columns have the name of another's, or of one of simfl's.

    Others than metrics and attacks may list one column together, if all of them mean the same by it; but what one
    accountant or stage has filled no other may fill again.
    """
    simfl_columns = (*ROUND_COLUMNS, *SUMMARY_COLUMNS, *TARGET_COLUMNS)
    shared = {column.name: column for column in simfl_columns}
    owner_of = dict.fromkeys((*RESERVED, *shared, NOT_FINITE.name), "simfl's")
    full = {name for name in owner_of if not name.startswith("privacy_")}  # nobody may fill these again
    for path, owner in _others(scenario):
        fills, places = _fills(path, owner), set[str]()  # what it fills itself; what is full from now on
        for column in owner.columns:
            name = column.name
            differs = shared.setdefault(name, column) != column or name in RESERVED
            if differs or (name in fills and name in full):
                yield path, _clash(column, owner_of[name])
                break
            if name in fills or name not in owner_of:
                owner_of[name] = f"also that of {dotted_key(path)}"
            places |= {name} if name in fills or path[:1] != ("privacy",) else set()
        full |= places
    for path, plugin in _metrics(scenario):
        for column in (*plugin.columns, *plugin.finals):
            if column.name in owner_of:
                yield path, _clash(column, owner_of[column.name])
            owner_of.setdefault(column.name, f"also that of {dotted_key(path)}")


def _fills(path: KeyPath, owner: Any) -> set[str]:
    """The columns of an accountant, or of a stage that says facts, that nobody else fills in for it."""
    if path[:1] != ("privacy",) or (path[1:2] == ("stages",) and type(owner).facts is Stage.facts):
        return set()
    servers = {NOT_FINITE.name} if path[1:2] == ("stages",) else set[str]()
    return {column.name for column in owner.columns} - servers


def _clash(column: Column, whose: str) -> str:
    return f"the name of its column '{column.name}' is {whose}; choose another name, or leave one of the two out"


def _others(scenario: Any) -> Iterator[tuple[KeyPath, Any]]:
    yield ("selection",), scenario.selection
    yield ("training",), scenario.training
    yield ("training", "aggregate"), scenario.training.aggregate
    yield ("training", "personal"), scenario.training.personal
    yield ("topology",), scenario.topology
    yield ("learning",), scenario.learning
    yield ("secagg",), scenario.secagg
    yield ("privacy",), scenario.privacy
    for key in ("accountants", "stages"):
        for i, plugin in enumerate(getattr(scenario.privacy, key) or ()):
            yield ("privacy", key, i), plugin


def _metrics(scenario: Any) -> Iterator[tuple[KeyPath, Any]]:
    """Whoever may have columns of the summary only besides those of rounds.csv."""
    for key in ("attacks", "metrics"):
        yield from (((key, i), plugin) for i, plugin in enumerate(getattr(scenario, key)))
