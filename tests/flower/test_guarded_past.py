"""A guarded server after a past of any rows: what is left is kept, said, and the same after another start."""

import numpy as np
import pytest

from simfl.core.errors import SimflError
from simfl.deployment.audit.audit_report import audit
from simfl.deployment.flower.node_selection import NodeSelection

NODES = [f"node-{i}" for i in range(12)]
GUARDED = "guarded:T=2,inner={name: random, k: 6}"


def write(path, rows, header="round,client"):
    lines = [f"{t},{NODES[c]}" for t, row in enumerate(rows) for c in row]
    path.write_text("\n".join([header, *lines, ""]))
    return path


def matrix(rows):
    P = np.zeros((len(rows), len(NODES)))
    for line, row in zip(P, rows, strict=True):
        line[[*row]] = 1
    return P


def play(selection, rounds, seed):
    """Sums of clients, with nodes away and failing."""
    sums = []
    for t in range(rounds):
        rng = np.random.default_rng([seed, t])
        chosen = selection.select([node for node in NODES if rng.random() < 0.8])
        replies = selection.conclude({node: {} for node in chosen if rng.random() < 0.9})
        sums += [[NODES.index(node) for node in replies]] if replies else []
    return sums


@pytest.mark.parametrize("rounds", [1, 3, 5, 8, 14, 40])
@pytest.mark.parametrize("notion", ["semi_strong", "weak"])
def test_no_past_stops_a_guard_and_nobody_else_is_exposed(tmp_path, rounds, notion):
    rng = np.random.default_rng(rounds)
    rows = [np.sort(rng.choice(12, 4, replace=False)) for _ in range(rounds)]
    selection = NodeSelection(f"{GUARDED},notion={notion}", NODES, seed=3, past=write(tmp_path / "past.csv", rows))
    exposed = {each.client for each in audit(matrix(rows)).exposed}
    sums = play(selection, 25, rounds)
    after = {each.client for each in audit(matrix([*rows, *sums])).exposed}
    assert after == exposed
    assert f"from round {rounds} on, keeps the" in selection.left
    assert (f"{len(exposed)} are exposed already" in selection.left) == (len(exposed) > 1)


def test_a_second_start_goes_on_as_if_there_had_been_none(tmp_path):
    rng = np.random.default_rng(4)
    past = write(tmp_path / "past.csv", [np.sort(rng.choice(12, 4, replace=False)) for _ in range(4)])
    whole = NodeSelection(GUARDED, NODES, seed=3, past=past)
    expected = play(whole, 20, 1)
    parts = []
    for part in range(4):
        selection = NodeSelection(GUARDED, NODES, seed=3, log=tmp_path / "log.csv", past=past)
        first = selection.round
        for t in range(first, 4 + 5 * (part + 1)):
            draws = np.random.default_rng([1, t - 4])
            chosen = selection.select([node for node in NODES if draws.random() < 0.8])
            replies = selection.conclude({node: {} for node in chosen if draws.random() < 0.9})
            parts += [[NODES.index(node) for node in replies]] if replies else []
    assert len(expected) > 8 and [row for row in parts if row] == expected


def test_clients_of_the_past_who_are_no_nodes_any_more_still_count(tmp_path):
    """Sums of those who are still there, with {0, 1, 2} and {1, 3}, would expose 0 and 1 if these were not counted."""
    past = write(tmp_path / "past.csv", [[0, 1, 2], [1, 3], range(12)])
    selection = NodeSelection("guarded:T=2,inner={name: random, k: 2}", NODES[2:], seed=1, past=past)
    sums = play(selection, 20, 0)
    assert sums and not audit(matrix([[0, 1, 2], [1, 3], range(12), *sums])).exposed
    assert "keeps the semi-strong guarantee 2 to everybody" in selection.left
    with pytest.raises(SimflError, match="has 12 clients, and nodes is 11"):
        NodeSelection("random:k=2", [*NODES[2:], "another"], past=past)


def test_a_past_of_weighted_sums_is_refused(tmp_path):
    (tmp_path / "past.csv").write_text("round,client,weight\n0,node-0,1\n0,node-1,2\n")
    with pytest.raises(SimflError, match="its sums have weights, and guarded"):
        NodeSelection(GUARDED, NODES, past=tmp_path / "past.csv")
