"""The site: ``python -m sphinx -W -c docs/site docs build/site``. Needs the extra ``docs`` and no network."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]

import families  # noqa: E402
import gallery  # noqa: E402
import measured  # noqa: E402

from simfl.core.version import VERSION  # noqa: E402

project, author, release = "simfl", "the authors of simfl", VERSION
project_copyright = "the authors of simfl, Apache-2.0"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["site"]
html_theme = "furo"
html_title = f"simfl {VERSION}"
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]

myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_execution_in_temp = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures name arrays; their shapes and units stand in the docstrings
autodoc_default_options = {"members": True, "undoc-members": False}
napoleon_google_docstring, napoleon_numpy_docstring = True, False
napoleon_use_ivar = True


def generated(app):
    """Writes the pages that are made of what simfl knows of itself."""
    folder = HERE.parent / "reference" / "generated"
    folder.mkdir(exist_ok=True)
    (folder / "families.md").write_text(families.page())
    gallery.write(folder)
    measured.write(HERE.parent)


def to_measured(app, docname, source):
    """Links to READMEs of results lead to their pages."""
    source[0] = measured.linked(source[0], docname)


def plain_signs(app, what, name, obj, options, lines):
    """Docstrings are plain text: |x| is a norm, and a lone * (in a shape, say) no emphasis."""
    for i, line in enumerate(lines):
        parts = re.split("(``.*?``)", line)
        for k in range(0, len(parts), 2):
            parts[k] = parts[k].replace("|", r"\|")
            if parts[k].count("*") % 2:
                parts[k] = parts[k].replace("*", r"\*")
        lines[i] = "".join(parts)


def setup(app):
    app.connect("autodoc-process-docstring", plain_signs, priority=400)  # before napoleon
    app.connect("builder-inited", generated)
    app.connect("source-read", to_measured)
