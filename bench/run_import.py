"""What the modules of `gpulaunch run` cost to import, beside another checkout of gpulaunch.

    python -m bench.run_import [OTHER] [--rounds N]

OTHER is the folder of another checkout, such as `git worktree add OTHER COMMIT` makes; without it, the commit
before the patterns of failures were compiled at need. Turn by turn, in processes of their own; what an
interpreter needs to start is measured too and taken off. Target: half of that commit, or at most as much as
OTHER.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.common import ROOT, Cost, Target, as_installed, cost_of_command, side_by_side, tell

BEFORE = "af6bd79c~1"
HALF = 0.5
_COLLECTOR = "import gc; gc.set_threshold(50_000, 20, 20); "
IMPORTS = f"""\
{_COLLECTOR}
import launcher.commands.run
gc.freeze()
import launcher.commands._launch
from contextlib import suppress
with suppress(ImportError):
    import launcher.host_checks.evaluation, launcher.launch.attempt
"""
"""With the collector as `launcher.cli` sets it and frees it of a command's modules, in both. The last two are
imported while hosts answer; in that commit the first two import what they hold."""


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("other", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        other = options.other or unpacked(Path(folder, "before"))

        def way(root: Path, code: str) -> Callable[[], Cost]:
            argv = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r}); {code}"]
            return lambda: cost_of_command(argv, env=as_installed(Path(folder)))

        ways = {
            "nothing": way(ROOT, "pass"),
            "this": way(ROOT, IMPORTS),
            "other": way(other.resolve(), IMPORTS),
        }
        for each in ways.values():
            each()  # bytecode
        costs = side_by_side(ways, options.rounds)
    print(f"median of {options.rounds} rounds")
    for name, cost in costs.items():
        print(f"  {name:15} {1000 * cost.wall_s:7.1f} ms   {1000 * cost.cpu_s:7.1f} ms CPU")
    base = costs["nothing"].cpu_s
    ratio = (costs["this"].cpu_s - base) / (costs["other"].cpu_s - base)
    return tell([Target("imports of run, this / other, CPU", ratio, 1.0 if options.other else HALF)])


def unpacked(folder: Path) -> Path:
    """Return a folder with the packages of that commit."""
    argv = ["git", "-C", str(ROOT), "archive", BEFORE, "gpulaunch", "launcher", "preflight"]
    try:
        packed = subprocess.run(argv, capture_output=True, check=False)
    except OSError as error:
        sys.exit(f"git: {error.strerror}")
    if packed.returncode:
        sys.exit(f"this checkout has no commit {BEFORE}; name another checkout")
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())
