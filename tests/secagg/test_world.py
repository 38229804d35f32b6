"""Secure aggregation on the simulated clock: bytes, times, failures in phases, the same model, the same bytes again."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from simfl.secagg.base import PROTOCOLS as PROTOCOL
from tests.plugins.test_public_interface import killed_and_resumed, tables
from tests.support.kills import files, killed_at_time

NO_RATES = "rates: {agreement_s: 0, element_s: 0, product_s: 0, share_s: 0}"
D = 1_663_370
COSTS = """
clients: {n}
network: {{name: star, latency_s: 0.5}}
devices: {{computation: 3}}
selection: {{name: random, k: {n}}}
learning: {{name: none, parameters: {d}}}
training: {{name: {rule}, rounds: {rounds}, weighting: equal}}
secagg: {{name: {protocol}, execute: cost_only, {rates}}}
"""


def of_costs(**values):
    return COSTS.format(**{"rule": "fedavg", "rounds": 1, "rates": NO_RATES, **values})


def costs(folder, protocol, n=100, rounds=1, d=D, rule="fedavg", also=""):
    """rounds.csv of a run in which nobody fails; one second to a client and back, three at work."""
    text = of_costs(n=n, d=d, rule=rule, protocol=protocol + also, rounds=rounds)
    if protocol == "plain":
        text = text[: text.index("secagg:")]
    return rows(run(Scenario.parse(text), folder).path, "rounds.csv")


def rows(folder, name):
    with open(Path(folder) / name, newline="") as file:
        return list(csv.DictReader(file))


def extra(row, n):
    """Bytes up and down of a client beside the model's 4 d down."""
    up, down = int(row["bytes_up"]), int(row["bytes_down"])
    assert up % n == down % n == 0
    return up // n, down // n - 4 * D


def test_bytes_of_secagg(tmp_path):
    """Up 64 + 140 k + 4 d, down 168 k + ceil(k / 8): the specification's numbers for n = 100."""
    (row,) = costs(tmp_path, "secagg")
    assert extra(row, 100) == (64 + 140 * 99 + 4 * D, 168 * 99 + 13) == (6_667_404, 16_645)


def test_bytes_of_secagg_plus(tmp_path):
    (row,) = costs(tmp_path, "secagg_plus", also=", neighbours: 60, threshold: 40")
    assert extra(row, 100) == (64 + 140 * 60 + 4 * D, 168 * 60 + 8) == (6_661_944, 10_088)
    (row,) = costs(tmp_path, "secagg_plus", also=", corrupted: 0.1, dropped: 0.1")
    assert extra(row, 100) == (64 + 140 * 32 + 4 * D, 168 * 32 + 4)


def test_bytes_of_lightsecagg(tmp_path):
    """Up 32 + (N-1)(4P + 20) + 4 d + 4 P, of which the last from the first U only; down (N-1)(4P + 56) + ceil(N/8)."""
    (row,) = costs(tmp_path, "lightsecagg")
    piece = -(-D // 20)
    up = 32 + 99 * (4 * piece + 20) + 4 * D + 4 * piece
    assert up == 39_923_092
    assert extra(row, 100) == (up, 99 * (4 * piece + 56) + 13), "all answers arrive at one instant"


def test_bytes_of_the_ratchet(tmp_path):
    first, second = costs(tmp_path, "pairwise_ratchet", rounds=2)
    assert extra(second, 100) == (4 * D, 0) and extra(first, 100) == (4 * D + 32 * 99, 32 * 99)


def test_bytes_of_basecagg(tmp_path):
    """A job: the keys of all others down, pieces for them up, their delivery; a buffer: whom to weigh how, the sums."""
    n, d = 10, 1000
    rule = "fedbuff, concurrency: 1, buffer: 2"
    done = run(Scenario.parse(of_costs(n=n, d=d, rule=rule, protocol="basecagg")), tmp_path)
    (row,) = rows(done.path, "rounds.csv")
    piece, jobs = -(-d // (7 - 5)), 2
    up = jobs * (32 + 9 * (4 * piece + 20) + 4 * d) + n * 4 * piece
    down = jobs * (9 * 36 + 9 * (4 * piece + 28) + 4 * d) + n * jobs * 12
    assert (int(row["bytes_up"]), int(row["bytes_down"])) == (up, down)


@pytest.mark.parametrize(
    "protocol, ways",
    [("plain", 2), ("secagg", 8), ("secagg_plus", 8), ("lightsecagg", 6), ("pairwise_ratchet", 2), ("flamingo", 6),
     ("opa", 4)],
)  # fmt: skip
def test_round_times(protocol, ways, tmp_path):
    """Half a second a way and three at work; plain takes two ways."""
    table = costs(tmp_path, protocol, n=40, rounds=3, d=10)
    began = {"pairwise_ratchet": 1.0, "opa": 1.0, "flamingo": 3.0}.get(protocol, 0.0)
    expected = [began + (ways / 2 + 3) * (t + 1) for t in range(3)]
    assert [float(row["time_s"]) for row in table] == pytest.approx(expected)


def test_times_of_basecagg(tmp_path):
    """Four ways before the model goes out, two with it, and two for the buffer."""
    table = costs(tmp_path, "basecagg", n=10, rounds=3, d=10, rule="fedbuff, concurrency: 10, buffer: 10")
    assert [float(row["time_s"]) for row in table] == pytest.approx([7.0 * (t + 1) for t in range(3)])


def test_cryptography_takes_the_time_of_its_rates(tmp_path):
    """Four clients: 3 agreements to share, with 6 shares; then 3 more and 4 masks; 8 shares and 4 masks to take off."""
    rates = NO_RATES.replace("agreement_s: 0", "agreement_s: 1").replace("share_s: 0", "share_s: 100")
    rates = rates.replace("element_s: 0", "element_s: 1000")
    text = of_costs(n=4, d=10, protocol="secagg", rates=rates)
    (row,) = rows(run(Scenario.parse(text), tmp_path).path, "rounds.csv")
    threshold, masks = 2, 4
    expected = 4 + 3 + (3 + 6 * 100) + (3 + masks * 10_000) + (4 * threshold * 100 + masks * 10_000)
    assert float(row["time_s"]) == pytest.approx(expected)


# -- real updates ---------------------------------------------------------------------------------------

REAL = """
name: real
clients: 12
network: {name: star, latency_s: {name: log_normal, median: 0.1, sigma: 0.4}, bandwidth_bytes_per_s: 1.0e+6}
devices:
  availability: {name: bernoulli, dropout: 0.1}
  computation: {name: random, distribution: {name: half_normal, sigma: 1.0}}
  failure: {name: bernoulli, probability: 0.1}
selection: {name: batch_partition, k: 8, T: 2}
learning: {data: digits, model: logistic, evaluate: {every: 2}}
training: {name: fedavg, rounds: 6, batch_size: 50}
"""
FEDBUFF = ("training={name: fedbuff, rounds: 6, batch_size: 50, weighting: equal, staleness: polynomial}",)
DRAWN = "arrivals: {name: uniform_staleness, max: 2, seconds: 1}, "
PROTOCOLS = {
    "secagg": ("secagg={name: secagg, threshold: 0.2}",),
    "secagg_plus": ("secagg={name: secagg_plus, neighbours: 4, threshold: 2}",),
    "lightsecagg": ("secagg={name: lightsecagg, private: 0.2, survivors: 0.4}",),
    "pairwise_ratchet": ("secagg=pairwise_ratchet",),
    "flamingo": ("secagg={name: flamingo, term: 2}",),
    "opa": ("secagg={name: opa, private: 0.2, survivors: 0.4}",),
    "basecagg": ("secagg={name: basecagg, private: 0.2, survivors: 0.5}", *FEDBUFF),
}


def real(name, *overrides):
    return Scenario.parse(REAL, "real", (*PROTOCOLS.get(name, (f"secagg={name}",)), *overrides))


@pytest.mark.parametrize("name", [name for name in PROTOCOLS if name != "basecagg"])
def test_the_same_participation_and_up_to_rounding_the_same_model(name, tmp_path):
    extra = ("devices.failure=none",) if name == "pairwise_ratchet" else ()
    hidden, plain = run(real(name, *extra), tmp_path), run(real("plain", *extra), tmp_path)
    assert tables(hidden.path)["participation.csv"] == tables(plain.path)["participation.csv"]
    one, other = (np.load(done.path / "model.npy") for done in (hidden, plain))
    assert 0 < np.abs(one - other).max() < 6 * 2.0**-10
    costly = run(real(name, *extra, "secagg.execute=cost_only"), tmp_path)
    assert np.array_equal(np.load(costly.path / "model.npy"), other)
    columns = ("time_s", "bytes_up", "bytes_down", "cardinality")
    one, other = ([[row[c] for c in columns] for row in rows(done.path, "rounds.csv")] for done in (hidden, costly))
    assert one == other and tables(hidden.path)["phases.csv"] == tables(costly.path)["phases.csv"]


def test_basecagg_is_fedbuff_with_whole_weights(tmp_path):
    """Weights of 2^16 steps leave the weight, and so the guarantee, as it was."""
    hidden = run(real("basecagg", "secagg.staleness_scale=65536"), tmp_path)
    costly = run(real("basecagg", "secagg.staleness_scale=65536", "secagg.execute=cost_only"), tmp_path)
    for name in ("participation.csv", "jobs.csv", "phases.csv"):
        assert tables(hidden.path)[name] == tables(costly.path)[name]
    one, other = (np.load(done.path / "model.npy") for done in (hidden, costly))
    assert 0 < np.abs(one - other).max() < 0.01
    weights = {float(row["weight"]) for row in rows(hidden.path, "participation.csv")}
    assert all((weight * 65536).is_integer() for weight in weights)
    summed = [row for row in rows(hidden.path, "jobs.csv") if row["round"]]
    ages = [(int(row["staleness"]), row["round"], row["client"]) for row in summed]
    known = {(row["round"], row["client"]): float(row["weight"]) for row in rows(hidden.path, "participation.csv")}
    assert all(abs(known[t, c] - (1 + age) ** -0.5) <= 2**-16 for age, t, c in ages)
    assert hidden.summary["privacy_strong"] >= 2 and hidden.summary["privacy_weak_lower"] >= 2


@pytest.mark.parametrize("staleness, rounding", [("constant", 0), ("polynomial", 2**-16)])
def test_without_a_clock_basecagg_is_fedbuff(staleness, rounding, tmp_path):
    """Where phases delay nobody: the same clients with the same weights up to rounding, and so the same model."""
    rule = FEDBUFF[0].replace("rounds", DRAWN + "rounds").replace("polynomial", staleness)
    hidden = run(real("basecagg", rule, "secagg.staleness_scale=65536"), tmp_path)
    plain = run(real("plain", rule), tmp_path)
    one, other = (rows(done.path, "participation.csv") for done in (hidden, plain))
    who = [[(row["round"], row["client"]) for row in table] for table in (one, other)]
    assert who[0] == who[1] and len(who[0]) == 6 * 8
    weights = np.array([[float(row["weight"]) for row in table] for table in (one, other)])
    assert np.abs(weights[0] - weights[1]).max() <= rounding
    models = [np.load(done.path / "model.npy") for done in (hidden, plain)]
    assert 0 < np.abs(models[0] - models[1]).max() < 6 * 2.0**-10, "less than a step of the grid an aggregation"


def test_members_of_a_unit_are_rounded_together(tmp_path):
    """With two steps only: a unit's weight is one of them, for both of its members."""
    done = run(real("basecagg", "secagg.staleness_scale=2", "training.rounds=20"), tmp_path)
    found = {}
    for row in rows(done.path, "participation.csv"):
        found.setdefault((row["round"], int(row["client"]) // 2), set()).add(row["weight"])
    assert all(len(weights) == 1 for weights in found.values())
    assert len({weight for weights in found.values() for weight in weights}) > 1


FAILING = {"basecagg": "deliver: 0.02, unmask: 0.1", "pairwise_ratchet": "", "opa": "unmask: 0.1",
           "flamingo": "handover: 0.1, crosscheck: 0.03, unmask: 0.1"}  # fmt: skip


@pytest.mark.parametrize("name", PROTOCOLS)
def test_killed_anywhere_it_goes_on_to_the_same_bytes(name, tmp_path, monkeypatch):
    wanted = FAILING.get(name, "share: 0.03, unmask: 0.1")
    made = real(name, f"devices.failure={{name: bernoulli, probability: 0.03, phases: {{{wanted}}}}}")
    whole = tables(run(made, tmp_path / "whole").path)
    for at in (1, 3, 5):
        assert tables(killed_and_resumed(made, tmp_path / str(at), monkeypatch, at)) == whole


BUSY = FEDBUFF[0].replace("rounds: 6", "rounds: 8, buffer: 4, concurrency: 10")
INSIDE = {name: (name, ("training.rounds=4",)) for name in PROTOCOLS} | {
    "basecagg": ("basecagg", (BUSY, "network.latency_s={name: log_normal, median: 0.4, sigma: 0.4}")),
    "basecagg without a clock": ("basecagg", (FEDBUFF[0].replace("rounds", DRAWN + "rounds"),)),
}


def spans_of(phases):
    """When the exchanges of each kind of phase begin and end."""
    found = {}
    for row in phases:
        found.setdefault(row["phase"], []).append((float(row["started_s"]), float(row["ended_s"])))
    return found


def instants_inside(spans):
    """Of each kind of phase that takes time an instant inside its first and its last, and of what lies between them."""
    every = sorted(span for some in spans.values() for span in some)
    nexts = [(end, min((start for start, _ in every if start > end), default=end)) for _, end in every]
    between = [gap for gap in nexts if not any(start <= sum(gap) / 2 <= end for start, end in every)]
    for kind, some in {**spans, "work and upload": between}.items():
        lasting = [(start + end) / 2 for start, end in some if start < end]
        yield from ((kind, time_s) for time_s in dict.fromkeys(lasting[:1] + lasting[-1:]))


@pytest.mark.parametrize("name", INSIDE)
def test_killed_inside_any_phase_it_goes_on_to_the_same_bytes(name, tmp_path):
    protocol, extra = INSIDE[name]
    fails = FAILING.get(protocol, "share: 0.03, unmask: 0.1")
    failure = f"devices.failure={{name: bernoulli, probability: 0.03, phases: {{{fails}}}}}"
    made = real(protocol, failure, "trace=events", *extra)
    whole = run(made, tmp_path / "whole").path
    expected, spans, kinds = files(whole), spans_of(rows(whole, "phases.csv")), set()
    for kind, time_s in instants_inside(spans):
        kinds.add(kind)
        out = tmp_path / f"{kind} {time_s}"
        assert killed_at_time(time_s, lambda out=out: run(made, out))
        assert killed_at_time(time_s, lambda out=out: run(made, out)), "also before it has come any further"
        assert files(run(made, out).path) == expected, (kind, time_s)
    if name == "basecagg without a clock":
        assert kinds == {"unmask", "work and upload"}, "its other phases take no time"
    elif protocol == "basecagg":
        assert kinds >= set(PROTOCOL[protocol].phases)
        saved = [float(row["time_s"]) for row in rows(whole, "rounds.csv")]
        for kind in ("share", "deliver"):
            assert any(start < at < end for at in saved for start, end in spans[kind]), "checkpoints hold such jobs"
    else:
        set_up = {"setup"} if protocol in ("pairwise_ratchet", "flamingo", "opa") else set()
        assert kinds == {*PROTOCOL[protocol].phases, *set_up, "work and upload"}


def test_clients_fail_in_phases(tmp_path):
    """Everybody in the last phase: nothing is summed, and the table says why; a tenth in each: some rounds are."""
    none = run(real("secagg", "devices.failure={name: bernoulli, probability: 0, phases: {unmask: 1}}"), tmp_path)
    assert none.summary["skipped"] == 6
    reasons = [row["failure"] for row in rows(none.path, "phases.csv") if row["phase"] == "unmask"]
    assert reasons and all("0 shares of a client's secret came" in reason for reason in reasons)
    rates = "{name: bernoulli, probability: 0, phases: {advertise: 0.1, share: 0.1, unmask: 0.1}}"
    some = run(real("secagg", f"devices.failure={rates}", "training.rounds=40", "learning={name: none}"), tmp_path)
    table = rows(some.path, "phases.csv")
    for phase in ("advertise", "share", "unmask"):
        asked, heard = (sum(int(row[key]) for row in table if row["phase"] == phase) for key in ("asked", "answered"))
        assert abs(heard / asked - 0.9) < 4 * (0.09 / asked) ** 0.5 and 0 < heard < asked


def test_phases_do_not_move_the_draws_of_the_work(tmp_path):
    one = run(real("secagg", "devices.failure={name: bernoulli, probability: 0.1, phases: {unmask: 0}}"), tmp_path)
    other = run(real("secagg", "devices.failure={name: bernoulli, probability: 0.1}"), tmp_path)
    assert tables(one.path) == tables(other.path)


def test_late_answers_of_a_phase(tmp_path):
    """A deadline of less than a way leaves nobody."""
    done = run(real("secagg", "secagg.deadline_s=0.001"), tmp_path)
    assert done.summary["skipped"] == 6
    assert {row["failure"][:9] for row in rows(done.path, "phases.csv")} == {"advertise"}


LOSSES = ("network.loss=0.05", "training.deadline_s=9", "secagg.deadline_s=2")


@pytest.mark.parametrize("name", PROTOCOLS)
def test_beside_lost_messages_a_protocol_runs_or_is_refused_when_it_is_read(name, tmp_path):
    """With whatever deadlines: what is set up before the first round has none."""
    for given in (LOSSES, LOSSES[:2], LOSSES[:1]):
        try:
            scenario = real(name, *given)
        except InvalidScenario as error:
            assert "network.loss: " in str(error)
            assert given != LOSSES or name in ("pairwise_ratchet", "flamingo", "opa")
        else:
            done = run(scenario, tmp_path)
            least = min(int(row["tolerated"] or 9) for row in rows(done.path, "phases.csv"))
            assert done.summary["tolerated_colluders"] <= least
            assert least >= 0 or done.summary["guarantee_weak"] == 1


# -- what cannot be secure ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "overrides, why",
    [
        (("secagg=secagg", *FEDBUFF), "needs one cohort from its first phase to its last"),
        (("secagg=basecagg",), "is for buffers of updates of any age"),
        (("secagg=secagg", "training.aggregate=median", "training.weighting=equal"), "needs single updates"),
        (("secagg={name: secagg, weight_channel: false}",), "weights differ"),
        (("secagg={name: secagg, min_sum: 9}",), "is 9, but 8 are summed"),
        (("secagg={name: lightsecagg, private: 0.8}",), "must be above private"),
        (("secagg={name: secagg_plus, corrupted: 0.5, dropped: 0.3}",), "use secagg"),
        (("secagg={name: secagg_plus, neighbours: 4}",), "given together"),
        (("secagg={name: secagg_plus, neighbours: 4, threshold: 5}",), "no more can answer"),
        (("secagg={name: secagg, scale: 3.0e+10}",), "2^36"),
        (("secagg=basecagg", FEDBUFF[0].replace("equal", "samples")), "normaliser: weight_sum"),
        (("secagg=basecagg", FEDBUFF[0].replace("rounds", "unit_weights: own, rounds")), "unit_weights: common"),
        (("secagg=secagg", "devices.failure={name: bernoulli, probability: 0, phases: {unmsk: 0.1}}"), "'unmask'"),
    ],
)
def test_what_cannot_be_is_refused(overrides, why):
    with pytest.raises(InvalidScenario, match=why.replace("^", r"\^")):
        Scenario.parse(REAL, "real", overrides)


def test_a_resolved_scenario_is_read_back(tmp_path):
    for name in PROTOCOLS:
        made = real(name)
        (tmp_path / "again.yaml").write_text(made.to_yaml())
        assert Scenario.load(tmp_path / "again.yaml").digest == made.digest
        assert json.loads(json.dumps(made.plain()))["secagg"]["min_sum"] == 2


def test_a_weight_costs_an_element(tmp_path):
    text = of_costs(n=4, d=10, protocol="secagg")
    equal, samples = (
        rows(run(Scenario.parse(text, "costs", [f"training.weighting={kind}"]), tmp_path).path, "rounds.csv")[0]
        for kind in ("equal", "samples")
    )
    assert int(samples["bytes_up"]) - int(equal["bytes_up"]) == 4 * 4
    assert samples["bytes_down"] == equal["bytes_down"]


def test_rounds_tell_what_the_phases_cost(tmp_path):
    """Besides the upload: 2 + 2 + 2 ways of half a second, and all bytes that are not the model's or sent with it."""
    (row,) = costs(tmp_path, "secagg", n=10, d=10)
    assert float(row["secagg_s"]) == pytest.approx(3.0)
    assert int(row["secagg_bytes"]) == 10 * ((64 + 100 * 9 + 40 * 9) + (68 * 9 + 2))
    done = run(real("basecagg"), tmp_path)
    phases = rows(done.path, "phases.csv")
    for t, row in enumerate(rows(done.path, "rounds.csv")):
        mine = [int(one["bytes_up"]) + int(one["bytes_down"]) for one in phases if int(one["round"]) == t]
        assert int(row["secagg_bytes"]) == sum(mine)


@pytest.mark.parametrize("protocol", ["lightsecagg", "basecagg", "secagg", "flamingo", "opa"])
def test_without_learning_the_coordinates_that_stages_add_are_no_update(tmp_path, protocol):
    """The session's masks have the length of an update; what is summed then has that of the added coordinate."""
    rule = "{name: fedbuff, concurrency: 6, buffer: 4, rounds: 3, weighting: equal}"
    if protocol != "basecagg":
        rule = "{name: fedavg, rounds: 3, weighting: equal}"
    text = f"""
clients: 12
selection: {{name: random, k: {1 if protocol == "basecagg" else 6}}}
training: {rule}
learning: {{name: none, parameters: 4, samples: 1}}
secagg: {protocol}
privacy: {{name: multi_round, stages: [{{name: adaptive_gaussian, noise_multiplier: 1.0, bit_std: 0.6}}]}}
"""
    assert run(Scenario.parse(text, "s"), tmp_path).summary["rounds"] == 3
