"""What the commands that read participation logs let one say of them."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from simfl.plugins.commands import SimflError, suggestion

OPTIONS = (
    click.option(
        "--columns",
        metavar="round=NAME,client=NAME[,...]",
        help="Which columns of the log hold the round, the client, and perhaps weight, time and bytes.",
    ),
    click.option(
        "--where",
        metavar="NAME=VALUE",
        multiple=True,
        help="Only rows with this value took part, e.g. status=success; may be given several times.",
    ),
    click.option("--all-rows", is_flag=True, help="Every row took part, whatever its other columns say."),
    click.option(
        "--form",
        type=click.Choice(["lists", "matrix", "indexed"]),
        help="Lists of clients, or a matrix, or one whose first column names the rounds; as the log looks.",
    ),
    click.option(
        "--past",
        metavar="LOG",
        help="An earlier log, whose rounds come before; the options above are of it. Not with --follow.",
    ),
)


def log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options; the command gets ``log_options``."""

    @wraps(function)
    def command(
        columns: str | None, where: tuple[str, ...], all_rows: bool, form: str | None, past: str | None, **others: Any
    ) -> Any:
        from simfl.deployment.audit.log_columns import LogOptions

        before = None if past is None else Path(past)
        chosen = LogOptions(columns_of(columns), dict(map(_pair, where)), all_rows, form, before)
        if all_rows and where:
            raise SimflError(
                "--all-rows: says that every row took part, and --where that some did; leave one of them out"
            )
        return function(log_options=chosen, **others)

    for option in reversed(OPTIONS):
        command = option(command)
    return command


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SimflError(f"--where {text}: the form is NAME=VALUE, e.g. status=success")
    return name.strip(), value.strip()


def columns_of(text: str | None) -> dict[str, str]:
    """``round=iteration,client=uid`` as a mapping.

    Raises:
        SimflError: it is none, or names what no column is read as.
    """
    from simfl.deployment.audit.log import ROLES

    columns: dict[str, str] = {}
    for part in text.split(",") if text else ():
        role, equals, name = (word.strip() for word in part.partition("="))
        if role not in ROLES or not equals or not name:
            near = _proposal(text or "") or suggestion(role, ROLES)
            form = f"the form is {','.join(f'{each}=NAME' for each in ROLES[:3])}"
            raise SimflError(f"--columns: '{part}' names none of {', '.join(ROLES)}; {form}{near}")
        if role in columns:
            raise SimflError(f"--columns: {role} is named twice")
        columns[role] = name
    return columns


def _proposal(text: str) -> str:
    """What was meant by ``server_round,cid`` and by ``server_round=round,cid=client``, where it is one of these."""
    from simfl.deployment.audit.log import ROLES

    pairs = [[word.strip() for word in part.split("=")] for part in text.split(",")]
    if 2 <= len(pairs) <= 3 and all(len(pair) == 1 and pair[0] not in ROLES for pair in pairs):
        pairs = [[pair[0], role] for pair, role in zip(pairs, ROLES, strict=False)]
    if not all(len(pair) == 2 and pair[1] in ROLES for pair in pairs):
        return ""
    return f"; did you mean --columns {','.join(f'{role}={name}' for name, role in pairs)}?"
