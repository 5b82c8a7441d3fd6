"""What a word that names hosts means: ranges (ClusterShell's node-set syntax) and ssh's user@host:port."""

from collections.abc import Container, Mapping
from functools import partial

from launcher.config.host_names import HOST_RULE, USER_RULE, is_host, is_user
from launcher.errors import BadInput
from preflight import regex as re
from preflight.checks.message_text import quote_path
from preflight.frozen import dataclass

MAX_HOSTS = 10_000  # in one word; a longer range is a slip of the finger that would eat the memory

_RANGE = re.compile(r"\[([0-9,/-]*)\]", re.ASCII)
_PART = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18})(?:/[0-9]{1,9})?)?", re.ASCII)
_V6 = re.compile(
    r"(?:(?P<user>\S+)@)?\[(?P<host>[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[\w.-]+)?)\](?::(?P<port>\d+))?"
)
_BARE_V6 = re.compile(r"(?:(?P<user>\S+)@)?(?P<host>[0-9A-Fa-f.]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(?:%[\w.-]+)?)")
_PLAIN = re.compile(r"(?:(?P<user>\S+)@)?(?P<host>[^\s@:\[\]]+)(?::(?P<port>\d+))?")
_LONGEST_WORD = 4096
_SSH_VALUES = frozenset(f"-{letter}" for letter in "BbcDEeFIiJLlmOopQRSWw")  # options of ssh that take one
_OPERATORS = frozenset("!&^,")


@dataclass(frozen=True, slots=True)
class SshTarget:
    """An address as ssh takes it."""

    host: str
    user: str = ""
    port: int | None = None


def parse_ssh_target(word: str) -> SshTarget:
    """Return what `host`, `user@host`, `user@host:port`, `[::1]:22` or `::1` name. Raises BadInput."""
    match = _V6.fullmatch(word) or _BARE_V6.fullmatch(word) or _PLAIN.fullmatch(word)
    if (not match or word.startswith("ssh://")) and (fix := _pasted_ssh(word)):
        raise BadInput(f'"{word}" is not a host', fix)
    if not match and re.fullmatch(r"[\w.@:-]+([ ]+[\w.@:-]+)+", word.strip()):
        raise BadInput(f'"{word}" is not a host', f'separate hosts by commas: "{",".join(word.split())}"')
    if not match:
        raise BadInput(f'"{word}" is not a host: expected host, user@host, user@host:port or [IPv6]:port')
    parts = match.groupdict()
    if not is_host(match["host"]):
        fix = "several at once: a range, l40s-[01-04], or all" if set(word) & set("*?[{") else ""
        fix = "the names on stdin: $(cat)" if word == "-" else fix
        raise BadInput(f'"{word}" is not a host: the name may hold {HOST_RULE}', fix)
    if match["user"] and not is_user(match["user"]):
        raise BadInput(f'"{word}" is not a host: the user\'s name may hold {USER_RULE}')
    port = parts.get("port")
    if port is not None and not 0 < int(port[:9]) <= 65535:
        raise BadInput(f'"{word}": {port} is not a port: expected 1 to 65535')
    return SshTarget(match["host"], match["user"] or "", int(port) if port else None)


def _pasted_ssh(word: str) -> str:
    """Return how to write what a page of a provider shows, `ssh root@192.0.2.7 -p 41022 -i KEY`, else ""."""
    url = word.strip().removeprefix("ssh://").rstrip("/")
    words = url.split()
    if url == word.strip() and not ({"ssh", "-p", "-i", "-l"} & set(words)):
        return ""
    values = {"-p": "", "-i": "", "-l": ""}
    hosts = []
    rest = iter(words[1:] if words[:1] == ["ssh"] else words)
    for each in rest:
        if each[:2] in _SSH_VALUES:
            values[each[:2]] = each[2:] or next(rest, "")
        elif not each.startswith("-"):
            hosts.append(each)
    if not hosts:
        return ""
    user = f"{values['-l']}@" if values["-l"] and "@" not in hosts[0] else ""
    port = f":{values['-p']}" if values["-p"] else ""
    key = f" --identity-file {quote_path(values['-i'])}" if values["-i"] else ""
    return f"write it as {user}{hosts[0]}{port}{key}"


def has_operator(word: str) -> bool:
    """Whether a word combines several sets."""
    return any(sign in _OPERATORS for sign in word)


def split_ranges(word: str) -> list[str]:
    """Return the parts between commas outside brackets, in order."""
    parts = (part.strip() for part in re.split(r",(?![^\[]*\])", word))
    return [part for part in parts if part]


def expand_ranges(
    word: str, groups: Mapping[str, tuple[str, ...]], hosts: Container[str] = ()
) -> tuple[str, ...]:
    """Return the names that a range stands for, as ClusterShell reads it (`a[1-3]!a2`, `@group&...`).

    A group needs no @ where no host has its name. Raises BadInput for a malformed range, for one of more than
    MAX_HOSTS hosts, for an empty result, and where nothing of what is to be left out is among the hosts.
    """
    if len(word) > _LONGEST_WORD:
        raise BadInput(f'"{word[:40]}..." is too long for a host: {len(word)} characters')
    if _V6.fullmatch(word.removeprefix("ssh://").rstrip("/")) or not ("[" in word or has_operator(word)):
        return (word,)
    if word[0] in "!&^":
        raise BadInput(f'"{word}" has no hosts in front of it', f"write both as one word: 'all{word}'")
    try:
        size = _size(word)
    except ValueError as error:
        raise _no_range(word, str(error)) from None
    if size > MAX_HOSTS:
        raise BadInput(f'"{word}" means more than {MAX_HOSTS} hosts')
    from ClusterShell.NodeSet import NodeSet, NodeSetException  # noqa: PLC0415 - 30 ms that plain names need not pay
    from ClusterShell.NodeUtils import GroupResolver, GroupResolverError, GroupSource  # noqa: PLC0415

    source = GroupSource("hosts", {name: ",".join(members) for name, members in groups.items()})
    parts = re.split(r"([!&^])", "".join(word.split()))
    sets = [f"@{each}" if each in groups and each not in hosts else each for each in parts]
    nodes = partial(NodeSet, resolver=GroupResolver(source))
    try:
        found = [str(name) for name in nodes("".join(sets))]
        for at, sign in enumerate(sets):
            if sign == "!" and not nodes("".join(sets[:at])) & nodes(sets[at + 1]):
                raise BadInput(f'"{word}" leaves nothing out: {parts[at + 1]} is not among {parts[at - 1]}')
    except (NodeSetException, GroupResolverError, ValueError, AssertionError) as error:  # numbers without end
        raise _no_range(word, str(error)) from None
    if not found:
        raise BadInput(f'"{word}" names no host')
    listed = [name for part in parts for name in groups.get(part.removeprefix("@"), ())]
    order = {name: place for place, name in enumerate(listed)}
    return tuple(sorted(found, key=lambda name: order.get(name, len(order))))


def _no_range(word: str, why: str) -> BadInput:
    return BadInput(f'"{word}" is not a range of hosts: {why}', "write it as l40s-[01-04]")


def check_form(word: str) -> str:
    """Return what is wrong with a word that names hosts, whatever hosts.yaml lists; "" for nothing."""
    try:
        for part in split_ranges(word):
            plain = part.removeprefix("ssh://")
            if not _V6.fullmatch(plain) and ("[" in plain or has_operator(plain)):
                _size(plain)
            elif not plain.startswith("@"):
                parse_ssh_target(plain)
    except ValueError as error:
        return _no_range(word, str(error)).message
    except BadInput as error:
        return f"{error.message} ({error.fix})" if error.fix else error.message
    return ""


def expand_or_empty(word: str) -> tuple[str, ...]:
    """Return the names of a range, or none when it is malformed."""
    try:
        return expand_ranges(word, {})
    except BadInput:
        return ()


def _size(word: str) -> int:
    """Return how many names a word stands for, or more. Raises ValueError where a bracket holds no range.

    ClusterShell takes more, as digits of other scripts, and would count them only by making all names.
    """
    if "[" in _RANGE.sub("", word) or "]" in _RANGE.sub("", word):
        raise ValueError("brackets hold numbers and ranges, such as [1-4,7]")
    total = 1
    for ranges in _RANGE.findall(word):
        total *= sum(_length(part) for part in ranges.split(","))
    return total


def _length(part: str) -> int:
    match = _PART.fullmatch(part)
    if not match:
        raise ValueError(f'"{part}" is neither a number nor a range')
    low, high = int(match[1]), int(match[2] or match[1])
    if high < low:
        raise ValueError(f'"{part}" goes from high to low')
    return high - low + 1
