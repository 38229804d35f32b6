"""What the columns of a log mean, and which of its rows took part: chosen, plain from the names, or refused."""

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from simfl.api.files import number_of
from simfl.deployment.audit.log import ROLES, plain
from simfl.deployment.audit.log_table import Table, WordColumn
from simfl.plugins import SimflError, suggestion

Columns = Mapping[str, str]
"""For some of :data:`simfl.deployment.audit.log.ROLES` the name of the column that holds it."""

LIKELY = {
    "round": ("round", "iteration", "epoch", "step", "version"),
    "client": ("client", "cid", "user", "uid", "device", "node", "participant", "worker", "member", "site", "silo",
               "hospital", "party", "partition"),
}  # fmt: skip
"""Words in names of columns by which logs of other systems are recognised, also with an s."""

NUMBERS = re.compile(
    r"(^|_)(n|num|number|count|total|time|duration|s|ms|samples|examples|loss|acc|accuracy|local|type)(_|$)"
)
"""Words in names of numbers of and about these."""

TIMES = re.compile(r"(time|timestamp|date|datetime)(_(s|ms|us|ns))?")

FEW = 20
"""Different words of a column that may divide the rows into kinds."""

PAIRS = ({"0", "1"}, {"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"}, {"0.0", "1.0"})
"""Words that say yes or no."""

YES = {"1", "1.0", "true", "yes", "y", "t"}

POSITIVE = {
    "ok", "success", "successful", "succeeded", "completed", "complete", "done", "finished", "accepted", "aggregated",
    "received", "included", "selected", "participated", "uploaded", "active", "online", "pass", "passed", "used",
}  # fmt: skip
NEGATIVE = {
    "failed", "fail", "failure", "error", "late", "timeout", "timed_out", "timed out", "dropped", "dropout", "drop",
    "aborted", "abort", "cancelled", "canceled", "crashed", "unavailable", "rejected", "skipped", "ignored", "stale",
    "pending", "lost", "disconnected", "straggler", "excluded", "unused", "inactive", "offline", "unselected", "killed",
    "oom", "missed", "none",
}  # fmt: skip
FLAGS = {
    "status", "state", "success", "succeeded", "outcome", "result", "participated", "participating", "participates",
    "selected", "ok", "failed", "failure", "error", "exception", "completed", "complete", "dropped", "dropout", "late",
    "timeout", "included", "aggregated", "accepted", "responded", "received", "used", "valid", "active", "present",
    "available", "uploaded", "finished", "done", "arrived", "reason", "code", "returned", "aborted", "straggler",
}  # fmt: skip
"""Words in names of columns that say whether a row took part."""

PHASES = {"phase", "stage", "event"}
EVALUATION = {"evaluate", "evaluation", "eval", "test", "testing", "validation", "validate", "val"}
TRAINING = {"fit", "train", "training", "update", "upload"}
RUNS = {"run", "experiment", "trial", "fold", "repetition", "replicate", "seed", "session"}
"""Words in names of columns that divide a file into several logs."""

SAMPLES = {"samples", "examples", "datapoints", "records", "instances", "size", "n", "nk", "points"}


@dataclass(frozen=True)
class LogOptions:
    """What a user says of a log.

    Attributes:
        columns: names of columns by role.
        where: by column the value that rows have which took part.
        all_rows: every row took part.
        form: "lists", "matrix", or "indexed" (a matrix whose first column names its rows); None = as it looks.
        past: a log whose rounds come before; the other options are of that one, as it is the stranger of the two.
    """

    columns: Columns = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)
    all_rows: bool = False
    form: str | None = None
    past: Path | None = None

    @classmethod
    def of(cls, fields: object, what: str) -> "LogOptions":
        """The options of a mapping from their names to values.

        Raises:
            SimflError: there is no such option, or it cannot have that value; the message begins with ``what``.
        """
        checks: dict[str, tuple[Callable[[Any], bool], str]] = {
            "columns": (lambda value: _are_texts(value) and set(value) <= set(ROLES), f"by {', '.join(ROLES)} a name"),
            "where": (_are_texts, "by column the value (a text) that rows have which took part"),
            "all_rows": (lambda value: isinstance(value, bool), "True or False"),
            "form": (lambda value: value in (None, "lists", "matrix", "indexed"), "lists, matrix or indexed"),
            "past": (lambda value: isinstance(value, str | Path), "the path of a log"),
        }
        if not isinstance(fields, Mapping):
            raise SimflError(f"{what}: is no mapping of {', '.join(checks)}")
        for name, value in fields.items():
            if name not in checks:
                raise SimflError(f"{what}: {name!r} is none of {', '.join(checks)}{suggestion(str(name), checks)}")
            if not checks[name][0](value):
                raise SimflError(f"{what}: {name} is {value!r}; it is {checks[name][1]}")
        if fields.get("all_rows") and fields.get("where"):
            raise SimflError(f"{what}: all_rows says that every row took part, and where that some did; leave one out")
        return cls(**{**fields, **({"past": Path(fields["past"])} if "past" in fields else {})})

    def role(self, name: str) -> str:
        """What a column of this name may be read as; "" = as nothing."""
        for role in ROLES:
            if name == self.columns.get(role) or (role not in self.columns and name.lower() == role):
                return role
        if TIMES.fullmatch(name.lower()):
            return "time"
        return "likely" if any(is_likely(name, role) for role in LIKELY) or name in self.where else ""


def _are_texts(value: object) -> bool:
    """Whether it is a mapping from texts to texts."""
    return isinstance(value, Mapping) and all(isinstance(each, str) for each in (*value, *value.values()))


def words_of(name: str) -> set[str]:
    """The words of a column's name, in small letters, those in the plural also without their s."""
    words = set(re.split(r"[^a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()))
    return words | {word[:-1] for word in words if word.endswith("s")}


def is_likely(name: str, role: str) -> bool:
    """Whether a name has a word for a role, and is no number of or about such, nor one of many."""
    snake = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
    return bool(words_of(name) & set(LIKELY[role])) and not NUMBERS.search(snake) and not name[-1:].isdigit()


def column_roles(path: Path, header: Sequence[str], options: LogOptions, line: int = 1) -> dict[str, str]:
    """Which column of a header has which role; empty if it has neither a round nor a client.

    A name that the user has not chosen is that of the role, in any case, or the only one that has a word for it.

    Args:
        line: of the file in which the header stands.

    Raises:
        SimflError: a column is missing.
    """
    where, roles = f"{path}:{line}", dict[str, str]()
    for role in ROLES:
        wanted = options.columns.get(role)
        if wanted is not None:
            if wanted not in header:
                near = suggestion(wanted, header) or f"; there are {', '.join(plain(name) for name in header[:20])}"
                raise SimflError(f"{where}: no column '{plain(wanted)}' for the {role}{near}")
            roles[role] = wanted
        elif names := [name for name in header if name.lower() == role and name not in options.columns.values()]:
            roles[role] = role if role in names else names[0]
    times = [name for name in header if TIMES.fullmatch(name.lower()) and name not in roles.values()]
    if "time" not in roles and times:
        roles["time"] = times[0]
    rest = [name for name in header if name not in roles.values()]
    likely = {role: [name for name in rest if is_likely(name, role)] for role in LIKELY if role not in roles}
    roles_by_name = roles | {role: names[0] for role, names in likely.items() if len(names) == 1}
    if not {"round", "client"} <= roles_by_name.keys():
        several = "round" in roles_by_name and len(likely.get("client", ())) > 1
        if "client" in roles or "weight" in roles or "round" in options.columns or several:  # else it may be a matrix
            raise SimflError(f"{where}: {missing_column(path, roles_by_name, likely)}")
        return {}
    if "weight" not in roles_by_name:
        for name in header:
            if name not in roles_by_name.values() and suggestion(name.lower(), ("weight",)):
                more = f"did you mean 'weight'? (--columns weight={plain(name)})"
                raise SimflError(f"{where}: unknown column '{plain(name)}'; {more}")
    return roles_by_name


def missing_column(path: Path, roles_by_name: Columns, likely: Mapping[str, list[str]]) -> str:
    role = next(role for role in ("round", "client") if role not in roles_by_name)
    if (log := path.with_name("participation.csv")) != path and log.exists():
        return f"the column '{role}' is missing; who took part in a run is in {log}"
    if names := likely.get(role):
        other = "".join(f"{each}={name}," for each, name in roles_by_name.items() if each in LIKELY and each != name)
        choices = " or ".join(f"--columns {shlex.quote(f'{other}{role}={name}')}" for name in names[:5])
        return f"the column '{role}' is missing; these may be meant: {plain(choices, 200)}"
    return f"the column '{role}' is missing; name it with --columns {role}=NAME"


def rows_where(table: Table, options: LogOptions) -> tuple[Table, list[str]]:
    """The rows that the user has chosen, and in words which these are.

    Raises:
        SimflError: there is no such column, or no such row.
    """
    notes = []
    for name, value in options.where.items():
        if name not in table.header:
            raise SimflError(f"{table.path}:1: no column '{plain(name)}' for --where{suggestion(name, table.header)}")
        column = table.columns[name]
        same = np.array([_is_same(word, value) for word in column.words], dtype=bool)
        if not (rows := same[column.codes]).any():
            values = ", ".join(plain(word) or "(empty)" for word in column.used[:10])
            raise SimflError(f"{table.path}: no row has {plain(name)}={plain(value)}; there are {values}")
        notes.append(f"rows with {plain(name)}={plain(value)}: {int(rows.sum())} of {len(rows)}")
        table = table.of_rows(rows)
    return table, notes


def refuse_divided(table: Table, roles: Columns, options: LogOptions) -> None:
    """
    Raises:
        SimflError: a column may say who took part, or divides the rows into several logs, and nobody has said which
            of them count.
    """
    for name in () if options.all_rows else table.header:
        if name and name not in {*roles.values(), *options.where} and name in table.columns:  # else it counts rows
            _refuse_if_it_divides(table, name)


def refuse_odd_rows(table: Table, roles: Columns, options: LogOptions) -> None:
    """
    Raises:
        SimflError: a row is no entry: the header again, a total among numbered rounds; or the column of clients may
            hold how many they are.
    """
    rounds, clients = (table.columns[roles[role]] for role in ("round", "client"))
    table.refuse_words(
        roles["round"], lambda word: word == roles["round"], "the header again: several logs in one file"
    )
    numbers = [bool(re.fullmatch(r"-?\d+(\.\d+)?", word)) for word in rounds.words]
    if any(numbers[code] for code in np.flatnonzero(np.bincount(rounds.codes))):
        table.refuse(~np.array(numbers)[rounds.codes], "a round that is no number among others that are; take it out")
    name, one_each = roles["client"], np.bincount(rounds.codes).max() == 1
    if name.lower() != "client" and name.lower().endswith("s") and name != options.columns.get("client"):
        if one_each and len(rounds.codes) > 1 and all(word.isdigit() for word in clients.used):
            why = "holds one number a round, which may count clients"
            raise SimflError(
                f"{table.path}: column '{plain(name)}' {why}; if it names them, give --columns client={name}"
            )


def _is_same(word: str, value: str) -> bool:
    word, value = word.strip().lower(), value.strip().lower()
    return word == value or {word, value} <= YES or number_of(word, np.nan) == number_of(value, np.nan)


def _refuse_if_it_divides(table: Table, name: str) -> None:
    """
    Raises:
        SimflError: a column says whether a row took part, or to which phase or run it belongs.
    """
    used = table.columns[name].used
    if "" in used and len(used) == 1:
        return
    why = _said_by(words_of(name), {word.lower() for word in used})
    if why:
        negative = bool(words_of(name) & NEGATIVE)
        good = POSITIVE | TRAINING
        best = min(used, key=lambda word: (word.lower() not in good, (word.lower() in YES or bool(word)) == negative))
        choice = f"--where {shlex.quote(f'{plain(name)}={plain(best)}')}"
        values = ", ".join(plain(word, 20) or "(empty)" for word in used[:5]) + (", ..." if len(used) > 5 else "")
        raise SimflError(
            f"{table.path}: column '{plain(name)}' ({values}) {why}; give {choice}, or --all-rows if all rows took part"
        )


def _said_by(name: set[str], used: set[str]) -> str:
    """What a column with this name and these words may say, in words; nothing = nothing of rows."""
    values = used - {""}
    one_kind = len(used) == 1
    if any(values <= pair for pair in PAIRS):
        if one_kind and ((values <= YES) != bool(name & NEGATIVE) or not name & FLAGS):
            return ""
        return "may say whether a row took part"
    if values & NEGATIVE or (values <= POSITIVE and not one_kind):
        return "may say whether a row took part"
    if all(_is_number(word) for word in values) and not name & {"status", "state", "code"}:
        divides = name & RUNS and len(values) > 1
        return "divides the rows into several logs" if divides else ""
    if name & FLAGS and not one_kind and (len(used) <= FEW or "" in used):
        return "may say whether a row took part"
    if values & EVALUATION or len(values & TRAINING) > 1 or (name & PHASES and not one_kind and len(used) <= FEW):
        return "tells phases apart, of which not all are updates"
    return "divides the rows into several logs" if name & RUNS and not one_kind else ""


def _is_number(word: str) -> bool:
    return number_of(word, None) is not None


def telling_apart(table: Table, keys: np.ndarray) -> str:
    """In words, which column may tell apart rows that have the same key, int (rows,)."""
    import pandas

    for name, column in table.columns.items():
        used = np.unique(column.codes)
        if 1 < len(used) <= FEW:
            unique = not pandas.Series(keys * (1 + int(column.codes.max())) + column.codes).duplicated().any()
            if unique:
                words = ", ".join(plain(column.words[code], 20) for code in used[:5].tolist())
                return f"; perhaps the file has several phases or runs: give --where {plain(name)}=VALUE ({words})"
    return ""


def varying_samples(table: Table, roles: Columns, client_of: np.ndarray) -> str:
    """The column of samples that changes within a client; "" where there is none, or weights are given."""
    import pandas

    for name, column in table.columns.items():
        if "weight" in roles or name in roles.values() or not words_of(name) & SAMPLES:
            continue
        if all(_is_number(word) for word in column.used) and len(column.used) > 1:
            pairs = pandas.DataFrame({"client": client_of, "word": column.codes}).drop_duplicates()
            if len(pairs) > pairs["client"].nunique():
                return name
    return ""


LISTS = ("[", "(", "{")


def rows_of_lists(table: Table, round_name: str, name: str) -> tuple[Table, np.ndarray, WordColumn]:
    """The rows of a table whose cells may be lists of clients, one for each client; and the clients.

    Returns:
        The table, the row of the original of each of its rows, and the column of clients.

    Raises:
        SimflError: a list names a client twice.
    """
    column, rounds = table.columns[name], table.columns[round_name].codes
    one_row_each = bool(np.bincount(rounds).max() == 1)  # else a name may hold marks
    lists = [_list(word) if one_row_each or word[:1] in LISTS else [word] for word in column.words]
    if not any(len(each) > 1 or each != [word] for each, word in zip(lists, column.words, strict=True)):
        return table, np.arange(len(table.lines)), column
    for word, each in zip(column.words, lists, strict=True):
        if len(set(each)) < len(each):
            table.refuse_words(name, lambda cell, word=word: cell == word, "a client is in this list twice")  # type: ignore[misc]
    numbers: dict[str, int] = {}
    codes = [[numbers.setdefault(client, len(numbers)) for client in each] for each in lists]
    sizes = np.array([len(each) for each in codes])[column.codes]
    rows = np.repeat(np.arange(len(sizes)), sizes)
    clients = np.array([code for row in column.codes.tolist() for code in codes[row]], dtype=np.int32)
    return table.of_rows(rows), rows, WordColumn(clients, list(numbers))


def _list(word: str) -> list[str]:
    """The clients in a cell: ``[0, 3]``, ``(0, 3)``, ``{0, 3}``, ``0;3``, ``0|3``, ``0 3``, ``0,3``, or one."""
    if word.startswith('["'):
        return [str(each) for each in json.loads(word)]
    inner = re.fullmatch(r"\s*[\[({](.*)[\])}]\s*", word, re.DOTALL)
    text = inner[1] if inner else word
    if inner is None and not re.search(r"[;|]", text) and not re.fullmatch(r"\s*\d+([\s,]+\d+)+\s*", text):
        return [word.strip()]
    parts = re.split(r"[;|]|,|\s+" if re.fullmatch(r"[\d\s,;|]*", text) else r"[;|]|,", text)
    return [part.strip().strip("\"'") for part in parts if part.strip().strip("\"'")]
