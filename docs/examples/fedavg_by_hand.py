"""Federated averaging by hand: SimPy for the clock, numpy for the model, nothing of simfl."""

import numpy as np
import simpy

ROUNDS, EPOCHS, RATE, DEADLINE_S = 6, 2, 0.5, 3.0
LATENCY_S = [0.1, 0.25, 0.4, 0.05, 0.3]  # of the line between each client and the server, one way
SECONDS_PER_SAMPLE = [0.01, 0.02, 0.005, 0.03, 0.01]  # in one epoch
SAMPLES = [30, 40, 50, 60, 20]
AWAY = {(1, 0), (1, 3), (1, 4), (3, 2), (4, 0), (4, 1), (4, 3)}  # (round, client) where the client is not available


def points(first, count):
    """Points of the plane with a third coordinate, and on which side of a wavy line each of them lies."""
    i = np.arange(first, first + count)
    x = np.stack([np.sin(i), np.cos(2 * i), np.sin(3 * i + 1)], axis=1).astype(np.float32)
    return x, (x[:, 0] - x[:, 1] + 0.5 * np.sin(7 * i) > 0).astype(int)


def probabilities(model, x):
    """Of the two classes, for a linear layer of 2 x 3 weights and 2 biases and a softmax."""
    logits = x @ model[:6].reshape(2, 3).T + model[6:]
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def train(model, x, y):
    """Gradient descent on the client's own samples, all of them in every step; the change of the model."""
    local = model.copy()
    for _ in range(EPOCHS):
        error = (probabilities(local, x) - np.eye(2)[y]) / len(y)
        local -= RATE * np.concatenate([(error.T @ x).ravel(), error.sum(axis=0)])
    return local - model


def client(env, i, model):
    """One job: the model comes, the client trains, the update goes back."""
    x, y = points(sum(SAMPLES[:i]), SAMPLES[i])
    yield env.timeout(LATENCY_S[i])
    yield env.timeout(SECONDS_PER_SAMPLE[i] * SAMPLES[i] * EPOCHS)
    yield env.timeout(LATENCY_S[i])
    return train(model, x, y)


def server(env, rows):
    """Every round: select all available clients, wait for them or the deadline, average their updates by samples."""
    model, (x, y) = np.zeros(8), points(1000, 200)
    for t in range(ROUNDS):
        jobs = {i: env.process(client(env, i, model)) for i in range(len(SAMPLES)) if (t, i) not in AWAY}
        yield env.all_of(jobs.values()) | env.timeout(DEADLINE_S)
        updates = {i: job.value for i, job in jobs.items() if job.processed}
        model = model + sum(SAMPLES[i] * updates[i] for i in updates) / sum(SAMPLES[i] for i in updates)
        of_each = probabilities(model, x)
        loss = -np.log(of_each[np.arange(len(y)), y]).mean()
        rows.append((t, env.now, list(updates), (of_each.argmax(axis=1) == y).mean(), loss, model))


def rounds():
    """(round, time_s, clients, test_accuracy, test_loss, model) of every round."""
    env, rows = simpy.Environment(), []
    env.run(env.process(server(env, rows)))
    return rows


if __name__ == "__main__":
    for t, time_s, clients, accuracy, loss, _ in rounds():
        print(f"round {t}  {time_s:5.2f} s  clients {clients}  accuracy {accuracy:.3f}  loss {loss:.4f}")
