"""``python tests/support/page.py`` executes pages of the documentation; rules: tests/whole/test_docs.py.

Each line of its standard input names a page and a folder, with a tab between them. The page is played there by a fork
of this process, as importing takes longer than playing; the answer is a line with its exit status. What it has to
complain about is in the folder's ``page.log``. Sweeps execute their runs in the fork as well, with one exception: the
page on sweeps has worker processes, whose start takes longer than most pages' runs. Forecasts have none, either.
"""

import glob
import os
import re
import shlex
import subprocess
import sys
import tomllib
import traceback
from importlib import import_module
from pathlib import Path

from click.testing import CliRunner

FENCE = re.compile(r"^(?:<!-- (?P<aside>[^>]*) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```", re.M | re.S)
FILE = re.compile(r"# ([\w.-]+\.(?:py|yaml))\n")


def blocks(text):
    """Each block's (language, code, why it is not run or "")."""
    for found in FENCE.finditer(text):
        aside = found["aside"] or ""
        yield found["language"], found["code"], aside.removeprefix("not run: ") if aside.startswith("not run") else ""


def command(line):
    """A simfl command in this process; what it printed."""
    from simfl.cli import simfl

    words = [word for text in shlex.split(line)[1:] for word in (sorted(glob.glob(text)) or [text])]
    words += ["--processes", "1"] if words[:1] in (["advise"], ["forecast"]) and "--processes" not in words else []
    done = CliRunner().invoke(simfl, words, catch_exceptions=False)
    assert done.exit_code == 0, f"{line}\n{done.output}"
    return done.stdout


def lines(code):
    """The commands of a block, each on one line."""
    return [line for line in code.replace("\\\n", " ").splitlines() if line]


def bash(code):
    """The block's commands; what the last one printed."""
    said = ""
    for line in lines(code):
        if line.startswith("simfl "):
            said = command(line)
        else:
            said = subprocess.run(["bash", "-euc", line], check=True, stdout=subprocess.PIPE, text=True).stdout
    return said


def play(text, name):
    """Executes every block of a page that is not marked."""
    said, variables = "", {"__name__": "page"}
    for language, code, why in blocks(text):
        if file := FILE.match(code):
            Path(file[1]).write_text(code)
        if why:
            continue
        if language == "bash":
            said = bash(code)
        elif language == "python" and not file:
            exec(compile(code, name, "exec"), variables)
        elif language == "text":
            assert code in said, f"the page shows\n{code}\nbut the command says\n{said}"
        elif language == "yaml" and "\nclients:" in code:
            from simfl.scenario import Scenario

            Scenario.parse(code)
        elif language == "toml":
            tomllib.loads(code)


def forked(page, folder):
    """The exit status of a process that plays a page in a folder."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        os.chdir(folder)
        log = os.open("page.log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.path.insert(0, str(folder))
        if page.stem != "sweep":
            from simfl.experiments.sweep import processes
            from tests.support.slot_here import SlotHere

            processes.Slot = SlotHere
        play(page.read_text(), page.name)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    for slow in ("matplotlib.pyplot", "pandas", "scipy.sparse", "torch", "simfl.runs.run", "simfl.learning.supervised"):
        import_module(slow)
    for line in sys.stdin:
        print(forked(*map(Path, line.rstrip("\n").split("\t"))), flush=True)
