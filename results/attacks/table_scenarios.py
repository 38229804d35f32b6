"""The policies and settings of table.py."""

from pathlib import Path

HERE = Path(__file__).resolve().parent
N, K, Z = 48, 12, (0.03, 0.3)
BUDGET = 10_000_000
"""Work of each privacy metric."""
POLICIES = {
    "random": "random",
    "weighted": "weighted",
    "bernoulli": "bernoulli",
    "partition": "partition",
    **{f"batch T={T}": f"batch_partition:T={T}" for T in (2, 3, 4, 6)},
    **{f"half T={T}": f"half_partition:T={T}" for T in (2, 4, 6)},
    "all": "all",
}
FAILING = "devices.failure={name: bernoulli, probability: 0.01}"
FEDBUFF = "training.name=fedbuff"
SUMS = "secagg={name: secagg, execute: cost_only}"
STAGE = "privacy.stages=[{{name: {name}, clip_norm: 0.3, noise_multiplier: {z}}}]"
EPSILON = "privacy.accountants=[{name: zero_out, delta: 1.0e-5}]"
BLOCKS = {
    "plain": ("secagg=plain",),
    "secagg": (SUMS,),
    "secagg, 1 % fail, drop_unit": (SUMS, FAILING),
    "secagg, 1 % fail, partial": (SUMS, FAILING, "training.on_failure=partial"),
    "fedbuff, basecagg": (
        "secagg={name: basecagg, execute: cost_only}",
        FEDBUFF,
        f"training.buffer={K}",
        f"training.concurrency={K}",
        "training.staleness=polynomial",
    ),
    **{f"distributed noise z={z}": (SUMS, STAGE.format(name="skellam", z=z), EPSILON) for z in Z},
    f"central noise z={Z[1]}": (SUMS, STAGE.format(name="central_gaussian", z=Z[1]), EPSILON),
}
ORDER = {name: place for place, name in enumerate([*BLOCKS, *POLICIES])}
BASE = {
    "clients": N,
    "selection": {"name": "random", "k": K},
    "devices": {"computation": {"name": "random", "distribution": {"name": "half_normal", "sigma": 1.0}}},
    "training": {"name": "fedavg", "local_steps": 1, "batch_size": 20, "weighting": "equal"},
    "privacy": "none",
    "plugins": [str(HERE / "plugins.py")],
}
MEMBERSHIP = {"name": "membership", "game": "in_client", "clients": list(range(N)), "window": 20}
ALIKE = MEMBERSHIP | {"others": "alike", "label": "alike"}
DATA = {
    "digits": (
        {"data": "digits", "model": "mlp", "partition": {"name": "few", "alone": 4, "each": 26}},
        {"name": "inversion", "method": "analytic", "window": 20},
    ),
    "mnist": (
        {
            "data": "mnist",
            "model": "lenet5",
            "backend": "grouped",
            "partition": {"name": "few", "alone": 4, "each": 60},
        },
        {"name": "inversion", "method": "cosine", "steps": 300, "restarts": 1, "window": 20},
    ),
}
ROUNDS = {"digits": 120, "mnist": 300}
