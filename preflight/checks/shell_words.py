"""Words of commands that a person pastes into a shell: a path of others is one word of them."""

import shlex


def shell_word(path: str) -> str:
    """Return a path as one word of a shell; `~/` stays, because a shell replaces it only unquoted."""
    if path == "~":
        return path
    home, path = ("~/", path[2:]) if path.startswith("~/") else ("", path)
    return home + (shlex.quote(path) if path else "")


def ssh_command(host: str, *words: str) -> str:
    """Return `ssh HOST WORDS`; two shells read it, the local one and the one of the host."""
    there = " ".join(map(shell_word, words))
    plain = all(shell_word(word) == word for word in words)
    return f"ssh {shlex.quote(host)} {there if plain else shlex.quote(there)}"
