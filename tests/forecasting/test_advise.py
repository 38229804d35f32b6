"""Advice: which policies keep the promise, what is printed, and what it deploys."""

import itertools
import json
import re

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import binomtest

import simfl
from simfl.cli import simfl as command
from simfl.core.errors import SimflError
from simfl.deployment.audit.log_columns import LogOptions
from simfl.deployment.flower.node_selection import NodeSelection
from simfl.deployment.forecasting.advice_text import text
from simfl.deployment.forecasting.policy_advice import listed_grid, most_exposures, order_by_availability

RATES = np.array([0.95, 0.5, 0.9, 0.55, 0.92, 0.5, 0.97, 0.6, 0.9, 0.55, 0.95, 0.5])
NAMES = [f"s{i:02d}" for i in range(12)]


def write(path, rounds, k=4, units=1):
    """Uniform selection of whole units among clients with these rates."""
    rng = np.random.default_rng([rounds, k, units])
    lines = ["round,client"]
    for t in range(rounds):
        there = (rng.random(12) < RATES).reshape(-1, units).all(axis=1)
        blocks = np.flatnonzero(there)
        if len(blocks) >= k // units:
            chosen = np.sort(rng.choice(blocks, k // units, replace=False))
            lines += [
                f"{t},{NAMES[client]}" for block in chosen for client in range(block * units, (block + 1) * units)
            ]
    path.write_text("\n".join([*lines, ""]))
    return path


def test_units_by_rate_are_whole_most_often_if_clients_are_independent():
    """Among all 105 partitions of eight clients into pairs, by the product of rates."""
    rng = np.random.default_rng(1)
    rates = rng.permutation([0.95, 0.9, 0.8, 0.75, 0.5, 0.45, 0.2, 0.1])

    def value(pairs):
        return sum(rates[a] * rates[b] for a, b in pairs)

    def pairings(left):
        if not left:
            yield []
        for other in left[1:]:
            for rest in pairings([c for c in left[1:] if c != other]):
                yield [(left[0], other), *rest]

    best = max(value(pairs) for pairs in pairings(list(range(8))))
    order = order_by_availability(rng.random((200_000, 8)) < rates, 2)
    assert sorted(order) == list(range(8))
    assert value(order.reshape(-1, 2)) == pytest.approx(best)


def test_units_of_those_who_are_there_together_where_rates_say_nothing():
    """Three kinds of four clients each, never two kinds at once, all with the same rate."""
    kind = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2])
    there = np.random.default_rng(0).integers(0, 3, 3000)[:, None] == kind
    for size in (2, 4):
        units = kind[order_by_availability(there, size)].reshape(-1, size)
        assert (units == units[:, :1]).all()


@pytest.mark.parametrize(("futures", "target"), [*itertools.product([20, 58, 59, 93, 100, 200], [0.9, 0.95])])
def test_the_bound_is_exact(futures, target):
    shown = [bad for bad in range(futures)
             if binomtest(futures - bad, futures, alternative="greater").proportion_ci(0.95).low >= target]  # fmt: skip
    assert most_exposures(futures, target) == max(shown, default=-1)


@pytest.fixture(scope="module")
def advised(tmp_path_factory):
    path = write(tmp_path_factory.mktemp("log") / "log.csv", 5)
    return path, simfl.advise(path, horizon=12, futures=60)


def test_what_holds_is_never_exposed_and_the_first_loses_least(advised):
    _, of = advised
    table, ranking = of.table(), of.ranking()
    assert table.policy[0] == "random:k=4" and table.safe[0] < 0.5 and not table.holds[0]
    assert ranking and (table.safe[ranking] >= 59 / 60).all()
    lost = table.lost[ranking].tolist()
    assert lost == sorted(lost)
    for place, outcome in enumerate(of.outcomes):  # counted anew
        new = ((outcome.exposed >= 0) & (outcome.exposed < 12)).any(axis=1)
        assert table.safe[place] == pytest.approx(1 - new.mean())
        assert table.lost[place] == pytest.approx((outcome.cardinality == 0).sum(axis=1).mean())
    guards = [place for place, each in enumerate(of.grid) if each.text.startswith("guarded")]
    assert guards and (table.safe[guards] == 1).all()


def test_the_lines_that_are_printed_deploy_the_first(advised, tmp_path):
    """The nodes, the policy and the past as printed make a server that sums what was advised."""
    path, of = advised
    result = CliRunner().invoke(
        command, ["advise", "--processes", "1", str(path), "--horizon", "12", "--futures", "60", "-o", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    lines = (tmp_path / "deploy.py").read_text()
    assert re.sub(r"\s+", "", lines).replace(str(path), "") in re.sub(r"\s+", "", result.output).replace(str(path), "")
    nodes = json.loads(re.search(r"nodes = (\[.*?\])", lines)[1])
    policy = re.search(r'fraction_evaluate=0.0\), ("[^"]*"), nodes', lines)[1]
    past = re.search(r"past=(\"[^\"]*\")", lines)[1]
    place = of.ranking()[0]
    assert nodes == of.nodes(place) and json.loads(policy) == of.grid[place].text and json.loads(past) == str(path)
    selection = NodeSelection(json.loads(policy), nodes, seed=1, past=json.loads(past))
    assert selection.round == 5
    for _ in range(6):
        selection.conclude({node: {} for node in selection.select(nodes)})
    assert selection.participation.sum() == of.past.rows[:, of.choices[place].order].sum() + 24
    table = (tmp_path / "policies.csv").read_text().splitlines()
    assert len(table) == 1 + len(of.grid) <= 25


def test_advice_after_two_logs_deploys_after_both(tmp_path):
    """deploy.py reads both parts as the advice did; the first in another system's columns."""
    whole = write(tmp_path / "whole.csv", 6).read_text().splitlines()[1:]
    (tmp_path / "old.csv").write_text("when,device,status\n" + "".join(f"{row},ok\n" for row in whole if row < "3"))
    (tmp_path / "new.csv").write_text("round,client\n" + "".join(f"{row}\n" for row in whole if row >= "3"))
    said = ["--past", str(tmp_path / "old.csv"), "--columns", "round=when,client=device", "--where", "status=ok"]
    asked = ["--horizon", "6", "--futures", "59", "--grid", "guarded:T=2,notion=weak", "-o", str(tmp_path)]
    result = CliRunner().invoke(command, ["advise", "--processes", "1", str(tmp_path / "new.csv"), *said, *asked])
    assert result.exit_code == 0, result.output
    lines = (tmp_path / "deploy.py").read_text()
    variables = {}
    exec(lines[lines.index("nodes =") :].replace("FedAvg(fraction_train=1.0, fraction_evaluate=0.0)", "None")
         .replace('identity="reported", ', "").replace("PolicyStrategy(\n    None, ", "make(\n    "),
         {"make": NodeSelection}, variables)  # fmt: skip
    assert variables["strategy"].round == 6 and "the weak guarantee 2" in variables["strategy"].left


def test_what_cannot_be_shown_or_read_ends_in_a_line(tmp_path):
    path = write(tmp_path / "log.csv", 5)
    runner = CliRunner()
    for arguments, message in (
        (["--futures", "58"], "--futures 58 or futures: 58|futures: 58, and even if nobody is exposed in all of them"),
        (["--target", "a lot"], "--target a lot: no share of futures from 50% to below 100%"),
        (["--grid", "batch_partition:T=5,k=4"], "policy batch_partition:T=5,k=4: k: is 4"),
        (["--grid", "oort:k=4"], "looks at losses or durations"),
        ([f"--grid=batch_partition:k={k},T=2" for k in range(2, 26, 2)], "25 policies with as now; at most 24"),
    ):
        result = runner.invoke(command, ["advise", "--processes", "1", str(path), "--horizon", "5", *arguments])
        assert result.exit_code == 2 and re.search(message, result.output) and "Traceback" not in result.output, (
            result.output
        )


def test_where_none_holds_the_nearest_is_said_and_what_may(tmp_path):
    path = write(tmp_path / "log.csv", 4)
    result = CliRunner().invoke(
        command, ["advise", "--processes", "1", str(path), "--horizon", "30", "--futures", "60", "--grid", "random:k=4"]
    )
    assert result.exit_code == 0
    assert "No advice: none of the 2 policies keeps the promise" in result.output
    assert "a guard (--grid guarded:T=2)" in result.output and "PolicyStrategy" not in result.output


@pytest.mark.parametrize("spoiled", [False, True])
def test_an_advised_policy_starts_after_the_log_and_sums_something(tmp_path, spoiled):
    """After sums with weights, and after sums (two clients of five, one of two) that leave a guard of pairs nothing."""
    lines, rng = ["round,client,weight"], np.random.default_rng(0)
    for t in range(10):
        here = [*rng.choice(5, 2, replace=False), 5 + rng.integers(2)] if spoiled else rng.choice(7, 4, replace=False)
        lines += [f"{t},{c},{1 if spoiled else 7 + c}" for c in here]
    (tmp_path / "log.csv").write_text("\n".join([*lines, ""]))
    of = simfl.advise(tmp_path / "log.csv", horizon=4, futures=60)
    assert (of.table().lost[of.ranking()] < 4).all() and bool(of.ranking()) != spoiled != bool(of.refusals)
    for place in set(of.ranking()) - {0}:
        NodeSelection(of.grid[place].text, of.nodes(place), past=tmp_path / "log.csv")
    said = text(of, "log.csv", LogOptions())
    assert ("is exposed in at least 95.0% of futures and has a sum in at least one" in said) == spoiled


def test_what_a_grid_leaves_out_is_in_what_is_deployed(tmp_path):
    """Of ``guarded:T=2`` the inner policy, and of batches k."""
    path = write(tmp_path / "log.csv", 5)
    of = simfl.advise(path, ["guarded:T=2,notion=weak", "batch_partition:T=2"], horizon=3, futures=60)
    for place in range(1, len(of.grid)):
        NodeSelection(of.grid[place].text, of.nodes(place), past=path)


def test_a_deployment_of_batches_keeps_its_units(tmp_path):
    path = write(tmp_path / "log.csv", 14, units=2)
    of = simfl.advise(path, horizon=10, futures=60)
    assert of.seen.choice.text.startswith("batch_partition:k=4,T=2") and of.table().holds[0]
    logged = [place for place, each in enumerate(of.grid) if each.order == "as_logged" and "batch" in each.text]
    units = np.array(of.nodes(logged[0])).reshape(-1, 2)
    assert all(NAMES.index(b) == NAMES.index(a) + 1 and NAMES.index(a) % 2 == 0 for a, b in units)


def test_few_sums_do_not_advise_their_own_policy(tmp_path):
    """Four sums of batches look like uniform selection, whose forecasts may seem safe."""
    path = write(tmp_path / "log.csv", 6, units=2)
    assert 0 not in simfl.advise(path, horizon=2, futures=60).ranking()


def test_the_grid_has_at_most_24_policies():
    from types import SimpleNamespace

    for n in range(4, 60):
        for k in range(1, n):
            seen = SimpleNamespace(choice=SimpleNamespace(k=k), relation="some")
            past = SimpleNamespace(rows=np.ones((3, n), dtype=bool))
            grid = listed_grid(seen, past)
            assert 0 < len(grid) < 24 and len(set(grid)) == len(grid)
    with pytest.raises(SimflError, match="at most 24"):
        simfl.advise(__import__("pandas").DataFrame({"round": [0, 1], "client": [1, 2]}),
                     [f"random:k={k}" for k in range(1, 14)])  # fmt: skip


def test_nothing_is_advised_where_everybody_is_exposed(tmp_path):
    path = write(tmp_path / "log.csv", 60, k=3)
    result = CliRunner().invoke(command, ["advise", "--processes", "1", str(path), "--horizon", "3", "--futures", "60"])
    assert result.exit_code == 0 and "12 clients are exposed already" in result.output
    assert "That is everybody. No policy takes it back, and none is advised." in result.output
    assert "PolicyStrategy" not in result.output
