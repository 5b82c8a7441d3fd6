"""Changes of an input: of its bytes, its lines, its numbers, and of the tree where it is JSON."""

import copy
import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

MAX_INPUT = 200_000
_NUMBERS = (
    b"0",
    b"-1",
    b"18446744073709551616",
    b"1e999",
    b"NaN",
    b"9" * 5000,
    b"-0.0",
    b"4294967296",
    b"\xc2\xb2",
)
_BYTES = (
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"\n",
    b"\r",
    b"\x1b[2J",
    b"\xe2\x80\xae",
    b" ",
    b"\t",
    b"'",
    b'"',
    b"\\",
)
_OPEN = (b"[", b"{", b"(", b"<a>", b"- ", b"[[", b'{"a":', b"-", b"not ", b"*")
_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 64, 10**400, 1e308, "", "x" * 5000, "\ud800", "\x1b[2J\n", "../../etc/passwd", [],
    {}, [[]], {"missing": "x"}, {"missing": "x", "code": []}, "²", "1e999", [None] * 50,
)  # fmt: skip

Change = Callable[[random.Random, bytes], bytes]


def mutated(
    rng: random.Random, data: bytes, others: Sequence[bytes], words: Sequence[str], *, is_json: bool
) -> bytes:
    """Return an input that is a little, or much, unlike `data`."""
    if is_json and rng.random() < 0.7:
        changed = _tree_changed(rng, data)
        if changed is not None:
            return changed[:MAX_INPUT]
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        kind = rng.random()
        if words and kind < 0.25:
            data = _inserted(rng, data, rng.choice(words).encode())
        elif kind < 0.35:
            data = _spliced(rng, data, rng.choice(others))
        else:
            data = rng.choice(_CHANGES)(rng, data)[:MAX_INPUT]
    return data[:MAX_INPUT]


def _spot(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + int(rng.paretovariate(0.7)))


def _inserted(rng: random.Random, data: bytes, word: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + word + data[at:]


def _spliced(rng: random.Random, data: bytes, other: bytes) -> bytes:
    start, end = _spot(rng, other)
    at = rng.randrange(len(data) + 1)
    return data[:at] + other[start:end] + data[rng.randrange(at, len(data) + 1) :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    start, end = _spot(rng, data)
    return data[:start] + data[end:]


def _repeated(rng: random.Random, data: bytes) -> bytes:
    """One piece many times: what grows faster than its input shows here."""
    start, end = _spot(rng, data)
    piece = data[start:end]
    times = rng.choice((2, 2, 2, 10, 10, 100, 100, 3000, 30_000)) if piece else 1
    return data[:start] + piece * min(times, MAX_INPUT // max(1, len(piece))) + data[end:]


def _byte(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def _odd(rng: random.Random, data: bytes) -> bytes:
    return _inserted(rng, data, rng.choice(_BYTES))


def _nested(rng: random.Random, data: bytes) -> bytes:
    return _inserted(rng, data, rng.choice(_OPEN) * rng.choice((1, 1, 3, 3, 30, 30, 300, 5000, 50_000)))


def _number(rng: random.Random, data: bytes) -> bytes:
    found = list(re.finditer(rb"\d+", data[:20_000]))
    if not found:
        return _odd(rng, data)
    match = rng.choice(found)
    return data[: match.start()] + rng.choice(_NUMBERS) + data[match.end() :]


def _lines(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(4)
    if way == 0:
        lines[one], lines[other] = lines[other], lines[one]
    elif way == 1:
        times = min(rng.choice((1, 1, 2, 2, 50, 2000)), MAX_INPUT // (1 + len(lines[other])))
        lines[one:one] = [lines[other]] * times
    elif way == 2:
        del lines[min(one, other) : max(one, other)]
    else:
        lines[one] = rng.choice((b" ", b"  ", b"\t", b"    ")) * rng.randrange(4) + lines[one].lstrip()
    return b"\n".join(lines)


def _blanks_or_case(rng: random.Random, data: bytes) -> bytes:
    start, end = _spot(rng, data)
    piece = data[start:end]
    return data[:start] + rng.choice((piece.upper(), piece.replace(b" ", b""), piece[::-1])) + data[end:]


_CHANGES: tuple[Change, ...] = (
    _cut, _repeated, _byte, _byte, _odd, _nested, _number, _number, _lines, _lines, _blanks_or_case
)  # fmt: skip


def _tree_changed(rng: random.Random, data: bytes) -> bytes | None:
    """Return JSON with one or a few of its values changed, None when it is no JSON."""
    try:
        tree = json.loads(data) if len(data) <= MAX_INPUT // 2 else None
    except (ValueError, RecursionError):
        return None
    for _ in range(rng.choice((1, 1, 1, 3))):
        tree = _with_change(rng, tree)
    text = json.dumps(tree)
    return text.encode("utf-8", "surrogatepass")


def _with_change(rng: random.Random, tree: Any) -> Any:
    """Change one value: walk down some way, and put another thing there, take it away or give it a rival."""
    if not isinstance(tree, dict | list) or not tree or rng.random() < 0.1:
        return copy.deepcopy(rng.choice(_VALUES))
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    key = rng.choice(keys)
    act = rng.random()
    if act < 0.1:
        del tree[key]
    elif act < 0.15:
        other = rng.choice(keys)
        tree[key], tree[other] = tree[other], tree[key]
    elif act < 0.2 and isinstance(tree, list):
        tree[key:key] = [copy.deepcopy(tree[key]) for _ in range(rng.choice((1, 10)))]
    elif act < 0.25 and isinstance(tree, dict):
        tree[rng.choice(("x", "", "missing", "code", "1", "\ud800"))] = tree.pop(key)
    else:
        tree[key] = _with_change(rng, tree[key])
    return tree
