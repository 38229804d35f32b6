"""A real SuperLink and SuperNodes that are killed and started again: the log states the sums that were opened."""

import json
import shutil
import threading

import numpy as np
import pytest

from simfl.deployment.audit.reading import read
from simfl.deployment.flower.participation_file import ParticipationFile
from tests.flower.federation import BIN, Federation, wait_until

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not (BIN / "flower-superlink").exists() or shutil.which("flower-superlink", path=str(BIN)) is None,
        reason="the extra flower is not installed: pip install 'simfl[flower]'",
    ),
]

DEVICES = [f"phone-{letter}" for letter in "abcdef"]
CLIENT = """
    import numpy as np
    from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query()
    def who(message, context):
        device = ConfigRecord({"device": context.node_config["device"]})
        return Message(RecordDict({"identity": device}), reply_to=message)

    @app.train()
    def train(message, context):
        update = np.eye(6)[int(context.node_config["number"])]  # the mean of a sum shows who was in it
        arrays, metrics = ArrayRecord([update]), MetricRecord({"num-examples": 1})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
"""
SERVER = """
    import json
    import numpy as np
    from flwr.app import ArrayRecord
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from simfl.deployment.flower import PolicyStrategy

    FOLDER = {folder!r}
    app = ServerApp()

    class Noting(FedAvg):
        def aggregate_train(self, server_round, replies):
            arrays, metrics = super().aggregate_train(server_round, replies)
            with open(FOLDER + "/opened.jsonl", "a") as file:
                file.write(json.dumps(arrays.to_numpy_ndarrays()[0].tolist()) + "\\n")
            return arrays, metrics

    @app.main()
    def main(grid, context):
        strategy = PolicyStrategy(Noting(fraction_evaluate=0.0, min_train_nodes=2, min_available_nodes=2),
                                  "batch_partition:k=4,T=2", 6, seed=1, identity="reported",
                                  log=FOLDER + "/participation.csv", skipped_round_s=2.0)
        rounds = int(context.run_config["rounds"])
        result = strategy.start(grid, ArrayRecord([np.zeros(6)]), num_rounds=rounds, timeout=25)
        print("MODEL", result.arrays.to_numpy_ndarrays()[0].tolist())
"""


def opened(folder):
    """The devices in each sum that the server has really seen."""
    lines = (folder / "opened.jsonl").read_text().splitlines() if (folder / "opened.jsonl").exists() else []
    return [{DEVICES[i] for i in np.flatnonzero(json.loads(line))} for line in lines]


def logged(folder):
    """The devices in each sum of the log, as an audit reads it."""
    log = read(folder / "participation.csv")
    return [{log.clients[i] for i in np.flatnonzero(row)} for row in log.matrix.toarray()]


def test_devices_that_are_killed_and_start_again_are_the_same_clients(tmp_path):
    with Federation(tmp_path, SERVER.replace("{folder!r}", repr(str(tmp_path))), CLIENT) as federation:
        for number, device in enumerate(DEVICES):
            federation.start_node(device, number)
        run = threading.Thread(target=federation.run, args=(8, 500))
        run.start()
        wait_until(lambda: len(opened(tmp_path)) >= 2, 240)
        for device in DEVICES[:2]:
            federation.kill(device)
        before = len(opened(tmp_path))
        wait_until(lambda: len(opened(tmp_path)) >= before + 1, 240)
        for number, device in enumerate(DEVICES[:2]):
            federation.start_node(device, number)
        run.join()
        ids = {entry.node for entry in ParticipationFile(tmp_path / "participation.csv", 6).entries}
        assert ids <= set(DEVICES)
        assert logged(tmp_path) == opened(tmp_path) and len(opened(tmp_path)) >= 4
        assert any(DEVICES[0] in devices for devices in logged(tmp_path)[before + 1 :])
        places = {entry.node: entry.client for entry in ParticipationFile(tmp_path / "participation.csv", 6).entries}
        units = [{node for node, place in places.items() if place // 2 == unit} for unit in range(3)]
        assert all(unit <= row or not unit & row for row in logged(tmp_path) for unit in units if len(unit) == 2)

        federation.kill("link")  # the server starts again and goes on
        federation.start_link()
        whole = len(opened(tmp_path))
        text = federation.run(3, 300)
        assert "training continues with the model of round" in text and "MODEL" in text, text[-3000:]
        assert logged(tmp_path) == opened(tmp_path) and len(opened(tmp_path)) > whole


SECURE_CLIENT = """
    import numpy as np
    from flwr.client import NumPyClient
    from flwr.client.mod import secaggplus_mod
    from flwr.clientapp import ClientApp

    class Phone(NumPyClient):
        def __init__(self, config):
            self.config = config

        def get_properties(self, config):
            return {"device": self.config["device"]}

        def fit(self, parameters, config):
            if config["round"] == 2 and self.config["number"] == 1:
                raise ValueError("no battery")
            return [np.eye(6)[int(self.config["number"])]], 1, {}

    app = ClientApp(client_fn=lambda context: Phone(context.node_config).to_client(), mods=[secaggplus_mod])
"""
SECURE_SERVER = """
    import json
    import numpy as np
    from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.server import LegacyContext, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.server.workflow import DefaultWorkflow
    from flwr.serverapp import ServerApp
    from simfl.deployment.flower import PolicySecAgg

    FOLDER = {folder!r}
    app = ServerApp()

    class Noting(FedAvg):
        def aggregate_fit(self, server_round, results, failures):
            parameters, metrics = super().aggregate_fit(server_round, results, failures)
            with open(FOLDER + "/opened.jsonl", "a") as file:
                row = np.round(parameters_to_ndarrays(parameters)[0], 3) + 0.0
                file.write(json.dumps(row.tolist()) + "\\n")
            return parameters, metrics

    @app.main()
    def main(grid, context):
        strategy = Noting(fraction_evaluate=0.0, initial_parameters=ndarrays_to_parameters([np.zeros(6)]),
                          on_fit_config_fn=lambda number: {"round": number})
        rounds = int(context.run_config["rounds"])
        legacy = LegacyContext(context=context, config=ServerConfig(num_rounds=rounds), strategy=strategy)
        secure = PolicySecAgg("batch_partition:k=4,T=2", 4, 4, 2, identity="reported", skipped_round_s=1.0,
                              log=FOLDER + "/participation.csv", protocol={"timeout": 20.0})
        DefaultWorkflow(fit_workflow=secure)(grid, legacy)
"""


def test_what_secagg_opens_is_what_the_log_states(tmp_path):
    """In round 2 one of four fails after the keys are shared: SecAgg+ would open the sum of three."""
    with Federation(tmp_path, SECURE_SERVER.replace("{folder!r}", repr(str(tmp_path))), SECURE_CLIENT) as federation:
        for number, device in enumerate(DEVICES[:4]):
            federation.start_node(device, number)
        wait_until(lambda: all("Starting Flower" in (tmp_path / f"{each}.log").read_text() for each in DEVICES[:4]), 60)
        text = federation.run(4, 400)
        assert "is not opened: the 3 masked updates" in text, text[-3000:]
        rounds = {entry.round for entry in ParticipationFile(tmp_path / "participation.csv", 4).entries}
        assert logged(tmp_path) == opened(tmp_path) and len(opened(tmp_path)) == len(rounds) >= 2


NAMING_SERVER = """
    import json
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid, context):
        with open({folder!r} + "/ids.jsonl", "a") as file:
            file.write(json.dumps(sorted(grid.get_node_ids())) + "\\n")
"""


@pytest.mark.parametrize("keys", [True, False])
def test_a_node_keeps_its_id_with_a_registered_key_only(keys, tmp_path):
    """What ``authenticated`` takes for granted, and ``node_id`` does not have."""
    server = NAMING_SERVER.replace("{folder!r}", repr(str(tmp_path)))
    with Federation(tmp_path, server, CLIENT, keys) as federation:
        ids = lambda: [json.loads(line) for line in (tmp_path / "ids.jsonl").read_text().splitlines()]  # noqa: E731
        if keys:
            federation.register("phone-a")
        federation.start_node("phone-a", 0)

        def seen():
            federation.run(1)
            return ids()[-1]

        wait_until(seen, 120)
        (first,) = ids()[-1]
        federation.kill("phone-a")
        federation.start_node("phone-a", 0)
        wait_until(lambda: (tmp_path / "link.log").read_text().count("Activated node_id") == 2, 120)
        assert (seen() == [first]) == keys
