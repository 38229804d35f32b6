"""How much central Gaussian noise a scenario needs for an epsilon, by the rules of the accountant ``zero_out``."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.coverage import STALEST, exposing, silent_server, told_by_compression, unstated_weights
from simfl.core.errors import SimflError
from simfl.core.json_data import JsonObject
from simfl.privacy.accountant import ACCOUNTANTS, noise_multiplier
from simfl.privacy.certify.chain import Beside, candidates
from simfl.privacy.stage import STAGES
from simfl.scenario import Scenario
from simfl.scenario.checks import conflicts
from simfl.scenario.yaml.places import dotted_key

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
    stage, stages = _stage(noised), noised.privacy.stages
    bounds = candidates(stages, [{}] * len(stages), Beside.of(scenario))
    if not bounds:
        raise SimflError(f"--epsilon: no epsilon holds, as a stage after {STAGE} changes what it is made for")
    if moves := scenario.secagg.moves_sums:
        does = "rounds to a scale of your own, by which updates get longer" if moves == "coarsely" else "may wrap sums"
        why = f"secagg: {scenario.secagg.name} {does}"
        raise SimflError(
            f"--epsilon: {why}; use the protocol's own scale and on_wrap: stop, or see the epsilon of a run"
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


def _stage(scenario: Scenario) -> Any:
    """The one stage that adds noise."""
    return next(stage for stage in scenario.privacy.stages if stage.observer)


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
        raise SimflError(f"--epsilon: {why}; use weighting: equal")
    return most * float(np.max(samples, initial=0))
