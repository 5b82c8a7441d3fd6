"""Links of the pages lead somewhere, their words are those of CONTRIBUTING.md, and hooks run what CI runs."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from launcher.cli import COMMANDS
from launcher.config.schema import SCHEMAS, build_schema
from launcher.engines.command_line.option_equivalents import OTHER_LAUNCHERS
from tests.pages import signatures

ROOT = Path(__file__).parents[1]
CHECK = ROOT / ".ci/check-prose"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("README.md")])


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        to = (page.parent / path).resolve() if path else page
        if not to.exists() or (anchor and to.suffix == ".md" and anchor not in anchors(to)):
            dead.append(target)
    assert dead == []


def test_the_pages_are_linked_from_the_list_of_pages() -> None:
    listed = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {page for page in pages if f"({page})" not in listed} == set()


class NavLoader(yaml.SafeLoader):
    """Reads mkdocs.yml without mkdocs: what it says of Python objects is left out."""


NavLoader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def nav_pages(entry: object) -> list[str]:
    """Return the pages of a nav of mkdocs.yml, in its order."""
    if isinstance(entry, str):
        return [entry]
    inner = entry.values() if isinstance(entry, dict) else entry
    assert isinstance(inner, Iterable)
    return [page for part in inner for page in nav_pages(part)]


def test_the_documentation_site_has_each_page_in_its_navigation_and_the_schemas_as_files(
    tmp_path: Path,
) -> None:
    argv = [sys.executable, str(ROOT / ".ci/stage-docs"), str(tmp_path / "docs")]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    source = tmp_path / "docs"
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(), NavLoader)
    pages = nav_pages(settings["nav"])
    assert len(pages) == len(set(pages))
    assert set(pages) == {page.relative_to(source).as_posix() for page in source.rglob("*.md")}
    for page in PAGES:
        if page.is_relative_to(ROOT / "docs") or page.parent == ROOT:
            assert (source / page.relative_to(ROOT)).read_text() == page.read_text(), page
    for kind in SCHEMAS:
        assert json.loads((source / f"docs/schemas/{kind}.schema.json").read_text()) == build_schema(kind)
    recipe = (ROOT / "Makefile").read_text().partition("\ndocs:")[2].partition("\n\n")[0]
    assert "mkdocs build --strict\n" in recipe  # with --quiet too, a dead link would pass
    headings = re.findall(r"^## (.*)$", (source / "docs/commands.md").read_text(), re.MULTILINE)
    assert headings == list(COMMANDS)


def test_the_glossary_explains_terms_that_other_pages_use_and_each_once() -> None:
    glossary = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| ([^|]+) \| [^|]", glossary, re.MULTILINE)
    terms = [term for cell in cells if cell != "term" for term in cell.split(", ")]
    assert len(terms) == len(set(terms)) > 50
    others = [page for page in PAGES if page.name != "glossary.md"]
    rest = " ".join(page.read_text(encoding="utf-8") for page in others).lower().replace("_", " ")
    assert [term for term in terms if not re.search(rf"\b{term.lower().replace('_', ' ')}", rest)] == []


def test_the_page_for_users_of_other_launchers_has_each_of_their_options_that_the_command_line_knows() -> (
    None
):
    page = (ROOT / "docs/coming-from.md").read_text(encoding="utf-8")
    options = page.partition("## Options")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (`-[^|]+) \| ([^|]+) \|$", options, re.MULTILINE))
    for option, advice in OTHER_LAUNCHERS.items():
        (ours,) = [row for cell, row in rows.items() if f"`{option}`" in cell]
        for word in re.findall(r"--\w+", advice):
            assert word in ours, option


def check(*files: Path) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, str(CHECK), *map(str, files)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("A bug of its own is told once.", "told"),
        ("An init is no launcher.", "is no"),
        ("The tree that lies here is sent.", "here"),
        ("The interpreter there is used.", "there"),
        ("The run goes on.", "goes on"),
        ("It is restarted by itself.", "by itself"),
        ("Somebody else stops it.", "Somebody"),
        ("Where each rank stands is shown.", "stands"),
    ],
)
def test_a_word_that_is_ruled_out_is_found_with_its_place(line: str, word: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{line}\n")
    done = check(page)
    assert done.returncode == 1
    assert f'{page}:3: "{word}": ' in done.stdout


def test_transcripts_code_and_link_targets_are_not_prose(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Use `is told` or ``told `here` ``.\n\n    told\n\n```\ntold\n```\n[go](there.md#here)\n")
    assert (check(page).returncode, check(page).stdout) == (0, "")


PYTHON = '''\
"""Read what is sent, as it is told."""

import re

PATTERN = re.compile(r"(?:no such file there)")
FIX = f"set it there ({PATTERN.pattern})"  # where there is none, nobody sets it


def place() -> str:
    """Return where `there` is."""
    return "here"
'''


def test_docstrings_comments_and_messages_of_the_code_are_prose(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(PYTHON)
    done = check(module)
    assert done.returncode == 1
    found = re.findall(r'module\.py:(\d+): "(\w+)"', done.stdout)
    assert found == [("1", "told"), ("6", "nobody"), ("6", "there")]


def test_the_hook_before_a_commit_runs_what_ci_runs() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local", "nothing is downloaded"
    (hook,) = repository["hooks"]
    assert (hook["entry"], hook["language"], hook["always_run"]) == ("make lint", "system", True)
    recipe = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    assert ".ci/check-prose" in recipe


def test_the_page_of_the_causes_is_current() -> None:
    on_disk = (ROOT / "docs/signatures.md").read_text(encoding="utf-8")
    assert on_disk == signatures.render_page(), "run: python -m tests.pages"
