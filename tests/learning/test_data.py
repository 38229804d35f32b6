"""Data sets: what is read is what is in the files, and every defect is one clear line with the right exit code."""

import gzip
import re
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from simfl.core.errors import MissingError, ScenarioError
from simfl.core.rng import Streams
from simfl.core.storage.data_folder import data_root, load_cached
from simfl.learning.data.base import DATA

ROOT = data_root()


@pytest.fixture(autouse=True)
def scratch_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SIMFL_CACHE", str(tmp_path / "cache"))


def load(name, folder=Path(), **fields):
    scenario = SimpleNamespace(file=lambda path: Path(folder) / path)
    return DATA[name](**fields).load(scenario, Streams(0))


def needs(path):
    return pytest.mark.skipif(ROOT is None or not (ROOT / path).exists(), reason=f"{path} is not in the data folder")


# -- idx files --------------------------------------------------------------------------------------


def write_idx(path, array, zipped=True, keep=None, magic=None):
    head = bytes((0, 0, 8, array.ndim)) if magic is None else magic
    raw = head + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    raw = raw[:keep]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(raw) if zipped else raw)


@pytest.fixture
def tiny_mnist(tmp_path):
    rng = np.random.default_rng(3)
    arrays = {
        "train-images-idx3-ubyte": rng.integers(0, 256, (30, 28, 28), dtype=np.uint8),
        "train-labels-idx1-ubyte": np.arange(30, dtype=np.uint8) % 10,
        "t10k-images-idx3-ubyte": rng.integers(0, 256, (10, 28, 28), dtype=np.uint8),
        "t10k-labels-idx1-ubyte": np.arange(10, dtype=np.uint8),
    }
    for name, array in arrays.items():
        write_idx(tmp_path / "MNIST" / "raw" / f"{name}.gz", array)
    return tmp_path, arrays


def test_idx_files_are_read_and_scaled_by_the_training_part(tiny_mnist):
    folder, arrays = tiny_mnist
    data = load("mnist", folder, root=".")
    pixels = arrays["train-images-idx3-ubyte"].astype(float)
    for part, name in (("x_train", "train-images-idx3-ubyte"), ("x_test", "t10k-images-idx3-ubyte")):
        expected = (arrays[name].astype(float) - pixels.mean()) / pixels.std()
        np.testing.assert_allclose(getattr(data, part)[:, 0], expected, atol=1e-5)
    assert data.y_train.tolist() == arrays["train-labels-idx1-ubyte"].tolist() and data.classes == 10
    write_idx(folder / "MNIST/raw/train-labels-idx1-ubyte", arrays["train-labels-idx1-ubyte"][::-1].copy(), False)
    assert load("mnist", folder, root=".").y_train[0] == 9  # plain files are read too, and the cache sees the change


@pytest.mark.parametrize(
    ("file", "options", "message"),
    [
        ("train-images-idx3-ubyte", {"keep": 1000}, "promises 23,520"),
        ("train-images-idx3-ubyte", {"keep": 7}, "no idx file"),
        ("t10k-labels-idx1-ubyte", {"magic": b"\x00\x00\x0d\x01"}, "no idx file"),
    ],
)
def test_damaged_idx_files_are_refused_in_one_line(tiny_mnist, file, options, message):
    folder, arrays = tiny_mnist
    write_idx(folder / "MNIST" / "raw" / f"{file}.gz", arrays[file], **options)
    with pytest.raises(ScenarioError, match=message) as error:
        load("mnist", folder, root=".")
    assert error.value.exit_code == 2 and "\n" not in str(error.value) and file in str(error.value)


def test_a_truncated_gzip_and_wrong_labels_are_refused(tiny_mnist):
    folder, arrays = tiny_mnist
    labels = folder / "MNIST/raw/train-labels-idx1-ubyte.gz"
    write_idx(labels, np.full(30, 10, dtype=np.uint8))
    with pytest.raises(ScenarioError, match="not from 0 to 9"):
        load("mnist", folder, root=".")
    write_idx(labels, np.zeros(29, dtype=np.uint8))
    with pytest.raises(ScenarioError, match="30 samples but labels of shape"):
        load("mnist", folder, root=".")
    images = folder / "MNIST/raw/train-images-idx3-ubyte.gz"
    images.write_bytes(images.read_bytes()[:500])
    with pytest.raises(ScenarioError, match="cannot be read"):
        load("mnist", folder, root=".")


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10", "cifar100", "adult"])
def test_missing_files_say_how_to_get_them(tmp_path, name):
    with pytest.raises(MissingError) as error:
        load(name, tmp_path, root=".")
    assert error.value.exit_code == 5 and "\n" not in str(error.value)
    assert "download" in str(error.value) or "archive.ics.uci.edu" in str(error.value)
    assert "root" in str(error.value)


@pytest.mark.parametrize(("fraction", "problem"), [(1e-7, "test.*0.000556"), (0.9999, "training.*0.999444")])
def test_digits_need_samples_on_both_sides(fraction, problem):
    ((key, message),) = DATA.of({"name": "digits", "test_fraction": fraction}).check(None)
    assert key == "test_fraction" and re.search(f"leaves none for {problem}", message)
    nearest = float(message.rpartition(" ")[2])
    assert DATA.of({"name": "digits", "test_fraction": nearest}).check(None) == []


@pytest.mark.parametrize("fraction", [1e-7, 0.9999])
def test_a_table_needs_rows_on_both_sides(tmp_path, fraction):
    (tmp_path / "a.csv").write_text("a,y\n1,0\n2,1\n3,0\n4,1\n")
    with pytest.raises(ScenarioError, match="has no (training|test) rows"):
        load("csv", tmp_path, path="a.csv", label="y", test_fraction=fraction)


# -- arrays -----------------------------------------------------------------------------------------


def arrays(**changes):
    rng = np.random.default_rng(0)
    parts = {
        "x_train": rng.normal(5, 2, (20, 3)),
        "y_train": np.arange(20) % 4,
        "x_test": rng.normal(5, 2, (8, 3)),
        "y_test": np.arange(8) % 4,
    }
    return {name: array for name, array in (parts | changes).items() if array is not None}


def test_npz_features_and_images(tmp_path):
    stored = arrays()
    np.savez(tmp_path / "a.npz", **stored)
    data = load("npz", tmp_path, path="a.npz")
    expected = (stored["x_test"] - stored["x_train"].mean(0)) / stored["x_train"].std(0)
    np.testing.assert_allclose(data.x_test, expected, atol=1e-5)
    assert data.classes == 4 and data.x_train.dtype == np.float32
    images = {"x_train": np.zeros((20, 5, 6, 3), np.uint8), "x_test": np.ones((8, 5, 6, 3), np.uint8)}
    images["x_train"][:, 2, 4, 1] = 7
    np.savez(tmp_path / "b.npz", **arrays(**images))
    pictures = load("npz", tmp_path, path="b.npz")
    assert pictures.shape == (3, 5, 6)
    assert (pictures.x_train[:, 1] > 1).sum() == 20 and (pictures.x_train[:, 1, 2, 4] > 1).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_test": None}, "has no array y_test"),
        ({"y_test": np.arange(8)}, "not from 0 to 3"),
        ({"y_test": np.arange(7) % 4}, "8 samples but labels of shape"),
        ({"y_train": np.arange(20) / 2}, "y_train: label 0.5 in row 2 is no class; .*regression"),
        ({"x_test": np.zeros((8, 4))}, "do not fit together"),
        ({"x_train": np.full((20, 3), np.nan)}, "no finite numbers"),
        ({"x_train": np.zeros((20, 3, 3)), "x_test": np.zeros((8, 3, 4))}, "images of shapes"),
        ({"y_train": np.array([object()] * 20)}, "not a readable .npz"),
    ],
)
def test_defective_arrays_are_refused_in_one_line(tmp_path, changes, message):
    np.savez(tmp_path / "a.npz", **arrays(**changes))
    with pytest.raises(ScenarioError, match=message) as error:
        load("npz", tmp_path, path="a.npz")
    assert "\n" not in str(error.value)


def test_files_that_are_no_archives(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(ScenarioError, match="not a readable"):
        load("npz", tmp_path, path="a.npz")
    with pytest.raises(MissingError, match="not found"):
        load("npz", tmp_path, path="b.npz")


# -- tables -----------------------------------------------------------------------------------------


def test_csv_is_one_hot_and_scaled_by_the_training_part(tmp_path):
    (tmp_path / "train.csv").write_text("age,job,y\n20,cook,no\n40,smith,yes\n30,cook,yes\n")
    (tmp_path / "test.csv").write_text("age,job,y\n50,baker,no\n30, smith,yes\n")
    data = load("csv", tmp_path, path="train.csv", test_path="test.csv", label="y")
    deviation = np.std([20, 40, 30])
    np.testing.assert_allclose(data.x_train, [[-10 / deviation, 1, 0], [10 / deviation, 0, 1], [0, 1, 0]], atol=1e-6)
    np.testing.assert_allclose(data.x_test, [[20 / deviation, 0, 0], [0, 0, 1]], atol=1e-6)  # no baker in training
    assert data.label_names == ("no", "yes") and data.y_test.tolist() == [0, 1]
    assert data.columns["job"].tolist() == ["cook", "smith", "cook"]


def test_csv_split_uses_every_row_once(tmp_path):
    rows = "\n".join(f"{i},{i % 3}" for i in range(50))
    (tmp_path / "a.csv").write_text(rows)
    data = load("csv", tmp_path, path="a.csv", label="1", header=False, test_fraction=0.3)
    assert len(data.y_train) == 35 and len(data.y_test) == 15
    both = np.concatenate([data.x_train, data.x_test])[:, 0]
    assert len(np.unique(both.round(5))) == 50


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        ("a,y\n1,0\n,1\n", {}, "column 'a', row 2: no finite number"),
        ("a,y\n1,0\ninf,1\n", {}, "column 'a', row 2: no finite number"),
        ("a,y\n1,0\n2,\n", {}, "row 2 has no label"),
        ("a,y\n1,0\n2,1\n", {"label": "z"}, "no column 'z'; it has a, y"),
        ("a,y\n1,0\n2,1\n", {"drop": ("b",)}, "no column 'b' to drop"),
        ("y\n0\n1\n", {}, "no column besides the label"),
        ("a,y\n1,0,5,6\n2,1\n1,2,3,4,5,6,7\n", {}, "not a readable CSV"),
        ("", {}, "not a readable CSV"),
        ("a,y\n", {}, "no training rows"),
    ],
)
def test_defective_tables_are_refused_in_one_line(tmp_path, text, fields, message):
    (tmp_path / "a.csv").write_text(text)
    fields = {"path": "a.csv", "test_path": "a.csv", "label": "y"} | fields
    with pytest.raises(ScenarioError, match=message) as error:
        load("csv", tmp_path, **fields)
    assert "\n" not in str(error.value)


def test_rows_with_names_are_read_and_those_with_more_cells_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\nr1,1,0\nr2,2,1\nr3,nan,1\n")
    with pytest.raises(ScenarioError, match="column 'a', row 3: no finite number"):
        load("csv", tmp_path, path="a.csv", test_path="a.csv", label="y")
    (tmp_path / "a.csv").write_text("a,y\nr1,s1,1,0\nr2,s2,2,1\n")
    with pytest.raises(ScenarioError, match="rows have more cells than its header"):
        load("csv", tmp_path, path="a.csv", test_path="a.csv", label="y")


def test_a_defect_is_named_by_its_row_in_the_file_wherever_the_split_puts_it(tmp_path):
    rows = [f"{i},{i % 2}" for i in range(30)]
    for bad in range(30):
        text = "\n".join(["a,y", *rows[:bad], "nan,1", *rows[bad + 1 :]])
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(ScenarioError, match=f"a.csv: column 'a', row {bad + 1}: no finite number"):
            load("csv", tmp_path, path="a.csv", label="y")
    (tmp_path / "good.csv").write_text("\n".join(["a,y", *rows]))
    with pytest.raises(ScenarioError, match="a.csv: column 'a', row 30"):
        load("csv", tmp_path, path="good.csv", test_path="a.csv", label="y")


def test_a_test_label_that_training_never_has(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n1,0\n2,1\n")
    (tmp_path / "b.csv").write_text("a,y\n1,0\n2,1.\n5,x\n")
    with pytest.raises(ScenarioError, match="'x'|'1.'"):
        load("csv", tmp_path, path="a.csv", test_path="b.csv", label="y")


# -- synthetic and cache ----------------------------------------------------------------------------


def test_synthetic_samples_have_the_promised_centres():
    data = load("synthetic", samples=40_000, shape=(6,), classes=3, separation=3.0)
    rng = Streams(0)("synthetic centres")
    centres = rng.standard_normal((3, 6), dtype=np.float32) * 3 / np.sqrt(6)
    for label in range(3):
        own = data.x_train[data.y_train == label]
        np.testing.assert_allclose(own.mean(0), centres[label], atol=0.04)
        np.testing.assert_allclose(own.std(0), 1, atol=0.03)
    assert load("synthetic", shape=(1, 4, 5)).shape == (1, 4, 5)
    with pytest.raises(ScenarioError, match="16 GiB"):
        load("synthetic", samples=10**8, shape=(1000,))


def test_the_cache_decodes_once_and_survives_damage(tmp_path):
    source, calls = tmp_path / "source", []
    source.write_bytes(b"one")

    def decode():
        calls.append(1)
        return {"a": np.arange(1000), "b": np.array(["x", "yy"])}

    for _ in range(3):
        arrays = load_cached("test v1", [source], decode)
    assert len(calls) == 1 and arrays["a"].sum() == 499_500 and arrays["b"].tolist() == ["x", "yy"]
    arrays["a"][0] = 5  # a private page: the file stays as it is
    assert load_cached("test v1", [source], decode)["a"][0] == 0
    (entry,) = (tmp_path / "cache").iterdir()
    (entry / "a.npy").write_bytes((entry / "a.npy").read_bytes()[:200])
    assert load_cached("test v1", [source], decode)["a"][999] == 999 and len(calls) == 2
    source.write_bytes(b"two")
    load_cached("test v1", [source], decode)
    load_cached("test v2", [source], decode)
    assert len(calls) == 4
    assert not list((tmp_path / "cache").glob(".new-*"))


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SIMFL_CACHE", str(tmp_path / "file"))
    assert load_cached("test v1", [], lambda: {"a": np.arange(3)})["a"].tolist() == [0, 1, 2]
    monkeypatch.setenv("SIMFL_CACHE", "")
    assert load_cached("test v1", [], lambda: {"a": np.arange(3)})["a"].tolist() == [0, 1, 2]


# -- the real files ---------------------------------------------------------------------------------


@needs("MNIST/raw/train-images-idx3-ubyte.gz")
def test_mnist_has_its_published_counts():
    data = load("mnist")
    assert np.bincount(data.y_train).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(data.y_test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert data.x_train.shape == (60_000, 1, 28, 28)
    # the constants everybody uses, of pixels in 0 .. 1: mean 0.1307, deviation 0.3081; a black pixel is -mean/deviation
    assert data.x_train.min() == pytest.approx(-0.1307 / 0.3081, abs=1e-3)
    assert data.x_train.max() == pytest.approx((1 - 0.1307) / 0.3081, abs=1e-3)


@needs("FashionMNIST/raw/train-images-idx3-ubyte.gz")
def test_fashion_mnist_is_balanced():
    data = load("fashion_mnist")
    assert (np.bincount(data.y_train) == 6000).all() and data.label_names[-1] == "Ankle boot"


@needs("cifar10/cifar10_small.npz")
def test_cifar_files_of_both_kinds(tmp_path):
    small = np.load(ROOT / "cifar10" / "cifar10_small.npz")
    np.savez(
        tmp_path / "cifar10.npz",
        **{name: small[name] for name in small.files if name[1] == "_"},
        label_names=small["label_names"],
    )
    data = load("cifar10", tmp_path, root=".")
    assert data.shape == (3, 32, 32) and (np.bincount(data.y_train) == 1000).all()
    assert data.label_names[:2] == ("airplane", "automobile")
    pixels = small["x_train"][..., 2].astype(float)
    np.testing.assert_allclose(data.x_train[:5, 2], ((pixels - pixels.mean()) / pixels.std())[:5], atol=1e-5)


@needs("unpack_cifar.py")
def test_packed_cifar_names_the_command_that_unpacks_it():
    if (ROOT / "cifar10.npz").exists() or (ROOT / "cifar10" / "cifar10.npz").exists():
        pytest.skip("cifar10.npz is in the data folder already")
    with pytest.raises(MissingError, match="unpack_cifar.py DIR"):
        load("cifar10")


@needs("adult/adult.data")
def test_adult_reaches_its_known_accuracy():
    data = load("adult")
    assert np.bincount(data.y_train).tolist() == [24_720, 7_841]
    assert np.bincount(data.y_test).tolist() == [12_435, 3_846]
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=200).fit(data.x_train, data.y_train)
    assert model.score(data.x_test, data.y_test) == pytest.approx(0.8525, abs=0.003)


def test_official_cifar_archives_are_read_through_torchvision(tmp_path, monkeypatch):
    """torchvision checks the archive's md5, so a stand-in takes its place."""
    from simfl.learning import torchvision_import

    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)

    class ResultsFolder:
        classes = ["cat", "dog"] * 5

        def __init__(self, root, train, download):
            assert Path(root) == tmp_path and not download
            self.data, self.targets = pixels[:15] if train else pixels[15:], [i % 10 for i in range(15 if train else 5)]

    module = SimpleNamespace(datasets=SimpleNamespace(CIFAR10=ResultsFolder))
    monkeypatch.setattr(torchvision_import, "torchvision", lambda: module)
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"x")
    data = load("cifar10", tmp_path, root=".")
    red = pixels[..., 0].astype(float)
    np.testing.assert_allclose(data.x_test[:, 0], (red[15:] - red[:15].mean()) / red[:15].std(), atol=1e-5)
    assert data.y_train.tolist() == [i % 10 for i in range(15)] and data.label_names[:2] == ("cat", "dog")


def test_a_failed_download_is_one_line(tmp_path, monkeypatch):
    from simfl.learning import torchvision_import

    def maker(root, train, download):
        raise OSError("<urlopen error no network>")

    module = SimpleNamespace(datasets=SimpleNamespace(MNIST=maker))
    monkeypatch.setattr(torchvision_import, "torchvision", lambda: module)
    with pytest.raises(MissingError, match="could not be downloaded.*no network"):
        load("mnist", tmp_path, root="new", download=True)


def test_torchvision_imports_beside_a_torch_without_its_operators():
    from simfl.learning.torchvision_import import torchvision

    assert len(torchvision().datasets.FakeData(3, (1, 4, 4), 2)) == 3
