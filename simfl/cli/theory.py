"""``simfl theory``"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simfl.cli.shared import as_json, load, print_json, scenario_arguments
from simfl.core.certificate_words import (
    AND,
    AT_DELTA,
    ONLY_SUMS,
    WORST,
    against,
    basis,
    basis_facts,
    premises_of,
    taking_for_granted,
)
from simfl.core.errors import MissingError, ScenarioError, SimflError, amount
from simfl.core.json_data import JsonObject

if TYPE_CHECKING:
    from simfl.core.columns import Column
    from simfl.scenario import Scenario
    from simfl.secagg.base import Protocol

FORMS = {"masked": ONLY_SUMS, "noisy": "noised by the client", "clear": "in clear"}
"""How each part of what a client sends reaches the server, in words."""

ASSUMED = "everybody available, holding samples and of equal weight, and nobody failing, late or left out"
"""What the rows are drawn with whose least-squares solutions are shown."""
MOST_PLAYED = 10**7
"""Clients times rounds, up to which a plugin's selections are played."""
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
    from simfl.core.scenario_view import surely_tolerated
    from simfl.experiments.attack.recovery_theory import windows
    from simfl.runs.central_noise import central_noise
    from simfl.selection.theory.expected_cardinality import theory

    scenario = load(file, overrides, plugins)
    samples, sums = _samples_and_sums(scenario)
    known, seen = theory(scenario, samples), [] if scenario.secagg.shows_updates else windows(scenario)
    tolerated = surely_tolerated(scenario, sums.get("clients"))
    if "colluding" in (protocol := sums.get("known", {})):
        protocol["colluding"] = min(protocol["colluding"], max(0, tolerated))
    if epsilon is not None:
        known |= central_noise(scenario, epsilon, delta, known["expected_cardinality"], samples)
    if doubts := _doubts(scenario) if known["guarantee"] else []:
        known["guarantee"] = dict.fromkeys(known["guarantee"], 1)
    if colluders is not None:
        known |= _against_any(known["guarantee"], colluders, scenario.clients, tolerated)
    bases = _bases(scenario, known["guarantee"], None if epsilon is None else delta)
    real = _real_costs(file, overrides, plugins, scenario)
    if as_json:
        known |= {"real_protocol": real, "withdrawn": doubts}
        return print_json(known | _beside(scenario, sums, bases, seen))
    _print_known(known)
    lines = [("guarantee withdrawn", words) for words in doubts]
    lines += [(f"{name} holds", basis(column)) for name, column in bases.items()]
    for name, text in [*lines, *_sent(scenario), *_lines(sums), *_beside_real(sums, real)]:
        click.echo(f"{name:<22}{text}")
    if colluders is not None:
        sure = scenario.secagg.shows_updates or sums.get("sure", True)
        click.echo(f"{'colluders':<22}{_tolerance(scenario.secagg, tolerated, colluders, sure)}")
    _least_squares(seen, scenario.compression.codes)


def _beside(scenario: "Scenario", sums: JsonObject, bases: "dict[str, Column]", seen: list[JsonObject]) -> JsonObject:
    """What stands beside the numbers in ``--json``."""
    from simfl.core.coverage import forms

    about: JsonObject = {"sends": forms(scenario), "secagg": {"protocol": scenario.secagg.name, **sums}}
    about |= {"certificates": {name: basis_facts(column) for name, column in bases.items()}}
    return about | {"least_squares": seen, "least_squares_assumes": ASSUMED if seen else None}


def _sent(scenario: "Scenario") -> Iterator[tuple[str, str]]:
    """What each client sends and how, and the protocol."""
    from simfl.core.coverage import forms

    for part, form in forms(scenario).items():
        how = f"if {FORMS[form]}" if FORMS[form] == scenario.secagg.assumes else FORMS[form]
        yield "each client sends", f"{part} ({how})"
    yield "secagg", scenario.secagg.name


def _doubts(scenario: "Scenario") -> list[str]:
    """What speaks against the family that a policy of a plugin names: its rounds are played first, without learning."""
    from simfl.probes.declarations import refuted_rows

    if not scenario.plugins and type(scenario.selection).__module__.startswith("simfl."):
        return []
    rounds = scenario.training.most_rounds
    if rounds is None or rounds * scenario.clients > MOST_PLAYED:
        return ["the scenario is too long to ask whether the selections are of the family that the policy names"]
    return [it.what for it in refuted_rows(scenario)]


def _bases(scenario: "Scenario", guarantee: object, delta: float | None) -> "dict[str, Column]":
    """What stands beside the certificates that are printed, by what is printed."""
    from simfl.core.columns import GUARANTEES
    from simfl.privacy.dp.accountants.zero_out import ZeroOut

    columns = {"guarantee": GUARANTEES[0]} if guarantee else {}
    if delta is not None:
        column = against(ZeroOut.columns[0], ["outside"])
        columns["epsilon"] = column._replace(assumes=AND.join([f"{AT_DELTA}{delta:g}", column.assumes]))
    return dict(zip(columns, taking_for_granted(columns.values(), premises_of(scenario)), strict=True))


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


def _against_any(guarantee: dict[str, int | None] | None, colluders: int, clients: int, tolerated: int) -> JsonObject:
    """The guarantee against the server and any of so many clients; 1 where the protocol does not tolerate so many."""
    if colluders >= clients:
        raise SimflError(f"--colluders {colluders}: leaves none of {amount(clients, 'client')}; at most {clients - 1}")
    known = (guarantee or {}).items()
    if colluders > tolerated:
        return {"guarantee_colluders": {name: 1 for name, _ in known} or None}
    left = {name: None if value is None else max(1, value - colluders) for name, value in known}
    return {"guarantee_colluders": left or None}


def _tolerance(protocol: "Protocol", most: int, colluders: int, sure: bool) -> str:
    """What the protocol itself hides from the server and so many clients, in words."""
    if protocol.shows_updates:
        return "the server sees every update without them, so that nothing is guaranteed"
    if protocol.assumes:
        return f"whoever colludes, {protocol.name} takes for granted that {protocol.assumes}"
    if most <= 0:
        return "nothing is promised against any of them: sums are too small, or may fail as clients are silent"
    if colluders <= most:
        said = f"the protocol hides single updates from the server and up to {amount(most, 'client')} of a sum"
    else:
        said = f"{colluders:,} are more than the {most:,} that the protocol tolerates: single updates are open to them"
    return said if sure else f"{said}; of smaller sums perhaps fewer"


def _samples_and_sums(scenario: "Scenario") -> tuple[Any, JsonObject]:
    """Training samples of each client, (clients,) or None where the data are missing; what is known of the sums."""
    from simfl.agents.aggregation.expected import expected_costs
    from simfl.runs.run import build
    from simfl.scenario.edge_scenarios import require_one_server

    try:
        require_one_server(scenario, "theory")
        parts = build(scenario)
        return parts.learner.samples, expected_costs(parts)
    except MissingError as error:  # the selection's theory needs no data
        return None, {"unknown": str(error)}
    except ScenarioError as error:
        raise scenario.locate(error) from None


def _real_costs(file: str, overrides: tuple[str, ...], plugins: tuple[Path, ...], scenario: "Scenario") -> JsonObject:
    """What a protocol of masks costs here beside what is taken for granted; empty where nothing is, or none fits."""
    name = "basecagg" if scenario.training.asynchronous else "secagg"
    if not scenario.secagg.assumes:
        return {}
    try:
        _, sums = _samples_and_sums(load(file, (*overrides, f"secagg={name}"), plugins))
    except SimflError:
        return {}
    wanted = ("bytes_down", "bytes_up", "round_s", "ways_s")
    return {"protocol": name, **{key: sums[key] for key in wanted}} if "bytes_up" in sums else {}


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
    yield "sum", f"{about}{size}, in units of {sums['unit']:,}"
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
    return text if sums["round_s"] is None else f"{text}; the first round {sums['round_s']:.6g} s with all of it"


def _least_squares(seen: list[JsonObject], coded: bool) -> None:
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
