"""Completion in bash and zsh: click's, for words that hold ``=``, ``:`` and ``.`` and are not finished there."""

import os
from collections.abc import Callable

from click.shell_completion import BashComplete, CompletionItem, ZshComplete, add_completion_class, split_arg_string

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
