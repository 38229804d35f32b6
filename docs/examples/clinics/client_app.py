"""A Flower client that says which device it is (docs/tutorials/afternoon.md)."""

import zlib

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
    """One step of gradient descent on data of this device's."""
    weights = message.content["arrays"].to_numpy_ndarrays()[0]
    rng = np.random.default_rng(zlib.crc32(context.node_config["device"].encode()))
    features, targets = rng.normal(size=(100, 10)), rng.normal(size=100)
    step = features.T @ (features @ weights - targets) / 100
    content = {"arrays": ArrayRecord([weights - 0.1 * step]), "metrics": MetricRecord({"num-examples": 100})}
    return Message(RecordDict(content), reply_to=message)
