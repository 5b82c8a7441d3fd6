"""Reads hosts.yaml into the inventory; every mistake in it is found at once."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from launcher.config import host_ranges
from launcher.config.host_fields import explain_interpreter
from launcher.config.host_names import HOST_RULE, is_host, is_ip
from launcher.config.inventory import ALL, FILE_NAME, LOCALHOST, HostEntry, Inventory, find_local_python
from launcher.config.schema import INVENTORY
from launcher.config.via_options import NO_VIA
from launcher.config.yaml_tree import ConfigIssues, YamlNode, YamlValue, hint_nearest
from launcher.errors import BadInput, ConfigError
from launcher.local.home import expand_home, user_config_dir
from launcher.local.project import find_up
from preflight import regex as re
from preflight.frozen import dataclass
from preflight.job import Expect

MAX_JUMPS = 8
MAX_MEMBERS = 200_000  # of all groups together
_DEEPEST_GROUP = 24
_LONGEST_FIRST_LINE = 100
_LARGEST_HEAD = 1 << 16
_FIRST_LINES = "write `hosts:` in the first line, and below it, indented, a line `NAME:` for each host"
_TOP_KEY = re.compile(rb"^(?:hosts|defaults):", re.MULTILINE)


def load_inventory(path: Path | None) -> Inventory:
    """Return the inventory in `path` or the nearest hosts.yaml, or an empty one. Raises ConfigError."""
    if path is None:
        users = user_config_dir() / FILE_NAME
        found = find_up(FILE_NAME) or (users if users.is_file() else None)
        return load_inventory(found) if found else Inventory()
    _refuse_key(path)
    mistakes = ConfigIssues()
    from launcher.config.yaml_reader import MAX_BYTES, read_file  # noqa: PLC0415 - yaml is a tenth of a run's imports

    try:
        root = read_file(path, mistakes, first_lines=_FIRST_LINES)
    except ConfigError as error:
        with suppress(OSError, ValueError):
            with path.open("rb") as stream:
                advice = advise_on_inventory(stream.read(MAX_BYTES).decode())
            error.fix = "; or ".join(filter(None, (error.fix, advice)))
        raise
    refuse_ansible(root)
    data = INVENTORY.read(root, mistakes) or {}
    reader = _Reader(path, root, mistakes)
    defaults = reader.defaults(data.get("defaults", {}))
    hosts = reader.hosts(data.get("hosts", {}), data.get("defaults", {}))
    groups = reader.groups(data.get("groups", {}), hosts)
    mistakes.raise_if_any()
    return Inventory(path, hosts, groups, defaults)


def find_misnamed_inventory() -> Path | None:
    """Return ./hosts.yml where it has keys of ours (Ansible's has others), and there is no ./hosts.yaml."""
    path = Path(FILE_NAME).with_suffix(".yml")
    if Path(FILE_NAME).exists():
        return None
    with suppress(OSError), path.open("rb") as file:
        if _TOP_KEY.search(file.read(_LARGEST_HEAD)):
            return path
    return None


def _refuse_key(path: Path) -> None:
    """Raise ConfigError for a private key: `-i` names one for ssh, and hosts.yaml for gpulaunch."""
    with suppress(OSError), path.open("rb") as file:
        first = file.readline(_LONGEST_FIRST_LINE)
        if first.startswith(b"-----BEGIN ") and b"PRIVATE KEY-----" in first:
            raise ConfigError(
                f"{path} is a private key, expected a {FILE_NAME}",
                f"--identity-file {path}, or identity_file in hosts.yaml",
            )


def _hops(words: Iterable[str]) -> Iterator[str]:
    """Yield the hops that words name; commas separate them, as in ssh's ProxyJump. One too many ends it."""
    return islice((hop for word in words for hop in word.split(",")), MAX_JUMPS + 1)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Builds entries from validated data; it finds what only several keys together can get wrong."""

    path: Path
    root: YamlNode
    mistakes: ConfigIssues

    def entry(self, name: str, data: Mapping[str, Any]) -> HostEntry:
        values = dict(data)
        if "identity_file" in values:
            with suppress(BadInput):  # it is reported where it is written
                folder = self.path.absolute().parent
                values["identity_file"] = str(folder / expand_home(values["identity_file"]))
        if "jump" in values:  # as ssh's ProxyJump: an empty list is an explicit none
            values["jump"] = tuple(_hops(values["jump"])) or ("none",)
        if "ignore" in values:
            values["ignore"] = frozenset(values["ignore"])
        if "expect" in values:
            values["expect"] = Expect(**values["expect"])
        if "via" in values and values["via"].kind == NO_VIA:
            values["via"] = None
        entry = HostEntry(name, **values, alias=name, names_python="python" in values)
        if entry.is_local and not entry.names_python:
            entry = replace(entry, python=find_local_python())
        expected = explain_interpreter(entry.python) if entry.is_on_this_machine else ""
        if expected:
            self._mistake(
                f"hosts.{name}.python", f'expected {expected} on this machine, got "{entry.python}"'
            )
        return entry

    def defaults(self, data: Mapping[str, Any]) -> HostEntry:
        self._check_ways("defaults", data)
        return self.entry("", data)

    def hosts(self, data: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, HostEntry]:
        raw: dict[str, dict[str, Any]] = {}
        from_range: dict[str, str] = {}
        # Ranges first, so that plain names refine them.
        ordered = sorted(data, key=lambda name: "[" not in name)
        for written in ordered:
            for name, values in self._expand(written, data[written]).items():
                if name in raw and ("[" in written or name not in from_range):
                    self._mistake(
                        f"hosts.{written}",
                        f"{name} is in {from_range.get(name, name)} too;"
                        " keep one; names without brackets refine a range",
                    )
                    continue
                if "[" in written:
                    from_range[name] = written
                raw[name] = _merge(raw.get(name, {}), values)
            if len(raw) > host_ranges.MAX_HOSTS:
                self._mistake(f"hosts.{written}", f"more than {host_ranges.MAX_HOSTS} hosts in one file")
                return {}
        in_file_order = dict.fromkeys(
            name for written in data for name in host_ranges.expand_or_empty(written)
        )
        return {name: self.entry(name, _merge(defaults, raw[name])) for name in in_file_order if name in raw}

    def _expand(self, written: str, values: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        """Return what each name of a range is given; a range as address is dealt out over the names."""
        key = f"hosts.{written}"
        self._check_ways(key, values)
        try:
            names = host_ranges.expand_ranges(written, {})
            addresses = (
                host_ranges.expand_ranges(values["address"], {}) if "[" in values.get("address", "") else ()
            )
        except BadInput as error:
            self._mistake(key, error.message)
            return {}
        for name in names:
            if not is_host(name) or name == ALL:
                rule = _as_keys(name) or f": it may hold {HOST_RULE}"
                self._mistake(key, f'"{name}" cannot be a host\'s name{rule}')
                return {}
        if addresses and len(addresses) != len(names):
            self._mistake(f"{key}.address", f"{len(addresses)} addresses for {len(names)} hosts")
        elif len(names) > 1 and "address" in values and not addresses:
            self._mistake(
                f"{key}.address", f"one address for {len(names)} hosts; write a range such as 10.0.0.[1-4]"
            )
        for address in addresses or ((values["address"],) if "address" in values else ()):
            if not is_host(address):
                self._mistake(
                    f"{key}.address", f'"{address}" is not a name or IP address: expected {HOST_RULE}'
                )
        if len(addresses) == len(names):
            return {
                name: {**values, "address": address} for name, address in zip(names, addresses, strict=True)
            }
        return dict.fromkeys(names, values)

    def _check_ways(self, key: str, values: Mapping[str, Any]) -> None:
        """Find too many jump hosts and homes of unknown users; the rest is known once ssh_config is read."""
        try:
            expand_home(values.get("identity_file", "/"))
        except BadInput as error:
            self._mistake(f"{key}.identity_file", error.message)
        if len(tuple(_hops(values.get("jump", ())))) > MAX_JUMPS:
            self._mistake(f"{key}.jump", f"more than {MAX_JUMPS} jump hosts")

    def groups(
        self, data: Mapping[str, tuple[str, ...]], hosts: Mapping[str, HostEntry]
    ) -> dict[str, tuple[str, ...]]:
        for group in data:
            if group in hosts or group in (ALL, LOCALHOST):
                self._mistake(f"groups.{group}", "is a host's name too; rename the group")
        found: dict[str, tuple[str, ...]] = {}
        for group in data:
            self._flatten(group, data, hosts, found, ())
            if sum(map(len, found.values())) > MAX_MEMBERS:
                self._mistake(f"groups.{group}", f"more than {MAX_MEMBERS} members in all groups")
                break
        return {group: found[group] for group in data if group in found}

    def _flatten(
        self,
        group: str,
        data: Mapping[str, tuple[str, ...]],
        hosts: Mapping[str, HostEntry],
        found: dict[str, tuple[str, ...]],
        above: tuple[str, ...],
    ) -> tuple[str, ...]:
        """Return the hosts of a group and add them to `found`, which has each group once."""
        key = f"groups.{group}"
        if group in found:
            return found[group]
        if group in above or len(above) >= _DEEPEST_GROUP:
            way = "contains itself" if group in above else f"is more than {_DEEPEST_GROUP} groups deep"
            self._mistake(key, f"{way}: " + " -> ".join((*above, group)[-4:]))
            return ()
        members: dict[str, None] = {}
        for word in dict.fromkeys(data[group]):
            if word == ALL:
                members |= dict.fromkeys(hosts)
            elif word.removeprefix("@") in data and word not in hosts:
                inner = self._flatten(word.removeprefix("@"), data, hosts, found, (*above, group))
                members |= dict.fromkeys(inner)
            else:
                members |= dict.fromkeys(self._listed(key, word, tuple(data), hosts))
        found[group] = tuple(members)
        return found[group]

    def _listed(
        self, key: str, word: str, groups: tuple[str, ...], hosts: Mapping[str, HostEntry]
    ) -> list[str]:
        try:
            names = host_ranges.expand_ranges(word, {})
        except BadInput as error:
            self._mistake(key, error.message)
            return []
        for name in names:
            if name not in hosts and name != LOCALHOST:
                own = key.removeprefix("groups.")
                others = (*hosts, *(group for group in groups if group != own))
                hint = hint_nearest(name, others) or "; list it under hosts"
                self._mistake(key, f'"{name}" is not under hosts{hint}')
        return [name for name in names if name in hosts or name == LOCALHOST]

    def _mistake(self, key: str, text: str) -> None:
        item = _find(self.root, key)
        self.mistakes.add(replace(item, key=key), text)


def _as_keys(name: str) -> str:
    """Return how `user@host:port` is written as a host with its keys, "" for what is not that."""
    with suppress(BadInput):
        spot = host_ranges.parse_ssh_target(name)
        keys = [f"user: {spot.user}"] * bool(spot.user) + [f"port: {spot.port}"] * (spot.port is not None)
        return f' (write "{spot.host}: {{{", ".join(keys)}}}")'
    return ""


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return base with over's keys; env and expect are merged one level deeper."""
    merged = {**base, **over}
    for name in ("env", "expect"):
        if name in base and name in over:
            merged[name] = {**base[name], **over[name]}
    return merged


def _find(root: YamlNode, key: str) -> YamlNode:
    """Return the item nearest to a dotted key; names may themselves hold dots."""
    item = root
    rest = key
    while rest and isinstance(item.value, dict):
        name = next((name for name in item.value if rest == name or rest.startswith(name + ".")), None)
        if name is None:
            break
        item = item.value[name]
        rest = rest[len(name) + 1 :]
    return item


_MOST = 8
_OURS = ("defaults:", "groups:", "hosts:")


def advise_on_inventory(text: str) -> str:
    """Return what to type for an ssh_config, a hostfile, /etc/hosts or Ansible's INI, "" for others."""
    every = [words for line in text.splitlines() if (words := line.partition("#")[0].split())]
    lines = [words for words in every if words[0][0] != "[" and "=" not in words[0]]
    if any(words[0].lower() == "host" for words in lines):
        return "gpulaunch reads ~/.ssh/config anyway: leave -i out, and name its hosts as for ssh"
    names = dict.fromkeys(_names(lines))
    is_ours = any(words[0] in _OURS for words in lines)
    return "" if is_ours or not names or len(names) < len(lines) / 2 else _advise(names)


def _advise(names: Collection[str]) -> str:
    shown = ",".join([*names][:_MOST]) + ",..." * (len(names) > _MOST)
    return f"move it away: gpulaunch init --hosts {shown} writes one"


def refuse_ansible(root: YamlNode) -> None:
    """Raise ConfigError for an inventory of Ansible in YAML."""
    is_ours = isinstance(root.value, dict) and any(f"{key}:" in _OURS for key in root.value)
    if names := {} if is_ours else dict.fromkeys(_list_hosts(root.value)):
        advice = f"{_advise(names)}; ansible_host is address: in it, and ansible_user user:"
        raise ConfigError(f"{root.source}: an inventory of Ansible, expected one of gpulaunch", advice)


def _list_hosts(groups: YamlValue) -> Iterator[str]:
    """Yield the hosts of Ansible's groups: each has hosts: by name, and children: that are groups."""
    for group in groups.values() if isinstance(groups, dict) else ():
        parts = group.value if isinstance(group.value, dict) else {}
        for key, part in parts.items():
            if key == "children":
                yield from _list_hosts(part.value)
            elif key == "hosts" and isinstance(part.value, dict):
                yield from filter(is_host, part.value)


def _names(lines: list[list[str]]) -> Iterator[str]:
    for words in lines:
        name, colon, count = words[0].partition(":")  # a slot count, as MPI has it
        if len(words) > 1 and is_ip(words[0]):
            yield words[1]
        elif is_host(name) and count.isdigit() == bool(colon) and all("=" in word for word in words[1:]):
            yield name
