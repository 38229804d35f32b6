"""The tables and arms of fedltn.py: what they change in the scenario."""

from pathlib import Path

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "fedltn.yaml"
LENET = {"learning.backend": "{name: grouped, cohort: 5}", "training.learning_rate": "0.02"}
"""At the rate of 0.05, good for the ResNet-8, some clients of a LeNet-5 diverge."""
TABLES = {
    "low_lenet": LENET,
    "low_resnet8": {
        "learning.model": "resnet8",
        "learning.norm_statistics": "averaged",
        "learning.bf16": "true",
    },
    "high_lenet": LENET
    | {"clients": "100", "selection.k": "5", "training.rounds": "2000", "learning.evaluate.every": "500"},
}
BRIEF = {"learning.evaluate.samples": "100", "learning.evaluate.every": "50"}
"""The tables are about clients' own test samples at the end; of the common ones a few do."""
AVERAGED = {"training.server_optimiser": "{name: sgd, momentum: 0}"}
"""The bare name would keep the momentum of the scenario's look-ahead."""
LOTTERY = "{name: lotteryfl, target: %s, step: 0.2, threshold: 0.5}"
PUBLISHED = {
    "FedAvg": (50.6, 42.0, 1.00),
    "LotteryFL 0.1": (75.1, 47.5, 0.91),
    "LotteryFL 0.5": (74.9, 51.3, 0.54),
    "FedLTN 0.1": (77.9, 50.5, 0.90),
    "FedLTN 0.5": (76.3, 54.3, 0.52),
    "FedLTN 0.9": (75.4, 50.5, 0.20),
}
"""Table 4.3: mean over the clients and lowest client, per cent, and the share of FedAvg's megabytes."""
ARMS = {
    "FedAvg": AVERAGED | {"training.personal": "none"},
    "FedBN": AVERAGED | {"training.personal": "fedbn"},
    "FedLTN 0.9": {"training.personal.target": "0.9"},
    "FedLTN 0.9, rewinding": {"training.personal.rewind": "true"},
    "LotteryFL 0.5": AVERAGED | {"training.personal": LOTTERY % 0.5},
    "FedLTN 0.5": {"training.personal.target": "0.5"},
    "FedLTN 0.9, plain server": AVERAGED,
    "FedLTN 0.9, no threshold": {"training.personal.threshold": "0"},
    "FedLTN 0.9, threshold 0.5": {"training.personal.threshold": "0.5"},
    "FedBN, look-ahead server": {"training.personal": "fedbn"},
    "FedLTN 0.9, Jump-Start": {"training.personal.name": "jump_start"},
    "LotteryFL 0.1": AVERAGED | {"training.personal": LOTTERY % 0.1},
    "FedLTN 0.1": {"training.personal.target": "0.1"},
    "FedLTN 0.9, threshold 0.4": {"training.personal.threshold": "0.4"},
    "FedLTN 0.9, rewinding, no threshold": {"training.personal.rewind": "true", "training.personal.threshold": "0"},
}
"""Without a threshold every job prunes: what the megabytes come to where nothing holds pruning up."""
