"""What commands of other packages are made of: arguments, options and output as simfl's own have them."""

from simfl.cli.progress import say_how_to_watch, shown
from simfl.cli.shared import as_json, load, out_option, print_json, scenario_arguments
from simfl.core.errors import ScenarioError, SimflError, amount, suggestion

__all__ = [
    "ScenarioError", "SimflError", "amount", "as_json", "load", "out_option", "print_json", "say_how_to_watch",
    "scenario_arguments", "shown", "suggestion",
]  # fmt: skip
