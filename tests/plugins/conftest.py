"""Scenarios that are run, or only looked at, with the plugins of a file of a user."""

import json

import pytest
from click.testing import CliRunner

from simfl.cli import simfl
from simfl.core.registration.family_index import FAMILIES

BASE = """clients: 6
selection: all
training: {name: fedavg, rounds: 4, weighting: equal, batch_size: 50}
learning: {data: digits, model: logistic}
secagg: ideal
"""
HEAD = """
from dataclasses import dataclass
import numpy as np
from simfl.plugins import Aggregate
from simfl.training.aggregates import Mean
from simfl.plugins.clients import CLIENTS, ClientAlgorithm, LocalPass, LocalResult, Upload
from simfl.plugins.compression import COMPRESSIONS, Compression
from simfl.plugins.privacy import STAGES, Clip, PerClient, Stage
from simfl.plugins.secagg import PROTOCOLS, Protocol, SessionResult
from simfl.plugins.training import AGGREGATES, RULES, FedAvg
"""


@pytest.fixture
def play(tmp_path):
    def play(plugin, *overrides, base=BASE, command="run"):
        (tmp_path / "base.yaml").write_text(base)
        own = tmp_path / f"own{len(list(tmp_path.glob('own*')))}.py"  # a file is loaded once
        own.write_text(f"# {own}\n{HEAD}{plugin}")
        out = ["--out", str(tmp_path / "runs")] if command == "run" else []
        words = [command, str(tmp_path / "base.yaml"), *overrides, "--plugin", str(own), *out, "--json"]
        others = {}  # plugins of other tests, which may have the same names
        for registry in FAMILIES.values():
            foreign = [name for name, cls in registry._plugins.items() if not cls.__module__.startswith("simfl.")]
            others[registry] = {name: registry._plugins.pop(name) for name in foreign}
        done = CliRunner().invoke(simfl, words)
        for registry, known in others.items():
            for name in [name for name, cls in registry._plugins.items() if not cls.__module__.startswith("simfl.")]:
                del registry._plugins[name]
            registry._plugins.update(known)
        return done, json.loads(done.stdout) if done.exit_code == 0 else {"output": done.output}

    return play
