"""The data of the thesis: Adult's complete rows, KDD 99, digits between 0 and 1."""

import gzip

import numpy as np
import pytest

from simfl.core.errors import MissingError, ScenarioError
from simfl.core.rng import Streams
from simfl.core.storage.data_folder import data_root
from simfl.learning.data.base import DATA

ADULT = "{age}, {work}, 10, Bachelors, 13, Married, Sales, Wife, White, Female, {gain}, 0, 40, Peru, {income}\n"


class Here:
    """A scenario in a folder."""

    def __init__(self, folder=None):
        self.folder = folder

    def file(self, name):
        return self.folder / name if self.folder else name


def load(folder=None, **fields):
    return DATA.of(fields).load(Here(folder), Streams(0))


def real(name):
    root = data_root()
    if root is None or not any((root / name).glob("*")):
        pytest.skip(f"no {name} in the data folder (SIMFL_DATA)")


def adult(folder):
    rows = [{"age": 20 + i, "work": "?" if i % 5 == 0 else "Private", "gain": i, "income": "<=50K" if i % 3 else ">50K"}
            for i in range(40)]  # fmt: skip
    (folder / "adult.data").write_text("".join(ADULT.format(**row) for row in rows[:30]))
    test = "".join(ADULT.format(**row).replace("K\n", "K.\n") for row in rows[30:])
    (folder / "adult.test").write_text("|a comment\n" + test)


def kdd(folder, label="normal.", columns=42):
    lines = []
    for i in range(20):
        cells = [str(i + column) for column in range(columns - 1)]
        cells[1:4] = ["tcp" if i % 2 else "udp", "http", "SF"]
        lines.append(",".join([*cells, ("smurf.", "perl.", label, label)[i % 4]]))
    (folder / "kddcup.data_10_percent.gz").write_bytes(gzip.compress("\n".join(lines).encode()))


def test_rows_of_adult_with_gaps_are_left_out(tmp_path):
    adult(tmp_path)
    data = load(tmp_path, name="adult_complete", root=".", test_fraction=0.25)
    assert len(data.y_train) + len(data.y_test) == 32 and len(data.y_test) == 8
    x, y = np.concatenate([data.x_train, data.x_test]), np.concatenate([data.y_train, data.y_test])
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, rtol=1e-6)
    assert y.sum() == sum(i % 3 == 0 and i % 5 != 0 for i in range(40)) and data.label_names == ("<=50K", ">50K")
    assert x.shape[1] == 6 + 8 and (x >= 0).all()


def test_kdd_is_normal_or_an_attack_and_rare_keeps_those_that_gain_access(tmp_path):
    kdd(tmp_path)
    every = load(tmp_path, name="kddcup99", root=".", test_fraction=0.5)
    assert len(every.y_train) == 10 and every.y_train.sum() + every.y_test.sum() == 10
    assert every.x_train.shape[1] == 38 + 4
    rare = load(tmp_path, name="kddcup99", root=".", attacks="rare")
    assert len(rare.y_train) + len(rare.y_test) == 15 and rare.y_train.sum() + rare.y_test.sum() == 5
    assert len(load(tmp_path, name="kddcup99", root=".", rows=12).y_train) == 9


def test_what_is_not_kdd_is_refused_in_one_line(tmp_path):
    with pytest.raises(MissingError, match="no kddcup.data_10_percent.gz"):
        load(tmp_path, name="kddcup99", root=".")
    kdd(tmp_path, columns=41)
    with pytest.raises(ScenarioError, match="is no table of 42 columns without gaps"):
        load(tmp_path, name="kddcup99", root=".")


def test_digits_lie_between_nothing_and_one_and_the_last_ones_are_tested():
    data = load(name="privacyfl_digits")
    assert data.x_train.shape == (1497, 64) and data.x_test.shape == (300, 64)
    assert data.x_train.min() == 0 and data.x_train.max() == 1


def test_adult_has_the_published_rows_and_columns():
    real("adult")
    data = load(name="adult_complete")
    assert len(data.y_train) + len(data.y_test) == 45_222 and data.y_train.sum() + data.y_test.sum() == 11_208
    assert data.x_train.shape[1] == 98 + 6


@pytest.mark.slow
def test_kdd_has_the_published_rows():
    real("kddcup99")
    data = load(name="kddcup99")
    assert len(data.y_train) + len(data.y_test) == 494_021 and data.x_train.shape[1] == 118
    assert (data.y_train == 0).sum() + (data.y_test == 0).sum() == 97_278
