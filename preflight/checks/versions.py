"""Version numbers of drivers and packages: compare, and match a specifier such as ">=570,<600"."""

from itertools import zip_longest

from preflight import regex as re
from preflight.errors import BadInput

_NUMBERS = r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,9}"
_CLAUSE = re.compile(rf"(==|!=|>=|<=|>|<) *({_NUMBERS})(\.\*)?")
_LOOSE = re.compile(rf"({_NUMBERS})(\+|\.\*|\.x)?")


def parse_release(version: str) -> tuple[int, ...]:
    """Return the leading numbers: "2.13.0+cu130" -> (2, 13, 0). Empty when there are none of use."""
    match = re.match(r"\s*v?([0-9]{1,18}(?:\.[0-9]{1,18})*)(?![0-9])", version)
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def compare(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """Return -1, 0 or 1; 570 equals 570.0."""
    for one, other in zip_longest(left, right, fillvalue=0):
        if one != other:
            return -1 if one < other else 1
    return 0


def check_specifier(text: str) -> None:
    """Raise BadInput where a specifier cannot be read, with what was probably meant."""
    clauses = [clause.strip() for clause in text.split(",")]
    for clause in clauses:
        loose = _LOOSE.fullmatch(clause)
        if loose:
            meant = f">={loose[1]}" if loose[2] == "+" else f"=={loose[1]}.*"
            raise BadInput(f'"{clause}" is not a clause such as >=570', f'write "{meant}"')
        _fits((), clause)


def satisfies(version: str, specifier: str) -> bool:
    """Whether `version` fits every clause of `specifier`; raises BadInput when a clause cannot be read."""
    found = parse_release(version)
    return bool(found) and all(
        _fits(found, clause.strip()) for clause in specifier.split(",") if clause.strip()
    )


def _fits(found: tuple[int, ...], clause: str) -> bool:
    match = _CLAUSE.fullmatch(clause)
    if match is None or (match.group(3) and match.group(1) not in ("==", "!=")):
        raise BadInput(f"cannot read the version clause {clause!r}", 'write it like ">=570" or "==580.*"')
    operator, wanted = match.group(1), parse_release(match.group(2))
    if match.group(3):
        found = found[: len(wanted)]
    order = compare(found, wanted)
    return {
        "==": order == 0,
        "!=": order != 0,
        ">=": order >= 0,
        "<=": order <= 0,
        ">": order > 0,
        "<": order < 0,
    }[operator]
