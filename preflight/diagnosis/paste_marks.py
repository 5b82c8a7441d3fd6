"""What pasting or an editor adds to a log: entities, invisible characters, quotes, margins, numbers. Pure."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from preflight import regex as re

_ENTITY = re.compile(r"&(?:lt|gt|quot|amp|apos|nbsp|#\d{2,5}|#x[0-9a-fA-F]{2,4});")
_ENOUGH_ENTITIES = 2
_TAG = re.compile(
    r"</?(?:pre|code|details|summary|span|div|p|br|b|i|font|td|tr|tbody|table|kbd|samp)(?: [^<>]{0,200})?/?>"
)
# An exception as an editor of notebooks copies it: its name, message and stack as keys, with real line ends.
_BOLD = re.compile(r"^\*\*(\w[^*]*)\*\*\s*$")
_TITLE = re.compile(r"^#{1,3} (?=(?:[A-Za-z_]\w*\.)*\w+(?:Error|Exception): )")
_NAME_KEY, _MESSAGE_KEY = re.compile(r"\s*\"name\": \"(\w{1,80})\",$"), re.compile(r"\s*\"message\": \"(.*)$")
_LOST_BLANK = re.compile(r"^((?:\w+\.)*\w+(?:Error|Exception)):(?=['\"])")
_ESCAPE = re.compile(r"(?:\^\[|#033|\\u001[bB]|\\x1b|\\033|\\e|␛)(?=\[[\d;]{0,12}[A-Za-z])")
_CHARACTERS: dict[int, str | None] = {
    **dict.fromkeys(map(ord, "\x00\u200b\u200c\u200d\u2060\ufeff\xad")),
    **dict.fromkeys(map(ord, "\xa0\u202f\u3000\u2009"), " "),
    **dict.fromkeys((0x201C, 0x201D), '"'),
    **dict.fromkeys((0x2018, 0x2019), "'"),
}
_UNUSUAL = re.compile("[" + "".join(map(chr, _CHARACTERS)) + "]")

# Marks of quotes, bullets, comments, differences and panes; the second has the blank that may be the first's.
_MARKS = tuple(
    (re.compile(mark), re.compile(mark + " "))
    for mark in (
        r"(?:> ?)*>",
        r"[-*•](?= |$)",
        r"#(?= |$)",
        r"//(?= |$)",
        r"\+(?!-)",
        r"│(?=[^│]*$)",
        r"stderr:",
    )
)
_ENDS = ("\\", "<br>", "<br/>", "$")
_HEAD = re.compile(r"^([ \t]+)Traceback \(most recent call last\)|^(\t| {4})  File \"", re.MULTILINE)
_FEWEST = 3
_SHARE = 0.9
_SAMPLE = 40

_NUMBERED = re.compile(r"\s{0,7}(\d{1,7})(?: ?[:|│] ?|[ \t]|$)")
_TASK = re.compile(r"\d{1,5}: ")
_ENOUGH = 6  # lines that make a listing whatever its numbers are followed by


def strip_marks(texts: Sequence[str]) -> Sequence[str]:
    """Return the lines without what was put around, before or behind all of them, else as they are."""
    whole = "\n".join(texts)
    texts = _readable(texts, whole)
    for strip in (strip_numbers, _without_ends, _without_mark, strip_numbers, _without_margin):
        texts = strip(texts)
    return _dedented(texts) if '  File "' in whole and _HEAD.search(whole) else texts


def _readable(texts: Sequence[str], whole: str) -> Sequence[str]:
    """Return the lines in the characters that were printed."""
    if "&" in whole and len(_ENTITY.findall(whole)) >= _ENOUGH_ENTITIES:
        import html  # noqa: PLC0415 - its table of names takes longer to load than all of this module

        texts = [html.unescape(html.unescape(_TAG.sub("", text))).replace("\n", " ") for text in texts]
        whole = "\n".join(texts)
    if '\t"message": "' in whole or ' "message": "' in whole:
        texts = _of_notebook(texts)
    if whole.startswith("#") and not "".join(texts[1:2]).startswith("#"):  # one alone is a page's title
        texts = [_TITLE.sub("", texts[0]), *texts[1:]]
    if "**" in whole:
        texts = [_BOLD.sub(r"\1", text) for text in texts]
    if _UNUSUAL.search(whole):
        texts = [text.translate(_CHARACTERS) for text in texts]
        whole = "\n".join(texts)
    if "Error:'" in whole or 'Error:"' in whole:
        texts = [_LOST_BLANK.sub(r"\1: ", text) for text in texts]
    return [_ESCAPE.sub("\x1b", text) for text in texts] if _ESCAPE.search(whole) else texts


def _of_notebook(texts: Sequence[str]) -> Sequence[str]:
    """Return an exception as Python prints it where an editor shows its name and its message as two keys."""
    found, inside = list(texts), False
    for place, (one, other) in enumerate(pairwise(texts), start=1):
        name, message = _NAME_KEY.match(one), _MESSAGE_KEY.match(other)
        inside = inside or bool(name and message)
        if name and message:
            found[place] = f"{name[1]}: {message[1]}"
        elif inside and other.lstrip().startswith('File \\"'):
            found[place] = other.replace('\\"', '"')
    return found


def _are_most(texts: Sequence[str], fits: Callable[[str], object]) -> bool:
    """Whether nearly all lines that hold something fit, of which a few are looked at first."""
    for few in (texts[:: max(1, len(texts) // _SAMPLE)], texts):
        filled = [text for text in few if text and not text.isspace()]
        if sum(1 for text in filled if fits(text)) < _SHARE * len(filled):
            return False
    return len(filled) >= _FEWEST


def _without_ends(texts: Sequence[str]) -> Sequence[str]:
    """Return the lines without what continues each of them, or the code marks around each."""
    for end in _ENDS:
        if _are_most(texts, lambda text, end=end: text.endswith(end)):  # type: ignore[misc]
            return [text.removesuffix(end) for text in texts]
    if _are_most(texts, lambda text: text[0] == "`" == text.rstrip()[-1]):
        return [text.strip("`") for text in texts]
    return texts


def _without_mark(texts: Sequence[str]) -> Sequence[str]:
    """Return the lines without a mark that nearly all start with, or all but the selection's first line."""
    rest = [text for text in texts[1:] if text.strip()]
    for mark, spaced in _MARKS:
        if _are_most(texts, mark.match) or (len(rest) >= _FEWEST and all(map(mark.match, rest))):
            marked = [text for text in texts if mark.match(text)]
            loose = all(spaced.match(text) or mark.fullmatch(text.rstrip()) for text in marked)
            return [
                (spaced if loose else mark).sub("", text, count=1) if mark.match(text) else text
                for text in texts
            ]
    return texts


def _without_margin(texts: Sequence[str]) -> Sequence[str]:
    """Return the lines without the blanks before all; from four on, the first may be a selection's."""
    places = [place for place, text in enumerate(texts) if text and not text.isspace()]
    rest = places[len(places) > _FEWEST :]
    if len(places) in {0, _FEWEST} or not texts[rest[0]][0].isspace() or not texts[rest[-1]][0].isspace():
        return texts
    margin = min(len(texts[place]) - len(texts[place].lstrip()) for place in rest)
    if not margin:
        return texts
    return [text[margin:] if not text[:margin].strip() else text for text in texts]


def _dedented(texts: Sequence[str]) -> Sequence[str]:
    """Return the lines with blocks from an indented traceback on moved to the left: logs amid prose."""
    found = list(texts)
    for place, text in enumerate(texts):
        head = _HEAD.match(text)
        if not head or found[place] is not text:
            continue
        margin = head[1] or head[2]
        start = place
        while start and (texts[start - 1].startswith(margin) or not texts[start - 1].strip()):
            start -= 1
        while start < len(texts) and (texts[start].startswith(margin) or not texts[start].strip()):
            found[start] = texts[start].removeprefix(margin)
            start += 1
    return found


def strip_numbers(texts: Sequence[str]) -> Sequence[str]:
    """Return a listing's lines without the numbers of `cat -n`, `grep -n` or an editor; else as they are."""
    filled = [text for text in texts if text.strip()]
    few = len(filled) < _ENOUGH
    if sum(1 for text in texts[:_ENOUGH] if _NUMBERED.match(text)) < min(len(filled), _ENOUGH) - (not few):
        return texts
    if len(filled) < _FEWEST or (few and _TASK.match(filled[0])):
        return texts
    found = [_NUMBERED.match(text) for text in texts]
    numbers = [int(each[1]) for each in found if each]
    steps = sum(1 for one, other in pairwise(numbers) if other == one + 1)
    if numbers[0] == 0 or steps < (1 if few else _SHARE) * len(filled) - 1:
        return texts  # what counts from 0 are the tasks of srun
    return [text[each.end() :] if each else text for text, each in zip(texts, found, strict=True)]
