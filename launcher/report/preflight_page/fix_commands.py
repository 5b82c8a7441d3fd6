"""The commands inside the text of a fix, so that a page can mark what to copy. Pure."""

from collections.abc import Iterator

from preflight import regex as re

_PIECE = re.compile(r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"]|['\"])+|\s+")
_HEAD = re.compile(
    r"gpulaunch|sudo|nvidia-smi|ibstat|lspci|dmesg|modprobe|systemctl|timedatectl|ssh|ssh-keygen|scp"
    r"|rsync|nc|nft|ping|ufw|getent|ss|ps|df|ls|cat|mkdir|export|ulimit|kill|pip|docker|podman|git|hf"
    r"|scontrol|nvcc|lsof|fuser|journalctl"
)
_PYTHON = re.compile(r"(?:/|~/)\S*/python[0-9.]*")
_END = re.compile(
    r"that|shows|show|names|name|sends|removes|lists|looks|prints|tells|corrects|says|on|for|in|to|of"
    r"|again|with|whom|which|or|and|then|if|when|by|from|where"
)
_TRAILING = ",;.)"  # a colon belongs to a command, as in `lspci -d 10de:`


def split_fix(fix: str) -> list[tuple[str, bool]]:
    """Return the whole text in pieces, each with whether it is a command to type."""
    return [piece for piece in _merged(_pieces(fix)) if piece[0]]


def _pieces(fix: str) -> Iterator[tuple[str, bool]]:
    """Yield words and spaces, each with whether it is a part of a command."""
    inside = False
    for match in _PIECE.finditer(fix):
        word = match[0]
        if word.isspace():
            inside = inside and word == " "
            yield word, inside
            continue
        lead = word[: len(word) - len(word.lstrip("("))]
        rest = word[len(lead) :]
        is_balanced = rest.count("(") == rest.count(")")
        core = rest if is_balanced and not rest.endswith((",", ";", ".")) else rest.rstrip(_TRAILING)
        if not inside or lead or _END.fullmatch(core):
            inside = any(each.fullmatch(core) for each in (_HEAD, _PYTHON))
        yield lead, False
        yield core, inside
        tail = rest[len(core) :]
        yield tail, False
        inside = inside and not tail


def _merged(pieces: Iterator[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Join neighbours of one kind; a space at the end of a command is prose."""
    joined: list[tuple[str, bool]] = []
    for words, is_command in pieces:
        if words and joined and joined[-1][1] == is_command:
            joined[-1] = joined[-1][0] + words, is_command
        elif words:
            joined.append((words, is_command))
    tidy: list[tuple[str, bool]] = []
    for words, is_command in joined:
        kept = words.rstrip() if is_command else words
        tidy += [(kept, is_command), (words[len(kept) :], False)]
    return tidy
