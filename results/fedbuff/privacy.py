"""What 300 aggregations give away: five policies, FedAvg and FedBuff, whole units and what weakens them.

    python results/fedbuff/privacy.py [--seeds 5] [--out results]

Runs scenarios/fedbuff_privacy.yaml for every policy, setting and seed (finished runs are reused) and writes
privacy.csv beside this file: the three multi-round guarantees after the last aggregation, the smallest of the seeds.
FedAvg runs as many rounds as it takes for 300 that are not skipped.
"""

from pathlib import Path

import pandas

from simfl.api.result_objects import Result
from simfl.experiments import runner
from simfl.runs.run import run
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "fedbuff_privacy.yaml"
POLICIES = {
    "random": "random:k=12",
    "weighted": "weighted:k=12",
    "partition": "partition:k=12",
    "batch T=3": "batch_partition:k=12,T=3",
    "half T=4": "half_partition:k=12,T=4",
}
FEDAVG = "training={name: fedavg, rounds: 300}"
SETTINGS = {
    ("FedAvg", "drop_unit"): [FEDAVG, "training.on_failure=drop_unit"],
    ("FedAvg", "partial"): [FEDAVG, "training.on_failure=partial"],
    ("FedBuff", "drop_unit, common weights"): [],
    ("FedBuff", "drop_unit, own weights"): ["training.unit_weights=own"],
    ("FedBuff", "drop_unit, own weights, constant staleness"): [
        "training.unit_weights=own",
        "training.staleness=constant",
    ],
    ("FedBuff", "partial"): ["training.partial=true"],
    ("FedBuff", "partial, constant staleness"): ["training.partial=true", "training.staleness=constant"],
    ("FedBuff", "partial, no failures"): ["training.partial=true", "devices.failure=none"],
}
GUARANTEES = ["privacy_strong", "privacy_semi_strong", "privacy_weak_lower", "privacy_weak_upper"]


def play(overrides: list[str], out: Path) -> Result:
    """A run with 300 aggregations; FedAvg is given more rounds while it has fewer."""
    rounds = 300
    while True:
        more = [f"training.rounds={rounds}"]
        result = Result.open(run(Scenario.load(SCENARIO, [*overrides, *more]), out, resume=True).path)
        done = int((result.rounds.skipped == 0).sum())
        if done >= 300:
            return result
        rounds = int(rounds + max(1, (300 - done) * rounds / max(done, 1)))


def main() -> None:
    parser = runner.parser(__doc__, seeds=5, costs=False)
    options = parser.parse_args()
    rows = []
    for policy, selection in POLICIES.items():
        for (rule, setting), overrides in SETTINGS.items():
            results = [
                play([f"selection={selection}", *overrides, f"seed={seed}"], options.out)
                for seed in range(options.seeds)
            ]
            found = pandas.DataFrame([result.summary for result in results])
            row = {"policy": policy, "rule": rule, "setting": setting, "seeds": options.seeds}
            row |= {name: float(found[name].min()) for name in GUARANTEES}
            row["aggregations"] = int(min((result.rounds.skipped == 0).sum() for result in results))
            row["mean_cardinality"] = round(float(found["mean_cardinality"].mean()), 3)
            rows.append(row)
            print(row, flush=True)
    pandas.DataFrame(rows).to_csv(HERE / "privacy.csv", index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
