"""Table 5.3 of the thesis: when the federated weights reach each client, by iteration.

    python results/privacyfl/table53.py [--out results]

Runs scenarios/privacyfl_latency.yaml and writes table53.csv beside this file: the seconds from the start of a round
until the announcement of its model arrives. Nothing in it is random.
"""

import json

import pandas
from table52 import HERE

import simfl
from simfl.experiments import runner

SCENARIO = HERE.parents[1] / "scenarios" / "privacyfl_latency.yaml"


def main() -> None:
    options = runner.parser(__doc__, costs=False).parse_args()
    scenario = simfl.load(SCENARIO, {"trace": "events"})
    result = simfl.run(scenario, out=options.out)
    iteration, start_s, rows = 0, 0.0, []
    for event in map(json.loads, (result.path / "events.jsonl").read_text().splitlines()):
        if event["event"] == "round_start":
            iteration, start_s = event["round"] + 1, event["time_s"]
        elif event["event"] == "message" and event["kind"] == "announcement":
            client = scenario.network.names[event["to"]]
            rows.append({"iteration": iteration, "client": client, "arrives_s": event["arrives_s"] - start_s})
    pandas.DataFrame(rows).to_csv(HERE / "table53.csv", index=False, float_format="%.6g", lineterminator="\n")


if __name__ == "__main__":
    main()
