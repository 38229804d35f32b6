"""A validation part of the test data, runs that end by it, and the weighted mean of clients' accuracies."""

import numpy as np
import pandas
import pytest

import simfl
from simfl.core.errors import SimflError
from simfl.core.rng import Streams
from simfl.learning.scores import EvaluationSettings, client_scores

SMALL = {"clients": 12, "learning.data": "digits:samples=300", "training.rounds": 40, "training.learning_rate": 0.5}


def test_the_parts_are_disjoint_and_whole():
    for share, samples in ((0.3, None), (0.5, 20), (0.01, None)):
        tested, validated = EvaluationSettings(validation=share, samples=samples).parts(200, Streams(4))
        assert not set(tested) & set(validated) and len(validated) == round(share * 200)
        assert len(tested) == (samples or 200 - len(validated))
    assert EvaluationSettings().parts(5, Streams(0))[1] is None


@pytest.mark.parametrize("patience", [1, 3])
def test_it_ends_after_so_many_models_without_a_better_loss(patience, tmp_path):
    keys = SMALL | {"learning.evaluate": {"validation": 0.4}}
    whole = pandas.read_csv(simfl.run("quickstart", keys, out=tmp_path).path / "rounds.csv")
    ended = simfl.run("quickstart", keys | {"training.stop": {"patience": patience}}, out=tmp_path)
    best, since, played = np.inf, 0, 0
    for loss, skipped in zip(whole.validation_loss, whole.skipped, strict=True):
        played += 1
        if skipped:
            continue  # the model is the same
        best, since = (loss, 0) if loss < best else (best, since + 1)
        if since == patience:
            break
    rows = pandas.read_csv(ended.path / "rounds.csv")
    assert len(rows) == played < 40
    assert rows.validation_loss.tolist() == whole.validation_loss[:played].tolist()


def test_no_validation_leaves_test_numbers_as_they_were(tmp_path):
    one = simfl.run("quickstart", SMALL | {"training.rounds": 2}, out=tmp_path)
    other = simfl.run(
        "quickstart", SMALL | {"training.rounds": 2, "learning.evaluate": {"validation": 0}}, out=tmp_path
    )
    assert one.path == other.path


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"training.stop": {"patience": 2}}, "training.stop.patience: needs a validation part"),
        ({"training.stop": {"patience": 2}, "training.rounds": None, "learning.evaluate": {"validation": 0.3}},
         "training.rounds: is needed beside stop.patience"),
        ({"learning.evaluate": {"validation": 0.3}, "learning.holdout": {"test_samples": 5}}, "use holdout.test"),
        ({"learning.evaluate": {"validation": 0.3, "every": 0}, "training.stop": {"patience": 2}}, "validation part"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(keys, line):
    with pytest.raises(SimflError) as error:
        simfl.load("quickstart", SMALL | keys)
    assert line in str(error.value)


def test_a_part_without_a_sample_is_refused(tmp_path):
    with pytest.raises(SimflError, match=r"evaluate.validation: is 0.001"):
        simfl.run("quickstart", SMALL | {"learning.evaluate": {"validation": 0.001}}, out=tmp_path)


def test_the_weighted_mean_is_the_share_of_all_samples():
    right, samples = np.array([3, 0, 10]), np.array([4, 1, 20])
    scores = client_scores(right / samples, samples, "accuracy")
    assert scores["client_accuracy_weighted"] == pytest.approx(right.sum() / samples.sum())
    assert scores["client_accuracy_mean"] == pytest.approx((0.75 + 0 + 0.5) / 3)


def test_it_is_reported(tmp_path):
    keys = SMALL | {"training.rounds": 2, "learning.evaluate": {"per_client": True}, "learning.holdout": {"test": 0.4},
                    "learning.partition": "quantity"}  # fmt: skip
    done = simfl.run("quickstart", keys, out=tmp_path)
    last = pandas.read_csv(done.path / "rounds.csv").iloc[-1]
    assert last.client_accuracy_min <= last.client_accuracy_weighted <= 1
    assert last.client_accuracy_weighted != last.client_accuracy_mean
