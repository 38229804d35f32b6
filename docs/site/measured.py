"""READMEs of results/ as pages of the site: they hold measured tables, and pages of docs/ link to them as files."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "reference/generated/measured"
HEAD = """# Measured

Tables and settings behind the pages, by folder of `results/`.

```{{toctree}}
:maxdepth: 1
{}
```
"""


def moved(readme: Path) -> str:
    """Its text with links as they are from the page of the site."""
    up = "../" * (FOLDER.count("/") + 1)

    def target(found: re.Match[str]) -> str:
        path, _, heading = found[1].partition("#")
        file = (readme.parent / path).resolve().relative_to(ROOT).as_posix()
        there = up + file.removeprefix("docs/") if file.startswith("docs/") else f"{up}../{file}"
        return f"]({there}{'#' * bool(heading)}{heading})"

    return linked(re.sub(r"\]\((?!\w+:)([^)\s]+)\)", target, readme.read_text()), f"{FOLDER}/page")


def linked(text: str, page: str) -> str:
    """A page's text in which links to READMEs of results lead to their pages."""
    return re.sub(r"\]\((?:\.\./)+results/(\w+)/README\.md", rf"]({'../' * page.count('/')}{FOLDER}/\1.md", text)


def write(folder: Path) -> None:
    """Writes the pages, and the one that lists them."""
    pages = {path.parent.name: moved(path) for path in sorted(ROOT.glob("results/*/README.md"))}
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (folder / FOLDER / f"{name}.md").write_text(text)
    (folder / f"{FOLDER}.md").write_text(HEAD.format("\n".join(f"measured/{name}" for name in pages)))
