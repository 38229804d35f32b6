"""Noise that clients add covers what they send, not what is summed: every update that the server sees costs."""

import json
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

from simfl.agents.servers import SERVERS
from simfl.agents.synchronous import SynchronousServer
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.stage import STAGES
from simfl.runs.run import run
from simfl.scenario import Scenario
from simfl.training.base import RULES
from simfl.training.fedavg import FedAvg
from tests.support.judge import table

OWN = {name: cls for name, cls in STAGES.items() if cls.__module__.startswith("simfl.") and cls.adds_noise}
AGAINST_SERVER = [name for name, cls in OWN.items() if cls.adds_noise.observer == "server" and not cls.whole]
COLUMN = {"name": "random", "distribution": {"name": "uniform", "low": 0.5, "high": 30.0}}
BASE = {
    "name": "unsummed", "clients": 8, "seed": 3, "selection": {"name": "batch_partition", "k": 4, "T": 2},
    "learning": {"name": "none", "parameters": 10}, "network": {"name": "star", "latency_s": 2.0},
    "devices": {"computation": COLUMN, "failure": {"name": "bernoulli", "probability": 0.2}}, "trace": "events",
    "secagg": "plain",
}  # fmt: skip
SYNC = {"name": "fedavg", "rounds": 12, "weighting": "equal"}
BUFFERED = {"name": "fedbuff", "rounds": 12, "weighting": "equal", "concurrency": 6, "buffer": 4}
TRAININGS = {
    "units that lose a member": SYNC,
    "single clients": SYNC | {"on_failure": "partial"},
    "aborted rounds": SYNC | {"on_failure": "abort"},
    "a deadline": SYNC | {"deadline_s": 20.0},
    "a quorum": SYNC | {"quorum": 2},
    "nobody ever": SYNC | {"on_failure": "abort", "deadline_s": 5.0},
    "buffered": BUFFERED,
    "a half-filled buffer": BUFFERED | {"rounds": 1},
    "buffered, stale ones discarded": BUFFERED | {"max_staleness": 0, "too_stale": "discard"},
    "buffered, a deadline": BUFFERED | {"deadline_s": 20.0},
    "drawn": BUFFERED | {"arrivals": {"name": "uniform_staleness", "max": 4}, "max_staleness": 2},
}


def scenario(training, stage, more=None):
    accountants = [{"name": "zero_out", "delta": 1e-5}]
    found = BASE | {"training": training, "privacy": {"stages": [stage], "accountants": accountants}} | (more or {})
    return Scenario.parse(json.dumps(found))


def sent_by(folder):
    """How many updates each client has sent, by the messages of the trace."""
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return Counter(event["from"] for event in events if event["event"] == "message" and event["kind"] == "update")


def composed(stage, updates):
    if stage["name"] == "local_gaussian":
        mu = 1 / gaussian.std(1.0, 1.0, 1e-5)
        return float(gaussian.epsilon(np.array([mu * updates**0.5]), 1e-5)[0]) if updates else 0.0
    return float(updates)


@pytest.mark.parametrize("why", TRAININGS)
@pytest.mark.parametrize("name", AGAINST_SERVER)
def test_epsilon_composes_over_all_updates_that_were_sent(name, why, tmp_path):
    stage = {"name": name, "epsilon": 1.0}
    folder = run(scenario(TRAININGS[why], stage), tmp_path).path
    sent, rounds = sent_by(folder), table(folder / "rounds.csv")
    summed = Counter(int(row["client"]) for row in table(folder / "participation.csv"))
    right = composed(stage, max(sent.values(), default=0))
    if why == "nobody ever":
        assert sent and not summed and not rounds[-1]["epsilon_max"]
        return
    assert float(rounds[-1]["epsilon_max"]) == pytest.approx(right, rel=1e-6)
    assert {int(row["client"]): pytest.approx(composed(stage, sent[int(row["client"])]), rel=1e-6)
            for row in table(folder / "privacy.csv")} == {
                int(row["client"]): float(row["epsilon"]) for row in table(folder / "privacy.csv")}  # fmt: skip
    assert sent.total() > summed.total() or why == "single clients", "the case has updates in no sum"


def test_the_gaussian_accountants_say_so_too(tmp_path):
    pytest.importorskip("dp_accounting")
    stage = {"name": "local_gaussian", "epsilon": 1.0}
    privacy = {"stages": [stage], "accountants": ["zero_out", "pld", "rdp"]}
    last = table(run(scenario(SYNC, stage, {"privacy": privacy}), tmp_path).path / "rounds.csv")[-1]
    assert float(last["epsilon_pld"]) == pytest.approx(float(last["epsilon_max"]), rel=1e-2)
    assert float(last["epsilon_rdp"]) >= float(last["epsilon_max"])


@pytest.mark.parametrize("why", [why for why, training in TRAININGS.items() if training["name"] == "fedbuff"])
def test_a_run_without_a_trace_counts_the_same(why, tmp_path):
    single = {"selection": {"name": "random", "k": 4}}
    folders = [run(scenario(TRAININGS[why], {"name": "local_gaussian"}, single | {"trace": trace}), tmp_path).path
               for trace in ("events", "rounds")]  # fmt: skip
    for name in ("facts.csv", "messages.csv"):
        one, other = (path.read_bytes() if (path := folder / name).exists() else b"" for folder in folders)
        assert one == other and folders[0] != folders[1]


def test_under_a_protocol_only_sums_are_seen(tmp_path):
    training = SYNC | {"on_failure": "partial"}
    folders = [run(scenario(training, {"name": "local_gaussian"}, {"secagg": protocol}), tmp_path).path
               for protocol in ("plain", "secagg")]  # fmt: skip
    summed = Counter(int(row["client"]) for row in table(folders[1] / "participation.csv"))
    stage = {"name": "local_gaussian", "epsilon": 1.0}
    for row in table(folders[1] / "privacy.csv"):
        assert float(row["epsilon"]) == pytest.approx(composed(stage, summed[int(row["client"])]), rel=1e-6)


@RULES("of_own_server")
@dataclass(frozen=True, kw_only=True)
class OfOwnServer(FedAvg):
    server = "uncounting"


@SERVERS("uncounting")
class Uncounting(SynchronousServer):
    """A server that says of no update what became of it."""

    def start(self):
        self.holds_model = np.zeros(self.parts.clients, dtype=bool)


@pytest.mark.parametrize("name", AGAINST_SERVER)
def test_where_a_server_counts_none_epsilon_is_infinite(name, tmp_path):
    folder = run(scenario(SYNC | {"name": "of_own_server"}, {"name": name, "epsilon": 1.0}), tmp_path).path
    assert {row["epsilon_max"] for row in table(folder / "rounds.csv")[-1:]} == {""}
    central = {"name": "central_gaussian"}
    folder = run(scenario(SYNC | {"name": "of_own_server"}, central), tmp_path).path
    assert not table(folder / "rounds.csv")[-1]["epsilon_max"], "nor does it say that its choice follows no update"


LATE = {"secagg": "pairwise_ratchet", "network": {"name": "star", "latency_s": 0.5}, "selection": {"name": "all"},
        "training": {"name": "fedavg", "rounds": 12, "weighting": "equal", "deadline_s": 1.4},
        "devices": {"computation": COLUMN | {"distribution": {"name": "exponential", "mean": 0.1}}}}  # fmt: skip
SILENT = {"secagg": {"name": "lightsecagg", "survivors": 0.8, "private": 0.3}, "selection": {"name": "all"},
          "training": {"name": "fedavg", "rounds": 12, "weighting": "equal"},
          "devices": {"failure": {"name": "bernoulli", "probability": 0.0, "phases": {"unmask": 0.4}}}}  # fmt: skip


@pytest.mark.parametrize("case", [LATE, SILENT], ids=["late updates complete the sum", "too few answers"])
def test_rounds_that_the_server_may_have_opened_itself_count(case, tmp_path):
    base = {"name": "opened", "clients": 4, "learning": {"name": "none", "parameters": 4}}
    folder = run(Scenario.parse(json.dumps(base | case | {"privacy": {"stages": ["local_gaussian"]}})), tmp_path).path
    opened = {row["round"] for row in table(folder / "phases.csv") if row["tolerated"] == "-1"}
    summed = {row["round"] for row in table(folder / "participation.csv")}
    assert opened - summed and table(folder / "rounds.csv")[-1]["privacy_strong"] == "1"
    right = composed({"name": "local_gaussian", "epsilon": 1.0}, len(opened | summed))
    assert float(table(folder / "rounds.csv")[-1]["epsilon_max"]) == pytest.approx(right, rel=1e-6)
