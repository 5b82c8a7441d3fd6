"""The scripts of `scripts/`, and what their `# target:` lines say they are judged for."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

from preflight.script.lint import LintResult, lint_for
from preflight.script.target import RankTarget

HERE = Path(__file__).parent / "scripts"
BAD = sorted([*(HERE / "bad").glob("*.py"), *(HERE / "bad").rglob("train.py")])
GOOD = sorted((HERE / "good").glob("*.py"))
SNIPPET = HERE / "snippet.py"
"""As which file a snippet is judged."""
VERSIONED = ("torch", "transformers", "trl", "peft", "accelerate")


def read(path: str) -> str | None:
    file = Path(path)
    if file.name == "*":
        return "\n".join(sorted(each.stem for each in file.parent.glob("*.py")))
    return file.read_text(encoding="utf-8") if file.is_file() else None


def capability(text: str) -> tuple[int, int] | None:
    """7.5, or `cpu` for ranks without a GPU."""
    if text == "cpu":
        return None
    major, minor = text.split(".")
    return int(major), int(minor)


def targets_of(text: str) -> tuple[list[RankTarget], bool]:
    """Return what a script's `# target:` lines say it is judged for, and whether that is certain."""
    words = [word for line in re.findall(r"# target: (.*)", text) for word in line.split()]
    given = [word.partition("=")[::2] for word in words]
    values = dict(given)
    versions = {name: values[name] for name in VERSIONED if name in values}
    capabilities = [capability(value) for name, value in given if name == "capability"]
    targets = [
        RankTarget(
            capability=item,
            processes=int(values["processes"]) if "processes" in values else None,
            launch="fp16" if values.get("launch") == "fp16" else None,
            args=tuple(values["args"].split(",")) if "args" in values else None,
            versions=versions,
        )
        for item in capabilities or [(7, 5), (8, 0)]
    ]
    return targets, bool(capabilities)


def snippets() -> dict[str, str]:
    """Return {heading: script} of scripts/snippets.txt: short scripts that differ in one thing."""
    parts = (HERE / "snippets.txt").read_text(encoding="utf-8").split("#### ")[1:]
    return {heading: text for heading, _, text in (part.partition("\n") for part in parts)}


@cache  # several tests ask it of each script
def judged(path: Path, text: str = "") -> LintResult:
    """Return what lint reports of a script, or of `text` in its place."""
    text = text or path.read_text(encoding="utf-8")
    targets, certain = targets_of(text)
    return lint_for(text, str(path), targets, certain=certain, find=read)


def some_of_each_rule(count: int = 2) -> list[Path]:
    """Return the first bad scripts of each rule."""
    chosen: dict[Path, None] = {}
    held: Counter[str] = Counter()
    for path in sorted((HERE / "bad").glob("*.py")):
        codes = set(
            re.findall(r"[CPDRV]\d{3}", " ".join(re.findall(r"# expect: (.*)", path.read_text("utf-8"))))
        )
        if any(held[code] < count for code in codes):
            held.update(codes)
            chosen[path] = None
    return list(chosen)
