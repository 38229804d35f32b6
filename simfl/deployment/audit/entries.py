"""Logs with a row for every client in every round, or a row a round with its clients: ``round, client[, weight]``."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from simfl.api.certificates import LARGEST
from simfl.deployment.audit.log import Limits, Log, plain, sparse
from simfl.deployment.audit.log_columns import (
    LogOptions,
    column_roles,
    refuse_divided,
    refuse_odd_rows,
    rows_of_lists,
    rows_where,
    telling_apart,
    varying_samples,
)
from simfl.deployment.audit.log_table import Table, WordColumn
from simfl.deployment.audit.times import as_dates, date, seconds_of
from simfl.plugins import Floats, Integers, SimflError

WHOLE = re.compile(r"-?[0-9]{1,4000}")

DIGITS = 17
"""Significant digits that tell every double from all others."""

NO_WEIGHT = "no weight; give one to every row, or leave the column out"

MORE_DIGITS = f"the weight differs from another one only beyond the {DIGITS} digits that are read"


@dataclass(frozen=True)
class Entries:
    """The rows of a log that took part.

    Attributes:
        table: with the columns.
        roles: the column of each role.
        round_of: position of the round of each row, int64 (rows,).
        rounds: their labels.
    """

    table: Table
    roles: Mapping[str, str]
    round_of: Integers
    rounds: Sequence[Any]

    def times(self) -> tuple[Floats | None, bool]:
        """The last time of each round in seconds, (J,), None where there is no column of times; whether it is a date.

        Raises:
            SimflError: the column holds no times.
        """
        import pandas

        name = self.roles.get("time")
        if name is None:
            return None, False
        column = self.table.columns[name]
        seconds, are_dates = seconds_of(f"{self.table.path}: the column '{plain(name)}'", name, column.words)
        last: Any = pandas.Series(seconds[column.codes]).groupby(self.round_of).max()
        return last.reindex(range(len(self.rounds))).to_numpy(dtype=float), are_dates

    def moved_bytes(self, chosen: bool) -> Floats | None:
        """The bytes that each round has moved, (J,); None where no column says so.

        Args:
            chosen: the user has named the column.

        Raises:
            SimflError: a column that was named holds no numbers of bytes.
        """
        if (name := self.roles.get("bytes")) is None:
            return None
        column = self.table.columns[name]
        numbers = self.table.numbers_of(column)
        wrong = ~((numbers >= 0) & (numbers < np.inf))[column.codes]
        if wrong.any():
            if not chosen:
                return None  # it may mean something else
            value = column.words[column.codes[int(wrong.argmax())]] or "an empty cell"
            why = f"'{plain(value)}' in column '{plain(name)}' is no number of bytes, e.g. 1048576"
            raise SimflError(f"{self.table.path}: {why}")
        values = np.bincount(self.round_of, weights=numbers[column.codes], minlength=len(self.rounds)).astype(float)
        return values if values.any() else None


@dataclass(frozen=True)
class TwoParts:
    """The rows of a log and of the one before it."""

    before: Entries
    log: Entries

    @classmethod
    def of(cls, before: Entries | None, log: Entries | None) -> "TwoParts | None":
        """Both; None where one is a matrix."""
        return None if before is None or log is None else cls(before, log)

    @property
    def roles(self) -> Mapping[str, str]:
        """Those that both have, with the earlier one's columns."""
        return {role: name for role, name in self.before.roles.items() if role in self.log.roles}

    def times(self) -> tuple[Floats | None, bool]:
        """As of :class:`Entries`; None where one has none, or dates and the other numbers."""
        (first, dated), (then, also_dated) = self.before.times(), self.log.times()
        if first is None or then is None or dated != also_dated:
            return None, False
        return np.concatenate([first, then]), dated

    def moved_bytes(self, chosen: bool) -> Floats | None:
        """As of :class:`Entries`; None where one has none."""
        first, then = self.before.moved_bytes(chosen), self.log.moved_bytes(False)
        return None if first is None or then is None else np.concatenate([first, then])


def entries(table: Table, options: LogOptions) -> Log | None:
    """The log of a table; None where no columns are a round and a client.

    Raises:
        SimflError: an entry is impossible, or it is not clear which rows count; the message names file and row.
    """
    roles = column_roles(table.path, table.header, options, int(table.lines[0]) if table.place == ":" else 1)
    if not roles:
        return None
    table, notes = rows_where(table, options)
    for role in ("round", "client"):
        table.refuse_words(roles[role], lambda word: not word.strip(), f"no {role}")
    table.refuse_words(roles["round"], lambda word: word.startswith(("[", "{")), _NEITHER)
    refuse_divided(table, roles, options)
    refuse_odd_rows(table, roles, options)
    table, row_of, clients = rows_of_lists(table, roles["round"], roles["client"])
    if row_of.size and (np.diff(row_of) == 0).any():
        notes.append("each row lists the clients of a round")
        if len(table.lines) > Limits.ENTRIES:
            raise SimflError(f"{table.path}: more than the {Limits.ENTRIES} entries that are read")
    rounds = table.columns[roles["round"]]
    for role, column in (("round", rounds), ("client", clients)):
        long = np.array([len(word) > Limits.LETTERS for word in column.words], dtype=bool)
        table.refuse(long[column.codes], f"a {role} of over {Limits.LETTERS} letters")
    weight = np.ones(len(table.lines))
    if "weight" in roles:
        weight = _weights(table, roles["weight"])
    round_labels, round_of, order = in_order(rounds, of_rounds=True)
    client_labels, client_of, _ = in_order(clients)
    keys = round_of * len(client_labels) + client_of
    _refuse_twice(table, keys)
    shape = len(round_labels), len(client_labels)
    unused = tuple(name or "(without a name)" for name in table.header if name not in {*roles.values(), *options.where})
    return Log(
        sparse(weight, round_of, client_of, shape), round_labels, client_labels, unused,
        words=(_meaning(roles), *notes, *([order] if order else []), *([table.note] if table.note else [])),
        entries=Entries(table, roles, round_of, round_labels),
        varying=varying_samples(table, roles, client_of),
    )  # fmt: skip


_NEITHER = "a round, client or weight is neither a number nor a word"


def _meaning(roles: Mapping[str, str]) -> str:
    """In words, which column has which role, where the name is not that of the role."""
    return ", ".join(f"{role} = {plain(name)}" for role, name in roles.items() if role != "bytes")


def _refuse_twice(table: Table, keys: Integers) -> None:
    import pandas

    if (twice := pandas.Series(keys).duplicated().to_numpy()).any():
        table.refuse(twice, f"this client is in this round already{telling_apart(table, keys)}")


def _weights(table: Table, name: str) -> Floats:
    """The weights of the rows, (rows,).

    Raises:
        SimflError: one is missing, no finite number from 0 to the largest valid one, so small that it would be 0, or
            equal to another one that is written otherwise.
    """
    column = table.columns[name]
    table.refuse_words(name, lambda word: not word.strip(), NO_WEIGHT)
    numbers = table.numbers_of(column)
    values = numbers[column.codes]
    table.refuse(np.isnan(values), "the weight is not a number")
    table.refuse(np.isinf(values), "the weight is not finite")
    table.refuse(values < 0, "the weight is negative; the smallest valid one is 0")
    table.refuse(values > LARGEST, f"the weight is too large; the largest valid one is {LARGEST}")
    small = np.array([bool(re.match("[^eE]*[1-9]", word)) for word in column.words], dtype=bool) & (numbers == 0)
    table.refuse(small[column.codes], "the weight is so small that it would be read as 0")
    table.refuse(written_otherwise(column.words, numbers)[column.codes], MORE_DIGITS)
    return values


def written_otherwise(words: Sequence[str], numbers: Floats) -> Any:
    """Which words, (n,), are the same double as another word although they are not the same number."""
    clash = np.zeros(len(words), dtype=bool)
    if not any(len(word) > DIGITS + 1 for word in words):  # the digits and a point
        return clash
    order = np.argsort(numbers, kind="stable")
    exact: Callable[[int], Decimal] = lambda place: Decimal(words[place].strip().replace(",", "."))  # noqa: E731
    for before, after in zip(order.tolist(), order[1:].tolist(), strict=False):
        if numbers[before] == numbers[after] and exact(before) != exact(after):
            clash[[after if len(words[after]) >= len(words[before]) else before]] = True
    return clash


def in_order(column: WordColumn, of_rounds: bool = False) -> tuple[list[Any], Integers, str]:
    """The labels of a column in their order, the position there of each row's, and how rounds were ordered, in words.

    Whole numbers ascend, and are integers if all are written plainly (no 007). Of other words clients come in
    alphabetical order, numbers in them by their size (phone-2 before phone-10); rounds as numbers, as dates, by the
    numbers in names that are otherwise the same, or else in order of appearance.
    """
    from simfl.api.files import natural

    used = [word.strip() for word in column.used]
    if used and all(re.fullmatch(r"-?[0-9]+\.0+", word) for word in used):  # a column that was saved as doubles
        column = WordColumn(column.codes, [word.strip().partition(".")[0] for word in column.words])
        used = [word.strip() for word in column.used]
    words, order = list(dict.fromkeys(used)), ""
    whole = all(map(WHOLE.fullmatch, words))
    if whole:
        words.sort(key=lambda word: (int(word), word))
    elif of_rounds and (dates := as_dates(words)) is not None:
        words, order = [words[place] for place in np.argsort(dates, kind="stable")], "rounds in order of date"
    elif not of_rounds or len({re.sub(r"\d+(\.\d+)?", "#", word) for word in words}) == 1:
        words.sort(key=lambda word: (natural(word), word))
        order = "rounds in the order of the numbers in their names" if of_rounds else ""
    else:
        codes, places = np.unique(column.codes, return_index=True)
        words = list(dict.fromkeys(column.words[code].strip() for code in codes[np.argsort(places)].tolist()))
        order = "rounds in order of appearance"
    rank = {word: place for place, word in enumerate(words)}
    place_of = np.array([rank.get(word.strip(), -1) for word in column.words], dtype=np.int64)
    plainly = whole and all(str(int(word)) == word for word in words)
    return [int(word) for word in words] if plainly else words, place_of[column.codes], order


def reading_line(log: Log) -> str:
    """In words, how a log was read: from which round to which, when, and what was taken for what."""
    first, last = (plain(log.rounds[place]) for place in (0, -1))
    parts = [f"rounds {first} to {last}", *log.words]
    if log.entries is not None and "time" in log.entries.roles:
        try:
            times, are_dates = log.entries.times()
        except SimflError as error:
            parts.append(f"no times ({error})")
        else:
            assert times is not None, "there is a column of times"
            begin, end = (float(when(times)) for when in (np.nanmin, np.nanmax))
            parts.append(f"{date(begin)} to {date(end)} UTC" if are_dates else f"{begin:g} to {end:g} s")
    return f"Read: {'; '.join(parts)}."
