"""Write docs/coming-from and the tables of docs/launcher-options.md and docs/configuration.md anew."""

from pathlib import Path

from tests.pages.configuration import render_reference
from tests.pages.launcher_options import launcher_pages, variables_reference

DOCS = Path(__file__).parents[2] / "docs"


def replace_tail(page: Path, heading: str, tail: str) -> None:
    head, _, _ = page.read_text("utf-8").partition(f"\n{heading}")
    page.write_text(f"{head}\n{tail}", "utf-8")


for name, text in launcher_pages().items():
    (DOCS / "coming-from" / name).write_text(text, "utf-8")
replace_tail(
    DOCS / "launcher-options.md",
    "## Environment variables",
    variables_reference().removeprefix("\n"),
)
replace_tail(DOCS / "configuration.md", "## hosts.yaml", render_reference())
