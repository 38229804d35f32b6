"""Own samples of clients, partitions of few classes, and transforms that differ between training and test."""

import numpy as np
import pytest

from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.learning.data.base import Dataset
from simfl.learning.holdout import Holdout
from simfl.learning.partitions.base import PARTITIONS, Split
from simfl.learning.transforms.base import TRANSFORMS
from simfl.scenario import InvalidScenario, Scenario


def dataset(n=600, m=200, classes=4, shape=(3,)):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(k, *shape)).astype(np.float32) for k in (n, m)]
    return Dataset(parts[0], np.arange(n) % classes, parts[1], np.arange(m) % classes, tuple("abcd"[:classes]))


def few(data, clients=6, **fields):
    return PARTITIONS["few_classes"](**fields).split(data, clients, np.random.default_rng(3))


def test_a_client_holds_so_many_samples_of_so_many_classes():
    data = dataset()
    split = few(data, classes=2, samples=40)
    assert len(set(split.indices.tolist())) == len(split.indices) == 6 * 80
    for client in range(6):
        counts = np.bincount(data.y_train[split[client]], minlength=4)
        assert sorted(counts.tolist()) == [0, 0, 40, 40]
    with pytest.raises(ScenarioError, match="nearest valid value is 50"):
        few(data, classes=2, samples=51)
    assert len(few(data, classes=2, samples=50)) == 6


def test_parts_are_disjoint_complete_and_even_in_every_class():
    data = dataset()
    split = few(data, classes=2, samples=40)
    held = Holdout(validation=0.5, test=0.25).split(data, split, np.random.default_rng(1))
    assert not held.foreign
    for client in range(6):
        parts = [part[client] for part in held[:3]]
        assert sorted(np.concatenate(parts).tolist()) == sorted(split[client].tolist())
        for part, each in zip(parts, (10, 20, 10), strict=True):
            counts = np.bincount(data.y_train[part], minlength=4)
            assert sorted(counts.tolist()) == [0, 0, each, each]


def test_without_shares_everything_is_trained_on_as_before():
    data = dataset()
    split = Split.of([np.array([5, 3, 9]), np.array([], dtype=int), np.array([2, 2])])
    held = Holdout().split(data, split, np.random.default_rng(1))
    assert np.array_equal(held.training.indices, split.indices)
    assert np.array_equal(held.training.offsets, split.offsets)
    assert not len(held.validation.indices) and not len(held.test.indices)


def test_foreign_test_samples_have_the_clients_classes():
    data = dataset()
    split = few(data, classes=2, samples=40)
    held = Holdout(validation=0.5, test_samples=30).split(data, split, np.random.default_rng(1))
    assert held.foreign and held.test.sizes.tolist() == [30] * 6
    for client in range(6):
        own = set(data.y_train[held.training[client]].tolist())
        counts = np.bincount(data.y_test[held.test[client]], minlength=4)
        assert {label for label in range(4) if counts[label]} == own and sorted(counts.tolist())[2:] == [15, 15]
        assert len(set(held.test[client].tolist())) == 30
    most = Holdout(test_samples=10**6).split(data, split, np.random.default_rng(1))
    assert most.test.sizes.tolist() == [100] * 6


def test_nothing_left_to_train_on_is_refused():
    with pytest.raises(ScenarioError, match="leaves nothing"):
        Holdout(validation=0.6, test=0.4).split(dataset(), Split.of([np.arange(5)]), np.random.default_rng(0))


# -- transforms ----------------------------------------------------------------------------------------


def images(shape=(1, 9, 9)):
    data = dataset(400, 100, 4, shape)
    x = np.abs(data.x_train)
    x[:, :, 0, 0] = 0
    return Dataset(x, data.y_train, np.abs(data.x_test), data.y_test, data.label_names)


def hues(x):
    """The direction of each image's colour, before normalisation undone up to shift and scale: its brightest pixel."""
    flat = x.reshape(*x.shape[:2], -1)
    return flat.max(axis=2) - flat.min(axis=2)


def test_without_noise_colour_tells_the_class_and_test_colours_differ():
    data = images()
    for test in ("same", "permuted", "white"):
        made = TRANSFORMS["colours"](noise=0.0, test=test).apply(data, Streams(0))
        assert made.x_train.shape == (400, 3, 9, 9) and made.shape == (3, 9, 9)
        worn = [np.median(hues(made.x_train)[made.y_train == c], axis=0) for c in range(4)]
        seen = [np.median(hues(made.x_test)[made.y_test == c], axis=0) for c in range(4)]
        lit = np.array(worn) > 1e-3
        shown = np.array(seen) > 1e-3
        assert len({tuple(row) for row in lit.tolist()}) == 4  # hues of four classes light different channels
        if test == "same":
            assert np.array_equal(lit, shown)
        elif test == "permuted":
            assert not (lit == shown).all(axis=1).any()
            assert {tuple(row) for row in lit.tolist()} == {tuple(row) for row in shown.tolist()}
        else:
            assert shown.all()
    assert np.abs(made.x_train.mean(axis=(0, 2, 3))).max() < 1e-5


def test_noise_is_the_share_of_strange_hues():
    plain = TRANSFORMS["colours"](noise=0.0, test="same").apply(images(), Streams(0))
    noisy = TRANSFORMS["colours"](noise=0.5, test="same").apply(images(), Streams(0))
    other = ((hues(plain.x_train) > 1e-3) != (hues(noisy.x_train) > 1e-3)).any(axis=1).mean()
    assert 0.25 < other < 0.5  # half of them draw a class, a quarter of those their own


def test_colours_take_grey_images_only():
    with pytest.raises(ScenarioError, match="one channel"):
        TRANSFORMS["colours"]().apply(images((3, 9, 9)), Streams(0))


def test_fixed_rotation_is_scipys_and_the_test_part_stands_upright():
    from scipy.ndimage import rotate

    data = images()
    made = TRANSFORMS["rotation"](angles="fixed", step_degrees=20).apply(data, Streams(0))
    assert made.x_test is data.x_test
    for i, angle in enumerate((20, -20, 40, -40)):
        want = rotate(data.x_train[i, 0], angle, reshape=False, order=1, cval=float(data.x_train.min()))
        np.testing.assert_allclose(made.x_train[i, 0], want, atol=1e-5)
    both = TRANSFORMS["rotation"](angles="fixed", step_degrees=20, test="same").apply(data, Streams(0))
    assert not np.array_equal(both.x_test, data.x_test)


def test_a_range_of_angles_is_drawn_for_each_image():
    data = images()
    data.x_train[:] = data.x_train[0]
    made = TRANSFORMS["rotation"](step_degrees=30).apply(data, Streams(0))
    assert len({image.tobytes() for image in made.x_train}) == len(made.x_train)
    again = TRANSFORMS["rotation"](step_degrees=30).apply(data, Streams(0))
    assert np.array_equal(made.x_train, again.x_train)


@pytest.mark.parametrize("name", ["growing", "resampled"])
def test_what_changes_with_the_model_cannot_be_set_aside_once(name):
    text = """
clients: 4
selection: {name: random, k: 2}
training: {name: fedavg, rounds: 1}
learning: {data: digits, model: mlp, holdout: {test: 0.5}, partition: PARTITION}
"""
    example = PARTITIONS[name].example
    keys = "".join(f", {key}: {value}" for key, value in example.items())
    with pytest.raises(InvalidScenario) as caught:
        Scenario.parse(text.replace("PARTITION", f"{{name: {name}{keys}}}"), "s")
    (problem,) = caught.value.problems
    assert problem.key == "learning.holdout" and "leave one of the two out" in problem.message


def test_images_are_normalised_by_the_given_numbers_and_mirrored():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (20, 3, 4, 5))
    pixels[0, :, 0, 0], pixels[1, :, 0, 0] = 0, 255
    scaled = ((pixels - pixels.mean((0, 2, 3), keepdims=True)) / pixels.std((0, 2, 3), keepdims=True)).astype("f4")
    labels = np.arange(20) % 3
    columns = {"box": np.arange(20)}
    data = Dataset(scaled[:15], labels[:15], scaled[15:], labels[15:], ("a", "b", "c"), {"box": columns["box"][:15]})
    mean, deviation = (0.5, 0.4, 0.45), (0.2, 0.25, 0.3)
    choice = TRANSFORMS["images"](mean=mean, deviation=deviation, copies=("left_right", "upside_down"))
    made = choice.apply(data, Streams(0))
    expected = (pixels / 255 - np.reshape(mean, (3, 1, 1))) / np.reshape(deviation, (3, 1, 1))
    np.testing.assert_allclose(made.x_test, expected[15:], atol=1e-5)
    mirrored = [expected[:15], expected[:15, :, :, ::-1], expected[:15, :, ::-1]]
    np.testing.assert_allclose(made.x_train, np.concatenate(mirrored), atol=1e-5)
    assert np.array_equal(made.y_train, np.tile(labels[:15], 3)) and made.x_train.dtype == np.float32
    assert np.array_equal(made.columns["box"], np.tile(np.arange(15), 3))
    assert TRANSFORMS["images"]().apply(data, Streams(0)).x_train is data.x_train
    with pytest.raises(ScenarioError, match="has 1 numbers, and the images have 3 channels"):
        TRANSFORMS["images"](mean=(0.5,), deviation=(0.2,)).apply(data, Streams(0))
    assert TRANSFORMS["images"](mean=(0.5,)).check(None) == [
        ("deviation", "is missing beside mean: give both, or neither")
    ]
