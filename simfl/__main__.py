"""``python -m simfl`` is the command ``simfl``."""

from simfl.cli import main

main()
