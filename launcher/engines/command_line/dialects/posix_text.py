"""Texts of PowerShell, cmd.exe, csh and fish as a POSIX shell writes them. Pure."""

import re

_MARKS = re.compile(
    r"\$env:|\bset[ \t]|^[ \t]*(?:[@&]|py)[ \t]|^[ \t]*(?:\[\w+\][ \t]*)?\$\w+[ \t]*=|\bend(?:if)?\b"
    r"|\bt?csh\b|\bfish\b|;[ \t]*(?:and|or)[ \t]|\bforeach\b|\b(?:Write|New|Set|Out|Tee)-[A-Z]"
    r"|\$PSScriptRoot|\bparam[ \t]*\(|^[ \t]*(?:@echo\b|rem[ \t]|::|pause\b|call[ \t]|setlocal\b)",
    re.MULTILINE | re.IGNORECASE,
)


def with_posix_syntax(text: str) -> str:
    """Return a text without what another shell writes in its own way."""
    if not _MARKS.search(text):
        return text
    from launcher.engines.command_line.dialects.batch import of_batch  # noqa: PLC0415 - few texts need these
    from launcher.engines.command_line.dialects.csh import of_csh  # noqa: PLC0415
    from launcher.engines.command_line.dialects.fish import of_fish  # noqa: PLC0415
    from launcher.engines.command_line.dialects.powershell import of_powershell  # noqa: PLC0415

    return of_fish(of_csh(of_powershell(of_batch(text))))
