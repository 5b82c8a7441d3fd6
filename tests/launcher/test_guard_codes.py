"""Every code that a guard or a rehearsal tells can be looked up."""

import re
from pathlib import Path

from launcher.commands.explain import explain
from launcher.follow.guard_codes import GUARD_CODES

ROOT = Path(__file__).parents[2]
SOURCES = (*ROOT.glob("launcher/onhost/guard/**/*.py"), ROOT / "launcher/follow/guard_reports.py")


def reported_codes() -> set[str]:
    """The codes in what tells them."""
    return {code for path in SOURCES for code in re.findall(r"\b([GR]\d)\b", path.read_text())}


def test_every_code_of_the_guard_is_explained_and_in_its_page() -> None:
    page = (ROOT / "docs/guard.md").read_text()
    assert reported_codes() == set(GUARD_CODES)
    for code, row in GUARD_CODES.items():
        assert not row.fix[0].isupper(), f"{code}: fixes start with a small letter, as those of findings do"
        assert not re.search(r"\b[GR]\d\b", row.fix), f"{code}: its fix is that of another code"
        kind, text = explain(code)
        assert (kind, text[: len(code) + 2]) == ("guard", f"{code}: ")
        assert re.search(rf"\b{code}\b", page), code
