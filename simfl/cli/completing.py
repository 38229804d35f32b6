"""What fits where on a command line: scenarios, keys and values of overrides, figures.

It is asked at every key stroke: plugins are imported once, then remembered in the cache until simfl or the installed
packages change.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, ZshComplete, add_completion_class, split_arg_string

from simfl.core.json_data import JsonObject

PACKAGE = Path(__file__).parent.parent
DEEPEST = 5
"""Scenarios that extend one another are followed so far."""

Key = JsonObject


# -- arguments -------------------------------------------------------------------------------------


def scenarios(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Scenario files, folders that may hold some, and built-in scenarios."""
    from simfl.scenario.builtin import builtins

    folder, start = os.path.split(incomplete)
    items = []
    for path in sorted(Path(folder or ".").glob("*")):
        if path.name.startswith(start) and (start.startswith(".") or not path.name.startswith(".")):
            if path.is_dir():
                items.append(CompletionItem(f"{os.path.join(folder, path.name)}/"))
            elif path.suffix in (".yaml", ".yml"):
                items.append(CompletionItem(os.path.join(folder, path.name)))
    return items + [CompletionItem(name, help="built in") for name in builtins() if name.startswith(incomplete)]


def builtin_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from simfl.scenario.builtin import builtins

    return [CompletionItem(name) for name in builtins() if name.startswith(incomplete)]


def families(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Families of plugins."""
    return [CompletionItem(name) for name in _known()["families"] if name.startswith(incomplete)]


def figures(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of figures."""
    return [CompletionItem(n, help=title) for n, title in _known()["figures"].items() if n.startswith(incomplete)]


def overrides(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """``key=value`` of a scenario; of several values, the last one."""
    many = parameter.name == "grid"
    written = [text for text in context.params.get(str(parameter.name)) or () if isinstance(text, str)]
    line = _Line(_known(), _data(str(context.params.get("file") or "")), [text.partition("=")[::2] for text in written])
    dotted, equals, value = incomplete.partition("=")
    if not equals:
        return list(line.keys(dotted))
    start = value.rpartition(",")[0] + "," if many and "," in value else ""
    inner = ";" if many else ","
    items = line.values(dotted.split("."), value[len(start) :], inner)
    return [CompletionItem(f"{dotted}={start}{item.value}", help=item.help) for item in items]


# -- keys and values -------------------------------------------------------------------------------


class _Line:
    """A scenario and what the command line has changed in it so far."""

    def __init__(self, known: JsonObject, data: object, written: list[tuple[str, str]]) -> None:
        self.known, self.data, self.overrides = known, data, dict(written)

    def keys(self, dotted: str) -> Iterator[CompletionItem]:
        *path, start = dotted.split(".")
        for name, key in (self.inside(path) or {}).items():
            if name.startswith(start):
                whole = ".".join([*path, name])
                if "keys" not in key:
                    yield CompletionItem(f"{whole}=", help=key["about"])
                if "keys" in key or "family" in key:
                    yield CompletionItem(f"{whole}.", help=key["about"])

    def values(self, path: list[str], value: str, separator: str) -> Iterator[CompletionItem]:
        key = (self.inside(path[:-1]) or {}).get(path[-1], {})
        name, colon, fields = value.partition(":")
        plugins = self.known["families"].get(key.get("family"), {})
        if not colon:
            for word in (*key.get("values", ()), *plugins):
                if word.startswith(value):
                    yield CompletionItem(word, help=plugins.get(word, {}).get("about"))
            return
        before, middle, last = fields.rpartition(separator)
        start, known = f"{name}:{before}{middle}", plugins.get(name, {}).get("keys", {})
        field, equals, word = last.partition("=")
        if equals:
            inner = known.get(field, {})
            words = (*inner.get("values", ()), *self.known["families"].get(inner.get("family"), ()))
            yield from (CompletionItem(f"{start}{field}={each}") for each in words if each.startswith(word))
        else:
            for each, about in known.items():
                if each.startswith(field):
                    yield CompletionItem(f"{start}{each}=", help=about["about"])

    def inside(self, path: list[str]) -> dict[str, Key] | None:
        """The keys of the mapping at a path."""
        keys: dict[str, Key] = self.known["keys"]
        for depth, name in enumerate(path, 1):
            key = keys.get(name, {})
            if "family" in key:
                plugins = self.known["families"][key["family"]]
                chosen = self.chosen(path[:depth]) or key["default"]
                if chosen in plugins:
                    keys = plugins[chosen]["keys"]
                else:  # not known: whatever any of them has
                    keys = {name: each for plugin in plugins.values() for name, each in plugin["keys"].items()}
            elif "keys" in key:
                keys = key["keys"]
            else:
                return None
        return keys

    def chosen(self, path: list[str]) -> str | None:
        """The plugin that stands at a path."""
        dotted = ".".join(path)
        if value_text := self.overrides.get(dotted) or self.overrides.get(f"{dotted}.name"):
            return value_text.partition(":")[0].partition(",")[0]
        data = self.data
        for key in path:
            data = data.get(key) if isinstance(data, dict) else None
        name = data.get("name") if isinstance(data, dict) else data
        return name if isinstance(name, str) else None


def _data(file: str) -> JsonObject:
    """What a scenario file says, above what it extends; nothing where it cannot be read."""
    from simfl.core.storage.disk import open_regular
    from simfl.scenario.builtin import find
    from simfl.scenario.yaml.reader import MAX_BYTES, decode, read

    data: JsonObject = {}
    folder, name = Path(), file
    for _ in range(DEEPEST):
        previous = find(name, folder)
        try:
            with open_regular(previous.path) as opened:
                value = read(decode(opened.read(MAX_BYTES + 1)), name).value
        except (OSError, ValueError):
            break
        if not isinstance(value, dict):
            break
        data = _merge(value, data)
        folder, name = previous.folder, str(value.get("extends") or "")
        if not name:
            break
    return data


def _merge(below: JsonObject, above: JsonObject) -> JsonObject:
    both = {key for key in below.keys() & above.keys() if isinstance(below[key], dict) and isinstance(above[key], dict)}
    return {**below, **above, **{key: _merge(below[key], above[key]) for key in both}}


# -- what is known -----------------------------------------------------------------------------------


def _known() -> JsonObject:
    """``keys`` and ``families`` of scenarios, ``figures``; from the cache if nothing has changed since."""
    from simfl.core.storage.disk import cache_root, write_atomically

    root = cache_root()
    file = root / "completion.json" if root else None
    state = _state()
    try:
        previous = json.loads(file.read_bytes()) if file else {}
        if previous.get("state") == state:
            return dict(previous)
    except (OSError, ValueError, AttributeError):
        pass
    from simfl.report.figures import figures  # imports all plugins
    from simfl.scenario.schema import hints

    known = {**hints(), "figures": {kind.name: kind.title for kind in figures()}, "state": state}
    if file:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, json.dumps(known).encode())
        except OSError:
            pass  # it takes longer the next time
    return known


def _state() -> str:
    """Changes when a file of simfl, or a package with plugins of its own, does."""
    from hashlib import sha256

    from simfl.core.registration.packages import all_packages

    entries = sorted(f"{entry.group} {entry.name} {entry.value}" for entry in all_packages())
    files = sorted(f"{path} {path.stat().st_mtime_ns}" for path in PACKAGE.rglob("*.py"))
    return sha256("\n".join([*entries, *files]).encode()).hexdigest()


BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' line kind value
    for line in $(COMP_LINE="${COMP_LINE:0:$COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
            %(complete_var)s=bash_complete "$1"); do
        kind="${line%%%%,*}" value="${line#*,}"
        case "$kind" in
            dir) COMPREPLY=(); compopt -o dirnames ;;
            file) COMPREPLY=(); compopt -o default ;;
            *) COMPREPLY+=("$value"); [[ "$value" == *[=.:/] ]] && compopt -o nospace ;;
        esac
    done
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a whole begun response
    local none=1
    (( ! $+commands[%(prog_name)s] )) && return 1
    response=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) \\
        %(complete_var)s=zsh_complete %(prog_name)s)}")
    for kind value about in ${response}; do
        case "$kind" in
            dir) _path_files -/ && none=0 ;;
            file) _path_files -f && none=0 ;;
            *) if [[ "$value" == *[=.:/] ]]; then begun+=("$value"); else whole+=("$value"); fi ;;
        esac
    done
    (( $#whole )) && compadd -U -V whole -a whole && none=0
    (( $#begun )) && compadd -U -S '' -V begun -a begun && none=0
    return none
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }
    compdef %(complete_func)s %(prog_name)s
fi
"""


class Bash(BashComplete):
    """bash breaks words at ``=`` and ``:`` and replaces what stands behind the last of them."""

    source_template = BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        incomplete = words.pop() if words and not line[-1:].isspace() else ""
        return words[1:], incomplete

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        breaks = set("=:") & set(os.environ.get("COMP_WORDBREAKS", "=:"))
        prefix_length = max((incomplete.rfind(sign) + 1 for sign in breaks), default=0)
        items = _quietly(super().get_completions, args, incomplete)
        for item in items:
            if item.type == "plain" and str(item.value).startswith(incomplete[:prefix_length]):
                item.value = str(item.value)[prefix_length:]
        return items


class Zsh(ZshComplete):
    source_template = ZSH

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        return _quietly(super().get_completions, args, incomplete)

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type}\n{item.value}\n{' '.join((item.help or '_').split())}"


def _quietly(
    completions: Callable[[list[str], str], list[CompletionItem]], args: list[str], incomplete: str
) -> list[CompletionItem]:
    """Nothing fits where something is wrong: nobody wants to read about it in the middle of a line."""
    try:
        return completions(args, incomplete)
    except Exception:
        return []


add_completion_class(Bash, "bash")
add_completion_class(Zsh, "zsh")
