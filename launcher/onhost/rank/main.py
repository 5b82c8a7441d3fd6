"""Program that runs as each rank: it prepares the process and then becomes the user's script.

    rank.py SCRIPT args...      rank.py -m MODULE args...        (as `python` itself would take them)
    rank.py --exec PROGRAM args...                               (a program that is not a Python script)

The supervisor puts it in the run directory, and it runs in the training environment's Python. Before the
script: output goes to rank-N.log, the visible GPUs are narrowed where the plan says so, and the process group
is tied to the supervisor's life. Beside the script: the settings of torch.distributed and accelerate are
written to events.jsonl, without importing either. The script has the same environment as under plain
`python`: argv, sys.path[0], `__main__`, pickling, exit codes, tracebacks. A failure of rank.py's own actions
never affects it.

This is the entry point; the other modules of rank.py are in this package.
"""

import functools
import os
import sys

from . import setup
from .context import RankContext, run_safely
from .exit import ExitHandler
from .import_hooks import hook_imports
from .introspection import TrainingInspector, read_gpu_uuid
from .run_script import run_as_main


def load_guard(place: RankContext) -> None:
    """Load guard.py from this file's directory, where the plan requests the guard or a rehearsal."""
    if not (os.environ.get("GPULAUNCH_GUARD") or os.environ.get("GPULAUNCH_REHEARSE")):
        return
    from importlib.util import module_from_spec, spec_from_file_location

    name = "_gpulaunch_guard"
    spec = spec_from_file_location(name, os.path.join(place.run_dir, "guard.py"))
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - a .py file has a loader
    guard = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(guard)

    own = guard.GuardContext(place.rank, place.local_rank, place.run_dir)
    watch = functools.partial(hook_imports, report=place.report)
    guard.prepare_guard(own, guard.RankServices(place.report, watch, read_gpu_uuid))


def main() -> None:
    """Prepare, then become the script."""
    place = RankContext(os.path.dirname(os.path.abspath(__file__)))
    run_safely("redirect the output", place.report, lambda: setup.redirect_output(place))
    run_safely("tie the rank to its supervisor", place.report, lambda: setup.die_with_supervisor(place))
    setup.restrict_visible_gpus(place)  # failures are fatal: a rank that sees the wrong GPUs must not start
    run_safely("introduce the rank", place.report, lambda: setup.register_rank(place))
    run_safely("report crashes", place.report, setup.report_crashes)
    run_safely("answer for stacks", place.report, lambda: setup.enable_stack_dumps(place))
    run_safely("watch the libraries", place.report, TrainingInspector(place).install)
    if os.environ.get("GPULAUNCH_REHEARSE"):
        load_guard(place)  # failures are fatal: unguarded, a rehearsal would be a run
    else:
        run_safely("load the guard", place.report, lambda: load_guard(place))
    ending = ExitHandler(place)
    ending.run(run_as_main(sys.argv[1:]))


if __name__ == "__main__":
    main()
