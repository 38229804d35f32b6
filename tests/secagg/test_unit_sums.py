"""A secure sum of each unit: what the aggregate is given, what the server is said to have, and what is refused."""

import csv
import json
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.optimize import minimize

from simfl.agents.aggregation.pipeline import AggregationPipeline
from simfl.api.theory import theory
from simfl.cli import simfl
from simfl.cli.validate_plugins import verdict_on
from simfl.core.columns import Column
from simfl.core.errors import PluginError
from simfl.core.payload import SUMMABLE
from simfl.core.registration.family_index import undone
from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.report.live.watched_folder import WatchedFolder
from simfl.runs.accounting import view_of_run
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from simfl.secagg.base import PROTOCOLS
from simfl.secagg.sessions import ClientUpdates, Cohort
from simfl.training.aggregates import AGGREGATES, Mean
from tests.support import privacy_brute
from tests.support.damages import unfinish
from tests.support.kills import files, killed_at_time
from tests.training.test_robust import krum_winner

SCENARIO = """
name: units
clients: 24
seed: 3
network: {name: star, latency_s: {name: uniform, low: 0.1, high: 0.4}}
selection: {name: batch_partition, k: 15, T: 3}
training: {name: fedavg, rounds: 4, batch_size: 16, learning_rate: 0.3, weighting: equal}
learning: {data: {name: synthetic, samples: 480, test_samples: 60, shape: [4], classes: 3}, model: logistic}
secagg: {name: unit_sums, protocol: secagg}
privacy: multi_round
metrics: [attackers]
"""
POLICIES = {
    "batch_partition": "selection={name: batch_partition, k: 15, T: 3}",
    "half_partition": "selection={name: half_partition, k: 8, T: 4}",
    "partition": "selection={name: partition, k: 6}",
}
AGGREGATED = {
    "mean": {}, "median": {}, "trimmed_mean": {"trim": 0.25}, "krum": {"f": 0}, "multi_krum": {"f": 0, "m": 2},
    "bulyan": {"f": 0}, "geometric_median": {}, "norm_bound": {"bound": 0.05},
    "centred_clipping": {"radius": 0.05}, "fltrust": {"samples": 40}, "bucketed": {"rule": "median"}, "masked": {},
    "shrunk": {},
}  # fmt: skip
INNER = {
    "ideal": "ideal", "secagg": "secagg", "secagg_plus": "{name: secagg_plus, neighbours: 2, threshold: 2}",
    "lightsecagg": "{name: lightsecagg, private: 0.2}",
}  # fmt: skip


def parse(*more):
    return Scenario.parse(SCENARIO, "units", more)


def play(folder, *more):
    path = run(parse(*more), folder).path
    return np.load(path / "model.npy"), rows(path / "rounds.csv"), json.loads((path / "summary.json").read_text()), path


def rows(path):
    with open(path, newline="") as lines:
        return list(csv.DictReader(lines))


@contextmanager
def watched():
    """What clients sent and what came of it, and what the aggregate was given, round by round."""
    seen, summed, counted = [], AggregationPipeline.sum, AggregationPipeline._count_shares

    def add(self, number, jobs, updates, staleness, model, done):
        seen.append({"opened": done.opened, "sent": updates.deltas, "clients": [job.client for job in jobs]})
        result = summed(self, number, jobs, updates, staleness, model, done)
        seen[-1] |= {"vector": result.total.vector, "believed": result.believed}
        return result

    def believe(self, updates, done, compared, *rest):
        seen[-1]["means"] = compared[0].copy()
        return counted(self, updates, done, compared, *rest)

    with mock.patch.multiple(AggregationPipeline, sum=add, _count_shares=believe):
        yield seen


def means_of(done):
    """The mean update of each unit, by its clients."""
    place = {client: i for i, client in enumerate(done["clients"])}
    return np.array([np.mean([done["sent"][place[client]] for client in unit], axis=0) for unit in done["opened"]])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("inner", INNER)
def test_without_attackers_the_mean_is_that_of_federated_averaging(inner, policy, tmp_path):
    more = POLICIES[policy], "learning.partition={name: quantity}", "training.weighting=samples"
    model, *_ = play(tmp_path / "a", *more, f"secagg={{name: unit_sums, protocol: {INNER[inner]}}}")
    plain, *_ = play(tmp_path / "b", *more, "secagg=plain")
    assert np.allclose(model, plain, rtol=1e-5, atol=2e-6)


def test_the_mean_of_whole_numbers_is_exact():
    """Units of two, so that floats divide exactly."""
    protocol = PROTOCOLS.of({"name": "unit_sums", "protocol": "ideal", "size": 2})
    clients = np.arange(8, dtype=np.int32)
    vectors = np.random.default_rng(0).integers(-100, 100, (8, 5)).astype(np.float32)
    cohort = Cohort(0, clients.reshape(-1, 2), 5, 8)
    session = protocol.recover(cohort, np.ones((4, 2), dtype=bool), [dict.fromkeys(range(4))], Streams(0))
    with pytest.raises(StopIteration) as end:
        next(session)
    jobs = tuple(Job.of(0, client, 0, 0.0) for client in range(8))
    sent = ClientUpdates(jobs, vectors, None, np.ones(8), np.ones(8, dtype=np.int64), np.sum, Mean().combine)
    assert np.array_equal(protocol.add(end.value.value, sent, Streams(0)).vector, vectors.mean(axis=0))


def smallest_distance_sum(vectors):
    found = minimize(lambda point: np.linalg.norm(vectors - point, axis=1).sum(), vectors.mean(axis=0), tol=1e-12)
    return found.x


BY_HAND = {
    "mean": lambda units: units.mean(axis=0),
    "median": lambda units: np.median(units, axis=0),
    "trimmed_mean": lambda units: np.sort(units, axis=0)[len(units) // 4 : len(units) - len(units) // 4].mean(axis=0),
    "krum": lambda units: units[int(np.argmin(krum_winner(units, 0)))],
    "multi_krum": lambda units: units[np.argsort(krum_winner(units, 0), kind="stable")[:2]].mean(axis=0),
    "geometric_median": smallest_distance_sum,
    "norm_bound": lambda units: np.mean([x * min(1, 0.05 / np.linalg.norm(x)) for x in units], axis=0),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", AGGREGATED)
def test_every_aggregate_is_of_the_means_of_units(name, policy, tmp_path):
    """By small programs of their definitions; what these do not know is asked of the rule, with the same means."""
    fields = ", ".join(f"{key}: {value}" for key, value in AGGREGATED[name].items())
    more = POLICIES[policy], f"training.aggregate={{name: {name}, {fields}}}", "secagg.protocol=ideal"
    with watched() as seen:
        _, written, summary, _ = play(tmp_path, *more)
    for done, row in zip(seen, written, strict=True):
        units = means_of(done)
        assert np.allclose(done["means"], units, atol=1e-6)
        if name in BY_HAND:
            wanted = BY_HAND[name](units.astype(np.float64))
            assert np.allclose(done["vector"], wanted, atol=2e-4 if name == "geometric_median" else 1e-6)
        if row["attacker_share"]:
            believed, size = done["believed"].reshape(-1), len(done["opened"][0])
            order = [done["clients"].index(client) for client in done["opened"].ravel()]
            assert np.allclose(np.ptp(believed[order].reshape(-1, size), axis=1), 0)
    assert name not in BY_HAND or len(seen) == 4
    size = {"batch_partition": 3, "half_partition": 4, "partition": 6}[policy]
    assert summary["privacy_weak_lower"] == summary["guarantee_weak"] == size


def test_shares_of_units_make_the_aggregate(tmp_path):
    """What each client is said to count is what its update is multiplied with."""
    more = "training.aggregate=geometric_median", "secagg.protocol=ideal"
    with watched() as seen:
        play(tmp_path, *more)
    for done in seen:
        assert np.allclose(done["believed"] @ done["sent"], done["vector"], atol=1e-6)


def test_rules_of_every_name_are_tried():
    assert {name for name, cls in AGGREGATES.items() if cls.__module__.startswith("simfl.")} == set(AGGREGATED)


@pytest.mark.parametrize(
    "agent", ["sign_flip", "{name: model_replacement, boost: 20}", "{name: gaussian_noise, std: 3}"]
)
@pytest.mark.parametrize("policy", ["batch_partition", "half_partition"])
def test_one_attacker_spoils_its_own_unit_and_no_other(policy, agent, tmp_path):
    more = POLICIES[policy], "selection.mode=uniform", "training.rounds=1", "training.aggregate=median"

    def first_round(name, *others):
        with watched() as seen:
            play(tmp_path / name, *more, *others)
        return seen[0]

    clean = first_round("clean")
    attacker = int(clean["opened"][1, 1])
    attacked = first_round("a", f"agents.client={{name: mixed, groups: [{{agent: {agent}, clients: '{attacker}'}}]}}")
    assert np.array_equal(attacked["opened"], clean["opened"])
    with_it = np.arange(len(clean["opened"])) == 1
    moved = np.abs(attacked["means"] - clean["means"]).max(axis=1)
    assert (moved[with_it] > 1e-3).all() and (moved[~with_it] < 1e-6).all()


FAILING = "devices.failure={name: bernoulli, probability: 0.15}"


@pytest.mark.parametrize("more", [(), (FAILING,), (FAILING, "secagg.protocol={name: secagg, deadline_s: 0.9}")])
@pytest.mark.parametrize("policy", ["batch_partition", "half_partition"])
def test_privacy_is_of_each_units_sum(policy, more, tmp_path):
    """By exhaustive search over the units of each round; with sums of whole rounds the first one hides more."""
    small = {
        "batch_partition": "selection={name: batch_partition, k: 6, T: 3}",
        "half_partition": "selection={name: half_partition, k: 4, T: 2}",
    }[policy]
    everything = "clients=12", small, "training.rounds=5", "learning.data.samples=240", *more
    _, written, summary, path = play(tmp_path / "a", *everything)
    view, size = view_of_run(path, "server"), 3 if policy == "batch_partition" else 2
    summed = [
        {int(row["client"]) for row in rows(path / "participation.csv") if int(row["round"]) == t} for t in range(5)
    ]
    opened, sums = view.rows.toarray(), []
    for t, row in enumerate(written):
        here = opened[view.round == t]
        assert (here.sum(axis=1) == size).all() and set(np.flatnonzero(here.any(axis=0))) == summed[t]
        sums += here.tolist()
        if row["privacy_strong"] == "":
            assert not sums
            continue
        if view.tolerated.min() < 0:
            assert float(row["privacy_weak_lower"]) == 1 or not (view.tolerated[: t + 1] < 0).any()
            continue
        exact = privacy_brute.exact(sums)
        assert int(row["privacy_strong"]) == privacy_brute.strong(exact)
        assert float(row["privacy_semi_strong"]) == pytest.approx(float(privacy_brute.semi_strong(exact)))
        assert int(row["privacy_weak_lower"]) == int(row["privacy_weak_upper"]) == privacy_brute.weak(exact)
    assert summary["sums_of_units"] == size
    assert more or max(len(each) for each in summed) == 2 * size
    if not more:
        together = play(tmp_path / "b", *everything, "secagg=secagg")[1]
        assert int(together[0]["privacy_strong"]) == 2 * size > int(written[0]["privacy_strong"])


def test_a_failed_unit_leaves_the_others(tmp_path):
    """The clients summed are those of the plain run, whole units each, whatever the protocol."""
    plain = play(tmp_path / "p", FAILING, "secagg=plain")[3]
    units = play(tmp_path / "u", FAILING, "training.aggregate=median")[3]
    members = [[(row["round"], row["client"]) for row in rows(path / "participation.csv")] for path in (plain, units)]
    assert members[0] == members[1] and len(members[0]) < 60


def test_columns_that_some_units_leave_out_are_added_up(tmp_path):
    """Sums that are only costed say what they would clip where that is anything."""
    clipped = {}
    for execute in ("true", "cost_only"):
        *_, path = play(tmp_path / execute, f"secagg.protocol={{name: secagg, execute: {execute}, clip: 0.12}}")
        clipped[execute] = rows(path / "rounds.csv")[0]["clipped"]
    assert clipped["true"] == clipped["cost_only"] != "0"


def test_where_nobody_sends_nothing_is_seen(tmp_path):
    _, written, summary, _ = play(tmp_path, "devices.failure={name: bernoulli, probability: 1.0}")
    assert summary["skipped"] == 4 and summary["tolerated_colluders"] == 1
    assert {row["privacy_weak_lower"] for row in written} == {""}


def test_theory_tolerates_no_more_colluders_than_leave_two_in_a_unit():
    coded = "secagg.protocol={name: lightsecagg, private: 0.67, survivors: 1.0}"
    assert theory(parse(coded)).tolerated == 1 and theory(parse(coded, "secagg=lightsecagg")).tolerated > 1


def test_cautions_and_limits_of_the_protocol_are_of_a_unit():
    assert parse("secagg.protocol={name: secagg, clip: 4.0e8}", "clients=300", "selection.k=240")
    assert any("each client can subtract" in text for text in parse("selection.T=2", "selection.k=14").cautions())
    said = parse("devices.failure={name: bernoulli, probability: 0.1}").cautions()
    assert any("of 3, about 27 % of the sums fail" in text for text in said)


REFUSED = {
    "selection={name: random, k: 8}": "random forms none of two clients or more; use batch_partition",
    "training.on_failure=partial": "whole units; use training.on_failure: drop_unit",
    "training={name: serverless, rounds: 2}": "serverless works on one a round",
    "selection={name: guarded, inner: {name: random, k: 6}, T: 3}": "guarded works on one a round",
    "secagg.protocol=opa": "is opa, which does not say",
    "secagg.protocol={name: unit_sums, protocol: secagg}": "is unit_sums, which does not say",
    "secagg.size=4": "is 4, and units of selection: batch_partition have 3 clients; use 3 or null",
    "attacks=[least_squares]": "attacks: least_squares works on one a round",
    "topology={name: tree, edges: 2}": "is no star, which secagg: unit_sums needs",
    "training.aggregate={name: krum, f: 2}": "takes rounds of 7 units or more, and they have 5; the nearest",
    "privacy.ledger=true": "speaks of one sum a round",
    "training={name: fedbuff, rounds: 3, concurrency: 6, buffer: 6}": "secagg",
    "privacy.stages=[{name: discrete_gaussian, clip_norm: 1, noise_multiplier: 1}]": "works on one a round",
}  # fmt: skip


@pytest.mark.parametrize("change", REFUSED)
def test_what_forms_no_units_or_works_on_one_sum_is_refused_in_a_line(change):
    with pytest.raises(InvalidScenario) as error:
        parse(change)
    assert any(REFUSED[change] in line for line in str(error.value).splitlines()), str(error.value)


def test_a_secure_sum_alone_still_refuses_aggregates_of_single_updates():
    with pytest.raises(
        InvalidScenario, match="needs single updates, which secagg hides; use mean, or secagg: plain, or"
    ):
        parse("secagg=secagg", "training.aggregate=median")


def test_a_coalition_knows_units_less_its_own_updates(tmp_path):
    """Two colluders of a unit of three know the third's update; of other units they know the sum."""
    path = play(tmp_path, "secagg.protocol=ideal", "training.aggregate=median")[3]
    view = view_of_run(path, "server", [0, 1])
    lonely = np.flatnonzero(np.diff(view.rows.indptr) == 1)
    assert len(lonely) and {int(view.rows.indices[view.rows.indptr[i]]) for i in lonely} == {2}
    assert set(np.diff(view.rows.indptr)) == {1, 3}


def test_a_killed_run_goes_on_with_the_same_bytes(tmp_path):
    scenario = parse("training.aggregate={name: centred_clipping, radius: 0.05}", FAILING)
    whole = run(scenario, tmp_path / "whole").path
    time_s = 0.6 * float(rows(whole / "rounds.csv")[-1]["time_s"])
    assert killed_at_time(time_s, lambda: run(scenario, tmp_path / "killed"))
    assert files(run(scenario, tmp_path / "killed").path) == files(whole)


def test_an_audit_refuses_what_no_table_of_rounds_tells_apart(tmp_path):
    path = play(tmp_path)[3]
    for more in ([], ["--colluder", "0"], ["--colluders", "1"]):
        said = CliRunner().invoke(simfl, ["audit", str(path), *more])
        assert said.exit_code == 2 and len(said.output.splitlines()) == 1 and "the sum of each unit" in said.output


@contextmanager
def changed(base, **members):
    """A protocol "changed" of somebody else, made of one of simfl's."""
    said = {"by_units": True, "shows_updates": False, "covers": SUMMABLE, "opens_last": True}
    with undone():
        body = {**said, **members, "__module__": "own"}
        PROTOCOLS("changed")(dataclass(frozen=True, kw_only=True)(type("Changed", (PROTOCOLS[base],), body)))
        yield


def test_an_epsilon_of_one_sum_is_refused_in_a_line():
    column = Column("epsilon_sum", "Epsilon", "number", "Of a sum.", -1, "end")
    with changed("secagg", columns=(*PROTOCOLS["secagg"].columns, column)):
        with pytest.raises(InvalidScenario) as error:
            parse("secagg.protocol=changed")
    (line,) = [line for line in str(error.value).splitlines() if "epsilon_sum" in line]
    assert "secagg.protocol: is changed, whose epsilon_sum is of one sum a round" in line


def test_units_that_are_opened_and_not_declared_end_the_run(tmp_path):
    """And the other way round."""
    for base, says, words in (
        ("unit_sums", False, "opens the sum of each unit"),
        ("secagg", True, "says that it opens"),
    ):
        body = {"sums_units": says, "by_units": True, "shows_updates": False, "covers": SUMMABLE}
        protocol = "{name: changed, protocol: secagg}" if base == "unit_sums" else "changed"
        with changed(base, **body), pytest.raises(PluginError, match=f"secagg 'changed': {words}"):
            play(tmp_path / base, f"secagg={protocol}")


def test_a_quorum_within_a_unit_is_waited_out(tmp_path):
    """The sums are those without one."""

    def hasty(self, *args):
        session, responded = PROTOCOLS["secagg"].recover(self, *args), None
        while True:
            try:
                request = session.send(responded)
            except StopIteration as end:
                return end.value
            responded = yield request._replace(quorum=2)

    with changed("secagg", recover=hasty):
        written = play(tmp_path / "a", "secagg.protocol=changed")[1]
    usual = play(tmp_path / "b")[1]
    assert [row["time_s"] for row in written] == [row["time_s"] for row in usual]
    assert all(row["failed"] == "0" for row in written)


def test_a_protocol_that_is_wrong_for_units_only_is_found_when_its_file_is_validated():
    def add(self, result, updates, streams):
        total = PROTOCOLS["ideal"].add(self, result, updates, streams)
        return total._replace(vector=total.vector * (1.5 if len(result.kept_units) == 1 else 1.0))

    with changed("ideal", add=add, assumes="nobody looks"):
        verdict = verdict_on("secagg", PROTOCOLS["changed"])
    assert any("aggregate 0 by the protocol" in text for text in verdict.refuted)


def test_theory_says_that_each_unit_is_summed_by_itself(tmp_path):
    (tmp_path / "s.yaml").write_text(SCENARIO)
    said = CliRunner().invoke(simfl, ["theory", str(tmp_path / "s.yaml")]).output
    assert "15 updates of 15 elements, in units of 3, each summed by itself\n" in said
    said = CliRunner().invoke(simfl, ["theory", str(tmp_path / "s.yaml"), "secagg=secagg"]).output
    assert "15 updates of 15 elements, in units of 3\n" in said


def test_the_live_page_knows_of_no_units_where_a_table_of_rounds_tells_no_sums_apart(tmp_path):
    for protocol, known in (("unit_sums", False), ("secagg", True)):
        more = () if protocol == "unit_sums" else ("secagg=secagg",)
        finished = play(tmp_path / protocol, *more)[3]
        running = unfinish(finished, 2, "2,0.1")
        clients = WatchedFolder(running).look()["clients"]
        assert {one["unit"] is not None for one in clients if one["rounds"]} == {known}
        assert {one["unknown_after"] for one in clients if one["rounds"]} == ({None} if known else {0})


def test_a_protocol_of_a_plugin_has_to_say_again_what_hides_a_unit():
    """One that changes SecAgg shows updates, and is of whole cohorts, unless it says otherwise."""
    names, hides = ("changed_a", "changed_b", "changed_c"), {"shows_updates": False, "covers": SUMMABLE}
    with undone():
        for name, said in zip(names, ({}, {"by_units": True}, {"by_units": True, **hides}), strict=True):
            body = {**said, "__module__": "own", "limit": lambda self, cohort: 3.0}
            PROTOCOLS(name)(dataclass(frozen=True, kw_only=True)(type("Changed", (PROTOCOLS["secagg"],), body)))
        with pytest.raises(InvalidScenario, match="is changed_a, which does not say"):
            parse("secagg.protocol=changed_a")
        shown = [parse(f"secagg.protocol={name}").secagg.shows_updates for name in names[1:]]
    assert shown == [True, False]
