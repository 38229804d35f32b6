"""What theory says about a scenario's selection and its sums, before the first round."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfl.api.functions import load
from simfl.api.object_overrides import Overrides
from simfl.core.certificate_words import AND, AT_DELTA, against, basis_facts, premises_of, taking_for_granted
from simfl.core.errors import MissingError, ScenarioError, SimflError, amount
from simfl.core.json_data import JsonObject

if TYPE_CHECKING:
    from simfl.core.columns import Column
    from simfl.scenario import Scenario

ASSUMED = "everybody available, holding samples and of equal weight, and nobody failing, late or left out"
"""What the rows are drawn with whose least-squares solutions are shown."""
MOST_PLAYED = 10**7
"""Clients times rounds, up to which a plugin's selections are played."""


@dataclass(frozen=True)
class Theory:
    """What theory says of a scenario.

    Attributes:
        scenario: of which it is said.
        selection: of its policy: ``family_size_log10``, ``guarantee``, ``expected_cardinality``, ...
        sums: of an aggregation in which nobody fails: bytes, seconds, operations.
        certificates: what stands beside guarantee and epsilon: against whom, of what, and what is taken for granted.
        least_squares: what a server recovers that solves the sums of so many rounds, a mapping a number of rounds.
        real: bytes and seconds with a protocol of masks, where the scenario's is only taken for granted.
        withdrawn: why a guarantee that a plugin's policy claims is 1.
        tolerated: clients who with the server learn no single update from the protocol.
    """

    scenario: "Scenario"
    selection: JsonObject
    sums: JsonObject
    certificates: "dict[str, Column]"
    least_squares: list[JsonObject]
    real: JsonObject
    withdrawn: list[str]
    tolerated: int

    def to_json(self) -> JsonObject:
        """The document of ``simfl theory --json``."""
        from simfl.core.coverage import forms

        known = self.selection | {"real_protocol": self.real, "withdrawn": self.withdrawn}
        known |= {"sends": forms(self.scenario), "secagg": {"protocol": self.scenario.secagg.name, **self.sums}}
        known |= {"certificates": {name: basis_facts(column) for name, column in self.certificates.items()}}
        assumed = ASSUMED if self.least_squares else None
        return known | {"least_squares": self.least_squares, "least_squares_assumes": assumed}


def theory(
    scenario: "Scenario | Path | str | Mapping[str, object]",
    overrides: Overrides = (),
    *,
    epsilon: float | None = None,
    delta: float = 1e-5,
    colluders: int | None = None,
    **keys: object,
) -> Theory:
    """What is known of a scenario before its first round, as ``simfl theory`` prints it.

    Args:
        scenario, overrides, keys: as for :func:`simfl.load`; or what that returned.
        epsilon: also say how much central Gaussian noise keeps every client at this epsilon.
        delta: of that epsilon.
        colluders: also say what is left against the server and any so many clients.

    Raises:
        SimflError: the scenario is invalid or has several servers, or no noise keeps that epsilon.
    """
    from simfl.core.scenario_view import surely_tolerated
    from simfl.experiments.attack.recovery_theory import windows
    from simfl.runs.central_noise import central_noise
    from simfl.scenario import Scenario
    from simfl.selection.theory import expected_cardinality

    chosen = (
        scenario if isinstance(scenario, Scenario) and not (overrides or keys) else load(scenario, overrides, **keys)
    )
    samples, sums = _samples_and_sums(chosen)
    known, seen = expected_cardinality.theory(chosen, samples), []
    if not (chosen.secagg.shows_updates or chosen.secagg.sums_units):  # it is of one sum a round
        seen = windows(chosen)
    tolerated = surely_tolerated(chosen, sums.get("clients"))
    if "colluding" in (protocol := sums.get("known", {})):
        protocol["colluding"] = min(protocol["colluding"], max(0, tolerated))
    if epsilon is not None:
        known |= central_noise(chosen, epsilon, delta, known["expected_cardinality"], samples)
    if doubts := _doubts(chosen) if known["guarantee"] else []:
        known["guarantee"], known["guarantee_malicious"] = dict.fromkeys(known["guarantee"], 1), 1
    if colluders is not None:
        known |= _against_any(known["guarantee"], colluders, chosen.clients, tolerated)
        known["guarantee_malicious"] = 1 if colluders else known["guarantee_malicious"]
    bases = _bases(chosen, known["guarantee"], None if epsilon is None else delta)
    return Theory(chosen, known, sums, bases, seen, _real_costs(chosen), doubts, tolerated)


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
    from simfl.core.columns import GUARANTEE_MALICIOUS, GUARANTEES
    from simfl.privacy.dp.accountants.zero_out import ZeroOut

    columns = {"guarantee": GUARANTEES[0]} if guarantee else {}
    columns[GUARANTEE_MALICIOUS.name] = GUARANTEE_MALICIOUS
    if delta is not None:
        column = against(ZeroOut.columns[0], ["outside"])
        columns["epsilon"] = column._replace(assumes=AND.join([f"{AT_DELTA}{delta:g}", column.assumes]))
    return dict(zip(columns, taking_for_granted(columns.values(), premises_of(scenario)), strict=True))


def _against_any(guarantee: dict[str, int | None] | None, colluders: int, clients: int, tolerated: int) -> JsonObject:
    """The guarantee against the server and any of so many clients; 1 where the protocol does not tolerate so many."""
    if colluders >= clients:
        raise SimflError(f"--colluders {colluders}: leaves none of {amount(clients, 'client')}; at most {clients - 1}")
    known = (guarantee or {}).items()
    if colluders > tolerated:
        return {"guarantee_colluders": {name: 1 for name, _ in known} or None}
    left = {name: None if value is None else max(1, value - colluders) for name, value in known}
    return {"guarantee_colluders": left or None}


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


def _real_costs(scenario: "Scenario") -> JsonObject:
    """What a protocol of masks costs here beside what is taken for granted; empty where nothing is, or none fits."""
    name = "basecagg" if scenario.training.asynchronous else "secagg"
    if not scenario.secagg.assumes:
        return {}
    try:
        _, sums = _samples_and_sums(load(scenario, secagg=name))
    except SimflError:
        return {}
    wanted = ("bytes_down", "bytes_up", "round_s", "ways_s")
    return {"protocol": name, **{key: sums[key] for key in wanted}} if "bytes_up" in sums else {}
