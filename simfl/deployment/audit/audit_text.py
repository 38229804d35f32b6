"""An audit in words and small tables."""

import re
from typing import Any

from simfl.api.certificates import IF_ONLY_SUMS, OF_A_LOG, RECONSTRUCTABLE, WORST
from simfl.deployment.audit.audit_report import Exposure, Report
from simfl.deployment.audit.log import plain
from simfl.deployment.audit.log_ledger import words as ledger_words
from simfl.plugins import amount

HOW = "how the server gets its update, if that stays the same (largest coefficients)"
LISTED = 20
"""Exposed clients that the text lists; ``--json`` has all of them."""

READ = {
    "whole": "whole numbers",
    "fraction": "fractions of small numbers",
    "shared": "fractions with one denominator a round (as samples over the round's samples)",
    "root": "roots of fractions",
    "as written": "short numbers, as they are written",
    "unsure": "numbers that may be rounded",
    "rough": "numbers of too few digits",
    "percent": "whole numbers that may be rounded percentages (each round adds up to about 100)",
}
"""What is said of :data:`simfl.privacy.multiround.weight_reading.KINDS`."""

_SEVERAL = re.compile(r"\b(number|fraction|root)s\b")

COURSE = ("after round", "rank", "strong", "semi-strong", "weak", "exposed")


def text(report: Report) -> str:
    """The report for a person at a terminal."""
    rows = [COURSE, *timeline(report)]
    width = max(12, *(len(label) for label, *_ in rows))
    changes = [f"{label:>{width}} " + "{:>6} {:>7} {:>12} {:>9} {:>8}".format(*row) for label, *row in rows]
    return "\n".join([*_summary(report), "", *changes, "", *_exposures(report)])


def _summary(report: Report) -> list[str]:
    metrics, clients = report.metrics, len(report.clients)
    lines = [*report.read]
    lines.append(f"{amount(report.count_rounds(), 'round')}, {amount(clients, 'client')}, rank {value(metrics.rank)}.")
    if report.unused:
        lines.append(f"Columns not read: {', '.join(plain(name) for name in report.unused[:LISTED])}.")
    if metrics.strong is None:
        return [*lines, "There is no aggregate: nothing was given away."]
    lines.append(numbers(report))
    weak = interval(metrics.weak_lower, metrics.weak_upper)
    strong, semi = metrics.strong, value(metrics.semi_strong)
    lines += [
        "",
        f"{OF_A_LOG}:",
        f"  strong       {strong:<8} every sum the server can form is made of whole groups of at least this many",
        f"  semi-strong  {semi:<8} no client's share of any of them is larger than one over this",
        f"  weak         {weak:<8} each of them holds at least this many clients",
        "",
        within_budget(report) or f"{who_is_exposed(report)}.",
        *later(report),
    ]
    lines += recovery(report)
    if against := colluders(report):
        lines += ["", *against]
    if left := noise(report):
        lines += ["", *left]
    if report.ledger is not None:
        lines += ["", *ledger_words(report.ledger, lambda client: plain(report.clients[client]))]
    return [*lines, *(["", said] if (said := uncertainty(report)) else [])]


def who_is_exposed(report: Report) -> str:
    """``3 of 9 clients are exposed: their updates are reconstructable by the server ...``, or that nobody is."""
    alone = len(report.exposed)
    if not alone:
        certain = " for certain" if report.doubtful else ""
        return f"No client is exposed to the server{certain}, even {WORST} {IF_ONLY_SUMS}"
    some, updates = amount(len(report.clients), "client"), ("their updates are", "its update is")[alone == 1]
    return f"{alone} of {some} {'is' if alone == 1 else 'are'} exposed: {updates} {RECONSTRUCTABLE}"


def later(report: Report) -> list[str]:
    """Points to the forecast while rounds are missing at which everybody may be exposed; nothing afterwards, nor where
    weights that may be rounded leave open how large the rank is.
    """
    rank, clients = report.metrics.rank, len(report.clients)
    if rank is None or report.doubtful or rank >= clients or len(report.exposed) == clients:
        return []
    rounds = amount(clients - int(rank), "more round")
    return [f"After {rounds} at the earliest the rank is full: then all updates are", f"{RECONSTRUCTABLE}.",
            report.coming or "When that may be, simfl forecast says."]  # fmt: skip


def within_budget(report: Report) -> str:
    """Who is exposed as far as the budget went; nothing where it went through all rounds."""
    if report.known >= len(report.rounds):
        return ""
    if not report.known:
        return "Who is exposed is beyond the budget."
    said = who_is_exposed(report)
    within = f"Within the first {amount(report.count_rounds(report.known), 'round')}, as far as the budget went"
    return f"{within}, {said[0].lower()}{said[1:]}."


def exposed_clients(report: Report) -> str:
    """How many clients are exposed, ``at least 3`` where the budget did not go through all rounds."""
    count = len(report.exposed)
    return f"{count}" if report.known >= len(report.rounds) or count == len(report.clients) else f"at least {count}"


def colluders(report: Report) -> list[str]:
    """Who works together with the server, and what is left against any others who do."""
    lines = []
    if report.colluding:
        names = ", ".join(plain(name) for name in report.colluding[:LISTED])
        more = f" and {len(report.colluding) - LISTED} more" if len(report.colluding) > LISTED else ""
        lines.append(f"The server knows the updates of {names}{more}; all of this is about the other clients.")
    if (left := report.against_any) is not None:
        who = "further client" if report.colluding else "client"
        weak = interval(left.weak_lower, left.weak_upper)
        lines.append(
            f"Against the server and any {amount(left.colluders, who)}: "
            f"strong {value(left.strong)}, semi-strong at least {value(left.semi_strong)}, weak {weak}."
        )
    return lines


def noise(report: Report) -> list[str]:
    """What the noise leaves to be learned, in words."""
    left = report.spent
    if left is None or not len(left.last):
        return []
    most = plain(report.clients[int(left.last.argmax())])
    return [
        f"With {left.name}, all updates of a client against none of them, against {left.against}:",
        f"epsilon {value(float(left.last.max()))} at most (client {most}), {value(float(left.median[-1]))} in the "
        f"median, at delta {left.delta:g} (if {' and '.join(left.assumes)}).",
    ]


def numbers(report: Report) -> str:
    """How the weights were read, in one line."""
    read = report.metrics.read.items()
    kinds = {kind: READ[kind] if count != 1 else _SEVERAL.sub(r"\1", READ[kind], count=1) for kind, count in read}
    return "Weights: " + ", ".join(f"{count} {kinds[kind]}" for kind, count in read) + "."


def recovery(report: Report) -> list[str]:
    """What least squares over all sums is expected to recover."""
    if report.hidden is None or report.predicted_error is None:
        return []
    low, high = value(float(report.hidden.min())), value(float(report.hidden.max()))
    spread = f" on average, from {low} to {high} a client" if low != high else ""
    return [f"Least squares over all sums has a relative squared error of {value(report.predicted_error)}{spread}",
            f"({WORST}, uncorrelated and of equal length; less where they point the same way)."]  # fmt: skip


def uncertainty(report: Report) -> str:
    """What is not certain, and what would be if the numbers were meant as they stand."""
    metrics, position = report.as_written, report.first_doubtful
    if metrics is None or position is None:
        return ""
    first = plain(report.rounds[position])
    weak = interval(metrics.weak_lower, metrics.weak_upper)
    least = "at least " if metrics.rank is None else ""  # beyond the budget
    also = f"; {least}{amount(len(report.likely), 'more client')} exposed {WORST}" if report.likely else ""
    where = f"in {report.doubtful} of {len(report.rounds)} rounds, from round {first} on"
    return (
        f"Some weights may be rounded numbers ({where}). What is said here holds\n"
        "whatever they are, if equal numbers stand for equal weights. Taken as they are written they give: "
        f"rank {value(metrics.rank)}, strong {metrics.strong},\n"
        f"semi-strong {value(metrics.semi_strong)}, weak {weak}{also}."
    )


def timeline(report: Report) -> list[tuple[str, ...]]:
    """The rounds at which a guarantee changed, with the cells of :data:`COURSE`."""
    trace = report.trace
    columns = [trace.rank, trace.strong, trace.semi_strong, trace.weak_lower, trace.weak_upper]
    exposed = report.exposed_by_round()
    rows: list[tuple[str, ...]] = []
    before: Any = None
    for t, label in enumerate(report.rounds):
        rank, strong, semi, lower, upper = (column[t] for column in columns)
        semi_strong_clients = semi // 1 if semi == semi else None
        now = (strong, semi_strong_clients, lower, upper, exposed[t] > 0, t < report.known)
        if now != before and strong == strong or t + 1 == len(report.rounds):
            count = (exposed[t],) * 2 if t < report.known else (len(report.exposed), len(report.clients))
            cells = value(rank), value(strong), value(semi), interval(lower, upper), interval(*count)
            rows.append((plain(label), *cells))
        before = now
    return rows


def _exposures(report: Report) -> list[str]:
    if not report.exposed:
        return []
    lines = [f"{'client':>12} {'from round':>11}   {HOW}"]
    for exposure in report.exposed[:LISTED]:
        client, since = plain(report.clients[exposure.client]), plain(report.rounds[exposure.round])
        lines.append(f"{client:>12} {since:>11}   {way(report, exposure)}")
    if len(report.exposed) > LISTED:
        lines.append(f"... and {len(report.exposed) - LISTED} more (--json lists all)")
    return lines


def way(report: Report, exposure: Exposure) -> str:
    """The combination of rounds that gives a client's update, its largest terms."""
    how = "(the combination is beyond the budget)"
    if exposure.coefficients is not None:
        terms = " ".join(f"{value:+.4g}·round {plain(report.rounds[t])}" for t, value in exposure.largest())
        rest = len(exposure.coefficients) - len(exposure.largest())
        how = terms + (f" and {amount(rest, 'more round')}" if rest else "")
        how += "" if exposure.exact else f" (rounded; leaves {exposure.residual:.0e} of others)"
    return how


def interval(lower: object, upper: object) -> str:
    """``6``, or ``6..8`` where only bounds are known."""
    low, high = value(lower), value(upper)
    return low if low == high else f"{low}..{high}"


def value(value: object) -> str:
    """A number with three digits at most; a dash where there is none."""
    if value is None or value != value:
        return "-"
    return f"{value:.3f}".rstrip("0").rstrip(".")
