"""The auditor: exposures against exact elimination, every form of log, and bad input in one line."""

import json
import re
import shlex
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array, save_npz

from simfl.cli import simfl
from simfl.core.errors import SimflError
from simfl.deployment.audit import audit, read
from simfl.deployment.audit.audit_report import exposures
from simfl.deployment.audit.audit_text import text, timeline
from simfl.deployment.audit.page import drawing, page
from simfl.privacy.multiround.guarantee_trace import Budget
from simfl.privacy.multiround.matrix_metrics import MatrixAnalysis


def spans(rows, target):
    """Whether a vector is a combination of rows, by elimination in fractions; written for this test."""
    matrix = [[Fraction(float(value)) for value in row] for row in rows]
    rest = [Fraction(float(value)) for value in target]
    for column in range(len(rest)):
        pivot = next((row for row in matrix if row[column]), None)
        if pivot is None:
            continue
        matrix = [row for row in matrix if row is not pivot]
        matrix = [[a - row[column] / pivot[column] * b for a, b in zip(row, pivot, strict=True)] for row in matrix]
        rest = [a - rest[column] / pivot[column] * b for a, b in zip(rest, pivot, strict=True)]
    return not any(rest)


def test_exposures_equal_brute_force_on_random_logs():
    rng = np.random.default_rng(0)
    seen = 0
    for trial in range(40):
        n, rounds = int(rng.integers(3, 8)), int(rng.integers(2, 10))
        P = (rng.random((rounds, n)) < 0.45).astype(float)
        if trial % 2:
            P *= rng.choice([0.25, 0.5, 1.0, 3.0], size=P.shape)
        found = {exposure.client: exposure for exposure in audit(P).exposed}
        for client in range(n):
            unit = np.eye(n)[client]
            first = next((t for t in range(rounds) if spans(P[: t + 1], unit)), None)
            assert (found[client].round if client in found else None) == first
            if first is not None:
                seen += 1
                z = [found[client].coefficients.get(t, Fraction(0)) for t in range(rounds)]
                rows = [[Fraction(float(x)) for x in row] for row in P]
                assert [sum(a * row[i] for a, row in zip(z, rows, strict=True)) for i in range(n)] == list(unit)
                assert found[client].exact and found[client].residual == 0 and max(found[client].coefficients) <= first
    assert seen > 50


def test_a_difference_of_two_rounds_is_named():
    """Rounds {a, b, c} and {a, b} give c away as their difference; a and b stay together."""
    (only,) = audit(np.array([[1, 1, 1], [0, 0, 0], [1, 1, 0]])).exposed
    assert (only.client, only.round) == (2, 2)
    assert only.coefficients == {0: 1, 2: -1} and only.largest() == [(0, 1.0), (2, -1.0)]


LONG = "round,client,weight\n10,anna,1\n10,bob,1\n12,anna,0.5\n12,eve,2\n"

EVEN = "even in the worst case of updates that stay the same (if only sums are seen)."


def write(path, text):
    path.write_text(text)
    return path


def test_every_form_of_log_is_the_same_log(tmp_path):
    rng = np.random.default_rng(1)
    P = (rng.random((6, 5)) < 0.5) * rng.choice([0.5, 1.0, 2.0], size=(6, 5))
    P[0] = 1
    names = ["a", "b", "c", "d", "e"]
    np.save(tmp_path / "m.npy", P)
    np.savez(tmp_path / "m.npz", participation=P)
    save_npz(tmp_path / "s.npz", csr_array(P))
    lines = [",".join(map(str, row)) for row in P.tolist()]
    write(tmp_path / "bare.csv", "\n".join(lines) + "\n")
    write(tmp_path / "named.csv", "\n".join([",".join(names), *lines]) + "\n")
    entries = [f"{t},{c},{P[t, c]}" for t, c in np.argwhere(P)]
    write(tmp_path / "long.csv", "\n".join(["round,client,weight", *rng.permutation(entries)]) + "\n")
    for name in ("m.npy", "m.npz", "s.npz", "bare.csv", "named.csv", "long.csv"):
        log = read(tmp_path / name)
        np.testing.assert_array_equal(log.matrix.toarray(), P, err_msg=name)
    assert read(tmp_path / "named.csv").clients == names


def test_labels_are_those_of_the_log(tmp_path):
    log = read(write(tmp_path / "log.csv", LONG))
    assert log.rounds == [10, 12] and log.clients == ["anna", "bob", "eve"]
    np.testing.assert_array_equal(log.matrix.toarray(), [[1, 1, 0], [0.5, 0, 2]])
    unweighted = read(write(tmp_path / "two.csv", "client,round\n7,b\n8,a\n7,a\n"))
    assert unweighted.rounds == ["b", "a"] and unweighted.clients == [7, 8]


def test_a_results_folder_counts_all_clients_and_skipped_rounds(tmp_path):
    from simfl.runs.run import run
    from simfl.scenario import Scenario

    scenario = Scenario.parse(
        "{clients: 9, selection: {name: random, k: 3}, training: {name: fedavg, rounds: 4}, learning: none, "
        "devices: {availability: {name: trace, unit: rounds, inline: [[0, 1, 3]], absent: never}}}"
    )
    report = audit(read(run(scenario, tmp_path).path).matrix)
    assert (len(report.rounds), len(report.clients)) == (4, 9)
    assert report.to_json() == report.to_json() | {"rank": 0, "strong": None, "semi_strong": None, "exposed": [],
                                                   "weak": {"lower": None, "upper": None, "exact": None}}  # fmt: skip


BAD = {
    "missing.csv": (None, "missing.csv: cannot be read: No such file"),
    "empty.csv": ("", "the log is empty"),
    "only_header.csv": ("round,client\n", "the log is empty"),
    "unknown.csv": ("round,client,wieght\n1,2,3\n", "empty.csv:1: unknown column 'wieght'; did you mean 'weight'?"),
    "escape.csv": ("round,client,\x1bweight\n1,2,3\n", "unknown column '\\x1bweight'"),
    "long.csv": ("round,client\n1," + 300 * "x" + "\n", ":2: a client of over 200 letters"),
    "semicolon.csv": ("round;client;weight\n1;2;-1\n", ":2: the weight is negative"),
    "other.csv": ("when,what\na,b\n", "(or --columns round=NAME,client=NAME)"),
    "empty.jsonl": ("", "the log is empty"),
    "word.jsonl": ("round 1\n", "word.jsonl:1: not a JSON object on one line"),
    "cut.jsonl": ('{"round": 1, "client": 2}\n{"round": 1,\n', "cut.jsonl:2: not a JSON object"),
    "deep.jsonl": (100_000 * "[" + "\n", "deep.jsonl:1: not a JSON object"),
    "list.jsonl": ('{"round": [1], "client": 2}\n', ":1: a round, client or weight is neither a number nor a word"),
    "no_client.jsonl": ('{"round": 1, "client": 1}\n{"round": 1}\n', ":2: no client"),
    "nan.jsonl": ('{"round": 1, "client": 1, "weight": NaN}\n', ":1: the weight is not a number"),
    "not.parquet": ("not a table", "not a Parquet file"),
    "no_round.csv": ("client,weight\n1,1\n", ":1: the column 'round' is missing"),
    "twice.csv": ("round,client,client\n1,2,3\n", ":1: a column is named twice"),
    "negative.csv": ("round,client,weight\n1,2,1\n1,3,-1\n", ":3: the weight is negative; the smallest valid one is 0"),
    "nan.csv": ("round,client,weight\n1,2,nan\n", ":2: no weight"),
    "infinite.csv": ("round,client,weight\n1,2,inf\n", ":2: the weight is not finite"),
    "word.csv": ("round,client,weight\n1,2,much\n", ":2: the weight is not a number"),
    "no_client.csv": ("round,client\n1,\n", ":2: no client"),
    "again.csv": ("round,client\n1,2\n2,2\n1,2\n", ":4: this client is in this round already"),
    "wide.csv": ("round,client\n1,2,3,4\n", "not a table of round,client"),
    "prose.csv": ("what,is,this\nno,numbers,here\n", ":1: neither the columns round,client"),
    "ragged.csv": ("1,0,1\n1,0\n1,1,1,1\n", "Expected 3 fields in line 3, saw 4"),
    "minus.csv": ("1,0\n1,-1\n", "round 1, client 1: weight -1 is not a finite number of at least 0"),
    "holes.csv": ("1,0\n1,\n", "round 1, client 1: weight nan"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_logs_get_one_clear_line_and_exit_2(tmp_path, name):
    text, message = BAD[name]
    if text is not None:
        write(tmp_path / name, text)
    result = CliRunner().invoke(simfl, ["audit", str(tmp_path / name)])
    assert result.exit_code == 2 and result.stdout == ""
    assert message.removeprefix("empty.csv") in result.stderr and result.stderr.count("\n") == 1


REQUESTS = [
    "uid,3,round",
    "client=b,round=a,weight=c",
    "round=a,client=b,wieght=c",
    "round=a,round=b",
    "round=z,client=b",
]
ANSWERS = [None, "", "did you mean 'weight'", "named twice", "no column 'z' for the round; there are"]


def test_other_names_orders_marks_and_files_are_the_same_log(tmp_path):
    """The columns under other names, among others and in any order; commas, tabs, semicolons; JSON lines, Parquet."""
    import pandas

    frame = pandas.DataFrame({
        "note": ["x", "y", "z", "$"], "uid": ["anna", "bob", "anna", "eve"], "w": [1.0, 1.0, 0.5, 2.0],
        "iteration": [10, 10, 12, 12],
    })  # fmt: skip
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    frame.to_csv(tmp_path / "b.txt", index=False, sep="|")
    frame.to_csv(tmp_path / "b.csv", index=False, sep=";", decimal=",")
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.tsv", "b.txt", "b.csv", "a.jsonl", "a.parquet"):
        log = read(tmp_path / name, {"round": "iteration", "client": "uid", "weight": "w"})
        assert (list(log.rounds), list(log.clients), log.unused) == ([10, 12], ["anna", "bob", "eve"], ("note",)), name
        np.testing.assert_array_equal(log.matrix.toarray(), [[1, 1, 0], [0.5, 0, 2]], err_msg=name)
    assert read(write(tmp_path / "c.csv", "Client,Extra,Round\n1,x,2\n")).rounds == [2]


@pytest.mark.parametrize("columns, message", list(zip(REQUESTS, ANSWERS, strict=True)))
def test_the_command_maps_columns(tmp_path, columns, message):
    log = write(tmp_path / "log.csv", "a,b,c\n1,2,0.5\n1,3,0.5\n")
    result = CliRunner().invoke(simfl, ["audit", str(log), "--columns", columns])
    if message == "":
        assert result.exit_code == 0 and "1 round, 2 clients, rank 1." in result.stdout
    else:
        assert result.exit_code == 2 and result.stdout == "" and result.stderr.count("\n") == 1
        assert (message or "names none of round, client, weight") in result.stderr


def test_names_cannot_speak_to_the_terminal_nor_break_a_figure_or_the_page(tmp_path):
    log = write(tmp_path / "log.csv", "round,client\n$\\bad$,a\x1b[31mred<script>\n$\\bad$,b\n2<b>,b\n")
    result = CliRunner().invoke(
        simfl,
        ["audit", str(log), "--figure", str(tmp_path / "a.png"), "--html", str(tmp_path / "a.html")],
        catch_exceptions=False,
    )
    assert result.exit_code == 0 and "\x1b" not in result.output and "a\\x1b[31mred<script>" in result.stdout
    assert f"Figure: {tmp_path / 'a.png'}" in result.stderr and f"Page: {tmp_path / 'a.html'}" in result.stderr
    page = (tmp_path / "a.html").read_text()
    assert "\x1b" not in page and "<script" not in page and "red&lt;script&gt;" in page
    assert "2 of 2 clients are exposed" in page and not re.search(r"https?://(?!www.w3.org/)", page)
    CliRunner().invoke(simfl, ["audit", str(log), "--html", str(tmp_path / "b.html")], catch_exceptions=False)
    assert (tmp_path / "b.html").read_text() == page


def test_what_is_not_certain_is_said(tmp_path):
    rows = ["a,0.271828,b,0.314159", "b,0.271828,c,0.141421", "a,0.5,b,0.5"]
    lines = [f"{t},{w[i]},{w[i + 1]}" for t, w in enumerate(row.split(",") for row in rows) for i in (0, 2)]
    log = write(tmp_path / "log.csv", "\n".join(["round,client,weight", *lines]) + "\n")
    result = CliRunner().invoke(simfl, ["audit", str(log), "--html", str(tmp_path / "a.html")], catch_exceptions=False)
    assert "Weights: 2 fractions of small numbers, 4 numbers that may be rounded." in result.stdout
    assert (
        "weak         1..2" in result.stdout
        and f"No client is exposed to the server for certain, {EVEN}" in result.stdout
    )
    assert "Some weights may be rounded numbers (in 2 of 3 rounds, from round 0 on)." in result.stdout
    assert "rank 3, strong 1,\nsemi-strong 1, weak 1; 3 more clients exposed" in result.stdout
    assert "meant as written" in (tmp_path / "a.html").read_text()
    found = json.loads(CliRunner().invoke(simfl, ["audit", str(log), "--json"]).stdout)
    assert found["weights"] == {
        "read_as": {"fraction": 2, "unsure": 4},
        "certain": False,
        "doubtful_rounds": 2,
        "first_doubtful_round": 0,
    }
    assert found["weak"] == {"lower": 1, "upper": 2, "exact": False} and found["as_written"]["weak"]["exact"]
    assert not found["exposed"] and len(found["as_written"]["exposed"]) == 3


def test_logs_made_to_fill_the_memory_are_refused(tmp_path, monkeypatch):
    for name, value in {
        "LINE": 1000,
        "ENTRIES": 50,
        "LABELS": 40,
        "CELLS": 500,
        "COLUMNS": 30,
        "INFLATED": 10**4,
    }.items():
        monkeypatch.setattr(f"simfl.deployment.audit.log.Limits.{name}", value)
    monkeypatch.setattr("simfl.core.storage.text_table.MAX_LINE", 1000)
    np.save(tmp_path / "wide.npy", np.ones((30, 30)))
    np.savez_compressed(tmp_path / "bomb.npz", np.zeros((100, 100)))
    save_npz(tmp_path / "shape.npz", csr_array(([1.0], ([0], [99])), shape=(1, 100)))
    write(tmp_path / "line.csv", "round,client\n1,2\n1," + 2000 * "x" + "\n")
    write(tmp_path / "entries.csv", "round,client\n" + "".join(f"{t},{c}\n" for t in range(8) for c in range(8)))
    write(tmp_path / "labels.csv", "round,client\n" + "".join(f"{t % 2},{t}\n" for t in range(50)))
    write(tmp_path / "columns.csv", ",".join(["1"] * 31) + "\n")
    write(tmp_path / "rows.csv", "\n".join(["1,1"] * 26) + "\n")
    messages = {
        "wide.npy": "cells", "bomb.npz": "unpacked", "shape.npz": "rounds or clients", "line.csv": ":3: a line of more",
        "entries.csv": "more than the 50 entries", "labels.csv": "rounds or clients", "columns.csv": "31 columns",
        "rows.csv": "more than the 50 entries",
    }  # fmt: skip
    for name, message in messages.items():
        with pytest.raises(SimflError, match=message):
            read(tmp_path / name)


def test_a_word_repeated_in_a_dictionary_is_refused_before_it_is_copied(tmp_path):
    import pandas

    frame = pandas.DataFrame({"round": range(1000), "client": [1000 * "x"] * 1000})
    frame.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(SimflError, match="a client of over 200 letters"):
        read(tmp_path / "a.parquet")
    frame.assign(client=[[1]] * 1000).to_parquet(tmp_path / "b.parquet")
    assert read(tmp_path / "b.parquet").matrix.toarray().tolist() == [[1]] * 1000


def test_a_header_that_promises_much_takes_no_memory(tmp_path):
    """An NPY file whose header claims 8 TB."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }"
    data = b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n"
    (tmp_path / "a.npy").write_bytes(data + bytes(64))
    with pytest.raises(SimflError, match="not an array that can be read|cells"):
        read(tmp_path / "a.npy")


def test_bad_arrays_get_one_clear_line(tmp_path):
    np.savez(tmp_path / "two.npz", a=np.ones((2, 2)), b=np.ones((2, 2)))
    np.save(tmp_path / "flat.npy", np.ones(3))
    np.save(tmp_path / "objects.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    np.save(tmp_path / "complex.npy", np.ones((2, 2)) * 1j)
    np.save(tmp_path / "none.npy", np.ones((0, 4)))
    write(tmp_path / "text.npz", "not an archive")
    messages = {
        "two.npz": "holds 2 arrays",
        "flat.npy": "two dimensions",
        "objects.npy": "not an array",
        "complex.npy": "real numbers",
        "none.npy": "empty",
        "text.npz": "not an array",
    }
    for name, message in messages.items():
        with pytest.raises(SimflError, match=message):
            read(tmp_path / name)
    with pytest.raises(SimflError, match="no finished run here"):
        read(tmp_path)


def test_the_command_speaks_text_and_json_and_draws_the_same_bytes(tmp_path):
    log = write(tmp_path / "log.csv", LONG + "12,anna2,1\n13,anna,1\n")
    runner = CliRunner()
    found = json.loads(runner.invoke(simfl, ["audit", str(log), "--json"], catch_exceptions=False).stdout)
    assert {key: found[key] for key in ("clients", "rounds", "rank", "strong")} == {
        "clients": 4, "rounds": 3, "rank": 3, "strong": 1}  # fmt: skip
    assert [(e["client"], e["round"]) for e in found["exposed"]] == [("anna", 13), ("bob", 13)]
    pictures = []
    for name in ("a.svg", "b.svg"):
        result = runner.invoke(simfl, ["audit", str(log), "--figure", str(tmp_path / name)], catch_exceptions=False)
        pictures.append((tmp_path / name).read_bytes())
    assert pictures[0] == pictures[1] and b"<svg" in pictures[0]
    assert "2 of 4 clients are exposed" in result.stdout
    assert re.search(r"bob +13 +\+1·round 10 -1·round 13", result.stdout)
    assert runner.invoke(simfl, ["audit", str(log), "--figure", "x.gif"]).exit_code == 2


def test_the_figure_shows_the_strong_guarantee_of_every_round_also_where_others_were_not_evaluated(tmp_path):
    log = read(write(tmp_path / "log.csv", "round,client\n0,a\n0,b\n1,b\n1,c\n2,a\n2,b\n3,a\n3,b\n"))
    report = audit(log.matrix, log.rounds, log.clients, every=0)
    above = drawing(report).axes[0]
    (strong,) = (line for line in above.lines if line.get_label() == "strong")
    assert dict(zip(strong.get_xdata(), strong.get_ydata(), strict=True)) == {0: 2, 1: 1, 3: 1}
    assert "-..-" not in text(report) and re.search(r"\n +0 +1 +2 +- +- +0\n", text(report))


def test_labels_that_look_like_numbers_stay_apart(tmp_path):
    """007 is not 7, and twenty digits are not rounded."""
    log = read(write(tmp_path / "a.csv", "round,client\n1,007\n1,7\n2,7\n"))
    assert log.clients == ["007", "7"]
    big = [10**20 + i for i in range(3)]
    log = read(write(tmp_path / "b.csv", "round,client\n" + "".join(f"{r},{c}\n" for r in (10, 9) for c in big)))
    assert log.clients == big and log.rounds == [9, 10] and log.matrix.shape == (2, 3)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_archives_of_every_format(tmp_path, form):
    P = np.array([[1, 1, 0.5], [0, 1, 0], [1, 0, 0]])
    save_npz(tmp_path / "log.npz", csr_array(P).asformat(form))
    np.testing.assert_array_equal(read(tmp_path / "log.npz").matrix.toarray(), P)


def test_a_broken_sparse_archive_is_refused(tmp_path):
    np.savez(tmp_path / "log.npz", format=b"csr", data=[1.0], indices=[9], indptr=[0, 1], shape=[1, 3])
    with pytest.raises(SimflError, match="not an array that can be read"):
        read(tmp_path / "log.npz")


def test_beyond_the_budget_nobody_is_called_safe():
    rng = np.random.default_rng(3)
    P = np.array([rng.permutation([1.0] * 4 + [0.0] * 16) for _ in range(60)])
    whole, part = audit(P), audit(P, budget=4000)
    assert len(whole.exposed) == 20 and whole.known == 60
    assert part.known < 20 and part.metrics.rank is None and not part.exposed
    assert f"Within the first {part.known} rounds" in text(part) and "No client is exposed" not in text(part)
    found = part.to_json()
    assert found["known_rounds"] == part.known and found["rank"] is None
    assert found["weak"]["lower"] <= 1 <= found["weak"]["upper"]


def test_beyond_the_budget_the_number_of_exposed_clients_is_not_known():
    """Not in the second table, on the page, or in the figure; the weights were read all the same."""
    rng = np.random.default_rng(0)
    P = np.array([rng.permutation([1.0] * 4 + [0.0] * 4) for _ in range(20)])
    whole, part = audit(P), audit(P, budget=500)
    assert len(whole.exposed) == 8 and not part.exposed and part.known < 10
    np.testing.assert_array_equal(part.exposed_by_round(), [0.0] * part.known + [np.nan] * (20 - part.known))
    assert timeline(part)[-1][-1] == "0..8" and timeline(whole)[-1][-1] == "8"
    assert [row[-1] for row in timeline(part) if int(row[0]) < part.known] == ["0"] * (len(timeline(part)) - 2)
    within = (
        f"Within the first {part.known} rounds, as far as the budget went, no client is exposed to the server, {EVEN}"
    )
    html = page(part, "log")
    assert within in text(part) and within in html and "No client is exposed" not in html
    assert "<dt>Exposed</dt><dd>at least 0</dd>" in html and "<dt>Exposed</dt><dd>8</dd>" in page(whole, "log")
    assert "Weights: 80 whole numbers." in text(part) and "Weights: 80 whole numbers." in html
    assert part.to_json()["weights"] == whole.to_json()["weights"]
    (curve,) = (line for line in drawing(part).axes[1].lines if "exposed" in line.get_label())
    assert curve.get_label() == f"exposed clients (first {part.known} rounds)"
    np.testing.assert_array_equal(curve.get_xdata()[~np.isnan(curve.get_ydata())], [0, part.known - 1])
    nothing = audit(P, budget=1)
    assert nothing.known == 0 and "Who is exposed is beyond the budget." in text(nothing)
    assert np.isnan(nothing.exposed_by_round()).all() and "beyond the budget" in page(nothing, "log")


def test_beyond_the_budget_those_who_are_exposed_are_counted_as_at_least_so_many():
    rng = np.random.default_rng(0)
    P = np.array([[1.0] + [0.0] * 8, *([0.0, *rng.permutation([1.0] * 4 + [0.0] * 4)] for _ in range(20))])
    part = audit(P, budget=500)
    assert [exposure.client for exposure in part.exposed] == [0] and part.known < 10
    assert timeline(part)[-1][-1] == "1..9" and "<dd>at least 1</dd>" in page(part, "log")
    within = f"Within the first {part.known} rounds, as far as the budget went, 1 of 9 clients is exposed: "
    assert f"{within}its update is reconstructable by the server in the worst case" in text(part)


def test_rounded_combinations_say_so(monkeypatch):
    """Where fractions are beyond the budget the combination is a least-squares solution with its residual."""
    rng = np.random.default_rng(4)
    P = (rng.random((30, 12)) < 0.4) * rng.random((30, 12))
    study = MatrixAnalysis.of(P)
    exact = exposures(study, Budget(10**9))
    monkeypatch.setattr("simfl.deployment.audit.audit_report.isolating", lambda *_: None)
    rounded = exposures(study, Budget(10**9))
    assert [(e.client, e.round) for e in exact] == [(e.client, e.round) for e in rounded]
    assert all(e.exact for e in exact) and not any(e.exact for e in rounded)
    for fraction, number in zip(exact, rounded, strict=True):
        z = np.array([number.coefficients.get(t, 0.0) for t in range(30)])
        assert np.abs(z @ P - np.eye(12)[number.client]).max() == pytest.approx(number.residual, abs=1e-12)
        assert number.residual < 1e-9
        assert {t: float(v) for t, v in fraction.coefficients.items()} == pytest.approx(number.coefficients)
    nothing = exposures(study, Budget(0))
    assert [e.coefficients for e in nothing] == [None] * len(exact)


def test_a_log_without_an_aggregate(tmp_path):
    write(tmp_path / "log.csv", "0,0\n0,0\n")
    result = CliRunner().invoke(simfl, ["audit", str(tmp_path / "log.csv"), "--figure", str(tmp_path / "a.png")])
    assert result.exit_code == 0 and "nothing was given away" in result.stdout
    assert (tmp_path / "a.png").stat().st_size > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_million_rows(tmp_path):
    """10^5 clients in groups of 100: nothing but whole groups is ever summed."""
    rng = np.random.default_rng(0)
    groups = rng.permutation(10**5).reshape(-1, 100)
    rounds = [groups[rng.choice(1000, size=100, replace=False)].ravel() for _ in range(1000)]
    with open(tmp_path / "log.csv", "w") as file:
        file.write("round,client\n")
        for t, members in enumerate(rounds):
            file.write("".join(f"{t},{client}\n" for client in members))
    report = audit(read(tmp_path / "log.csv").matrix)
    found = report.metrics
    assert found.rank == 1000 and found.strong == found.semi_strong == found.weak_lower == found.weak_upper == 100
    assert report.known == 1000 and not report.exposed


# -- logs of other systems ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("server_round,cid", "round = server_round, client = cid"),
        ("Round,user", "round = Round, client = user"),
        ("step,client,client_type", "client = client, round = step"),
        ("Server Round,Client ID", "round = Server Round, client = Client ID"),
        ("serverRound,clientId,numClients", "round = serverRound, client = clientId"),
        ('"round,x",cid', "round = round,x, client = cid"),
    ],
)
def test_columns_of_other_systems_are_read_and_named(tmp_path, header, words):
    path = tmp_path / "log.csv"
    cells = ",x" * (header.replace('"round,x"', "r").count(",") - 1)
    path.write_text(f"{header}\n" + "\n".join(f"{t},c{i}{cells}" for t, i in ((0, 1), (0, 2))))
    shown = CliRunner().invoke(simfl, ["audit", str(path)], catch_exceptions=False).stdout
    assert words in shown.splitlines()[0] and "1 round, 2 clients" in shown


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            "Iteration,site,user_id,loss",
            "--columns round=Iteration,client=site or --columns round=Iteration,client=user",
        ),
        ("cid,uid,round_no", "--columns round=round_no,client=cid or --columns round=round_no,client=uid"),
        ("client,round_a,round_b", "--columns round=round_a or --columns round=round_b"),
        ("cid,uid", "--columns round=NAME,client=NAME"),
        ("round=1,cid", "--columns round=NAME,client=NAME"),
        ("round,loss", "--columns client=NAME"),
    ],
)
def test_columns_that_may_be_several_are_refused_with_what_to_type(tmp_path, header, message):
    path = tmp_path / "log.csv"
    path.write_text(f"{header}\n" + ",".join("x" * (header.count(",") + 1)) + "\n")
    with pytest.raises(SimflError, match=re.escape(message)):
        read(path)


@pytest.mark.parametrize("header", ["a,b", "ground,clientele", "client_0,client_1,client_2"])
def test_columns_that_may_be_anything_are_not_guessed(tmp_path, header):
    path = tmp_path / "log.csv"
    path.write_text(f"{header}\n" + "1,0,1"[: 2 * header.count(",") + 1] + "\n")
    assert read(path).matrix.shape == (1, header.count(",") + 1), "a matrix under names"


def test_a_proposal_can_be_typed_as_it_stands(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("Server Round,Client ID,user\n0,a,x\n0,b,x\n1,a,x\n1,c,x\n")
    refused = CliRunner().invoke(simfl, ["audit", str(path)])
    words = shlex.split(refused.stderr[refused.stderr.index("--columns") :])[:2]
    assert CliRunner().invoke(simfl, ["audit", str(path), *words]).exit_code == 0


@pytest.mark.parametrize("option", ["--html", "--figure"])
def test_the_log_is_never_overwritten(tmp_path, monkeypatch, option):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "log.svg"
    path.write_text("round,client\n0,a\n0,b\n")
    before = path.read_bytes()
    for name, why in (("log.svg", "is the log itself"), (".", "is a folder"), ("", "is a folder")):
        result = CliRunner().invoke(simfl, ["audit", "log.svg", option, name])
        assert result.exit_code == 2 and result.stderr.count("\n") == 1, result.output
        assert path.read_bytes() == before and (why in result.stderr or "must end in" in result.stderr)


def test_a_client_alone_in_a_sum_is_exposed_whatever_its_weight():
    """1.00 in a log with two decimals has too few digits to be sure, which is no matter in a sum of one."""
    report = audit(np.array([[0.33, 0.62, 0], [0, 0, 1], [0.25, 0.33, 0.42]]))
    assert [exposure.client for exposure in report.exposed] == [2] and report.doubtful == 2
    assert report.metrics.weak_lower == report.metrics.weak_upper == 1
