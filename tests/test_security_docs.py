"""docs/security.md names a test for each promise, and each of them exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")


def existing() -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    return {
        name for text in texts for name in re.findall(r"^ *(?:async )?def (test_\w+)", text, re.MULTILINE)
    }


def test_every_test_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 30
    assert named <= existing(), sorted(named - existing())


def test_every_promise_names_the_test_that_holds_it() -> None:
    section = PAGE.partition("## What it promises")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert len(rows) > 15
    assert [row for row in rows if not re.search(r"`test_\w+`", row.rpartition(" | ")[2])] == []


def test_every_source_that_is_not_trusted_has_a_promise() -> None:
    trust, _, promises = PAGE.partition("## What it promises")
    sources = re.findall(r"^\| (?:a |an |the )?([a-z ]+?)(?:[:,].*?)? \|", trust, re.MULTILINE)
    kept = [source for source in sources if source not in ("source", "you")]
    assert len(kept) == 6
    assert [source for source in kept if source.removeprefix("launch ") not in promises] == []


def test_there_is_a_way_to_report_and_no_address_that_nobody_reads() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "Report a\nvulnerability" in text
    assert not re.search(r"[\w.]+@[\w-]+\.\w+", text)
