"""The gallery names a small run of every shipped scenario, and each is a valid one."""

import importlib.util
from pathlib import Path

import pytest

import simfl

HERE = Path(__file__).resolve().parents[2]


def gallery():
    spec = importlib.util.spec_from_file_location("gallery", HERE / "docs" / "site" / "gallery.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SMALL


def test_every_scenario_has_its_place():
    assert set(gallery()) == {path.stem for path in (HERE / "scenarios").glob("*.yaml")}


@pytest.mark.parametrize("name", sorted(gallery()))
def test_its_small_run_is_valid(name):
    assert simfl.load(HERE / "scenarios" / f"{name}.yaml", gallery()[name][1])
