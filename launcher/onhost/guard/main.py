"""The guard: inside each rank it watches dtypes, devices and values, and stops ranks that cannot train.

rank.py loads it from its own directory when GPULAUNCH_GUARD is `stop` or `warn`. It imports nothing heavy: it
waits until the script has imported torch, then uses torch's global optimizer hooks, GradScaler,
clip_grad_norm_ and Tensor.backward. It never uses a collective, never changes a value, and on a GPU never
waits for one outside a rehearsal: results are read when they are ready. If a check itself fails, the guard
reports that once and disables the check; the exception never reaches the script.

G1 dtypes of trainable parameters   G2 gradient dtype       G3 optimizer state dtype   G4 non-finite values
G5 GradScaler                       G6 device as planned    G7 alike across ranks (the client compares)
G8 bf16 on a GPU without it         G9 trainable parameters that get no gradient

Environment: GPULAUNCH_GUARD=stop|warn, GPULAUNCH_GUARD_SKIPS=N (8), GPULAUNCH_REHEARSE=N (steps).
A stop ends the rank with exit code 86. `guard.py clean` in a run directory removes a rehearsal's scratch.

This is the entry point; the other modules of the guard are in this package.
"""

import os
import sys
from types import ModuleType

from .context import GuardContext, RankServices
from .rank_exit import STOP_EXIT
from .rank_guard import Guard


def prepare_guard(place: GuardContext, tools: RankServices) -> Guard | None:
    """Set up the guard or rehearsal of the environment. Raises OSError when none can be made safe."""
    policy = os.environ.get("GPULAUNCH_GUARD", "off")
    steps = int(os.environ.get("GPULAUNCH_REHEARSE", "") or 0)
    if policy not in ("stop", "warn") and not steps:
        return None
    if steps:
        from .rehearsal.scratch import enter_scratch

        enter_scratch(place, tools.report)
    guard = Guard(place, tools, stops=policy == "stop" or steps > 0, steps=steps)

    def torch_imported(module: ModuleType) -> None:
        try:
            guard.install(module)
        except Exception as error:
            if not steps:
                raise
            tools.report(
                "internal_error", what="the guard's attempt to watch torch", error=repr(error)[:2000]
            )
            raise SystemExit(STOP_EXIT) from error  # unguarded, a rehearsal would be a run

    tools.after_import({"torch": torch_imported, **guard.modules()})
    return guard


if __name__ == "__main__":
    if sys.argv[1:] == ["clean"]:
        from ..answer import print_answer
        from .rehearsal.scratch import remove_scratch

        print_answer(remove_scratch(os.path.dirname(os.path.abspath(__file__))))
