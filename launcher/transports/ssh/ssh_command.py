"""The command by which a person reaches a host as gpulaunch does: messages show it, and a shell takes it.

ssh reads ~/.ssh/config itself; the command adds only what hosts.yaml or the command line of gpulaunch says.
"""

import shlex
from collections.abc import Iterable, Sequence

from launcher.config.inventory import HostEntry
from launcher.local.home import expand_home
from launcher.transports.base import Connection, Endpoint
from preflight.checks.message_text import quote_path

_FORWARD = ("-W", "[%h]:%p")


def list_ssh_words(
    entry: HostEntry, key: str, hops: Sequence[Endpoint], *, in_config: bool
) -> tuple[str, ...]:
    """Return the options and the destination of `ssh` for a host that SSH reaches, unquoted.

    `key` is the identity file that the user has named, `hops` the jump hosts that the entry names, in order.
    `in_config`: ssh_config has values for the host's name, which its address alone would not get.
    """
    alias = entry.alias or entry.name
    renamed = entry.address and in_config
    return (
        *(("-p", str(entry.port)) if entry.port is not None else ()),
        *(("-i", key) if key else ()),
        *_jump_options(entry, hops),
        *(("-o", f"HostName={escape_percents(entry.address)}") if renamed else ()),
        (f"{entry.user}@" if entry.user else "") + ((not renamed and entry.address) or alias),
    )


def format_ssh_command(words: Iterable[str], argv: Iterable[str]) -> str:
    """Return `ssh OPTIONS HOST COMMAND`; two shells read it, the local one and the one of the host."""
    argv = tuple(argv)
    command = " ".join(map(quote_path, argv))
    plain = all(shlex.quote(word) == word for word in argv)  # a home is that of the host
    return f"ssh {' '.join(map(quote_path, words))} {command if plain else shlex.quote(command)}".rstrip()


def format_login(connection: Connection) -> str:
    """Return the `ssh OPTIONS HOST` of a connection, which rsync can take, else the host's name."""
    line = connection.command_line(())
    words = [str(expand_home(word)) if word.startswith("~") else word for word in shlex.split(line)]
    is_login = words[:1] == ["ssh"] and all(word[:1] == "-" for word in words[1:-1:2])  # and no command
    return shlex.join(words) if is_login else connection.name


def format_ssh_copy_id(endpoint: Endpoint) -> str:
    """Return the command that adds the user's key to the account; it has no -J."""
    *options, target = endpoint.ssh_words or (endpoint.address,)
    for at, option in enumerate(options[:-1]):
        if option == "-J":
            options[at : at + 2] = "-o", f"ProxyJump={options[at + 1]}"
    return " ".join(map(quote_path, ("ssh-copy-id", *options, target)))


def _jump_options(entry: HostEntry, hops: Sequence[Endpoint]) -> tuple[str, ...]:
    """Return the option that names the jump hosts: -J where names say all, else a command for each."""
    if not hops:
        return ("-o", "ProxyJump=none") if entry.jump and entry.jump[0].lower() == "none" else ()
    names = [_jump_name(hop.ssh_words) for hop in hops]
    if all(names):
        return ("-J", ",".join(names))
    option: tuple[str, ...] = ()
    for hop in hops:
        words = hop.ssh_words if hop is hops[0] else _without_jump(hop.ssh_words)
        *options, target = map(escape_percents, words)
        command = ("ssh", *options, *map(escape_percents, option), *_FORWARD, target)
        option = ("-o", f"ProxyCommand={shlex.join(command)}")
    return option


def _jump_name(words: Sequence[str]) -> str:
    """Return a jump host as -J names it, "" where that cannot say all."""
    *options, target = words
    if any("%" in word for word in words) or options[::2] not in ([], ["-p"]):
        return ""
    user, at, host = target.rpartition("@")
    port = f":{options[1]}" if options else ""
    return f"{user}{at}[{host}]{port}" if ":" in host else target + port


def _without_jump(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a later jump host, of which ssh and gpulaunch ignore its own jump hosts."""
    pairs = zip(words[:-1:2], words[1:-1:2], strict=True)
    kept = (pair for pair in pairs if pair[0] != "-J" and not pair[1].startswith("Proxy"))
    return (*(word for pair in kept for word in pair), words[-1])


def escape_percents(text: str) -> str:
    """Return a text with percent signs that start no token."""
    return text.replace("%", "%%")
