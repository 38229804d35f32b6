"""Pages and pictures in the report's style."""

from simfl.report import style
from simfl.report.html_page import TEMPLATES, page_environment
from simfl.report.saving import format_of, picture
from simfl.report.style import settings
from simfl.report.svg import inline

__all__ = [
    "TEMPLATES", "format_of", "inline", "page_environment", "picture", "settings", "style",
]  # fmt: skip
