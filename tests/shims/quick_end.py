"""An end without a last search for garbage among all that torch and other libraries have imported.

That search takes a quarter of the CPU of a rank that does little. Without it, an object of a global name may
end after the names that its `__del__` uses.
"""

import atexit
import gc
from types import ModuleType


def turn_on(_: ModuleType) -> None:
    """Leave what there is at the end out of the interpreter's own search, right after torch was imported."""
    atexit.register(gc.freeze)
