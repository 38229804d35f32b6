"""docs/papers/index.md: complete, generated, its verdicts computed from tables by one rule that can fail."""

import math
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pandas
import pytest
import yaml

from tests.whole.test_scripts import imported

HERE = Path(__file__).resolve().parents[2]
FOLDER = HERE / "results" / "items"
OPEN = {"undecided", "not played"}


@pytest.fixture
def items(monkeypatch):
    """The script, and its modules as they are now."""
    for name in ("item_places", "item_predicates", "item_rows", "item_verdicts"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return imported(FOLDER / "items.py", monkeypatch)


@pytest.fixture
def rows(items):
    return items.items()


@pytest.fixture
def altered(items, monkeypatch):
    """Rows of tables of results/ are read with some numbers altered."""
    places = sys.modules["item_places"]
    read = cache(places.rows)

    def alter(*changes):
        """Each change is the name of a table and what it does to some of its rows."""

        def rows(name, where):
            result = read(name, where).copy()
            for changed, change in changes:
                result = change(result) if changed == name else result
            return result

        monkeypatch.setattr(places, "rows", rows)

    alter()
    return alter


def test_the_page_is_what_the_script_prints(items):
    assert "\n".join(items.page()) + "\n" == (HERE / "docs" / "papers" / "index.md").read_text()


def test_the_page_is_short_enough_to_be_read():
    assert len(re.findall(r"[^\s|]+", (HERE / "docs" / "papers" / "index.md").read_text())) <= 6000


def test_no_row_has_a_verdict_or_anything_else_that_is_unknown(items):
    parse = sys.modules["item_rows"].Item.parse
    written = [row for path in FOLDER.glob("*.yaml") for row in yaml.safe_load(path.read_text())]
    assert len(written) > 100 and not any("verdict" in row for row in written)
    for key in ("verdict", "word", "outcome"):
        with pytest.raises(TypeError):
            parse({**written[0], key: "reproduced"})
    with pytest.raises(TypeError):
        parse({**written[0], "values": {"a": {"at": "a/b||c|d", "verdict": "reproduced"}}})


def test_every_item_is_complete(items, rows):
    assert len({(row.source, row.item) for row in rows}) == len(rows) >= 120
    for row in rows:
        assert row.source in items.SOURCES and row.claim and (HERE / "docs" / row.page).exists(), row.item
        if row.unplayed:
            assert not (row.values or row.predicate or row.command or row.replaced), row.item
            continue
        assert row.command and row.minutes and (HERE / row.where).exists(), row.item
        assert row.replaced or row.predicate or any(each.printed for each in row.values.values()), row.item


def test_a_command_takes_as_long_wherever_it_stands_and_names_what_exists(rows):
    minutes = {}
    for row in rows:
        assert minutes.setdefault(row.command, row.minutes) == row.minutes, row.command
        for path in re.findall(r"(?:results|tests)/\S+\.py", row.command):
            assert (HERE / path).exists(), row.command


def test_numbers_of_predicates_come_from_tables(items, rows):
    predicate = sys.modules["item_predicates"].Predicate
    for row in rows:
        if row.predicate:
            assert predicate(row.predicate).labels() <= set(row.values), row.item
            assert row.values or list(predicate(row.predicate).tests()), f"{row.item}: neither table nor test"
        for each in row.values.values():
            name, where, column, form = each.at.split("|")
            assert (HERE / "results" / f"{name}.csv").exists() and where and column and form, each.at
            assert not each.printed or math.isfinite(float(each.printed)), row.item
        typed = re.sub(r"\{[^{}]*\}", "", row.note)
        assert not re.search(r"\d ?±|\d\.\d\d", typed), f"{row.item}: a measured number is typed"


def test_every_verdict_is_recomputed_and_counted(items, rows):
    verdicts = [items.verdict(row) for row in rows]
    assert {each.word for each in verdicts} <= set(items.VERDICTS)
    page = (HERE / "docs" / "papers" / "index.md").read_text()
    numbers = [sum(each.word == word for each in verdicts) for word in items.VERDICTS]
    assert f"| all | {' | '.join(map(str, numbers))} | {len(rows)} |" in page
    assert sum(numbers) == len(rows)
    for row, each in zip(rows, verdicts, strict=True):
        assert (each.word == "not played") == bool(row.unplayed) and (each.word == "reduced") == bool(row.replaced)
        assert not (each.word == "reproduced" and row.fitted), row.item


def test_tests_that_carry_claims_are_collected(items, rows):
    predicate = sys.modules["item_predicates"].Predicate
    named = sorted({place for row in rows if row.predicate for place in predicate(row.predicate).tests()})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", "-o", "addopts=", *named]
    listed = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True).stdout
    assert len(named) > 25 and all(f"{place}\n" in listed or f"{place}[" in listed for place in named)


def columns(place):
    """The columns that a place's value and interval are read from."""
    column = place.split("|")[2].split()[-1]
    value, _, ends = column.partition("[")
    return [value.split("±")[0], *filter(None, ends.rstrip("]").split(","))]


def shifted(items, place, by):
    """A table and a change of it: the rows of a place are moved up or down, and their intervals with them."""
    name, where = place.split("|")[:2]
    chosen = sys.modules["item_places"].rows(name, where).index

    def change(table):
        there = chosen.intersection(table.index)
        for column in columns(place):
            moved = table.loc[there, column].replace("", "nan").astype(float)
            moved += by * (moved.abs() + 1)
            table.loc[there, column] = (moved.clip(0, 0.999) if "fisher" in place else moved).map(repr)
        return table

    return name, change


def printed_instead(each):
    """A table and a change of it: a place holds what the source prints."""
    name, where = each.at.split("|")[:2]
    chosen = sys.modules["item_places"].rows(name, where).index

    def change(table):
        table.loc[chosen.intersection(table.index), columns(each.at)] = each.printed
        return table

    return name, change


def test_altered_tables_alter_the_verdicts(items, rows, altered):
    """A row that says something of its numbers says something else once one, or all, are moved, or are as printed."""

    def otherwise(move):
        altered(*move)
        return items.verdict(row)

    checked = 0
    for row in rows:
        altered()
        before = items.verdict(row)
        if not row.values or (before.here or before.word) in OPEN:
            continue
        moves = [[shifted(items, each.at, by)] for each in row.values.values() for by in (-1000, -1, 1, 1000)]
        moves += [sum(moves[start::4], []) for start in range(4)]
        moves.append([printed_instead(each) for each in row.values.values() if each.printed])
        assert any(otherwise(move) != before for move in moves), row.item
        checked += 1
    assert checked > 50


def test_an_altered_file_alters_a_verdict(items, rows, monkeypatch, tmp_path):
    places = sys.modules["item_places"]
    row = next(each for each in rows if each.item == "Remark 6, Appendix C")
    assert items.verdict(row).word == "reproduced"
    (tmp_path / "theorems").mkdir()
    text = (HERE / "results" / "theorems" / "necessity.csv").read_text()
    (tmp_path / "theorems" / "necessity.csv").write_text(text.replace("12,6,3,False,,6,6", "12,6,3,False,,7,6"))
    monkeypatch.setattr(places, "RESULTS", tmp_path)
    places.table.cache_clear()
    assert items.verdict(row).word == "claim refuted"
    places.table.cache_clear()


def test_fewer_than_five_seeds_reproduce_nothing(items, rows, altered):
    counted = 0
    for row in rows:
        altered()
        measured = [each for each in row.values.values() if not each.exact]
        if items.verdict(row).word not in ("reproduced", "as far as fitted") or not measured:
            continue
        for name, counting in {(each.at.split("|")[0], each.seeds) for each in measured}:
            altered((name, few(counting)))
            assert items.verdict(row).word not in ("reproduced", "as far as fitted"), row.item
            counted += 1
    assert counted > 10


def few(counting):
    """Makes four seeds of a table that has a row a seed, or says how many there were."""

    def change(table):
        for column in {"seeds", "count", "draws", counting} & set(table):
            table[column] = "4"
        return table[table["seed"].astype(int) < 4] if "seed" in table else table

    return change


TABLE = pandas.DataFrame(
    {
        "arm": ["a", "b", "wide", "few", "bare", "sum"],
        "value": ["1.0", "3.0", "3.0", "3.0", "3.0", "2"],
        "half": ["0.1", "0.1", "4.0", "0.1", "", "0"],
        "seeds": ["5", "5", "5", "4", "5", "5"],
        "bound": ["2", "2", "2", "2", "2", "2"],
    }
)


@pytest.mark.parametrize(
    "keys, word",
    [
        ({"predicate": "b > a", "a": "1.05", "b": "3.0"}, "reproduced"),
        ({"predicate": "b > a", "a": "1.05", "b": "3.0", "fitted": "the rate"}, "as far as fitted"),
        ({"predicate": "b > a", "a": "1.2", "b": "3.0"}, "claim holds, numbers differ"),
        ({"predicate": "b > a and b > wide", "a": "1.0", "b": "3.0"}, "numbers agree, claim not seen"),
        ({"predicate": "b > wide", "a": "9", "b": "3.0"}, "differs"),
        ({"predicate": "a > b"}, "claim refuted"),
        ({"predicate": "a > b", "assumed": "the rate"}, "differs"),
        ({"predicate": "a > b", "a": "1.0", "b": "3.0"}, "claim refuted"),
        ({"predicate": "wide > a"}, "undecided"),
        ({"predicate": "few > a"}, "undecided"),
        ({"predicate": "a > few"}, "claim refuted"),
        ({"predicate": "bare > a"}, "undecided"),
        ({"predicate": "b > a", "bare": "3.0"}, "undecided"),
        ({"predicate": "b > a", "b": "3.0"}, "undecided"),
        ({"b": "3.0", "difference": "3.0 - 1.0"}, "reproduced"),
        ({"b": "3.0", "difference": "3.0 - 2.9"}, "undecided"),
        ({"b": "3.2", "difference": "3.0 - 1.0"}, "differs"),
        ({"predicate": "near(b, 3, 0.2)"}, "reproduced"),
        ({"predicate": "near(b, 3, 0.05)"}, "undecided"),
        ({"predicate": "near(b, 2, 0.5)"}, "claim refuted"),
        ({"predicate": "b > bound"}, "reproduced"),
        ({"predicate": "bound == 2"}, "reproduced"),
        ({"predicate": "bound == 3"}, "claim refuted"),
        ({"predicate": "b == 3"}, "undecided"),
        ({"predicate": "rises(a, bound, b) and falls(b, a) and not a > b"}, "reproduced"),
        ({"predicate": "b > a or wide > a"}, "reproduced"),
        ({"predicate": "(b - a) / 2 > 0.8"}, "reproduced"),
        ({"predicate": "b > a", "replaced": "a toy for the network"}, "reduced"),
        ({"unplayed": "no data"}, "not played"),
        ({"predicate": 'test("tests/whole/test_items.py::test_a_place_is_one_row")'}, "reproduced"),
        ({"predicate": 'refuted_by("tests/whole/test_items.py::test_a_place_is_one_row")'}, "claim refuted"),
    ],
)
def test_the_rule(items, monkeypatch, keys, word):
    monkeypatch.setattr(sys.modules["item_places"], "table", lambda name: TABLE)
    values = {arm: {"at": f"t/t|arm={arm}|value±half|.1f"} for arm in ("a", "b", "wide", "few", "bare")}
    values["bound"] = {"at": "t/t|arm=a|bound|.0f", "exact": "a formula"}
    keys = dict(keys)
    for arm in list(values):
        if arm in keys:
            values[arm]["printed"] = keys.pop(arm)
    row = {"source": "001", "item": "x", "subject": "x", "claim": "x", "page": "x", "values": values, **keys}
    assert items.verdict(sys.modules["item_rows"].Item.parse(row)).word == word


def test_values_by_seed_are_paired(items, monkeypatch):
    table = pandas.DataFrame(
        [(arm, str(seed), repr(10.0 * seed + more)) for arm, more in (("a", 0), ("b", 1)) for seed in range(5)],
        columns=["arm", "seed", "value"],
    )
    table.loc[9, "value"] = repr(41.2)
    monkeypatch.setattr(sys.modules["item_places"], "table", lambda name: table)
    row = {"source": "001", "item": "x", "subject": "x", "claim": "x", "page": "x", "predicate": "b > a"}
    row["values"] = {arm: {"at": f"t/t|arm={arm}|mean value|.1f"} for arm in "ab"}
    parse = sys.modules["item_rows"].Item.parse
    assert items.verdict(parse(row)).word == "reproduced", "0.04 +- 0.1 above, where seeds differ by 40"
    table.loc[table.arm == "b", "seed"] = list("56789")
    assert items.verdict(parse(row)).word == "undecided", "other seeds are not paired"


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "a.real > 0",
        "open('x')",
        "a[0] > 1",
        "a if a else a",
        "(lambda: 1)() > 0",
        "a ** 9 > 1",
        "1 > 0",
        "a >= a",
        "near(a, a, 1)",
        "near(1, 1, 1)",
        "rises(1, 2)",
    ],
)
def test_a_predicate_can_do_nothing_else(items, text):
    value = sys.modules["item_places"].number(1.0)
    with pytest.raises(SyntaxError):
        sys.modules["item_predicates"].Predicate(text).outcome({"a": value})


@pytest.mark.parametrize("place", ["tests/whole/test_items.py::test_nothing", "tests/none.py::test_x", "tests/x"])
def test_a_test_that_does_not_exist_carries_nothing(items, place):
    with pytest.raises(LookupError, match="no test that is run"):
        sys.modules["item_predicates"].Predicate(f'test("{place}")').outcome({})


@pytest.mark.parametrize(
    "place, shown",
    [
        ("paper001/table1|scheme=batch T=4|family|,d", "4,060"),
        ("theorems/necessity|clients=12;k=6;T=3|bound|d", "6"),
        ("fedltn/high_lenet_course|arm=FedAvg|max trained_mean|.1f", "75.9"),
        ("paper001/table4_authors|setting=IID;scheme=partition|minus_random[minus_random_lower,minus_random_upper]|.2f",
         "−3.95±1.11"),
        ("theorems/half|T=6|difference[low,high]|.2f", "0.72±0.31"),
        ("paper001/curves4_authors|setting=IID;scheme=random;round=199|mean test_accuracy|.2f", "98.12±0.06"),
        ("theorems/full_rank|scheme=uniform;clients=120;k=12|full_after_n[low,high]|.3f", "0.999 (0.994, 1.000)"),
    ],
)  # fmt: skip
def test_places_are_looked_up(items, place, shown):
    assert items.filled(f"{{{place}}}") == shown


def test_a_place_is_one_row(items):
    quantity = sys.modules["item_places"].quantity
    with pytest.raises(LookupError, match="6 rows"):
        quantity("paper001/table1||family|d")
    with pytest.raises(LookupError, match="0 rows"):
        quantity("paper001/table1|scheme=none|family|d")
    with pytest.raises(LookupError, match="counts runs"):
        quantity("paper001/table4_authors|setting=IID;scheme=random|after_200|.1f", exact=True)
