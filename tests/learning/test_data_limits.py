"""Data files that would fill the memory are refused in one line, from their headers; honest ones are read."""

import bz2
import gzip
import io
import lzma
import struct
import tracemalloc
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.core.storage import text_table
from simfl.learning import capacity
from simfl.learning.capacity import machine_bytes, refuse_too_large
from simfl.learning.data import limits
from simfl.learning.data.base import DATA

MIB = 2**20


@pytest.fixture(autouse=True)
def without_cache(monkeypatch):
    monkeypatch.setenv("SIMFL_CACHE", "")


def load(folder, **fields):
    return DATA.of(fields).load(SimpleNamespace(file=lambda name: folder / name), Streams(0))


def refused(folder, message, most=16 * MIB, **fields):
    """The line with which a data set is refused, after at most so many bytes were allocated."""
    tracemalloc.start()
    try:
        with pytest.raises(ScenarioError, match=message) as error:
            load(folder, **fields)
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
    assert error.value.exit_code == 2 and "\n" not in str(error.value)


# -- arrays -----------------------------------------------------------------------------------------


def member(shape, dtype, content=b""):
    """An .npy file that promises an array, whatever it holds."""
    file = io.BytesIO()
    about = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, about)
    return file.getvalue() + content


def write_npz(path, **members):
    whole = {
        "x_train": member((4, 2), "f4", bytes(32)),
        "y_train": member((4,), "i8", np.arange(4).tobytes()),
        "x_test": member((2, 2), "f4", bytes(16)),
        "y_test": member((2,), "i8", np.arange(2).tobytes()),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in (whole | members).items():
            file.writestr(f"{name}.npy", content)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"x_train": member((10**6, 10**4), "u1")}, "10,000,000,004 numbers; at most 4,294,967,296"),
        ({"x_test": member((1, 10**12), "f8")}, "at most 4,294,967,296"),
        ({"label_names": member((10**6,), "<U1000000")}, "would take about .* GiB of memory"),
        ({"y_train": member((4,), "i8", np.array([0, 1, 2, 10**9]).tobytes())}, "1,000,000,001 classes"),
        ({"x_train": member((4, 0), "f4"), "x_test": member((2, 0), "f4")}, "samples have no features"),
        ({"x_train": member((4, 0, 3), "f4"), "x_test": member((2, 0, 3), "f4")}, "have no pixels"),
        ({"label_names": member((), "<U3", bytes(12))}, "label_names is not a list"),
        ({"x_train": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + bytes(10**6)}, "not a readable .npz"),
        ({"x_train": b"no array"}, "not a readable .npz"),
        ({"x_train": member((-4, 2), "f4")}, "not a readable .npz"),
    ],
)
def test_archives_of_too_much(tmp_path, members, message):
    write_npz(tmp_path / "a.npz", **members)
    refused(tmp_path, message, name="npz", path="a.npz")


def test_what_is_not_asked_for_is_not_inflated(tmp_path):
    write_npz(tmp_path / "a.npz", other=member((10**12,), "f8"))
    assert load(tmp_path, name="npz", path="a.npz").x_train.shape == (4, 2)


def test_an_archive_whose_header_promises_less_than_it_holds(tmp_path):
    write_npz(tmp_path / "a.npz", x_train=member((4, 2), "f4", bytes(64 * MIB)))
    tracemalloc.start()
    data = load(tmp_path, name="npz", path="a.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.x_train.shape == (4, 2) and peak < 16 * MIB


@pytest.mark.parametrize(
    ("shape", "content", "message"),
    [
        ((32_000_000, 28, 28), 100, "25,088,000,000 numbers; at most"),
        ((10, 28, 28), 64 * MIB, "holds more bytes of data where its header promises 7,840"),
    ],
)
def test_idx_files_of_too_much(tmp_path, shape, content, message):
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name, size in (("train", shape), ("t10k", (2, 28, 28))):
        for kind, promised in (("images-idx3", size), ("labels-idx1", size[:1])):
            header = bytes((0, 0, 8, len(promised))) + struct.pack(f">{len(promised)}I", *promised)
            with gzip.open(raw / f"{name}-{kind}-ubyte.gz", "wb", compresslevel=1) as file:
                file.write(header + bytes(content))
    refused(tmp_path, message, name="mnist", root=".")


# -- tables -----------------------------------------------------------------------------------------


def test_a_column_of_names_is_refused_before_it_is_one_hot(tmp_path):
    lines = [f"u{i},{i % 7},{i % 3}" for i in range(13_000)]  # dense: 13,000 x 10,400 float32 are 541 MB
    (tmp_path / "a.csv").write_text("\n".join(["id,a,y", *lines]))
    message = "column 'id' has 10,400 different texts.*at most 10,000 are taken: drop it"
    refused(tmp_path, message, most=100 * MIB, name="csv", path="a.csv", label="y")
    data = load(tmp_path, name="csv", path="a.csv", label="y", drop=["id"])
    assert data.shape == (1,) and data.classes == 3


def test_a_measurement_is_no_label(tmp_path):
    (tmp_path / "a.csv").write_text("\n".join(["a,y", *(f"{i},{i / 7}" for i in range(120_000))]))
    message = "column 'y': row 2 holds 0.142857.* are regression"
    refused(tmp_path, message, most=200 * MIB, name="csv", path="a.csv", label="y")
    message = "column 'y': has 120,000 classes"
    refused(tmp_path, message, most=200 * MIB, name="csv", path="a.csv", label="y", categories=["y"])


@pytest.mark.parametrize("column", ["a", "y"])
def test_one_long_text_does_not_make_all_of_its_column_long(tmp_path, column):
    lines = [f"t{i % 5},c{i % 3}" for i in range(5000)]
    lines[7] = f"{'x' * 100_000},c1" if column == "a" else f"t1,{'x' * 100_000}"  # padded: 2 GB
    (tmp_path / "a.csv").write_text("\n".join(["a,y", *lines]))
    message = f"column '{column}' has a text of 100,000 characters; at most 1,000"
    refused(tmp_path, message, most=100 * MIB, name="csv", path="a.csv", label="y")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_inflated_bytes_are_counted_before_they_are_parsed(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(limits, "MAX_TEXT", 10 * MIB)
    text = b"a,y\n" + b"0,0\n1,1\n" * (20 * MIB // 8)
    (tmp_path / f"a.csv{suffix}").write_bytes(gzip.compress(text, 1) if suffix else text)
    refused(tmp_path, "holds more than 0.0 GiB of text; store larger", name="csv", path=f"a.csv{suffix}", label="y")


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_a_small_file_does_not_become_a_large_table(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(text_table, "HARMLESS", MIB)
    pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[suffix]
    (tmp_path / f"a.csv{suffix}").write_bytes(pack(b"a,y\n" + b"0,0\n1,1\n" * (2 * MIB // 8)))
    refused(tmp_path, "more than 100 times its bytes; if that is right, unpack it", name="csv",
            path=f"a.csv{suffix}", label="y")  # fmt: skip


@pytest.mark.parametrize("row", [b"1,1\n", b"1,a\n", b"b,x.123456\n", b"1,2,3,4,5,6,7,8,9\r\n"])
def test_no_more_memory_is_taken_than_was_estimated(tmp_path, row, monkeypatch):
    rows, asked = 200_000, []
    monkeypatch.setattr(limits, "refuse_too_large", lambda needed, key, what: asked.append(needed))
    names = b"y" if row.count(b",") == 1 else b"b,c,d,e,f,g,h,y"
    (tmp_path / "a.csv").write_bytes(b"a," + names + b"\n" + row * rows)
    tracemalloc.start()
    try:
        load(tmp_path, name="csv", path="a.csv", label="y")
        assert (
            tracemalloc.get_traced_memory()[1] < asked[0] == 12 * (3 + len(names) + rows * len(row)) + 64 * (rows + 1)
        )
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("head", "message"),
    [("," * 200_000 + "\n", "has 200,001 columns"), ("x" * 2**24, "a.csv:1: a line of more than 1677")],
)
def test_a_first_line_without_end(tmp_path, head, message):
    (tmp_path / "a.csv").write_text(head + "1,2\n")
    refused(tmp_path, message, most=64 * MIB, name="csv", path="a.csv", label="y")


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz"])
def test_honest_tables_are_read(tmp_path, suffix):
    text = "\n".join(["t,a,y", *(f"t{i % 300},{i % 11},{i % 4}" for i in range(4000))]).encode()
    with text_table.OPENERS.get(suffix, open)(tmp_path / f"a.csv{suffix}", "wb") as file:
        file.write(text)
    data = load(tmp_path, name="csv", path=f"a.csv{suffix}", label="y")
    assert data.x_train.shape == (3200, 301) and (data.x_train[:, :300].sum(axis=1) == 1).all()


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_truncated_tables_are_one_line(tmp_path, suffix):
    with text_table.OPENERS[suffix](tmp_path / f"a.csv{suffix}", "wb") as file:
        file.write(np.random.default_rng(0).bytes(100_000).hex().encode())
    whole = (tmp_path / f"a.csv{suffix}").read_bytes()
    (tmp_path / f"a.csv{suffix}").write_bytes(whole[: len(whole) // 2])
    refused(tmp_path, "not a readable CSV", name="csv", path=f"a.csv{suffix}", label="y")


@pytest.fixture
def small_parquet(tmp_path):
    """Files of some kilobytes that stand for very many numbers, or one long text in every row."""
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    zeros, label = pyarrow.array(np.zeros(2_000_000)), pyarrow.array(np.arange(2_000_000) % 2)
    parquet.write_table(pyarrow.table({"a": zeros, "a.b": zeros, "label": label}), tmp_path / "numbers.parquet")
    lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(np.zeros(10**7)), 10)
    parquet.write_table(pyarrow.table({"x": lists, "label": label[: 10**6]}), tmp_path / "lists.parquet")
    words = pyarrow.array(["x" * 500]).take(pyarrow.array(np.zeros(100_000, dtype=int)))
    parquet.write_table(pyarrow.table({"a": words, "label": label[:100_000]}), tmp_path / "words.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "machine_mb", "message"),
    [
        ("numbers", 60, "2,000,000 rows: 6,000,000 numbers would take about 0.1 GiB"),
        ("lists", 130, "1,000,000 rows: 11,000,000 numbers would take about 0.1 GiB"),
        ("words", 50, "100,000 rows would take about 0.0 GiB of memory"),
    ],
)
def test_parquet_is_measured_before_it_is_in_memory(small_parquet, monkeypatch, file, machine_mb, message):
    import pyarrow

    assert (small_parquet / f"{file}.parquet").stat().st_size < 500_000
    monkeypatch.setattr(capacity, "machine_bytes", lambda: machine_mb * 10**6)
    before = pyarrow.total_allocated_bytes()
    refused(small_parquet, message, name="parquet", path=f"{file}.parquet")
    assert pyarrow.total_allocated_bytes() - before < machine_mb * 10**6


# -- the machine ------------------------------------------------------------------------------------


def test_an_estimate_beyond_the_machine_is_one_line():
    assert 2**27 < machine_bytes() < 2**50
    refuse_too_large(0.9 * machine_bytes(), "learning.data", "this")
    with pytest.raises(ScenarioError, match="learning.data: that would take about .* GiB of memory; this machine has"):
        refuse_too_large(1.1 * machine_bytes(), "learning.data", "that")


def test_a_containers_limit_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(capacity, "CONTROL_GROUPS", (tmp_path / "memory.max", tmp_path / "none"))
    (tmp_path / "memory.max").write_text("123456789\n")
    assert machine_bytes() == 123456789
    (tmp_path / "memory.max").write_text("max\n")
    assert machine_bytes() > 2**27
