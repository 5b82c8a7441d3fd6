"""Texts of PowerShell, cmd.exe, csh and fish as a POSIX shell writes them. Pure."""

from preflight import regex as re

_MARKS = re.compile(
    r"\$env:|\bset[ \t]|^[ \t]*(?:[@&]|py)[ \t]|^[ \t]*(?:\[\w+\][ \t]*)?\$\w+[ \t]*=|\bend(?:if)?\b"
    r"|\bt?csh\b|\bfish\b|;[ \t]*(?:and|or)[ \t]|\bforeach\b|\b(?:Write|New|Set|Out|Tee|Start|Invoke)-[A-Z]"
    r"|^[ \t]*iex[ \t]|\$PSScriptRoot|\bparam[ \t]*\(|^[ \t]*(?:@echo\b|rem[ \t]|::|pause\b|call[ \t]"
    r"|setlocal\b)",
    re.MULTILINE | re.IGNORECASE,
)
_OF_WINDOWS = re.compile(
    r"^[ \t]*(?:PS )?[A-Z]:\\[^\n>]*>|[ \t]\^[ \t]*$"
    r"|(?<![\w.\\-])(?:[\w.-]+\\(?!_))+[\w.-]+\.(?:py|sh|ya?ml|json|exe)(?![\w.\\/-])",
    re.MULTILINE | re.ASCII,
)
_SEPARATOR = re.compile(
    r"\"[^\"\n]*[+?|(\[^][^\"\n]*\"|[A-Za-z]:\\[^\s'\"|&;<>]*|(?<=[\w.}])\\(?=[\w.$])", re.ASCII
)
_LAST = re.compile(r"(?<=\")([A-Za-z]:[^\"\n]*[^\"\n\\])\\(?=\"(?:\s|$))")
"""Of a path in quotes, before which it would be one of the path."""

_EXECUTABLE = re.compile(r"(?<![\w.-])((?:[\w.-]+/){1,40}[\w.-]+)\.exe\b", re.ASCII)


def with_posix_syntax(text: str) -> str:
    """Return a text without what another shell writes in its own way."""
    is_of_windows = _OF_WINDOWS.search(text) is not None
    if not _MARKS.search(text):
        return _with_slashes(text) if is_of_windows else text
    from launcher.engines.command_line.dialects.batch import of_batch  # noqa: PLC0415 - few texts need these
    from launcher.engines.command_line.dialects.csh import of_csh  # noqa: PLC0415
    from launcher.engines.command_line.dialects.fish import of_fish  # noqa: PLC0415
    from launcher.engines.command_line.dialects.powershell import of_powershell  # noqa: PLC0415
    from launcher.engines.command_line.dialects.powershell_blocks import is_one  # noqa: PLC0415

    batch = of_batch(text := _LAST.sub(r"\1", text))
    is_of_windows |= batch is not text or is_one(text)
    text = of_fish(of_csh(of_powershell(batch)))
    return _with_slashes(text) if is_of_windows else text


def _with_slashes(text: str) -> str:
    """Return a text of Windows with its paths as hosts have them; those of a drive stay as they are."""
    text = _SEPARATOR.sub(lambda found: "/" if found[0] == "\\" else found[0], text)
    return _EXECUTABLE.sub(lambda found: found[1].replace("/Scripts/", "/bin/"), text)
