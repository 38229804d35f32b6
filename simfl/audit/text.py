"""An audit in words and small tables."""

from typing import Any

from simfl.audit.exposure import Exposure
from simfl.audit.report import Report

__all__ = ["text"]

LISTED = 20
"""Exposed clients that the text lists; ``--json`` has all of them."""


def text(report: Report) -> str:
    """The report for a person at a terminal."""
    return "\n".join([*_summary(report), "", *_course(report), "", *_exposures(report)])


def _summary(report: Report) -> list[str]:
    found, clients = report.metrics, len(report.clients)
    lines = [f"{len(report.rounds)} rounds, {clients} clients, rank {_value(found.rank)}."]
    if found.strong is None:
        return [*lines, "There is no aggregate: nothing was given away."]
    weak = str(found.weak_lower) if found.weak_exact else f"{found.weak_lower}..{found.weak_upper}"
    alone, semi = len(report.exposed), _value(found.semi_strong)
    lines += [
        "",
        f"  strong       {found.strong:<8} every sum the server can form is made of whole groups of at least this many",
        f"  semi-strong  {semi:<8} in none of them does a client weigh more than one part in this many",
        f"  weak         {weak:<8} each of them holds at least this many clients",
        "",
        f"{alone} of {clients} clients are exposed: the server can compute their own updates."
        if alone
        else "No client is exposed.",
    ]
    if report.known < len(report.rounds):
        lines[-1] = f"Within the first {report.known} rounds, as far as the budget went, " + (
            f"{alone} of {clients} clients are exposed." if alone else "no client is exposed."
        )
    return lines


def _course(report: Report) -> list[str]:
    """The rounds at which a guarantee changed."""
    trace = report.trace
    columns = [trace.rank, trace.strong, trace.semi_strong, trace.weak_lower, trace.weak_upper]
    exposed = report.exposed_by_round()
    lines = [f"{'after round':>12} {'rank':>6} {'strong':>7} {'semi-strong':>12} {'weak':>9} {'exposed':>8}"]
    before: Any = None
    for t, label in enumerate(report.rounds):
        rank, strong, semi, lower, upper = (column[t] for column in columns)
        floor = semi // 1 if semi == semi else None
        now = (strong, floor, lower, upper, exposed[t] > 0)
        if now != before and strong == strong or t + 1 == len(report.rounds):
            weak = _value(lower) if lower == upper else f"{_value(lower)}..{_value(upper)}"
            cells = (_value(rank), _value(strong), _value(semi), weak, str(exposed[t]))
            lines.append(f"{label!s:>12} {cells[0]:>6} {cells[1]:>7} {cells[2]:>12} {cells[3]:>9} {cells[4]:>8}")
        before = now
    return lines


def _exposures(report: Report) -> list[str]:
    if not report.exposed:
        return []
    lines = [f"{'client':>12} {'from round':>11}   how the server gets its update (largest coefficients)"]
    lines += [_exposure(report, exposure) for exposure in report.exposed[:LISTED]]
    if len(report.exposed) > LISTED:
        lines.append(f"... and {len(report.exposed) - LISTED} more (--json lists all)")
    return lines


def _exposure(report: Report, exposure: Exposure) -> str:
    how = "(the combination is beyond the budget)"
    if exposure.coefficients is not None:
        terms = " ".join(f"{value:+.4g}·round {report.rounds[t]}" for t, value in exposure.largest())
        rest = len(exposure.coefficients) - len(exposure.largest())
        how = terms + (f" and {rest} more rounds" if rest else "")
        how += "" if exposure.exact else f" (rounded; leaves {exposure.residual:.0e} of others)"
    return f"{report.clients[exposure.client]!s:>12} {report.rounds[exposure.round]!s:>11}   {how}"


def _value(value: Any) -> str:
    if value is None or value != value:
        return "-"
    return f"{value:.3f}".rstrip("0").rstrip(".")
