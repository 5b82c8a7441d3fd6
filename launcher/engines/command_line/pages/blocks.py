"""The blocks of a page that hold its commands: fences, directives, code within a sentence. Pure."""

import html
import textwrap
from collections.abc import Iterable, Iterator

from launcher.engines.command_line.launch_patterns import LAUNCH, LAUNCH_INSIDE, LAUNCH_LINE
from launcher.engines.command_line.manifests.lines import NEXT_DOCUMENT
from launcher.engines.command_line.side_commands import LEFT_OUT, say_left_out
from launcher.engines.command_line.tables.names import as_names
from launcher.engines.command_line.task_files.editor_config import extract_editor_command
from preflight import regex as re

_PRE = re.compile(r"<pre\b[^<>]{0,200}>(?P<said>[\s\S]*?)</pre>", re.IGNORECASE)
_CODE = re.compile(r"<(pre|code)\b[^<>]{0,200}>(?P<said>[\s\S]*?)</\1>", re.IGNORECASE)
_TAG = re.compile(r"(</?(?:pre|code)\b[^<>]{0,200}>)", re.IGNORECASE)
_TAG = re.compile(r"</?[a-z][^<>]{0,200}>")
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|nbsp|#\d{2,5}|#x[\da-fA-F]{2,4});")
_QUOTED = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")
_MARK = re.compile(r"^[ \t]*(?:```|~~~)[ \t]*+(?P<kind>[\w+.-]*+)[^`~\n]*+$", re.MULTILINE)
_GLUED = re.compile(r"^(?P<line>[^`\n]*[^`\s])[ \t]*```[ \t]*$", re.MULTILINE)
_DIRECTIVE = re.compile(
    r"(?P<indent>[ \t]*)\.\. (?:code|code-block|sourcecode|parsed-literal)::[ \t]*(?P<kind>[\w+.-]*)[ \t]*"
)
_LITERAL = re.compile(r"(?P<indent> *)[A-Z][^\n]*::(?P<kind>)[ \t]*")  # a sentence above an indented block
_OPTION = re.compile(r"[ \t]+:[\w-]+:.*")
_OTHER = as_names(
    "python py json toml text txt output log ini latex cpp c powershell"
    " pwsh ps1 bat batch cmd fish csh dockerfile"
)
"""Languages of blocks that hold no command, or none that is read."""

_CITATION = re.compile(r"\s*@[A-Za-z]+\{")
_COMMENT = re.compile(r"(?:^|[ \t])#.*", re.MULTILINE)
_MANIFEST = ("yaml", "yml")  # a file of settings, where it has no launch
_NO_COMMAND = re.compile(
    r"[ \t]*(?:-|@@ |[\u2500-\u257f]|\||\+[-=]|\w+ = "
    r"|(?:[\"']?[\w.-]+[\"']?|[A-Z][\w.-]*(?: [A-Z][\w.-]*){1,3}):(?:[ \t]|$))"
)
"""A line of options alone, of a tree of files, a table, a value or a setting: no person types it."""
_PREPARES = re.compile(
    r"^[ \t]*(?:[$%>][ \t]+)?(?:(?:export|cd|source|conda|unset|\.)[ \t]|[A-Za-z_]\w*\+?=|[A-Z_]+ = )"
    r"|<<-?[ \t]*[\"'\\]?\w",
    re.MULTILINE,
)
"""What a launch in another block may need, whatever is beside it."""

_NOT_TYPED = re.compile(
    rf"^(?:usage:|(?:options|(?:optional|positional) arguments):[ \t]*$)[\s\S]*?(?=^[ \t$!]*{LAUNCH}\b|\Z)",
    re.MULTILINE,
)
"""What `--help` prints, to the next launch or the end of its block."""

_PRINTED = re.compile(
    r"(?:[^\n]*\d%\||\{'\w+': -?\d|(?:\[\w+\]:?[ \t]*)?Traceback \(most recent call last\)"
    r"|\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d|\[(?:rank)?\d+\]:?[ \t]|\[?(?:INFO|WARNING|ERROR|DEBUG)\b"
    r"|(?i:epoch|step|iter(?:ation)?)[ :\[]+\d|File \")[^\n]*"
)
"""A line of a progress bar, of a logger or of a traceback."""

_PROSE = re.compile(
    r"^[ \t]*(?:[#>*-]+[ \t]*|\d{1,2}[.)][ \t]+)?[^\W\d_][^=$\n|;]*$|^[ \t]*</?[a-z][^\n]*>$", re.MULTILINE
)
_OTHER_LETTER = re.compile(
    r"[ \t]*(?:\d{1,2}[.)\u3001][ \t]*|[#>*-]+[ \t]*)?(?![A-Za-z])[^\W\d_][^\"'`\\\n]*"
    r"|[ \t]*[A-Z][a-z]+,?(?:[ \t]+[\w',()-]+){2,30}[ \t]*[:.\uff1a][ \t]*"
    r"|[ \t]*(?i:(?:on )?(?:the )?(?:node|machine|host|server|terminal|worker|rank|step|gpu)) ?#?\d{1,3}"
    r"[ \t]*:[ \t]*"
)
"""A line that starts with a letter of no program's name (Chinese, Russian), or that ends a sentence."""

_OF_FILE = re.compile(r"<<|^[ \t]*(?:- )?[\w-]+:(?:[ \t]|$)", re.MULTILINE)
"""A text in place, or a key of a manifest, whose lines may look like sentences."""

_INLINE = re.compile(rf"(?<![=\w\"'(\\])`({LAUNCH}[ \t][^`\n]+)`")
_SENTENCE = re.compile(
    r"\s*(?:(?:[-*+>#]+|[^\w\s\x00-\x7f]+|\d{1,2}[.)])[ \t]+)?(?:[A-Z][a-z]|`|[A-Z]?(?![A-Za-z])[^\W\d_])"
)
_NOT_READ = "a block of the page: it has no command that a shell reads"
_EDITOR = "launch.json: the page has a configuration of an editor, too; paste it alone to launch it"
_QUOTE = re.compile(r"[ \t]*>(?!>) ?")
_CALLOUT = re.compile(r"\[!\w+\]")
_CHANGED = re.compile(r"^(?:(?:diff|index|@@|new file|deleted file|(?:old|new) mode) |[ +-]|$)")
_AROUND_CHANGE = re.compile(
    r"\A(?:From|commit) [0-9a-f]{7,40}\b[\s\S]*?^(?=diff --git )|^-- ?\n[\d.]+.*\s*\Z", re.MULTILINE
)
"""What git writes in front of a change and behind it."""
_ADDED = re.compile(rf"^[ \t]*\+[ \t]*{LAUNCH}\b", re.MULTILINE)
CONTINUED = re.compile(r"(?:\\|[ \t][\^`])[ \t\u00a0]*$")


def mark_continued(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield lines, and whether each continues the command of the line above it."""
    above = ""
    for line in lines:
        yield line, CONTINUED.search(above) is not None
        above = line


def extract_blocks(text: str) -> str:
    """Return the commands of a page without the sentences around them; any other text as it is."""
    text = _of_html(_unquoted(text))
    if "```" in text and len(_MARK.findall(text)) % 2:  # the fence ends behind the last word of a line
        text = _GLUED.sub(r"\g<line>\n```", text)
    if "::\n\n " in text or ".. code" in text or ".. sourcecode" in text or ".. parsed" in text:
        text = "\n".join(_with_fences(text.split("\n")))
    text = _fenced(text)
    if _ADDED.search(text):
        text = _after_change(text)
    if "`" in text and not LAUNCH_LINE.search(text) and _SENTENCE.match(text):
        text = "\n".join(_INLINE.findall(text)) or text
    is_file = text.isascii() and _OF_FILE.search(text) is not None
    return text if is_file or not LAUNCH_LINE.search(text) else "\n".join(_without_sentences(text))


def is_printed(text: str) -> bool:
    """Whether a text is what a program printed: most of its lines are, and none is a launch."""
    lines = [*filter(None, map(str.strip, text.split("\n")))]
    return 2 * sum(map(bool, map(_PRINTED.fullmatch, lines))) > len(lines) and not LAUNCH_LINE.search(text)


def _may_be_typed(block: str) -> bool:
    """Whether a block of a page has a launch or what one needs, or commands alone."""
    lines = mark_continued(block.split("\n"))
    is_other = any(_NO_COMMAND.match(line) and not goes_on for line, goes_on in lines)
    said = _COMMENT.sub("", block)
    is_other |= bool(said.count('"') % 2 or said.count("'") % 2)
    return not is_other or any(part.search(block) for part in (_PREPARES, LAUNCH_INSIDE))


def _unquoted(text: str) -> str:
    """Return what a quotation of a page or a mail says: each of its lines starts with `>`."""
    lines = text.strip().split("\n")
    marked = (line.lstrip()[:3] for line in lines)
    if len(lines) < 2 or not all(mark[:1] == ">" and mark != ">>>" for mark in marked):
        return text
    said = [_QUOTE.sub("", line) for line in lines]
    return "\n".join(line for line in said if not _CALLOUT.match(line))


def _of_html(text: str) -> str:
    """Return a page with fences around what its HTML shows as code; `--stop "</code>"` as it is.

    Its entities alone (`&amp;&amp;`) are read too, where one is outside of quotes.
    """
    is_markdown = "```" in text
    code = _PRE if is_markdown else _CODE
    if not code.search(text) or (not is_markdown and LAUNCH_LINE.search(code.sub("", text))):
        is_of_page = _ENTITY.search(_QUOTED.sub("", text)) if "&" in text else None
        return text if is_of_page is None else _ENTITY.sub(lambda one: html.unescape(one[0]), text)
    return code.sub(_with_fence, text)


def _with_fence(code: re.Match[str]) -> str:
    """Return code of HTML between fences, where it launches or prepares a launch; any other as it is."""
    said = html.unescape(_TAG.sub("", code["said"]))
    return f"\n```\n{said}\n```\n" if LAUNCH_INSIDE.search(said) or _PREPARES.search(said) else code[0]


def _with_fences(lines: list[str]) -> Iterator[str]:
    """Yield lines of reStructuredText with fences around what a directive shows."""
    at = 0
    while at < len(lines):
        directive = _DIRECTIVE.fullmatch(lines[at])
        found = directive or _LITERAL.fullmatch(lines[at])
        if directive is None:
            yield lines[at]
        if found is None:
            at += 1
            continue
        at += 1
        while at < len(lines) and _OPTION.fullmatch(lines[at]):
            at += 1
        start, depth = at, len(found["indent"])
        while at < len(lines) and not lines[at][: depth + 1].strip():
            at += 1
        yield from (f"```{found['kind']}", textwrap.dedent("\n".join(lines[start:at])).strip("\n"), "```")


def _fenced(text: str) -> str:
    """Return what is within the fences of a page, where a launch is in one and none is around them."""
    marks = list(_MARK.finditer(text))
    if len(marks) < 2 or len(marks) % 2:
        return text
    ends = [0, *(found.end() for found in marks)]
    starts = [*(found.start() for found in marks), len(text)]
    parts = [text[start:end] for start, end in zip(ends, starts, strict=True)]
    around = "\n".join(parts[::2])
    if around.strip() and (not _PROSE.search(around) or LAUNCH_LINE.search(around)):
        return text
    blocks = [(found["kind"].lower(), part) for found, part in zip(marks[::2], parts[1::2], strict=True)]
    blocks = [(kind, part) for kind, part in blocks if kind not in _MANIFEST or LAUNCH_INSIDE.search(part)]
    blocks = [(kind, part) for kind, part in blocks if not (is_printed(part) or _CITATION.match(part))]
    inside = [
        f"{NEXT_DOCUMENT}\n" * (kind in _MANIFEST)
        + _NOT_TYPED.sub("", _after_change(part) if kind == "diff" else part)
        if _may_be_typed(part)
        else say_left_out(_NOT_READ)
        for kind, part in blocks
        if kind not in _OTHER
    ]
    configured = [part for kind, part in blocks if kind.startswith("json") and extract_editor_command(part)]
    if any(map(LAUNCH_INSIDE.search, inside)):
        said = [say_left_out(_EDITOR)] if configured else []
        return "\n".join((*said, *inside))
    is_plain = around.strip() and not (LAUNCH_LINE.search(text) or _INLINE.search(around))
    is_typed = is_plain and any(part.strip() and not part.startswith(LEFT_OUT) for part in inside)
    return "\n".join(configured or (inside if is_typed else ())) or text


def _after_change(text: str) -> str:
    """Return the lines that a change leaves of the files that launch; any other text as it is."""
    change = _AROUND_CHANGE.sub("", textwrap.dedent(text))
    files = re.split(r"^(?=diff --git )", change, flags=re.MULTILINE)
    lines = "".join(filter(_ADDED.search, files)).strip("\n").split("\n")
    if not all(map(_CHANGED.match, lines)) or lines == [""]:
        return text
    kept = (line for line in lines if line[:1] in ("+", " ", "") and not line.startswith("+++"))
    return "\n".join(line[1:] for line in kept)


def _without_sentences(text: str) -> Iterator[str]:
    """Yield lines without those of a page in another script, but for what a text in quotes continues."""
    is_quoted = False
    for line, goes_on in mark_continued(text.split("\n")):
        is_sentence = _OTHER_LETTER.fullmatch(line) is not None and LAUNCH_INSIDE.search(line) is None
        if not is_sentence or is_quoted or goes_on:
            yield line
        is_quoted ^= line.replace('\\"', "").count('"') % 2 == 1 and not line.lstrip().startswith("#")
