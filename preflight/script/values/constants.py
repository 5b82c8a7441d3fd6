"""Values that have a name: None, True, False, and what is not known."""

from preflight.script.values import Const, Unknown

UNKNOWN = Unknown()
OF_RANK = Unknown(by_rank=True)
OF_NODE, OF_LAUNCH = "node", "launch"
ON_CPU, ON_GPU = Unknown(on="cpu"), Unknown(on="cuda")
NONE = Const(None)
TRUE = Const(True)
FALSE = Const(False)

GIVEN = "os.environ of a rank."  # before the name of a variable that each launch sets, to what is not known
