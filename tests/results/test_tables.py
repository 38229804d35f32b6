"""Tables on disk and checkpoints: whole, digested, and never silently wrong."""

import hashlib
import io

import numpy as np
import pytest

from simfl.core.errors import IntegrityError
from simfl.core.storage.disk import sha256, write_atomically
from simfl.results import checkpoint
from simfl.results.tables import TableWriter, table_bytes


def test_a_table_appears_only_when_it_is_finished(tmp_path):
    path = tmp_path / "rounds.csv"
    table = TableWriter(path, ("round", "value"))
    table.append([(0, 0.1), (1, None)])
    assert not path.exists()
    digest = table.finish()
    assert path.read_text() == "round,value\n0,0.1\n1,\n"
    assert digest == sha256(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "rounds.csv.seals.part"]  # until the run is finished


def test_a_resumed_table_equals_an_undisturbed_one(tmp_path):
    whole = TableWriter(tmp_path / "a", ("x",))
    whole.append([(i / 7,) for i in range(10)])
    table = TableWriter(tmp_path / "b", ("x",))
    table.append([(i / 7,) for i in range(4)])
    mark = table.mark()
    table.append([("lost",), ("lost too",)])
    table.close()
    resumed = TableWriter(tmp_path / "b", ("x",), mark)
    resumed.append([(i / 7,) for i in range(4, 10)])
    assert resumed.finish() == whole.finish()
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_table_renamed_just_before_a_kill_is_taken_back(tmp_path):
    table = TableWriter(tmp_path / "a", ("x",))
    table.append([(1,)])
    mark = table.mark()
    table.append([(2,)])
    table.finish()
    resumed = TableWriter(tmp_path / "a", ("x",), mark)
    resumed.append([(2,)])
    resumed.finish()
    assert (tmp_path / "a").read_text() == "x\n1\n2\n"


@pytest.mark.parametrize("damage", ["flip", "short", "gone"])
def test_a_damaged_part_is_refused(tmp_path, damage):
    table = TableWriter(tmp_path / "a", ("x",))
    table.append([(i,) for i in range(100)])
    mark = table.mark()
    table.close()
    part = tmp_path / "a.part"
    data = bytearray(part.read_bytes())
    if damage == "flip":
        data[50] ^= 1
        part.write_bytes(data)
    elif damage == "short":
        part.write_bytes(data[:-1])
    else:
        part.unlink()
    with pytest.raises(IntegrityError):
        TableWriter(tmp_path / "a", ("x",), mark)


def test_checkpoints_come_back_exactly_and_only_two_are_kept(tmp_path):
    model = np.linspace(0, 1, 7, dtype=np.float32)
    arrays = {"model": model, "round": np.int64(5), "markov/on": np.array([True, False])}
    for round in (1, 2, 3):
        checkpoint.save(tmp_path, round, arrays, {"rounds.csv": (10 * round, "ab")})
    found = checkpoint.checkpoint_files(tmp_path)
    assert [path.name for path in found] == ["0000000003.ckpt", "0000000002.ckpt"]
    state, marks = checkpoint.load(found[0])
    assert marks == {"rounds.csv": (30, "ab")}
    assert state.keys() == arrays.keys()
    for name, value in arrays.items():
        assert state[name].dtype == np.asarray(value).dtype
        np.testing.assert_array_equal(state[name], value)


def test_every_bit_flip_and_truncation_of_a_checkpoint_is_seen(tmp_path):
    checkpoint.save(tmp_path, 1, {"model": np.arange(40, dtype=np.float32)}, {"rounds.csv": (1, "ab")})
    (path,) = checkpoint.checkpoint_files(tmp_path)
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.integers(len(good) * 8, size=1000):
        bad = bytearray(good)
        bad[position // 8] ^= 1 << (position % 8)
        path.write_bytes(bad)
        with pytest.raises(IntegrityError):
            checkpoint.load(path)
    for length in rng.integers(len(good), size=200):
        path.write_bytes(good[:length])
        with pytest.raises(IntegrityError):
            checkpoint.load(path)


@pytest.mark.parametrize("arrays", [{}, {"marks": "[]"}, {"marks": "{"}, {"marks": "{}", "state/x": [object()]}, b"PK"])
def test_what_only_has_the_digest_of_a_checkpoint_is_none(tmp_path, arrays):
    data = io.BytesIO(arrays if isinstance(arrays, bytes) else b"")
    if not isinstance(arrays, bytes):
        np.savez(data, **{name: np.array(value) for name, value in arrays.items()})
    content = data.getvalue()
    (tmp_path / "1.ckpt").write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
    with pytest.raises(IntegrityError, match=r"1\.ckpt: no checkpoint"):
        checkpoint.load(tmp_path / "1.ckpt")


def test_an_atomic_write_leaves_no_temporary_file(tmp_path):
    write_atomically(tmp_path / "a.json", b"{}")
    write_atomically(tmp_path / "a.json", b"[]")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a.json", b"[]")]


def test_a_cell_without_a_column_is_not_left_out():
    assert table_bytes(("a", "b"), [{"b": 1.5, "a": "x, y"}, {"a": None}]) == b'a,b\n"x, y",1.5\n,\n'
    with pytest.raises(ValueError, match="'c'"):
        table_bytes(("a", "b"), [{"a": 1, "c": 2}])
