"""Words that still lack a value: what a page leaves to its reader, and the error for each kind. Pure."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from launcher.engines.command_line.launch_patterns import LAUNCH_LINE
from launcher.engines.command_line.shell.words import Word
from launcher.errors import CommandRefused
from preflight import regex as re

_PATTERN = re.compile(r"\*|\{[^}]*(?:,|\.\.)")
_WHICH = re.compile(r"(?:\$\(|`)(?:which|command -v) ([\w.-]+)(?:\)|`)", re.ASCII)
_OF_WINDOWS = re.compile(r"[A-Za-z]:\\")
_OF_MAKE = re.compile(
    r"\$\((?:call|filter(?:-out)?|findstring|foreach|if(?= \$)|lastword|origin|value|words?) ", re.ASCII
)
_ARGUMENT = re.compile(r"\$(?:[0-9]|\{[0-9]+(?:\}|:?\?.*))", re.DOTALL)
_OPEN = re.compile(r"[$`<{%*\[]|\.\.\.|\u2026")  # in what has no value for certain

_EXPORTED = re.compile(r"\$\{?(?!(?:RANDOM|BASHPID)\b)[A-Za-z_]")  # `$$` is a shell's own
_SHOWN, _NAMED = 60, 8
_TO_FILL = re.compile(
    r"(?i:(?<![\w.-])(?:path/to/|your[_/-]\w|(?:replace|change|fill)[_-](?:me|this|with)\b)|_to_your_\w"
    r"|\A(?:hf_|sk-)?x{4,}\Z)|(?<![\w.-])(?:PATH_TO_[A-Z]|path_to_(?:my|the)_[a-z])"
)
"""In a part of a value that a page leaves to its reader: `/path/to/data`, `YOUR_API_KEY`."""

_NAMED_PART = re.compile(
    r"\A@@@[A-Za-z]\w*(?:@@@)?\Z|(?i:<(?:path|your|name|output|dir\w*|hf|wandb|api)[ _-][^<>]{1,80}>)"
    r"|\A(?i:your) (?:\w+ ){0,3}(?:path|dir|directory|folder|file|token|key|project|dataset)\b[^.!?]{0,30}\Z"
    r"|(?<![^=/])<[A-Za-z][\w-]{0,40}(?:[ ][\w-]{1,40}){1,8}>(?![^/])"
)
"""In angles, among arguments, whose `<image>` is a token of a model."""

_OF_SETTING = re.compile(
    r"<[A-Za-z][^<>|]{0,80}>|\A\[[A-Za-z][\w-]{0,80}\]\Z|\$\{\{[^{}]{0,80}\}\}|\$\{[A-Za-z_][^{}]{0,80}\}"
)
_BY_NAME = re.compile(r"(?:[A-Z][A-Z0-9]*_)+(?:PATH|DIR|DIRECTORY|FILE|FOLDER|ROOT)")
_OF_NAME = re.compile(r"-.*(?:env|var|key|name|column|field)", re.IGNORECASE)
"""In an option that takes the name of a variable: `--token-env HF_TOKEN_FILE`."""

_TEMPLATE = re.compile(r"[^\s{}]{0,200}\{\{ ?[A-Za-z_.][\w.]{0,80} ?\}\}[^\s{}]{0,200}")
_OF_TEMPLATE = re.compile(r"template|prompt|format", re.IGNORECASE)  # takes a template itself

_BETWEEN = re.compile(r"[\s=,;'\"()\[\]{}<>]+")


def clear_placeholders(word: Word, *, is_setting: bool = False) -> Word:
    """Return a word whose placeholders of a page have no value: `/path/to/data`, `<your token>`.

    `is_setting`: it is the value of a variable or a launcher's option, in which a name in brackets is one.
    """
    if not word.is_known:
        return word
    text = word.text
    is_alone = is_setting and not any(map(str.isspace, text))  # no command that a script runs
    parts = (_OF_SETTING if is_alone else _NAMED_PART).findall(text)
    value = text.partition("=")[2] or text
    is_prose = " " in text and "=" not in text  # a prompt, which may speak of path/to/file
    parts += filter(_TO_FILL.search, () if parts or is_prose else _BETWEEN.split(value))
    return Word(text, tuple(parts)) if parts else word


def list_left_open(text: str) -> tuple[str, ...]:
    """Return the parts with blanks left open in a variable: `<some dir>/x`, `{{ n }}` in a launch."""
    if "{{" in text and LAUNCH_LINE.match(text):
        return tuple(_TEMPLATE.findall(text))
    return tuple(_NAMED_PART.findall(text)) if " " in text and (text[:1] in "yY" or "<" in text) else ()


def list_variable_like(args: Sequence[Word]) -> Iterator[str]:
    """Yield values of arguments that may be left to their reader: `--data DATA_DIR`, which no value follows.

    One with the name of its option is what a help shows: `--config CONFIG`. `OUTPUT_DIR out` sets a
    key of a configuration (yacs). A template may fill in others: `"{{ name }}"`.
    """
    before = ""
    for word, following in zip_longest(args, args[1:]):
        value = word.text.partition("=")[2] or word.text
        is_last = following is None or following.text.startswith("-") or _BY_NAME.fullmatch(following.text)
        option = word.text.partition("=")[0] if value != word.text else before
        is_own_name = len(value) > 2 and f"--{value.lower()}" == option.replace("-", "_").replace(
            "__", "--", 1
        )
        is_by_name = is_own_name or (is_last and _BY_NAME.fullmatch(value.strip("/")))
        if word.is_known and is_by_name and value.isupper() and not _OF_NAME.match(before):
            yield value
        of_template = _OF_TEMPLATE.search(f"{before} {word.text.partition('=')[0]}")
        if word.is_known and _TEMPLATE.fullmatch(value) and not of_template:
            yield value
        before = word.text


def require_known(word: Word, where: str) -> None:
    """Raise CommandRefused for a word that a shell or a person would still have to fill in."""
    if not word.is_known:
        raise explain_no_values((word,), where)


def explain_no_values(words: Sequence[Word], where: str, literal: str = "") -> CommandRefused:
    """Return the error for words without values, each part that lacks one named once.

    `literal` says how a part is taken as it is, where it only looks as if it were left open.
    """
    parts = tuple(dict.fromkeys(part[:_SHOWN] for word in words for part in word.unresolved))[:_NAMED]
    they = "them" if len(parts) > 1 else "it"
    if all(_PATTERN.search(part) and "$" not in part for part in parts):
        return CommandRefused(
            f"{where} has {', '.join(parts)}, which a shell would replace",
            "write the names, or put it in quotes",
        )
    if any(map(_ARGUMENT.fullmatch, parts)):
        what = "arguments of a script" if len(parts) > 1 else "an argument of a script"
        made = "" if all(map(_ARGUMENT.fullmatch, parts)) else " and what is made of them"
        return CommandRefused(
            f"{where} has {', '.join(parts)}, {what}{made}",
            f"write a value for {they}, or launch the script: gpulaunch run ... -- bash SCRIPT ARGUMENTS",
        )
    if paths := [part for part in parts if _OF_WINDOWS.match(part)]:
        others = ", ".join(part for part in parts if part not in paths)
        lacking = f", and no value for {others}" if others else ""
        return CommandRefused(
            f"{where} has {', '.join(paths)}, a path of Windows{lacking}",
            "write the path that the hosts have",
        )
    program = _WHICH.fullmatch(parts[0]) if len(parts) == 1 else None
    if program is not None:
        return CommandRefused(
            f"{where} has {parts[0]}, a path that each host has another of",
            f"write --no_python {program[1]} in place of it (torchrun, accelerate), or its module: -m MODULE",
        )
    behind = "" if any(map(_OPEN.search, parts)) else literal
    if any(part.endswith("(set in a condition)") for part in parts):
        behind = ", or take the condition out"
    if any(map(_OF_MAKE.match, parts)):
        behind = ", or paste what make -n TARGET prints"
    are_variables = all(_EXPORTED.match(part) and not re.search(r"\[|\)\Z", part) for part in parts)
    return CommandRefused(
        f"{where} has {', '.join(parts)}, which {'have' if len(parts) > 1 else 'has'} no value",
        f"export {they}, or write the value" if are_variables else f"write a value for {they}{behind}",
    )
