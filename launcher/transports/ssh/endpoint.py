"""From a host of the inventory to an Endpoint: hosts.yaml wins, then ssh_config, then ssh's defaults."""

import os
import shlex
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TypeAlias

from launcher import errors
from launcher.config.host_names import HOST_RULE, NAMES_OF_FILE, is_host
from launcher.config.hostfile import read_hostfile
from launcher.config.inventory import ALL, HostEntry, Inventory, check_entry
from launcher.config.via_options import COMMAND, Via
from launcher.config.yaml_tree import hint_nearest
from launcher.local.descriptors import is_exhausted
from launcher.local.home import expand_home, shorten_path
from launcher.local.user import read_login_name
from launcher.rundir.run_id import is_job_id
from launcher.text import one_line
from launcher.transports import open_endpoint
from launcher.transports.base import Connection, Endpoint, NewHostKeys, OpenOptions
from launcher.transports.command_consent import is_users_own
from launcher.transports.ssh.config_parser import ConfigLine, find_directives, list_host_names
from launcher.transports.ssh.config_values import Tokens, parse_seconds
from launcher.transports.ssh.ssh_command import list_ssh_words

_REACH_TIMEOUT_S = 6.0  # kernels ask again after 1 and 3 s, WireGuard after 5: no answer comes later
_STEP_TIMEOUT_S = 10.0  # for a host that has answered, and may be busy

_DEEPEST_JUMP = 8
_MOST_GUESSES = 8  # each is compared with every listed name
_LONGEST_CONNECT_TIMEOUT_S = 3600
_MOST_DIGITS = 9
_STRICT: dict[str, NewHostKeys] = {
    **dict.fromkeys(("yes", "true"), "refuse"),
    "ask": "ask",
    "accept-new": "accept",
    **dict.fromkeys(("no", "false", "off"), "unchecked"),
}
_OF_ONE_HOST = frozenset({
    "hostname", "port", "user", "identityfile", "certificatefile", "identityagent", "identitiesonly",
    "proxyjump", "proxycommand", "userknownhostsfile", "hostkeyalias",
})  # fmt: skip
"""Keywords by which a name is another host, or is reached otherwise, than its address."""
_UNFOLLOWED: dict[str, tuple[type[errors.HostError], ...]] = {
    **dict.fromkeys(
        ("addressfamily", "bindaddress", "bindinterface"),
        (errors.HostError, errors.ConnectionRefused, errors.ConnectionTimedOut),
    ),
    "canonicalizehostname": (errors.NameNotResolved, errors.HostKeyUnknown),
    "knownhostscommand": (errors.HostKeyUnknown, errors.HostKeyChanged),
    "pkcs11provider": (errors.AuthenticationFailed,),
}
"""Keywords by which ssh may reach a host, or know its key, where gpulaunch ends with one of these errors."""
_UNSET = ("any", "no", "none")
_JUMP = "jump host "
_Values: TypeAlias = dict[str, list[ConfigLine]]


def build_opener(
    inventory: Inventory, options: OpenOptions, ssh_config: Path | None = None
) -> Callable[[HostEntry], Connection]:
    """Return what opens hosts by `build_endpoint` and `open_endpoint`; whatever is wrong is a HostError."""
    unresolved = count()

    def opener(entry: HostEntry) -> Connection:
        endpoint: Endpoint | None = None
        try:
            endpoint = build_endpoint(entry, inventory, ssh_config)
            return open_endpoint(endpoint, options)
        except errors.HostError as error:
            address = "" if endpoint is None else endpoint.address
            if is_job_id(address) and not entry.in_inventory:
                error.fix = f"{address} is the id of a Slurm job: gpulaunch ps {address} lists its runs"
            name = (
                _unlisted_name(entry, inventory, error) if isinstance(error, errors.NameNotResolved) else ""
            )
            if name and next(unresolved) < _MOST_GUESSES:
                error.fix = _name_fix(name, inventory, ssh_config) or error.fix
            error.fix = "; ".join(filter(None, (error.fix, _name_unfollowed(endpoint, error))))
            raise
        except errors.BadInput as error:  # about this host alone
            name = shlex.quote(entry.alias or entry.name)
            fix = error.fix or f"correct it; ssh -G {name} shows what ssh_config says"
            raise errors.HostError(entry.name, error.message, fix) from None
        except (OSError, RuntimeError) as error:
            if not is_exhausted(error):
                raise
            raise errors.DescriptorsExhausted(entry.name) from None

    return opener


def _name_unfollowed(endpoint: Endpoint | None, error: errors.HostError) -> str:
    """Return which keywords of ssh_config that bear on an error are not followed; "" for none."""
    lines = () if endpoint is None else endpoint.unfollowed
    found = ", ".join(f"{key} ({place})" for key, place in lines if type(error) in _UNFOLLOWED[key])
    return f"gpulaunch does not follow {found} of ssh_config" if found else ""


def _unlisted_name(entry: HostEntry, inventory: Inventory, error: errors.NameNotResolved) -> str:
    """Return the name that was not found, where hosts.yaml does not list it: a jump host's or the host's."""
    if error.detail.startswith(_JUMP):  # of hosts.yaml or of ssh_config
        entry = inventory.lookup(error.detail.removeprefix(_JUMP).partition(": ")[0].removeprefix("ssh://"))
    return "" if entry.in_inventory else entry.alias


def _lists_hosts(name: str) -> bool:
    """Return whether there is a file of this name that lists hosts, unlike a log or a script."""
    try:
        return Path(name).is_file() and all(is_host(one.host.split("@")[-1]) for one in read_hostfile(name))
    except errors.BadInput:
        return False


def _name_fix(name: str, inventory: Inventory, ssh_config: Path | None) -> str:
    """Return a name like it, "" for none; of a block of ssh_config what gives that its address."""
    near = inventory.suggest(name, list_host_names(ssh_config))
    if not near and _lists_hosts(name):
        return NAMES_OF_FILE.format(shlex.quote(name))
    if near != name:
        is_listed = near == ALL or near in inventory.hosts or near in inventory.groups
        return near and f'did you mean "{near}" of {"hosts.yaml" if is_listed else "your ssh_config"}?'
    known = find_directives(ssh_config, name)
    if "hostname" in known:
        return f"correct HostName in {known['hostname'][0].where}"
    for key, lines in known.items():
        if hint := hint_nearest(key, ("hostname",)):
            return f'{lines[0].where}: "{one_line(key, 60)}" is not a keyword of ssh_config{hint}'
    return f"add a line `HostName ADDRESS` below `Host {name}` in your ssh_config"


def build_endpoint(entry: HostEntry, inventory: Inventory, ssh_config: Path | None = None) -> Endpoint:
    """Merge hosts.yaml and ssh_config (None: the usual files) about a host. Raises ConfigError."""
    if entry.is_local:
        return Endpoint(entry.name, "local", "")
    if entry.via is None:
        return _endpoint(entry, inventory, ssh_config, ())
    return _behind(entry, entry.via, inventory, ssh_config)


def _behind(entry: HostEntry, via: Via, inventory: Inventory, ssh_config: Path | None) -> Endpoint:
    """Return the endpoint of a host that `via:` reaches, with the endpoint of where its command runs."""
    if via.kind == COMMAND and not via.words:
        fix = "type it where that hosts.yaml is, or name it with -i"
        raise errors.HostNotContacted(
            entry.name, "it is reached by a command that only a hosts.yaml holds", fix
        )
    problem = check_entry(entry)
    if problem:
        raise errors.ConfigError(problem)
    here = entry.is_on_this_machine or not (via.is_on_host or entry.address)
    bare = replace(entry, via=None)
    base = Endpoint(entry.name, "local", "") if here else _endpoint(bare, inventory, ssh_config, ())
    return Endpoint(
        entry.name,
        "prefix",
        entry.alias or entry.name,
        via=via,
        base=base,
        own_command=is_users_own(inventory.path),
        unfollowed=base.unfollowed,
    )


def _endpoint(
    entry: HostEntry, inventory: Inventory, ssh_config: Path | None, behind: tuple[str, ...]
) -> Endpoint:
    problem = check_entry(entry)
    if problem:  # before ssh_config is read: its Match exec gives the name to a shell
        raise errors.ConfigError(problem)
    alias = entry.alias or entry.name
    values = find_directives(ssh_config, alias, entry.user)
    port = entry.port or _number(values, "port", 22, 65535)
    user = entry.user or _text(values, "user") or read_login_name()
    host = _text(values, "hostname")
    address = entry.address or Tokens(alias, alias, str(port), user).expand_text(host) or alias
    if not is_host(address):
        where = values["hostname"][0].where
        raise errors.ConfigError(f'{where}: hostname: "{address}" is not a host: expected {HOST_RULE}')
    tokens = Tokens(alias, address, str(port), user, _text(values, "hostkeyalias"))
    jump = entry.jump or _jump(values, tokens)
    agent = _paths(values, "identityagent", tokens)
    hops = _hops(jump, entry, inventory, ssh_config, (*behind, entry.name))
    key = inventory.identity_file or entry.identity_file
    named = filter(None, (inventory.identity_file, entry.identity_file))
    return Endpoint(
        name=entry.name,
        transport="ssh",
        address=address,
        port=port,
        user=user,
        identity_files=tuple(dict.fromkeys((*named, *_every_path(values, "identityfile", tokens)))),
        certificate_files=_every_path(values, "certificatefile", tokens),
        # As they are dialled: the jumps of the first hop come before it.
        jumps=(*(hops[0].jumps if hops else ()), *(replace(hop, jumps=()) for hop in hops)),
        proxy_command="" if jump else _proxy_command(values, tokens),
        known_hosts_files=_known_hosts_files(values, "userknownhostsfile", tokens),
        system_known_hosts_files=_known_hosts_files(values, "globalknownhostsfile", tokens),
        identity_agent=agent[0] if agent else "",
        identities_only=_text(values, "identitiesonly").lower() in ("yes", "true"),
        new_host_keys=_new_host_keys(values),
        hash_known_hosts=_text(values, "hashknownhosts").lower() in ("yes", "true"),
        host_key_alias=tokens.expand_text(tokens.key_alias),
        reach_timeout_s=_connect_timeout_s(values, _REACH_TIMEOUT_S),
        connect_timeout_s=_connect_timeout_s(values, _STEP_TIMEOUT_S),
        ssh_words=list_ssh_words(
            entry,
            shorten_path(key),
            hops if entry.jump else (),
            in_config=not _OF_ONE_HOST.isdisjoint(values),
        ),
        unfollowed=tuple(
            (line.key, shorten_path(line.where))
            for key in _UNFOLLOWED
            for line in values.get(key, ())
            if line.text.lower() not in _UNSET
        ),
    )


def _new_host_keys(values: _Values) -> NewHostKeys:
    lines = values.get("stricthostkeychecking")
    word = lines[0].text.lower() if lines else "ask"
    if word not in _STRICT:
        where = lines[0].where if lines else ""
        raise errors.ConfigError(
            f"{where}: stricthostkeychecking: expected yes, ask, accept-new or no, got {word!r}"
        )
    return _STRICT[word]


def _hops(
    jump: tuple[str, ...],
    entry: HostEntry,
    inventory: Inventory,
    ssh_config: Path | None,
    behind: tuple[str, ...],
) -> tuple[Endpoint, ...]:
    """Resolve each hop as a host of its own."""
    if not jump or jump[0].lower() == "none":
        return ()
    if len(behind) > _DEEPEST_JUMP:
        raise errors.ConfigError(f"{entry.name}: its jump hosts go round in a circle: {' -> '.join(behind)}")
    hops: list[Endpoint] = []
    for word in jump:
        try:
            hop_entry = inventory.lookup(word.removeprefix("ssh://"))
        except errors.BadInput as failure:
            raise errors.ConfigError(f"{entry.name}: jump host {word!r}: {failure.message}") from None
        if hop_entry.name in behind:
            continue  # `Host * / ProxyJump bastion` names the bastion for itself too; ssh passes over that
        hops.append(_endpoint(hop_entry, inventory, ssh_config, behind))
    return tuple(hops)


def _jump(values: _Values, tokens: Tokens) -> tuple[str, ...]:
    """Return ProxyJump's hops, unless a ProxyCommand precedes it: of the two, ssh takes the first."""
    text = tokens.expand_text(_text(values, "proxyjump"))
    order = list(values)
    commanded = "proxycommand" in values
    if text and commanded and order.index("proxycommand") < order.index("proxyjump"):
        return ()
    if text.lower() == "none" and commanded:
        return ()
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _proxy_command(values: _Values, tokens: Tokens) -> str:
    lines = values.get("proxycommand")
    if not lines or lines[0].text.lower() == "none":
        return ""
    return tokens.expand_command(lines[0].text, lines[0].where)


def _every_path(values: _Values, key: str, tokens: Tokens) -> tuple[str, ...]:
    """Return the paths of a key of which every occurrence counts."""
    lines = (line for line in values.get(key, ()) if line.text.lower() != "none")
    return tuple(tokens.expand_path(line.text, line.where) for line in lines)


def _known_hosts_files(values: _Values, key: str, tokens: Tokens) -> tuple[str, ...]:
    paths = _paths(values, key, tokens)
    if len(paths) == 1 and paths[0].lower() == "none":
        return (os.devnull,)  # it holds no key, and forgets what is saved in it
    return tuple(str(expand_home(path)) for path in paths)


def _paths(values: _Values, key: str, tokens: Tokens) -> tuple[str, ...]:
    lines = values.get(key)
    return tuple(tokens.expand_path(word, lines[0].where) for word in lines[0].words) if lines else ()


def _text(values: _Values, key: str) -> str:
    lines = values.get(key)
    return lines[0].text if lines else ""


def _number(values: _Values, key: str, default: int, largest: int) -> int:
    lines = values.get(key)
    if not lines:
        return default
    text = lines[0].text
    if not text.isdecimal() or len(text) > _MOST_DIGITS or not 0 < int(text) <= largest:
        raise errors.ConfigError(
            f"{lines[0].where}: {key}: expected a number from 1 to {largest}, got {text!r}"
        )
    return int(text)


def _connect_timeout_s(values: _Values, default: float) -> float:
    """Return ConnectTimeout; for `none` and 0, which would wait for as long as the kernel does, our own."""
    lines = values.get("connecttimeout")
    if not lines or lines[0].text.lower() in ("none", "0"):
        return default
    found = parse_seconds(lines[0].text)
    if found is None or not 0 < found <= _LONGEST_CONNECT_TIMEOUT_S:
        raise errors.ConfigError(
            f"{lines[0].where}: connecttimeout: expected a time such as 20 or 1m, "
            f"from 1 to {_LONGEST_CONNECT_TIMEOUT_S} seconds, got {lines[0].text!r}"
        )
    return float(found)
