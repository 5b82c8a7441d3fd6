"""Write the pages of docs/ that are made from tables and docstrings anew, as tests compare them."""

from pathlib import Path

from tests.pages import checks, lint, signatures
from tests.pages.configuration import render_reference
from tests.pages.launcher_options import launcher_pages, variables_reference

DOCS = Path(__file__).parents[2] / "docs"


def replace_tail(page: Path, heading: str, tail: str) -> None:
    head, _, _ = page.read_text("utf-8").partition(f"\n{heading}")
    page.write_text(f"{head}\n{tail}", "utf-8")


for folder, pages in (("coming-from", launcher_pages()), ("checks", checks.render_pages())):
    for name, text in pages.items():
        (DOCS / folder / name).write_text(text, "utf-8")
(DOCS / "lint.md").write_text(lint.render_page(), "utf-8")
(DOCS / "signatures.md").write_text(signatures.render_page(), "utf-8")
options = variables_reference().removeprefix("\n")
replace_tail(DOCS / "launcher-options.md", "## Environment variables", options)
replace_tail(DOCS / "configuration.md", "## hosts.yaml", render_reference())
