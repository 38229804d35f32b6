"""Random small scenarios over all families; a third of them are full of exact ties."""

import json
from typing import Any

import numpy as np

from simfl.scenario import InvalidScenario, Scenario

TIED_S = (0.0, 0.25, 0.5, 1.0)
"""Of these all sums are exact, so that messages, failures and deadlines fall on the same instant."""


def random_scenario(rng: np.random.Generator, plugins: Any = None) -> tuple[Scenario, bool]:
    """A scenario that is valid and whether its times tie; what does not fit together is drawn again.

    Args:
        rng: what draws it.
        plugins: folder of the plugins that it may use; None = none are used.
    """
    while True:
        text, tied = random_text(rng, plugins is not None)
        try:
            return Scenario.parse(text, "random", folder=plugins), tied
        except InvalidScenario:
            continue


def random_text(rng: np.random.Generator, plugins: bool = False) -> tuple[str, bool]:
    """The YAML of a scenario, perhaps not a valid one, and whether its times tie."""
    draw = _Draw(rng)
    tied = draw.chance(1 / 3)
    n = int(draw.one([2, 3, 4, 6, 8, 12, 16, 24]))
    selection = _selection(draw, n)
    training = _training(draw, tied, n, selection)
    found = {
        "name": "random",
        "seed": int(rng.integers(1000)),
        "clients": n,
        "network": _network(draw, tied, n),
        "devices": {
            "availability": _availability(draw, n),
            "computation": _computation(draw, tied, n),
            "failure": _failure(draw, n),
        },
        "selection": selection,
        "training": training,
        "learning": _learning(draw, training),
        "privacy": "none" if draw.chance(0.8) else "multi_round",
        "trace": "events",
    }
    if plugins and draw.chance(0.15):
        found |= {"secagg": {"name": "three_phases"}, "plugins": ["three_phases.py"]}
        if draw.chance(0.5):
            found["secagg"]["deadline_s"] = float(draw.one([0.25, 0.5, 2.0]))
    own = _Draw(rng.spawn(1)[0])  # draws that no others follow: what they bring moves no other scenario
    if "stop" in training and own.chance(0.3):
        training["rounds"] = None
    elif plugins and own.chance(0.05) and "secagg" not in found:
        common = {name: training[name] for name in ("rounds", "weighting", "stop") if name in training}
        common |= {name: training[name] for name in ("batch_size", "learning_rate") if name in training}
        found |= {"training": {"name": "ring_gossip", **common}, "plugins": ["gossip.py"], "selection": "all"}
    _watched(_Draw(rng.spawn(1)[0]), found)
    late = _Draw(rng.spawn(1)[0])
    if training["name"] == "fedavg" and late.chance(0.4):
        training["quorum"] = late.one([0.3, 0.5, 0.8, 1.0, int(late.rng.integers(1, selection.get("k", n) + 1))])
    shared = _Draw(rng.spawn(1)[0])
    if shared.chance(0.3):
        _share(shared, found)
    profiled = _Draw(rng.spawn(1)[0])
    if plugins and profiled.chance(0.15):
        found["devices"] = {"profiles": "devices.csv", "failure": found["devices"]["failure"]}
        tied = False
    coding = _Draw(rng.spawn(1)[0])
    if coding.chance(0.3):
        found["compression"] = _compression(coding)
    named = _Draw(rng.spawn(1)[0])
    if named.chance(0.4):
        _share_edges(named, found["network"], n)
    newest = _Draw(named.rng.spawn(1)[0])
    _newest(newest, found)
    _open_units(_Draw(newest.rng.spawn(1)[0]), found)
    return json.dumps(found), tied


class _Draw:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def one(self, choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def some(self, p: float, **values: Any) -> dict[str, Any]:
        """Each of these with probability p."""
        return {name: value for name, value in values.items() if self.chance(p)}


def _seconds(draw: _Draw, tied: bool) -> Any:
    """A duration or a distribution of durations."""
    if tied:
        return float(draw.one(TIED_S))
    return draw.one([
        0.1,
        {"name": "exponential", "mean": 0.3},
        {"name": "log_normal", "median": 0.2, "sigma": 0.7},
        {"name": "uniform", "low": 0.05, "high": 0.6},
        {"name": "empirical", "values": [0.1, 0.2, 0.2, 0.9]},
    ])  # fmt: skip


def _network(draw: _Draw, tied: bool, n: int) -> Any:
    jitter = {} if tied else draw.some(0.3, jitter_s=_seconds(draw, False))
    latency = [float(draw.one(TIED_S)) for _ in range(n)] if tied and draw.chance(0.5) else _seconds(draw, tied)
    width = draw.some(0.3, bandwidth_bytes_per_s=64.0 if tied else 90.0)
    match draw.one(["star", "star", "graph", "cities", "ring", "complete"]):
        case "graph":
            nodes = [f"c{i}" for i in range(n)]
            edges = [["server", "hub", float(draw.one(TIED_S))]]
            edges += [[draw.one(["server", "hub", *nodes[:i]]), node, float(draw.one(TIED_S))]
                      for i, node in enumerate(nodes)]  # fmt: skip
            return {"name": "graph", "edges": edges, "clients": nodes} | jitter
        case "cities":
            where = {"server": "Paris", "placement": "cycle"} | draw.some(0.5, access_s=0.0)
            return {"name": "cities", "rtt": "great_circle", **where} | width | jitter
        case "ring" | "complete" as name:
            return {"name": name, "latency_s": _seconds(draw, tied)} | width | jitter
    return {"name": "star", "latency_s": latency} | width | draw.some(0.2, up_bandwidth_bytes_per_s=32.0) | jitter


def _share(draw: _Draw, found: dict[str, Any]) -> None:
    """Gives the server a link of its own, which messages share."""
    limits = draw.some(0.7, up_bytes_per_s=float(draw.one([40, 128, 500, 2000])),
                       down_bytes_per_s=float(draw.one([40, 128, 500, 2000])))  # fmt: skip
    network = found["network"]
    if network["name"] in ("graph", "cities"):
        limits["name"] = network.get("server", "server")
    network["server"] = limits


def _share_edges(draw: _Draw, network: dict[str, Any], n: int) -> None:
    """Gives edges of a network of places names and capacities; some stand in two groups."""
    match network["name"]:
        case "graph":
            edges = [edge[:2] for edge in network["edges"]]
        case "cities":
            edges = [["Paris", city] for city in ("Tokyo", "New Delhi", "Shanghai", "Dhaka", "Cairo", "Mexico")]
        case "ring":
            edges = [[i, (i + 1) % n] for i in range(n if n > 2 else 1)]
        case "complete":
            edges = [[i, j] for i in range(min(n, 5)) for j in range(i)]
        case _:
            return
    shared = {}
    for name in ("backbone", "east", "west")[: int(draw.rng.integers(1, 4))]:
        chosen = draw.rng.permutation(len(edges))[: int(draw.rng.integers(1, len(edges) + 1))].tolist()
        flipped = [edges[i][::-1] if draw.chance(0.3) else edges[i] for i in chosen]
        width = {"bytes_per_s": float(draw.one([40, 128, 500, 2000]))}
        shared[name] = {"edges": flipped} | width | draw.some(0.3, up_bytes_per_s=float(draw.one([40, 128, 500])))
    network["shared"] = shared


def _compression(draw: _Draw) -> dict[str, Any]:
    name = draw.one(["quantise", "random_k", "random_k", "sign", "top_k"])
    if name in ("random_k", "top_k"):
        return {"name": name, "share": float(draw.one([0.1, 0.5, 1.0]))}
    bits = {"bits": int(draw.one([2, 4, 16]))} if name == "quantise" else {}
    return {"name": name} | bits | draw.some(0.5, bucket=int(draw.one([1, 3, 8])))


def _availability(draw: _Draw, n: int) -> Any:
    match draw.one(["always", "bernoulli", "bernoulli", "markov", "correlated", "trace"]):
        case "bernoulli":
            return {"name": "bernoulli", "dropout": draw.one([0.1, 0.3, {"choices": [0.1, 0.2, 0.5]}])}
        case "markov":
            return {"name": "markov", "mean_on_rounds": 4, "mean_off_rounds": 2}
        case "correlated":
            return {"name": "correlated", "groups": 2, "group_dropout": 0.2} | draw.some(0.5, dropout=0.1)
        case "trace":
            times = [[str(i), float(draw.one([0, 0, 1])), float(draw.one([3, 5, 5]))] for i in range(0, n, 2)]
            return {"name": "trace", "inline": times, "period": 5, "unit": draw.one(["seconds", "rounds"])}
    return "always"


def _computation(draw: _Draw, tied: bool, n: int) -> Any:
    speed = [float(draw.one([0.5, 1, 1, 2])) for _ in range(n)]
    match draw.one(["constant", "per_sample", "random"]):
        case "constant":
            return {"name": "constant", "seconds": float(draw.one(TIED_S)) if tied else 0.3}
        case "per_sample":
            return {"name": "per_sample", "seconds": 0.25 if tied else 0.07} | draw.some(0.5, speed=speed)
    distribution = {"name": "empirical", "values": [0.25, 0.5, 1.0]} if tied else _seconds(draw, False)
    return {"name": "random", "distribution": distribution} | draw.some(0.5, speed=speed)


def _failure(draw: _Draw, n: int) -> Any:
    if draw.chance(0.4):
        return "none"
    return {"name": "bernoulli", "probability": draw.one([0.05, 0.3, 0.5, [float(i % 2) / 2 for i in range(n)]])}


def _selection(draw: _Draw, n: int) -> dict[str, Any]:
    name = draw.one(["random", "random", "weighted", "all", "bernoulli", "partition", "batch_partition",
                     "batch_partition", "half_partition"])  # fmt: skip
    if name == "all":
        return {"name": "all"}
    shuffle = draw.some(0.2, shuffle=True)
    divisors = [k for k in range(1, n + 1) if n % k == 0]
    if name in ("random", "weighted", "bernoulli"):
        return {"name": name, "k": int(draw.rng.integers(1, n + 1))}
    if name == "partition":
        return {"name": name, "k": int(draw.one(divisors))} | shuffle
    unit = int(draw.one(divisors))
    mode = draw.some(0.5, mode=draw.one(["uniform", "fair", "least_total"]))
    return {"name": name, "k": unit * int(draw.rng.integers(1, n // unit + 1)), "T": unit} | mode | shuffle


def _training(draw: _Draw, tied: bool, n: int, selection: dict[str, Any]) -> dict[str, Any]:
    stop = draw.some(0.15, client_updates=int(draw.rng.integers(1, 40)), time_s=float(draw.one([2.0, 3.0])),
                     traffic_bytes=int(draw.rng.integers(1, 5000)))  # fmt: skip
    common = {"rounds": int(draw.rng.integers(1, 13)), "weighting": draw.one(["samples", "equal"])}
    common |= {"stop": stop} if stop else {}
    common |= draw.some(0.4, deadline_s=float(draw.one([0.5, 0.75, 1.0, 1.5, 2.0, 3.0]) if tied else 0.9))
    common |= draw.some(0.2, server_learning_rate=0.5, server_optimiser=draw.one(["adam", {"name": "sgd",
                        "momentum": 0.5}]))  # fmt: skip
    name = draw.one(["fedavg", "fedavg", "fedbuff", "fedbuff", "fedbuff", "fedbuff_paper", "fedasync", "flsim"])
    if name == "fedavg":
        wait = draw.some(0.5, skipped_round_s=float(draw.one([0.0, 0.5, 2.0])))
        on_failure = draw.one(["drop_unit", "abort", "partial"])
        return {"name": name, "on_failure": on_failure, **common, **wait} | draw.some(0.3, announce=True)
    unit = selection.get("T", selection["k"] if selection["name"] == "partition" else 1)
    partial = draw.chance(0.2)
    step = 1 if partial else unit
    most = max(1, n // step)
    own: dict[str, Any] = draw.some(
        0.4,
        staleness=draw.one(["constant", "polynomial", {"name": "polynomial", "alpha": 1.0},
                            {"name": "hinge", "a": 2.0, "b": 1.0}]),
        unit_weights="own",
        max_staleness=int(draw.rng.integers(0, 4)),
        too_stale="clip",
        retry_s=float(draw.one([0.25, 0.5, 2.0])),
        lookahead=int(draw.rng.integers(1, 2 * n)),
        reference_staleness=float(draw.rng.integers(0, 3)),
    )  # fmt: skip
    own |= {"concurrency": min(n, unit * int(draw.rng.integers(1, n // unit + 1)))}
    if name == "fedbuff":
        own |= draw.some(0.5, normaliser=draw.one(["weight_sum", "none", "count"]), mix="models")
    else:
        common |= {"weighting": "equal"}
    if name != "fedasync":
        own |= {"buffer": step * int(draw.rng.integers(1, most + 1))}
    if draw.chance(0.2):
        own |= {"arrivals": {"name": "uniform_staleness", "max": int(draw.rng.integers(0, 5))} | draw.some(
            0.5, seconds=float(draw.one([0.0, 0.5])))}  # fmt: skip
    return {"name": name, **common, **own} | ({"partial": True} if partial else {})


def _watched(draw: _Draw, found: dict[str, Any]) -> None:
    """Protocols, noise, rules of clients, and attacks on all of it; what does not fit together is drawn again."""
    training, n = found["training"], found["clients"]
    if draw.chance(0.2) and "plugins" not in found:
        data = {"name": "synthetic", "samples": 6 * n, "test_samples": 20, "shape": [3], "classes": 2}
        evaluate = {"every": int(draw.one([0, 1, 2])), "per_client": draw.chance(0.5)}
        found["learning"] = {"data": data, "model": draw.one(["logistic", {"name": "mlp", "hidden": [4]}]),
                             "partition": "iid", "evaluate": evaluate}  # fmt: skip
        training |= {"batch_size": 4, "learning_rate": 0.2}
        if draw.chance(0.5):
            kept = {"name": "private_layers", "keep": [draw.one(["head", "all"])]}
            training["personal"] = draw.one(["fine_tune", "ditto", "local", kept, kept])
    if draw.chance(0.2) and "secagg" not in found:
        cohorts = ["secagg", "secagg_plus", "lightsecagg", "pairwise_ratchet"]
        name = draw.one(cohorts if training["name"] == "fedavg" else ["basecagg"])
        found["secagg"] = {"name": name, "execute": draw.one([True, "cost_only"])} | draw.some(0.3, deadline_s=2.0)
    if draw.chance(0.25):
        bound = {"clip_norm": 0.5}
        noise = bound | {"noise_multiplier": float(draw.one([0.0, 0.5, 2.0]))}
        stage = draw.one([
            {"name": "central_gaussian", **noise}, {"name": "tree_gaussian", **noise}, {"name": "adaptive_gaussian"},
            {"name": "clipping", "norm": 0.5}, {"name": "local_gaussian", **bound}, {"name": "local_laplace", **bound},
            {"name": "local_staircase"}, {"name": "laplace_shares", **bound}, {"name": "skellam", **noise},
            {"name": "discrete_gaussian", **noise}, {"name": "xnoise", **noise},
        ])  # fmt: skip
        found["privacy"] = {"stages": [stage]}
        training |= draw.some(0.7, weighting="equal")
    if draw.chance(0.35):
        found["attacks"] = _attacks(draw, n)


def _newest(draw: _Draw, found: dict[str, Any]) -> None:
    """Committees' protocols in the place of others, clients that attack, robust aggregates, checked selection."""
    training, n = found["training"], found["clients"]
    if draw.chance(0.3) and found.get("secagg", {}).get("name") in ("secagg", "secagg_plus", "lightsecagg"):
        found["secagg"]["name"] = draw.one(["opa", "flamingo"])
    selection = found["selection"]
    synchronous = training["name"] == "fedavg"
    if draw.chance(0.15) and synchronous and isinstance(selection, dict) and "partition" in selection["name"]:
        inner = selection | ({"mode": "uniform"} if "mode" in selection else {})
        found["selection"] = {"name": "verifiable", "inner": inner}
    if draw.chance(0.15):
        lie = draw.one(["sign_flip", "gaussian_noise", "free_rider", "alie", "min_max", "liar", "cutter"])
        own = {"cutter": {"victims": "0"}, "gaussian_noise": {"std": 0.1}}.get(lie, {})
        groups = [{"agent": {"name": lie, **own}, "clients": str(draw.rng.integers(1, n))}]
        found["agents"] = {"client": {"name": "mixed", "groups": groups}}
    if draw.chance(0.1) and found.get("secagg", "plain") == "plain" and synchronous:
        found["secagg"] = "plain"
        training["aggregate"], training["weighting"] = draw.one([
            "geometric_median", "median", {"name": "norm_bound", "bound": 0.5}, {"name": "krum", "f": 1},
            {"name": "multi_krum", "f": 1}, {"name": "bulyan", "f": 1}, {"name": "centred_clipping", "radius": 0.5},
        ]), "equal"  # fmt: skip


def _open_units(draw: _Draw, found: dict[str, Any]) -> None:
    """The sum of each unit in the place of one of all, and rules that compare these."""
    training, selection = found["training"], found["selection"]
    policy = selection.get("inner", selection) if isinstance(selection, dict) else {}
    inner = found.get("secagg", {"name": draw.one(["ideal", "secagg"])})
    units = "partition" in policy.get("name", "") and policy.get("T", policy["k"]) > 1
    sums = inner != "plain" and inner["name"] in ("ideal", "secagg", "secagg_plus", "lightsecagg")
    if not draw.chance(0.5) or not units or not sums or training["name"] != "fedavg":
        return
    found["secagg"] = {"name": "unit_sums", "protocol": inner}
    found.pop("attacks", None)  # of one sum a round
    training["on_failure"] = "abort" if training["on_failure"] == "abort" else "drop_unit"
    if draw.chance(0.6):
        training["aggregate"], training["weighting"] = draw.one([
            "median", "geometric_median", {"name": "norm_bound", "bound": 0.5}, {"name": "krum", "f": 0},
        ]), "equal"  # fmt: skip


def _attacks(draw: _Draw, n: int) -> list[dict[str, Any]]:
    whom = {"clients": [int(draw.rng.integers(n))], "window": int(draw.one([1, 3]))}
    view = {"view": draw.one(["server", "server", "public"])}
    own = {"game": "in_client", **whom, **view}
    sums: dict[str, Any] = {"name": "least_squares", **view} | draw.some(
        0.3, every=3, forget=0.2, estimator="ridge", coordinates=2
    )
    some = [
        sums,
        {"name": "inversion", "method": draw.one(["analytic", "cosine"]), "steps": 2, **whom, **view},
        {"name": "membership", "label": "any"},
        {"name": "membership", "label": "own", "others": "alike", **own},
        {"name": "membership", "label": "taught", "statistic": "logits", **own},
        {"name": "membership", "label": "ranks", "statistic": draw.one(["fedmia", "fedmia_gradient"]), **own},
        {"name": "collusion", "victim": int(draw.rng.integers(n))},
    ]
    return [attack for attack in some if draw.chance(0.5)]


def _learning(draw: _Draw, training: dict[str, Any]) -> Any:
    if draw.chance(0.06):
        training |= {"batch_size": 8, "learning_rate": 0.2}
        data = {"name": "synthetic", "samples": 60, "test_samples": 10, "shape": [3], "classes": 2}
        partition = draw.one(["iid", {"name": "dirichlet", "beta": 0.3, "over": "clients"}])
        evaluate = {"every": int(draw.one([0, 1, 3]))}
        return {"data": data, "partition": partition, "model": "logistic", "evaluate": evaluate}
    return {"name": "none", "parameters": int(draw.one([0, 4, 8, 16])), "samples": int(draw.one([1, 1, 2, 4]))}
