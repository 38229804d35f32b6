"""A calibration as a file of device profiles, and as a table for the terminal."""

from simfl.core.wording import amount
from simfl.devices.profiles import COLUMNS
from simfl.remote.calibration import Calibration, ClientFit, Estimate
from simfl.results.tables import csv_bytes

FITTED = ("samples_per_s", "work_sigma", "down_bytes_per_s", "up_bytes_per_s", "latency_s")
"""Columns that a log can give, in the order of the file and the table."""

MOST_ROWS = 40
"""Clients that a table in the terminal shows."""


def profiles_bytes(calibration: Calibration, draw_devices: bool = False) -> bytes:
    """The file that ``devices.profiles`` reads: each column, then the ends of its interval.

    Args:
        calibration: what was fitted.
        draw_devices: leave out the column ``client``, so that every client of a scenario draws one of the devices.
    """
    assert set(FITTED) < set(COLUMNS)
    named = [f"{name}{end}" for name in FITTED for end in ("", "_low", "_high")]
    rows: list[list[object]] = [[*([] if draw_devices else ["client"]), "jobs", *named]]
    for fit in calibration.clients:
        ends = (fit.columns[name] for name in FITTED)
        cells = [number for each in ends for number in (each.value, each.low, each.high)]
        rows.append([*([] if draw_devices else [fit.client]), fit.jobs, *cells])
    return csv_bytes(rows)


def calibration_text(calibration: Calibration) -> str:
    """A table with a row a client, and what could not be told apart."""
    share = f"{100 * calibration.confidence:g} %"
    heads = ["client", "jobs", *(_head(name) for name in FITTED)]
    shown = calibration.clients[:MOST_ROWS]
    rows = [heads, *([str(fit.client), str(fit.jobs), *_cells(fit)] for fit in shown)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    if left := len(calibration.clients) - len(shown):
        lines.append(f"... and {amount(left, 'more client')}, all of them in the file")
    lines.append(f"In brackets: {share} intervals.")
    if calibration.silent:
        lines.append(f"Left out: {amount(calibration.silent, 'job')} whose clients reported no durations.")
    lines += [f"Not told apart: {text}." for text in calibration.unresolved]
    return "\n".join(lines)


def _head(name: str) -> str:
    return {"down_bytes_per_s": "down kB/s", "up_bytes_per_s": "up kB/s", "samples_per_s": "samples/s",
            "work_sigma": "work sigma", "latency_s": "latency s"}[name]  # fmt: skip


def _cells(fit: ClientFit) -> list[str]:
    cells = []
    for name in FITTED:
        scale = 1e-3 if name.endswith("bytes_per_s") else 1.0
        each: Estimate = fit.columns[name]
        untold = name == "latency_s" and fit.one_size
        cells.append("?" if untold else _shown(each, scale))
    return cells


def _shown(each: Estimate, scale: float) -> str:
    value, low, high = (f"{scale * number:.3g}" for number in (each.value, each.low, each.high))
    return f"{value} [{low}, {high}]"
