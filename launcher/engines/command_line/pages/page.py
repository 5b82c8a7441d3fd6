"""The commands of a text as a page, a terminal or a notebook shows them: without what is around. Pure.

Fences, backticks and prompts are left out, and what a terminal printed between prompts. Magics of a
notebook and assignments of other shells become what a POSIX shell calls the same; so do files written in
place whose text only becomes a variable.
"""

import shlex
from collections.abc import Mapping
from itertools import pairwise

from launcher.engines.command_line import refusals
from launcher.engines.command_line.launch_patterns import LAUNCH, LAUNCH_INSIDE, LAUNCH_LINE
from launcher.engines.command_line.manifests.command_keys import parse_flow_words, parse_scalar
from launcher.engines.command_line.manifests.manifest import extract_manifest
from launcher.engines.command_line.pages.blocks import CONTINUED, extract_blocks, mark_continued
from launcher.engines.command_line.pages.notebook_cells import FUNCTION, extract_cell, extract_notebook
from launcher.engines.command_line.pages.other_shells import refuse_other_shell, with_posix_syntax
from launcher.engines.command_line.pages.python_text import refuse_python
from launcher.engines.command_line.shell.bracket_tests import Files
from launcher.engines.command_line.side_commands import say_left_out
from launcher.engines.command_line.tables.side_programs import PROBES
from launcher.engines.command_line.task_files.editor_config import extract_editor_command
from preflight import regex as re

_SHELL = (  # ana@gpu1:~/x$, [ana@gpu1 x]$, ana@mac x %, arrows of zsh's themes, and the `+` of `set -x`
    r"[\w.-]+@[\w.-]+:[^\s$#%]*[$#%]|\[[\w.@-]+(?:[ \t][^\]\n]{0,200})?\][$#%]"
    r"|[\w.-]+@[\w.-]+[ \t]+[\w~/]\S*[ \t]+[$#%]|[A-Za-z][\w-]{0,15}\$"
    r"|\u279c[ \t]{2,}\S+(?:[ \t]+git:\([^()\n]*\))?(?:[ \t]+[\u2717\u2714])?|[\u276f\u279c\u03bb](?=[ \t])"
    rf"|In[ ]?\[\d{{1,5}}\]:|(?:\+{{1,4}}|[\w.-]+>{{1,3}})(?=[ \t]+{LAUNCH}\b)"
)
_ENTERED = r"^[ \t]*(?:\([\w./~-]+\)[ \t]*){0,3}"
_PROMPT = re.compile(
    rf"{_ENTERED}(?:(?:{_SHELL}|\\?\$|[%>]|>>>)[ \t]+(?:!(?=[\w.]))?|PS [^\s>]*>[ \t]+"
    rf"|[A-Za-z]:\\[^\s>]*>[ \t]*|!(?![ \t]+(?:[\[({{]|(?:test|true|false)\b"
    rf"|(?:command|{'|'.join(PROBES)})\b[^\n]*(?:&&|\|\|)))[ \t]*)",
    re.MULTILINE,
)
_NEGATED = re.compile(r"[ \t]*![ \t]+([\w-]+|!)")
_SHELL_PROMPT = re.compile(rf"{_ENTERED}(?:{_SHELL}|\$)[ \t]+")
_ROOT_PROMPT = re.compile(rf"\s*#[ \t]+(?={LAUNCH}\b)")
_HISTORY = re.compile(
    r"^(?::[ \t]\d{9,11}:\d+;|[ \t]*\d{1,6}\*?[ \t]{1,3}"
    r"(?:\d{4}-\d\d-\d\d[ \t]+\d\d:\d\d(?::\d\d)?[ \t]+)?(?=[A-Za-z_./]))"
)
_NUMBER = re.compile(r"[ \t]*(\d{1,4})(?:[ \t]*[:|.)])?(?:[ \t]+(?![\d*/])|$)")
_HEADING = re.compile(r"[ \t]*(?:[A-Z][\w ,()'-]*:?)?")
_FENCE = re.compile(
    r"^[ \t]*(?:(?:```|~~~)[^`~\n]*+|%%(?:bash|sh|shell|script|time|capture)\b.*)[ \t]*$", re.MULTILINE
)
_QUOTES = re.compile(r"\A\s*\"{3}[ \t]*\n(.*)^[ \t]*\"{3}\s*\Z", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"\s*`([^`]+)`\s*")
_SENTENCE = re.compile(rf"\s*[A-Z][^`\n]{{0,300}}`({LAUNCH}[ \t][^`\n]+)`[^`]{{0,300}}")
_INVISIBLE = {
    **dict.fromkeys((0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF), None),
    **dict.fromkeys((0x2028, 0x2029), "\n"),
    **dict.fromkeys((*range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " "),
}
"""Characters that a page puts between words, and no person types."""

_TASKS = re.compile(
    r"^(?:\[[^\n]*\][ \t]*$|\.RECIPEPREFIX\b|[\w.-]+:[ \t]*;|[^\s#][^\n:]*:[^\n]*\n\s)"
    r"|\A\s*\{",
    re.MULTILINE | re.IGNORECASE,
)
"""What a file of tasks has: a section, a recipe, or one object of JSON."""

_OF_MAKE = re.compile(
    r"\n\t|^(?:\.PHONY[ \t]*:|\.RECIPEPREFIX\b|[\w.-]+:[ \t]*;|[A-Za-z_]\w*[ \t]*[:?]=)", re.MULTILINE
)
_LIST_MARK = re.compile(rf"^[ \t]*(?:[-*\u2022]|\d{{1,2}}[.)])[ \t]+(?=`?{LAUNCH}\b)", re.MULTILINE)
_ITEM_OF_PROSE = re.compile(r"^[ \t]*[-*+][ \t]+[A-Z][^\n`$=]{0,300}$", re.MULTILINE)
_LABEL = re.compile(
    rf"^[ \t]*(?:- )?(?:[A-Z][\w -]{{0,30}}:|(?:command|run|cmd|script):|CMD|ENTRYPOINT|RUN)[ \t]+"
    rf"(?=`?{LAUNCH}\b)|^[ \t]*RUN[ \t]+(?=[a-z])",
    re.MULTILINE,
)
_KEY = r"(?:- |\{ ?)*-{0,2}[\"']?[\w.-]+[\"']?(?::|[ \t]*=)(?!\S)|\[[\w. -]+\]\Z"
_SETTING = re.compile(rf"{_KEY}|- |[\"'\[\]{{}}]")
_SCRIPT = re.compile(rf"^{LAUNCH}\b|\.(?:sh|py)$")
_STARTS = re.compile(rf"{LAUNCH_INSIDE.pattern}[ \t]+(?:-|\$|launch\b|\S*\.(?:py|sh)\b)", re.MULTILINE)
_CRON = re.compile(
    r"(?<!\\\n)^[ \t]{0,8}(@(?:reboot|hourly|daily|midnight|weekly|monthly|yearly|annually)"
    r"|(?=[^A-Za-z\n]*\*)(?:[\d*][\d*/,-]*[ \t]+){3}(?:[\d*?][\d*/,-]*|[A-Za-z]{3})[ \t]+"
    r"(?:[\d*?][\d*/,-]*|[A-Za-z]{3}(?:[,-][A-Za-z]{3})*))[ \t]+(?:root[ \t]+)?([A-Za-z/.][^\n]*)",
    re.MULTILINE,
)
"""When cron starts a command: `0 2 * * * cd /srv && torchrun train.py`."""

_WORDS = re.compile(
    r"\s*(?:CMD|ENTRYPOINT|\"?(?:command|args)\"?:)?\s*(?P<words>\[\s*\".*\"\s*,?\s*\])\s*,?\s*", re.DOTALL
)
_ARROW = re.compile(r"[ \t]*>[ \t]+(?P<option>-)?")
_REDIRECTED = re.compile(
    r"[ \t]*>[ \t]+(?!-)(?:\"[^\"]*\"|'[^']*'|`[^`]*`|\([^()]*\)|[^\s;&|()\"'`])+[ \t]*(?:\Z|[&|;<#)\\]|\d?>)"
)
_COMMENT_BEHIND = re.compile(r"\\[ \t]+#[^\n]*$", re.MULTILINE)
_OF_TEMPLATE = re.compile(r"[ \t]*\{(?:%[-+]?[ \t]*(?P<word>\w+)[^\n]*%|#[^\n]*#)\}[ \t]*")
_MAGICS = (
    (  # a shell of its own, which the lines below are not in
        re.compile(r"^[ \t]*![ \t]*(cd[ \t][^\n;&]*(?:;|&&)(?:[^\n]*\\[ \t]*\n)*[^\n]*)$", re.MULTILINE),
        r"!(\1)",
    ),
    (re.compile(r"^[ \t]*%cd[ \t]+", re.MULTILINE), "!cd "),
    (re.compile(r"^[ \t]*%(?:set_)?env[ \t]+(\w+)[ \t]*[= \t][ \t]*(?=\S)", re.MULTILINE), r"!export \1="),
    (  # with options of its own: `%run -t -N 3 -m torch.distributed.run -- train.py`
        re.compile(r"^[ \t]*%run(?: +-[^m]\w*(?: \d+)?)* +(?:(-m +\S+)(?: -- )?|(?=\S+\.py))", re.MULTILINE),
        r"!python \1 ",
    ),
    (re.compile(r"^[ \t]*%(?:pip|conda|load_ext|matplotlib|autoreload)\b.*$", re.MULTILINE), ""),
    (re.compile(r"^[ \t]*%time[ \t]+(?=!)", re.MULTILINE), ""),
    (re.compile(r"^[ \t]*EXPORT[ \t]+(?=\w+=)", re.MULTILINE), "export "),
)
"""Magics of IPython."""

_HAS_RUN = "what set -x shows beside the launch: do it on each host first, where it is still to be done"
_TRACED = re.compile(rf"(?!(?:[^\n]*\n)*?[-@])(?:[^\n]*\n)*?\+{{1,4}} {LAUNCH}\b")
_OF_TRACE = re.compile(
    rf"^\+{{1,4}} (?:(?P<set>(?=(?:[A-Z_]+=\S*\n\+{{1,4}} ){{1,20}}{LAUNCH}\b))"
    rf"|(?P<kept>export |cd |unset |{LAUNCH}\b|[A-Za-z_]\w*=[^\n]*$)|(?P<other>[^\n]*))",
    re.MULTILINE,
)
"""What `set -x` prints: `A=1` on a line of its own for `A=1 torchrun ...`, and commands that have run."""


def find_commands(text: str, environ: Mapping[str, object] | None = None, files: Files | None = None) -> str:
    """Return the commands of a text that was copied from a page, a terminal or a notebook.

    `environ` and `files` are what a Makefile reads beside itself: variables, and the texts that it includes.
    """
    known = {name: value for name, value in (environ or {}).items() if isinstance(value, str)}
    text = extract_notebook(text.translate(_INVISIBLE))
    text = extract_blocks(_OF_TRACE.sub(_traced, text) if _TRACED.match(text) else text)
    refuse_python(text)
    document = _document(text, known, files)
    refuse_other_shell(text if document is None else document)
    text = _without_template(text) if document is None and "{%" in text else text
    text = _recipe(_without_numbers(_argv_text(text)), known, files) if document is None else document
    at_once = "of cron; a launch starts at once"
    text = _CRON.sub(
        lambda one: say_left_out(f"{one[1]}: {at_once}") + "\n" + one[2].replace("\\%", "%"), text
    )
    text = _LABEL.sub("", _LIST_MARK.sub("", _ITEM_OF_PROSE.sub("", text)))
    code = _CODE.fullmatch(text) or _SENTENCE.fullmatch(text) or _QUOTES.fullmatch(text)
    text = _FENCE.sub("", code[1] if code else text)
    root = _ROOT_PROMPT.match(text)
    typed = text[root.end() :] if root is not None else ""
    if typed and _is_one_command(typed) and not LAUNCH_LINE.search(typed.partition("\n")[2]):
        text = typed  # else the first line is a comment: `# srun ... \`, and the launch below it
    for pattern, shell in _MAGICS:
        text = pattern.sub(shell, text)
    text = with_posix_syntax(text)
    text = _COMMENT_BEHIND.sub(r"\\", text)
    return _without_prompts(_typed_lines(extract_cell(text)))


def _traced(found: re.Match[str]) -> str:
    """Return a line of `set -x` as it is typed; of commands that prepare a launch their first word."""
    if found["other"] is None:
        return "$ export " * (found["set"] is not None) or f"$ {found['kept']}"
    name = found["other"].partition(" ")[0]
    return "$ " + say_left_out(f"+ {name}: {_HAS_RUN}")


def _without_template(text: str) -> str:
    """Return a text without lines of a template around comments. Raises CommandRefused around commands."""
    depth, kept = 0, list[str]()
    for line in text.split("\n"):
        found = _OF_TEMPLATE.fullmatch(line)
        if found is None:
            if depth > 0 and line.strip() and not line.lstrip().startswith("#"):
                raise refusals.explain_template_choice(line)
            kept.append(line)
        elif (word := found["word"] or "").startswith("end"):
            depth -= 1
        elif word in ("if", "for", "with", "macro", "block", "filter"):
            depth += 1
    return "\n".join(kept)


def _recipe(text: str, environ: Mapping[str, str], files: Files | None) -> str:
    """Return the commands of a Makefile's recipe; any other text as it is."""
    if not _OF_MAKE.search(text):
        _refuse_settings(re.sub("#.*", "", text))
        return text
    from launcher.engines.command_line.task_files.makefile import extract_recipe  # noqa: PLC0415 - few texts have one

    return extract_recipe(text, environ, files)


def _document(text: str, environ: Mapping[str, str], files: Files | None) -> str | None:
    """Return the commands of a file of an editor, a cluster or a project; None for any other text."""
    command = extract_editor_command(text) or extract_manifest(text)
    if command is not None or not _TASKS.search(text):
        return command
    from launcher.engines.command_line.task_files.task_choice import extract_task_launches  # noqa: PLC0415 - few texts are one

    return extract_task_launches(text, environ, files)


def _refuse_settings(text: str) -> None:
    """Raise CommandRefused for lines that start nothing, most of them keys and lists of YAML or TOML."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" \t-{}[],")]
    others = [line for line in lines if not _SETTING.match(line)]
    is_file = 1 < len(lines) > 2 * len(others) and re.match(_KEY, lines[0])
    if is_file and not _STARTS.search(text) and not any(map(_SCRIPT.search, others)):
        raise refusals.explain_settings_file()


def _argv_text(text: str) -> str:
    """Return the command of a Dockerfile or manifest that lists its words: `CMD ["torchrun", "a.py"]`."""
    listed = _WORDS.fullmatch(text.strip())
    if listed is not None:
        return shlex.join(parse_flow_words(listed["words"])) or text
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    items = [parse_scalar(line[2:].strip()) for line in lines if line.startswith("- ")]
    is_command = len(items) == len(lines) > 1 and not any(char.isspace() for char in items[0])
    return shlex.join(items) if is_command else text


def _without_prompts(text: str) -> str:
    """Leave out prompts, of continued lines (`> `) too, but no redirection that starts such a line."""
    lines: list[str] = []
    commands: list[list[str]] = []
    own = {"!", *FUNCTION.findall(text)}
    for line, is_continued in mark_continued(text.split("\n")):
        if is_continued:
            commands[-1].append(line)
        else:
            commands.append([line])
    for first, *rest in commands:
        entered = _PROMPT.match(first)
        is_shown = (entered and "!" not in entered[0]) or rest[1:] or not _REDIRECTED.match("".join(rest))
        redirects = not (is_shown and all(map(_ARROW.match, rest)))
        for line in (first, *rest):
            prompt, negated = _PROMPT.match(line), _NEGATED.match(line)
            arrow = _ARROW.match(line) if redirects and line is not first else None
            is_own = (arrow and not arrow["option"]) or (negated is not None and negated[1] in own)
            lines.append(line if prompt is None or is_own else line[prompt.end() :])
    return "\n".join(lines)


def _is_one_command(text: str) -> bool:
    """Whether every line continues the one above it, or is a comment."""
    lines = pairwise(text.rstrip().split("\n"))
    return all(not above or CONTINUED.search(above) or line.lstrip().startswith("#") for above, line in lines)


def _without_numbers(text: str) -> str:
    """Leave out the numbers of lines, and what `history` and zsh's file of it put before every command."""
    lines = text.split("\n")
    numbers = [int(found[1]) if (found := _NUMBER.match(line)) else -1 for line in lines if line.strip()]
    if len(numbers) > 1 and numbers == list(range(max(numbers[0], 0), numbers[0] + len(numbers))):
        return "\n".join(_NUMBER.sub("", line, count=1) for line in lines)
    starts = [line for line, goes_on in mark_continued(lines) if not goes_on]
    if not any(map(_HISTORY.match, starts)) or any(
        line.strip() and not _HISTORY.match(line) for line in starts
    ):
        return text
    return "\n".join(_HISTORY.sub("", line) for line in lines)


def _typed_lines(text: str) -> str:
    """Return the lines that were typed, where prompts distinguish them from what the terminal printed."""
    lines = text.strip("\n").split("\n")
    first = next((number for number, line in enumerate(lines) if _SHELL_PROMPT.match(line)), 0)
    if all(map(_HEADING.fullmatch, lines[:first])):
        lines = lines[first:]
    if not _SHELL_PROMPT.match(lines[0]):
        return text
    typed: list[str] = []
    printed: list[str] = []
    is_open = False
    for line in lines:
        is_typed = is_open or _PROMPT.match(line) is not None
        (typed if is_typed else printed).append(line)
        is_open = is_typed and CONTINUED.search(line) is not None
    is_one_command = not any(LAUNCH_LINE.match(line) for line in printed)
    closes = "\n".join(typed).count('"') % 2 == 0 == "\n".join(typed).count("'") % 2
    return "\n".join(typed) if is_one_command and closes else text
