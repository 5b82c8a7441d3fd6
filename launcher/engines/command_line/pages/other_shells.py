"""Texts that no shell of sh reads: paths of Windows as hosts have them, and what is refused. Pure."""

import shlex

from launcher.engines.command_line.launch_patterns import LAUNCH, LAUNCH_LINE
from launcher.engines.command_line.manifests.command_keys import parse_flow_words
from launcher.engines.command_line.pages.blocks import is_printed
from launcher.engines.command_line.pages.python_text import refuse_python
from launcher.errors import CommandRefused
from preflight import regex as re

_OTHERS = (
    (
        re.compile(  # `$x =` not within `[[ ... &&`, where it compares
            r"^[ \t]*(?:\[CmdletBinding\b|param[ \t]*\(|foreach[ \t]*\([ \t]*\$|iex[ \t]+[\"'$]"
            r"|(?-i:(?:Write|New|Set|Start|Invoke|Tee)-[A-Z])[a-z]+\b|if[ \t]*\([^\n]*\bTest-Path\b"
            r"|(?:else)?if[ \t]*\([^()\n]{0,200}\$[A-Z_][^()\n]{0,200}\)[ \t]*\{)"  # `$1` is awk's
            r"|(?<![&|\[(\\]\n)^[ \t]*(?:\[\w+\][ \t]*)?\$[A-Z_]\w*(?:[ \t]+\+?=[ \t]|=[^=~])"
            r"|\$PSScriptRoot\b",
            re.MULTILINE | re.IGNORECASE,
        ),
        "a script of PowerShell",
    ),
    (
        re.compile(
            r"^[ \t]*(?:@echo[ \t]+off|@?setlocal\b|@?rem[ \t]|@?pause[ \t]*$|::[ \t]+\w"
            r"|@?call[ \t]+(?:conda\b|\S*activate\b)|@?set[ \t]+\"?(\w+)=(?:[^\n]*\n){1,100}?[^\n]*%\1%"
            r"|@?if[ \t]+(?:/i[ \t]+)?(?:not[ \t]+)?(?:exist|defined|errorlevel|\"?%)).*|^.*%~dp0.*",
            re.MULTILINE | re.IGNORECASE,
        ),
        "a batch file of Windows",
    ),
    (
        re.compile(
            r"^[ \t]*(?:foreach[ \t]+\w+[ \t]*\(.*\)|if[ \t]*\(.*\)[ \t]*then)[ \t]*$"
            r"|\A\s*#![^\n]*csh\b[^\n]*\n(?:[^\n]*\n)*?"
            r"[ \t]*(?:@[ \t]|set[ \t]+\w+[ \t]*=|if[ \t]*\(|while[ \t]*\()",
            re.MULTILINE,
        ),
        "a script of csh",
    ),
    (
        re.compile(
            r"\A\s*#![^\n]*\bfish\b"
            r"|(?:^|;)[ \t]*(?:set[ \t]+(?:(?:-[gxUl]{1,3}|--export)[ \t]+[A-Za-z_]\w*[ \t]+\S"
            r"|[A-Za-z_]\w*[ \t]+\()|(?:if|while)[ \t]+(?:not[ \t]+)?set[ \t]+-q\b)|;[ \t]*(?:and|or)[ \t]+"
            rf"{LAUNCH}\b"
            r"|\A(?=(?:[^\n]*\n)*?[ \t]*(?:begin|for|if|while|function|switch)\b)"
            r"(?:[^\n]*\n)*?(?:[^\n]*;)?[ \t]*end[ \t]*$",
            re.MULTILINE,
        ),
        "a script of fish",
    ),
    (
        re.compile(r"^(?:\[(?:Service|program:[^\]\n]+)\][ \t]*$|ExecStart=)", re.MULTILINE),
        "a unit of a service",
    ),
    (re.compile(r"^\[testenv(?::[^\]\n]+)?\][ \t]*$", re.MULTILINE), "a file of tox"),
    (
        re.compile(
            r"\A(?=(?:[^\n]*\n)*?[ \t]*(?:queue\b(?!=)|(?:universe|arguments|request_gpus)[ \t]+=))"
            r"(?:[^\n]*\n)*?[ \t]*executable[ \t]*=[ \t]*\S",
            re.IGNORECASE,
        ),
        "a submit file of HTCondor",
    ),
    (
        re.compile(
            r"\A(?:[ \t]*(?:(?:#|```|ARG[ \t])[^\n]*)?\n)*[ \t]*FROM[ \t]+\S[^\n]*\n(?:[^\n]*\n)*?"
            r"[ \t]*(?:CMD|ENTRYPOINT|RUN|COPY|WORKDIR|ENV)[ \t]+\S"
        ),
        "a Dockerfile",
    ),
)
"""What no reader of gpulaunch knows, and a shell would read as something else."""

_POSIX = re.compile(
    r"\s*#![^\n]*[/ ](?:ba|z|da|k)?sh\b|(?:[^\n]*\n)*?[ \t]*(?:sudo[ \t]+)?(?:cat|tee)\b[^\n]*<<"
)
_LAUNCH = re.compile(rf"(?:^|[\s;&|(/!]){LAUNCH}(?=\s|$)")
_STARTS = re.compile(
    r"^[ \t]*(?:(?:CMD|ENTRYPOINT)[ \t]+|(?:commands?|ExecStart|executable)[ \t]*=[ \t]*)(\S.*)$"
    r"(?:(?:\n.*){0,20}?\n[ \t]*arguments[ \t]*=[ \t]*\"?([^\"\n]*))?",
    re.MULTILINE,
)
"""What a Dockerfile, a unit, an environment of tox or a submit file starts."""

_BUILDS = re.compile(r"^[ \t]*(?:RUN|COPY|ADD|ARG|ENV|LABEL)[ \t].*$", re.MULTILINE)
"""What makes an image: it trains nothing, whatever it installs."""

_AROUND = re.compile(
    r"(?![ \t]*[#*-])[ \t]*(?:[$>][ \t]+|sh[ \t]+(?=[\"']))?(?P<quote>[\"']?)(?P<inner>.*)(?P=quote)"
)

_ALONE = re.compile(r"(?:[ \t]*(?:and|or|do|then)[ \t])?((?:[^;{}&|'\"]|\{[^\s{}]*\}|'[^']*'|\"[^\"]*\")+)")
"""A command, without those in the same line."""

_ENVIRONMENT = re.compile(r"\$env:(\w+)[ \t]*=[ \t]*", re.IGNORECASE)
_OF_WINDOWS = re.compile(
    r"^[ \t]*(?:PS )?[A-Z]:\\[^\n>]*>|[ \t]\^[ \t]*$"
    r"|(?<![\w.\\-])(?:[\w.-]+\\(?!_))+[\w.-]+\.(?:py|sh|ya?ml|json|exe)(?![\w.\\/-])",
    re.MULTILINE | re.ASCII,
)
_SEPARATOR = re.compile(
    r"\"[^\"\n]*[+?|(\[^][^\"\n]*\"|[A-Za-z]:\\[^\s'\"|&;<>]*|(?<=[\w.}])\\(?=[\w.$])", re.ASCII
)
_EXECUTABLE = re.compile(r"(?<![\w.-])((?:[\w.-]+/){1,40}[\w.-]+)\.exe\b", re.ASCII)
_SHOWN = 200


def refuse_other_shell(text: str) -> None:
    """Raise CommandRefused for a script of another shell, or a file of a program that is not read."""
    what = next((what for pattern, what in _OTHERS if pattern.search(text)), "")
    if what and not _POSIX.match(text):
        raise explain_refused_text(what, text)


def explain_refused_text(what: str, text: str) -> CommandRefused:
    """Return the error for a text that is `what`, with the launch in it where it has one."""
    text = _BUILDS.sub("", re.sub(r"[ \t][\\^`][ \t]*\n", " ", text))
    lines = (line.rstrip(" \t,") for line in (*map(" ".join, _STARTS.findall(text)), *text.split("\n")))
    inner = (line["inner"] for line in map(_AROUND.fullmatch, lines) if line is not None)
    launch = next(filter(_LAUNCH.search, (shlex.join(parse_flow_words(line)) or line for line in inner)), "")
    launch = next(filter(_LAUNCH.search, _ALONE.findall(launch)), launch)
    shown = " ".join(re.split(r"\s\d?>", launch, maxsplit=1)[0].split())[:_SHOWN]
    filled = f", its names filled in: gpulaunch run --hosts A,B -- {shown}" if " " in shown else ""
    return CommandRefused(
        f"the text is {what}, and not a command",
        f"paste the command that trains, from torchrun, accelerate or python on{filled}",
    )


def with_posix_syntax(text: str) -> str:
    """Return a text with variables and paths of Windows as a POSIX shell has them; a drive's stay."""
    text = _ENVIRONMENT.sub(r"export \1=", text)
    if not _OF_WINDOWS.search(text):
        return text
    text = _SEPARATOR.sub(lambda found: "/" if found[0] == "\\" else found[0], text)
    return _EXECUTABLE.sub(lambda found: found[1].replace("/Scripts/", "/bin/"), text)


_XML = "XML"
_KINDS = (
    (re.compile(r"\s*<(?:\?xml\b|[A-Za-z][\w.-]*(?:\s+[\w:.-]+=\"[^\"<>]*\")+\s*/?>)"), _XML),
    (re.compile(r"(?:.*\n)*?(?:rule|checkpoint)[ \t]+\w+:[ \t]*(?:#.*)?\n"), "a rule of Snakemake"),
    (re.compile(r"(?:.*\n)*?process[ \t]+\w+[ \t]*\{[ \t]*\n"), "a process of Nextflow"),
    (re.compile(r"\s*job[ \t]+\"[^\"\n]*\"[ \t]*\{[ \t]*\n"), "a job of Nomad"),
    (re.compile(r"(?:.*\n)*?pipeline[ \t]*\{[ \t]*\n"), "a pipeline of Jenkins"),
)
_LONGEST_READ = 100_000


def refuse_other_text(text: str) -> None:
    """Raise CommandRefused for a text that no shell reads, with the launch in it where it has one."""
    if len(text) > _LONGEST_READ:
        return
    refuse_python(text, is_read=False)
    if is_printed(text):
        raise CommandRefused(
            "the text is what a program printed, and not a command",
            "paste the command that trains, from torchrun, accelerate or python on; gpulaunch diagnose FILE"
            " reads such a log",
        )
    what = next((what for pattern, what in _KINDS if pattern.match(text)), "")
    if what and not (what == _XML and LAUNCH_LINE.search(text)):  # a page of HTML
        raise explain_refused_text(what, text)
