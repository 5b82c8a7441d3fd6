"""The table in docs/reliability.md, written by the tests that prove it.

GPULAUNCH_RELIABILITY=docs/reliability.md pytest tests/lab/test_survive.py
"""

import os
import platform
import time
from pathlib import Path

START = "<!-- results: written by tests/lab/test_survive.py -->\n"
END = "<!-- end of results -->\n"


class Table:
    """What each fault led to, in the order of the tests."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, float]] = []

    def add(self, fault: str, result: str, seconds: float) -> None:
        """Note one fault that went as it must; `seconds` until all was over, 0: no end was provoked."""
        self.rows.append((fault, result, seconds))

    def write(self) -> None:
        """Put the rows between the marks of the file that the environment names."""
        target = os.environ.get("GPULAUNCH_RELIABILITY")
        if not target or not self.rows:
            return
        path = Path(target)
        head, _, rest = path.read_text().partition(START)
        _, _, tail = rest.partition(END)
        path.write_text(head + START + self.text() + END + tail)

    def text(self) -> str:
        """Return the table in Markdown."""
        day = time.strftime("%Y-%m-%d", time.gmtime())
        where = f"Linux {platform.release()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.0f}"
        lines = [
            f"{len(self.rows)} faults, {day}, {where}.",
            "",
            "| fault | what came of it | over after |",
            "|---|---|---|",
        ]
        lines += [
            f"| {fault} | {result} | {f'{seconds:.1f} s' if seconds else '-'} |"
            for fault, result, seconds in self.rows
        ]
        return "\n".join(lines) + "\n"
