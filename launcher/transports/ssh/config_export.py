"""hosts.yaml as ssh_config(5), for ssh, scp, rsync, pdsh and editors. Pure.

Only what hosts.yaml says is written: an Include at the top of ~/.ssh/config then leaves the rest to the
user's own lines, as gpulaunch does. hosts.yaml may come with a repository, so a value that OpenSSH would read
as more than itself is quoted or escaped, and what cannot be is a comment with the reason.
"""

from collections.abc import Iterable, Iterator

from launcher.config.inventory import HostEntry, Inventory, check_entry
from launcher.errors import BadInput
from launcher.text import one_line
from launcher.transports.ssh.ssh_command import escape_percents

_DEEPEST = 64


class _NotWritableError(Exception):
    """A host cannot be written in ssh_config's words."""


def export_config(inventory: Inventory, entries: Iterable[HostEntry]) -> tuple[list[str], dict[str, str]]:
    """Return the configuration of these hosts, and of the listed hosts that they are reached through.

    The second result says why hosts are not in it.
    """
    todo = {entry.name: entry for entry in entries}
    lines: list[str] = []
    left_out: dict[str, str] = {}
    written: set[str] = set()
    while todo:
        entry = todo.pop(next(iter(todo)))
        written.add(entry.name)
        try:
            block = [f"Host {entry.name}", *(f"    {line}" for line in _options(entry, inventory))]
        except _NotWritableError as why:
            left_out[entry.name] = one_line(str(why))
            lines.append(f"# {one_line(entry.name, 80)} is left out: {left_out[entry.name]}")
            continue
        lines += block
        listed = (hop for hop in _hops(entry, inventory) if hop.in_inventory)
        todo |= {hop.name: hop for hop in listed if hop.name not in written}
    return lines, left_out


def _options(entry: HostEntry, inventory: Inventory) -> Iterator[str]:
    """Yield the lines of one host. Raises _NotWritableError."""
    if entry.via is not None:
        raise _NotWritableError(f"`via: {entry.via.kind}` enters it, and ssh knows no such way")
    if entry.is_on_this_machine:
        raise _NotWritableError("it is this machine")
    problem = check_entry(entry)
    if problem:
        raise _NotWritableError(problem)
    if entry.address:
        yield f"HostName {escape_percents(entry.address)}"
    if entry.port is not None:
        yield f"Port {entry.port}"
    if entry.user:
        yield f"User {_user(entry.user)}"
    if entry.identity_file:
        yield f"IdentityFile {_quoted(_path(entry.identity_file))}"
    if entry.jump:
        yield f"ProxyJump {_jump(entry, inventory)}"


def _user(name: str) -> str:
    if "%" in name:
        raise _NotWritableError(f'the user "{name}": OpenSSH releases read a percent sign in it differently')
    return _quoted(name)


def _path(path: str) -> str:
    if "${" in path:
        raise _NotWritableError(f'identity_file "{path}": OpenSSH would look up the variable in it')
    return escape_percents(path)


def _quoted(text: str) -> str:
    r"""Return a word in double quotes. Raises _NotWritableError for what only some releases can read.

    OpenSSH up to 8.6 has no escapes; later ones read \" \' and \\ as the second character alone.
    """
    if '"' in text or not text.isprintable():
        raise _NotWritableError(f'"{text}" holds a quote or a control character')
    if any(pair in text + '"' for pair in ("\\\\", "\\'", '\\"', "\\ ")):
        raise _NotWritableError(f'"{text}" holds a backslash that OpenSSH releases read differently')
    return f'"{text}"'


def _jump(entry: HostEntry, inventory: Inventory) -> str:
    if entry.jump[0].lower() == "none":
        return "none"
    if _goes_round(entry, inventory):
        raise _NotWritableError("its jump hosts go round in a circle, which ssh would follow for ever")
    words = [_hop_word(hop) for hop in _hops(entry, inventory)]
    return ",".join(words) or "none"


def _hops(entry: HostEntry, inventory: Inventory) -> list[HostEntry]:
    """Return the jump hosts but the host itself, which `defaults:` may name for all. Raises as `_options`."""
    if not entry.jump or entry.jump[0].lower() == "none":
        return []
    try:
        hops = [inventory.lookup(word.removeprefix("ssh://")) for word in entry.jump]
    except BadInput as error:
        raise _NotWritableError(error.message) from None
    return [hop for hop in hops if hop.name != entry.name]


def _hop_word(hop: HostEntry) -> str:
    """Return a hop as ProxyJump names it; a listed one has lines of its own."""
    if hop.in_inventory:
        if hop.via is not None:
            raise _NotWritableError(f"its jump host {hop.name} is entered by `via:`")
        return hop.name
    if hop.identity_file:
        raise _NotWritableError(f"its jump host {hop.name} needs the identity_file of `defaults:`; list it")
    if "%" in hop.user:
        _user(hop.user)
    host = f"[{hop.alias}]" if ":" in hop.alias else hop.alias
    user = f"{hop.user}@" if hop.user else ""
    port = f":{hop.port}" if hop.port is not None else ""
    return escape_percents(f"{user}{host}{port}")


def _goes_round(entry: HostEntry, inventory: Inventory) -> bool:
    """Return whether the first hop, its first hop, and so on lead back to one of them."""
    seen = {entry.name}
    current = entry
    for _ in range(_DEEPEST):
        hops = _hops(current, inventory)
        if not hops:
            return False
        current = hops[0]
        if current.name in seen:
            return True
        seen.add(current.name)
    return True
