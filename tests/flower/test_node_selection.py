"""A policy chooses the nodes of a real server as it chooses clients in a simulation. Flower is not needed here."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from simfl.core.errors import MissingError, SimflError
from simfl.core.rng import Address
from simfl.deployment.audit.reading import read
from simfl.deployment.flower.node_selection import NodeSelection
from simfl.deployment.flower.participation_file import ParticipationFile
from simfl.privacy.multiround.matrix_metrics import multi_round
from simfl.results.run_files import participation_matrix
from simfl.runs.run import build, run
from simfl.scenario import Scenario
from simfl.selection.asking import ask
from tests.support.page import blocks

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/flower.md"
N, ROUNDS = 24, 40
IDS = [int(node) for node in np.random.default_rng(7).permutation(2**40 + np.arange(N) * 977)]
POLICIES = (
    "random:k=6",
    "partition:k=6,mode=fair",
    "batch_partition:k=8,T=4,mode=fair",
    "batch_partition:k=8,T=4,mode=uniform,shuffle=true",
    "half_partition:k=8,T=4,mode=least_total",
    "guarded:inner={name: random, k: 4},T=4,mode=fair",
    "bernoulli:probability=0.3",
)


def simulated(policy, folder):
    """The rows of a run, (ROUNDS, N), and its parts."""
    data = {
        "clients": N, "seed": 5, "devices": {"availability": {"name": "bernoulli", "dropout": 0.25},
                                             "failure": {"name": "bernoulli", "probability": 0.1}},
        "selection": {"name": "random", "k": 1}, "training": {"name": "fedavg", "rounds": ROUNDS},
        "learning": {"name": "none", "parameters": 1},
    }  # fmt: skip
    scenario = Scenario.of(data, "bridge", [f"selection={policy}"])
    done = run(scenario, folder)
    return participation_matrix(done.path / "participation.csv", ROUNDS, N).toarray(), build(scenario)


def play(selection, parts, rounds):
    """The clients in each sum, with the availability and the failures of a simulation."""
    rows = np.zeros((len(rounds), N))
    for row, t in zip(rows, rounds, strict=True):
        present = parts.available.draw(t, 0.0)
        nodes = selection.select([node for node, here in zip(IDS, present) if here])
        clients = np.array([IDS.index(node) for node in nodes], dtype=np.int32)
        fails = ~np.isnan(parts.failing.draw(clients, Address(t, clients, N))) if nodes else []
        kept = selection.conclude({node: {} for node, failed in zip(nodes, fails) if not failed})
        row[[IDS.index(node) for node in kept]] = 1
    return rows


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_policy_seed_and_devices_give_the_same_rows_in_both(policy, tmp_path):
    expected, parts = simulated(policy, tmp_path / "results")
    selection = NodeSelection(policy, IDS, seed=5, log=tmp_path / "log.csv")
    rows = play(selection, parts, range(ROUNDS))
    np.testing.assert_array_equal(rows, expected)
    sums = expected[expected.any(axis=1)]
    assert 5 < len(sums) and (expected.sum(axis=1) != expected.max()).any()
    log = read(tmp_path / "log.csv")
    np.testing.assert_array_equal(log.matrix.toarray(), sums[:, [IDS.index(int(node)) for node in log.clients]])
    assert len(log.clients) == sums.any(axis=0).sum()


def test_oort_selects_the_same_clients_in_both_when_it_is_told_the_same(tmp_path, monkeypatch):
    """Clients are equally large and fast, so that what simfl knows before the first reply decides nothing."""
    views = []

    def note(policy, view, k, rng):
        views.append((view.available.copy(), {name: values.copy() for name, values in view.reports.items()}))
        return ask(policy, view, k, rng)

    monkeypatch.setattr("simfl.agents.servers.ask_policy", note)
    policy = "oort:k=5,exploration_min=0.2,exploration_decay=0.8,pacer_step=4"
    scenario = Scenario.of({
        "clients": N, "seed": 5, "devices": {"availability": {"name": "bernoulli", "dropout": 0.25}},
        "selection": {"name": "random", "k": 1}, "training": {"name": "fedavg", "rounds": ROUNDS},
        "learning": {"data": {"name": "synthetic", "samples": 20 * N, "separation": 1.0}, "model": "logistic"},
    }, "bridge", [f"selection={policy}"])  # fmt: skip
    expected = participation_matrix(run(scenario, tmp_path).path / "participation.csv", ROUNDS, N).toarray()
    selection = NodeSelection(policy, range(N), seed=5)
    for t in range(ROUNDS - 1):
        nodes, reports = selection.select(np.flatnonzero(views[t][0]).tolist()), views[t + 1][1]
        assert nodes == np.flatnonzero(expected[t]).tolist()
        selection.conclude({node: {name: reports[name][node] for name in selection.needs} for node in nodes})
    assert len({*selection.reports["loss_rms"]}) == N and np.ptp(selection.participation) > 5


@pytest.mark.parametrize("policy", POLICIES[3:6])
def test_a_server_that_is_started_again_with_its_log_goes_on(policy, tmp_path):
    expected, parts = simulated(policy, tmp_path / "results")
    first = NodeSelection(policy, IDS, seed=5, log=tmp_path / "log.csv")
    half = np.flatnonzero(expected.any(axis=1))[4] + 1  # behind a round with a sum
    play(first, parts, range(half))
    again = NodeSelection(policy, IDS, seed=5, log=tmp_path / "log.csv")
    assert again.round == half
    np.testing.assert_array_equal(play(again, parts, range(half, ROUNDS)), expected[half:])


def test_nodes_keep_their_numbers_and_units_stay_whole(tmp_path):
    selection = NodeSelection("batch_partition:k=4,T=4", 8, log=tmp_path / "log.csv")
    assert selection.select([50, 10]) == []  # two of four
    assert selection.conclude({}) == [] and not (tmp_path / "log.csv").exists()
    assert selection.select([99, 50, 20, 5]) == []  # 10 is away
    selection.conclude({})
    chosen = selection.select([99, 50, 20, 10, 5])
    assert chosen == [10, 50, 5, 20] and selection.client_of[99] == 4
    assert selection.conclude({node: {} for node in chosen[1:]}) == []  # 10 fails: nobody counts
    assert selection.select([1, 2, 3, 4, 99]) == [99, 1, 2, 3]  # 4 is one too many
    assert selection.conclude({node: {} for node in (99, 1, 2, 3)}) == [99, 1, 2, 3]
    lines = [line.split(",") for line in (tmp_path / "log.csv").read_text().splitlines()]
    assert lines[0] == ["round", "client", "place", "line", "seal"]
    assert [line[:4] for line in lines[1:]] == [
        ["3", *map(str, each)] for each in [(99, "4/8", "1/4"), (1, "5/8", "2/4"), (2, "6/8", "3/4"), (3, "7/8", "4/4")]
    ]
    assert selection.participation.tolist() == [0] * 4 + [1] * 4
    again = NodeSelection("batch_partition:k=4,T=4", 8, log=tmp_path / "log.csv")
    assert again.select([3, 7, 2, 99, 1]) == [99, 1, 2, 3]


@pytest.mark.parametrize(("policy", "floor", "fails"), [
    ("random:k=4", ["semi_strong=3"], 0.0),
    ("random:k=4", ["weak=2"], 0.0),
    ("random:k=3", ["strong=2", "weak=2"], 0.3),
    ("bernoulli:k=5,probability=0.4", ["strong=2"], 0.3),
])  # fmt: skip
def test_training_ends_before_the_sum_with_which_a_floor_breaks(policy, floor, fails):
    """Rounds are played without a floor beside it, whose next row shows what would have broken it."""
    free, floored = NodeSelection(policy, range(12), seed=3), NodeSelection(policy, range(12), seed=3, floor=floor)

    def holds(sums):
        metrics = multi_round(np.array([np.isin(np.arange(12), members) for members in sums], dtype=float))
        values = {"strong": metrics.strong, "semi_strong": metrics.semi_strong, "weak": metrics.weak_lower}
        return all(values[name] >= float(bound) for name, _, bound in (text.partition("=") for text in floor))

    rng, sums = np.random.default_rng(1), []
    while True:
        alive = np.flatnonzero(rng.random(12) >= fails)
        nodes, planned = floored.select(range(12)), free.select(range(12))
        summed = free.conclude({node: {} for node in alive if node in planned})
        assert nodes == planned or (nodes == [] and floored.stopped)
        if floored.conclude({node: {} for node in alive if node in nodes}) != summed:
            break
        sums += [summed] if summed else []
    assert fails or nodes == []  # nobody is asked in vain
    assert sums and holds(sums) and not holds([*sums, summed if nodes else planned])
    assert f"round {free.round - 1}" in floored.stopped and "is shown to be" in floored.stopped
    assert floored.select(range(12)) == [] and floored.conclude({}) == []


def test_a_sum_that_failures_have_made_too_small_is_not_opened(tmp_path):
    selection = NodeSelection("random:k=4", 12, log=tmp_path / "log.csv", floor="strong=2")
    first, *_ = selection.select(range(12))
    assert selection.conclude({first: {}}) == [] and not (tmp_path / "log.csv").exists()
    assert (
        selection.stopped == "with the sum of round 0, strong is shown to be 1 only, not 2"
        and not selection.participation.any()
    )


def test_a_floor_of_the_weak_notion_says_that_it_is_a_bound():
    selection = NodeSelection("random:k=4", 12, floor="weak=5")
    assert selection.select(range(12)) == []
    assert selection.stopped == "with the sum of round 0, weak is shown to be 4 only, not 5"


def test_units_that_keep_a_floor_for_ever_are_never_stopped():
    selection = NodeSelection("half_partition:k=4,T=4", range(12), floor="semi_strong=4")
    rng = np.random.default_rng(2)
    for _ in range(40):
        nodes = selection.select(np.flatnonzero(rng.random(12) < 0.9).tolist())
        selection.conclude({node: {} for node in nodes if rng.random() < 0.9})
    assert not selection.stopped and len(selection.history) > 10


def test_a_policy_is_told_what_nodes_report():
    selection = NodeSelection("oort:k=2,exploration=0.5,exploration_min=0.5", 6, seed=1)
    assert selection.needs == {"samples", "loss_rms", "seconds"}
    tried = set()
    for _ in range(30):
        nodes = selection.select(range(6))
        assert len(nodes) == 2
        tried |= {*nodes}
        selection.conclude({node: {"samples": 10.0 + node, "loss_rms": 9.0 if node == 3 else 0.1, "seconds": 1.0 + node}
                            for node in nodes})  # fmt: skip
    assert tried == set(range(6))
    assert selection.reports["seconds"].tolist() == [1, 2, 3, 4, 5, 6]
    assert selection.view.reports["estimate_s"].tolist() == [1, 2, 3, 4, 5, 6]
    assert selection.participation[3] == selection.participation.max()
    assert len(selection.state["collected"]) == 30


def test_losses_count_only_of_clients_in_the_sum_and_durations_of_all():
    selection = NodeSelection("oort:k=2", 4)
    assert selection.select(range(4))
    first, second = selection.select(range(4))
    selection.policy.__class__.admits, before = lambda *_: False, selection.policy.__class__.admits
    try:
        selection.conclude({first: {"samples": 3.0, "loss_rms": 1.0, "seconds": 2.0}})
    finally:
        selection.policy.__class__.admits = before
    assert np.isnan(selection.reports["loss_rms"]).all()
    assert selection.reports["seconds"][first] == 2 and np.isnan(selection.reports["seconds"][second])
    view = selection._view(np.ones(4, dtype=bool))
    assert view.samples.tolist() == [3.0] * 4 and view.estimate_s.tolist() == [2.0] * 4


@pytest.mark.parametrize(("arguments", "message"), [
    (("batch_partition:k=8,T=3", 24), "T"),
    (("batchpartition:k=8,T=4", 24), "batch_partition"),
    (("power_of_choice:k=4,d=8", 24), "asks clients before it selects"),
    (("fedcs:k=4,deadline_s=9", 24), "how long uploads take"),
    (("random:k=2", [4, 5, 4]), "node 4 and client 2"),
    (("random:k=2", 4, 0, None, "weakk=2"), "floor weakk=2: .*did you mean 'weak'"),
    (("random:k=2", 4, 0, None, ("weak=2", "strong=1")), "floor strong=1: must be above 1"),
])  # fmt: skip
def test_what_cannot_be_is_one_line(arguments, message):
    with pytest.raises(SimflError, match=message) as error:
        NodeSelection(*arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("text", "message"), [
    ("round,client\n0,1\n", ":1: the header is not round,client,place,line,seal"),
    ("round,client,node\n0,1\n", ":2: not round,client,node"),
    ("round,client,node\n0,1,5\n0,x,6\n", ":3: not round,client,node"),
    ("round,client,node\n0,9,5\n", ":2: client 9; clients are 0 to 3"),
    ("round,client,node\n1,0,5\n0,0,5\n", ":3: round 0 stands behind round 1"),
    ("round,client,node\n0,0,5\n1,1,5\n", "node 5 and client 1"),
    ("round,client,node\n0,0,5\n1,0,6\n", "node 6 and client 0"),
])  # fmt: skip
def test_a_log_of_something_else_is_refused(text, message, tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(text)
    with pytest.raises(SimflError, match=message):
        NodeSelection("random:k=2", 4, log=file)
    assert file.read_text() == text


def _sums(log, sums, first=0):
    selection = NodeSelection("all", 6, log=log)
    for number, nodes in enumerate(sums, first):
        selection.round = number
        selection.select(nodes)
        selection.conclude({node: {} for node in nodes})


def _entries(log):
    return [(e.round, e.node) for e in ParticipationFile(log, 6).entries]


def test_a_torn_last_sum_is_taken_out_at_every_byte_and_the_log_goes_on(tmp_path):
    whole, file = tmp_path / "whole.csv", tmp_path / "log.csv"
    _sums(whole, [["a", "b"], ["c"], ["a", "b", "d"]])
    text = whole.read_bytes()
    ends = [i + 1 for i, byte in enumerate(text) if byte == 10]  # of lines
    for cut in range(1, len(text)):
        file.write_bytes(text[:cut])
        log = ParticipationFile(file, 6)
        sums = sum(cut >= ends[line] for line in (2, 3, 6))
        assert {entry.round for entry in log.entries} == set(range(sums))
        assert bool(log.taken_out) == (cut not in [ends[line] for line in (0, 2, 3, 6)])
        assert not ParticipationFile(file, 6).taken_out
        log.append(7, [4], ["e"])
        assert _entries(file) == [(0, "a"), (0, "b"), (1, "c")][: (0, 2, 3)[sums]] + [(7, "e")]


def test_a_changed_line_is_named(tmp_path):
    file = tmp_path / "log.csv"
    _sums(file, [["a", "b"], ["c"], ["a", "d"]])
    lines = file.read_bytes().splitlines(keepends=True)
    changes = {2: lines[:1] + lines[2:], 3: [*lines[:2], lines[2].replace(b",b,", b",d,"), *lines[3:]],
               4: [*lines[:3], *lines[4:]], 5: [*lines[:4], lines[1], *lines[4:]]}  # fmt: skip
    for number, changed in changes.items():
        file.write_bytes(b"".join(changed))
        with pytest.raises(SimflError, match=f"log.csv:{number}: does not match its seal"):
            ParticipationFile(file, 6)


def test_a_log_of_an_earlier_version_goes_on_sealed(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("round,client,node\n0,0,5\n0,3,x\n1,1,6\n")
    assert NodeSelection("all", 6, log=file).participation.tolist() == [1, 1, 0, 1, 0, 0]
    _sums(file, [[5, "x"]], first=2)
    assert [(e.round, e.client, e.node) for e in ParticipationFile(file, 6).entries] == [
        (0, 0, 5), (0, 3, "x"), (1, 1, 6), (2, 0, 5), (2, 3, "x")
    ]  # fmt: skip
    assert read(file).matrix.toarray().sum() == 5


def test_ids_are_compared_as_text_and_none_breaks_the_log(tmp_path):
    selection = NodeSelection("all", ["12", 7, "007"], log=tmp_path / "log.csv")
    assert selection.select([12, "7", "007"]) == [12, 7, "007"] and not selection.unknown
    assert selection.conclude({"12": {}, 7: {}, "007": {}}) == [12, 7, "007"]
    again = NodeSelection("all", [12, "7", "007"], log=tmp_path / "log.csv")
    assert again.participation.tolist() == [1, 1, 1]
    again.select([13, 12])
    assert again.unknown == [13]
    for name in ("a,b", "a b", 'a"', "", "a\nb"):
        with pytest.raises(SimflError, match="its id has"):
            NodeSelection("all", [name])


@pytest.mark.parametrize("n", range(1, 5))
@pytest.mark.parametrize("rounds", range(1, 4))
def test_an_audit_reads_every_small_log(n, rounds, tmp_path):
    """Few clients, few rounds, one size: no column of its own looks like one that says who took part."""
    file = tmp_path / "log.csv"
    selection = NodeSelection("all", [f"d{i}" for i in range(n)], log=file)
    for _ in range(rounds):
        selection.conclude({node: {} for node in selection.select([f"d{i}" for i in range(n)])})
    assert read(file).matrix.toarray().tolist() == [[1.0] * n] * rounds


def test_an_empty_file_is_a_log_that_begins(tmp_path):
    file = tmp_path / "log.csv"
    file.touch()
    assert not ParticipationFile(file, 6).taken_out
    _sums(file, [["a", "b"]])
    assert _entries(file) == [(0, "a"), (0, "b")] and read(file).matrix.shape == (1, 2)


def test_a_past_of_weighted_sums_is_no_past_of_a_floor(tmp_path):
    """Two sums of two clients with other weights give both away; as plain sums they do not."""
    past = tmp_path / "past.csv"
    past.write_text("round,client,weight\n0,a,1\n0,b,2\n1,a,2\n1,b,1\n")
    with pytest.raises(SimflError, match="past.csv: its sums have weights, and a floor looks at plain sums only"):
        NodeSelection("random:k=2", ["a", "b", "c", "d"], past=past, floor="semi_strong=2")
    assert NodeSelection("random:k=2", ["a", "b", "c", "d"], past=past).round == 2


def test_the_page_shows_where_uniform_selection_ends(tmp_path, monkeypatch, capsys):
    (code,) = (code for language, code, why in blocks(PAGE.read_text()) if language == "python" and not why)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "flower.md", "exec"), {})
    assert f"  # {capsys.readouterr().out.strip()}\n" in code
    assert read(tmp_path / "random.csv").matrix.shape[0] == 5


def test_without_flower_one_line_says_what_to_install(monkeypatch):
    import simfl.deployment.flower

    for name in ("flwr", "flwr.app"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "simfl.deployment.flower.policy_strategy", raising=False)
    with pytest.raises(MissingError, match="simfl\\[flower\\]"):
        simfl.deployment.flower.PolicyStrategy  # noqa: B018
    with pytest.raises(AttributeError):
        simfl.deployment.flower.Policy  # noqa: B018


def test_a_past_of_any_form_counts_and_nodes_may_have_names(tmp_path):
    """The same as a server that has run those rounds itself."""
    rounds = [["pixel", "s9", "moto"], ["pixel", "s9"], ["s9", "moto", "lg"]]
    past = tmp_path / "past.jsonl"
    past.write_text("".join(f'{{"server_round": {t}, "cids": {json.dumps(each)}}}\n' for t, each in enumerate(rounds)))
    nodes = ["lg", "moto", "pixel", "s9"]
    selection = NodeSelection("random:k=2", nodes, seed=1, log=tmp_path / "log.csv", past=past)
    assert selection.round == 3 and selection.participation.tolist() == [1, 2, 2, 3]
    chosen = selection.select(nodes)
    selection.conclude({node: {} for node in chosen})
    again = NodeSelection("random:k=2", nodes, seed=1, log=tmp_path / "log.csv", past=past)
    assert again.round == 4 and again.participation.tolist() == selection.participation.tolist()
    with pytest.raises(SimflError, match="4 clients, and nodes is 3"):
        NodeSelection("random:k=2", 3, past=past)
    with pytest.raises(SimflError, match="semi_strong|strong"):
        raise SimflError(_stopped(NodeSelection("random:k=1", nodes, floor="strong=2", past=past), nodes))


def test_a_past_of_another_system_is_read_as_its_options_say(tmp_path):
    past = tmp_path / "past.csv"
    past.write_text("when,device,status\n2026-01-01,a,ok\n2026-01-01,b,late\n2026-01-02,b,ok\n2026-01-02,c,ok\n")
    options = {"columns": {"round": "when", "client": "device"}, "where": {"status": "ok"}}
    selection = NodeSelection("random:k=2", ["a", "b", "c"], past=past, past_options=options)
    assert selection.round == 2 and selection.participation.tolist() == [1, 1, 1]
    for wrong, why in (
        ({"were": {"status": "ok"}}, "'were' is none of columns, where.*'where'"), ([1], "is no mapping"),
        ({"columns": "round=when"}, "columns is 'round=when'"), ({"columns": {"rnd": "when"}}, "columns is"),
        ({"where": {"status": 1}}, "where is"), ({"all_rows": "no"}, "all_rows is"), ({"form": "list"}, "form is"),
        ({**options, "all_rows": True}, "all_rows says.*leave one out"), ({"past": 3}, "past is 3"),
    ):  # fmt: skip
        with pytest.raises(SimflError, match=f"past_options: {why}"):
            NodeSelection("random:k=2", ["a", "b", "c"], past=past, past_options=wrong)
    with pytest.raises(SimflError, match="past_options: there is no past"):
        NodeSelection("random:k=2", ["a", "b", "c"], past_options=options)


def _stopped(selection, nodes):
    while not selection.stopped:
        selection.conclude({node: {} for node in selection.select(nodes)})
    return selection.stopped


@pytest.mark.parametrize("cut", range(1, 8))
def test_a_log_that_was_cut_in_its_last_line_is_not_continued(cut, tmp_path):
    file = tmp_path / "log.csv"
    file.write_bytes(b"round,client,node\n0,1,100\n1,3,1032\n"[:-cut])
    with pytest.raises(SimflError, match="its last line may be cut"):
        NodeSelection("random:k=2", 4, log=file)
