"""Damaged data and network files: one line or a data set, whatever the bytes; headers and content refuse alike."""

import bz2
import gzip
import io
import struct
from pathlib import Path
from types import SimpleNamespace

import networkx
import numpy as np
import pytest

from simfl.core.errors import SimflError
from simfl.core.rng import Streams
from simfl.learning.data.base import DATA
from simfl.network.base import NETWORKS

DAMAGES = 60
SCENARIO = SimpleNamespace(clients=2, file=Path)
RNG = np.random.default_rng(7)


def archive(save, **arrays):
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def graph(write):
    made = networkx.Graph()
    made.add_edge("s", "a", latency_s=0.1)
    made.add_edge("a", "b", latency_s=0.2, bandwidth_bytes_per_s=5.0)
    file = io.BytesIO()
    write(made, file)
    return file.getvalue()


def idx(shape):
    head = bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape)
    return gzip.compress(head + RNG.integers(0, 10, int(np.prod(shape)), dtype=np.uint8).tobytes())


LABELS = {"y_train": np.arange(6) % 3, "y_test": np.array([0, 1])}
IMAGES = {"x_train": RNG.normal(size=(6, 2, 2)), "x_test": RNG.normal(size=(2, 2, 2))}
TABLE = b"a,b,t,y\n" + b"".join(b"%d,%f,t%d,%d\n" % (i, i / 3, i % 3, i % 2) for i in range(20))
MNIST = {
    "train-images-idx3-ubyte.gz": idx((6, 4, 4)),
    "train-labels-idx1-ubyte.gz": idx((6,)),
    "t10k-images-idx3-ubyte.gz": idx((2, 4, 4)),
    "t10k-labels-idx1-ubyte.gz": idx((2,)),
}
DATA_FILES = {
    "a.npz": archive(np.savez, **IMAGES, **LABELS, label_names=np.array(["a", "b", "c"])),
    "b.npz": archive(np.savez_compressed, **IMAGES, **LABELS),
    "a.csv": TABLE,
    "a.csv.gz": gzip.compress(TABLE),
    "a.csv.bz2": bz2.compress(TABLE),
    "MNIST/raw/train-images-idx3-ubyte.gz": MNIST["train-images-idx3-ubyte.gz"],
}
NETWORK_FILES = {
    "a.graphml": graph(networkx.write_graphml),
    "a.gexf": graph(networkx.write_gexf),
    "a.csv": b"src,dst,latency_s\ns,a,1\na,b,2\n",
    "b.csv": b"-,s,a,b\ns,,1,2\na,1,,3\nb,2,3,\n",
}


def damaged(content, rng):
    data = bytearray(content)
    for _ in range(rng.integers(1, 6)):
        place = rng.integers(len(data)) if data else 0
        match rng.integers(4):
            case 0:
                data[place : place + 1] = bytes([rng.integers(256)])
            case 1:
                del data[place : place + rng.integers(1, 20)]
            case 2:
                data[place:place] = rng.bytes(rng.integers(1, 8))
            case 3:
                data[place : place + 1] = data[place // 2 : place // 2 + 1]
    return bytes(data)


def survives(build):
    """Whether it could be built; if not, the reason is one line."""
    try:
        build()
    except SimflError as error:
        assert "\n" not in str(error) and error.exit_code in (2, 5)
        return False
    return True


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMFL_CACHE", "")
    (tmp_path / "MNIST" / "raw").mkdir(parents=True)
    for name, content in MNIST.items():
        (tmp_path / "MNIST" / "raw" / name).write_bytes(content)


@pytest.mark.parametrize("name", DATA_FILES)
def test_damaged_data_files(folder, name):
    fields = {"npz": {"path": name}, "csv": {"path": name, "label": "y"}, "mnist": {"root": "."}}
    kind = "mnist" if "MNIST" in name else name.split(".")[1]
    choice = DATA.of({"name": kind, **fields[kind]})
    rng = np.random.default_rng(len(name))
    Path(name).write_bytes(DATA_FILES[name])
    assert survives(lambda: choice.outline(SCENARIO)) and survives(lambda: choice.load(SCENARIO, Streams(0)))
    for _ in range(DAMAGES):
        Path(name).write_bytes(damaged(DATA_FILES[name], rng))
        seen = survives(lambda: choice.outline(SCENARIO))
        loaded = survives(lambda: choice.load(SCENARIO, Streams(0)))
        assert seen or not loaded, "what loads must not be refused by its header"


@pytest.mark.parametrize("name", NETWORK_FILES)
def test_damaged_network_files(folder, name):
    network = NETWORKS.of({"name": "file", "path": name, "server": "s"})
    rng = np.random.default_rng(len(name))
    Path(name).write_bytes(NETWORK_FILES[name])
    assert survives(lambda: network.build(SCENARIO, Streams(0)))
    for _ in range(DAMAGES):
        Path(name).write_bytes(damaged(NETWORK_FILES[name], rng))
        survives(lambda: network.build(SCENARIO, Streams(0)))
