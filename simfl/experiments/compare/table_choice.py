"""Which columns and configurations of a comparison its tables show."""

from collections.abc import Collection, Mapping, Sequence

from simfl.core.columns import DERIVED_COLUMNS, GUARANTEES, ROUND_COLUMNS, SUMMARY_COLUMNS, TARGET_COLUMNS, Column
from simfl.core.errors import SimflError, suggestion
from simfl.core.json_data import JsonObject

GUARANTEE = ("guarantee_semi_strong", "privacy_semi_strong")
"""For any number of rounds, if theory knows it of some configuration; else what was observed."""

TOLD = ("measured_recovered", "time_to_target_s", "time_s", "bytes", "clients_in_sum")
IF_ANY = ("bytes", "skipped", "waiting_s")
"""Columns that are shown where some configuration has any."""


def default_columns(document: JsonObject, columns: Sequence[Column]) -> list[Column]:
    """Accuracy or loss, guarantee, measured recovery, time to the target or in all, traffic, clients in a sum; beside
    them skipped rounds, and the whole time and how much of it they took, as far as there are any; and what accountants
    and plugins measure.
    """
    measured = {row["metric"] for row in document["means"] if row["mean"] or row["metric"] not in IF_ANY}
    accuracy = "test_accuracy" if "test_accuracy" in measured else "test_loss"
    guarantee = next((name for name in GUARANTEE if name in measured), "")
    of_target = "time_s" if "time_to_target_s" in measured else "time_to_target_s"
    waits = ["time_s", "waiting_s"] if "waiting_s" in measured else []
    names = [accuracy, guarantee, *(name for name in TOLD if name != of_target), *waits, "skipped"]
    built_in = {
        column.name for column in (*ROUND_COLUMNS, *SUMMARY_COLUMNS, *TARGET_COLUMNS, *DERIVED_COLUMNS, *GUARANTEES)
    }
    from_plugins = [column.name for column in columns if column.shown and column.name not in built_in]
    known = {column.name: column for column in columns}
    return [known[name] for name in dict.fromkeys([*names, *from_plugins]) if name in known and name in measured]


def choose_columns(document: JsonObject, columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """The columns of these names, all that are shown by default for ``all``, the default ones for none.

    Raises:
        SimflError: no run has such a column.
    """
    if tuple(names) == ("all",):
        return [column for column in columns if column.shown]
    known = {column.name: column for column in columns}
    for name in names:
        if name not in known:
            hint = suggestion(name, known) or f"; there are {', '.join(known)}"
            raise SimflError(f"--columns: no column {name!r}{hint}")
    return [known[name] for name in names] or default_columns(document, columns)


def in_order(means: Mapping[str, float | None], better: int, reverse: bool = False) -> list[str]:
    """Labels by their means, the best first (where none is better than another, the largest), or the other way round;
    those without a mean last.
    """
    known = {label: mean for label, mean in means.items() if mean is not None and mean == mean}
    falls = (better or 1) > 0
    ordered = sorted(known, key=lambda label: known[label], reverse=falls != reverse)
    return [*ordered, *(label for label in means if label not in known)]


def check_choice(
    values: Mapping[str, Mapping[str, str]], known: Collection[str], names: Sequence[str], where: Mapping[str, str]
) -> None:
    """Before any run: whether the tables can show what is asked for.

    Args:
        values: by configuration, its values of the keys that vary.
        known: names of every column that the runs may have.
        names: of the columns that are asked for.
        where: values of keys that vary.

    Raises:
        SimflError: no run can have such a column, or a key does not vary, or has no such value.
    """
    select_configurations({"choices": [{"choice": label, "values": its} for label, its in values.items()]}, where)
    for name in names:
        if name not in known:
            hint = suggestion(name, known) or "; docs/reference/columns.md lists all"
            raise SimflError(f"--columns and --sort: no column {name!r}{hint}")


def select_configurations(document: JsonObject, where: Mapping[str, str]) -> JsonObject:
    """The document with the configurations of these values only.

    Raises:
        SimflError: a key does not vary, or has no such value.
    """
    choices = document["choices"]
    for key, value in where.items():
        values = list(dict.fromkeys(each["values"].get(key, "") for each in document["choices"]))
        if values == [""]:
            keys = list(document["choices"][0]["values"])
            raise SimflError(f"--where: {key} does not vary{suggestion(key, keys) or '; there are ' + ', '.join(keys)}")
        if value not in values:
            hint = suggestion(value, values) or f"; there are {', '.join(values)}"
            raise SimflError(f"--where: {key} has no value {value!r}{hint}")
        choices = [each for each in choices if each["values"][key] == value]
    left = {each["choice"] for each in choices}
    pooled = document.get("pooled", ()) if not where else ()

    def part(tables: JsonObject) -> JsonObject:
        names = ("means", "paired", "beside_plain", "far_values")
        return {**tables, **{name: [row for row in tables[name] if row["choice"] in left]
                             for name in names if name in tables}}  # fmt: skip

    return {**part(document), "choices": choices, "pooled": pooled,
            "equal": [part(tables) for tables in document.get("equal", ())]}  # fmt: skip
