"""Every document that a command prints has its place in docs/json.md."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Between our own files only; nobody else reads them.
INTERNAL = {"gpulaunch.expected/1", "gpulaunch.launch/1", "gpulaunch.reap/1"}


def test_every_schema_is_documented() -> None:
    sources = [*(ROOT / "launcher").rglob("*.py"), *(ROOT / "preflight").rglob("*.py")]
    used = {name for path in sources for name in re.findall(r"gpulaunch\.[a-z]+/1", path.read_text())}
    described = set(
        re.findall(r"^#+ .*?(gpulaunch\.[a-z]+/1)", (ROOT / "docs/json.md").read_text(), re.MULTILINE)
    )
    assert used - INTERNAL == described
