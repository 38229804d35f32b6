"""``simfl new``"""

from functools import partial
from pathlib import Path

import click

from simfl.cli import completing
from simfl.core.errors import SimflError, suggestion

FIRST = "quickstart"
DATA = ("digits", "mnist", "fashion_mnist", "cifar10", "synthetic", "nothing")
POLICIES = "random,batch_partition:T=4,partition"


@click.command("new", short_help="Write a commented scenario to start from.")
@click.argument("name", required=False)
@click.option("--from", "builtin", default=FIRST, show_default=True, metavar="BUILTIN",
              shell_complete=completing.builtin_names, help="The built-in scenario whose values it gets.")  # fmt: skip
def command(name: str | None, builtin: str) -> None:
    """Write NAME.yaml: a scenario that can be run as it is, with a comment on each key in it.

    Without NAME it asks four questions: data, clients, world, and what is compared. What is there already is not
    overwritten.
    """
    from simfl.scenario.builtin import builtins
    from simfl.scenario.scaffold import compare_command, draft

    if builtin not in builtins():
        near = suggestion(builtin, builtins()) or f"; there are {', '.join(builtins())}"
        raise click.UsageError(f"--from {builtin}: no built-in scenario{near}")
    changes, compared = dict[str, object](), ""
    if name is None:
        changes, compared = _ask()
        name = click.prompt("Name of the scenario", default="study", err=True)
    path = Path(name) if Path(name).suffix in (".yaml", ".yml") else Path(f"{name}.yaml")
    text = draft(path.stem, builtin, changes, compared)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SimflError(f"{path}: is there already; choose another name") from None
    click.echo(path)
    click.echo(f"run it: simfl run {path}", err=True)
    if compared:
        click.echo(f"compare: {compare_command(str(path), compared)}", err=True)


def _ask() -> tuple[dict[str, object], str]:
    """The keys that the answers change, and the policies to compare."""
    from simfl.experiments.sweep.grid import WITHOUT_FILE as WORLDS

    data = click.prompt("Which data do clients learn from", type=click.Choice(DATA), default=DATA[0], err=True)
    clients = click.prompt("How many clients are there", type=click.IntRange(8), default=40, err=True)
    world = click.prompt("How does their absence hang together", type=click.Choice(WORLDS), default=WORLDS[0], err=True)
    learning = {"name": "none", "parameters": 1000} if data == "nothing" else {"data": data, "model": "logistic"}
    changes: dict[str, object] = {"clients": clients, "learning": learning, "world": world}
    checked, question = partial(_check_policies, clients=clients), "Which selection policies are compared"
    default = "random,weighted" if clients % 8 else POLICIES
    return changes, click.prompt(question, default=default, value_proc=checked, err=True)


def _check_policies(text: str, clients: int) -> str:
    """Policies that the quickstart can have with so many clients; another answer is asked for again."""
    from simfl.scenario import Scenario
    from simfl.scenario.overrides import split_values

    for policy in split_values(text):
        try:
            Scenario.load(FIRST, [f"clients={clients}", f"selection={policy}"])
        except SimflError as error:
            raise click.UsageError(str(error)) from None
    return text
