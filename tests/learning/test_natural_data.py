"""Data files that name clients: npz and Parquet, and the partition and tests that follow."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.core.errors import MissingError, ScenarioError
from simfl.core.rng import Streams
from simfl.learning.data.base import DATA
from simfl.learning.data.image_arrays import cut_by_client
from simfl.learning.partitions.base import PARTITIONS
from simfl.learning.supervised import Supervised

pa = pytest.importorskip("pyarrow", reason="the extra parquet")
pq = pytest.importorskip("pyarrow.parquet", reason="the extra parquet")
RNG = np.random.default_rng(0)
PICTURES = RNG.integers(0, 256, (20, 6, 5), dtype=np.uint8)
WRITERS = [f"f{i % 4:02}" for i in range(20)]


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setenv("SIMFL_CACHE", "")


def load(kind, folder, clients=3, seed=0, **fields):
    setting = SimpleNamespace(clients=clients, file=lambda name: Path(folder) / name)
    return DATA[kind](**fields).load(setting, Streams(seed))


def encoded(picture, kind="PNG", mode=None):
    from PIL import Image

    file = io.BytesIO()
    image = Image.fromarray(picture)
    (image if mode is None else image.convert(mode)).save(file, kind)
    return file.getvalue()


def write(folder, name="a.parquet", names=None, rows=7, **columns):
    table = pa.table(columns)
    if names is not None:
        label = next(iter(names))
        features = {label: {"names": names[label], "_type": "ClassLabel"}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, folder / name, row_group_size=rows)


def femnist(**changes):
    columns = {
        "image": pa.array([{"bytes": encoded(one), "path": None} for one in PICTURES]),
        "writer_id": WRITERS,
        "hsf_id": [0] * 20,
        "character": [i % 3 for i in range(20)],
    }
    return columns | changes


def arrays(**changes):
    parts = {
        "x_train": RNG.normal(size=(6, 2)),
        "y_train": np.arange(6) % 2,
        "x_test": RNG.normal(size=(4, 2)),
        "y_test": np.arange(4) % 2,
        "client": np.array([7, 3, 7, 7, 12, 3]),
        "client_test": np.array([3, 3, 12, 99]),
    }
    return parts | changes


# -- npz ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [np.array([7, 3, 7, 7, 12, 3]), np.array(list("babbca"))])
def test_an_npz_file_names_clients(tmp_path, ids):
    np.savez(tmp_path / "a.npz", **arrays(client=ids))
    data = load("npz", tmp_path, path="a.npz")
    split = PARTITIONS["natural"]().split(data, 3, np.random.default_rng(0))
    assert split.sizes.tolist() == [3, 2, 1]  # the largest first
    assert all(len(set(ids[split[client]].tolist())) == 1 for client in range(3))
    assert data.test_columns["client"].tolist() == [3, 3, 12, 99]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"client": np.arange(5)}, r"client has the shape \(5,\) for 6 samples|client: has the shape"),
        ({"client_test": np.arange(6)}, "client_test: has the shape .* for 4 samples"),
        ({"client": np.arange(6) / 2}, "client: is float64; clients are whole numbers or texts"),
        ({"client": np.array(["a"] * 6, dtype=object)}, "client holds Python objects; store .*dtype=str"),
    ],
)
def test_clients_that_are_none_are_one_line(tmp_path, changes, message):
    np.savez(tmp_path / "a.npz", **arrays(**changes))
    with pytest.raises(ScenarioError, match=message) as error:
        load("npz", tmp_path, path="a.npz")
    assert "\n" not in str(error.value)


def test_tokens_of_an_npz_file_stay_as_they_are(tmp_path):
    tokens = {"x_train": np.arange(12).reshape(6, 2) % 5, "x_test": np.arange(8, dtype=np.uint8).reshape(4, 2) % 4}
    np.savez(tmp_path / "a.npz", **arrays(**tokens))
    data = load("npz", tmp_path, path="a.npz", tokens=True)
    assert data.tokens and data.classes == 5 and np.array_equal(data.x_train, tokens["x_train"])
    setting = SimpleNamespace(clients=3, file=lambda name: tmp_path / name)
    assert DATA["npz"](path="a.npz", tokens=True).outline(setting) == ((2,), 5, True)
    for wrong, message in (
        ({"x_train": RNG.normal(size=(6, 2))}, "tokens are lists of whole numbers"),
        ({"x_test": np.full((4, 2), 5)}, "tokens reach from 5 to 5, not from 0 to 4"),
        ({"x_train": np.full((6, 2), -1)}, "tokens reach from -1"),
    ):
        np.savez(tmp_path / "b.npz", **arrays(**(tokens | wrong)))
        with pytest.raises(ScenarioError, match=message):
            load("npz", tmp_path, path="b.npz", tokens=True)


# -- Parquet --------------------------------------------------------------------------------------------


def test_pictures_as_hugging_face_exports_them(tmp_path):
    write(tmp_path, names={"character": list("abcd")}, **femnist())
    data = load("parquet", tmp_path, path="a.parquet", test_fraction=0.4)
    assert data.shape == (1, 6, 5) and data.label_names == tuple("abcd")  # the file says so, though nobody wrote a d
    assert np.bincount(np.unique(data.columns["client"], return_inverse=True)[1]).tolist() == [3] * 4
    assert np.array_equal(data.columns["writer_id"], data.columns["client"])
    whole = np.concatenate([data.x_train, data.x_test])
    scale = (PICTURES.max() - PICTURES.min()) / (whole.max() - whole.min())
    restored = np.round((whole - whole.min()) * scale + PICTURES.min()).astype(int)[:, 0]
    assert {one.tobytes() for one in restored} == {one.tobytes() for one in PICTURES.astype(int)}
    assert abs(data.x_train.mean()) < 1e-6 and data.x_train.std() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    "pixels",
    [
        pa.array([encoded(one) for one in PICTURES]),
        pa.array(PICTURES.tolist()),
        pa.array(PICTURES.tolist(), pa.list_(pa.list_(pa.uint8(), 5), 6)),
    ],
)
def test_bytes_and_nested_lists_are_the_same_pictures(tmp_path, pixels):
    write(tmp_path, **femnist())
    write(tmp_path, "b.parquet", **femnist(image=pixels))
    one, other = (load("parquet", tmp_path, path=name) for name in ("a.parquet", "b.parquet"))
    assert np.array_equal(one.x_train, other.x_train) and np.array_equal(one.y_test, other.y_test)


def test_arrays_that_the_library_datasets_writes(tmp_path):
    datasets = pytest.importorskip("datasets", reason="not installed")
    kind = datasets.Features(
        {"image": datasets.Array2D((6, 5), "uint8"), "label": datasets.ClassLabel(names=["a", "b"])}
    )
    rows = {"image": PICTURES.tolist(), "label": [i % 2 for i in range(20)]}
    datasets.Dataset.from_dict(rows, kind).to_parquet(str(tmp_path / "a.parquet"))
    data = load("parquet", tmp_path, path="a.parquet")
    assert data.shape == (1, 6, 5) and data.label_names == ("a", "b")


def test_colours_lists_and_test_files(tmp_path):
    colours = RNG.integers(0, 256, (20, 4, 3, 3), dtype=np.uint8)
    write(tmp_path, **femnist(image=[encoded(one) for one in colours]))
    assert load("parquet", tmp_path, path="a.parquet").shape == (3, 4, 3)
    numbers, labels = RNG.normal(size=(20, 4)), [f"c{i % 2}" for i in range(20)]
    write(tmp_path, features=numbers.tolist(), label=labels, user=list(range(20)))
    write(tmp_path, "b.parquet", features=numbers[:5].tolist(), label=labels[:5], user=[7] * 5)
    data = load("parquet", tmp_path, path="a.parquet", test_path="b.parquet")
    np.testing.assert_allclose(data.x_test, (numbers[:5] - numbers.mean(0)) / numbers.std(0), atol=1e-5)
    assert data.label_names == ("c0", "c1") and data.y_test.tolist() == [0, 1, 0, 1, 0]
    assert data.columns["client"].tolist() == list(range(20)) and data.test_columns["user"].tolist() == [7] * 5


def test_texts_become_tokens(tmp_path):
    texts, following = ["to b", "o be", " be ", "be o"] * 3, list("e or") * 3
    write(tmp_path, x=texts, y=following, character_id=["HAMLET"] * 8 + ["GHOST"] * 4)
    data = load("parquet", tmp_path, path="a.parquet", test_fraction=0.25)
    assert data.tokens and data.label_names == tuple(" beort")
    decoded = ["".join(data.label_names[token] for token in row) for row in np.concatenate([data.x_train, data.x_test])]
    assert sorted(decoded) == sorted(texts)
    pairs = {(text, data.label_names[y]) for text, y in zip(decoded, [*data.y_train, *data.y_test], strict=True)}
    assert pairs == set(zip(texts, following, strict=True))
    assert sorted(data.test_columns["client"]) == ["GHOST", "HAMLET", "HAMLET"]


def test_a_table_has_the_features_of_csv(tmp_path):
    numbers, places = RNG.normal(size=12), ["in", "out", "up"] * 4
    write(tmp_path, a=numbers, place=places, label=["n", "p"] * 6, client=[i % 3 for i in range(12)], note=["x"] * 12)
    data = load("parquet", tmp_path, path="a.parquet", drop=("note",))
    assert data.shape == (4,) and set(data.columns) == {"place", "client"} == set(data.test_columns)
    assert PARTITIONS["natural"]().split(data, 3, np.random.default_rng(0)).sizes.tolist() == [3] * 3


@pytest.mark.parametrize(
    ("columns", "fields", "message"),
    [
        (femnist(), {"label": "digit"}, "no column 'digit'; it has image, writer_id"),
        ({"a": [1, 2]}, {}, "no column label, labels.*name one as label: it has a"),
        (femnist(image=pa.array([{"bytes": None, "path": "a.png"}] * 20, pa.struct([("bytes", pa.binary())]))),
         {}, r"row 1 has no bytes \(a path alone"),
        (femnist(image=[*(encoded(one) for one in PICTURES[:19]), b"\x89PNG none"]), {}, "row 20: no picture"),
        (femnist(image=[*(encoded(one) for one in PICTURES[:19]), encoded(PICTURES[0, :3])]), {},
         r"row 20: a picture of \(3, 5\)"),
        (femnist(image=[[1.0, 2.0]] * 19 + [[1.0]]), {}, "different lengths"),
        (femnist(image=[[1.0, float("nan")]] * 20), {}, "no finite numbers"),
        (femnist(image=[["a", "b"]] * 20), {}, "no finite numbers"),
        (femnist(character=[None, *range(19)]), {}, "column 'character': row 1 is empty"),
        (femnist(writer_id=[0.5] * 20), {}, "column 'writer_id': holds double, neither whole"),
        (femnist(character=[0.5] * 20), {}, "column 'character': holds double"),
        ({"x": ["ab", "abc"], "y": ["c", "d"]}, {}, "row 2 has 3 characters and row 1 has 2"),
        ({"x": ["ab", "bc"], "y": ["cd", "d"]}, {}, "of texts the label is the next character"),
        ({"x": ["ab", "bc"], "y": [1, 2]}, {}, "of texts the label is the next character"),
        ({"left": [[1], [2]], "right": [[1], [2]], "y": [0, 1]}, {}, "left, right may all be the samples"),
        ({"a": [1, 2], "y": [0, 1]}, {"sample": "a"}, "column 'a' holds int64; samples are pictures"),
        ({"f": [[1, 2]] * 4, "y": [0, 1] * 2}, {"tokens": True}, "tokens reach from 1 to 2, not from 0 to 1"),
        ({"f": [[1, 2]] * 4, "y": [0, 1] * 2, "user": [1, 2, 3, 4]}, {}, "do not fit together"),
    ],
)  # fmt: skip
def test_defective_files_are_one_line(tmp_path, columns, fields, message):
    write(tmp_path, **columns)
    with pytest.raises(ScenarioError, match=message) as error:
        load("parquet", tmp_path, path="a.parquet", **fields)
    assert "\n" not in str(error.value)


def test_labels_that_training_never_has_and_files_that_are_none(tmp_path):
    write(tmp_path, f=[[1.0, 2.0]] * 3, y=["a", "b", "a"])
    for name, labels, message in (("b", ["z"], "'z' is none of the 2 classes"), ("c", [1], "labels are int64")):
        write(tmp_path, f"{name}.parquet", f=[[1.0, 2.0]], y=labels)
        with pytest.raises(ScenarioError, match=message):
            load("parquet", tmp_path, path="a.parquet", test_path=f"{name}.parquet")
    (tmp_path / "d.parquet").write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(ScenarioError, match="not a readable Parquet file"):
        load("parquet", tmp_path, path="d.parquet")
    with pytest.raises(MissingError, match="learning.data.test_path: .* not found"):
        load("parquet", tmp_path, path="a.parquet", test_path="e.parquet")


def test_damaged_files_are_one_line_or_data(tmp_path):
    write(tmp_path, **femnist())
    content = (tmp_path / "a.parquet").read_bytes()
    for _ in range(60):
        damaged = bytearray(content)
        for place in RNG.integers(0, len(content), 3):
            damaged[place] = RNG.integers(256)
        (tmp_path / "b.parquet").write_bytes(bytes(damaged))
        try:
            load("parquet", tmp_path, path="b.parquet")
        except ScenarioError as error:
            assert "\n" not in str(error)


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    write(tmp_path, **femnist())
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingError, match=r"pip install 'simfl\[parquet\]'"):
        load("parquet", tmp_path, path="a.parquet")


def test_decoded_pictures_are_cached(tmp_path, monkeypatch):
    write(tmp_path, **femnist())
    fresh = load("parquet", tmp_path, path="a.parquet")
    monkeypatch.setenv("SIMFL_CACHE", str(tmp_path / "cache"))
    load("parquet", tmp_path, path="a.parquet")
    monkeypatch.setattr("simfl.learning.data.parquet_samples._picture", None)  # nothing is decoded again
    again = load("parquet", tmp_path, path="a.parquet")
    assert np.array_equal(fresh.x_train, again.x_train) and fresh.label_names == again.label_names
    assert np.array_equal(fresh.columns["client"], again.columns["client"])


# -- splits ---------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.floats(0.01, 0.99), st.integers(0, 9))
def test_every_client_keeps_its_share_for_the_test(owners, fraction, seed):
    ids = np.array(owners)
    train, test = cut_by_client(ids, len(ids), fraction, np.random.default_rng(seed))
    assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(ids)))
    assert np.array_equal(train, np.sort(train)) and np.array_equal(test, np.sort(test))
    for client in set(owners):
        size, tested = owners.count(client), int((ids[test] == client).sum())
        assert tested == min(round(size * fraction), size - 1)


def test_a_subset_gives_each_client_one_value_and_leaves_the_others():
    ids = np.repeat(np.arange(50), np.arange(1, 51))
    data = SimpleNamespace(columns={"client": ids})
    splits = [PARTITIONS["natural"](subset=True).split(data, 10, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    for split in splits:
        values = [set(ids[split[client]].tolist()) for client in range(10)]
        assert all(len(value) == 1 for value in values) and len(set.union(*values)) == 10
        assert all(len(split[client]) == 1 + next(iter(values[client])) for client in range(10))  # all of a value
        assert split.sizes.tolist() == sorted(split.sizes.tolist(), reverse=True)
    assert np.array_equal(splits[0].indices, splits[1].indices)
    assert not np.array_equal(splits[0].indices, splits[2].indices)
    whole = PARTITIONS["natural"](subset=True).split(data, 50, np.random.default_rng(0))
    assert np.array_equal(whole.indices, PARTITIONS["natural"]().split(data, 50, np.random.default_rng(0)).indices)


def test_the_preview_compares_tokens_with_the_model(tmp_path):
    from simfl.learning.models.base import MODELS

    choice = Supervised(data=DATA["markov_text"](), model=MODELS["mlp"]())
    with pytest.raises(ScenarioError, match="mlp takes numbers"):
        choice.preview(SimpleNamespace(clients=3))
