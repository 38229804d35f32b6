"""Every plugin of the registries is probed, alone and with others: what it says is not refuted."""

import json
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import simfl.probes
from simfl.cli.validate_plugins import CENTRAL, FEDAVG, WORDS, scene, scenes, verdict_on
from simfl.core.registration.family_index import FAMILIES
from simfl.core.registration.protocol import required_fields
from simfl.privacy.accountant import ACCOUNTANTS
from simfl.privacy.dp import losses
from simfl.probes.declarations import (
    better_unsaid,
    certificates,
    claims,
    parse,
    refuted_codes,
    refuted_masks,
    refuted_rows,
)
from simfl.probes.signal import refutations, refuted_noise, refuted_weights, repeated_noise
from simfl.probes.simulate import simulate
from tests.support.sizes import repeats

SETTINGS = {"adaptive_gaussian": {"bit_std": 4.0}, "xnoise": {"sharers": 4},
            "given": {"rows": [[t % 3, 3] for t in range(40)]}}  # fmt: skip
LEARNING = {"oort", "power_of_choice", "tifl", "fltrust"}
"""They read losses, or train, which nobody can where nothing is learned."""
OWN = [
    (family, name) for family in WORDS for name, cls in FAMILIES[family].items() if cls.__module__.startswith("simfl.")
]


def made(family, name):
    return {"name": name, **FAMILIES[family][name].example, **SETTINGS.get(name, {})}


def valid(family, name):
    """The scenes of a plugin, each with its data."""
    for data in scenes(family, made(family, name)):
        if name == "xnoise":
            data["selection"] = {"name": "random", "k": 4}
        if (scenario := parse(data)) is not None:
            yield scenario, data


def masked(scenario):
    return not scenario.secagg.sums_whoever_comes


@pytest.mark.parametrize(("family", "name"), OWN)
def test_nothing_that_a_plugin_says_is_refuted(family, name):
    """Masked sums take long: their noise is measured at night, but for stages that need them."""
    tried, measured = 0, 0
    for scenario, _ in valid(family, name):
        tried += 1
        if family == "selection":
            assert refuted_rows(scenario) == []
        elif repeats(0, 1) or (measured < 1 and not masked(scenario)):
            measured += 1
            assert refutations(scenario, repeats(60, 240)) == [], scenario
        if family == "secagg":
            assert refuted_masks(simulate(scenario)) == []
        if family == "compression":
            assert refuted_codes(scenario) == []
    assert tried or name in LEARNING, "no scene fits it"


WHOLE = [name for name, cls in FAMILIES["stage"].items() if getattr(cls, "whole", False)]


@pytest.mark.parametrize("name", repeats(["skellam"], WHOLE))
def test_noise_of_whole_numbers_is_what_it_says(name):
    chosen = {"stages": [made("stage", name)], "secagg": "secagg", "selection": {"name": "random", "k": 4}}
    scenario = parse(scene(**chosen))
    assert scenario is not None and refutations(scenario, repeats(40, 240)) == []


@pytest.mark.parametrize(("family", "name"), OWN)
def test_a_plugin_that_says_less_has_no_better_certificate(family, name):
    scenes_of_it = list(valid(family, name))
    for _, data in scenes_of_it[: repeats(1, 100)]:
        assert better_unsaid(FAMILIES[family][name], family, data) == []


def test_stripping_finds_what_is_said():
    assert claims(FAMILIES["secagg"]["ideal"], "secagg") == [
        "assumes", "by_units", "closes_failures", "covers", "opens_confirmed", "opens_last", "shows_updates",
        "sums_whoever_comes", "tolerance",
    ]  # fmt: skip
    assert "maps" in claims(FAMILIES["stage"]["clipping"], "stage")


RULES = [FEDAVG, FEDAVG | {"weighting": "samples"}, FEDAVG | {"on_failure": "partial", "denominator": "expected"},
         {"name": "fedbuff", "rounds": 3, "concurrency": 3, "buffer": 2, "weighting": "equal"},
         {"name": "fedasync", "rounds": 3}]  # fmt: skip
STAGES = [made("stage", name) for family, name in OWN if family == "stage"]
FIELDLESS = [name for family, name in OWN if family == "secagg" and not required_fields(FAMILIES[family][name])]
CODES = [made("compression", name) for family, name in OWN if family == "compression"]
FAILURES = [{}, {"failure": {"name": "bernoulli", "probability": 0.2}}]


def combined(rng, stages):
    """A random scenario with so many stages."""
    chosen = [STAGES[i] for i in rng.integers(0, len(STAGES), stages)]
    rule, secagg, code, failing = (
        options[int(rng.integers(len(options)))] for options in (RULES, FIELDLESS, CODES, FAILURES)
    )
    selection = [{"name": "random", "k": 3}, "all", {"name": "batch_partition", "k": 4, "T": 2}][int(rng.integers(3))]
    return scene(
        stages=chosen, training=rule, secagg=secagg, compression=code, devices=failing, selection=selection,
        seed=int(rng.integers(1000)),
    )  # fmt: skip


def test_every_two_stages_draw_apart_and_weigh_as_they_say():
    """All pairs of stages, cheap probes; their noise is measured for some, at night for all."""
    rng, tried, loud = np.random.default_rng(0), 0, repeats(2, 10_000)
    pairs = [(one, other) for one in STAGES for other in STAGES]
    rng.shuffle(pairs)
    for one, other in pairs:
        scenario = parse(scene(stages=[one, other]))
        if scenario is None:
            continue
        assert repeated_noise(simulate(scenario)) == [], scenario
        if not masked(scenario) and scenario.privacy.stages[0].adds_noise is None:
            assert refuted_weights(simulate(scenario)) == [], scenario
        if tried < loud:
            assert refutations(scenario, repeats(40, 120)) == [], scenario
        tried += 1
    assert tried > 40


@pytest.mark.parametrize("stages", [1, 2])
def test_random_combinations_say_what_is_so(stages):
    """Three and four plugins beside one another: a rule, a protocol, a compression, stages."""
    rng, tried = np.random.default_rng(stages), 0
    while tried < repeats(1, 5000):
        scenario = parse(combined(rng, stages))
        if scenario is None or (masked(scenario) and not repeats(0, 1)):
            continue
        tried += 1
        assert refutations(scenario, repeats(30, 60)) == [], json.dumps(scenario.to_yaml())


def test_what_is_measured_is_close_to_what_is_said():
    """Probes that measured nothing would refute nothing: with less noise than is said, they do."""
    said = certificates(parse(scene(stages=[CENTRAL])))
    assert -9 < said["epsilon_max"] < -0.5
    verdict = verdict_on("aggregate", FAMILIES["aggregate"]["mean"])
    assert verdict.refuted == [] and verdict.played > 1
    assert verdict.counts_as == ["needs the sum of updates only"]


def test_the_machines_lie_in_one_small_room():
    room = Path(simfl.probes.__file__).parent
    assert sum(len(path.read_text().splitlines()) for path in room.glob("**/*.py")) <= 700


@pytest.mark.parametrize("stage", repeats(["local_gaussian"], ["central_gaussian", "local_gaussian", "tree_gaussian"]))
def test_all_accountants_print_at_least_what_was_measured(stage):
    data = scene(stages=[made("stage", stage)], secagg="plain")
    names = [name for name, cls in ACCOUNTANTS.items() if cls.__module__.startswith("simfl.")]
    data["privacy"] |= {"accountants": [{"name": name, "delta": 1e-5} for name in names]}
    scenario = parse(data)
    assert scenario is not None and len(names) > 2
    assert refuted_noise(simulate(scenario), 120) == []
    with mock.patch.object(losses, "loss_factors", lambda history, loss: 0.5 * losses.noised_weights(history, loss)):
        assert any("accountant" in found.what for found in refuted_noise(simulate(scenario), 120))


def test_the_bit_of_adaptive_clipping_is_counted_by_noise_after_it():
    """0.13 was printed, more than 1 is true: the clients' noise covers the bit, too."""
    scenario = parse(scene(stages=[made("stage", "adaptive_gaussian"), "local_gaussian"], secagg="plain"))
    assert scenario is not None and refuted_noise(simulate(scenario), 120) == []
