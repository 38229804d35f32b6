"""What theory says about a scenario's selection and its sums, before the first round: what least squares over rounds
will recover, by the policy's rows alone, and how much central Gaussian noise an epsilon needs, by ``zero_out``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simfl.api.functions import load
from simfl.api.object_overrides import Overrides
from simfl.attacks.least_squares import solve
from simfl.core.certificate_words import AND, AT_DELTA, against, basis_facts, premises_of, taking_for_granted
from simfl.core.coverage import STALEST, exposing, silent_server, told_by_compression, unstated_weights
from simfl.core.errors import MissingError, ScenarioError, SimflError, amount
from simfl.core.json_data import JsonObject
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Floats, View
from simfl.privacy.accountant import ACCOUNTANTS, noise_multiplier
from simfl.privacy.certify.chain import Beside, candidates
from simfl.privacy.stage import STAGES
from simfl.scenario import Scenario
from simfl.scenario.checks import conflicts
from simfl.scenario.yaml.places import dotted_key
from simfl.selection.asking import ask
from simfl.selection.base import Policy

if TYPE_CHECKING:
    from simfl.core.columns import Column

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


MOST_CLIENTS = 150
"""More take minutes."""

WINDOWS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0)
"""Rounds that are combined, in multiples of the clients."""

DRAWS = 11


def windows(setting: ScenarioView) -> list[JsonObject]:
    """For some numbers of rounds what solving their sums tells; everybody is available, and nobody fails.

    Returns:
        Each with ``rounds``, ``rank``, the mean errors without noise of equally long updates that are uncorrelated
        (``error_uncorrelated``, 1 - rank / N) and all the same (``error_alike``), and ``noise_amplification``
        (tr(G^+) / N, by what the variance of a sum's noise is multiplied), medians over some draws, and its 90th
        percentile ``noise_amplification_90``. With a mean cosine of c between updates expect an error of
        (1 - c) error_uncorrelated + c error_alike. Empty for more than :data:`MOST_CLIENTS` clients,
        and where the policy looks at what happens in a run.
    """
    n, streams = setting.clients, Streams(setting.seed)
    policy = setting.selection
    if n > MOST_CLIENTS or policy.reads or policy.asks or policy.reads_history:
        return []
    sizes = sorted({round(n * factor) for factor in WINDOWS})
    rows_by_size: dict[int, list[tuple[int, float, float]]] = {size: [] for size in sizes}
    for draw in range(DRAWS):
        rows = _rows(policy, n, sizes[-1], streams, draw)
        for size in sizes:
            solution = solve(rows[:size].T @ rows[:size])
            rows_by_size[size].append((solution.rank, solution.amplification, solution.alike))
    return [_row(size, n, np.array(values)) for size, values in rows_by_size.items()]


def _rows(policy: Policy, clients: int, rounds: int, streams: Streams, draw: int) -> Floats:
    """0/1 rows of the participation matrix, (rounds, clients)."""
    rows = np.zeros((rounds, clients))
    available, participation = np.ones(clients, dtype=bool), np.zeros(clients, dtype=np.int64)
    for t in range(rounds):
        view = View(t, available, participation)
        units = ask(policy, view, policy.k, streams("attack/rows", draw, t))
        rows[t, units.ravel()] = 1
        participation[units.ravel()] += 1
    return rows


def _row(rounds: int, clients: int, values: Floats) -> JsonObject:
    rank = float(np.median(values[:, 0]))
    low, high = np.quantile(values[:, 1], (0.5, 0.9)).tolist()
    return {
        "rounds": rounds,
        "rank": rank,
        "error_uncorrelated": 1 - rank / clients,
        "error_alike": float(np.median(values[:, 2])),
        "noise_amplification": low,
        "noise_amplification_90": high,
    }


STAGE = "central_gaussian"


def central_noise(
    scenario: Scenario, epsilon: float, delta: float, cardinality: float | None, samples: NDArray[np.int64] | None
) -> JsonObject:
    """Noise multipliers of the scenario's stage ``central_gaussian``, or of one that is added; who takes part is known.

    Args:
        scenario: what is to be run.
        epsilon, delta: what no client is to exceed.
        cardinality: updates in a sum on average, None = not known.
        samples: training samples of each client, (clients,); None = not known.

    Returns:
        ``noise_stage``, ``largest_weight`` and ``noise_leaves_out``, for what the numbers are; ``noise_always``, for
        updates of the largest weight in every round; and, where the cardinality is known, ``participations`` of a
        client on average, and ``noise_expected`` for as many.

    Raises:
        SimflError: no such noise gives an epsilon, another stage adds noise, or rounds or weights are not known.
    """
    if not epsilon > 0:
        raise SimflError(f"--epsilon {epsilon:g}: must be above 0")
    if not 0 < delta < 1:
        raise SimflError(f"--delta {delta:g}: must lie between 0 and 1; below {1 / scenario.clients:g} here")
    rounds = scenario.training.most_rounds
    if rounds is None:
        raise SimflError("training.rounds: is needed to say how much noise; the run has no known end")
    noised = _with_epsilon(scenario)
    stages = noised.privacy.stages
    stage = next(stage for stage in stages if stage.observer)  # the one that adds noise
    bounds = candidates(stages, [{}] * len(stages), Beside.of(scenario))
    if not bounds:
        raise SimflError(f"--epsilon: no epsilon holds, as a stage after {STAGE} changes what it is made for")
    if moves := scenario.secagg.moves_sums:
        does = "rounds to a scale of your own, by which updates get longer" if moves == "coarsely" else "may wrap sums"
        why = f"secagg: {scenario.secagg.name} {does}"
        raise SimflError(
            f"--epsilon: {why}; use the protocol's own scale and secagg.on_wrap: stop, or see the epsilon of a run"
        )
    weight = _largest_weight(scenario, samples)
    scale = weight / (stage.max_weight or 1.0) * float(bounds[0][1].l2) / stage.clip_norm
    known: JsonObject = {
        "noise_stage": STAGE,
        "largest_weight": weight,
        "noise_leaves_out": "what the protocol's rounding adds" if scenario.secagg.field is not None else None,
        "noise_always": scale * noise_multiplier(epsilon, delta, rounds),
    }
    if cardinality:
        known["participations"] = rounds * cardinality / scenario.clients
        known["noise_expected"] = scale * noise_multiplier(epsilon, delta, known["participations"])
    return known


def _with_epsilon(scenario: Scenario) -> Scenario:
    """The scenario with central Gaussian noise, if it has none, and with ``zero_out`` as its one accountant.

    Raises:
        SimflError: another stage adds noise, or there is no finite epsilon then.
    """
    privacy = scenario.privacy
    noisy = [stage for stage in privacy.stages if stage.observer or stage.certificate]
    others = [stage.name for stage in noisy if stage.name != STAGE]
    if others:
        why = f"speaks of one stage {STAGE}, but privacy.stages: {others[0]} adds noise of its own"
        raise SimflError(f"--epsilon: {why}; with privacy.stages=[{STAGE}] it says what noise in its place needs")
    stages = privacy.stages if noisy else (*privacy.stages, STAGES.of(STAGE))
    accountant = ACCOUNTANTS.of("zero_out")
    noised = replace(scenario, privacy=replace(privacy, stages=stages, accountants=(accountant,)))
    for path, message in conflicts(noised):
        raise SimflError(f"--epsilon: no epsilon holds with privacy.stages=[{STAGE}]: {dotted_key(path)}: {message}")
    if messages := silent_server(noised):
        raise SimflError(f"--epsilon: is infinite, as there may be {messages}")
    coded = told_by_compression(noised)
    if names := [part.name for part in exposing(noised) if part not in coded]:
        raise SimflError(f"--epsilon: is infinite, as a client tells {', '.join(names)}, which no noise covers")
    return noised


def _largest_weight(scenario: Scenario, samples: NDArray[np.int64] | None) -> float:
    """The largest weight that an update has in a sum, whoever's it is.

    Raises:
        SimflError: it depends on samples, and how many clients hold is not known; or on more than the rule states.
    """
    rule = scenario.training
    if unstated_weights(scenario, samples):
        why = f"training: {rule.name} weighs updates otherwise than it states (row, by_samples)"
        raise SimflError(f"--epsilon: {why}, so that no weight is certain to be the largest")
    most = scenario.secagg.largest_row(float(np.max(rule.row(np.arange(STALEST + 1)))))
    if not rule.by_samples:
        return most
    if samples is None or scenario.learning.counts_change:
        why = "clients weigh as much as they hold samples, and how many that will be is not known"
        raise SimflError(f"--epsilon: {why}; use training.weighting: equal")
    return most * float(np.max(samples, initial=0))
