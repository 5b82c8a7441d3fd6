"""`make test-gpu`, or `python -m tests.gpu [--out DIR] [CASE...]`: see docs/hardware/README.md.

Exit code: 0 nothing failed, 1 a case failed, 2 this machine cannot run the suite. The report says which cases
could not run, and why.
"""

import argparse
import importlib.util
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import NoReturn

NEEDED = ("click", "yaml", "rich", "pynvml")
LIMIT_S = 540.0


def main(argv: list[str]) -> int:
    """Run the suite; write the report after every case, so that an end half-way leaves one."""
    options = _parser().parse_args(argv)
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        return _refuse(
            f"{sys.executable} lacks {', '.join(absent)}", "PYTHONPATH=FOLDER, filled by pip --target FOLDER"
        )
    from tests.gpu.board import Board, NoGpu, environment, simulated_environment  # noqa: PLC0415 - needs NEEDED
    from tests.gpu.strays import end_all  # noqa: PLC0415

    signal.signal(signal.SIGTERM, _interrupt)
    token = uuid.uuid4().hex
    scratch = Path(tempfile.mkdtemp(prefix="gpulaunch-gpu-"))
    try:
        env = environment(scratch, token)
        if options.simulate:
            env |= simulated_environment(options.simulate, scratch)
        board = Board(scratch, env, options.simulate)
        board.smi_xml()
        return _run(board, options)
    except NoGpu as reason:
        return _refuse(str(reason), "run it on a machine with an NVIDIA GPU and its driver")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; the report has what was done\n")
        return 130
    finally:
        end_all(token)
        if options.keep:
            sys.stderr.write(f"kept: {scratch}\n")
        else:
            shutil.rmtree(scratch, ignore_errors=True)


def _run(board: "Board", options: argparse.Namespace) -> int:  # type: ignore[name-defined]  # noqa: F821
    from tests.gpu.cases import CASES  # noqa: PLC0415 - with NEEDED
    from tests.gpu.report_files import Reporter  # noqa: PLC0415
    from tests.gpu.suite import Status, run_cases  # noqa: PLC0415

    unknown = set(options.cases) - {case.name for case in CASES}
    if unknown:
        return _refuse(
            f"no case {', '.join(sorted(unknown))}", "cases: " + " ".join(case.name for case in CASES)
        )
    chosen = [case for case in CASES if not options.cases or case.name in options.cases]
    start = time.monotonic()
    reporter = Reporter(board, options.out, _commit(), time.strftime("%Y-%m-%d"))
    failed = False
    for result in run_cases(board, chosen, options.limit - (time.monotonic() - start)):
        failed = failed or result.status is Status.FAILED
        sys.stderr.write(
            f"{result.status.value:<10} {result.seconds:6.1f} s  {result.name}  {result.reason}\n"
        )
        reporter.add(result)
    reporter.finish()
    sys.stderr.write(f"report: {reporter.page_path}\n")
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make test-gpu", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/hardware"), help="folder of the report")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for everything")
    parser.add_argument(
        "--simulate", default="", metavar="PROFILE", help="a board of tests/lab/silicon/profiles"
    )
    parser.add_argument("--keep", action="store_true", help="keep what the cases wrote, and say where")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names of cases; default: all")
    return parser


def _refuse(what: str, fix: str) -> int:
    sys.stderr.write(f"error: {what}\n  fix: {fix}\n")
    return 2


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _commit() -> str:
    git = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() if re.fullmatch(r"[0-9a-f]{12}\n", done.stdout) else "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
