"""Models, data sets and partitions of a user as Python objects: fingerprints, forms of data, and what is refused."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_st
from torch import nn

from simfl.core.errors import ScenarioError, SimflError
from simfl.core.rng import Streams
from simfl.learning.data.base import DATA, Dataset
from simfl.learning.data.generated import Digits, read_digits
from simfl.learning.data.python import PythonData
from simfl.learning.objects import handles
from simfl.learning.objects.fingerprint import fingerprint
from simfl.learning.objects.handles import read_partition
from simfl.learning.objects.networks import SIZES, UserNetwork, read_model
from simfl.learning.objects.samples import read_samples
from simfl.learning.objects.shorthand import shorthand
from simfl.learning.partitions.python import UserPartition
from simfl.learning.torchvision_import import torchvision

few = settings(max_examples=30, deadline=None, database=None)
HERE = Path(__file__).resolve().parents[2]

MINE = """
import functools, sys
import numpy as np, torch
from torch import nn
from simfl.learning.objects.fingerprint import fingerprint

scale = {"b": 2.0, "a": 1.0}
names = {"x", "yy", "zzz"}

class Base(nn.Module):
    width = 3

class Net(Base):
    def __init__(self, hidden=4):
        super().__init__()
        self.layer = nn.Linear(4, hidden)
        self.act = torch.tanh
    def forward(self, x):
        return self.act(self.layer(x)) * scale["a"] if "x" in names else helper(x)

def helper(x, power=2):
    return [each ** power for each in x if each not in {1, 2, 3}]

def again(x):
    return again(x - 1) if x else helper

net = Net()
with torch.no_grad():
    for parameter in net.parameters():
        parameter.fill_(0.5)
things = [Net, net, helper, again, functools.partial(helper, power=3), lambda x: x, {"k": {1, 2, 3}, "j": (1, None)},
          np.arange(6).reshape(2, 3), torch.ones(2, 2), names, functools.partial(np.sum, axis=0), Base.__init__]
"""


def test_fingerprints_are_the_same_in_every_process_and_differ_between_objects():
    code = f"{MINE}\nprint(*map(fingerprint, things))"
    said = [
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True,
                       env=os.environ | {"PYTHONPATH": str(HERE), "PYTHONHASHSEED": seed}).stdout.split()
        for seed in ("1", "2")
    ]  # fmt: skip
    assert said[0] == said[1] and len(set(said[0])) == len(said[0]) == 12


def marks(code):
    variables = {"__name__": "page"}
    exec(code, variables)
    return [fingerprint(thing) for thing in variables["things"]]


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("width = 3", "width = 4", {0, 1}),
        ("power=2", "power=3", {0, 1, 2, 3, 4}),
        ('"a": 1.0', '"a": 1.5', {0, 1}),
        ("torch.tanh", "torch.relu", {0, 1}),
        ("fill_(0.5)", "fill_(0.25)", {1}),
        ("hidden=4", "hidden=5", {0, 1}),
        ("each ** power", "each * power", {0, 1, 2, 3, 4}),
        ("arange(6)", "arange(6.0)", {7}),
        ("reshape(2, 3)", "reshape(3, 2)", {7}),
        ("power=3)", "power=4)", {4}),
        ("import functools, sys", "import functools, sys  # a remark", set()),
        ("\nscale =", "\nhidden = layer = 5\nscale =", set()),  # globals that have the names of attributes
    ],
)
def test_what_a_fingerprint_covers(before, after, changed):
    assert before in MINE
    pairs = zip(marks(MINE), marks(MINE.replace(before, after, 1)), strict=True)
    assert {i for i, (old, new) in enumerate(pairs) if old != new} == changed


@few
@given(
    numpy_st.arrays(st.sampled_from([np.int8, np.float32, np.float64]), numpy_st.array_shapes(max_dims=3)), st.data()
)
def test_an_array_counts_by_type_shape_and_every_element(array, data):
    mark = fingerprint(array)
    assert fingerprint(np.asfortranarray(array)) == mark == fingerprint(array.copy())
    assert fingerprint(array.reshape(*array.shape, 1)) != mark
    assert fingerprint(array.astype(np.complex128)) != mark
    place = data.draw(st.tuples(*(st.integers(0, size - 1) for size in array.shape)))
    other = array.copy()
    other[place] = 0 if array[place] != 0 else 1
    assert fingerprint(other) != mark


def test_two_functions_of_one_line_and_one_file_are_two():
    one, two = (lambda x: x + 1), (lambda x: x + 2)
    assert fingerprint(one) != fingerprint(two)

    def closing(n):
        return lambda x: x + n

    assert fingerprint(closing(1)) == fingerprint(closing(1)) != fingerprint(closing(2))
    settings = [functools.partial(closing, 3), functools.partial(closing, n=3), closing]
    assert len({fingerprint(each) for each in settings}) == 3


def test_a_network_counts_by_settings_that_no_parameter_shows():
    def dropped(p):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 2), nn.Dropout(p))

    assert fingerprint(dropped(0.1)) == fingerprint(dropped(0.1)) != fingerprint(dropped(0.2))
    used = dropped(0.1)
    used(torch.ones(1, 2)).sum().backward()
    assert fingerprint(used.eval()) == fingerprint(dropped(0.1)), "a gradient and the mode are no part of it"


def test_a_handle_lives_as_long_as_somebody_holds_it_and_is_a_copy():
    net = nn.Linear(2, 2)
    handle = handles.take("learning.model", net)
    mark = handle.fingerprint
    assert handles.find(mark) is handle and handle.text == f"Linear#{mark}"
    with torch.no_grad():
        net.weight.zero_()
    assert fingerprint(handle.value) == mark != handles.take("learning.model", net).fingerprint
    del handle
    assert handles.find(mark) is None


def test_shorthands():
    assert shorthand("a.b:C.d")["object"] == "a.b:C.d"
    assert shorthand("a.Net#0123456789abcdef")["fingerprint"] == "0123456789abcdef"
    for text in ("mlp", "a:", ":b", "a:b:c", "a b:c", "Net#0123", "Net#0123456789ABCDEF", "mlp:hidden=3"):
        assert shorthand(text) is None


# -- models ----------------------------------------------------------------------------------------


def network(value, seed=0):
    return UserNetwork("mine", read_model(value), seed)


class Sized(nn.Module):
    def __init__(self, in_channels, num_classes, shape, in_features, gain=2.0):
        super().__init__()
        assert (in_channels, in_features, shape) == (1, 12, (1, 3, 4))
        self.layer = nn.Linear(in_features, num_classes)
        nn.init.xavier_uniform_(self.layer.weight, gain)

    def forward(self, x):
        return self.layer(x.flatten(1))


def test_a_class_gets_the_sizes_of_the_data_and_draws_from_the_seed_only():
    torch.manual_seed(1)
    first = network(Sized)
    first.build((1, 3, 4), 5)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    again, other = network(Sized), network(Sized, seed=1)
    again.build((1, 3, 4), 5)
    other.build((1, 3, 4), 5)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(first.initial_values(), again.initial_values())
    assert not np.array_equal(first.initial_values(), other.initial_values())
    assert first.initial_values().shape == (13 * 5,)


def test_an_instance_begins_with_its_values_and_is_left_alone():
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    with torch.no_grad():
        net[0].weight.copy_(torch.arange(6.0).reshape(2, 3))
        net[1].running_mean.fill_(7)
    model = network(net)
    built = model.build((3,), 2)
    assert built is not net and model.parameters((3,), 2) == 12
    assert model.initial_values().tolist() == [0, 1, 2, 3, 4, 5, *net[0].bias.tolist(), 1, 1, 0, 0, 7, 7, 1, 1]


def hidden(hidden):
    return nn.Linear(hidden, 2)


def nothing():
    return None


def failing(num_classes):
    raise KeyError("no such\nlayer")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (3, "a torch.nn.Module, or a class or function that gives one, is needed (got int)"),
        (nn.Flatten(), "no parameters"),
        (nn.Linear(2, 2).double(), "'weight' is float64"),
        (nn.Linear(2, 2).requires_grad_(False), "every parameter has requires_grad=False"),
        (nn.LazyLinear(2), "'weight' has no shape yet"),
        (hidden, f"needs the argument 'hidden', which the data do not give (they give {', '.join(SIZES)})"),
    ],
)
def test_models_that_are_refused_when_they_are_handed_in(value, said):
    with pytest.raises(SimflError) as refused:
        handles.take("learning.model", value)
    assert str(refused.value).startswith("learning.model: ") and said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (nothing, "mine gives NoneType, not a torch.nn.Module"),
        (failing, "failing(num_classes=2) raises KeyError: 'no such\\nlayer'"),
        (functools.partial(hidden, 3), None),
        (functools.partial(nn.Linear, 3, 2, dtype=torch.float64), "'weight' is float64"),
    ],
)
def test_models_that_are_refused_when_they_are_built(value, said):
    if said is None:
        assert network(value).build((3,), 2).in_features == 3
        return
    with pytest.raises(ScenarioError) as refused:
        network(value).build((3,), 2)
    assert refused.value.key == "model" and said in refused.value.message and "\n" not in refused.value.message


# -- data ------------------------------------------------------------------------------------------


def loaded(value, seed=0, test_fraction=0.2, scale=True):
    return PythonData("mine", test_fraction=test_fraction, scale=scale).dataset(read_samples(value), Streams(seed))


def same(one: Dataset, two: Dataset):
    for name in ("x_train", "y_train", "x_test", "y_test"):
        mine, theirs = getattr(one, name), getattr(two, name)
        assert mine.dtype == theirs.dtype and np.array_equal(mine, theirs), name
    return True


def test_the_digits_as_arrays_are_the_built_in_digits():
    pixels, labels = read_digits()
    for shape in ((-1, 8, 8), (-1, 1, 8, 8)):
        mine = loaded((pixels.reshape(shape), labels), seed=3)
        assert same(mine, Digits().load(None, Streams(3))) and mine.label_names == tuple("0123456789")


X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
Y = np.arange(30) % 3


class Squares(torch.utils.data.Dataset):
    classes = ("a", "b", "c")

    def __len__(self):
        return 30

    def __getitem__(self, i):
        return torch.from_numpy(X[i]), int(Y[i])


@pytest.mark.parametrize(
    "value",
    [
        [X.tolist(), Y.tolist()],
        (torch.from_numpy(X), torch.from_numpy(Y)),
        torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)),
        torch.utils.data.Subset(Squares(), range(30)),
        Squares(),
        {"data": X, "target": Y},
        {"train": (X, Y)},
        lambda: (X, Y),
        (X, np.array(["a", "b", "c"])[Y]),
    ],
)  # fmt: skip
def test_every_form_of_data_is_the_same_data(value):
    assert same(loaded(value), loaded((X, Y)))


def test_scaling_split_and_test_parts():
    plain = loaded((X, Y), scale=False)
    assert len(plain.x_test) == 6 and len(plain.x_train) == 24
    rows = np.concatenate([plain.x_train, plain.x_test])
    assert np.array_equal(np.sort(rows, axis=0), np.sort(X, axis=0))
    two = loaded(((X, Y), (X[:4] * 2, Y[:4])))
    assert np.allclose(two.x_train.mean(axis=0), 0, atol=1e-6) and np.allclose(two.x_train.std(axis=0), 1, atol=1e-5)
    assert np.allclose(two.x_test, (X[:4] * 2 - X.mean(axis=0)) / X.std(axis=0), atol=1e-5)
    assert same(two, loaded({"train": (X, Y), "test": (X[:4] * 2, Y[:4])}))
    images = np.random.default_rng(1).integers(0, 255, (2000, 5, 6, 3)).astype(np.uint8)
    seen = loaded(((images, np.arange(2000) % 2), (images[:9], np.arange(9) % 2)))
    assert seen.x_train.shape == (2000, 3, 5, 6)
    for channel in range(3):
        theirs = images[..., channel].astype(float)
        assert np.allclose(seen.x_train[:, channel], (theirs - theirs.mean()) / theirs.std(), atol=1e-6)
    assert np.array_equal(seen.x_test, seen.x_train[:9])


def test_a_third_array_names_clients():
    owners = np.arange(30) % 4
    data = loaded((X, Y, owners), scale=False)
    place = {tuple(row): i for i, row in enumerate(X)}
    assert [owners[place[tuple(row)]] for row in data.x_train] == data.columns["client"].tolist()


def test_torchvision_and_random_transforms_give_the_same_every_time():
    library = torchvision()
    turned = library.transforms.Compose([library.transforms.ToTensor(), library.transforms.RandomHorizontalFlip()])
    parts = [library.datasets.FakeData(20, (3, 8, 6), 4, transform=turned) for _ in range(2)]
    torch.manual_seed(5)
    one = read_samples(parts[0])
    torch.manual_seed(6)
    assert fingerprint(one) == fingerprint(read_samples(parts[1])) and one.x.shape == (20, 3, 8, 6)


def test_hugging_face():
    library = pytest.importorskip("datasets", reason="the extra hf is not installed")
    table = library.Dataset.from_dict({"b": X[:, 0], "a": X[:, 1], "client_id": Y, "label": Y})
    seen = read_samples(table)
    assert np.array_equal(seen.x, X[:, :2]) and np.array_equal(seen.y, Y) and list(seen.columns) == ["client_id"]
    features = library.Features(
        {"pixels": library.Array2D((2, 3), "float32"), "kind": library.ClassLabel(names=["cat", "dog", "elk"]),
         "writer": library.Value("string")}
    )  # fmt: skip
    images = [[[1.0, 2, 3], [4, 5, i]] for i in range(30)]
    rows = {"pixels": images, "kind": Y, "writer": [f"w{y}" for y in Y]}
    both = library.DatasetDict(train=library.Dataset.from_dict(rows, features=features))
    both["test"] = both["train"]
    seen = read_samples(both)
    assert seen.label_names == ("cat", "dog", "elk") and np.array_equal(seen.x, np.array(images)[:, None])
    assert np.array_equal(seen.test[1], Y) and seen.columns["writer"].tolist() == [f"w{y}" for y in Y]
    with pytest.raises(ValueError, match="no column is the label .* there are 'b', 'a', 'client_id'"):
        read_samples(table.remove_columns("label"))
    with pytest.raises(ValueError, match="columns 'p', 'q' could all be the samples"):
        read_samples(library.Dataset.from_dict({"p": [[1, 2]] * 3, "q": [[1, 2]] * 3, "label": [0, 1, 0]}))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (X, "is needed (got ndarray)"),
        ((X, Y[:5]), "30 samples, but labels of shape [5]"),
        ((X, Y[:, None]), "30 samples, but labels of shape [30, 1]"),
        ((X, Y * np.nan), "targets hold values that are no finite numbers"),
        ((X, Y - 1), "labels reach from -1"),
        ((X, Y + 10**7), "at most 100,000 classes"),
        ((X * np.nan, Y), "no finite numbers"),
        ((X[:, 0], Y), "samples of shape [30]"),
        ((X.astype(str), Y), "not numbers"),
        (((X, Y), (X[:, :2], Y)), "different shapes, [3] and [2]"),
        ({"test": (X, Y)}, "needs a key 'train'"),
        (torch.utils.data.DataLoader(Squares()), "pass its data set (loader.dataset)"),
        (lambda: 1 / 0, "raises ZeroDivisionError: division by zero"),
        ([(X, Y), 3], "is needed (got list)"),
        (b"x", "is needed (got bytes)"),
    ],
)
def test_data_that_are_refused(value, said):
    with pytest.raises(SimflError) as refused:
        handles.take("learning.data", value)
    assert str(refused.value).startswith("learning.data: ") and said in str(refused.value)


def test_samples_that_cannot_be_scaled_or_split():
    with pytest.raises(ScenarioError, match="scale.*neither images nor features"):
        loaded((np.zeros((9, 1, 2, 3, 4)), np.zeros(9, int)))
    assert loaded((np.zeros((9, 1, 2, 3, 4)), np.zeros(9, int)), scale=False).shape == (1, 2, 3, 4)
    with pytest.raises(ScenarioError, match="test_fraction: of 2 samples 0.1 leaves none for test"):
        loaded((X[:2], Y[:2]), test_fraction=0.1)
    assert DATA.of("pkg.mod:name").object == "pkg.mod:name"


# -- partitions ------------------------------------------------------------------------------------


def assigned(value, clients, labels=Y):
    empty = np.zeros((0, 3), np.float32)
    data = Dataset(np.zeros((len(labels), 3), np.float32), labels, empty, labels[:0], ("a", "b", "c"))
    return UserPartition("mine", read_partition(value)).split(data, clients, np.random.default_rng(7))


@few
@given(st.lists(st.integers(0, 4), max_size=40), st.integers(0, 3))
def test_lists_of_positions_are_the_clients_samples(owners, seed):
    owners = np.array(owners, dtype=int)
    parts = [np.flatnonzero(owners == client) for client in range(5)]
    split = assigned(parts, 5, np.zeros(len(owners), int))
    assert all(np.array_equal(split[client], parts[client]) for client in range(5))
    assert np.array_equal(split.indices, assigned([part.tolist() for part in parts], 5, owners).indices)


def test_a_function_draws_from_the_generator_only():
    def drawing(labels, clients, rng):
        return np.array_split(rng.permutation(len(labels)), clients)

    def careless(labels, clients, rng):
        return np.array_split(np.random.permutation(len(labels)), clients)  # noqa: NPY002

    for function in (drawing, careless):
        np.random.seed(1)  # noqa: NPY002
        one = assigned(function, 4).indices
        np.random.seed(2)  # noqa: NPY002
        assert np.array_equal(one, assigned(function, 4).indices)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([[0], [1]], "has 2 parts for 3 clients; the nearest valid value of clients is 2"),
        ([[0], [30], []], "gives client 1 the sample 30; positions of training samples reach from 0 to 29"),
        ([[0], [-1], []], "gives client 1 the sample -1"),
        ([[0], [], [4, 5, 4]], "gives client 2 a sample twice"),
        (lambda labels: [], "raises TypeError"),
        (lambda labels, clients, rng: print, "returns a function"),
        (lambda labels, clients, rng: [[0.5]] * 3, "part 0 is float64"),
    ],
)
def test_partitions_that_are_refused(value, said):
    with pytest.raises(ScenarioError) as refused:
        assigned(value, 3)
    assert said in refused.value.message


@pytest.mark.parametrize("value", [3, "iid", [0.5], [[[1]]], [["a"]], [None]])
def test_what_is_no_partition(value):
    with pytest.raises(SimflError, match="learning.partition: a list of arrays of positions"):
        handles.take("learning.partition", value)
