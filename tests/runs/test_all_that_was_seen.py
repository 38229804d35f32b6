"""What is measured and attacked is all that the server sees; where it is not, nothing is said, or what is left out."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import simfl
from simfl.attacks.base import unread
from simfl.attacks.measured_recovery import RecoveryMeter
from simfl.cli import simfl as command
from simfl.core.certificate_words import PUBLIC_NUMBERS, REMOTE, premises_of
from simfl.core.errors import SimflError
from simfl.core.rng import Streams
from simfl.privacy.certify.maps import Noise

BASE = {
    "clients": 12, "seed": 1, "selection": {"name": "random", "k": 4}, "secagg": "ideal",
    "training": {"name": "fedavg", "rounds": 12, "weighting": "equal", "batch_size": 50},
    "learning": {"data": "digits", "model": "logistic"},
}  # fmt: skip
LATE = BASE | {
    "network": {"name": "star", "latency_s": {"name": "exponential", "mean": 0.3}}, "secagg": "pairwise_ratchet",
    "training": BASE["training"] | {"deadline_s": 0.7, "learning_rate": 0.0001},
}  # fmt: skip
GUARDED = {"name": "guarded", "inner": {"name": "random", "k": 6}, "T": 3}
NOISE = {"stages": [{"name": "adaptive_gaussian", "initial_norm": 100.0, "noise_multiplier": 0.01, "quantile": 1.0}]}


def run(tmp_path, scenario, **changes):
    return simfl.run(scenario | changes, out=tmp_path)


def columns(found):
    return {c["name"]: c for c in json.loads((found.path / "columns.json").read_text())}


def test_noise_of_the_server_hides_nothing_from_it(tmp_path):
    """Whatever else its stage makes of what clients send."""
    shown = run(tmp_path, BASE, secagg="plain", privacy=NOISE).summary
    assert (shown["measured_recovered"], shown["measured_error"]) == (12, 0)
    noised, bare = (run(tmp_path, BASE, privacy=each).summary["measured_error"] for each in (NOISE, {}))
    assert noised <= bare + 0.01, "by its direction alone an update is found rather sooner"


def test_sums_of_sessions_that_failed_are_not_left_out_silently(tmp_path):
    found = run(tmp_path, LATE, attacks=[{"name": "least_squares"}])
    assert found.summary["measured_recovered"] is None
    assert columns(found)["recovery_error"]["observer"].startswith("an attacker who is not shown")
    whole = run(tmp_path, BASE, attacks=[{"name": "least_squares"}])
    assert whole.summary["measured_recovered"] is not None and not columns(whole)["recovery_error"].get("observer")


def test_no_server_measures_where_clients_aggregate(tmp_path):
    found = run(tmp_path, BASE, training=BASE["training"] | {"name": "serverless"}, selection="all").summary
    assert found["measured_recovered"] is None


def meter(any_length, shown, clients=3):
    from simfl.core.types import Aggregate

    rng = np.random.default_rng(0)
    truth = rng.normal(size=(2, 40)).astype(np.float32)
    total = Aggregate(truth.mean(axis=0), np.array([0, 1], np.int32), np.ones(2), shares=np.full(2, 0.5))
    each = RecoveryMeter(clients, 40, Streams(0), 10**9, any_length)
    vectors = 0.01 * truth if shown else None
    jobs = tuple(SimpleNamespace(client=client) for client in (0, 1))
    seen = SimpleNamespace(total=total, jobs=jobs, vectors=vectors, read=total.vector)
    each.learn(seen, SimpleNamespace(clients=np.array([0, 1]), updates=truth))
    return each.measure(True)


def test_an_update_of_another_length_is_recovered_and_nobody_hides_behind_who_was_never_there():
    assert meter(True, shown=True) == {"measured_recovered": 2, "measured_error": pytest.approx(0, abs=1e-9)}
    assert meter(False, shown=True)["measured_error"] == pytest.approx(0.99**2)
    assert meter(False, shown=True) == meter(False, shown=True, clients=9)


def test_no_noise_hides_more_than_everything(tmp_path):
    skellam = {"stages": [{"name": "skellam", "clip_norm": 1, "noise_multiplier": 4}]}
    assert run(tmp_path, BASE, secagg="secagg", privacy=skellam).summary["measured_error"] <= 1


@pytest.mark.parametrize("weighting", ["equal", "samples"])
def test_all_others_and_the_server_know_what_is_left(tmp_path, weighting):
    found = run(tmp_path, BASE, selection="all", attacks=[{"name": "collusion", "victim": 3}],
                training=BASE["training"] | {"weighting": weighting, "rounds": 2})  # fmt: skip
    (rows,) = (np.genfromtxt(found.path / "attacks.csv", delimiter=",", names=True, dtype=None, encoding=None),)
    values = {row["name"]: row["value"] for row in rows} if "name" in rows.dtype.names else rows
    assert np.max(np.abs(np.atleast_1d(values["residual_naive"]))) < 1e-8


@pytest.mark.parametrize(("changes", "why"), [
    ({"compression": {"name": "random_k", "share": 0.5}}, "solves the same equations for all coordinates"),
    ({"training": BASE["training"] | {"server_learning_rate": 0.5}, "view": "public"}, "makes another of it"),
    ({"training": BASE["training"] | {"server_optimiser": {"name": "sgd", "momentum": 0.9}}, "view": "public"},
     "makes another of it"),
    ({"secagg": "secagg", "privacy": {"stages": [{"name": "skellam", "clip_norm": 1, "noise_multiplier": 4}]}}, ""),
])  # fmt: skip
@pytest.mark.parametrize("attack", ["least_squares", "membership", "inversion"])
def test_no_attack_is_shown_less_than_there_is_to_see(changes, why, attack):
    changes = dict(changes)
    scenario = BASE | {"attacks": [{"name": attack, "view": changes.pop("view", "server")}]} | changes
    if why:
        with pytest.raises(SimflError, match=why):
            simfl.load(scenario)
    else:
        simfl.load(scenario)


def members(found):
    (finding,) = json.loads((found.path / "findings.json").read_text())
    return finding["numbers"]["membership_members"]


def test_members_are_those_whom_somebody_trains_on(tmp_path):
    few = {"partition": {"name": "few_classes", "classes": 2, "samples": 10}}
    member = {"attacks": [{"name": "membership", "candidates": 1000}]}
    found = run(tmp_path, BASE, learning=BASE["learning"] | few, selection="all", **member)
    assert members(found) == 12 * 2 * 10
    one = BASE["training"] | {"rounds": 1}
    some = run(tmp_path, BASE, learning=BASE["learning"] | few, training=one, **member)
    assert members(some) == 4 * 2 * 10, "who was never asked has no members"


def test_what_is_said_to_be_public_is_taken_for_granted():
    told = {"name": "power_of_choice", "k": 4, "d": 6, "scalars": "clear"}
    assert premises_of(simfl.load(BASE | {"selection": told, "secagg": "secagg"})) == PUBLIC_NUMBERS
    assert PUBLIC_NUMBERS not in premises_of(simfl.load(BASE))
    backend = {"backend": {"name": "external", "clients": [0]}}
    assert REMOTE in premises_of(simfl.load(BASE | {"learning": BASE["learning"] | backend}))


@pytest.mark.parametrize(("changes", "most"), [
    ({"secagg": "lightsecagg", "selection": {"name": "random", "k": 2}}, 0),
    ({"secagg": {"name": "lightsecagg", "private": 0.9, "survivors": 0.95}, "selection": "all"}, 10),
    ({"secagg": "secagg"}, 1),
])  # fmt: skip
def test_colluders_know_their_own_updates(tmp_path, changes, most):
    scenario = BASE | changes | {"learning": "none"}
    assert run(tmp_path, scenario).summary["tolerated_colluders"] <= most
    (tmp_path / "base.yaml").write_text(json.dumps(scenario))
    done = CliRunner().invoke(command, ["theory", str(tmp_path / "base.yaml"), "--json"])
    assert json.loads(done.stdout)["secagg"]["known"]["colluding"] <= most


@pytest.mark.parametrize(("changes", "least"), [
    ({"secagg": {"name": "lightsecagg", "private": 0.2, "survivors": 0.7}}, 3),
    ({"secagg": {"name": "lightsecagg", "private": 0.2, "survivors": 0.7},
      "devices": {"failure": {"name": "bernoulli", "probability": 0.0, "phases": {"unmask": 0.06}}}}, 1),
    ({"secagg": "secagg", "devices": {"failure": 0.06}}, 3),
    ({"secagg": "pairwise_ratchet", "selection": GUARDED}, 3),
    ({"secagg": "pairwise_ratchet", "selection": GUARDED, "learning":
      BASE["learning"] | {"partition": {"name": "growing", "first": [0, *[5] * 11], "new": 5, "versions": 9}}}, 1),
])  # fmt: skip
def test_a_guarantee_for_any_number_of_rounds_counts_failed_and_refused_sums(tmp_path, changes, least):
    scenario = BASE | {"selection": {"name": "batch_partition", "k": 6, "T": 3}} | changes
    (tmp_path / "base.yaml").write_text(json.dumps(scenario))
    done = CliRunner().invoke(command, ["theory", str(tmp_path / "base.yaml"), "--json"])
    assert json.loads(done.stdout)["guarantee"]["semi_strong"] == least, done.output


@pytest.mark.parametrize("partition", [{"name": "resampled", "samples": 1}, {"name": "growing", "first": 1, "new": 0}])
@pytest.mark.parametrize("rounds", [1, 3])
def test_what_is_recovered_is_compared_with_what_was_trained_on(tmp_path, partition, rounds):
    """One sample, one step: logistic regression's gradient is the sample itself, times a number."""
    found = run(tmp_path, BASE, secagg="plain", selection="all", attacks=[{"name": "inversion", "method": "analytic"}],
                training=BASE["training"] | {"rounds": rounds, "batch_size": 1},
                learning=BASE["learning"] | {"partition": partition})  # fmt: skip
    assert found.summary["inversion_psnr"] > 60 > found.summary["inversion_guess_psnr"]


def test_a_victim_that_is_in_no_sum_is_not_guessed_at(tmp_path):
    growing = {"partition": {"name": "growing", "first": [0, *[5] * 11], "new": 5, "versions": 9}}
    found = run(tmp_path, BASE, selection="all", attacks=[{"name": "collusion", "victim": 0}],
                training=BASE["training"] | {"weighting": "samples", "rounds": 2},
                learning=BASE["learning"] | growing)  # fmt: skip
    assert found.summary["rounds"] == 2


@pytest.mark.parametrize(("shows", "where", "codes", "refused"), [
    (True, None, True, "single updates"), (False, "server", True, "the sum before the server's noise"),
    (False, "share", True, ""), (False, None, True, ""), (True, "server", False, ""),
])  # fmt: skip
def test_what_a_stage_codes_is_not_attacked_as_if_it_were_all(shows, where, codes, refused):
    """No stage of simfl codes beside noise of the server; a plugin's may."""
    stage = SimpleNamespace(name="own", codes=codes, adds_noise=where and Noise(where))
    setting = SimpleNamespace(compression=SimpleNamespace(subsamples=False), privacy=SimpleNamespace(stages=(stage,)),
                              secagg=SimpleNamespace(shows_updates=shows))  # fmt: skip
    found = unread(setting, "server")
    assert found[0][1].startswith(f"is server, which reads {refused}") if refused else not found, found
