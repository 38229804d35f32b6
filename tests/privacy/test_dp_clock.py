"""Noise on the clock: in the field of every protocol, and clip norms that belong to the model a client has."""

import numpy as np
import pytest

from simfl.privacy.certify.maps import norms
from simfl.privacy.dp.stages.central_gaussian import AdaptiveGaussian
from simfl.runs.run import run
from tests.plugins.test_public_interface import killed_and_resumed, rows, tables
from tests.privacy.test_dp_stages import FEDAVG, FEDBUFF, scenario

LIGHT = "secagg={name: lightsecagg}"
PLUS = "secagg={name: secagg_plus, neighbours: 4, threshold: 2}"
FAILING = ("devices.failure={name: bernoulli, probability: 0.15}", "devices.availability=always", "selection.k=6")


@pytest.mark.parametrize("protocol", [LIGHT, PLUS], ids=["lightsecagg", "secagg_plus"])
@pytest.mark.parametrize("name", ["skellam", "discrete_laplace"])
def test_noise_in_the_field_of_other_protocols(name, protocol, tmp_path, monkeypatch):
    """Killed and resumed to the same bytes; the sum under masks is the sum; epsilon is of those who were there."""
    made = scenario(name, FEDAVG, protocol, *FAILING)
    done = run(made, tmp_path / "whole")
    assert tables(killed_and_resumed(made, tmp_path / "killed", monkeypatch, 1)) == tables(done.path)
    cheap = run(scenario(name, FEDAVG, protocol, *FAILING, "secagg.execute=cost_only"), tmp_path / "cheap")
    one, two = (np.load(each.path / "model.npy") for each in (done, cheap))
    np.testing.assert_allclose(one, two, atol=1e-4 * max(1.0, float(np.abs(one).max())))
    table = rows(done.path, "rounds.csv")
    summed = [int(row["cardinality"]) for row in table]
    noise = [float(row["noise_std"]) for row in table if row["cardinality"] != "0"]
    assert len(set(summed)) > 1, "somebody failed"
    each = [(n**0.5 / n, std) for n, std in zip([n for n in summed if n], noise, strict=True)]
    assert np.std([std / share for share, std in each]) < 1e-6 * each[0][1], "a part of noise from each of those there"
    assert done.summary["epsilon_max"] > 0


def test_xnoise_among_neighbours_goes_on_to_the_same_bytes(tmp_path, monkeypatch):
    made = scenario("xnoise", FEDAVG, PLUS, *FAILING, tolerance=3)
    done = run(made, tmp_path / "whole")
    assert tables(killed_and_resumed(made, tmp_path / "killed", monkeypatch, 1)) == tables(done.path)
    table = [row for row in rows(done.path, "rounds.csv") if int(row["cardinality"]) >= 3]
    inside = {round(float(row["noise_std"]) * int(row["cardinality"]), 9) for row in table}
    assert len(inside) == 1 and len({row["cardinality"] for row in table}) > 1, "the same noise, whoever dropped out"


def test_a_buffers_clients_clip_to_the_norm_of_the_model_that_they_have(tmp_path, monkeypatch):
    """Every update that left a client is as long as the clip norm of the version it had downloaded, or shorter."""
    left, plain = [], AdaptiveGaussian.client

    def client(self, vectors, jobs, state, streams):
        sent = plain(self, vectors, jobs, state, streams)
        found = zip(jobs, norms(vectors), norms(sent[:, :-1]), sent[:, -1], strict=True)
        left.extend((job.version, float(before), float(after), float(bit)) for job, before, after, bit in found)
        return sent

    monkeypatch.setattr(AdaptiveGaussian, "client", client)
    fields = {"noise_multiplier": 0.05, "initial_norm": 0.05, "rate": 1.0}
    done = run(scenario("adaptive_gaussian", FEDBUFF, "training.rounds=8", **fields), tmp_path)
    norm = {int(row["round"]): float(row["clip_norm"]) for row in rows(done.path, "rounds.csv") if row["clip_norm"]}
    stale = [int(row["staleness_max"] or 0) for row in rows(done.path, "rounds.csv")]
    assert max(stale) > 0 and len({round(value, 9) for value in norm.values()}) > 4 and len(left) >= 8
    for version, before, after, bit in left:
        expected = min(before, norm[version])
        assert after == pytest.approx(expected, rel=1e-4), version
        assert bit == (0.5 if before <= norm[version] else -0.5)
