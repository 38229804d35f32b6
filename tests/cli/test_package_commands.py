"""Commands that packages add by entry points; simfl.deployment is one of them."""

import os
import subprocess
import sys

import pytest

from simfl.cli import others
from simfl.cli import simfl as group
from simfl.core.registration.packages import docstring_of

CODE = '''"""Count the words of a file. With a second sentence."""

import click
import {slow}

@click.command("count")
@click.argument("file", type=click.File())
def command(file):
    """Count."""
    click.echo(len(file.read().split()))
'''


@pytest.fixture
def installed(tmp_path):
    """Installs a package with commands; what calls simfl beside it."""

    def install(commands, code=None, name="counting"):
        site = tmp_path / "site"
        (site / f"{name}-1.5.dist-info").mkdir(parents=True)
        (site / f"{name}-1.5.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        lines = [f"{command} = {name}.inner:command\n" for command in commands]
        (site / f"{name}-1.5.dist-info" / "entry_points.txt").write_text("[simfl.command]\n" + "".join(lines))
        (site / name).mkdir()
        (site / name / "__init__.py").write_text("raise RuntimeError('help imports nothing')" if code == "" else "")
        (site / name / "inner.py").write_text(code or CODE.format(slow="numpy"))

        def call(*words, python=("-m", "simfl")):
            path = os.pathsep.join([str(site), *sys.path])
            return subprocess.run([sys.executable, *python, *map(str, words)], text=True, capture_output=True,
                                  env=os.environ | {"PYTHONPATH": path}, cwd=tmp_path)  # fmt: skip

        return call

    return install


def test_a_command_of_another_package_is_listed_and_called(installed, tmp_path):
    (tmp_path / "words.txt").write_text("one two three")
    call = installed(["count", "count words"])
    assert call("count", "words.txt").stdout == call("count", "words", "words.txt").stdout == "3\n"
    shown = call("--help")
    assert "Of counting:\n  count        Count the words of a file.\n  count words  Count the words" in shown.stdout
    assert not shown.stderr
    near = call("cuont")
    assert near.returncode == 2 and "Did you mean 'count'?" in near.stderr


def test_help_imports_no_command_of_a_package(installed):
    code = """import sys; sys.argv = ["simfl", "--help"]
from simfl.cli import main
try: main()
finally: print({"counting", "numpy", "simfl.deployment", "simfl.scenario"} & set(sys.modules), file=sys.stderr)"""
    assert installed(["count"], code="")(python=("-c", code)).stderr == "set()\n"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("run", "simfl has a command 'run'"),
        ("rm", "simfl has a command 'rm'"),
        ("run twice", "simfl has a command 'run'"),
        ("audit", "the package simfl 0.1.0 has one of this name"),
        ("serve twice", "the same package has no command 'serve'"),
        ("-x", "a name is one word or two of small letters, digits and dashes"),
    ],
)
def test_a_name_that_is_taken_or_none_is_refused_in_one_line(installed, name, why):
    call = installed([name])
    line = f"command '{name}' of the package counting 1.5 is refused: {why}\n"
    assert call("--help").stderr == line
    assert "Of counting" not in call("--help").stdout
    if name == "run":
        assert call("run", "--help").stdout.startswith("Usage: simfl run ") and not call("run", "--help").stderr
        assert line in call("doctor").stdout


def test_an_entry_point_that_names_no_module_is_refused(installed, tmp_path):
    call = installed(["count"])
    (tmp_path / "site/counting-1.5.dist-info/entry_points.txt").write_text("[simfl.command]\ncount = no module: here\n")
    shown = call("--help")
    assert shown.returncode == 0 and shown.stderr.endswith("is refused: 'no module: here' names no module\n")


def test_a_command_that_does_not_load_or_fails_is_its_packages_fault(installed, tmp_path):
    call = installed(["count"], code=CODE.format(slow="nowhere"))
    done = call("count", "x")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "command 'count' of the package counting 1.5: does not load: " in done.stderr
    assert "No module named 'nowhere'" in done.stderr and not call("--help").stderr
    (tmp_path / "site" / "counting" / "inner.py").write_text("command = 3")
    assert "counting.inner:command is no command of click" in call("count").stderr
    (tmp_path / "words.txt").write_text("one")
    (tmp_path / "site" / "counting" / "inner.py").write_text(CODE.format(slow="os").replace("len(", "1 / 0, ("))
    done = call("count", "words.txt")
    assert done.returncode == 1 and done.stderr.startswith("command 'count' of the package counting 1.5 failed: ")
    assert "inner.py:10: ZeroDivisionError" in done.stderr and done.stderr.count("\n") == 1


def test_help_of_a_package_is_that_of_its_command():
    for name, entry in others().entries.items():
        assert docstring_of(entry.module) == entry.load().get_short_help_str(500), name
        assert isinstance(group.get_command(None, name), type(entry.load()))


@pytest.mark.parametrize(
    "module", ["no.such.module", "numpy.no", "tests.cli", "simfl.deployment.templates", "sys", "", "a..b"]
)
def test_modules_without_a_docstring_to_read(module):
    assert docstring_of(module) in ("", "Tests of simfl.cli.")


def test_what_is_missing_without_the_deployment_package_is_one_line(monkeypatch):
    import simfl

    monkeypatch.setattr("simfl.core.registration.packages._entry_points", dict)
    with pytest.raises(AttributeError, match=r"^simfl.forecast is of simfl.deployment, which no"):
        simfl.forecast  # noqa: B018
    assert not hasattr(simfl, "audit") and "audit" not in dir(simfl)
    monkeypatch.undo()
    assert callable(simfl.forecast) and callable(simfl.advise) and callable(simfl.audit.audit)
