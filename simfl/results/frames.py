"""Results as tidy frames, a row an observation, and as small tables for notebooks."""

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfl.core.columns import Column, heading, number
from simfl.core.errors import SimflError
from simfl.results.file_names import is_finished
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import read_table

if TYPE_CHECKING:
    from pandas import DataFrame

SHOWN_ROWS = 20


def all_rounds(folder: Path) -> "DataFrame":
    """The rounds of all finished runs of a sweep or comparison, or of a run: a row a run and round.

    Columns: ``digest``, the keys that were varied, ``seed``, then those of ``rounds.csv``; where runs have different
    columns, every one that some run has.

    Raises:
        SimflError: there is no finished run.
        IntegrityError: a table is damaged.
    """
    if is_finished(folder):
        results = ResultsFolder.open(folder)
        return _rounds([({"digest": results.summary["digest"], "seed": results.summary["seed"]}, folder)])
    index = read_table(ResultsFolder.open_sweep(folder).file("index.csv"))
    return indexed_rounds(index, folder.resolve().parent)


def indexed_rounds(index: "DataFrame", runs: Path) -> "DataFrame":
    """The same from the table of an ``index.csv`` and the folder that holds the runs' folders."""
    about = index.loc[index.status == "done", :"seed"]
    named = [(row, runs / str(row["digest"])) for row in about.to_dict("records")]
    return _rounds(named)


def _rounds(runs: Iterable[tuple[Mapping[Any, object], Path]]) -> "DataFrame":
    """The rounds of some runs, each with what is to stand before them."""
    from pandas import concat

    frames = []
    for about, folder in runs:
        frame = read_table(ResultsFolder.open(folder).file("rounds.csv"))
        for place, (name, value) in enumerate(about.items()):
            frame.insert(place, name, value)
        frames.append(frame)
    if not frames:
        raise SimflError("no finished run here")
    return concat(frames, ignore_index=True)


def as_printed(frame: "DataFrame", known: Mapping[str, Column]) -> "DataFrame":
    """The values of a frame's known columns as the terminal writes them, under headings with their units."""
    shown = frame.copy()
    for name in frame.columns:
        if column := known.get(name):
            shown[name] = [number(column, value) for value in frame[name]]
    return shown.rename(columns={name: heading(column) for name, column in known.items()})


def html_table(title: str, frame: "DataFrame", note: str = "") -> str:
    """A frame with a title, for notebooks: at most :data:`SHOWN_ROWS` rows, four digits, all text escaped."""
    more = f"{len(frame)} rows, the first {SHOWN_ROWS} of them shown. " if len(frame) > SHOWN_ROWS else ""
    table = frame.head(SHOWN_ROWS).to_html(index=False, na_rep="–", float_format="{:.4g}".format, border=0)
    said = f"<p>{escape(more + note)}</p>" if more or note else ""
    return f"<div style='overflow-x:auto'><p><b>{escape(title)}</b></p>{table}{said}</div>"
