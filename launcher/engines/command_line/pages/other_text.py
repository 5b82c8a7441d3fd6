"""Texts of other kinds: what a program printed, a rule of a workflow, XML, a part of Python. Pure."""

from launcher.engines.command_line.launch_patterns import LAUNCH_LINE
from launcher.engines.command_line.pages.blocks import is_printed
from launcher.engines.command_line.pages.other_shells import explain_refused_text
from launcher.engines.command_line.pages.python_text import refuse_python
from launcher.errors import CommandRefused
from preflight import regex as re

_XML = "XML"
_OTHERS = (
    (re.compile(r"\s*<(?:\?xml\b|[A-Za-z][\w.-]*(?:\s+[\w:.-]+=\"[^\"<>]*\")+\s*/?>)"), _XML),
    (re.compile(r"(?:.*\n)*?(?:rule|checkpoint)[ \t]+\w+:[ \t]*(?:#.*)?\n"), "a rule of Snakemake"),
    (re.compile(r"(?:.*\n)*?process[ \t]+\w+[ \t]*\{[ \t]*\n"), "a process of Nextflow"),
    (re.compile(r"\s*job[ \t]+\"[^\"\n]*\"[ \t]*\{[ \t]*\n"), "a job of Nomad"),
    (re.compile(r"(?:.*\n)*?pipeline[ \t]*\{[ \t]*\n"), "a pipeline of Jenkins"),
)
_LONGEST = 100_000


def refuse_other_text(text: str) -> None:
    """Raise CommandRefused for a text that no shell reads, with the launch in it where it has one."""
    if len(text) > _LONGEST:
        return
    refuse_python(text, is_read=False)
    if is_printed(text):
        raise CommandRefused(
            "the text is what a program printed, and not a command",
            "paste the command that trains, from torchrun, accelerate or python on; gpulaunch diagnose FILE"
            " reads such a log",
        )
    what = next((what for pattern, what in _OTHERS if pattern.match(text)), "")
    if what and not (what == _XML and LAUNCH_LINE.search(text)):  # a page of HTML
        raise explain_refused_text(what, text)
