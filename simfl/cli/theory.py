"""``simfl theory``"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simfl.cli.shared import as_json, load, print_json, scenario_arguments
from simfl.core.certificate_words import ONLY_SUMS, WORST, basis
from simfl.core.errors import amount
from simfl.core.json_data import JsonObject

if TYPE_CHECKING:
    from simfl.api.theory import Theory
    from simfl.scenario import Scenario

FORMS = {"masked": ONLY_SUMS, "noisy": "noised by the client", "clear": "in clear"}
"""How each part of what a client sends reaches the server, in words."""

OPTIONAL = ("mode", "family_size", "left_out", "guarantee_colluders", "noise_leaves_out")
"""What may be missing though theory knows everything."""


@click.command("theory")
@scenario_arguments
@click.option(
    "--epsilon", type=float, help="Also say how much central Gaussian noise keeps every client at this epsilon."
)
@click.option(
    "--colluders",
    metavar="C",
    type=click.IntRange(min=1),
    help="Also say what is left against the server and any C clients that tell it their own updates.",
)
@click.option("--delta", type=float, default=1e-5, show_default=True, help="Of that epsilon.")
@as_json
def command(
    file: str,
    overrides: tuple[str, ...],
    plugins: tuple[Path, ...],
    epsilon: float | None,
    delta: float,
    colluders: int | None,
    as_json: bool,
) -> None:
    """Print what theory says about a scenario's selection and its sums, before the first round.

    The size of its family of rows, its guarantee, and the expected cardinality under the scenario's dropout rates
    (Multi-RoundSecAgg, arXiv 2106.03328) and failures; and, of an aggregation in which nobody fails, the bytes and
    computation of its clients and its server, the dropouts that it tolerates, and its time. With --epsilon, the
    noise_multiplier of the stage central_gaussian (the scenario's, or one that is added) that keeps a client of the
    largest weight in every round there, and what one in its share of the rounds needs; refused where the accountant
    zero_out would refuse an epsilon or call it infinite, and where other stages add noise. For up to 150 clients, what
    a server recovers that solves the sums of so many rounds by least squares: the mean error of an update without
    noise, if updates are equally long and uncorrelated (1 - rank / clients), or all the same, and by what the variance
    of noise in a sum is multiplied; medians of simulated rows, with everybody there and nobody lost.
    """
    from simfl.api.theory import theory

    known = theory(load(file, overrides, plugins), epsilon=epsilon, delta=delta, colluders=colluders)
    if as_json:
        return print_json(known.to_json())
    _print_known(known.selection)
    lines = [("guarantee withdrawn", words) for words in known.withdrawn]
    lines += [(f"{name} holds", basis(column)) for name, column in known.certificates.items()]
    for name, text in [*lines, *_sent(known.scenario), *_lines(known.sums), *_beside_real(known.sums, known.real)]:
        click.echo(f"{name:<21} {text}")
    if colluders is not None:
        click.echo(f"{'colluders':<22}{_tolerance(known, colluders)}")
    _least_squares(known.least_squares, known.scenario.compression.codes)


def _sent(scenario: "Scenario") -> Iterator[tuple[str, str]]:
    """What each client sends and how, and the protocol."""
    from simfl.core.coverage import forms

    for part, form in forms(scenario).items():
        how = f"if {FORMS[form]}" if FORMS[form] == scenario.secagg.assumes else FORMS[form]
        yield "each client sends", f"{part} ({how})"
    yield "secagg", scenario.secagg.name


def _print_known(known: JsonObject) -> None:
    """A line for everything that is known of the selection, and one for what is not."""
    for name, value in known.items():
        if value is None or value == []:
            continue
        if name == "noise_stage":
            value = f"{value}: its noise_multiplier, for weights up to largest_weight"
        if isinstance(value, list):
            value = ", ".join(value)
        if isinstance(value, dict):
            value = ", ".join(f"{key} {'not known' if item is None else item}" for key, item in value.items())
        shown = f"{value:.6g}" if isinstance(value, float) else str(value)
        click.echo(f"{name:<22}{shown}")
    if known["family_size_log10"] is None:
        click.echo(f"theory                not known: {known['policy']} declares no family of rows")
    elif unknown := [name for name, value in known.items() if value is None and name not in OPTIONAL]:
        click.echo(f"not known             {', '.join(unknown)}")


def _tolerance(known: "Theory", colluders: int) -> str:
    """What the protocol itself hides from the server and so many clients, in words."""
    protocol, most = known.scenario.secagg, known.tolerated
    if protocol.shows_updates:
        return "the server sees every update without them, so that nothing is guaranteed"
    if protocol.assumes:
        return f"whoever colludes, {protocol.name} assumes that {protocol.assumes}"
    if most <= 0:
        return "nothing is promised against any of them: sums or thresholds are too small, or a sum may fail"
    if colluders <= most:
        said = f"the protocol hides single updates from the server and up to {amount(most, 'client')} of a sum"
    else:
        said = f"{colluders:,} are more than the {most:,} that the protocol tolerates: single updates are open to them"
    return said if known.sums.get("sure", True) else f"{said}; of smaller sums perhaps fewer"


def _beside_real(sums: JsonObject, real: JsonObject) -> Iterator[tuple[str, str]]:
    """In a line, what a protocol costs that is not there."""
    if real and "bytes_up" in sums:
        text = f"with secagg: {real['protocol']} an aggregation has {real['bytes_up']:,} bytes up instead of " \
            f"{sums['bytes_up']:,}, {real['bytes_down']:,} down instead of {sums['bytes_down']:,}"  # fmt: skip
        key = "round_s" if sums["round_s"] is not None and real["round_s"] is not None else "ways_s"
        if sums[key] is not None and real[key] is not None:
            text = f"{text}, and takes {real[key]:.3g} s instead of {sums[key]:.3g} s"
        yield "left out", f"{text}, without failures"


def _lines(sums: JsonObject) -> Iterator[tuple[str, str]]:
    """What is known of the sums, as headings and words."""
    if "unknown" in sums or sums["clients"] is None:
        yield "sums", f"not known: {sums.get('unknown', 'nothing is said of how many updates are summed')}"
        return
    about = "" if sums["sure"] else "about "
    size = f"{amount(sums['clients'], 'update')} of {amount(sums['elements'], 'element')}"
    each = "" if sums["sums"] == 1 else ", each summed by itself"
    yield "sum", f"{about}{size}, in units of {sums['unit']:,}{each}"
    if "refused" in sums:
        yield "sum", f"impossible: {sums['refused']}"
        return
    who = "job" if sums["one_by_one"] else "client and round"
    for way in ("up", "down"):
        coded_bytes, clear = sums["client"][f"bytes_{way}"], sums["clear"][f"bytes_{way}"]
        yield f"bytes {way}", f"{coded_bytes:,.0f} a {who}; in clear {clear:,.0f}"
    for row in sums["phases"]:
        times = f"{row['times']:,} x " if row["times"] > 1 else "once, " if not row["times"] else ""
        cost = f"{row['bytes_up']:,.0f} B up, {row['bytes_down']:,.0f} B down, {row['seconds']:.3g} s"
        yield f"phase {row['phase']}", f"{times}{amount(row['asked'], 'client')}, each {cost}"
    for which in ("up", "down"):
        ratio = sums[f"bytes_{which}"] / sums[f"clear_bytes_{which}"] if sums[f"clear_bytes_{which}"] else 1.0
        yield f"all bytes {which}", f"{sums[f'bytes_{which}']:,} an aggregation, {ratio:.3g} times those in clear"
    for who in ("client", "server"):
        if done := {kind: count[who] for kind, count in sums["work"].items() if count[who]}:
            seconds = sums["client"]["seconds"] if who == "client" else sums["server_s"]
            operations = ", ".join(f"{count:,} {kind}" for kind, count in done.items())
            yield f"{who} work", f"{operations}; {seconds:.3g} s at the scenario's rates"
    for name, count in sums["known"].items():
        yield name.replace("_", " "), f"{count:,}"
    yield "time", _time(sums)
    if "transfer_s" in sums:
        alone, shared = sums["transfer_s"]["alone"], sums["transfer_s"]["shared"]
        yield ("bandwidth", f"{shared:.6g} s a round as equal clients share the link; {alone:.6g} s without others")


def _time(sums: JsonObject) -> str:
    before, after = sums["ways"]
    computed = sum(row["seconds"] for row in sums["phases"] if row["times"]) + sums["server_s"]
    formula = f"{before} L a job, {after} L a sum" if sums["one_by_one"] else f"{before + after} L"
    text = f"{formula} and {computed:.3g} s of cryptography, beside training, bandwidth and jitter"
    if sums["ways_s"] is not None:
        text = f"{text}; {sums['ways_s']:.6g} s at L = {sums['latency_s']:g} s"
    but = " but set-up" * any(not row["times"] for row in sums["phases"])
    return text if sums["round_s"] is None else f"{text}; the first round {sums['round_s']:.6g} s with all of it{but}"


def _least_squares(seen: list[JsonObject], coded: bool) -> None:
    from simfl.api.theory import ASSUMED

    if seen:
        click.echo("\nleast squares over   rank   error: uncorrelated   alike   noise times (90 %)")
    for row in seen:
        noise = f"{row['noise_amplification']:.3g} ({row['noise_amplification_90']:.3g})"
        errors = f"{row['error_uncorrelated']:>21.3f} {row['error_alike']:>7.3f}"
        click.echo(f"{row['rounds']:>7} rounds      {row['rank']:>6g} {errors}   {noise}")
    if seen:
        click.echo(
            f"errors without noise, {WORST}; updates with a mean cosine of c: (1 - c) x uncorrelated + c x alike"
        )
        click.echo(f"rows are drawn with {ASSUMED}; otherwise the sums may tell more")
    if seen and coded:
        click.echo("of updates that are not compressed: to least squares, what compression changes is noise besides")
