"""The table in docs/reliability.md, written by the tests that prove it.

GPULAUNCH_RELIABILITY=docs/reliability.md pytest tests/lab/test_faults.py tests/lab/test_survive_faults.py
"""

import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path

START = "<!-- results: written by tests/lab/test_faults.py -->\n"
END = "<!-- end of results -->\n"


@dataclass(frozen=True, slots=True)
class Row:
    """One fault that went as it must. It exists only once all that the table says of it has been seen."""

    fault: str
    result: str
    log_bytes: int  # that the ranks wrote, each found here once
    seconds: float = 0.0  # from the fault to the end that it provoked; 0: the run went on to its own end


class Table:
    """What each fault led to, in the order of the tests."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        """Note one fault."""
        self.rows.append(row)

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
        load = os.getloadavg()[0]
        where = f"Linux {platform.release()}, {os.cpu_count()} CPUs, load {load:.0f} (other work beside it)"
        lines = [
            f"{len(self.rows)} faults, {day}, {where if load > 2 else where.partition(' (')[0]}.",
            "",
            "| fault | result | over after | bytes of the ranks, each once in the local logs |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {row.fault} | {row.result} | {f'{row.seconds:.1f} s' if row.seconds else '-'} "
            f"| {row.log_bytes:,} |"
            for row in self.rows
        ]
        return "\n".join(lines) + "\n"
