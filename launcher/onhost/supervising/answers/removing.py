"""remove: delete the directory of a run that is over."""

from __future__ import annotations

import os
import shutil

from ..group import group_of
from ..members import members
from ..rundir import is_alive, read_state
from ..wire import Refused


def remove_run(run_dir: str) -> None:
    """Delete a run directory. Raises Refused while anything of the run lives."""
    name = os.path.basename(run_dir)
    if is_alive(read_state(run_dir)):
        raise Refused("%s still runs; stop it first" % name)
    alive = members(run_dir, {os.getpid()})
    if alive:
        raise Refused("processes of %s still live: %s" % (name, sorted(alive)))
    group = group_of(run_dir, read_state(run_dir))
    if group is not None:
        group.remove()  # supervisor and guardian were killed together
    gone = os.path.join(os.path.dirname(run_dir), ".%s.%d" % (name, os.getpid()))
    try:
        os.rename(run_dir, gone)  # so that no half of it is ever taken for a run
        shutil.rmtree(gone)
    except OSError as error:
        raise Refused("%s cannot be removed: %s" % (run_dir, error)) from None
