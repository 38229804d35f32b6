"""What a message proposes is what was meant, or nothing: mistyped names, and words of other tools."""

import re
from pathlib import Path

import numpy as np
import pandas
import pytest

from simfl.core.errors import nearest
from simfl.scenario import Scenario
from simfl.scenario.messages.elsewhere import EXPLAINED, SHARES, WORDS, counterparts
from tests.support import misspellings
from tests.support.misspellings import BASE, chosen, homes, message, misspelt, places, proposals

VALUES = {
    "backend": "auto", "loss": "cross_entropy",
    "rounds": 3, "local_epochs": 2, "local_steps": 5, "batch_size": 8, "learning_rate": 0.1, "decay": 0.5,
    "decay_at": [2], "weight_decay": 0.01, "clip_norm": 1.0, "mu": 0.1, "weighting": "equal", "momentum": 0.9,
    "server_learning_rate": 0.5, "server_optimiser": "adam", "deadline_s": 9, "buffer": 4, "concurrency": 8,
    "staleness": "polynomial", "k": 4, "clients": 30, "seed": 3, "data": "digits", "model": "mlp", "partition": "iid",
    "beta": 0.5, "device": "cpu", "every": 2, "dropout": 0.1, "probability": 0.1, "path": "trace.csv",
    "profiles": "devices.csv", "secagg": "secagg", "compression": "sign", "selection": "random", "privacy": "none",
    "training": "fedavg", "down_bytes_per_s": 1e6, "bandwidth_bytes_per_s": 1e6,
}  # fmt: skip
"""For each key that a hint names, a value that is valid there."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files that hints name: data with clients, a trace, and devices."""
    folder = tmp_path_factory.mktemp("files")
    samples = np.random.default_rng(0).random((80, 4)).round(2).tolist()
    table = pandas.DataFrame({"x": samples, "label": [0, 1] * 40, "client_id": np.repeat(np.arange(40), 2)})
    table.to_parquet(folder / "table.parquet")
    (folder / "trace.csv").write_text("client,start_s,end_s\n0,0,100\n")
    (folder / "devices.csv").write_text("client,latency_s\n" + "".join(f"{i},0.1\n" for i in range(40)))
    return folder


def written(proposal, place):
    """A proposal as an override: a key gets a value, a plugin the place at which it was looked for."""
    if proposal.endswith("=..."):
        return proposal.replace("...", str(VALUES[proposal.removesuffix("=...").split(":")[-1]]))
    if "=" in proposal.partition(":")[0]:
        return re.sub(r"path=\w+", "path=table", proposal)
    if place:
        return re.sub(r"path=\w+", "path=table", f"{place}={proposal}")
    return f"{proposal}={VALUES[proposal.split('.')[-1]]}"


@pytest.mark.parametrize("here", WORDS)
def test_every_hint_written_as_it_says_is_valid(here, files, monkeypatch):
    monkeypatch.setenv("SIMFL_DATA", str(files))
    for word in WORDS[here].split():
        key = any(parts[0].key for parts in counterparts(word))
        place = "" if key else ".".join(counterparts(word)[0][0].place)
        line = message([f"{word}=0.5" if key else f"{place}={word}"], word if key else place)
        given = [written(one, place) for one in proposals(line)]
        assert given, (word, line)
        for overrides in [[one] for one in given] if "' or '" in line else [given]:
            Scenario.parse(BASE, "mine", overrides)


@pytest.mark.parametrize("word", SHARES.split())
@pytest.mark.parametrize(("share", "clients"), [(0.1, 4), (0.33, 13), (1.0, 40), (0.001, 1)])
def test_a_share_is_said_in_clients(word, share, clients):
    line = message([f"{word}={share}"], word)
    assert line.endswith(f"did you mean 'selection.k'? ({share} of 40 clients is {clients})")
    assert "clients is" not in message([f"{word}=4"], word), "a number of clients is no share"


@pytest.mark.parametrize(
    ("override", "right"),
    [
        ("num_rounds=3", ["training.rounds"]),
        ("training.num_rounds=3", ["rounds"]),
        ("learning.partition=non_iid", ["dirichlet:beta=0.1", "shards", "label_skew"]),
        ("learning.model=resnet18", ["resnet18_bn", "resnet18_gn"]),
        ("learning.model=vgg16", []),
        ("learning.data=femnist", ["parquet:path=femnist.parquet", "learning.partition=natural"]),
        ("learning.data=kmnist", ["parquet:path=kmnist.parquet"]),
        ("epochs_per_round=3", ["training.local_epochs"]),
        ("num_clients_per_round=3", ["selection.k"]),
        ("proportion=0.2", ["selection.k"]),
        ("training=qfedavg", []),
        ("training=fedmedian", ["training.aggregate=median", "training.weighting=equal"]),
        ("dropout_rate=0.2", ["devices.availability.dropout", "devices.failure=bernoulli:probability=..."]),
        ("training.buffer_size=4", ["training=fedbuff:buffer=..."]),
        ("server_lr=0.2", ["training.server_learning_rate"]),
        ("device_id=3", ["learning.device"]),
        ("training.optimizer=adam", []),
    ],
)
def test_words_of_other_tools_say_what_they_are_here(override, right):
    assert proposals(message([override], override.partition("=")[0])) == right


PAGES = sorted((Path(__file__).parents[2] / "docs/how-to/from").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_the_pages_say_of_words_is_what_messages_say(page):
    rows = re.findall(r"^\| (`.*) \| (`.*) \|$", page.read_text(), re.M)
    assert len(rows) >= 10 and len(page.read_text().splitlines()) <= 60
    for theirs, ours in rows:
        (here, *_) = re.findall(r"`([\w.]+)(?:: (?:\{name: )?(\w+))?", ours)
        for word, name in re.findall(r"`(\w+)(?:: (\w+))?`", theirs):
            plugins = [parts[0].place for parts in counterparts(name) if not parts[0].key]
            keys = [(*parts[0].place, parts[0].key) for parts in counterparts(word)]
            place = ".".join([*plugins, *keys][0]) if name else word
            line = message([f"{place}={name}" if name else f"{word}=0.5"], place)
            wanted = here[0].rpartition(".")[2] if here[0] != place or not name else here[1]
            assert any(wanted in one and (not name or here[1] in one) for one in proposals(line)), (word, name, line)


def test_a_word_without_its_section_names_the_place_and_no_plugin():
    text = "clients: 4\nselection: all\nnum_rounds: 3\n"
    assert proposals(message([], "num_rounds", text)) == ["training.rounds"]


def test_a_file_is_answered_as_a_file_is_written():
    text = BASE.replace("name: fedavg, rounds: 10", "name: fedprox")
    assert proposals(message([], "training", text)) == ["training.client: {name: fedprox, mu: 0.1}"]


@pytest.mark.parametrize("word", [word for words in EXPLAINED.values() for word in words.split()])
def test_words_without_a_counterpart_are_explained_and_stand_for_no_key(word):
    assert not counterparts(word)
    assert proposals(message([f"{word}=0.5"], word)) == [] and "the keys are" not in message([f"{word}=0.5"], word)


def test_no_word_is_a_key_or_plugin_of_the_place_it_is_explained_for():
    """A word of the table that is valid here would hide what is written."""
    known = {path: set(registry) for path, (_, registry) in places().items()}
    for word in {word for words in WORDS.values() for word in words.split()}:
        for parts in counterparts(word):
            if not parts[0].key:
                assert word not in known.get(parts[0].place, ()), word


def test_a_mistyped_key_is_answered_rightly_or_not_at_all():
    rng = np.random.default_rng(5)
    cases = [(path, choices, key, keys) for path, choices, keys in homes() for key in keys if len(key) > 2]
    wrong, right = [], 0
    for path, choices, key, keys in (cases[i] for i in rng.choice(len(cases), 60, replace=False)):
        word = misspelt(key, rng)
        if not word.isidentifier() or word in keys or counterparts(word):
            continue
        about = ".".join((*path, word))
        given = proposals(message([*chosen(choices), f"{about}=1"], about))
        ends = {one.split(":")[-1].split(".")[-1].split("=")[0] for one in given}
        right += ends == {key}
        wrong += [(about, given)] if given and ends != {key} else []
    assert len(wrong) <= 1 and right > 48, wrong


def test_a_mistyped_plugin_is_answered_rightly_or_not_at_all():
    rng = np.random.default_rng(6)
    cases = [(path, choices, name, registry) for path, (choices, registry) in places().items() for name in registry]
    wrong, right = [], 0
    for path, choices, name, registry in (cases[i] for i in rng.choice(len(cases), 40, replace=False)):
        word, place = misspelt(name, rng), ".".join(path)
        if not word.isidentifier() or word in registry or counterparts(word):
            continue
        given = proposals(message([*chosen(choices), f"{place}={word}"], place))
        right += [one.split(":")[0] for one in given] == [name]
        wrong += [(place, word, given)] if given and [one.split(":")[0] for one in given] != [name] else []
    assert not wrong and right > 30, wrong


@pytest.mark.parametrize(
    ("word", "known", "near"),
    [
        ("femnist", ["mnist", "fashion_mnist"], None),
        ("non_iid", ["iid", "natural"], None),
        ("vgg16", ["vgg11"], None),
        ("learning_rate_decay", ["learning", "learning_rate"], None),
        ("accuracy", ["test_accuracy", "time_s"], "test_accuracy"),
        ("eslection", ["selection", "seed"], "selection"),
        ("quikstart", ["quickstart"], "quickstart"),
        ("rounds", ["round", "training"], "round"),
        ("", ["a"], None),
    ],
)
def test_the_nearest_word(word, known, near):
    assert nearest(word, known) == near


def test_the_generator_reaches_every_kind_of_place():
    paths = {path for path, _, _ in misspellings.homes()}
    assert {(), ("training",), ("learning", "partition"), ("devices", "availability")} <= paths
