"""Table A.1 and Figure 2-2 of Mugunthan's thesis (MIT 2022): what Protocol 1 costs, by the number of clients.

    python results/oblivious/costs.py [--measure] [--out results]

With ``--measure``, measures on this machine in processor time what one client and the server really compute (setup: key
agreements and the noise dealt; encryption: masks, noise taken, the ratchet's step; server: adding up), and writes
costs.csv with the slopes, which differ from machine to machine and from time to time. With the slopes that costs.csv
has, simulates the protocol's time on three maps: everybody in New York; the server there and all clients in London;
clients all over the world, with the latencies between cities that $SIMFL_DATA holds (without them simfl estimates them
from distances, which gives other times). Writes total_time.csv, which is the same wherever slopes and latencies are.
"""

from pathlib import Path
from time import process_time

import numpy as np
import pandas

from simfl.core.rng import Streams
from simfl.experiments import runner
from simfl.papers.oblivious.noise_messages import GridNoise, ObliviousPlan, Party, choices
from simfl.results.run_files import read_table
from simfl.runs.run import run
from simfl.scenario import Scenario
from simfl.secagg.crypto.keys import agree, derive, forget, public_key, secret, stretch_seed

HERE = Path(__file__).resolve().parent
USERS = (200, 400, 600, 800, 1000, 3000, 5000)
D, ROUNDS, TRAINING_S = 105, 20, 0.0075
REPEATS = 5
"""Of which the medians count."""
PRINTED = {  # milliseconds
    "server": (20.3, 42.7, 61.4, 81.5, 101.1, 303.8, 532.5),
    "setup": (193.0, 404.0, 631.6, 832.1, 1046.5, 3185.0, 5277.9),
    "encryption": (2.9, 5.6, 8.3, 11.1, 13.9, 41.3, 68.9),
}
MAPS = {
    "New York": "network={name: cities, server: New York, cities: [New York]}",
    "London": "network={name: cities, server: New York, cities: [London]}",
    "world": "network={name: cities, server: New York}",
}


def measured(n: int) -> dict[str, float]:
    """Milliseconds of a client's setup, a client's round and the server's round."""
    forget()  # else keys of smaller sizes would count as agreed on
    streams = Streams(0)
    plan = ObliviousPlan(0, np.arange(n, dtype=np.int32), D, GridNoise(1 / n, 2 / (n * 200 * 5e-4) * 2**10))
    party, mine = Party(plan, 0, streams), secret(streams, "key", 0)
    others = [public_key(secret(streams, "key", j)) for j in range(1, n)]
    began = process_time()
    seeds = [derive(agree(mine, key), b"pair") for key in others]
    sent = party.draw_noise().sent
    setup = process_time() - began
    vector, began = np.zeros(D, dtype=np.int64), process_time()
    for i, seed in enumerate(seeds):
        seeds[i], shared = stretch_seed(seed, D)
        vector += shared
    vector += np.where(choices(plan, 0, 0, streams), sent[1], sent[0]).sum(axis=0)
    encryption = process_time() - began
    messages = [np.arange(D, dtype="<u4").tobytes()] * n
    began = process_time()
    np.sum([np.frombuffer(message, dtype="<u4").astype(np.int64) for message in messages], axis=0)
    server = process_time() - began
    return {"users": n, "server": 1e3 * server, "setup": 1e3 * setup, "encryption": 1e3 * encryption}


def total_time(n: int, place: str, rates: pandas.Series, out: Path, noise: str) -> dict[str, float]:
    """Simulated seconds of twenty rounds."""
    changes = [
        f"clients={n}", "learning={name: none, parameters: 105}", "attacks=[]", "privacy=none", MAPS[place],
        f"training.rounds={ROUNDS}", f"devices.computation={TRAINING_S}", "secagg.execute=cost_only",
        f"secagg.noise={noise}", "secagg.term_s=0", f"secagg.rates.agreement_s={rates['setup'] / 1e3}",
        f"secagg.rates.element_s={rates['encryption'] / 1e3 / (2 * D)}",
    ]  # fmt: skip
    scenario = Scenario.load(HERE.parent.parent / "scenarios" / "oblivious.yaml", changes)
    rounds = read_table(run(scenario, out, resume=True).path / "rounds.csv")
    return {"users": n, "map": place, "noise": noise, "total_s": rounds.time_s.iloc[-1],
            "bytes": int(rounds.bytes_down.sum() + rounds.bytes_up.sum())}  # fmt: skip


def main() -> None:
    parser = runner.parser(__doc__, costs=False)
    parser.add_argument("--measure", action="store_true", help="measure the rates again, on this machine")
    options = parser.parse_args()
    if options.measure:
        measure()
    slopes = pandas.read_csv(HERE / "costs.csv", index_col="users").loc["a user more"]
    times = [total_time(n, place, slopes, options.out, noise)
             for noise in ("once", "every_round") for place in MAPS for n in USERS]  # fmt: skip
    pandas.DataFrame(times).to_csv(HERE / "total_time.csv", index=False, float_format="%.6g", lineterminator="\n")
    print(pandas.DataFrame(times).pivot(index="users", columns=["noise", "map"], values="total_s"))


def measure() -> None:
    """Writes costs.csv."""
    measured(min(USERS))  # whatever is done once is done now
    runs = pandas.DataFrame([measured(n) for _ in range(REPEATS) for n in USERS])
    table = runs.groupby("users", as_index=False).median()
    for name, values in PRINTED.items():
        table[f"{name}_printed"] = values
    slopes = {"users": "a user more"}
    for name in table.columns[1:]:
        slopes[name] = float((table[name] * table.users).sum() / (table.users**2).sum())
    linear = {"users": "largest deviation from the line"}
    for name in table.columns[1:]:
        linear[name] = float((table[name] / (slopes[name] * table.users) - 1).abs().max())
    table = pandas.concat([table.astype({"users": object}), pandas.DataFrame([slopes, linear])])
    table.to_csv(HERE / "costs.csv", index=False, float_format="%.4g", lineterminator="\n")
    print(table.to_string())


if __name__ == "__main__":
    main()
