"""The development sets of `bench.judgement`: what is in them, and their texts, which are not ours to keep.

`judgement_sets/scripts.tsv` names public training scripts (repository, commit, path) with how each is
launched and which faults it has; `judgement_sets/logs.tsv` names logs with what ended the run, of
files and notebooks of public repositories and of threads on GitHub. The texts lie in a directory outside
this repository: `fetch` gets those of repositories; the texts of threads are put there by hand, as
`threads/OWNER+NAME+NUMBER.txt`.
"""

import io
import json
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SETS = Path(__file__).parent / "judgement_sets"
BENIGN = "benign"


@dataclass(frozen=True, slots=True)
class ScriptLabel:
    """A script of a repository. `launch` is "ranks", "spawn" (it starts its ranks itself) or "one".

    `required` are the codes that lint must report as errors or warnings, `tolerated` those also right.
    `basis` is "read" (somebody read its device and precision code), "published" (it is taken to run as
    published), or "corrected": the label was wrong, which was seen after a run.
    """

    part: str
    repository: str
    commit: str
    path: str
    launch: str
    basis: str
    required: frozenset[str]
    tolerated: frozenset[str]


@dataclass(frozen=True, slots=True)
class LogLabel:
    """A log. `where` is a path or "issue:NUMBER"; any of `causes` (codes or classes) is right."""

    part: str
    repository: str
    where: str
    commit: str
    causes: frozenset[str]

    @property
    def name(self) -> str:
        """The log's name in reports."""
        return f"{self.repository} {self.where}"


def script_labels() -> list[ScriptLabel]:
    """Return the labels of all scripts."""
    return [
        ScriptLabel(
            row["set"],
            row["repository"],
            row["commit"],
            row["path"],
            row["launch"],
            row["basis"],
            _codes(row["required"], ","),
            _codes(row["tolerated"], ","),
        )
        for row in _rows("scripts.tsv")
    ]


def log_labels() -> list[LogLabel]:
    """Return the labels of all logs."""
    return [
        LogLabel(row["set"], row["repository"], row["where"], row["commit"], _codes(row["causes"], "|"))
        for row in _rows("logs.tsv")
    ]


def _rows(name: str) -> Iterator[Mapping[str, str]]:
    head, *lines = (SETS / name).read_text(encoding="utf-8").splitlines()
    for line in lines:
        yield dict(zip(head.split("\t"), line.split("\t"), strict=True))


def _codes(words: str, between: str) -> frozenset[str]:
    return frozenset(words.split(between)) - {"-"}


def folder_of(texts: Path, repository: str) -> Path:
    """Return the directory of a repository's files."""
    return texts / "trees" / repository.replace("/", "+")


def script_path(texts: Path, label: ScriptLabel) -> Path:
    """Return where a script's text is, or would be."""
    return folder_of(texts, label.repository) / label.path


def read_log(texts: Path, label: LogLabel) -> str | None:
    """Return a log's text, None where it was not fetched. Of a notebook it is what its cells printed."""
    if label.where.startswith("issue:"):
        number = label.where.partition(":")[2]
        path = texts / "threads" / f"{label.repository.replace('/', '+')}+{number}.txt"
    else:
        path = folder_of(texts, label.repository) / label.where
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8", errors="replace")
    return printed(json.loads(text)) if path.suffix == ".ipynb" else text


def printed(notebook: Mapping[str, Any]) -> str:
    """Return what the cells of a notebook printed, in their order."""
    outputs = [output for cell in notebook.get("cells", ()) for output in cell.get("outputs", ())]
    return "".join("".join(output.get("text", "")) for output in outputs)


def fetch(texts: Path, source: str) -> list[str]:
    """Fetch what the labels name and is not there yet; return what could not be had.

    `source` is where a repository lies, with {owner} and {name}: an address that `git fetch` takes, or the
    path of a bare repository. Of each the labelled commit's Python files and labelled logs are kept.
    """
    wanted: dict[tuple[str, str], set[str]] = {}
    for script in script_labels():
        wanted.setdefault((script.repository, script.commit), set())
    for log in log_labels():
        if log.commit != "-":
            wanted.setdefault((log.repository, log.commit), set()).add(log.where)
    failed = []
    for (repository, commit), logs in wanted.items():
        folder = folder_of(texts, repository)
        if not all((folder / log).is_file() for log in logs) or not folder.is_dir():
            owner, _, name = repository.partition("/")
            reason = fetch_one(folder, source.format(owner=owner, name=name), commit, logs)
            failed += [f"{repository}: {reason}"] if reason else []
    return failed


def fetch_one(folder: Path, url: str, commit: str, logs: set[str]) -> str:
    """Fetch one commit and keep its Python files and `logs` in a folder; return why not, "" when done."""
    store = Path(url)
    if not store.is_dir():
        store = folder.with_suffix(".git")
        store.mkdir(parents=True, exist_ok=True)
        for argv in (("init", "--quiet", "--bare"), ("fetch", "--quiet", "--depth", "1", url, commit)):
            reason = _git(store, *argv)[1]
            if reason:
                return reason
    packed, reason = _git(store, "archive", commit, "--", "*.py")
    if reason and "did not match any files" not in reason:  # a repository of logs and notebooks alone
        return reason
    reason = ""
    folder.mkdir(parents=True, exist_ok=True)
    for log in sorted(logs):
        text, absent = _git(store, "show", f"{commit}:{log}")
        if absent:
            reason = absent
        else:
            (folder / log).parent.mkdir(parents=True, exist_ok=True)
            (folder / log).write_bytes(text)
    if not packed:
        return reason
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for item in archive:  # extractall has its filter from Python 3.11.4 on only
            target = (folder / item.name).resolve()
            content = archive.extractfile(item) if item.isfile() else None
            if content is not None and target.is_relative_to(folder.resolve()):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
    return reason


def _git(store: Path, *argv: str) -> tuple[bytes, str]:
    """Run git in a store; return what it wrote, and the last line of why it failed."""
    done = subprocess.run(("git", *argv), cwd=store, capture_output=True, timeout=600, check=False)
    said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["git failed"]
    reason = next((line for line in said if line.startswith("fatal:")), said[-1])
    return done.stdout, reason if done.returncode else ""
