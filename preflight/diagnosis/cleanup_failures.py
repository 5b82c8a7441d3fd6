"""What fails in the handling of an exception that ended a run: it does not take that one's place. Pure."""

from collections.abc import Sequence

from preflight import regex as re
from preflight.diagnosis.run_progress import RunProgress
from preflight.diagnosis.signature_matcher import find_first_match
from preflight.diagnosis.tracebacks import ParsedException
from preflight.diagnosis.user_exceptions import find_source_above

_PEER_GONE = "S57"
# What Python says where a name or an object is not bound yet, and what cleans up.
_LACKS_OBJECT = re.compile(
    r"^(?:AttributeError: .{1,200} has no attribute |UnboundLocalError: |NameError: name .{1,200} is not defined)"
)
_CLEANS_UP = re.compile(
    r"(?<![a-z])(?:clean_?up|tear_?down|shut_?down|close|finish|finalize|destroy\w*|terminate|release|dispose|unlink|join|__a?exit__|__del__)(?![a-z])"
)


def leave_out_cleanup(chain: Sequence[ParsedException], course: RunProgress) -> Sequence[ParsedException]:
    """Return a chain without what failed at last, for want of an object, as it cleaned up after one."""
    while len(chain) > 1 and chain[-1].follows == "context":
        place, row = chain[-2].location, find_first_match(chain[-1].text)
        if row is not None and row.code == _PEER_GONE and place is not None and place == chain[-2].frames[-1]:
            chain = chain[:-1]  # its peers ended as it did, or saw that it does
            continue
        if not _LACKS_OBJECT.search(chain[-1].text):
            break
        functions = " ".join(frame.function for frame in chain[-1].frames[1:])
        source = f"{functions} {chain[-1].text}\n{find_source_above(course, chain[-1].line)}"
        if not _CLEANS_UP.search(source):
            break
        chain = chain[:-1]
    return chain
