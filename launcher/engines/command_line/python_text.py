"""A text that is Python, not a command: a job of SageMaker, Azure ML or Ray in its own language. Pure."""

import re
import shlex

from launcher.errors import CommandRefused

_IMPORT = re.compile(
    r"^(?:from[ \t]+[A-Za-z_][\w.]*[ \t]+import[ \t]+\S"
    r"|import[ \t]+[A-Za-z_][\w.]*[ \t]*(?:as[ \t]+\w+[ \t]*)?(?:#.*)?$)",
    re.MULTILINE,
)
_TYPED = re.compile(r"^[ \t]*[!%$]", re.MULTILINE)
_ENTRY = re.compile(
    r"\b(?:entry_point|entry_script|script)[ \t]*=[ \t]*[\"'](?P<script>[\w./-]+\.(?P<kind>py|sh))[\"']"
)
_COMMAND = re.compile(r"\b(?:command|entrypoint)[ \t]*=[ \t]*f?[\"'](?P<command>[^\"'\n]{1,200})[\"']")


def refuse_python(text: str, launch: re.Pattern[str]) -> None:
    """Raise CommandRefused for a program in Python, with the command that its job starts where it says one.

    A cell of a notebook with commands in it, or a text in which `launch` finds one, is none.
    """
    if not _IMPORT.search(text) or _TYPED.search(text) or launch.search(text):
        return
    entry, command = _ENTRY.search(text), _COMMAND.search(text)
    fix = "write the command that starts it: gpulaunch run --hosts A,B -- torchrun SCRIPT.py"
    if entry is not None:
        program = {"py": "torchrun", "sh": "bash"}[entry["kind"]]
        fix = (
            f"write what its job starts: gpulaunch run --hosts A,B -- {program} "
            f"{shlex.quote(entry['script'])}, with its hyperparameters as options"
        )
    elif command is not None:
        fix = f"write what its job starts: gpulaunch run --hosts A,B -- {command['command'].strip()}"
    raise CommandRefused("the text is a program in Python, and not a command", fix)
