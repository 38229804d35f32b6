# ruff: noqa: E501  (a message stands on one line)
"""The strict YAML reader: YAML 1.2 scalars, places, limits, and everything that is refused."""

import json
import time

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simfl.scenario.yaml import reader, writer
from simfl.scenario.yaml.places import Place
from simfl.scenario.yaml.reader import LARGEST, MAX_BYTES, MAX_DEPTH, MAX_VALUES, decode, read, scalar
from simfl.scenario.yaml.writer import dump


@pytest.fixture(params=["libyaml", "pure Python"])
def loader(request, monkeypatch):
    """Both of PyYAML's parsers must be met with the same strictness."""
    if request.param == "libyaml" and not yaml.__with_libyaml__:
        pytest.skip("PyYAML was built without libyaml")
    monkeypatch.setattr(reader, "Loader", yaml.CSafeLoader if request.param == "libyaml" else yaml.SafeLoader)


def lines(text):
    return [str(problem) for problem in read(text, "f").problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12), ("012", 12), ("-7", -7), ("+7", 7), ("0o17", 15), ("0x1F", 31), ("-0", 0),
        ("1e-3", 0.001), ("1E3", 1000.0), (".5", 0.5), ("5.", 5.0), ("-1.5e+2", -150.0), ("2.0e+6", 2e6),
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None),
        ("no", "no"), ("yes", "yes"), ("on", "on"), ("12:30:00", "12:30:00"), ("1_000", "1_000"), ("0b1", "0b1"),
        ("2026-01-01", "2026-01-01"), ("nan", "nan"), ("inf", "inf"), ("tRUE", "tRUE"), ("e3", "e3"), ("1e", "1e"),
        ("0o8", "0o8"), ("0xG", "0xG"), ("-0x1", "-0x1"), ("٣", "٣"), (str(LARGEST), LARGEST),
        ("0" * 100 + "7", 7), ("=", "="), ("<<", "<<"),
    ],
)  # fmt: skip
def test_plain_scalars_follow_yaml_1_2(text, value):
    found = scalar(text)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    "text", [".inf", "-.Inf", "+.INF", ".nan", ".NaN", "1e309", "-1e999", str(LARGEST + 1), "9" * 5000, "0x" + "f" * 17]
)
def test_numbers_that_no_array_holds_are_refused(text):
    with pytest.raises(ValueError, match="too large|not allowed"):
        scalar(text)


@given(st.text())
@example("1" * 401 + ".5")
@settings(max_examples=100, deadline=None)
def test_a_scalar_is_a_value_or_a_clean_refusal(text):
    try:
        value = scalar(text)
    except ValueError as error:
        assert str(error)
    else:
        assert value is None or isinstance(value, (bool, int, float, str))
        if isinstance(value, str):
            assert value == text


@given(st.integers(-LARGEST, LARGEST) | st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=100, deadline=None)
def test_numbers_survive_being_written(number):
    found = scalar(json.dumps(number))
    assert found == number and type(found) is type(number)


printable = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xD7FF, exclude_characters="\x7f"), max_size=12)
plain_data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-LARGEST, LARGEST)
    | st.floats(allow_nan=False, allow_infinity=False)
    | printable.filter(lambda text: not reader.FORBIDDEN.search(text))
    | st.sampled_from(
        ["no", "1e-3", "012", "0o7", "~", "null", "<<", "a: b", "- a", "#", ".inf", "*a", "1:2", " x ", "\n"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcno"), inner, max_size=3),
    max_leaves=8,
)


@given(plain_data)
@settings(max_examples=100, deadline=None)
def test_what_is_written_reads_back_the_same(data):
    document = read(dump({"top": data}), "f")
    assert not document.problems
    assert json.dumps(document.value) == json.dumps({"top": data})  # tells 1 from 1.0 and true


any_text = st.text(max_size=8) | st.text("ab -:#'\"\\\\{[,&*!|>%@`é\n\U0001f600", max_size=250)


@given(st.recursive(any_text, lambda inner: st.lists(inner, max_size=9) | st.dictionaries(any_text, inner, max_size=4)))
@example({"k" * length: 1 for length in range(100, 140)})
@example({"é" * length: [1] for length in range(40, 140)})
@settings(max_examples=200, deadline=None)
def test_both_of_pyyamls_writers_write_the_same_bytes(data):
    with pytest.MonkeyPatch.context() as patch:
        found = dump({"top": data})
        patch.setattr(writer, "_FastDumper", writer._Dumper)
        assert found == dump({"top": data})


def test_every_key_and_value_has_its_place(loader):
    places = read("a: 1\nb:\n  c: [x, {d: 2}]\n", "f").places
    assert places.of(("a",)) == Place("f", 1, 4)
    assert places.of(("b", "c"), key=True) == Place("f", 3, 3)
    assert places.of(("b", "c", 0)) == Place("f", 3, 7)
    assert places.of(("b", "c", 1, "d")) == Place("f", 3, 14)
    assert places.of(("b", "c", 1, "nowhere", 5)) == Place("f", 3, 10), "else the place of what holds it"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\na: 2", "f:2:1: a: duplicate key 'a', first on line 1"),
        ("a: {b: 1, b: 2}", "f:1:11: a.b: duplicate key 'b', first on line 1"),
        (
            "a: !!python/object/apply:os.system [ls]",
            "f:1:4: a: the tag 'tag:yaml.org,2002:python/object/apply:os.system'",
        ),
        ("a: !x 1", "f:1:4: a: the tag '!x' is not allowed (got '1')"),
        ("a: &m {b: 1}\nc:\n  <<: *m", "f:3:3: c: merge keys '<<' are not allowed"),
        ("1: a", "f:1:1: a key must be text; write it in quotes (got 1)"),
        ("~: a", "f:1:1: a key must be text; write it in quotes (got nothing)"),
        ("[a]: b", "f:1:1: a key must be text, not a list or mapping"),
        ("? {a: 1}\n: b", "f:1:3: a key must be text, not a list or mapping"),
        ("a: .nan", "f:1:4: a: infinity and not-a-number are not allowed"),
        ("a: [1, 1e400]", "f:1:8: a.1: the number is too large"),
        ("a: 99999999999999999999", "f:1:4: a: the integer is too large; the largest is 9223372036854775807"),
        ("a: &x [*x]", "f:1:8: a.0: alias '*x' stands inside the value it refers to"),
        ("a: *x", "f:1:4: a: alias '*x' refers to no anchor before it"),
        ("a: 1\n---\nb: 2", "f:2:1: a second document begins here"),
        ("", "f: the file is empty"),
        ("# nothing\n", "f: the file is empty"),
        ("a: b\x00", "f:1:5: character '\\x00' is not allowed"),
        ("x: 1\na: \x1b[31m", "f:2:4: character '\\x1b' is not allowed"),
        ('a: "\\0"', "f:1:4: a: the text holds a character that is not allowed"),
        ("a: b: c", "f:1:5: not valid YAML: no key may stand here"),
        ("a:\n\tb: 1", "indent with spaces, not tabs"),
        ('a: "\\U00110000"', "not valid YAML"),
        ("%YAML 9.9\n---\na: 1", "not valid YAML"),
        ("[" * 70 + "]" * 70, f"nested more than {MAX_DEPTH} deep"),
        ("".join(" " * n + "a:\n" for n in range(70)), f"nested more than {MAX_DEPTH} deep"),
        ("a: &x 1\nb: [" + "*x," * 101 + "]", "more than 100 aliases"),
        ("a: \ud800", "is not allowed"),
    ],
)
def test_what_is_refused_is_named_and_located(loader, text, expected):
    assert any(expected in line for line in lines(text)), lines(text)


def test_all_problems_of_a_text_are_found_in_one_pass(loader):
    found = lines("a: .inf\nb: !x 1\na: 2\n3: x\nc: {d: 1, d: 2}\n")
    assert [line.split(": ")[0] for line in found] == ["f:1:4", "f:2:4", "f:3:1", "f:4:1", "f:5:11"]


def test_a_refused_value_spoils_its_key_only(loader):
    document = read("a: .inf\nb: 2", "f")
    assert document.value == {"a": None, "b": 2} and document.spoiled == {("a",)}


def test_aliases_unfold_into_separate_data(loader):
    document = read("a: &x {b: [1]}\nc: *x", "f")
    document.value["c"]["b"].append(2)
    assert document.value == {"a": {"b": [1]}, "c": {"b": [1, 2]}}


def test_aliases_cannot_deepen_the_data_beyond_the_limit(loader):
    deep = "a: &a " + "[" * 30 + "]" * 30
    assert not lines(deep + "\nb: [*a]")
    again = deep + "\nb: &b " + "[" * 30 + "*a" + "]" * 30
    assert not lines(again)
    assert f"nested more than {MAX_DEPTH} deep once aliases are unfolded" in lines(again + "\nc: [[[[*b]]]]")[0]


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{key}: &{key} [{','.join([f'*{before}'] * 9)}]\n" for before, key in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [BOMB, "[" * 900_000, "- " * 400_000, "{a: " * 200_000, "a: [" + "1," * 300_000 + "]", "[" + "[]," * 300_000 + "]",
     "".join(f"k{n}: 1\n" for n in range(90_000)), "a: 1\n" * 150_000, "- !x y\n" * 140_000, "a: " + "9" * 900_000,
     "a: 1." + "9" * 900_000, "x" * 900_000 + ": 1", '"' + "\\x41" * 240_000 + '"', "? " * 400_000, "x" * (MAX_BYTES + 1)],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_hostile_texts_are_refused_quickly(text):
    start = time.process_time()
    document = read(text, "f")
    assert document.problems or document.value in ("A" * 240_000, {"x" * 900_000: 1})
    assert len(document.problems) <= reader.MAX_PROBLEMS
    assert time.process_time() - start < 3, "seconds; on an idle machine all take less than one"


def test_values_are_counted_as_unfolded(loader):
    items = ",".join("x" * 1 for _ in range(999))
    many = "a: &a [" + items + "]\nb: [" + "*a," * 99 + "]"  # 100 lists of 999, each one value more, and three keys
    assert 100 * 1000 + 3 > MAX_VALUES
    assert f"more than {MAX_VALUES:,} values" in lines(many)[0]
    assert not lines("a: &a [" + items + "]\nb: [" + "*a," * 90 + "]")


def test_bytes_must_be_utf_8_and_few():
    assert decode("\ufeffa: é".encode()) == "a: é"
    with pytest.raises(ValueError, match=r"line 2 is not UTF-8 text \(byte 0xff\)"):
        decode(b"a: 1\nb: \xff")
    with pytest.raises(ValueError, match="larger than 1,000,000 bytes"):
        decode(b"#" * (MAX_BYTES + 1))
