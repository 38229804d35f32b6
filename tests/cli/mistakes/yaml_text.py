"""The text of scenario files: indentation, tabs, types, units, quotes, booleans, lists for scalars."""

from tests.cli.mistakes import written

REST = "selection: {name: random, k: 4}\ntraining: {name: fedavg, rounds: 2}\n"

MISTAKES = [
    written("clients: 12\nselection:\n\tname: random\n\tk: 4\n", "mine.yaml:3", "tab"),
    written(
        "clients: 12\nselection:\nname: random\nk: 4\ntraining: {name: fedavg, rounds: 2}\n",
        "k",
        "mine.yaml:4",
        "selection",
    ),
    written(
        "clients: 12\nselection:\n  name: random\n   k: 4\n",
        "mine.yaml:4|mine.yaml:3",
        "indent|not allowed|spaces|column",
    ),
    written("clients: 12\nselection:\n    name: random\n  k: 4\n", "mine.yaml:4", "indent|expected|line up"),
    written("clients 12\n" + REST, "mine.yaml:1|mine.yaml:2", ":"),
    written("clients:12\n" + REST, "mine.yaml:1|mine.yaml:2", "space"),
    written("clients = 12\n" + REST, "mine.yaml:1|mine.yaml:2", ":"),
    written("clients: 12\nselection: {name: random, k: 4\ntraining: {name: fedavg, rounds: 2}\n", "mine.yaml:", "}"),
    written(
        "clients: 12\nselection: {name=random, k=4}\ntraining: {name: fedavg, rounds: 2}\n",
        "mine.yaml:2",
        "name: random|name",
    ),
    written(
        "clients: 12\nselection: {name:random, k:4}\ntraining: {name: fedavg, rounds: 2}\n", "mine.yaml:2", "space"
    ),
    written("clients: 12\nclients: 20\n" + REST, "mine.yaml:2", "clients", "twice|duplicate|already"),
    written("clients: '12'\n" + REST, "mine.yaml:1", "clients", "quotes"),
    written("clients: twelve\n" + REST, "mine.yaml:1", "clients", "twelve", "whole number"),
    written("clients: 12.5\n" + REST, "mine.yaml:1", "clients", "12.5", "whole number"),
    written("clients: 1e3\n" + REST, "mine.yaml:1", "clients", "1000"),
    written("clients: 1,000\n" + REST, "mine.yaml:1", "clients", "1000|whole number"),
    written("clients: [12]\n" + REST, "mine.yaml:1", "clients", "whole number", "list"),
    written("clients:\n" + REST, "mine.yaml:1", "clients", "null|empty|whole number"),
    written("clients: true\n" + REST, "mine.yaml:1", "clients", "whole number"),
    written("clients: 12 clients\n" + REST, "mine.yaml:1", "clients", "whole number"),
    written("- clients: 12\n- selection: random\n", "mine.yaml:1", "list", "mapping|key: value|keys"),
    written(
        "clients: 12\nselection:\n  - random\n  - k: 4\ntraining: {name: fedavg, rounds: 2}\n",
        "mine.yaml:3|mine.yaml:2",
        "selection",
        "list",
    ),
    written(
        "clients: 12\nselection: [random, weighted]\ntraining: {name: fedavg, rounds: 2}\n",
        "mine.yaml:2",
        "selection",
        "list",
    ),
    written("clients: 12\nseed: [0, 1, 2]\n" + REST, "mine.yaml:2", "seed", "whole number", "list"),
    written("clients: 12\nselection: random\ntraining: {name: fedavg, rounds: 2}\n", "mine.yaml:2", "selection", "k"),
    written(
        "clients: 12\nselection: {k: 4}\ntraining: {name: fedavg, rounds: 2}\n", "mine.yaml:2", "selection", "name"
    ),
    written("clients: 12\ntraining: {name: fedavg, rounds: 2}\n", "selection", "missing|required"),
    written("selection: {name: random, k: 4}\ntraining: {name: fedavg, rounds: 2}\n", "clients", "missing|required"),
    written("clients: 12\nselection: {name: random, k: 4}\n", "rounds|stop", "training"),
    written("clients: 12\nselection: {name: random, k: 4}\ntraining: 10\n", "mine.yaml:3", "training", "rounds|name"),
    written(
        "clients: 12\nselection: {name: random, k: 4}\ntraining: {name: fedavg, rounds: 2, shuffle: 'yes'}\n",
        "mine.yaml:3",
        "shuffle",
        "true",
    ),
    written(
        "clients: 12\nselection: {name: random, k: 4}\ntraining: {name: fedavg, rounds: 2, shuffle: off}\n",
        "mine.yaml:3",
        "shuffle",
        "false",
    ),
    written(
        "clients: 12\nselection: {name: random, k: 4}\ntraining: {name: fedavg, rounds: 2, shuffle: 1}\n",
        "mine.yaml:3",
        "shuffle",
        "true",
    ),
    written(
        "clients: 12\nselection: {name: random, k: 4}\ntraining: {name: fedavg, rounds: 2, deadline_s: 10s}\n",
        "mine.yaml:3",
        "deadline_s",
        "10s",
        "10",
    ),
    written(
        "clients: 12\nselection: {name: random, k: 4}\ntraining: {name: fedavg, rounds: 2, deadline_s: 5 min}\n",
        "mine.yaml:3",
        "deadline_s",
        "second|number",
    ),
    written(
        "clients: 12\nselection: {name: random, k: 4}\ntraining: {name: fedavg, rounds: 2, learning_rate: 0,1}\n",
        "mine.yaml:3",
        "1",
    ),
    written(
        "clients: 12\nselection: {name: random, k: 4}\ntraining: {name: fedavg, rounds: 2, learning_rate: 1e-2}\n"
        "network: {name: star, latency_s: 50ms}\n",
        "mine.yaml:4",
        "latency_s",
        "50ms",
        "0.05|second|number",
    ),
    written(
        "clients: 12\n" + REST + "network: {name: star, latency_s: .inf}\n", "mine.yaml:4", "latency_s", "finite|inf"
    ),
    written(
        "clients: 12\n" + REST + "network: {name: star, bandwidth_bytes_per_s: 2 MB/s}\n",
        "mine.yaml:4",
        "bandwidth_bytes_per_s",
        "2e+6|2000000|number",
    ),
    written("clients: 12\n" + REST + "extends: quikstart\n", "mine.yaml:4", "quikstart", "quickstart"),
    written("clients: 12\n" + REST + "plugins: missing.py\n", "mine.yaml:4", "plugins", "missing.py"),
    written("defaults:\n  - model: mlp\nclients: 12\n" + REST, "mine.yaml:1", "defaults", "extends"),
    written("clients: ${n}\n" + REST, "mine.yaml:1", "clients", "${n}|{n}", "whole number|interpolat"),
    written(
        "base: &b {name: random}\nclients: 12\nselection: *c\ntraining: {name: fedavg, rounds: 2}\n", "mine.yaml:3", "c"
    ),
]
