"""Say what a participation log gave away, and from which round on."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from simfl.deployment.cli.log_options import log_options
from simfl.plugins.commands import SimflError, amount, as_json, print_json, suggestion

if TYPE_CHECKING:
    from simfl.deployment.audit.audit_report import Report
    from simfl.deployment.audit.log import Log
    from simfl.deployment.audit.log_columns import LogOptions
    from simfl.deployment.audit.log_ledger import LogLedger


class Colluders(click.ParamType[Any]):
    """How many clients, or the names of observers."""

    name = "colluders"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        names = tuple(dict.fromkeys(value.split(",")))
        if all(name == "server" or re.fullmatch(r"(edge|server|client)/[0-9]{1,9}", name) for name in names):
            return names
        if not value.lstrip("-").isdecimal():
            observers = "server,edge/3 or client/3,client/7"
            self.fail(f"{value!r} is no number, and no observers as in {observers}; --colluder names a client")
        return click.IntRange(min=1).convert(value, param, ctx)


@click.command("audit")
@click.argument("participation")
@as_json
@click.option("--figure", metavar="FILE", type=click.Path(path_type=Path),
              help="Also draw the guarantees over time (.svg, .pdf or .png).")  # fmt: skip
@click.option(
    "--html", metavar="FILE", type=click.Path(path_type=Path), help="Also write the audit as one self-contained page."
)
@log_options
@click.option(
    "--every",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Rounds between evaluations of the semi-strong and weak guarantees; 0 = the last one only.",
)
@click.option(
    "--noise", metavar="STAGE[:KEY=VALUE,...]", help="Also say what epsilon such noise in the sums leaves each client."
)
@click.option(
    "--delta", type=float, default=1e-5, show_default=True, help="Of that epsilon; well below one in the clients."
)
@click.option("--colluder", "names", metavar="CLIENT", multiple=True,
              help="A client that tells the server what it knows; may be given several times.")  # fmt: skip
@click.option(
    "--colluders",
    metavar="C|OBSERVERS",
    type=Colluders(),
    help="Also say what is left against the server and any C (further) clients. Of a run with edges, several servers "
    "or clients that aggregate: say what some of them know together, as in server,edge/3 or client/3,client/7.",
)
@click.option(
    "--ledger",
    is_flag=True,
    help="Also say at which signal to noise each client's update is known, to the server and any number of clients.",
)
@click.option("--follow", is_flag=True, help="Audit the log whenever it has grown, until a guarantee is about to fall.")
@click.option("--floor", "least", metavar="NOTION=NUMBER", multiple=True,
              help="With --follow: the least value of strong, semi_strong or weak; below it, end with 3.")  # fmt: skip
@click.option("--command", "action", metavar="COMMAND", help="With --follow: what to call then, too.")
@click.option("--interval", "interval_s", type=click.FloatRange(min=0.01), default=5.0, show_default=True,
              help="With --follow: seconds between two looks at the log.")  # fmt: skip
@click.option("--dimension", type=click.IntRange(min=1), help="Coordinates of an update, where epsilon needs it.")
def command(
    participation: str,
    as_json: bool,
    figure: Path | None,
    html: Path | None,
    log_options: "LogOptions",
    every: int,
    noise: str | None,
    delta: float,
    names: tuple[str, ...],
    colluders: int | tuple[str, ...] | None,
    ledger: bool,
    follow: bool,
    least: tuple[str, ...],
    action: str | None,
    interval_s: float,
    dimension: int | None,
) -> None:
    """Say what a participation log gave away, and from which round on.

    PARTICIPATION has one line for every client in every round, with the columns round,client[,weight] among others
    (CSV, TSV, JSON lines, Parquet), or is a matrix with one row a round (text, NPY, NPZ), or the results folder of a
    run. A client is exposed when the server, adding and subtracting the sums it saw, can compute that client's own
    update.
    """
    check_options(follow)
    if follow or isinstance(colluders, tuple):
        return (follow_log(participation, log_options, least, action, interval_s) if follow
                else _say_together(Path(participation), colluders, as_json))  # type: ignore[arg-type]  # fmt: skip
    from simfl.deployment.audit.audit_report import audit
    from simfl.deployment.audit.audit_text import text
    from simfl.deployment.audit.log_ledger import spent
    from simfl.deployment.audit.reading import count_unsummed, read

    _check_output(figure, (participation, log_options.past), picture=True)
    _check_output(html, (participation, log_options.past))
    _check_colluders(names, colluders, noise, ledger)
    log = read(participation, options=log_options)
    epsilons = None if noise is None else spent(log.used, noise, delta, dimension, count_unsummed(Path(participation)))
    colluding = _positions(names, log.clients, participation)
    known = _known_to(log, participation, colluding, colluders or 0)
    report = audit(known.matrix, known.rounds, known.clients, every, unused=known.unused, doubles=known.doubles,
                   colluding=colluding, colluders=colluders, spent=epsilons)  # fmt: skip
    report = replace(report, ledger=_ledger(known, noise, every, colluders, report)) if ledger else report
    report = replace(report, **_words(log, participation, log_options, coming=not names and not as_json))
    _write(report, figure, html, Path(participation).name or participation)
    print_json(report.to_json()) if as_json else click.echo(text(report))


def _words(log: "Log", participation: str, log_options: "LogOptions", coming: bool) -> dict[str, Any]:
    """How the log was read, and what comes."""
    said = _coming(log, participation, log_options) if coming else ""
    return {"read": _reading_lines(log, participation, log_options), "coming": said}


SMALL, LEAST = 20_000, 8
"""Cells and rounds of a log that is forecast from, too: seconds."""
CHEAP = 10**6
"""Cells of a log of which a second reading is audited, too."""


def _reading_lines(log: "Log", participation: str, log_options: "LogOptions") -> tuple[str, ...]:
    """How the log was read, and what the answer would be if a column of samples that changes were the weight."""
    from simfl.deployment.audit.audit_report import audit
    from simfl.deployment.audit.audit_text import exposed_clients, interval, value
    from simfl.deployment.audit.entries import reading_line
    from simfl.deployment.audit.log import plain
    from simfl.deployment.audit.reading import read

    if log.samples is not None:
        click.echo("weights are without clients' samples, which multiply them (training.weighting: samples)", err=True)
    if not log.varying:
        return (reading_line(log),)
    line = f"Weights are taken to be equal, though {plain(log.varying)} changes within a client"
    option = f"--columns weight={plain(log.varying)}"
    if log.matrix.shape[0] * log.matrix.shape[1] > CHEAP:
        return reading_line(log), f"{line}; if updates were weighted by it, the answer is another: give {option}."
    columns = {**log_options.columns, "weight": log.varying}
    weighted = read(participation, options=replace(log_options, columns=columns))
    other = audit(weighted.matrix, weighted.rounds, weighted.clients, 0)
    weak = interval(other.metrics.weak_lower, other.metrics.weak_upper)
    numbers = f"strong {value(other.metrics.strong)}, semi-strong {value(other.metrics.semi_strong)}, weak {weak}"
    return reading_line(log), f"{line}; weighted by it ({option}) it is {numbers}, {exposed_clients(other)} exposed."


def _coming(log: "Log", participation: str, log_options: "LogOptions") -> str:
    """The forecast's first line, where the log has times, is small, and shows a policy that is forecast."""
    from simfl.deployment.forecasting.forecast_result import forecast
    from simfl.deployment.forecasting.forecast_text import verdict
    from simfl.deployment.forecasting.past import read_past

    if log.matrix.shape[0] * log.matrix.shape[1] > SMALL or log.matrix.shape[0] < LEAST:
        return ""
    try:
        past = read_past(participation, log_options)
        if past.times_s is None:
            return ""
        of = forecast(past, horizon=min(len(past.rows), 100), futures=50)
    except SimflError:  # of such logs none is given, and simfl forecast says why
        return ""
    return f"simfl forecast, 50 futures of {amount(of.plan.horizon, 'round')}: {verdict(of, 0)}"


def _write(report: "Report", figure: Path | None, html: Path | None, title: str) -> None:
    from simfl.api.files import write_atomically
    from simfl.deployment.audit.page import draw, page

    if figure is not None:
        draw(report, figure)
        click.echo(f"Figure: {figure}", err=True)
    if html is not None:
        write_atomically(html, page(report, title).encode())
        click.echo(f"Page: {html}", err=True)


def _known_to(log: "Log", participation: str, colluding: list[int], colluders: int) -> "Log":
    """The sums that the server and these clients can make; refused where so many colluders may know more."""
    from simfl.deployment.audit.reading import refuse_more_than_sums, with_coalition

    known, exact = with_coalition(log, Path(participation), colluding)
    if colluders or not exact:
        refuse_more_than_sums(log, participation, "audit", len(set(colluding)) + colluders)
    return known


def _say_together(folder: Path, names: tuple[str, ...], as_json: bool) -> None:
    """Prints what some observers of a run know together.

    Raises:
        SimflError: an option beside this one is about something else, or the folder holds no such run.
    """
    from simfl.api.certificates import AND, MULTI_ROUND
    from simfl.api.runs import coalition

    others = {"participation", "colluders", "as_json"}
    context = click.get_current_context()
    for name in context.params.keys() - others:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise SimflError(f"--{name.replace('_', '-')}: says nothing of several observers together; leave it out")
    columns, assumes = coalition(folder, names)
    known = {name: [value for value in values if value is not None] for name, values in columns.items()}
    last = {name: values[-1] if values else None for name, values in known.items()}
    assumptions = AND.join(filter(None, (MULTI_ROUND["assumes"], assumes)))
    if as_json:
        return print_json({"observers": names, **last, "protects": MULTI_ROUND["protects"], "assumes": assumptions})
    for name, value in last.items():
        click.echo(f"{name:<22}{'not known' if value is None else f'{value:.6g}'}")
    click.echo(f"against {' and '.join(names)} together; protects {MULTI_ROUND['protects']}; {assumptions}")


def _check_colluders(names: tuple[str, ...], colluders: int | None, noise: str | None, ledger: bool) -> None:
    """Refuses colluders of whom what is said of noise or by the ledger says nothing."""
    if ledger and names:
        raise SimflError("--ledger: is about coalitions of every size; leave out --colluder")
    if noise is not None and (names or colluders) and not ledger:
        raise SimflError("--noise: says nothing of colluders, who may know a part of the noise; leave one of them out")


def _ledger(log: "Log", noise: str | None, every: int, colluders: int | None, report: "Report") -> "LogLedger":
    """The ledger of a log, for the usual numbers of colluders and the one that was asked for."""
    from simfl.deployment.audit.log_ledger import COLLUDERS, ledger_of_log

    counts = tuple(sorted({*COLLUDERS, *([colluders] if colluders else [])}))
    matrix, weak = log.used if noise else log.matrix, report.trace.weak_lower
    return ledger_of_log(matrix, noise, every, colluders=counts, weak=weak, doubles=log.doubles,
                         tolerated=log.tolerated)  # fmt: skip


def _check_output(path: Path | None, logs: Sequence[Path | str | None], picture: bool = False) -> None:
    """Refuses a path where nothing may be written, or a name that no picture has."""
    if path is None:
        return
    from simfl.api.files import refuse_result_files
    from simfl.api.pages import format_of

    if picture:
        format_of(path)
    if not path.name or path.is_dir():
        raise SimflError(f"{path}: is a folder; name a file")
    if path.resolve() in {Path(log).resolve() for log in logs if log is not None}:
        raise SimflError(f"{path}: is the log itself; name another file")
    if not path.absolute().parent.is_dir():
        raise SimflError(f"{path}: there is no folder {path.parent}")
    refuse_result_files(path)


def _positions(names: tuple[str, ...], clients: Sequence[object], participation: str) -> list[int]:
    """Where clients stand that are named as in the log; refuses other names."""
    places = {str(client): i for i, client in enumerate(clients)} if names else {}
    for name in names:
        if name not in places:
            some = f"; it has {', '.join(list(places)[:5])}{', ...' if len(places) > 5 else ''}"
            near = suggestion(name, places) or some
            raise SimflError(f"--colluder {name}: {participation} has no client of that name{near}")
    return [places[name] for name in names]


LIKELY = 0.5
"""Share of the next rounds that break a guarantee from which on the warning comes."""
WARNING = 3
"""Exit code."""
OURS = ("least", "action", "interval_s")
"""Parameters of the command that are for ``--follow``."""
COMMON = ("follow", "participation", "columns", "where", "all_rows", "form")


def check_options(follow: bool) -> None:
    """Refuses an option that would not be used."""
    context = click.get_current_context()
    for option in context.command.params:
        is_typed = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        unused = option.name not in (*OURS, *COMMON) if follow else option.name in OURS
        if is_typed and unused:
            raise SimflError(f"{option.opts[0]}: {'leave it out with' if follow else 'is for'} --follow")


def follow_log(
    participation: str, log_options: "LogOptions", texts: tuple[str, ...], action: str | None, interval_s: float
) -> None:
    """Audits a log whenever it has changed, until a guarantee is, or will probably be, below its bound.

    Raises:
        SimflError: no bound is named, or the log cannot be read.
        click.exceptions.Exit: with 3, once it is.
    """
    from simfl.api.certificates import OF_A_LOG
    from simfl.deployment.forecasting.next_round import least_values, outlook
    from simfl.deployment.forecasting.past import read_past

    if not (bounds := least_values(texts)):
        raise SimflError("--follow: name the least guarantee that is to hold, e.g. --floor semi_strong=3")
    click.echo(f"{OF_A_LOG}:")
    file = Path(participation)
    seen = before = (0, 0)
    while True:
        if not file.is_file():
            what = "is a folder; name the file that grows" if file.is_dir() else "there is no such file"
            raise SimflError(f"{participation}: {what}")
        stat = file.stat()
        now = stat.st_mtime_ns, stat.st_size
        if now != seen and (now == before or _ends_with_line(file)) and _has_entries(file):
            seen = now
            past = read_past(file, log_options, least=1)
            view = outlook(past, bounds)
            values = ", ".join(f"{name} {_number(view.now[name])}" for name in bounds)
            next_one = view.unsaid if view.below is None else _next(max(view.below.values()))
            size = f"{amount(len(past.rows), 'round')}, {amount(len(past.clients), 'client')}"
            click.echo(f"{size}: {values}; {next_one}")
            if view.below is not None and max(view.below.values()) >= LIKELY:
                _warn(str(past.label(0)), view.below, bounds, action)
        before = now
        Event().wait(interval_s)


def _ends_with_line(file: Path) -> bool:
    """Whether a file's last line is complete; if not, somebody may be writing it."""
    with open(file, "rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - 1))
        return log.read(1) == b"\n"


def _has_entries(file: Path) -> bool:
    """Whether there is more than nothing, or than a heading."""
    heading = file.suffix.lower() not in (".jsonl", ".ndjson", ".json", ".npy", ".npz", ".parquet", ".pq")
    with open(file, "rb") as log:
        return any(line.strip() for line in islice(log, int(heading), None))


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


def _next(share: float) -> str:
    """How likely the next round breaks a bound, by the share of the drawn ones that do."""
    from simfl.deployment.forecasting.next_round import DRAWS

    likely = f"{share:.2f}" if share else f"below {1 - 0.05 ** (1 / DRAWS):.2f}: none of {DRAWS} drawn ones does"
    return f"one more round breaks it with probability {likely}"


def _warn(round_label: str, below: dict[str, float], bounds: dict[str, float], action: str | None) -> None:
    name = max(bounds, key=lambda each: below[each])
    click.echo(
        f"warning: stop before round {round_label}: {name} is or will probably be below {bounds[name]:g}", err=True
    )
    if action is not None:
        subprocess.run(action, shell=True, check=False, env=os.environ | {"SIMFL_ROUND": round_label})  # noqa: S602
    raise click.exceptions.Exit(WARNING)
