"""Shells, by the word that starts one."""

import posixpath

_OF_SH = ("bash", "sh", "dash", "zsh", "ksh")
_OTHER = ("csh", "tcsh", "fish", "$SHELL")


def starts_posix_shell(word: str) -> bool:
    """Return whether a word, a name or a path, starts a shell of sh's language."""
    return posixpath.basename(word) in _OF_SH


def starts_shell(word: str) -> bool:
    """Return whether a word, a name or a path, starts a shell of any language."""
    return starts_posix_shell(word) or posixpath.basename(word) in _OTHER
