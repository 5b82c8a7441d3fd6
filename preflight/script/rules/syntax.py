"""Rules P100 and P120: found by the reading itself, not by an event of one reading."""

from collections.abc import Iterator

from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.registry import RuleHit, rule


@rule("P100")
def not_python(_it: Interpreter, _event: ScriptEvent) -> Iterator[RuleHit]:
    """The script is not Python, or not that of every version.

    A launch would stop at the same line. Lines of a notebook (`!pip install`, `%matplotlib`) are passed over
    and the rest is judged; after any other mistake nothing is. Syntax that came with Python 3.12 (f-strings
    within their own quotes, type parameters) is an info where an older Python reads the script.
    Source: Python's own parser.
    """
    yield from ()


@rule("P120")
def precision_of_this_process(_it: Interpreter, _event: ScriptEvent) -> Iterator[RuleHit]:
    """The precision is chosen from this process's own GPU.

    Ranks on unlike GPUs then train in different precisions. Nothing raises: one rank's gradients are scaled
    by 65536, the other's are not, and the weights drift apart. gpulaunch decides once, for all ranks.
    Source: reproduced on two gloo ranks with torch 2.13.
    """
    yield from ()
