"""The logs that `diagnose` is tried on, and what terminals, launchers and collectors do to logs."""

from collections.abc import Callable, Iterator
from pathlib import Path

LOGS = Path(__file__).parent / "logs"


def blocks(name: str) -> list[tuple[str, str]]:
    """Return (heading, log) of each log in a file; a line "#### HEADING" begins one."""
    parts = (LOGS / name).read_text(encoding="utf-8").split("#### ")[1:]
    return [(heading, log) for heading, _, log in (part.partition("\n") for part in parts)]


def near_misses() -> list[tuple[str, str]]:
    """Return (code, line) for lines that a row must not match."""
    lines = (LOGS / "near_misses.txt").read_text(encoding="utf-8").splitlines()
    return [(code, line) for code, _, line in (text.partition("\t") for text in lines)]


def messages() -> list[tuple[str, str]]:
    """Return (class, message): the forms in which libraries of many versions name one failure."""
    lines = (LOGS / "messages.txt").read_text(encoding="utf-8").splitlines()
    return [(slug, message) for slug, _, message in (text.partition("|") for text in lines)]


def recorded() -> list[tuple[str, Path]]:
    """Return (class, path) of the logs that `tests.failures.provoke` recorded."""
    return [(path.name.partition("__")[0], path) for path in sorted((LOGS / "recorded").glob("*.txt"))]


def whole_logs() -> dict[str, str]:
    """Return {heading or file name: log} of every log, made by hand or recorded."""
    made = [block for name in ("hits", "composed", "healthy", "judged") for block in blocks(f"{name}.txt")]
    return dict([*made, *((path.name, path.read_text(encoding="utf-8")) for _, path in recorded())])


def _each(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda log: "\n".join(change(line) for line in log.split("\n"))


def _wrapped(log: str, width: int = 80) -> str:
    """Cut as a terminal of that width does, below three lines that fill it."""
    full = "\n".join(f"{index} " + "x y z w " * 40 for index in range(3))
    lines = f"{full}\n{log}".split("\n")
    return "\n".join(
        line[start : start + width] for line in lines for start in range(0, max(len(line), 1), width)
    )


def _amid(log: str) -> str:
    before = "".join(f"step {step} | loss {3 - step / 1000:.4f} | lr 1e-4\n" for step in range(900))
    return before + log


def _doubled(log: str) -> str:
    return "\n".join(line for text in log.split("\n") for line in (text, text))


SEEN_THROUGH: dict[str, Callable[[str], str]] = {
    "carriage returns": lambda log: log.replace("\n", "\r\n"),
    "colours": _each(lambda line: f"\x1b[31m{line}\x1b[0m" if line else line),
    "torchrun --tee": _each(lambda line: f"[default3]:{line}"),
    "srun --label": _each(lambda line: f"3: {line}"),
    "mpirun --tag-output": _each(lambda line: f"[1,3]<stderr>:{line}"),
    "kubernetes": _each(lambda line: f"2026-03-01T10:00:00.123456789Z stderr F {line}"),
    "docker": _each(lambda line: f"2026-03-01T10:00:00.123456789Z {line}"),
    "compose": _each(lambda line: f"trainer-1  | {line}" if line else line),
    "Ray": _each(lambda line: f"(TrainWorker pid=411, ip=10.0.0.4) {line}"),
    "journald": _each(lambda line: f"Mar 01 10:00:00 node-1 train[411]: {line}"),
    "a progress bar": lambda log: "  3%|▎         | 3/100 [00:01<00:40,  2.40it/s]" + log,
    "behind a long run": _amid,
    "lines twice": _doubled,
    "blank lines": lambda log: log.replace("\n", "\n\n"),
    "80 columns": _wrapped,
    "120 columns": lambda log: _wrapped(log, 120),
}


def disguised(log: str) -> Iterator[tuple[str, str]]:
    """Yield (name, log) for everything that is put around logs."""
    for name, change in SEEN_THROUGH.items():
        yield name, change(log)


def name(number: int) -> str:
    """A word without a digit, another for each number."""
    return f"{number:b}".translate(str.maketrans("01", "xy"))
