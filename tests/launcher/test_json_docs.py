"""Every document that a command prints has its place in docs/json.md, and so has every key."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Between our own files only; nobody else reads them.
INTERNAL = {"gpulaunch.expected/1", "gpulaunch.launch/1", "gpulaunch.reap/1", "gpulaunch.restart-order/1"}


def test_every_schema_is_documented() -> None:
    sources = [*(ROOT / "launcher").rglob("*.py"), *(ROOT / "preflight").rglob("*.py")]
    used = {name for path in sources for name in re.findall(r"gpulaunch\.[a-z-]+/1", path.read_text())}
    headings = re.findall(r"^#+ .*", (ROOT / "docs/json.md").read_text(), re.MULTILINE)
    described = set(re.findall(r"gpulaunch\.[a-z-]+/1", "\n".join(headings)))
    assert used - INTERNAL == described


# In docs/json.md as an example, or read from a log by a pattern.
EXAMPLES = {"gpu3", "tokens_per_second"}
# Keys of `restart:`, which docs/configuration.md describes.
CONFIGURED = {"exclude_failed_hosts", "spares", "resume_args", "checkpoints", "checkpoint_on", "backoff_s"}


def test_keys_in_the_docs_and_keys_in_the_code_are_the_same() -> None:
    words: set[str] = set()
    keys: set[str] = set()
    for path in [*(ROOT / "launcher").rglob("*.py"), *(ROOT / "preflight").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words.add(node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                words.add(node.target.id)
            elif isinstance(node, ast.keyword) and node.arg is not None:
                words.add(node.arg)
            elif isinstance(node, ast.FunctionDef) and re.match(r"_?encode_|\w+_json$", node.name):
                keys.update(
                    key.value
                    for part in ast.walk(node)
                    if isinstance(part, ast.Dict)
                    for key in part.keys
                    if isinstance(key, ast.Constant) and isinstance(key.value, str)
                )
    described = set(re.findall(r"`([a-z][a-z0-9_]*)`", (ROOT / "docs/json.md").read_text()))
    assert described - words == EXAMPLES
    assert keys - described == CONFIGURED
    assert len(keys) > 100


def test_every_code_of_an_error_is_documented() -> None:
    sources = [*(ROOT / "launcher").rglob("*.py"), *(ROOT / "preflight").rglob("*.py")]
    codes = {
        code
        for path in sources
        for code in re.findall(r'^class \w+\(.*\bcode="([a-z][a-z-]+)"', path.read_text(), re.MULTILINE)
    }
    (row,) = re.findall(r"^\| `error` \|.*", (ROOT / "docs/json.md").read_text(), re.MULTILINE)
    assert codes - set(re.findall(r"`([a-z-]+)`", row)) == set()
    assert len(codes) > 10
