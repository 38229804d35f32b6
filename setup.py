"""Which packages are installed, and the built-in scenarios among them; all else stands in setup.cfg."""

from setuptools import find_packages, setup

BUILTIN = "simfl.scenario.builtin_files"
"""What the checkout's ``scenarios/`` is called where simfl is installed."""

setup(packages=[*find_packages(include=["simfl", "simfl.*"]), BUILTIN], package_dir={BUILTIN: "scenarios"})
