"""The policies that selection.py plays."""

OORT = {"name": "oort", "k": 12, "scalars": "clear"}
POLICIES: dict[str, dict[str, object]] = {
    "random": {"name": "random", "k": 12},
    "weighted": {"name": "weighted", "k": 12},
    "bernoulli": {"name": "bernoulli", "k": 12},
    "power_of_choice, d = 24": {"name": "power_of_choice", "k": 12, "d": 24, "scalars": "clear"},
    "oort": OORT,
    "fedcs": {"name": "fedcs", "k": 36, "deadline_s": 4.0},
    "tifl": {"name": "tifl", "k": 12, "scalars": "clear"},
    "partition": {"name": "partition", "k": 12},
    "batch_partition, T = 4": {"name": "batch_partition", "k": 12, "T": 4},
    "half_partition, T = 4": {"name": "half_partition", "k": 12, "T": 4},
    "guarded random, T = 12": {"name": "guarded", "inner": {"name": "random", "k": 12}, "T": 12},
    "guarded oort, T = 12": {"name": "guarded", "inner": OORT, "T": 12},
}
