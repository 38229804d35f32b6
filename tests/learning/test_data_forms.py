"""One truth in every form that people have it in: each reader gives the same samples, or one line with the key."""

import gzip
import io
import json
import pickle
import pickletools
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
import torch
from PIL import Image

from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.learning.data.base import DATA
from simfl.learning.data.image_arrays import channel_axis
from simfl.learning.data.plain_pickle import read_pickle
from simfl.learning.data.python import PythonData
from simfl.learning.objects.handles import read_partition
from simfl.learning.objects.samples import read_samples
from simfl.learning.partitions.base import PARTITIONS

RNG = np.random.default_rng(5)
N, M = 60, 24
IDS = np.array([4, 4, 9, 9, 9, 17] * 14)
Y = np.arange(N + M) % 3
TABLE = pandas.DataFrame(
    {
        "a": RNG.normal(size=N + M).round(3),
        "b": RNG.integers(0, 5000, N + M) / 4,
        "place": np.array(["in", "out, far", "ü"])[RNG.integers(0, 3, N + M)],
        "hospital": IDS,
        "y": Y,
    }
)
IMAGES = RNG.integers(0, 256, (N + M, 3, 6, 5), dtype=np.uint8)
GREY = RNG.integers(0, 256, (N + M, 7, 6), dtype=np.uint8)


@pytest.fixture(autouse=True)
def without_cache(monkeypatch):
    monkeypatch.setenv("SIMFL_CACHE", "")


def load(folder, seed=0, **fields):
    setting = SimpleNamespace(clients=3, file=lambda name: Path(folder) / name)
    choice = DATA.of(fields)
    choice.outline(setting)
    return choice.load(setting, Streams(seed))


def refused(folder, message, **fields):
    with pytest.raises(ScenarioError, match=message) as error:
        load(folder, **fields)
    assert error.value.exit_code == 2 and "\n" not in str(error.value)
    return str(error.value)


def same(one, other):
    """Whether two data sets hold the same samples in the same order."""
    np.testing.assert_allclose(one.x_train, other.x_train, atol=1e-5)
    np.testing.assert_allclose(one.x_test, other.x_test, atol=1e-5)
    assert np.array_equal(one.y_train, other.y_train) and np.array_equal(one.y_test, other.y_test)
    assert one.classes == other.classes


# -- tables -----------------------------------------------------------------------------------------


def text(frame, **options):
    return frame.to_csv(**({"index": False} | options))


FORMS = {
    "plain.csv": text(TABLE).encode(),
    "index.csv": text(TABLE, index=True).encode(),  # as to_csv writes it unless told otherwise
    "names.csv": text(TABLE.set_axis([f"r{i}" for i in range(N + M)]), index=True).encode(),
    "twice.csv": pandas.read_csv(io.StringIO(text(TABLE, index=True))).to_csv().encode(),
    "r.csv": text(TABLE, index=True, index_label=False).encode(),
    "bom.csv": text(TABLE).encode("utf-8-sig"),
    "wide.csv": text(TABLE).encode("utf-16"),
    "latin.csv": text(TABLE).encode("latin-1"),
    "german.csv": text(TABLE, sep=";", decimal=",").encode(),
    "tabs.tsv": text(TABLE, sep="\t").encode(),
    "bars.txt": text(TABLE, sep="|").encode(),
    "packed.csv.gz": gzip.compress(text(TABLE).encode()),
    "comment.csv": b"# measured in 2020\n#\n" + text(TABLE).encode(),
    "windows.csv": text(TABLE, lineterminator="\r\n").encode(),
    "quoted.csv": text(TABLE, quoting=1).encode(),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_table_is_the_same_in_every_dialect(tmp_path, name):
    (tmp_path / "plain.csv").write_bytes(FORMS["plain.csv"])
    (tmp_path / name).write_bytes(FORMS[name])
    fields = {"name": "csv", "label": "y", "client": "hospital"}
    whole, other = (load(tmp_path, path=path, **fields) for path in ("plain.csv", name))
    same(whole, other)
    assert whole.shape == (5,) and whole.classes == 3  # two numbers, three places, no client
    assert np.array_equal(whole.columns["hospital"], other.columns["client"])
    assert set(whole.columns) == {"place", "hospital", "client"}
    split = PARTITIONS["natural"]().split(whole, 3, np.random.default_rng(0))
    sizes = np.unique(whole.columns["client"], return_counts=True)[1]
    assert sorted(split.sizes.tolist()) == sorted(sizes.tolist())


def test_columns_in_any_order_and_as_parquet_are_the_same_table(tmp_path):
    pytest.importorskip("pyarrow")
    TABLE.to_csv(tmp_path / "a.csv", index=False)
    TABLE[["y", "hospital", "place", "b", "a"]].to_csv(tmp_path / "b.csv")
    TABLE.to_parquet(tmp_path / "a.parquet")
    fields = {"label": "y", "client": "hospital"}
    one, other, third = (
        load(tmp_path, name=path.rpartition(".")[2], path=path, **fields) for path in ("a.csv", "b.csv", "a.parquet")
    )
    same(one, third)
    same(one, replace(other, x_train=other.x_train[:, [4, 3, 0, 1, 2]], x_test=other.x_test[:, [4, 3, 0, 1, 2]]))
    assert any("column 1 has no name and names the rows" in note for note in other.notes)
    assert any("label: y (3 classes); numbers: a, b; one-hot: place (3 values)" in note for note in one.notes)


def test_a_wide_table_is_read(tmp_path):
    wide = pandas.DataFrame(RNG.normal(size=(6, 16_000)).round(6)).add_prefix("gene").assign(y=[0, 1] * 3)
    wide.to_csv(tmp_path / "a.csv", index=False)  # lines of 140 kB and more
    assert load(tmp_path, name="csv", path="a.csv", label="y").shape == (16_000,)


STOPS = [
    (TABLE, {}, "column 'hospital' seems to name clients; write client: hospital .*drop: \\[hospital\\]"),
    (TABLE.rename(columns={"hospital": "userId"}), {}, "column 'userId' seems to name clients"),
    (TABLE.assign(id=range(N + M)), {"drop": ["hospital"]}, "column 'id' numbers the rows; write drop: \\[id\\]"),
    (TABLE.assign(b=[*TABLE.b[:9], "?", *TABLE.b[10:]]), {"drop": ["hospital"]},
     r"column 'b': row 10 holds '\?' among numbers such as .*missing: {values: \['\?'\], rows: drop}"),
    (TABLE.assign(b=["1,234", *TABLE.b[1:]]), {"drop": ["hospital"]}, "row 1 holds '1,234' among numbers"),
    (TABLE.assign(b=["1,234"] * (N + M)), {"drop": ["hospital"]}, "column 'b': row 1 holds '1,234'"),
    (TABLE.assign(b=["12 %", *TABLE.b[1:]]), {"drop": ["hospital"]}, "row 1 holds '12 %' among numbers"),
    (TABLE.assign(b=[None, *TABLE.b[1:]]), {"drop": ["hospital"]}, r"row 1: no finite number; write missing: {rows"),
    (TABLE.assign(y=RNG.normal(size=N + M)), {"drop": ["hospital"]}, "column 'y': row 1 holds .* are regression"),
    (TABLE.assign(y=range(N + M)), {"drop": ["hospital"]}, "has 84 different labels in 84 rows, more than a tenth"),
    (TABLE.assign(y=["?", *Y[1:]]), {"drop": ["hospital"]}, r"column 'y': row 1 holds '\?' among numbers"),
    (TABLE, {"client": "a"}, "column 'a' holds float64, neither whole numbers nor texts"),
    (TABLE.assign(hospital=[None, *IDS[1:]]), {"client": "hospital"}, "column 'hospital', row 1 names no client"),
    (TABLE, {"client": "clinic"}, "has no column 'clinic'; it has a, b, place"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "fields", "message"), STOPS)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_a_table_may_mean_is_asked(tmp_path, table, fields, message, kind):
    if kind == "parquet":
        pytest.importorskip("pyarrow")
        table = table.astype({name: str for name in table if table[name].dtype == object})
    path = f"a.{kind}"
    table.to_csv(tmp_path / path, index=False) if kind == "csv" else table.to_parquet(tmp_path / path)
    if kind == "parquet" and "None" in str(table.b[0]):
        pytest.skip("Parquet has no empty texts")
    assert path in refused(tmp_path, message, name=kind, path=path, label="y", **fields)


def test_missing_values_are_dropped_or_the_mean(tmp_path):
    frame = TABLE.drop(columns="hospital").astype({"b": object})
    frame.loc[[3, 40], "b"] = "?"
    frame.loc[7, "a"] = -999
    frame.to_csv(tmp_path / "a.csv", index=False)
    fields = {"name": "csv", "path": "a.csv", "label": "y", "test_path": "a.csv"}
    data = load(tmp_path, missing={"values": ["?", -999], "rows": "drop"}, **fields)
    assert data.shape == (5,) and len(data.y_train) == N + M - 3
    assert any("3 of 84 rows left out: values are missing in a (1), b (2)" in note for note in data.notes)
    frame.drop([3, 7, 40]).to_csv(tmp_path / "b.csv", index=False)
    same(data, load(tmp_path, **(fields | {"path": "b.csv", "test_path": "b.csv"})))
    mean = load(tmp_path, missing={"values": ["?", -999], "rows": "mean"}, **fields)
    assert len(mean.y_train) == N + M and mean.x_train[[3, 40], 1].tolist() == pytest.approx([0, 0], abs=1e-5)
    assert mean.x_train[7, 0] == pytest.approx(0, abs=1e-5)


def test_categories_are_names_also_where_they_are_numbers(tmp_path):
    TABLE.to_csv(tmp_path / "a.csv", index=False)
    data = load(tmp_path, name="csv", path="a.csv", label="y", categories=["hospital"])
    assert data.shape == (2 + 3 + 3,) and set(data.columns["hospital"]) == {"4", "9", "17"}
    TABLE.assign(y=range(N + M)).to_csv(tmp_path / "a.csv", index=False)
    assert load(tmp_path, name="csv", path="a.csv", label="y", drop=["hospital"], categories=["y"]).classes == N + M


def test_a_comma_that_may_be_either_mark_is_asked(tmp_path):
    (tmp_path / "a.csv").write_text("a;b;y\n" + "1,234;x;0\n5,678;z;1\n" * 9)
    refused(tmp_path, "'1,234' may have a decimal comma or a thousands mark; write decimal: ','", name="csv",
            path="a.csv", label="y")  # fmt: skip
    data = load(tmp_path, name="csv", path="a.csv", label="y", decimal=",", test_path="a.csv")
    assert data.shape == (3,) and data.x_train[0, 0] == pytest.approx(-1)
    (tmp_path / "a.csv").write_text("a;b;y\n" + "1,25;1.234,5;0\n5,5;2;1\n" * 9)
    refused(tmp_path, "column 'b': row 1 holds '1.234,5'", name="csv", path="a.csv", label="y")


def test_a_header_that_is_a_row_is_asked(tmp_path):
    (tmp_path / "a.csv").write_text("0.5,1.5,0\n" + "1,2,1\n" * 20)
    refused(tmp_path, "line 1 holds numbers only; write header: false", name="csv", path="a.csv", label="0")


# -- arrays and images ------------------------------------------------------------------------------


def written(folder, x, form, y=Y):
    """A file of the form with the first N samples for training, and the fields that name it."""
    parts = {"x_train": x[:N], "y_train": y[:N], "x_test": x[N:], "y_test": y[N:]}
    medical = dict(zip(("train_images", "train_labels", "test_images", "test_labels"), parts.values(), strict=True))
    columns = {name: value[:, None] for name, value in medical.items() if "labels" in name}
    match form:
        case "npz":
            np.savez(folder / "a.npz", **parts)
            return {"name": "npz", "path": "a.npz"}
        case "medmnist":
            more = {"val_images": x[:5], "val_labels": y[:5, None]}
            np.savez(folder / "b.npz", **(medical | columns | more))
            return {"name": "npz", "path": "b.npz"}
        case "pt":
            torch.save({name: torch.tensor(value) for name, value in parts.items()}, folder / "a.pt")
            return {"name": "pt", "path": "a.pt"}
        case "pairs":
            for name, part in (("c.pt", slice(0, N)), ("d.pt", slice(N, None))):
                torch.save((torch.tensor(x[part]), torch.tensor(y[part])), folder / name)
            return {"name": "pt", "path": "c.pt", "test_path": "d.pt"}
        case "parquet":
            for name, part in (("a.parquet", slice(0, N)), ("b.parquet", slice(N, None))):
                frame = pandas.DataFrame({"x": x[part].tolist(), "label": y[part]})
                frame.to_parquet(folder / name)
            return {"name": "parquet", "path": "a.parquet", "test_path": "b.parquet"}
        case "pfllib" | "leaf":
            return per_client(folder, x, form, y)


def per_client(folder, x, form, y):
    for part, rows in (("train", range(N)), ("test", range(N, N + M))):
        (folder / form / part).mkdir(parents=True, exist_ok=True)
        users = {}
        for number in (0, 1, 10):  # in blocks, so that the order of samples is that of the truth
            each = np.array_split(np.array(rows), 3)[[0, 1, 10].index(number)]
            pair = {"x": x[each].astype(np.float32), "y": y[each]}
            if form == "pfllib":
                np.savez_compressed(folder / form / part / f"{number}.npz", data=pair)
            users[f"u{number:02}"] = {"x": x[each].tolist(), "y": y[each].tolist()}
        if form == "leaf":
            for name in (("u00", "u01"), ("u10",)):
                counts = [len(users[user]["y"]) for user in name]
                content = {"users": name, "num_samples": counts, "user_data": {user: users[user] for user in name}}
                (folder / form / part / f"all_{name[0]}.json").write_text(json.dumps(content))
    if form == "pfllib":
        (folder / form / "config.json").write_text(json.dumps({"num_clients": 3, "num_classes": 3}))
    return {"name": form, "path": form}


ARRAY_FORMS = ["npz", "medmnist", "pt", "pairs", "parquet", "pfllib", "leaf"]


@pytest.mark.parametrize("form", ARRAY_FORMS)
@pytest.mark.parametrize("kind", ["first", "last", "grey", "features", "deep", "float"])
def test_samples_are_the_same_in_every_form(tmp_path, form, kind):
    if form == "parquet":
        pytest.importorskip("pyarrow")
    x = {
        "first": IMAGES,
        "last": np.moveaxis(IMAGES, 1, 3),
        "grey": GREY,
        "features": GREY[:, 0],
        "deep": IMAGES.astype(np.uint16) * 256,
        "float": IMAGES / 255,
    }[kind]
    flat = (GREY if kind == "grey" else GREY[:, 0] if kind == "features" else IMAGES).astype(float)
    truth = flat[:, None] if kind == "grey" else flat
    axes = (0, 2, 3) if truth.ndim == 4 else 0
    scaled = (truth - truth[:N].mean(axes, keepdims=True)) / truth[:N].std(axes, keepdims=True)
    data = load(tmp_path, **written(tmp_path, x, form))
    np.testing.assert_allclose(np.concatenate([data.x_train, data.x_test]), scaled, atol=2e-3)
    assert data.y_train.tolist() == Y[:N].tolist() and data.y_test.tolist() == Y[N:].tolist() and data.classes == 3
    if form == "medmnist":
        assert any("not read: val_images, val_labels" in note for note in data.notes)
    if form in ("pfllib", "leaf"):
        assert PARTITIONS["natural"]().split(data, 3, None).sizes.tolist() == [20] * 3
        assert np.unique(data.test_columns["client"]).tolist() in ([0, 1, 10], ["u00", "u01", "u10"])


@pytest.mark.parametrize("form", ARRAY_FORMS)
@pytest.mark.parametrize("shape", [(3, 6, 3), (5, 6, 7), (1, 6, 1)])
def test_channels_at_either_end_are_asked_and_said(tmp_path, form, shape):
    if form == "parquet":
        pytest.importorskip("pyarrow")
    x = RNG.integers(0, 256, (N + M, *shape), dtype=np.uint8)
    fields = written(tmp_path, x, form)
    refused(tmp_path, r"samples of shape .* may have their channels .*write channels: first", **fields)
    assert load(tmp_path, **fields, channels="first").shape == shape
    assert load(tmp_path, **fields, channels="last").shape == (shape[2], *shape[:2])


@pytest.mark.parametrize("form", [form for form in ARRAY_FORMS if form != "parquet"])
def test_labels_that_are_no_classes_are_refused_in_every_form(tmp_path, form):
    fields = written(tmp_path, GREY[:, 0], form, Y + 0.5)
    refused(tmp_path, "label 0.5 in row 1 is no class; numbers to predict are regression", **fields)
    fields = written(tmp_path, GREY[:, 0], form, Y.astype(float))
    assert load(tmp_path, **fields).classes == 3


def test_the_rule_for_channels():
    assert channel_axis((9, 3, 8, 8), None, "a") == 1 and channel_axis((9, 8, 8, 3), None, "a") == 3
    assert channel_axis((9, 16, 16, 16), "first", "a") == 1
    for shape in ((9, 1, 8, 1), (9, 3, 4, 4), (9, 13, 64, 64)):
        with pytest.raises(ScenarioError, match="write channels: first or channels: last"):
            channel_axis(shape, None, "a")


def test_deep_pictures_keep_their_values(tmp_path):
    pytest.importorskip("pyarrow")
    deep = RNG.integers(0, 2**16, (40, 6, 5), dtype=np.uint16)

    def png(pixels):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        return file.getvalue()

    pandas.DataFrame({"image": list(map(png, deep)), "label": [0, 1] * 20}).to_parquet(tmp_path / "a.parquet")
    data = load(tmp_path, name="parquet", path="a.parquet", test_path="a.parquet")
    truth = (deep - deep.mean()) / deep.std()
    np.testing.assert_allclose(data.x_train[:, 0], truth, atol=1e-4)
    mixed = [*map(png, deep[:39]), png(deep[39].astype(np.uint8))]
    pandas.DataFrame({"image": mixed, "label": [0, 1] * 20}).to_parquet(tmp_path / "b.parquet")
    refused(tmp_path, "row 40: a picture of uint8 values, the first has uint16", name="parquet", path="b.parquet")


# -- clients ----------------------------------------------------------------------------------------


def test_data_sets_of_clients_are_never_a_test_part():
    x, y = RNG.normal(size=(30, 4)), np.arange(30) % 3
    pairs = [(x[:10], y[:10]), (x[10:], y[10:])]
    tensors = [torch.utils.data.TensorDataset(torch.tensor(a), torch.tensor(b)) for a, b in pairs]
    lists, mixed = [list(pair) for pair in pairs], {0: pairs[0], 1: tensors[1]}
    for source in (pairs, lists, tensors, dict(enumerate(pairs)), mixed):
        given = read_samples(source)
        assert given.test is None and np.array_equal(given.x, x) and np.array_equal(given.y, y)
        assert given.columns["client"].tolist() == [0] * 10 + [1] * 20
    data = PythonData("mine", test_fraction=0.2).dataset(read_samples(pairs), Streams(0))
    assert np.bincount(data.columns["client"]).tolist() == [8, 16]
    assert np.bincount(data.test_columns["client"]).tolist() == [2, 4]
    named = read_samples({"train": {"a": pairs[0], "b": pairs[1]}, "test": {"b": pairs[0]}})
    assert set(named.columns["client"]) == {"a", "b"} and set(named.test_columns["client"]) == {"b"}
    assert len(named.test[1]) == 10
    both = read_samples((pairs[0], pairs[1]))  # a tuple of two is (train, test), as documented
    assert len(both.y) == 10 and len(both.test[1]) == 20
    for wrong, message in (
        ([pairs[0], (x[:, :2], y)], "data sets of clients 0 and 1 do not fit"),
        ([(x, y, y), (x, y, y)], "name clients themselves"),
        ([pairs[0], torch.utils.data.DataLoader(tensors[0])], "data set of client 1: a DataLoader was given"),
    ):
        with pytest.raises(ValueError, match=message):
            read_samples(wrong)


def test_what_else_was_given_is_named():
    x, y = RNG.normal(size=(30, 4)), np.arange(30) % 3
    pair, bunch = (
        (x, y),
        {"data": x, "target": y, "images": x[:, None], "DESCR": "digits", "target_names": ["a", "b", "c"]},
    )
    for source, names in (
        ({"train": pair, "test": pair, "validation": pair}, "validation"),
        ({"train": pair, "val": pair, "unlabelled": x}, "val, unlabelled"),
        ({"train": [pair, pair], "valid": [pair, pair]}, "valid"),
        (bunch, "images"),
        ([bunch, bunch], "images"),
        ({"train": bunch, "test": bunch, 3: pair}, "3, images"),
    ):
        given = read_samples(source)
        (note,) = PythonData("mine").dataset(given, Streams(0)).notes
        assert note == f"mine: no samples or labels of a training or test part: {names}"
        known = {key: source[key] for key in ("train", "test") if key in source} if isinstance(source, dict) else source
        if isinstance(source, dict) and "train" in source:
            assert np.array_equal(given.x, read_samples(known).x)
    for source in (pair, {"train": pair, "test": pair}, [pair, pair], {"data": x, "target": y}):
        assert PythonData("mine").dataset(read_samples(source), Streams(0)).notes == ()


def test_images_in_python_of_which_nobody_knows_the_channels():
    x, y = RNG.normal(size=(30, 3, 6, 4)), np.arange(30) % 3
    for channels, shape in (("first", (3, 6, 4)), ("last", (4, 3, 6))):
        assert PythonData("mine", channels=channels).dataset(read_samples((x, y)), Streams(0)).shape == shape
    with pytest.raises(ScenarioError, match="write channels: first or channels: last"):
        PythonData("mine").dataset(read_samples((x, y)), Streams(0))
    with pytest.raises(ScenarioError, match="are clear; leave channels out"):
        PythonData("mine", channels="first").dataset(read_samples((IMAGES, Y)), Streams(0))


def test_a_mapping_of_clients_to_positions():
    for given in ({1: [3], 0: [1, 2]}, {"1": np.array([3]), "0": np.array([1, 2])}):
        assert [part.tolist() for part in read_partition(given)] == [[1, 2], [3]]
    assert [part.tolist() for part in read_partition({"b": [0], "a": []})] == [[0], []]


def test_leaf_without_a_test_part_texts_and_shapes(tmp_path):
    users = {"ann": {"x": ["to b", "o be", " be "], "y": list("e o")}, "bob": {"x": ["be o"] * 4, "y": list("rrrr")}}
    content = {"users": ["ann", "bob"], "num_samples": [3, 4], "hierarchies": [], "user_data": users}
    (tmp_path / "a.json").write_text(json.dumps(content))
    data = load(tmp_path, name="leaf", path="a.json", test_fraction=0.3)
    assert data.tokens and data.label_names == tuple(" beort") and len(data.y_train) == 5
    shown = ["".join(data.label_names[token] for token in row) for row in np.concatenate([data.x_train, data.x_test])]
    assert sorted(shown) == sorted(users["ann"]["x"] + users["bob"]["x"])
    flat = {"f": {"x": RNG.random((8, 42)).tolist(), "y": [0, 1] * 4}}
    (tmp_path / "b.json").write_text(json.dumps({"users": ["f"], "num_samples": [8], "user_data": flat}))
    assert load(tmp_path, name="leaf", path="b.json", shape=[7, 6]).shape == (1, 7, 6)
    for changes, message in (
        ({"num_samples": [7]}, "has 8 samples and 8 labels; num_samples says 7"),
        ({"users": ["g"]}, "do not name the same users"),
        ({"user_data": {"f": {"x": [[1], [1, 2]], "y": [0, 1]}}}, "different lengths"),
        ({"user_data": {"f": {"x": [["a"]] * 8, "y": [0, 1] * 4}}}, "samples are lists of numbers or texts"),
        ({"user_data": {"f": {"x": ["ab"] * 8, "y": [0, 1] * 4}}}, "labels are the next character"),
    ):
        whole = {"users": ["f"], "num_samples": [8], "user_data": flat} | changes
        (tmp_path / "c.json").write_text(json.dumps(whole))
        refused(tmp_path, message, name="leaf", path="c.json")
    (tmp_path / "c.json").write_text('{"users": 3')
    refused(tmp_path, "c.json: is no LEAF file", name="leaf", path="c.json")


class Mine:
    """An object of somebody's program, of which reading must execute nothing."""

    def __reduce__(self):
        return print, ("executed",)


def test_what_is_pickled_is_never_executed(tmp_path, capsys):
    fields = written(tmp_path, GREY[:, 0], "pfllib")
    np.savez(tmp_path / "pfllib" / "train" / "1.npz", data={"x": GREY[:9, 0], "y": Y[:9], "more": Mine()})
    refused(tmp_path, r"1.npz: data.npy: .*names builtins.print", **fields)
    torch.save({"x": torch.ones(3), "y": Mine()}, tmp_path / "a.pt")
    refused(tmp_path, "holds objects that are not read without executing", name="pt", path="a.pt")
    assert "executed" not in capsys.readouterr().out
    values = {"a": np.arange(6).reshape(2, 3), "b": [np.float32(2.5), "t"], "c": np.asfortranarray(np.eye(3)[:, :2])}
    for protocol in range(2, 6):
        read = read_pickle(io.BytesIO(pickle.dumps(values, protocol)), "a")
        assert read["b"] == [2.5, "t"] and all(np.array_equal(read[name], values[name]) for name in "ac")


@pytest.mark.parametrize("place", range(8))
def test_no_step_in_a_damaged_pickle_reserves_memory(place):
    """Every step that there is, at every place of a small one."""
    values = {"a": np.arange(6).reshape(2, 3), "b": [np.float32(2.5), "t"], "c": np.asfortranarray(np.eye(3)[:, :2])}
    content, most = pickle.dumps(values), 0
    for at in range(place, len(content), 8):
        for step in pickletools.opcodes:
            tracemalloc.start()
            try:
                read_pickle(io.BytesIO(bytes([*content[:at], ord(step.code), *content[at + 1 :]])), "a")
            except ScenarioError as error:
                assert "\n" not in str(error)
            most = max(most, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert most < 2**20


def test_small_pickles_that_ask_for_much_memory():
    laughs = ["ha"]
    for _ in range(40):
        laughs = [laughs, laughs]
    for content, why in ((b"\x80\x02]r\xff\xff\xff\x7f.", "numbers its values up to 2147483647"),
                         (b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b".", "expected 1099511627776 bytes"),
                         (pickle.dumps(laughs), "hold one another again and again")):  # fmt: skip
        with pytest.raises(ScenarioError, match=why):
            read_pickle(io.BytesIO(content), "a")


def test_a_config_that_says_another_number_of_clients(tmp_path):
    fields = written(tmp_path, GREY[:, 0], "pfllib")
    (tmp_path / "pfllib" / "config.json").write_text('{"num_clients": 5, "num_classes": 3}')
    refused(tmp_path, "says 5 clients, and train has the files of 3", **fields)


# -- subsets ----------------------------------------------------------------------------------------


def test_a_subset_of_built_in_data(tmp_path):
    whole, part, other = (load(tmp_path, name="digits", samples=samples) for samples in (None, 100, 100))
    same(part, other)
    assert len(part.y_train) == 100 and np.array_equal(part.x_test, whole.x_test)
    rows = {row.tobytes(): label for row, label in zip(whole.x_train, whole.y_train, strict=True)}
    assert all(rows[row.tobytes()] == label for row, label in zip(part.x_train, part.y_train, strict=True))
    assert not np.array_equal(part.y_train, whole.y_train[:100])
    with pytest.raises(ScenarioError, match="samples: 2,000 of 1,438 training samples; the nearest valid value"):
        load(tmp_path, name="digits", samples=2000)
