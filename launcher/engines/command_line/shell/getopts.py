"""What `while getopts SPEC NAME` makes of arguments that a text gives itself. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from preflight import regex as re

_CONDITION = re.compile(
    r"\s*getopts[ \t]+(?P<quote>[\"']?)(?P<spec>[\w:?]{1,120})(?P=quote)[ \t]+(?P<name>[A-Za-z_]\w*)\s*;?\s*",
    re.ASCII,
)


def asks_options(condition: str) -> tuple[str, str] | None:
    """Return the options and the variable of a condition that is `getopts` alone; None for any other."""
    found = _CONDITION.fullmatch(condition)
    return None if found is None else (found["spec"], found["name"])


def read_options(spec: str, name: str, words: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """Yield what each round sets: the variable, OPTARG and OPTIND."""
    at, is_silent = 0, spec.startswith(":")
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        letters, at = words[at][1:], at + 1
        while letters:
            letter, letters = letters[0], letters[1:]
            value, is_known = "", letter in spec and letter != ":"
            if is_known and f"{letter}:" in spec:
                is_known = bool(letters) or at < len(words)
                value = letters or (words[at] if is_known else "")
                at, letters = at if letters else at + 1, ""
                missing = ":" if is_silent else "?"
            else:
                missing = "?"
            given = letter if is_known else missing
            shown = value if is_known else letter if is_silent else ""
            yield {name: given, "OPTARG": shown, "OPTIND": str(min(at, len(words)) + (not letters))}


def end_of_options(words: Sequence[str], spec: str) -> str:
    """Return OPTIND behind the last round."""
    rounds = [one["OPTIND"] for one in read_options(spec, "o", words)]
    behind = int(rounds[-1]) if rounds else 1
    return str(behind + 1 if words[behind - 1 : behind] == ["--"] else behind)
