r"""What a pipeline of small programs prints whose input the text gives. Pure, and nothing is run.

`$(echo $CUDA_VISIBLE_DEVICES | tr "," "\n" | wc -l)`, `$(seq -s, 0 3)`: how such a script counts its GPUs.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

from preflight import regex as re

_ECHO_OPTIONS = re.compile(r"-[neE]+")
_SETS = re.compile(r"\[?:(\w+):\]?")
_CLASSES = {
    "upper": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "lower": "abcdefghijklmnopqrstuvwxyz",
    "digit": "0123456789",
}
_CLASSES["space"] = " \t\n\r\v\f"
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\"}
_PLACE = re.compile(r"%(0?\d{0,2})([ds])")
_MOST_NUMBERS = 10_000
MOST_PRINTED = 100_000


def predict_output(words: Sequence[str], given: str | None = None) -> str | None:
    """Return what a program prints that is `given` an input (None: none that is known).

    None for one that asks the machine, or that is written in a way that is not understood.
    """
    filtering = _FILTERS.get(words[0]) if words else None
    if filtering is None:
        return _source(words) if words else None
    text = filtering(given, words[1:]) if given is not None else None
    return None if text is None or len(text) > MOST_PRINTED else text


def _source(words: Sequence[str]) -> str | None:
    name, rest = words[0], list(words[1:])
    if name == "echo":
        flags = tuple(takewhile(_ECHO_OPTIONS.fullmatch, rest))
        text = " ".join(rest[len(flags) :])
        if "\\" in text:
            return None
        return text if "n" in "".join(flags) else f"{text}\n"
    if name == "printf" and not "".join(rest[:1]).startswith("-"):
        return _formatted(rest)
    return _sequence(rest) if name == "seq" else None


def _formatted(words: Sequence[str]) -> str | None:
    """Return what printf prints, whose format is used again until each text has had a place: `%s-%02d`."""
    first, *parts = _PLACE.split(words[0]) if words else ("%",)
    texts = [_unescaped(part) for part in (first, *parts[2::3])]
    places = parts[1::3]
    rounds = max(1, -(-len(words[1:]) // len(places))) if places else 1
    if None in texts:
        return None
    given, printed = iter(words[1:]), list[str | None]()
    for _ in range(rounds):
        printed.append(texts[0])
        for width, kind, after in zip(parts[::3], places, texts[1:], strict=True):
            word = next(given, "0" if kind == "d" else "")
            if (width and kind == "s") or (kind == "d" and not re.fullmatch(r"0|-?[1-9]\d{0,9}", word)):
                return None
            printed += [format(int(word), f"{width}d") if kind == "d" else word, after]
    return "".join(filter(None, printed))


def _unescaped(text: str) -> str | None:
    """Return the text of a format between its places."""
    is_plain = re.fullmatch(r"(?:[^\\%]|\\[nt\\])*", text)
    return re.sub(r"\\(.)", lambda found: _ESCAPES[found[1]], text) if is_plain else None


def _sequence(words: Sequence[str]) -> str | None:
    separator, rest = "\n", list(words)
    while rest and (rest[0].startswith("-") and not re.fullmatch(r"-\d+", rest[0])):
        option = rest.pop(0)
        if option.startswith("-s") and (len(option) > 2 or rest):
            separator = option[2:] or rest.pop(0)
        else:
            return None
    if not 1 <= len(rest) <= 3 or not all(re.fullmatch(r"-?\d{1,7}", word) for word in rest):
        return None
    numbers = list(map(int, rest))
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] if len(numbers) > 2 else 1
    span = range(first, numbers[-1] + (1 if step > 0 else -1), step) if step else ()
    if not step or len(span) > _MOST_NUMBERS:
        return None
    return separator.join(map(str, span)) + ("\n" if span else "")


def _translated(text: str, words: Sequence[str]) -> str | None:
    options = [word for word in words if word.startswith("-") and word != "-"]
    flags = set("".join(word[1:] for word in options))  # of `--delete` a dash, which none of these is
    sets = [_characters(word) for word in words if word not in options]
    if "d" in flags <= {"d", "c", "C"} and len(sets) == 1 and sets[0] is not None:
        return "".join(one for one in text if (one in sets[0]) == (flags != {"d"}))
    if flags or len(sets) != 2 or sets[0] is None or not sets[1]:
        return None
    to = sets[1].ljust(len(sets[0]), sets[1][-1])
    return text.translate({ord(old): new for old, new in reversed(list(zip(sets[0], to, strict=False)))})


def _characters(word: str) -> str | None:
    named = _SETS.fullmatch(word)
    if named is not None:
        return _CLASSES.get(named[1])
    if re.search(r"\\(?![nt\\])|\[[:=]", word) or {"[", "*", "]"} <= set(word):  # `[x*3]` is a repetition
        return None
    word = re.sub(r"\\(.)", lambda found: _ESCAPES[found[1]], word)
    return re.sub(
        r"(\w)-(\w)", lambda found: "".join(map(chr, range(ord(found[1]), ord(found[2]) + 1))), word
    )


def _counted(text: str, words: Sequence[str]) -> str | None:
    counts = {"-l": text.count("\n"), "-w": len(text.split()), "-c": len(text.encode())}
    return f"{counts[words[0]]}\n" if len(words) == 1 and words[0] in counts else None


def _columns(text: str, words: Sequence[str]) -> str | None:
    """`awk -F, '{print NF}'`."""
    found = re.fullmatch(r"-F\0?([,:; ])\0\s*\{\s*print\s+NF\s*;?\s*\}\s*", "\0".join(words))
    mark = None if found is None or found[1] == " " else found[1]
    counts = (len(line.split(mark)) if line else 0 for line in text.splitlines())
    return None if found is None else "".join(f"{count}\n" for count in counts)


_FILTERS: Mapping[str, Callable[[str, Sequence[str]], str | None]] = {
    "tr": _translated,
    "wc": _counted,
    "awk": _columns,
    "cat": lambda text, words: None if words else text,
    "xargs": lambda text, words: (
        None if words or re.search(r"['\"\\]|^\s*-", text) else " ".join(text.split()) + "\n"
    ),
}
