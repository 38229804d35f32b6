"""The bridge under the installed Flower, whose own strategies and messages run here on a stand-in for its grid."""

from pathlib import Path

import numpy as np
import pytest

from simfl.audit.reading import read
from simfl.core.errors import SimflError
from simfl.flower.node_selection import NodeSelection
from tests.support.page import blocks

pytest.importorskip("flwr.serverapp", reason="the extra flower is not installed: pip install 'simfl[flower]'")

from flwr.app import ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg, FedProx

from simfl.flower import PolicyStrategy

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
    """

    def __init__(self, away=lambda t, i: False, answer=lambda t, i: "", metrics=lambda i: {"num-examples": 1}):
        self.away, self.answer, self.metrics = away, answer, metrics
        self.trained, self.evaluated, self.calls = [], [], 0

    def get_node_ids(self):
        return [node for i, node in enumerate(IDS) if not self.away(self.calls // 2, i)]

    def send_and_receive(self, messages, *, timeout=None):
        messages, (t, evaluation) = list(messages), divmod(self.calls, 2)
        clients = [IDS.index(message.metadata.dst_node_id) for message in messages]
        (self.evaluated if evaluation else self.trained).append(sorted(clients))
        self.calls += 1
        replies = [self.reply(message, t, i) for message, i in zip(messages, clients) if self.answer(t, i) != "nothing"]
        return [] if evaluation else replies[::-1]

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
    strategy = PolicyStrategy(wrapped(), policy, IDS, seed=3, log=log, skipped_round_s=0.0)
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
    np.testing.assert_array_equal(matrix, np.array(rows)[:, np.any(rows, axis=0)])


def test_one_batch_fails_and_the_other_one_is_averaged():
    grid = StandIn(answer=lambda t, i: "error" if i == 5 else "")
    strategy = PolicyStrategy(average(), "batch_partition:k=24,T=4", N)
    assert started(strategy, grid, 1)[1] == pytest.approx(np.mean([(i + 1) ** 0.5 for i in range(N) if i // 4 != 1]))
    assert strategy.selection.participation.tolist() == [1] * 4 + [0] * 4 + [1] * 16


def test_a_node_without_samples_takes_its_unit_out():
    grid = StandIn(metrics=lambda i: {"num-examples": 0 if i == 0 else 1})
    strategy = PolicyStrategy(average(), "batch_partition:k=24,T=4", N)
    assert started(strategy, grid, 1)[1] == pytest.approx(np.sqrt(np.arange(5, N + 1)).mean())


def test_the_floor_ends_training_and_evaluation():
    grid = StandIn()
    strategy = PolicyStrategy(FedAvg(), "random:k=4", N, seed=1, floor="semi_strong=3", skipped_round_s=0.0)
    models = started(strategy, grid, 40)
    last = len(strategy.selection.history)
    assert 0 < last < 40 and strategy.selection.stopped.startswith(f"with the sum of round {last}, semi_strong")
    assert [bool(clients) for clients in grid.trained] == [t < last for t in range(40)]
    assert [bool(clients) for clients in grid.evaluated] == [t < last for t in range(40)]
    assert len(set(models[last:])) == 1


def test_oort_reads_what_replies_report():
    metrics = lambda i: {"num-examples": 5, "my_loss": 8.0 if i > 18 else 0.1, "seconds": 3}  # noqa: E731
    policy = "oort:k=4,exploration=0.5,exploration_min=0.25"
    strategy = PolicyStrategy(average(), policy, N, metrics={"loss_rms": "my_loss"})
    started(strategy, StandIn(metrics=metrics), 40)
    used = strategy.selection.participation
    assert used[19:].mean() > 2 * used[:19].mean() and (strategy.selection.reports["seconds"] == 3).all()
    measured = PolicyStrategy(average(), policy, N, metrics={"loss_rms": "num-examples"})
    started(measured, StandIn(), 3)
    seconds = measured.selection.reports["seconds"][measured.selection.participation > 0]
    assert ((seconds >= 0) & (seconds < 60)).all()
    with pytest.raises(SimflError, match="reports no 'loss_rms'.*metrics=\\{'loss_rms': NAME\\}"):
        started(PolicyStrategy(average(), policy, N), StandIn(), 1)


def test_a_strategy_that_takes_other_nodes_is_refused():
    with pytest.raises(SimflError, match="FedAvg sends to 4 of the 8 nodes.*fraction_train"):
        started(PolicyStrategy(average(fraction_train=0.5), "batch_partition:k=8,T=4", N), StandIn(), 1)


def test_a_strategy_that_waits_for_more_nodes_is_refused(monkeypatch):
    monkeypatch.setattr("flwr.serverapp.strategy.strategy_utils.sleep", lambda seconds: None)
    with pytest.raises(SimflError, match="waits for more nodes than the 8"):
        started(PolicyStrategy(average(min_available_nodes=9), "batch_partition:k=8,T=4", N), StandIn(), 1)


def test_the_server_of_the_page_trains(tmp_path, monkeypatch, capsys):
    (code,) = (code for _, code, why in blocks(PAGE.read_text()) if code.startswith("# server_app.py"))
    monkeypatch.chdir(tmp_path)
    variables = {"__name__": "server_app"}
    exec(compile(code, "server_app.py", "exec"), variables)
    grid = StandIn()
    variables["app"](grid, Context(1, 1, {}, RecordDict(), {}))
    assert "all rounds" in capsys.readouterr().out and all(len(clients) == 8 for clients in grid.trained)
    log = read(tmp_path / "participation.csv")
    assert log.matrix.shape[0] == 20 and (log.matrix.toarray().reshape(20, -1, 4).std(axis=2) == 0).all()
