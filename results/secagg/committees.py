"""Committees beside graphs of masks: what Flamingo, OPA, SecAgg, SecAgg+, LightSecAgg and BASecAgg cost and survive.

    python results/secagg/committees.py [--out results]

A hundred clients, all in every sum, 100,000 coordinates, constant latency, no training. What theory says of a sum in
which nobody fails (bytes, seconds, tolerated colluders and dropouts) and, of 40 sums a failure rate, how many fail and
the bytes of one that does not, where each client fails with that probability in the upload and in each phase after it
(30 runs without the mathematics, ``execute: cost_only``, one seed). Writes beside this file committees.csv, one row a
protocol and rate, and committees.svg.
"""

from pathlib import Path

import pandas

import simfl
from simfl.agents.aggregation.expected import expected_costs
from simfl.experiments import runner
from simfl.report import style
from simfl.report.saving import save
from simfl.runs.run import build
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
CLIENTS, ROUNDS = 100, 40
RATES = (0.0, 0.05, 0.1, 0.2, 0.3)
PROTOCOLS = {
    "secagg": "secagg",
    "secagg_plus": "{name: secagg_plus, corrupted: 0.1, dropped: 0.1}",
    "lightsecagg": "lightsecagg",
    "basecagg": "basecagg",
    "flamingo": "flamingo",
    "opa": "opa",
}
TEXT = f"""
name: committees
clients: {CLIENTS}
network: {{name: star, latency_s: 0.1, bandwidth_bytes_per_s: 1.25e+6}}
devices: {{computation: {{name: constant, seconds: 5}}}}
selection: all
training: {{name: fedavg, rounds: {ROUNDS}, weighting: equal, on_failure: partial}}
learning: {{name: none, parameters: 100000}}
privacy: none
"""
BUFFERED = [
    "selection={name: random, k: 1}",
    f"training={{name: fedbuff, rounds: {ROUNDS}, weighting: equal, buffer: {CLIENTS // 2}, concurrency: {CLIENTS}}}",
]
"""A hundred jobs at a time, and a sum once fifty have arrived: in a buffer nobody waits for all."""


def scenario(name: str, rate: float) -> Scenario:
    """One run."""
    kinds = ("crosscheck", "unmask") if name == "flamingo" else ("unmask",)
    failing = ", ".join(f"{kind}: {rate}" for kind in kinds)
    lost = [f"devices.failure={{name: bernoulli, probability: {rate}, phases: {{{failing}}}}}"] if rate else []
    return Scenario.parse(TEXT, "committees", [*_words(name), "secagg.execute=cost_only", *lost])


def _words(name: str) -> list[str]:
    return [f"secagg={PROTOCOLS[name]}", *(BUFFERED if name == "basecagg" else ())]


def row(name: str, rate: float, folder: Path) -> dict[str, object]:
    """What theory says of a sum, and what the run came to."""
    theory, result = expected_costs(build(scenario(name, 0.0))), simfl.open(folder)
    known, clients, rounds = theory["known"], theory["clients"], result.rounds
    summed = rounds[rounds["cardinality"] > 0]
    reasons = pandas.read_csv(folder / "phases.csv")["failure"].dropna().astype(str).str.split(":").str[0]
    return {
        "protocol": name,
        "rate": rate,
        "clients_in_sum": clients,
        "kB_up_a_client": round(theory["bytes_up"] / clients / 1000, 3),
        "kB_down_a_client": round(theory["bytes_down"] / clients / 1000, 3),
        "kB_clear_a_client": theory["clear_bytes_up"] / clients / 1000,
        "client_s": round(theory["client"]["seconds"], 6),
        "server_s": round(theory["server_s"], 6),
        "phases": sum(theory["ways"]) // 2,
        "tolerated_colluders": known["colluding"],
        "tolerated_dropouts": known["dropouts"],
        "skipped": int((rounds["cardinality"] == 0).sum()),
        "failed_sums": int(rounds["secagg_failed"].sum()),
        "fails_in": " ".join(f"{kind}:{count}" for kind, count in sorted(reasons.value_counts().items())),
        "mean_s_a_round": round(result.summary["time_s"] / len(rounds), 4),
        "MB_a_sum": round((rounds["bytes_down"].sum() + rounds["bytes_up"].sum()) / max(1, len(summed)) / 1e6, 3),
    }


def draw(table: pandas.DataFrame) -> None:
    """Writes the table and its picture: bytes, time, coalitions, and sums that fail."""
    from matplotlib import pyplot

    with style.settings():
        figure, axes = pyplot.subplots(2, 2, figsize=(8, 5.6))
        calm = table[table["rate"] == 0].set_index("protocol")
        for axis, column, title in (
            (axes[0, 0], "kB_up_a_client", "kB up, a client and sum"),
            (axes[0, 1], "mean_s_a_round", "simulated seconds a round"),
            (axes[1, 0], "tolerated_colluders", "tolerated colluders, of 100 clients"),
        ):
            bars = axis.bar(calm.index, calm[column], color="tab:gray")
            axis.bar_label(bars, fmt="%.4g", fontsize=7)
            axis.set_title(title, fontsize=9)
            axis.tick_params(axis="x", labelrotation=20, labelsize=7)
        for marker, (name, rows) in zip("os^DvP", table.groupby("protocol", sort=False), strict=True):
            axes[1, 1].plot(rows["rate"], rows["failed_sums"], marker=marker, label=name)
        axes[1, 1].set(xlabel="probability of failing in upload and later phases")
        axes[1, 1].set_title("failed sums, of 40", fontsize=9)
        axes[1, 1].legend(frameon=False, fontsize=7)
        save(figure, table, HERE / "committees.svg")


def main() -> None:
    options = runner.parser(__doc__, seeds=1).parse_args()
    runs = {(name, rate): scenario(name, rate) for name in PROTOCOLS for rate in RATES}
    folders = runner.run_all(runs, options, seconds=5)
    draw(pandas.DataFrame([row(*key, folder) for key, folder in folders.items()]))


if __name__ == "__main__":
    main()
