"""The codes of findings that have a mechanical fix; apart from edits.py, which imports LibCST."""

DTYPE_CODES = frozenset({"P101", "P102", "P103", "P104", "P105", "P106"})
FIXABLE = DTYPE_CODES | {"D201", "D204", "P124", "V301"}
