"""What stands in a log's cells: weights that some records lack or doubles cannot hold, and labels 1 and 1.0."""

import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array, save_npz

from simfl.cli import simfl
from simfl.core.errors import SimflError
from simfl.deployment.audit import audit, read
from simfl.deployment.audit.log_columns import LogOptions
from simfl.deployment.forecasting.past import read_past
from tests.support.privacy_brute import isolated

NO_WEIGHT = "no weight; give one to every row, or leave the column out"
TOO_LARGE = "too large; the largest valid one is 9007199254740991"
MORE_DIGITS = "the weight differs from another one only beyond the 17 digits that are read"


def json_lines(path, records):
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in records))
    return path


def csv(path, lines):
    path.write_text("\n".join(["round,client,weight", *lines]) + "\n")
    return path


def refused(path, message):
    """One line that names the file and says this; the command says the same."""
    with pytest.raises(SimflError) as told:
        read(path)
    assert str(told.value) == f"{path}{message}"
    result = CliRunner().invoke(simfl, ["audit", str(path)])
    assert result.exit_code == 2 and result.stdout == "" and result.stderr.count("\n") == 1


# -- columns that not every record has -----------------------------------------------------------------

UNWEIGHTED = [{"round": 0, "client": "ann"}, {"round": 0, "client": "bob"}]
WEIGHTED = [{"round": 1, "client": "ann", "weight": 2}, {"round": 1, "client": "bob", "weight": 3}]


@pytest.mark.parametrize("weight", [{}, {"weight": None}, {"weight": ""}, {"weight": " "}])
def test_a_record_without_a_weight_is_an_empty_cell_wherever_it_stands(tmp_path, weight):
    """Only the first record decided; rows (1, 1) and (2, 3) were read as two of (1, 1), which expose nobody."""
    without = [record | weight for record in UNWEIGHTED]
    assert all(isolated([[1, 1], [2, 3]], client) for client in (0, 1))
    refused(json_lines(tmp_path / "a.jsonl", [*without, *WEIGHTED]), f":1: {NO_WEIGHT}")
    refused(json_lines(tmp_path / "b.jsonl", [*WEIGHTED, *without]), f":3: {NO_WEIGHT}")
    refused(json_lines(tmp_path / "c.jsonl", ["", *without, "", *WEIGHTED]), f":2: {NO_WEIGHT}")
    refused(csv(tmp_path / "a.csv", ["0,ann,", "0,bob,", "1,ann,2", "1,bob,3"]), f":2: {NO_WEIGHT}")


def test_a_parquet_row_without_a_weight_is_an_empty_cell(tmp_path):
    import pandas

    pandas.DataFrame([*WEIGHTED, *UNWEIGHTED]).to_parquet(tmp_path / "a.parquet")
    refused(tmp_path / "a.parquet", f", row 3: {NO_WEIGHT}")


@pytest.mark.parametrize(
    "later, message",
    [
        ({"round": 1, "client": "ann", "Weight": 2}, f":1: {NO_WEIGHT}"),
        ({"round": 1, "client": "ann", "wieght": 2},
         ":1: unknown column 'wieght'; did you mean 'weight'? (--columns weight=wieght)"),
        ({"loss": 0.5}, ":3: no round"),
        ({}, ":3: no round"),
        ({"round": float("nan"), "client": "ann"}, ":3: no round"),
    ],
)  # fmt: skip
def test_later_records_say_what_the_first_ones_lack(tmp_path, later, message):
    refused(json_lines(tmp_path / "a.jsonl", [*UNWEIGHTED, later]), message)


def test_a_column_that_appears_later_under_its_right_name_is_missed_before(tmp_path):
    first = {"Round": 0, "Client": "ann"}
    assert read(json_lines(tmp_path / "a.jsonl", [first])).clients == ["ann"]
    refused(json_lines(tmp_path / "b.jsonl", [first, {"round": 1, "Client": "ann"}]), ":1: no round")


def test_columns_not_read_are_those_of_all_records(tmp_path):
    """In order of appearance, with and without chosen names, also where each record has a key of its own."""
    records = [record | {"loss": 1, f"loss_{t}": 2} for t, record in enumerate([*WEIGHTED, *WEIGHTED])]
    for t, record in enumerate(records):
        record["round"] = t
    log = read(json_lines(tmp_path / "a.jsonl", records))
    assert log.unused == ("loss", "loss_0", "loss_1", "loss_2", "loss_3")
    renamed = [{"when": r["round"], "who": r["client"], "w": r["weight"], **({"x": t} if t else {})}
               for t, r in enumerate(records)]  # fmt: skip
    columns = {"round": "when", "client": "who", "weight": "w"}
    log = read(json_lines(tmp_path / "b.jsonl", renamed), columns)
    assert log.unused == ("x",)
    np.testing.assert_array_equal(log.matrix.toarray(), [[2, 0], [0, 3], [2, 0], [0, 3]])
    many = [{"round": t, "client": 0, f"note {t}": None} for t in range(5000)]
    assert len(read(json_lines(tmp_path / "c.jsonl", many)).unused) == 5000


def test_too_many_keys_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("simfl.deployment.audit.log.Limits.COLUMNS", 30)
    log = json_lines(tmp_path / "a.jsonl", [{"round": t, "client": 0, f"note {t}": None} for t in range(50)])
    refused(log, ":29: more than the 30 columns that are read")


# -- weights that doubles cannot hold ------------------------------------------------------------------


@pytest.mark.parametrize("large", ["9007199254740993", "9007199254740992", "1e16", "18446744073709551617", "1e300"])
def test_weights_that_doubles_make_equal_to_others_are_refused(tmp_path, large):
    """2^53 and 2^53 + 1 beside 1 and 1 expose both clients, and were called one weight for certain."""
    refused(csv(tmp_path / "a.csv", ["0,a,1", f"0,b,{large}"]), f":3: the weight is {TOO_LARGE}")
    record = '{"round": 0, "client": "a", "weight": %s}'
    refused(json_lines(tmp_path / "a.jsonl", [record % large]), f":1: the weight is {TOO_LARGE}")
    refused(json_lines(tmp_path / "b.jsonl", [record % f'"{large}"']), f":1: the weight is {TOO_LARGE}")
    (tmp_path / "m.csv").write_text(f"1,1\n1,{large}\n")
    refused(tmp_path / "m.csv", f": round 1, client 1: weight {float(large):g} is {TOO_LARGE}")


def test_large_whole_numbers_in_typed_files_are_refused(tmp_path):
    import pandas

    P = np.array([[1, 2**53 + 1], [1, 1]])
    frame = pandas.DataFrame({"round": [0, 0], "client": ["a", "b"], "weight": [1, 2**53 + 1]})
    for form in ("int64", "uint64", "float64"):
        frame.assign(weight=frame["weight"].astype(form)).to_parquet(tmp_path / "a.parquet")
        refused(tmp_path / "a.parquet", f", row 2: the weight is {TOO_LARGE}")
    frame.assign(weight=[Decimal(1), Decimal(2**53 + 1)]).to_parquet(tmp_path / "a.parquet")
    refused(tmp_path / "a.parquet", f", row 2: the weight is {TOO_LARGE}")
    np.save(tmp_path / "a.npy", P)
    np.savez(tmp_path / "a.npz", P.astype(np.uint64))
    save_npz(tmp_path / "s.npz", csr_array(P))
    for name in ("a.npy", "a.npz", "s.npz"):
        refused(tmp_path / name, f": round 0, client 1: weight 9.0072e+15 is {TOO_LARGE}")
    np.save(tmp_path / "b.npy", np.array([[1, 2, 200]], dtype=np.int16))
    assert read(tmp_path / "b.npy", options=LogOptions(form="matrix")).matrix.toarray().tolist() == [[1, 2, 200]]


def test_the_largest_weight_is_read_exactly(tmp_path):
    log = read(csv(tmp_path / "a.csv", ["0,a,9007199254740991", "0,b,9007199254740990", "1,a,1", "1,b,1"]))
    assert log.matrix.toarray()[0].tolist() == [2**53 - 1, 2**53 - 2]
    assert audit(log.matrix).metrics.weak_lower == 1, "no guarantee that does not hold"


CLOSE = ("0.1234567890123456789", "0.1234567890123456788")


@pytest.mark.parametrize(
    "first, second", [CLOSE, ("0.5", "0.5000000000000000001"), ("5e-1", "0.49999999999999999999"), CLOSE[::-1]]
)
def test_weights_that_differ_in_digits_that_are_not_read_are_refused(tmp_path, first, second):
    """They were one weight for certain: the round with them and a round of ones expose both clients."""
    rows = [[Fraction(first), Fraction(second)], [Fraction(1), Fraction(1)]]
    assert float(first) == float(second) and isolated(rows, 0) and isolated(rows, 1)
    with pytest.raises(SimflError, match=f"a.csv:[23]: {MORE_DIGITS}$"):
        read(csv(tmp_path / "a.csv", [f"0,a,{first}", f"0,b,{second}", "1,a,1", "1,b,1"]))
    record = '{"round": 0, "client": "%s", "weight": %s}'
    with pytest.raises(SimflError, match=f"a.jsonl:[12]: {MORE_DIGITS}$"):
        read(json_lines(tmp_path / "a.jsonl", [record % ("a", first), record % ("b", second)]))
    for name, mark, comma in (("m.csv", ".", ","), ("m.txt", ",", ";")):
        (tmp_path / name).write_text("\n".join(comma.join(row) for row in (("1", "1"), (first, second))).replace(
            ".", mark) + "\n")  # fmt: skip
        with pytest.raises(SimflError, match=f"{name}: round 1, client [01]: {MORE_DIGITS}$"):
            read(tmp_path / name)


def test_decimals_of_a_database_are_told_apart_or_refused(tmp_path):
    import pandas

    frame = pandas.DataFrame({"round": [0, 0, 1], "client": ["a", "b", "a"]})
    third = Decimal("0.333333333333333333")
    frame.assign(weight=[third, third, Decimal("0.500000000000000000")]).to_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").matrix.toarray().tolist() == [[1 / 3, 1 / 3], [0.5, 0]]
    frame.assign(weight=[third, third + Decimal("1e-18"), third]).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(SimflError, match=f"row [123]: {MORE_DIGITS}$"):
        read(tmp_path / "b.parquet")


def test_doubles_printed_with_more_digits_than_they_have_are_read(tmp_path):
    """numpy.savetxt writes 19 digits, and some programs 20 decimals: equal doubles are equal words."""
    rng = np.random.default_rng(0)
    P = rng.choice([0.0, 0.1, 1 / 3, 0.5, 2.0, 1e-5], (40, 6))
    np.savetxt(tmp_path / "m.csv", P, delimiter=",")
    np.savetxt(tmp_path / "m.txt", P, delimiter=";", fmt="%.20f", header="a;b;c;d;e;f", comments="")
    for name in ("m.csv", "m.txt"):
        (tmp_path / name).write_text((tmp_path / name).read_text().replace(".", "," if name == "m.txt" else "."))
        np.testing.assert_allclose(read(tmp_path / name).matrix.toarray(), P, rtol=1e-15, atol=0)
    entries = [f"{t},{c},{P[t, c]:.20f}" for t, c in np.argwhere(P)]
    log = read(csv(tmp_path / "a.csv", entries))
    np.testing.assert_allclose(log.matrix.toarray(), P[np.any(P, axis=1)], rtol=1e-12, atol=0)


def test_a_weight_too_small_for_a_double_is_no_absence(tmp_path):
    refused(csv(tmp_path / "a.csv", ["0,a,0", "0,b,0e5", "0,c,1e-400"]),
            ":4: the weight is so small that it would be read as 0")  # fmt: skip
    assert read(csv(tmp_path / "b.csv", ["0,a,0", "0,b,0e5", "0,c,0.00"])).matrix.nnz == 0


# -- labels 1 and 1.0 ----------------------------------------------------------------------------------

MIXED = [(0, 1), (0, 2), (1, 1.0), (1, 3), (2.0, 3), (2, 2.0)]


def test_a_whole_number_is_one_label_with_and_without_a_point(tmp_path):
    """Client 1.0 was another than client 1, and three rounds of pairs, which expose all, exposed nobody."""
    records = [{"round": t, "client": client, "time": 5.0 * t, "bytes": 10} for t, client in MIXED]
    path = json_lines(tmp_path / "a.jsonl", records)
    log = read(path)
    assert (log.rounds, log.clients) == ([0, 1, 2], [1, 2, 3])
    truth = [[1, 1, 0], [1, 0, 1], [0, 1, 1]]
    np.testing.assert_array_equal(log.matrix.toarray(), truth)
    found = {exposure.client for exposure in audit(log.matrix).exposed}
    assert found == {client for client in range(3) if isolated([[Fraction(x) for x in row] for row in truth], client)}
    assert len(found) == 3
    past = read_past(path)
    assert past.times_s.tolist() == [0, 5, 10] and past.round_bytes.tolist() == [20, 20, 20]


def test_whole_numbers_in_columns_with_a_point_are_whole(tmp_path):
    """A column of integers that lacks one is often saved as doubles."""
    import pandas

    frame = pandas.DataFrame({"round": [t for t, _ in MIXED], "client": [float(c) for _, c in MIXED], "time": 1.0})
    for form in ("float64", "float32", "Int64"):
        frame.assign(client=frame["client"].astype(form)).to_parquet(tmp_path / "a.parquet")
        log = read(tmp_path / "a.parquet")
        assert (log.rounds, log.clients) == ([0, 1, 2], [1, 2, 3]), form
        assert read_past(tmp_path / "a.parquet").times_s.tolist() == [1, 1, 1]
    frame.assign(client=[Decimal(f"{client}.00") for _, client in [(0, 1), (0, 2), (1, 1), (1, 3), (2, 3), (2, 2)]]
                 ).to_parquet(tmp_path / "a.parquet")  # fmt: skip
    assert read(tmp_path / "a.parquet").clients == [1, 2, 3]
    frame.assign(client=[1.0, 2.0, None, 3.0, 3.0, 2.0]).to_parquet(tmp_path / "a.parquet")
    refused(tmp_path / "a.parquet", ", row 3: no client")
    pandas.DataFrame({"round": [0, None], "client": ["a", None]}).to_parquet(tmp_path / "a.parquet")
    refused(tmp_path / "a.parquet", ", row 2: no round")


@pytest.mark.parametrize("form, largest", [("float64", 2**53 - 1), ("float32", 2**24 - 1)])
def test_clients_that_a_column_cannot_tell_apart_are_refused(tmp_path, form, largest):
    import pandas

    frame = pandas.DataFrame({"round": [0, 0], "client": np.array([1, largest], dtype=form)})
    frame.to_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").clients == [1, largest]
    frame.assign(client=np.array([1, largest + 1], dtype=form)).to_parquet(tmp_path / "a.parquet")
    kind = {"float64": "double", "float32": "float"}[form]
    refused(tmp_path / "a.parquet", f": a client above {largest} in a column of {kind}, which holds no larger whole "
            "number for sure; write it as an integer or a word")  # fmt: skip


def test_other_numbers_and_words_stay_what_they_are(tmp_path):
    words = ["1.5", "1.50", "9007199254740993.0", '"1.0"', "1e2", "-0.0", '"007"', "1e400"]
    path = json_lines(tmp_path / "a.jsonl", [f'{{"round": {t}, "client": {word}}}' for t, word in enumerate(words)])
    log = read(path)
    assert [log.clients[row.nonzero()[0][0]] for row in log.matrix.toarray()] == [
        "1.5", "1.5", "9007199254740993", "1.0", "100", "0", "007", "1E+400"]  # fmt: skip


# -- weights of few digits -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weights, words",
    [
        (("0.3", "0.3", "0.3"), "Weights: 9 numbers of too few digits."),
        (("0.33", "0.33", "0.33"), "Weights: 9 numbers of too few digits."),
        (("33", "33", "34"),
         "Weights: 9 whole numbers that may be rounded percentages (each round adds up to about 100)."),
    ],
)  # fmt: skip
def test_fewer_digits_give_no_stronger_guarantee(tmp_path, weights, words):
    """Three rounds of 0.3 were a strong guarantee of 3 for certain, and 33, 33, 34 a weak one."""
    log = csv(tmp_path / "a.csv", [f"{t},{c},{w}" for t in range(3) for c, w in zip("abc", weights, strict=True)])
    shown = CliRunner().invoke(simfl, ["audit", str(log)], catch_exceptions=False).stdout
    assert words in shown and "No client is exposed to the server for certain, even in the worst case" in shown
    assert "Some weights may be rounded" in shown
    found = audit(read(log).matrix)
    assert found.metrics.strong == found.metrics.weak_lower == 1 and found.doubtful == 3
    assert read_past(log).doubtful == 3
