"""What secure aggregation costs, loses and refuses, as theory, validate, doctor and rounds.csv say it."""

import json
import re
from itertools import combinations
from timeit import default_timer

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from simfl.agents.aggregation.expected import costs, expected_costs
from simfl.cli import doctor
from simfl.cli import simfl as group
from simfl.core.rng import Streams
from simfl.runs.run import build, run
from simfl.scenario import InvalidScenario, Scenario
from simfl.secagg.base import PROTOCOLS
from simfl.secagg.sessions import Cohort, PreparedUnits, SessionFailure, SessionResult
from tests.secagg.test_world import NO_RATES, real, rows
from tests.support.invariants import _phases_add_up, _Run
from tests.support.random_scenarios import random_scenario

D = 1_663_370
TEXT = """
clients: {n}
network: {{name: star, latency_s: 0.5}}
selection: {{name: random, k: {n}}}
learning: {{name: none, parameters: {d}}}
training: {{name: fedavg, rounds: 2, weighting: equal}}
secagg: {secagg}
"""
FEDBUFF = "training={name: fedbuff, rounds: 1, weighting: equal, concurrency: 1, buffer: 4}"


def scenario(secagg, *overrides, n=10, d=1000):
    return Scenario.parse(TEXT.format(n=n, d=d, secagg=secagg), "costs", overrides)


# -- theory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "secagg, overrides",
    [
        ("plain", ()),
        ("secagg", ()),
        ("{name: secagg_plus, neighbours: 6, threshold: 4}", ()),
        ("lightsecagg", ()),
        ("pairwise_ratchet", ()),
        ("{name: flamingo, security_bits: 256}", ()),
        ("opa", ()),
        ("basecagg", (FEDBUFF,)),
        ("basecagg", (FEDBUFF, "selection={name: batch_partition, k: 10, T: 2}", "training.concurrency=2")),
        ("plain", (FEDBUFF,)),
    ],
)
def test_theory_foretells_the_bytes_and_the_time_of_a_run(secagg, overrides, tmp_path):
    """Nobody fails and latency is one for all; the last round, as a setup counts for the first."""
    found = scenario(secagg, *overrides)
    theory = expected_costs(build(found))
    table = rows(run(found, tmp_path).path, "rounds.csv")
    row = table[-1]
    assert (int(row["bytes_down"]), int(row["bytes_up"])) == (theory["bytes_down"], theory["bytes_up"])
    clear = theory["clear_bytes_down"] + theory["clear_bytes_up"]
    assert clear == theory["clients"] * 8000 and int(row.get("clear_bytes", clear)) == clear
    if len(table) > 1:
        assert float(row["time_s"]) - float(table[-2]["time_s"]) == pytest.approx(theory["ways_s"], rel=1e-9)
        assert theory["ways_s"] == pytest.approx(theory["round_s"], rel=1e-9), "nothing is trained, and lines are wide"


SIDES = ("down", "up")


def without_failures(rng):
    """A random scenario of one synchronous round in which everybody is there and nobody fails."""
    while True:
        found, _ = random_scenario(rng)
        changes = ["devices.availability=always", "devices.failure=none", "training.rounds=1", "trace=rounds",
                   "training.announce=true" if rng.random() < 0.5 else "training.deadline_s=null"]  # fmt: skip
        if rng.random() < 0.7:
            changes.append("training.quorum=null")
        if rng.random() < 0.3:
            changes += [f"selection={{name: power_of_choice, k: 2, d: {found.clients}}}", "privacy=none",
                        "learning={data: digits, model: logistic}", "training.learning_rate=0.1"]  # fmt: skip
        if rng.random() < 0.5:
            changes.append(f"secagg={rng.choice(['plain', 'ideal', 'secagg', 'secagg_plus', 'lightsecagg'])}")
        try:
            made = Scenario.parse(found.to_yaml(), "random", changes)
        except InvalidScenario:
            continue
        if made.training.server == "synchronous":
            return made


@pytest.mark.parametrize("seed", range(40))
def test_theory_foretells_the_first_round_of_any_scenario_without_failures(seed, tmp_path):
    """Bytes, those in clear and time; set-ups, of which theory speaks apart, are taken off."""
    found = without_failures(np.random.default_rng(seed))
    theory = expected_costs(build(found))
    folder = run(found, tmp_path).path
    (row,) = rows(folder, "rounds.csv")
    if theory["clients"] is None or "refused" in theory:
        return
    once = [each for each in theory["phases"] if not each["times"]]
    ran = rows(folder, "phases.csv") if (folder / "phases.csv").exists() else []
    setup_s = sum(float(each["ended_s"]) - float(each["started_s"]) for each in ran
                  if each["phase"] in {phase["phase"] for phase in once})  # fmt: skip
    assert theory["round_s"] is None or theory["round_s"] == pytest.approx(float(row["time_s"]) - setup_s, rel=1e-9)
    assert theory["round_s"] is not None or not int(row["cardinality"])
    if not theory["sure"] or any(int(row.get(name) or 0) for name in ("late", "failed", "skipped")):
        return
    if any(each["asked"] != each["answered"] for each in ran):  # a protocol that waits for enough shares only
        return
    for side in SIDES:
        setup = sum(each["asked"] * each[f"bytes_{side}"] for each in once)
        assert int(row[f"bytes_{side}"]) - setup == theory[f"bytes_{side}"], side
    if row.get("clear_bytes"):
        assert int(row["clear_bytes"]) == sum(theory[f"clear_bytes_{side}"] for side in SIDES)


@pytest.mark.parametrize("secagg", ["plain", "secagg"])
@pytest.mark.parametrize("stages", ["[]", "[{name: adaptive_gaussian, bit_std: 9}]"])
def test_theory_counts_what_stages_and_reports_add_to_an_update(secagg, stages, tmp_path):
    """A coordinate of 4 bytes more, and 8 for the loss; 4 for the divisor where it is masked with the sum."""
    text = """
clients: 12
selection: {name: oort, k: 4, scalars: clear}
training: {name: fedavg, rounds: 2, weighting: equal}
learning: {data: digits, model: logistic}
"""
    found = Scenario.parse(text, "oort", [f"secagg={secagg}", f"privacy={{accountants: [], stages: {stages}}}"])
    theory, row = expected_costs(build(found)), rows(run(found, tmp_path).path, "rounds.csv")[-1]
    clear = 4 * 650 + 4 * (stages != "[]") + 8
    assert theory["clear_bytes_up"] == 4 * clear and theory["bytes_up"] == int(row["bytes_up"])
    assert int(row.get("clear_bytes", row["bytes_up"])) == 4 * clear + (4 * 4 * 650 if secagg == "secagg" else 0)


def of(name, n, **fields):
    plugin = PROTOCOLS.of({"name": name, **fields})
    return plugin, Cohort(0, np.arange(n, dtype=np.int32).reshape(-1, 1), D, n)


def test_published_bytes_and_server_work():
    """The specification's table; the server expands n masks of d words, or multiplies U by d and U by U by U."""
    secagg = costs(*of("secagg", 100), False, (4 * D, 4 * D), Streams(0))
    assert secagg["client"]["bytes_up"] == 6_667_404 and secagg["client"]["bytes_down"] - 4 * D == 16_645
    assert secagg["work"]["elements"]["server"] == 100 * D and secagg["ways"] == [6, 2]
    assert secagg["work"]["agreements"] == {"client": 2 * 99, "server": 0}
    light = costs(*of("lightsecagg", 100), False, (4 * D, 4 * D), Streams(0))
    assert light["client"]["bytes_up"] == 39_923_092 and sum(light["ways"]) == 6
    assert light["work"]["products"]["server"] == 70 * (D + 70**2)
    plain = costs(*of("plain", 100), False, (4 * D, 4 * D), Streams(0))
    assert plain["client"] == {"bytes_down": 4 * D, "bytes_up": 4 * D, "seconds": 0} and sum(plain["ways"]) == 2


def test_seconds_are_operations_times_rates():
    protocol, cohort = of("secagg", 20, rates={"agreement_s": 2.0, "element_s": 0.5, "product_s": 7.0, "share_s": 3.0})
    found = costs(protocol, cohort, False, (0, 0), Streams(0))
    for who, seconds in (("client", found["client"]["seconds"]), ("server", found["server_s"])):
        done = {kind: count[who] for kind, count in found["work"].items()}
        assert seconds == 2 * done["agreements"] + 0.5 * done["elements"] + 7 * done["products"] + 3 * done["shares"]


@pytest.mark.parametrize("T", [1, 2])
def test_a_job_costs_what_is_sent_to_others_for_it_too(T):
    """Units of one size: the bytes of all messages before the sum, over the jobs that they are sent for."""
    unit = [f"selection={{name: batch_partition, k: 10, T: {T}}}", f"training.concurrency={T}"] if T > 1 else []
    theory = expected_costs(build(scenario("basecagg", FEDBUFF, *unit)))
    before = [row for row in theory["phases"] if row["times"] == 4 // T]
    assert {row["phase"] for row in before} == {"share", "deliver", "work"}
    for side in ("bytes_down", "bytes_up"):
        assert theory["client"][side] == pytest.approx(sum(row["asked"] * row[side] for row in before) / T)


def test_all_clients_set_up_though_few_are_summed(tmp_path):
    found = scenario("pairwise_ratchet", "selection.k=4")
    (once, work) = expected_costs(build(found))["phases"]
    first, second = rows(run(found, tmp_path).path, "rounds.csv")
    assert (once["times"], once["asked"], work["asked"]) == (0, 10, 4)
    assert int(first["bytes_up"]) - int(second["bytes_up"]) == once["asked"] * once["bytes_up"] == 10 * 9 * 32


def test_the_ratchet_pays_for_its_masks():
    found = costs(*of("pairwise_ratchet", 10), False, (0, 0), Streams(0))
    assert found["work"]["elements"]["client"] == 9 * D


@pytest.mark.parametrize("rate, known", [((0.05, 0.05), (22, 6)), ((0.1, 0.1), (32, 11)), ((0.2, 0.05), (38, 21))])
def test_neighbours_and_threshold_of_published_rates(rate, known):
    protocol, cohort = of("secagg_plus", 100, corrupted=rate[0], dropped=rate[1])
    found = protocol.known(cohort)
    assert (found["neighbours"], found["threshold"]) == known
    assert (found["colluding_at_random"], found["dropouts_at_random"]) == tuple(int(100 * part) for part in rate)


def ends(protocol, cohort, lost):
    """The protocol's end where ``lost`` says who, of the clients, fails in which phase."""

    def talk(found):
        try:
            ask = next(found)
            while True:
                ask = found.send(~np.isin(ask.to, [c for c, phase in lost.items() if phase == ask.kind]))
        except StopIteration as end:
            return end.value

    prepared = talk(protocol.prepare(cohort, Streams(0)))
    if isinstance(prepared, SessionFailure):
        return prepared
    assert isinstance(prepared, PreparedUnits)
    up = prepared.kept_units[:, None] & ~np.isin(cohort.units, [c for c, phase in lost.items() if phase == "upload"])
    gone = [c for c, phase in lost.items() if phase not in ("handover", "crosscheck", "unmask", "upload")]
    return talk(protocol.recover(cohort, up & ~np.isin(cohort.units, gone), [prepared.secret], Streams(0)))


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(
    "name, fields",
    [
        ("secagg", {"threshold": 0.2}),
        ("secagg", {"threshold": 0.5}),
        ("secagg_plus", {"neighbours": 4, "threshold": 2}),
        ("lightsecagg", {"private": 0.2, "survivors": 0.5}),
        ("lightsecagg", {"private": 0.5, "survivors": 0.7}),
        ("flamingo", {}),
        ("opa", {"private": 0.2, "survivors": 0.5}),
        ("opa", {"private": 0.5, "survivors": 0.7}),
    ],
)
def test_dropouts_are_tolerated_up_to_the_number_that_theory_says(name, fields, size):
    """Every set of clients, in every one phase: as many never break a sum, and one more sometimes does."""
    plugin = PROTOCOLS.of({"name": name, **fields})
    cohort = Cohort(0, np.arange(6, dtype=np.int32).reshape(-1, size), 10, 6)
    most, broken = plugin.known(cohort)["dropouts"], False
    for count in range(most + 2):
        for phase in (*plugin.phases, "upload"):
            for who in combinations(range(6), count):
                end = ends(plugin, cohort, dict.fromkeys(who, phase))
                assert count > most or isinstance(end, SessionResult), (who, phase)
                broken |= isinstance(end, SessionFailure)
    assert broken


def test_theory_is_printed_and_is_json(tmp_path):
    file = tmp_path / "costs.yaml"
    file.write_text(TEXT.format(n=100, d=D, secagg="secagg_plus"))
    text = CliRunner().invoke(group, ["theory", str(file)], catch_exceptions=False).output
    assert "6,658,024 a client and round; in clear 6,653,480" in text and "8 L and" in text
    for name, value in (("neighbours", 32), ("threshold", 11), ("dropouts at random", 10)):
        assert f"\n{name:<22}{value}\n" in text
    found = json.loads(CliRunner().invoke(group, ["theory", str(file), "--json"]).output)
    assert found["k"] == 100 and found["secagg"]["known"]["threshold"] == 11
    assert found["secagg"]["protocol"] == "secagg_plus" and found["secagg"]["latency_s"] == 0.5


def test_theory_says_what_it_does_not_know(tmp_path):
    file = tmp_path / "costs.yaml"
    file.write_text(TEXT.format(n=100, d=10, secagg="secagg"))
    some = CliRunner().invoke(group, ["theory", str(file), "selection=bernoulli:k=10"], catch_exceptions=False)
    assert some.exit_code == 0 and "about 10 updates" in some.output
    lost = ["theory", str(file), "learning={data: {name: npz, path: nowhere.npz}, model: mlp}"]
    assert CliRunner().invoke(group, lost).exit_code in (2, 5)


# -- rates ------------------------------------------------------------------------------------------------


def test_measured_rates_are_pasted_under_secagg(tmp_path, monkeypatch):
    """Each operation is really done, here once; the YAML says what the JSON says, and a scenario takes it."""
    done = iter([3e-5, 2e-5, 1.2345e-4, 5e-9, 1e-9])
    monkeypatch.setattr(doctor, "_seconds", lambda operation, clock: (operation(), next(done))[1])
    monkeypatch.setattr("simfl.learning.backends.rates.REPEATS", 1)
    printed = CliRunner().invoke(group, ["doctor", "--rates"], catch_exceptions=False).output
    found = yaml.safe_load(printed)["rates"]
    assert found["agreement_s"] == 1.23e-4 and found["element_s"] == float(f"{5e-9 / doctor.MASKS / 2**20:.2e}")
    assert found["share_s"] == pytest.approx((3e-5 / 100 + 2e-5 / 51) / 2, rel=0.01)
    file = tmp_path / "pasted.yaml"
    pasted = "".join(f"  {line}\n" for line in printed.splitlines())
    file.write_text(TEXT.format(n=10, d=10, secagg="\n  name: secagg") + pasted)
    assert CliRunner().invoke(group, ["validate", str(file)]).exit_code == 0
    assert Scenario.load(file).secagg.rates.element_s == found["element_s"] > 0


def test_an_operation_is_measured(monkeypatch):
    monkeypatch.setattr(doctor, "REPEATS", 1)
    quick, slow = (doctor._seconds(work, default_timer) for work in (lambda: None, lambda: sum(range(10_000))))
    assert 0 < quick < slow


# -- rounds.csv -------------------------------------------------------------------------------------------

LOSSY = "devices.failure={{name: bernoulli, probability: 0.1, phases: {{{}}}}}"


@pytest.mark.parametrize(
    "name", ["secagg", "secagg_plus", "lightsecagg", "pairwise_ratchet", "flamingo", "opa", "basecagg"]
)
def test_every_round_tells_what_failed_in_which_phase(name, tmp_path):
    phases = {"lightsecagg": ("share", "unmask"), "pairwise_ratchet": (), "basecagg": ("share", "deliver", "unmask"),
              "flamingo": ("handover", "crosscheck", "unmask"), "opa": ("unmask",)}  # fmt: skip
    mine = phases.get(name, ("advertise", "share", "unmask"))
    failure = LOSSY.format(", ".join(f"{phase}: 0.1" for phase in mine))
    folder = run(real(name, failure, "trace=events", "network.latency_s=0.1"), tmp_path).path
    assert list(_phases_add_up(_Run(folder))) == []
    table = rows(folder, "rounds.csv")
    assert {column for column in table[0] if column.startswith("failed_")} == {f"failed_{p}" for p in ("upload", *mine)}
    for phase in mine:
        assert sum(int(row[f"failed_{phase}"]) for row in table) > 0
    assert sum(int(row["failed_upload"]) for row in table) > 0
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["clear_bytes"] < summary["bytes_down"] + summary["bytes_up"] - summary["secagg_bytes"] + 1


def test_who_is_not_waited_for_has_not_failed(tmp_path):
    """LightSecAgg goes on with the first answers that decode; the others are only slower."""
    folder = run(real("lightsecagg", "devices.failure=none"), tmp_path).path
    last = [phase for phase in rows(folder, "phases.csv") if phase["phase"] == "unmask"]
    assert any(int(phase["answered"]) < int(phase["asked"]) for phase in last)
    assert all(phase["failed"] == "0" for phase in last)
    assert all(row["failed_unmask"] == row["failed_share"] == row["failed_upload"] == "0"
               for row in rows(folder, "rounds.csv"))  # fmt: skip


def test_late_answers_count_as_failed(tmp_path):
    text = f"{{name: secagg, deadline_s: 0.9, {NO_RATES}}}"
    (row, _) = rows(run(scenario(text), tmp_path).path, "rounds.csv")
    assert (row["failed_advertise"], row["secagg_failed"], row["skipped"]) == ("10", "1", "1")


# -- what cannot be summed --------------------------------------------------------------------------------

ASYNC = "training={{name: fedbuff, rounds: 2, weighting: equal{}}}"


@pytest.mark.parametrize(
    "secagg, overrides, message",
    [
        (
            "secagg",
            ("training.client=scaffold",),
            "control variate, which secagg: secagg does not cover; use training.client: plain or",
        ),
        ("secagg", ("training.aggregate=median",), "needs single updates, which secagg hides; use mean"),
        ("secagg", (ASYNC.format(""),), "needs one cohort from its first phase to its last"),
        ("secagg", ("selection.k=1",), "one update is not hidden; use secagg: plain"),
        ("{name: secagg, clip: 1.0e+9}", (), "leaves 10 updates no room in the field; the largest is 214748363"),
        ("{name: secagg, clip: 4, scale: 6.0e+9}", ("selection.k=100", "clients=100"), None),
        ("basecagg", (ASYNC.format(", mix: models"),), "before the model exists"),
        ("basecagg", (ASYNC.format(", buffer: 1"),), "one update is not hidden"),
        ("basecagg", (), "is for buffers"),
        ("{name: secagg_plus, neighbours: 10, threshold: 5}", (), "each of 10 clients has 9 others; .* number is 8"),
        ("{name: lightsecagg, min_sum: 11}", (), "the nearest value is 10"),
    ],
)
def test_what_masks_cannot_sum_is_refused_before_the_run(secagg, overrides, message):
    if message is None:
        assert scenario(secagg, *overrides)
        return
    with pytest.raises(InvalidScenario, match=message):
        scenario(secagg, *overrides)


def test_scaled_staleness_is_no_fraction():
    """3 x s(0) / s(0) need not be 3 to the last bit."""
    for reference in (1, 2, 5, 9):
        more = f", staleness: polynomial, reference_staleness: {reference}, weighting: samples, normaliser: weight_sum"
        assert scenario("basecagg", ASYNC.format(more).replace("weighting: equal", "retry_s: 1"))


def test_a_variant_that_trains_parts_is_refused(tmp_path):
    (tmp_path / "parts.py").write_text(
        "from dataclasses import dataclass\nfrom simfl.plugins.clients import CLIENTS, ClientAlgorithm\n\n"
        "@CLIENTS('halves')\n@dataclass(frozen=True)\nclass Halves(ClientAlgorithm):\n    partial = True\n"
    )
    text = TEXT.format(n=10, d=10, secagg="secagg") + "plugins: [parts.py]\n"
    with pytest.raises(InvalidScenario, match="halves sends the mask of the coordinates .* use secagg: plain"):
        Scenario.parse(text, "costs", ["training.client=halves"], folder=tmp_path)


def test_the_largest_clip_that_is_named_is_the_largest():
    assert scenario("{name: secagg, clip: 214748363.0}").secagg.clip == 214748363
    with pytest.raises(InvalidScenario, match="no room"):
        scenario("{name: secagg, clip: 214748364.0}")


@pytest.mark.parametrize(
    "secagg, overrides, caution",
    [
        ("pairwise_ratchet", ("devices.failure=bernoulli:probability=0.1",), "about 65 % of the sums fail"),
        ("secagg", ("selection.k=2",), "each client can subtract its own update"),
        ("{name: secagg, scale: 1.0e+3}", (), "sums can wrap around"),
        ("lightsecagg", ("devices.failure=bernoulli:probability=0.4",), "about 4 of 10 clients fail .* more than 3"),
        ("{name: secagg, threshold: 0.95}", ("devices.failure=bernoulli:probability=0.3",), "about 97 % of the sums"),
        ("{name: secagg, threshold: 0.95}", (), None),
        ("secagg", ("training.quorum=5",), "up to 5 of 10 clients out, and more than 4 may break a sum"),
        ("secagg", ("training.quorum=0.55",), None),
        ("secagg", (), None),
        ("plain", ("training.quorum=1",), None),
        ("plain", (), None),
    ],
)
def test_validate_notes_what_is_perhaps_not_meant(secagg, overrides, caution, tmp_path):
    file = tmp_path / "noted.yaml"
    file.write_text(scenario(secagg, *overrides).to_yaml())
    found = CliRunner().invoke(group, ["validate", str(file)], catch_exceptions=False)
    assert found.exit_code == 0 and ("note: secagg: " in found.output) == (caution is not None)
    if caution:
        assert re.search(caution, found.output)
    (report,) = json.loads(CliRunner().invoke(group, ["validate", str(file), "--json"]).output)
    assert bool(report["cautions"]) == (caution is not None)


@pytest.mark.parametrize(
    "name", ["secagg", "secagg_plus", "lightsecagg", "pairwise_ratchet", "flamingo", "opa", "basecagg"]
)
def test_clients_without_samples_hide_nobody(name):
    """Of four clients three hold nothing: no sum of two that hide one another; with one more there is."""
    fields = {"neighbours": 2, "threshold": 1} if name == "secagg_plus" else {}
    plugin = PROTOCOLS.of({"name": name, "min_sum": 2, **fields})
    units = np.arange(4, dtype=np.int32).reshape(-1, 1)
    for holding, good in ((1, False), (2, True)):
        cohort = Cohort(0, units, 10, 4, empty=np.arange(4) >= holding)
        end = ends(plugin, cohort, {}) if name != "basecagg" else _buffered(plugin, cohort)
        assert isinstance(end, SessionResult) == good
        assert good or "a sum needs 2" in end.reason


def _buffered(plugin, cohort):
    one = plugin.prepare(cohort, Streams(0))
    asked = next(one)
    asked = one.send(np.ones(len(asked.to), dtype=bool))
    with pytest.raises(StopIteration) as end:
        one.send(np.ones(len(asked.to), dtype=bool))
    talk = plugin.recover(cohort, np.ones((4, 1), dtype=bool), [end.value.value.secret], Streams(0))
    try:
        asked = next(talk)
        talk.send(np.ones(len(asked.to), dtype=bool))
    except StopIteration as end:
        return end.value


def test_theory_says_what_a_protocol_costs_that_is_taken_for_granted(tmp_path):
    """In a line, and the same as of the scenario with that protocol; nothing beside a real one."""
    path = tmp_path / "s.yaml"
    path.write_text(TEXT.format(n=10, d=1000, secagg="ideal"))
    told = {}
    for secagg in ("ideal", "secagg"):
        found = CliRunner().invoke(group, ["theory", str(path), f"secagg={secagg}", "--json"])
        told[secagg] = json.loads(found.stdout)
    real, said = told["secagg"], told["ideal"]["real_protocol"]
    assert real["real_protocol"] == {} and said["protocol"] == "secagg"
    assert said == {"protocol": "secagg"} | {key: real["secagg"][key] for key in said if key != "protocol"}
    assert said["round_s"] > 2 * told["ideal"]["secagg"]["round_s"]
    (line,) = [
        line for line in CliRunner().invoke(group, ["theory", str(path)]).stdout.splitlines() if "left out  " in line
    ]
    assert f"{said['bytes_up']:,} bytes up" in line and f"takes {said['round_s']:.3g} s" in line
