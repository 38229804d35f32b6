"""The worked examples in the docstrings of the protocols of plugin families print what they say."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import simfl

HOME = Path(simfl.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(HOME.parent).with_suffix("").parts)
    for path in HOME.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_protocol_print_what_they_say(name):
    result = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted and not result.failed
