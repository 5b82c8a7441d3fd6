"""The table of the benchmarks that have goals, with what this machine measures now.

    python -m bench            # every row that needs no other machine: some minutes
    python -m bench --short    # those that take seconds, with few rounds
    python -m bench --only NAME

Each row is a script of bench/ and runs both sides in the same minutes. A row that falls behind its goal says
so, and the exit code is 1; a script that cannot run here, for it needs rsync or pdsh, says so and does not
reach its goal.
"""

import argparse
import re
import subprocess
import sys
import time
from dataclasses import dataclass

from bench.common import ROOT

_LINE = re.compile(r"^(?:ok|MISSED) +(?P<name>.+): (?P<ratio>[\d.]+) \(target (?P<goal>[<>]= [\d.]+)\)$")
_LIMIT_S = 900.0


@dataclass(frozen=True, slots=True)
class Script:
    """A script of bench/ that ends with its targets, and its arguments in the long and in the short form."""

    name: str
    long: tuple[str, ...] = ()
    short: tuple[str, ...] | None = None  # None: not in the short form


@dataclass(frozen=True, slots=True)
class Row:
    """One measured target."""

    name: str
    measured: str
    goal: str
    verdict: str


SCRIPTS = (
    Script("help_start", short=("--rounds", "5")),
    Script("lint_cost", short=("--rounds", "2")),
    Script("run_nodes", long=("--nodes", "1000"), short=("--nodes", "40", "--steps", "3", "--step", "0.2")),
    Script("preflight_one_host", short=("--rounds", "3")),
    Script("report_growth", short=("--hosts", "150", "--fleet", "1000")),
    Script("diagnose_logs", short=("--megabytes", "10")),
    Script("log_output", short=("--megabytes", "10")),
    Script("guard_steps", short=("--seconds", "1", "--sizes", "1", "10")),
    Script("run_import", short=("--rounds", "3")),
    Script("run_start", short=("--rounds", "1")),
    Script("follow_slow_terminal", short=("--megabytes", "20")),
    Script("supervisor_overhead", short=("--seconds", "10", "--rounds", "1")),
    Script("sync_tree", short=("--rounds", "1", "--files", "500", "--megabytes", "20")),
    Script("sync_carriers"),
    Script("top_hosts"),
    Script("silent_hosts"),
    Script("slow_names", long=("--kinds", "unknown", "late", "silent")),
    Script("preflight_hosts", long=("--loopback", "100", "--replay")),
    Script("follow_output"),
)


def main() -> int:
    """Run the rows and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="few rounds of what takes seconds")
    parser.add_argument("--only", default="", metavar="NAME", help="one script")
    arguments = parser.parse_args()
    chosen = [script for script in SCRIPTS if arguments.only in ("", script.name)]
    if arguments.short:
        chosen = [script for script in chosen if script.short is not None]
    if not chosen:
        names = ", ".join(
            script.name for script in SCRIPTS if script.short is not None or not arguments.short
        )
        parser.error(f"no {'short ' if arguments.short else ''}row of this name; there are {names}")
    rows: list[Row] = []
    for script in chosen:
        began = time.monotonic()
        rows += measure(script, short=arguments.short)
        print(f"{script.name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print("\n".join(table(rows)))
    return int(not rows or any(row.verdict != "ok" for row in rows))


def measure(script: Script, *, short: bool) -> list[Row]:
    """Run one script in a process of its own and return its targets."""
    words = (script.short or ()) if short else script.long
    argv = [sys.executable, "-m", f"bench.{script.name}", *words]
    try:
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return [Row(script.name, "-", "-", f"did not end within {_LIMIT_S:g} s")]
    rows = rows_in(script.name, done.stdout)
    if rows:
        return rows
    said = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").splitlines()[-1]
    return [Row(script.name, "-", "-", f"not measured: {said[:120]}")]


def rows_in(script: str, text: str) -> list[Row]:
    """Return the targets that a script has printed."""
    return [
        Row(
            f"{script}: {match['name']}",
            match["ratio"],
            match["goal"],
            "ok" if match[0].startswith("ok") else "behind",
        )
        for match in map(_LINE.match, text.splitlines())
        if match
    ]


def table(rows: list[Row]) -> list[str]:
    """Return the lines of the table, and one that counts what falls behind."""
    behind = [row for row in rows if row.verdict != "ok"]
    lines = ["| row | measured | goal | verdict |", "|---|---|---|---|"]
    lines += [f"| {row.name} | {row.measured} | {row.goal} | {row.verdict} |" for row in rows]
    return [*lines, "", f"{len(rows) - len(behind)} of {len(rows)} rows reach their goals"]


if __name__ == "__main__":
    sys.exit(main())
