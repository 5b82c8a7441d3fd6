"""How a value is written right that came as another kind: the ends of messages, "" where nothing is known."""

import json
import unicodedata
from collections.abc import Container, Mapping
from itertools import takewhile
from typing import Any

from launcher.durations import parse_duration
from preflight import regex as re

_MIB = {"m": 1, "g": 1 << 10, "t": 1 << 20}
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) *([mgt])i?b?", re.IGNORECASE)
_PLAIN_WORD = re.compile(r"[\w./+-][\w./+=@:-]{0,59}")
_MOST_WORDS = 12  # of a remedy
_LOOKALIKE = re.compile("[\u00a0\u2000-\u201f\u202f\u2060\u2212\u3000\ufeff\uff01-\uff5e]")
_INDICATORS = "*&!|>%@`#?-,]}"  # at the start of a word, to YAML
_NAMES = ("name", "host", "hostname", "ip")
_SPELLED_OUT = re.compile(r"([0-9.]{1,12}) *([smhd])(?:ec|econd|in|inute|r|our|ay)?s?$", re.IGNORECASE)


OTHER_NAMES = {
    "account": "project",
    "address": "hostname host ip ansible_host",
    "args": "arguments parameters script_args",
    "backoff_s": "backoff delay wait",
    "command": "run cmd commands entrypoint",
    "env": "envs environment environment_variables variables",
    "exclude": "ignore",
    "from": "src source path",
    "gpus": "num_gpus gpu_count nproc_per_node num_processes accelerators resources devices slots",
    "hosts": "host machines servers workers inventory hostfile",
    "nodes": "num_nodes nnodes num_machines",
    "identity_file": "key key_file pem ssh_key private_key ansible_ssh_private_key_file",
    "interface": "nic ifname iface network",
    "jump": "bastion gateway proxy proxy_jump proxyjump",
    "main_port": "port master_port",
    "max": "retries max_retries max_restarts attempts count times",
    "on_end": "notify notification notifications email mail slack webhook on_failure on_success on_error",
    "partition": "queue",
    "port": "ssh_port ansible_port",
    "python": "conda venv virtualenv interpreter python_path ansible_python_interpreter",
    "restart": "retry retries max_retries max_restarts fault_tolerance",
    "resume_args": "resume resume_from",
    "sync": "file_mounts upload repos files",
    "to": "dst dest target destination",
    "user": "login username ssh_user ansible_user",
    "via": "container docker podman kubectl pod image",
    "workdir": "cwd chdir directory working_dir working_directory",
}
"""What other tools call a key of ours: Ansible, ssh, deepspeed, torchrun, SkyPilot, dstack, sbatch."""


def as_list(value: Any, *, least: int = 1) -> str:
    """Return how a text of `least` words, or keys without values, is written as a list, else ""."""
    bare = isinstance(value, dict) and not any(part.value for part in value.values())
    words = value.split() if isinstance(value, str) else tuple(value) if bare else ()
    fits = least <= len(words) <= _MOST_WORDS and all(
        _PLAIN_WORD.fullmatch(re.sub("[{}]", "", each)) for each in words
    )
    words = [f'"{each}"' if "{" in each else each for each in words]
    return f" (write [{', '.join(words)}])" if fits else ""


def as_arguments(value: Any) -> str:
    """Return how options with values, as a mapping or within a list, are written as a list of arguments."""
    words: list[str] = []
    for part in [each.value for each in value] if isinstance(value, tuple) else [value]:
        for name, given in part.items() if isinstance(part, dict) else ():
            words += [name if name.startswith("-") else f"--{name}", given.text]
        words += [part] if isinstance(part, str) else []
    return as_list(" ".join(words))


def as_key(value: Any, pattern: str) -> str:
    """Return how the first name of a list, or of text, is written as a key."""
    if isinstance(value, str) and re.fullmatch(pattern, word := value.replace(",", " ").split(" ")[0]):
        return f' (write "{word}:" in a line of its own below)'
    first = value[0].value if isinstance(value, tuple) and value else None
    if isinstance(first, dict):  # `- titan: {port: 22}`
        if name := next((first[key].text for key in _NAMES if key in first), ""):
            return f' (write "{name}:" in place of "- name: {name}")' if re.fullmatch(pattern, name) else ""
        first = next(iter(first), None)
    name, _, text = str(first).partition("=")  # `- A=1`, as in Compose
    is_name = isinstance(first, str) and re.fullmatch(pattern, name) is not None
    return f' (write "{f"{name}: {text}".strip()}" in place of "- {first}")' if is_name else ""


def as_ascii(text: str) -> str:
    """Return the name of a character that an editor or a page puts in place of one of ASCII."""
    found = _LOOKALIKE.search(text)
    return f"; not ASCII in it: {unicodedata.name(found[0], 'blank').lower()}" if found else ""


def as_pair(text: str, names: Container[str]) -> str:
    """Return how `user:ada` or `user ada` is written as a key and its value."""
    pair = re.fullmatch(r"(\w+)([:\s])\s*(\S.*)", text)
    if pair is None or pair[1] not in names:
        return ""
    blank = ", with a blank" if pair[2] == ":" else ""
    if pair[3][0] in _INDICATORS:
        return f" (write {pair[1]}: {json.dumps(pair[3], ensure_ascii=False)}{blank})"
    return f' (write "{pair[1]}: {pair[3]}"{blank})'


def as_name(name: str, pattern: str) -> str:
    """Return the spelling of a key that its pattern takes: no dashes first, `-` for `_` or `_` for `-`."""
    plain = name.lstrip("-")
    spellings = (plain, plain.replace("_", "-"), plain.replace("-", "_"))
    meant = next((each for each in spellings if re.fullmatch(pattern, each)), "")
    return f'; did you mean "{meant}"?' if meant else ""


def as_mib(text: str) -> str:
    """Return how `2 GB` is written as a number of MiB."""
    size = _SIZE.fullmatch(text)
    return f" (it is in MiB: write {int(float(size[1]) * _MIB[size[2].lower()])})" if size else ""


def as_duration(text: str) -> str:
    """Return how `5 minutes` is written."""
    short = _SPELLED_OUT.sub(r"\1\2", text).lower()
    return f" (write {short})" if parse_duration(short) else ""


def as_list_in_braces(name: str, values: Mapping[str, Any]) -> str:
    """Return how a list is written of which the key `name`, without a value, is a part: `{gpus: 0,1}`."""
    if not name.isdecimal() or values[name] is not None:
        return ""
    keys = [*values]
    first = next((at for at in range(keys.index(name), -1, -1) if values[keys[at]] is not None), -1)
    if first < 0 or not isinstance(values[keys[first]], str):
        return ""
    numbers = ", ".join((values[keys[first]], *takewhile(str.isdecimal, keys[first + 1 :])))
    return f" (write {keys[first]}: [{numbers}]: in braces a comma ends a value)"
