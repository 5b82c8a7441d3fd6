"""What pastes, collectors and terminals put around the lines of a recording: taken away. Pure."""

import codecs
import html
import json
import quopri
from collections.abc import Iterator
from itertools import pairwise, takewhile

from preflight import regex as re
from preflight.smi_reports.csv_dialects import normalize_csv
from preflight.smi_reports.gpustat import JSON as GPUSTAT_JSON
from preflight.smi_reports.screens import draw_screens
from preflight.smi_reports.wrapped_lines import join_pieces, unwrap_lines

# What terminals and files add, whatever the text.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_UTF_16 = 3  # of fewer characters than these one is a NUL
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[()][A-Z0-9]|\x1b[=>78]")
_INVISIBLE = re.compile("[\u200b-\u200f\u2060\ufeff]")
_PANE = "\u2502"  # what tmux draws between two panes
_LEAST_SPLIT = 0.9  # share of the lines that have it, or another mark of every line

# Mails, diffs and tags of hosts.
_SOFT_BREAK = re.compile(r"^[^\n]{74}[^=\n]=$", re.MULTILINE)  # of quoted-printable, in which mails are sent
_DIFF = re.compile(r"^--- .*\n\+\+\+ .*\n@@ -1(?:,\d+)? \+1(?:,\d+)? @@.*\n", re.MULTILINE)
_TAG_OF_HOST = re.compile(r"^((?!GPU|NIC|mlx)[A-Za-z][\w.-]*)\t", re.MULTILINE)  # of `parallel --tag`

# Web pages, Markdown and XML.
_TAGS = re.compile(r"</?(?:pre|code|span|div|p|samp|tt|strong|b)\b[^<>\n]{0,200}>|<br ?/?>", re.IGNORECASE)
_CELL_END = re.compile(r"</t[hd]>\s*<t[hd]\b[^<>\n]{0,200}>", re.IGNORECASE)
_ROW_END = re.compile(r"\s*</?(?:table|thead|tbody|tr|th|td)\b[^<>\n]{0,200}>\s*", re.IGNORECASE)
"""Of a table of a web page."""
_BOLD = re.compile(r"(?<=[|\s])\*\*([^*|\n]{1,60})\*\*(?=[|\s])")
_FENCE = re.compile(r"^```(?=[\w.]+, )|(?<=[^`\s])```$", re.MULTILINE)  # within lines, as chats write it
_TICK = re.compile(r"^`(?!`)|(?<!`)`$", re.MULTILINE)  # of a span, which may be of several lines
_ESCAPED = re.compile(r"^[> \t]*\\[|+#].*$", re.MULTILINE)  # marks of a Markdown table
_BEHIND = re.compile(r"^(\|(?:[^|\n]{1,120}\|)+|\+[-=+]{20,})[ \t]+(?:#|//|<-|\u2190)[^|\n]*$", re.MULTILINE)
"""What an author remarks behind the right edge of a table."""
_TAG = re.compile(r"<(/?)(\w+)[^<>]{0,200}?(/?)>")
_BOXES = str.maketrans(
    {
        **dict.fromkeys("\u2502\u2503\u2551\uff5c\u00a6", "|"),
        **dict.fromkeys("\u2500\u2501\u2013", "-"),
        "\u2014": "--",
        "\u2550": "=",
    }
    | {first + digit: str(digit) for first in (0xFF10, 0x0660, 0x06F0) for digit in range(10)}
    | dict.fromkeys("\u250c\u2510\u2514\u2518\u251c\u2524\u252c\u2534\u253c", "+")
    | dict.fromkeys("\u2552\u2555\u2558\u255b\u2564\u2567", "+")
    | dict.fromkeys("\u2554\u2557\u255a\u255d\u2560\u2563\u2566\u2569\u256c\u255e\u2561\u256a", "+")
)
"""Lines of boxes and digits of other scripts, as nvidia-smi prints them."""
_NO_EDGE = re.compile(r"^( ?)NVIDIA-SMI \d[^\n]*\|$", re.MULTILINE)
_TABS = re.compile(r" {0,8}\t{1,64}")

# Strings of JSON and Python, and logs that hold them.
_QUOTED_HEAD = re.compile(
    r'^[^\S\n]*"(?:\| NVIDIA-SMI |=+NVSMI LOG=|<\?xml|<nvidia_smi_log|GPU 0: )', re.MULTILINE
)
_QUOTED_LINE = re.compile(r'\s*(?:"\w{1,40}": )?("(?:[^"\\]|\\.)*"),?\s*')
_HOST_KEYS = ("host", "hostname", "node")
_LOG_KEYS = ("log", "message", "msg", "text", "line", "MESSAGE")
_OUTPUT_KEYS = ("stdout", "output", "result", "stderr", *_LOG_KEYS)
_STRING_START = re.compile(r"""(?<=[:(=]) ?b?["'](?=[^"'\n]{1,400}?\\n)""")
_ESCAPES = {"r": "", "n": "\n", "t": "\t", '"': '"', "\\": "\\"}
_ESCAPE = re.compile(r'\\([rnt"\\])')

# What is in front of the lines.
_MARKS_OF_LINES = tuple(map(re.compile, (r">(?: |$)", r">", r"\[rank\d+\]: ?")))
"""What mails and torchrun put in front of every line, whatever the lines say."""
OF_LOG = (
    r"(?i:debug|info|notice|warn(?:ing)?|error|critical|fatal|(?:std)?(?:out|err)|MainThread|Thread-\d+"
    r"|before|after)"
)
"""A level, a stream, a thread or a state: it names no host."""
_LINE_NUMBER = re.compile(r" *(\d{1,9})[.:)]?(?: |$)")
_MOST_MARKS = 16
_QUOTE = re.compile(r"[>#|\s]{1,8}")
# Known first lines, behind something: a quote's marks, a line's number, its time, its container or host.
HEAD = re.compile(
    r"^([^\n]{1,80}?)(?:\|[^\S\n]*NVIDIA-SMI \d[\dx.]* |(?<!=)={5,}NVSMI LOG="
    r"|\|[^\S\n]+\d{1,2}[^\S\n][^|\n]{18,60}\|[^\S\n]+(?:[0-9A-F]{8}:)?[0-9A-F]{2}:[0-9A-F]{2}\.\d[^\S\n]"
    r"|(?<!\w{12}\) )(?<!\w{12}\)[,;] )\bGPU \d{1,2}: [^\n]*\(UUID: |GPU models and configuration *:"
    r"|<\?xml version="
    r"|(?:[$#%>][^\S\n])?nvidia-smi[^\S\n][^\n]{0,200}--query-gpu="
    r"|#[^\S\n]*(?:(?:Date|Time)[^\S\n]+){0,2}gpu,?[^\S\n]+(?:pwr|pid|sm|fb)\b|(?<=[^\w\n])GPU0[^\S\n]+X\b"
    r"|(?<![0-9a-f:])(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d (?:3D|VGA|Display)\b[^\n]*: NVIDIA"
    r"|\[0\] [^|\n]{1,60}\|[^|\n]{1,60}\|[^|\n]{0,20} / +\d{1,12} MB"
    r"|(?<![\w.,=])(?:timestamp|index|pid|(?:gpu_)?(?:name|uuid)|driver_version), ?"
    r"(?:(?:[a-z_.]{2,}(?: \[[\w/%]{1,5}\])?(?:, ?|$)){2,}"
    r"|[a-z]{2,20}\.[a-z.]{2,20}(?: \[[\w/%]{1,5}\])?$))",
    re.MULTILINE,
)
_MARK_OF_HEAD = re.compile(
    r"NVIDIA-SMI |NVSMI LOG=|:[0-9A-F]{2}\.\d|\(UUID: |GPU models and|<\?xml version=|--query-gpu="
    r"|gpu,?[^\S\n]+(?:pwr|pid|sm|fb)\b|GPU0|: NVIDIA|\[0\] "
    r"|,(?:(?<=timestamp,)|(?<=index,)|(?<=pid,)|(?<=name,)|(?<=uuid,)|(?<=driver_version,))"
)
"""One of these is in each line that `HEAD` finds, and is found much faster in a long text."""

ERRORS = (
    r"(?:NVIDIA-SMI has failed|Failed to (?:initialize|properly shut down) NVML|No devices were found"
    r"|Unable to determine the |NVIDIA-SMI couldn't find)"
)
_TAGGED_ERROR = re.compile(
    rf"^([^\n]{{0,40}}\d\d:\d\d:\d\d[^\n]{{0,40}}?|\S{{1,60}}(?:[:\]>]| {{1,8}}\|) ?){ERRORS}", re.MULTILINE
)
_NEXT_LINES = 6  # lines below the first one by which its prefix is known to be one of every line
_MARK = re.compile(r"[^,\n]{0,60}[\s\]:>]")  # in front of a CSV's names alone
_CSV_NAME = re.compile(r"(?:timestamp|index|name|uuid|driver_version),")


def decode_text(data: bytes) -> str:
    """Return the text of a file, of which PowerShell and editors of Windows choose the encoding."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    return data.decode("utf-8", "replace")


def clean_text(text: str) -> str:
    """Return a text without colours, quotes of JSON, tags of web pages and line ends of other systems."""
    text = _INVISIBLE.sub("", _ANSI.sub("", draw_screens(_without_nuls(text))))
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u00a0", " ")
    if ("=3D" in text and "=\n" in text) or _SOFT_BREAK.search(text):
        text = quopri.decodestring(text.encode()).decode("utf-8", "replace").replace("\u00a0", " ")
    if text.count("$\n") > _LEAST_SPLIT * text.count("\n"):  # of `cat -A`
        text = text.replace("$\n", "\n").replace("^I", "\t")
    if "&lt;nvidia_smi_log" in text or "<nvidia_smi_log&gt;" in text:
        text = html.unescape(text).replace("\u00a0", " ")
    if "</td>" in text.lower():
        text = html.unescape(_ROW_END.sub("\n", _CELL_END.sub("\t", text)))
    text = normalize_csv(_without_pane(_after_diff(_under_names(text))))
    if len(_TAG_OF_HOST.findall(text)) > _LEAST_SPLIT * text.count("\n"):
        text = _TAG_OF_HOST.sub(r"\1: ", text)
    return _unquoted(text)


def _under_names(text: str) -> str:
    """Return the outputs of hosts that JSON has by or beside their names, as `head` would print them."""
    try:
        held = [json.loads(text)] if text.startswith("{") else []
    except (ValueError, RecursionError):
        held = [_object(line) for line in text.split("\n") if line.strip()]
    pairs = [pair for each in held for pair in ([(each, each)] if _said(each, _HOST_KEYS) else each.items())]
    outputs = [(_said(name, _HOST_KEYS), _said(output, _OUTPUT_KEYS)) for name, output in pairs]
    is_of_hosts = len(outputs) > 1 and all(said and name not in _OUTPUT_KEYS for name, said in outputs)
    is_of_hosts &= any("\n" in said for _, said in outputs)
    return "".join(f"==> {name} <==\n{said}\n" for name, said in outputs) if is_of_hosts else text


def _object(line: str) -> dict[str, object]:
    try:
        held = json.loads(line) if line.startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
    return held if isinstance(held, dict) else {}


def _said(held: object, keys: tuple[str, ...]) -> str:
    """Return a text, or that of an object at the first of `keys` that it has."""
    values = [held[key] for key in keys if key in held] if isinstance(held, dict) else [held]
    return next((value for value in values if isinstance(value, str)), "")


def _after_diff(text: str) -> str:
    """Return the second file of a unified diff that shows it whole, another text as it is."""
    found = _DIFF.search(text)
    lines = [] if found is None or text.count("\n@@ ") > 1 else text[found.end() :].split("\n")
    return "\n".join(line[1:] for line in lines if line[:1] in (" ", "+", "")) if lines else text


def _without_nuls(text: str) -> str:
    """Return a text without NULs: many are those of UTF-16, others are where a file has lost a block."""
    if text.count("\0") * _UTF_16 > len(text):
        return re.sub("\0{2,}", "\ufffd", text.strip("\0")).replace("\0", "")
    return text.strip("\0").replace("\0", "\ufffd")


def _without_pane(text: str) -> str:
    """Return the pane of a split terminal that holds the table, of a text that has the line between both."""
    lines = text.split("\n")
    head = next((line for line in lines if "| NVIDIA-SMI " in line and line.count(_PANE) == 1), "")
    column = head.find(_PANE)
    split = sum(line[column : column + 1] == _PANE for line in lines)
    if not head or split < _LEAST_SPLIT * sum(map(bool, lines)):
        return text
    is_left = head.find("| NVIDIA-SMI ") < column
    return "\n".join(line[:column] if is_left else line[column + 1 :] for line in lines)


def strip_prefixes(text: str) -> str:
    """Return a cleaned text without what quotes, line numbers and collectors put in front of its lines."""
    text = unwrap_lines(_with_left_edge(strip_marks(text)))
    heads, listings = dict[str, re.Match[str]](), [*find_heads(text)]
    for found in listings or _TAGGED_ERROR.finditer(text):
        heads.setdefault(re.sub(r"\d+", "0", found[1]), found)
    if not heads:
        return text
    lines, marks = text.split("\n"), [*heads.values()][:_MOST_MARKS]
    belows = [_below(found, text, lines) if listings else lines for found in marks]
    patterns = [_prefix(found[1], below) for found, below in zip(marks, belows, strict=True)]
    prefixes = [pattern for pattern in patterns if pattern is not None]
    if not prefixes:
        first = marks[0]
        is_csv = _MARK.fullmatch(first[1]) and _CSV_NAME.match(text, first.end(1))
        return f"{text[: first.start()]}\n{text[first.end(1) :]}" if is_csv else text
    prefix = re.compile("|".join(prefixes))
    is_marked = all(found[1].strip() for found in marks)  # beside an indented block others are not
    whole = join_pieces(lines, lambda _, line: is_marked and bool(line) and not prefix.match(line))
    return "\n".join(prefix.sub("", line) for line in whole)


def find_heads(text: str) -> Iterator[re.Match[str]]:
    """Yield what `HEAD` finds, at most once in a line."""
    at = 0
    while (mark := _MARK_OF_HEAD.search(text, at)) is not None:
        start = text.rfind("\n", 0, mark.start()) + 1
        if found := HEAD.match(text, start):
            yield found
        at = text.find("\n", mark.end())
        if at < 0:
            return


def _below(found: "re.Match[str]", text: str, lines: list[str]) -> list[str]:
    """Return the lines below a first line by which what is in front of it is known to be in front of all."""
    width = max(map(len, lines)) if _QUOTE.fullmatch(found[1]) else 0
    below = text[found.start() :].split("\n", 2 * _NEXT_LINES + 1)[: 2 * _NEXT_LINES + 1]
    following = [
        line
        for above, line in pairwise(below)
        if not width or line.startswith(found[1].rstrip()) or len(above) != width
    ]  # without what a terminal wrapped
    return (following if found[1].strip() else _of_indented_block(following, found[1]))[:_NEXT_LINES]


def _with_left_edge(text: str) -> str:
    """Return a text with the one or two columns that a copy of a table lacks at its left."""
    head = _NO_EDGE.search(text)
    if head is None:
        return text
    lost = 2 - len(head[1])
    return "\n".join(
        f"{line[-1]}{line[0] if line[0] in '-=' else ' '}"[:lost] + line
        if line[-1:] in ("|", "+") and line[0] not in "|+"
        else line
        for line in text.split("\n")
    )


def strip_marks(text: str) -> str:
    """Return a text without marks that all its lines have, and without numbers that count them."""
    for _ in range(_MOST_MARKS):
        lines = text.split("\n")
        said = [line for line in lines if line.strip()]
        mark = next((mark for mark in _MARKS_OF_LINES if said and all(map(mark.match, said))), None)
        if mark is None:
            found = [int(number[1]) for line in said if (number := _LINE_NUMBER.match(line))]
            is_count = len(found) == len(said) > 1 and 0 < found[0] == found[-1] - len(said) + 1
            mark = _LINE_NUMBER if is_count and found == sorted(set(found)) else None
        if mark is None:
            return text
        text = "\n".join(mark.sub("", line, count=1) for line in lines)
    return text


def _of_indented_block(following: list[str], blanks: str) -> list[str]:
    """Return the lines of a block that is indented: a line with less in front of it ends the block.

    Where the first line alone is indented, all lines are returned.
    """
    block = list(takewhile(lambda line: not line.strip() or line.startswith(blanks), following))
    return block if any(map(str.strip, block)) else following


def close_xml(text: str) -> tuple[str, tuple[str, ...]]:
    """Return an XML text that ends too early with its open elements closed, and their names.

    A value that is not whole is left out. A text that is whole, or wrong in another way, stays as it is.
    """
    if "</nvidia_smi_log>" in text:
        return text, ()
    opened, inside, kept = list[str](), tuple[str, ...](), 0
    for tag in _TAG.finditer(text):
        if not tag[1]:
            opened += [] if tag[3] else [tag[2]]
        elif opened and opened.pop() == tag[2]:
            inside, kept = tuple(opened), tag.end()
        else:
            return text, ()
    return text[:kept] + "".join(f"</{name}>" for name in reversed(inside)) if kept else text, inside


def _unquoted(text: str) -> str:
    """Return a text that JSON, a notebook, a web page or Markdown holds, as it was printed.

    Tabs and lines of boxes in a table become the characters of nvidia-smi.
    """
    is_string = (
        text.count("\\n") > 2 * text.strip().count("\n") or " | (stdout) " in text
    )  # of JSON, of `ansible -o`
    if is_string and not _QUOTED_HEAD.search(text):
        text = _STRING_START.sub("\n", text)
        text = _ESCAPE.sub(lambda found: _ESCAPES[found[1]], text)
        text = re.sub(r'\n", {0,8}"', "\n", re.sub(r"^b(?=['\"])", "", text.strip()).strip("'\""))
    if '"' in text and not re.search(GPUSTAT_JSON, text):
        text = _unquoted_lines("\n".join(map(_logged, text.split("\n"))))
    if "<nvidia_smi_log" not in text and ("<" in text or "&" in text):
        text = html.unescape(_TAGS.sub("", text)).replace("\u00a0", " ")
    text = _BOLD.sub(r"\1", text) if "**" in text else text
    text = _FENCE.sub("", _TICK.sub("", text))
    text = _ESCAPED.sub(lambda line: re.sub(r"\\([|_+#-])", r"\1", line[0]), text.translate(_BOXES))
    text = _BEHIND.sub(r"\1", text)
    return "\n".join(map(_without_tabs, text.split("\n"))) if "\t" in text else text


def _logged(line: str) -> str:
    """Return the text of a line that Docker or a logger wrote as an object of JSON, another line as it is."""
    return (_said(_object(line), _LOG_KEYS) or line).removesuffix("\n")


def _unquoted_lines(text: str) -> str:
    """Return a text with strings of JSON as lines, where most lines or one of nvidia-smi's are such."""
    lines = text.split("\n")
    quoted = [_QUOTED_LINE.fullmatch(line) if '"' in line else None for line in lines]
    if sum(map(bool, quoted)) * 2 <= len(lines) and not _QUOTED_HEAD.search(text):
        return text
    return "\n".join(_decoded(match[1]) if match else line for match, line in zip(quoted, lines, strict=True))


def _without_tabs(line: str) -> str:
    """Return a line without tabs: those in front of it become blanks, those between its words one blank."""
    if "\t" not in line:
        return line
    words = line.lstrip()
    return line[: len(line) - len(words)].expandtabs() + _TABS.sub(" ", words)


def _decoded(quoted: str) -> str:
    try:
        return str(json.loads(quoted, strict=False)).removesuffix("\n")
    except ValueError:
        return quoted[1:-1]


def _prefix(first: str, following: list[str]) -> str | None:
    """Return the pattern of what is in front of every line, None where that is only in front of the first.

    Its digits and levels are left open: those of times, line numbers and processes change from line to line.
    """
    marks, shape = first.rstrip(), re.sub(r"\d+", r"\\d{1,20}", re.escape(first.strip()))
    blanks = f"[ \\t]{{0,{len(first) - len(marks)}}}"
    shape = re.sub(r"\\\[(?:\\ )*", r"\\[ {0,8}", shape)  # [    1.234567] of the kernel
    shape = re.sub(r"(?:\\ )+", " {1,8}", re.sub(rf"\b{OF_LOG}\b", lambda _: OF_LOG, shape))
    patterns = [f"^ *{shape}{blanks}"] if re.search(rf"\d|\b{OF_LOG}\b", first) else []
    patterns.append(f"^{re.escape(marks)}{blanks}" if marks else f"^{re.escape(first)}")
    whole = [line for line in following if line.strip()]
    for pattern in patterns:
        # of a list of one GPU no line follows, and between quotes an author writes
        if (
            not whole
            or set(marks) == {">"}
            or sum(1 for line in whole if re.match(pattern, line)) * 2 > len(whole)
        ):
            return pattern
    return None
