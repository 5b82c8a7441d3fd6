"""What odd hosts send: any JSON at all, and documents of ours in which something is not as it was."""

import copy
from typing import Any

from hypothesis import strategies as st

NASTY = ("..", "/etc/passwd", "a/../../b", "\x1b[2J", "\ud800", "localhost", "x" * 300, -1, 2**63)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**19), 10**19)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(NASTY)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)


def places(document: Any) -> list[tuple[Any, ...]]:
    """Return the path of every value in a document."""
    found: list[tuple[Any, ...]] = [()]
    items = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    for key, value in items:
        found += [(key, *path) for path in places(value)]
    return found


@st.composite
def mutated(draw: st.DrawFn, document: Any, most: int = 3) -> Any:
    """Return the document with up to `most` values replaced or gone."""
    whole = {"": copy.deepcopy(document)}
    for _ in range(draw(st.integers(1, most))):
        path = draw(st.sampled_from(places(whole)[1:]))
        holder: Any = whole
        for key in path[:-1]:
            holder = holder[key]
        if isinstance(holder, dict) and len(path) > 1 and draw(st.booleans()):
            del holder[path[-1]]
        else:
            holder[path[-1]] = draw(JSON)
    return whole[""]
