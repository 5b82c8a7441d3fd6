"""The codes of findings that have a mechanical fix."""

DTYPE_CODES = frozenset({"P101", "P102", "P103", "P104", "P105", "P106"})
FIXABLE = DTYPE_CODES | {"D201", "D204", "P124", "V301"}
