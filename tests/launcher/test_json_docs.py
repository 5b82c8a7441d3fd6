"""Every document that a command prints has its place in docs/json.md, and so has every key."""

import json
import re
from pathlib import Path

import pytest

from launcher.cli import run_command_line
from tests.document_fit import find_misfits, schemas
from tests.launcher.sources import ROOT, SOURCES, read
from tests.pages.json_schemas import INTERNAL


def test_every_schema_is_documented() -> None:
    used = {name for path in SOURCES for name in re.findall(r"gpulaunch\.([a-z-]+)/1", path.read_text())}
    headings = re.findall(r"^#+ .*", (ROOT / "docs/json.md").read_text(), re.MULTILINE)
    described = set(re.findall(r"gpulaunch\.([a-z-]+)/1", "\n".join(headings)))
    assert used - INTERNAL == described


# In docs/json.md as an example, or read from a log by a pattern.
EXAMPLES = {"gpu3", "tokens_per_second"}
# Keys of `restart:`, which docs/configuration.md describes.
CONFIGURED = {"exclude_failed_hosts", "spares", "resume_args", "checkpoints", "checkpoint_on", "backoff_s"}


def test_keys_in_the_docs_and_keys_in_the_code_are_the_same() -> None:
    words = {word for path in SOURCES for word in read(path).words}
    keys = {key for path in SOURCES for key in read(path).keys}
    described = set(re.findall(r"`([a-z][a-z0-9_]*)`", (ROOT / "docs/json.md").read_text()))
    assert described - words == EXAMPLES
    assert keys - described == CONFIGURED
    assert len(keys) > 100


def test_every_code_of_an_error_is_documented() -> None:
    codes = {
        code
        for path in SOURCES
        for code in re.findall(r'^class \w+\(.*\bcode="([a-z][a-z-]+)"', path.read_text(), re.MULTILINE)
    }
    (row,) = re.findall(r"^\| `error` \|.*", (ROOT / "docs/json.md").read_text(), re.MULTILINE)
    assert codes - set(re.findall(r"`([a-z-]+)`", row)) == set()
    assert len(codes) > 10


def test_every_documented_document_has_a_schema() -> None:
    known = schemas()
    page = (ROOT / "docs/json.md").read_text()
    headings = "\n".join(re.findall(r"^#+ .*", page, re.MULTILINE))
    assert set(known) == set(re.findall(r"gpulaunch\.([a-z-]+)/1", headings))
    described = set(re.findall(r"`([a-z][a-z0-9_]*)`", page))
    keys = {key for schema in known.values() for key in schema["properties"]}
    assert keys - described == set()
    assert len(keys) > 100
    assert known["plan"]["properties"]["nodes"]["items"]["properties"]["argv"] == {
        "type": "array",
        "items": {"type": "string"},
    }


def test_a_test_reads_a_document_of_every_kind() -> None:
    tests = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__))
    read = {name for text in tests for name in re.findall(r"gpulaunch\.([a-z-]+)/1", text)}
    assert set(schemas()) - read == set()


@pytest.mark.parametrize(
    "words",
    [
        ("checks",),
        ("explain", "GPU001", "S01"),
        ("lint", "templates/paper_r64.py"),
        ("diagnose", "tests/preflight/logs/composed.txt"),
        ("diagnose", "absent.log"),
        ("preflight", "--facts", "--from", "tests/preflight/recordings/8xh100-broken.json"),
    ],
    ids=lambda words: " ".join(words[:1]),
)
def test_what_commands_print_fits_its_schema(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    run_command_line([str(ROOT / word) if "/" in word else word for word in words] + ["--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["schema"].startswith("gpulaunch.")


def test_a_document_of_another_form_fits_no_schema() -> None:
    wrong = {"schema": "gpulaunch.checks/1", "exit_code": True, "checks": [{"code": 1}]}
    found = list(find_misfits(schemas()["checks"], wrong))
    assert any("$.checks[0]: no title" in each for each in found)
    assert any("$.checks[0].code: 1 is no string" in each for each in found)
    with pytest.raises(AssertionError, match="is no integer"):
        json.loads(json.dumps(wrong))
