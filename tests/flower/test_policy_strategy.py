"""The bridge under the installed Flower, whose own strategies and messages run here on a stand-in for its grid."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from simfl.core.errors import SimflError
from simfl.deployment.audit.reading import read
from simfl.deployment.flower.node_selection import NodeSelection
from simfl.deployment.flower.participation_file import ParticipationFile
from tests.support.page import blocks

pytest.importorskip("flwr.serverapp", reason="the extra flower is not installed: pip install 'simfl[flower]'")

from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg, FedProx

from simfl.deployment.flower import PolicyStrategy

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/flower.md"
N = 24
AWAY = {"batc": 0.3, "half": 0.4, "guar": 0.4}
"""Share of nodes that are not connected, so that some rounds are skipped."""
IDS = [2**50 + 31 * i for i in range(N)]


class StandIn:
    """A grid whose nodes answer at once, last ones first: node i sends sqrt(i + 1), with weight 1.

    Flower calls :meth:`send_and_receive` twice a round: to train, and to evaluate.

    Args:
        away: whether a node is not connected in a round, by (round, i) both from 0.
        answer: ``error`` or ``nothing`` for a node in a round, else it delivers.
        metrics: what a node reports.
        device: what it answers to a query; an error where it is None.
        ids: of the nodes in a round.
    """

    def __init__(self, away=lambda t, i: False, answer=lambda t, i: "", metrics=lambda i: {"num-examples": 1},
                 device=lambda i: None, ids=lambda t: IDS):  # fmt: skip
        self.away, self.answer, self.metrics, self.device, self.ids = away, answer, metrics, device, ids
        self.trained, self.evaluated, self.queried, self.calls = [], [], [], 0

    def get_node_ids(self):
        t = self.calls // 2
        return [node for i, node in enumerate(self.ids(t)) if not self.away(t, i)]

    def send_and_receive(self, messages, *, timeout=None):
        messages, (t, evaluation) = list(messages), divmod(self.calls, 2)
        clients = [self.ids(t).index(message.metadata.dst_node_id) for message in messages]
        if messages and messages[0].metadata.message_type == "query":
            self.queried.append(clients)
            return [self.says(message, self.device(i)) for message, i in zip(messages, clients)]
        (self.evaluated if evaluation else self.trained).append(sorted(clients))
        self.calls += 1
        replies = [self.reply(message, t, i) for message, i in zip(messages, clients) if self.answer(t, i) != "nothing"]
        return [] if evaluation else replies[::-1]

    def says(self, message, device):
        if device is None:
            return Message(Error(code=0, reason="no query function"), reply_to=message)
        return Message(RecordDict({"identity": ConfigRecord({"device": device})}), reply_to=message)

    def reply(self, message, t, i):
        if self.answer(t, i) == "error":
            return Message(Error(code=0, reason="out of memory"), reply_to=message)
        arrays, metrics = ArrayRecord([np.array([(i + 1) ** 0.5])]), MetricRecord(self.metrics(i))
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    """What a process of Flower knows of itself."""
    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ModuleNotFoundError:  # an older version, which needs no identity
        return
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def started(strategy, grid, rounds):
    """The models after each round, beginning with that before the first one."""
    models = []

    def note(number, arrays):
        models.append(float(arrays.to_numpy_ndarrays()[0][0]))

    strategy.start(grid, ArrayRecord([np.array([0.0])]), num_rounds=rounds, evaluate_fn=note)
    return models


def average(**keys):
    return FedAvg(fraction_evaluate=0.0, **keys)


@pytest.mark.parametrize("wrapped", [
    average, lambda: FedProx(proximal_mu=0.5, fraction_evaluate=0.0),
    lambda: DifferentialPrivacyServerSideFixedClipping(average(), 0.0, 1e9, 8),
])  # fmt: skip
@pytest.mark.parametrize("policy", ["batch_partition:k=8,T=4,shuffle=true", "half_partition:k=8,T=4",
                                    "guarded:inner={name: random, k: 8},T=4"])  # fmt: skip
def test_flower_trains_whom_the_policy_selects_and_averages_whole_units(policy, wrapped, tmp_path):
    rng = np.random.default_rng(4)
    away, bad = rng.random((30, N)) < AWAY[policy[:4]], rng.random((30, N))
    answer = lambda t, i: "error" if bad[t, i] < 0.05 else "nothing" if bad[t, i] < 0.1 else ""  # noqa: E731
    grid, log = StandIn(lambda t, i: away[t, i], answer), tmp_path / "log.csv"
    strategy = PolicyStrategy(wrapped(), policy, IDS, seed=3, log=log, identity="node_id", skipped_round_s=0.0)
    models = started(strategy, grid, 30)
    alone, rows, sent, model = NodeSelection(policy, IDS, seed=3), [], [], 0.0
    for t in range(30):
        nodes = alone.select([node for i, node in enumerate(IDS) if not away[t, i]])
        sent.append(sorted(IDS.index(node) for node in nodes))
        kept = [IDS.index(n) for n in alone.conclude({n: {} for n in nodes if bad[t, IDS.index(n)] >= 0.1})]
        assert policy.startswith("guarded") or len(kept) in (0, 4, 8)
        model = float(np.sqrt(np.add(kept, 1)).mean()) if kept else model
        assert models[t + 1] == pytest.approx(model)
        rows += [np.isin(np.arange(N), kept)] if kept else []
    assert grid.trained == sent and [] in sent and 5 < len(rows) < 30
    matrix = read(log).matrix.toarray()
    np.testing.assert_array_equal(matrix, np.array(rows)[:, [IDS.index(int(node)) for node in read(log).clients]])


def test_one_batch_fails_and_the_other_one_is_averaged():
    grid = StandIn(answer=lambda t, i: "error" if i == 5 else "")
    strategy = PolicyStrategy(average(), "batch_partition:k=24,T=4", N, identity="node_id")
    assert started(strategy, grid, 1)[1] == pytest.approx(np.mean([(i + 1) ** 0.5 for i in range(N) if i // 4 != 1]))
    assert strategy.selection.participation.tolist() == [1] * 4 + [0] * 4 + [1] * 16


def test_a_node_without_samples_takes_its_unit_out():
    grid = StandIn(metrics=lambda i: {"num-examples": 0 if i == 0 else 1})
    strategy = PolicyStrategy(average(), "batch_partition:k=24,T=4", N, identity="node_id")
    assert started(strategy, grid, 1)[1] == pytest.approx(np.sqrt(np.arange(5, N + 1)).mean())


def test_the_floor_ends_training_and_evaluation():
    grid = StandIn()
    strategy = PolicyStrategy(
        FedAvg(), "random:k=4", N, seed=1, identity="node_id", floor="semi_strong=3", skipped_round_s=0.0
    )
    models = started(strategy, grid, 40)
    last = len(strategy.selection.history)
    assert 0 < last < 40 and strategy.selection.stopped.startswith(f"with the sum of round {last}, semi_strong")
    assert [bool(clients) for clients in grid.trained] == [t < last for t in range(40)]
    assert [bool(clients) for clients in grid.evaluated] == [t < last for t in range(40)]
    assert len(set(models[last:])) == 1


def test_oort_reads_what_replies_report():
    metrics = lambda i: {"num-examples": 5, "my_loss": 8.0 if i > 18 else 0.1, "seconds": 3}  # noqa: E731
    policy = "oort:k=4,exploration=0.5,exploration_min=0.25"
    strategy = PolicyStrategy(average(), policy, N, identity="node_id", metrics={"loss_rms": "my_loss"})
    started(strategy, StandIn(metrics=metrics), 40)
    used = strategy.selection.participation
    assert used[19:].mean() > 2 * used[:19].mean() and (strategy.selection.reports["seconds"] == 3).all()
    measured = PolicyStrategy(average(), policy, N, identity="node_id", metrics={"loss_rms": "num-examples"})
    started(measured, StandIn(), 3)
    seconds = measured.selection.reports["seconds"][measured.selection.participation > 0]
    assert ((seconds >= 0) & (seconds < 60)).all()
    with pytest.raises(SimflError, match="reports no 'loss_rms'.*metrics=\\{'loss_rms': NAME\\}"):
        started(PolicyStrategy(average(), policy, N, identity="node_id"), StandIn(), 1)


def test_a_strategy_that_takes_other_nodes_is_refused():
    with pytest.raises(SimflError, match="FedAvg sends to 4 of the 8 nodes.*fraction_train"):
        started(
            PolicyStrategy(average(fraction_train=0.5), "batch_partition:k=8,T=4", N, identity="node_id"), StandIn(), 1
        )


def test_a_strategy_that_waits_for_more_nodes_is_refused(monkeypatch):
    monkeypatch.setattr("flwr.serverapp.strategy.strategy_utils.sleep", lambda seconds: None)
    with pytest.raises(SimflError, match="waits for more nodes than the 8"):
        started(
            PolicyStrategy(average(min_available_nodes=9), "batch_partition:k=8,T=4", N, identity="node_id"),
            StandIn(),
            1,
        )


def test_the_server_of_the_page_trains(tmp_path, monkeypatch, capsys):
    (code,) = (code for _, code, why in blocks(PAGE.read_text()) if code.startswith("# server_app.py"))
    code = code.replace("/srv/simfl", str(tmp_path))
    variables = {"__name__": "server_app"}
    exec(compile(code, "server_app.py", "exec"), variables)
    grid = StandIn(device=lambda i: f"phone-{i}")
    variables["app"](grid, Context(1, 1, {}, RecordDict(), {}))
    assert "all rounds" in capsys.readouterr().out and all(len(clients) == 8 for clients in grid.trained)
    log = read(tmp_path / "participation.csv")
    places = np.argsort([strategy_place(tmp_path, client) for client in log.clients])
    assert log.matrix.shape == (20, N)
    assert (log.matrix.toarray()[:, places].reshape(20, -1, 4).std(axis=2) == 0).all()


def strategy_place(folder, client):
    entries = ParticipationFile(folder / "participation.csv", N).entries
    return next(entry.client for entry in entries if entry.node == client)


# -- devices that restart --------------------------------------------------------------------------


RESTARTED = [2**40 + i for i in range(N)]
"""Ids of nodes behind a restart."""


def changing(t):
    """From round 3 on nodes 4 to 7 have other ids: they have restarted."""
    return [RESTARTED[i] if t >= 3 and 4 <= i < 8 else node for i, node in enumerate(IDS)]


@pytest.mark.parametrize("way", ["reported", "mapping"])
def test_a_device_that_restarts_is_the_same_client(way, tmp_path, caplog):
    devices = {node: f"d{i}" for ids in (IDS, RESTARTED) for i, node in enumerate(ids)}
    grid = StandIn(device=lambda i: f"d{i}", ids=changing)
    identity = "reported" if way == "reported" else devices
    strategy = PolicyStrategy(average(), "batch_partition:k=24,T=4", N, identity=identity, log=tmp_path / "log.csv")
    started(strategy, grid, 6)
    assert strategy.selection.participation.tolist() == [6] * N and strategy.selection.unknown == []
    assert grid.queried == ([[*range(N)], [4, 5, 6, 7]] if way == "reported" else [])
    assert read(tmp_path / "log.csv").matrix.toarray().tolist() == [[1] * N] * 6
    assert "take no part" not in caplog.text and "not connected" not in caplog.text


def test_by_ids_alone_a_restart_is_told_and_takes_the_unit_out(caplog):
    grid = StandIn(ids=changing)
    strategy = PolicyStrategy(average(), "batch_partition:k=20,T=4", N, identity="node_id")
    assert "a device that restarts" in caplog.text
    started(strategy, grid, 6)
    assert grid.trained[3:] == [[*range(4), *range(8, N)]] * 3 and strategy.selection.participation[4:8].max() <= 3
    assert f"not connected any more: 4 nodes ({IDS[4]}" in caplog.text
    assert f"more nodes than the policy has: 4 nodes ({RESTARTED[4]}" in caplog.text
    assert caplog.text.count("more nodes than") == 1


def test_a_node_that_does_not_say_who_it_is_takes_no_part(caplog):
    grid = StandIn(device=lambda i: None if i == 2 else "a, b" if i == 3 else f"d{i}")
    strategy = PolicyStrategy(average(), "random:k=22", N, identity="reported")
    started(strategy, grid, 2)
    assert strategy.selection.clients - len(strategy.selection.client_of) == 2
    assert "2 nodes" in caplog.text and "did not say which device they are" in caplog.text
    assert grid.queried == [[*range(N)], [2, 3]]


def test_two_nodes_of_one_device_are_one_client():
    """The old id of a restarted device may still be connected."""
    both = [*IDS, RESTARTED[0]]
    grid = StandIn(device=lambda i: f"d{i % N}", ids=lambda t: both if t else IDS)
    strategy = PolicyStrategy(average(), "all", N, identity="reported")
    started(strategy, grid, 3)
    assert grid.trained == [[*range(N)], [*range(1, N + 1)], [*range(1, N + 1)]]


def test_a_server_that_starts_again_takes_its_last_model_and_round(tmp_path, caplog):
    log, policy = tmp_path / "log.csv", "batch_partition:k=8,T=4,shuffle=true"
    arguments = dict(seed=3, identity="node_id", log=log, skipped_round_s=0.0)
    whole = started(PolicyStrategy(average(), policy, IDS, **(arguments | {"log": None})), StandIn(), 10)
    first = started(PolicyStrategy(average(), policy, IDS, **arguments), StandIn(), 4)
    again = PolicyStrategy(average(), policy, IDS, **arguments)
    caplog.set_level("INFO", "flwr")
    assert started(again, StandIn(), 6)[1:] == whole[5:] and first == whole[:5]
    assert "round 1 is round 4" in caplog.text and "with the model of round 3" in caplog.text
    model = log.with_suffix(".npz")
    kept = model.read_bytes()
    model.unlink()
    started(PolicyStrategy(average(), policy, IDS, **arguments), StandIn(), 1)
    assert "their model is not here: training begins with the initial one" in caplog.text
    model.write_bytes(kept)
    started(PolicyStrategy(average(), policy, IDS, **arguments), StandIn(), 1)
    assert "the model of round 10, the last in the log, was not kept; training continues with that of 9" in caplog.text
    flips = [bytes([*kept[:i], kept[i] ^ 0x55, *kept[i + 1 :]]) for i in range(0, 60, 3)]
    for damaged in flips:  # refused in one line, or read where the byte says nothing
        model.write_bytes(damaged)
        with suppress(SimflError):
            PolicyStrategy(average(), policy, IDS, **arguments).deployment.resume(ArrayRecord([np.array([0.0])]))
    for damaged in (b"", kept[:-30], b"no model"):
        model.write_bytes(damaged)
        with pytest.raises(SimflError, match="cannot be read as a model"):
            started(PolicyStrategy(average(), policy, IDS, **arguments), StandIn(), 1)


def test_what_cannot_be_is_refused_when_the_strategy_is_made(tmp_path):
    from flwr.server.strategy import FedAvg as Older

    for wrong, message in (
        (dict(identity=""), "identity: '': say how a device is recognised: 'reported' .each client"),
        (dict(identity="reportd"), "identity: 'reportd'; did you mean 'reported'.$"),
        (dict(log="participation.csv"), "log: 'participation.csv' is relative.*absolute path, e.g."),
        (dict(past="old.csv"), "past: 'old.csv' is relative"),
        (dict(identity=None), "identity: None: say how a device is recognised"),
        (dict(log="/tmp/model.npz"), "log: /tmp/model.npz: the last model is kept in a file of this name"),
        (dict(strategy=Older()), "strategy: FedAvg of flwr.server.strategy.fedavg is none of flwr.serverapp.strategy"),
    ):
        keys = dict(strategy=average(), policy="random:k=2", nodes=N, identity="node_id") | wrong
        with pytest.raises(SimflError, match=message):
            PolicyStrategy(**keys)


def test_rounds_without_nodes_are_warnings_and_a_run_without_a_sum_fails(caplog):
    strategy = PolicyStrategy(average(), "batch_partition:k=8,T=4", IDS, identity="node_id", skipped_round_s=0.0)
    with pytest.raises(SimflError, match="none of 3 rounds had a sum"):
        started(strategy, StandIn(away=lambda t, i: i % 4 == 0), 3)
    warnings = [each.getMessage() for each in caplog.records if "is skipped" in each.getMessage()]
    assert len(warnings) == 3 and "no available row of batch_partition among 18 of 24 nodes" in warnings[0]


def test_the_sum_is_in_the_log_before_it_is_opened(tmp_path):
    class Noting(FedAvg):
        def aggregate_train(self, server_round, replies):
            rows.append(read(tmp_path / "log.csv").matrix.shape[0])
            return super().aggregate_train(server_round, replies)

    rows = []
    strategy = PolicyStrategy(
        Noting(fraction_evaluate=0.0), "random:k=4", N, identity="node_id", log=tmp_path / "log.csv"
    )
    started(strategy, StandIn(), 3)
    assert rows == [1, 2, 3]
