"""Values of options, read by their kind. Pure; each reader raises CommandRefused with the option's name."""

import re
from collections.abc import Callable, Iterator

from launcher.engines.command_line.options import ValueKind
from launcher.engines.command_line.parsed_command import HostFilter, PerNode
from launcher.errors import CommandRefused
from preflight.decide.host_lists import expand_host_list
from preflight.job import Precision

MOST_PORT = 65535
MOST_HOSTS = 4096
_ELASTIC_FIX = "write the number of hosts; restart: of a run config continues without a host that failed"


def is_number(text: str) -> bool:
    """Return whether a text is a whole number without a sign, and no longer than any that is meant."""
    return re.fullmatch(r"[0-9]{1,12}", text) is not None


def parse_whole(name: str, text: str) -> int:
    """Return an int of at least 0."""
    if not re.fullmatch(r"[+]?[0-9]{1,12}", text.strip()):
        raise CommandRefused(
            f"{name} is {text!r}, and takes a whole number",
            f"write {name} {29500 if name.endswith('port') else 4}, or leave it out",
        )
    return int(text)


def parse_count(name: str, text: str) -> int:
    """Return an int of at least 1."""
    value = parse_whole(name, text)
    if value < 1:
        raise CommandRefused(f"{name} is {text}, and takes at least 1", f"leave {name} out: the hosts decide")
    return value


def parse_port(name: str, text: str) -> int:
    """Return a TCP port, 0 included (any free one)."""
    value = parse_whole(name, text)
    if value > MOST_PORT:
        raise CommandRefused(f"{name} is {text}, and ports end at {MOST_PORT}", f"write {name} 29500")
    return value


def parse_nodes(name: str, text: str) -> int:
    """Return a number of nodes from `N` or `N:N` (torchrun) or `N-N` (srun); elastic ranges are refused."""
    low, mark, high = text.partition(":" if ":" in text else "-")
    if mark and parse_count(name, low) != parse_count(name, high):
        raise CommandRefused(
            f"{name} {text} is an elastic launch of {low} to {high} nodes; the world of a run is fixed",
            _ELASTIC_FIX,
        )
    return parse_count(name, low)


def parse_per_node(name: str, text: str) -> PerNode:
    """Return a count per node, or one of gpu, cpu, auto."""
    known: dict[str, PerNode] = {"gpu": "gpu", "cpu": "cpu", "auto": "auto"}
    if text in known:
        return known[text]
    if not is_number(text.strip()):
        raise CommandRefused(
            f"{name} is {text!r}, and takes a number, gpu, cpu or auto",
            f"leave {name} out for one on each GPU",
        )
    return parse_count(name, text)


def parse_gpus(name: str, text: str) -> tuple[int | str, ...] | None:
    """Return GPU indices and UUIDs from `0,1` or `GPU-...`; None for "all" and the empty word."""
    if text in ("", "all"):
        return None
    found: list[int | str] = []
    for part in text.removesuffix(",").split(","):
        word = part.strip()
        if is_number(word):
            found.append(int(word))
        elif re.fullmatch(r"(GPU|MIG)-[0-9A-Za-z/-]+", word):
            found.append(word)
        else:
            raise CommandRefused(
                f"{name} is {text!r}, and takes indices or UUIDs of GPUs with commas between them",
                f"write {name}{' ' if name.startswith('-') else '='}0,1, or leave it out for all GPUs",
            )
    if len(set(found)) < len(found):
        raise CommandRefused(
            f"{name} {text} names a GPU twice, and two ranks on one GPU cannot train", "name each once"
        )
    return tuple(found)


def parse_node_filters(name: str, text: str) -> tuple[HostFilter, ...]:
    """Return DeepSpeed's NODE[:SLOT,SLOT][@NODE...] (parse_node_config_list)."""
    merged: dict[str, tuple[int, ...]] = {}
    for part in text.split("@"):
        host, colon, slots = part.strip().rpartition(":") if ":" in part else (part.strip(), "", "")
        if not host or (colon and not re.fullmatch(r"[0-9]{1,9}(\s*,\s*[0-9]{1,9})*", slots)):
            raise CommandRefused(
                f"{name} has {part!r}, and takes HOST or HOST:GPU,GPU with @ between hosts",
                f"write {name} a:0,1@b:0",
            )
        indices = tuple(int(slot) for slot in slots.split(",")) if colon else ()
        merged[host] = tuple(sorted({*merged.get(host, ()), *indices}))
    return tuple(HostFilter(host, indices) for host, indices in merged.items())


def parse_host_slots(name: str, text: str) -> tuple[HostFilter, ...]:
    """Return HOST[:COUNT],HOST... of mpirun; a host that comes again adds its slots."""
    merged: dict[str, int | None] = {}
    for part in text.split(","):
        host, colon, slots = part.strip().rpartition(":") if ":" in part else (part.strip(), "", "")
        if not host or (colon and not is_number(slots)):
            raise CommandRefused(
                f"{name} has {part!r}, and takes HOST or HOST:COUNT with commas", f"write {name} a:4,b:4"
            )
        before = merged.get(host)
        now = int(slots) if colon else None
        merged[host] = now if before is None else before + (now or 1)
    return tuple(HostFilter(host, slots=slots) for host, slots in merged.items())


def parse_host_names(name: str, text: str) -> tuple[HostFilter, ...]:
    """Return the hosts of `a,b` or Slurm's `n[01-04,07],m1`, at most MOST_HOSTS."""
    hosts = [host.strip() for host in expand_host_list(text, MOST_HOSTS)]
    if not hosts or not all(re.fullmatch(r"[\w.:@-]+", host) for host in hosts):
        raise CommandRefused(f"{name} is {text!r}, and takes names of hosts", f"write {name} a,b")
    return tuple(HostFilter(host) for host in dict.fromkeys(hosts))


def parse_mapping(_: str, text: str) -> int | None:
    """Return the processes on each node of `ppr:4:node`; None for any other mapping of Open MPI."""
    found = re.match(r"(?:ppr:)?([1-9]\d{0,5}):node\b", text)
    return int(found[1]) if found is not None else None


def parse_endpoint(name: str, text: str) -> tuple[str, int | None]:
    """Return host and port of HOST[:PORT]; an IPv6 address with a port is in brackets."""
    match = re.fullmatch(r"\[([^\]]+)\](?::([0-9]{1,9}))?|([^:]*)(?::([0-9]{1,9}))?", text.strip())
    if match is None:
        raise CommandRefused(
            f"{name} is {text!r}, and takes HOST:PORT", f"leave {name} out: the first host is the main one"
        )
    host, number = match[1] or match[3] or "", match[2] or match[4]
    return host, parse_port(name, number) if number else None


def parse_precision(name: str, text: str) -> Precision:
    """Return one of accelerate's mixed precisions."""
    known: dict[str, Precision] = {"no": "no", "fp16": "fp16", "bf16": "bf16", "fp8": "fp8"}
    if text not in known:
        raise CommandRefused(f"{name} is {text!r}, and takes no, fp16, bf16 or fp8", f"write {name} bf16")
    return known[text]


def parse_fabric_precision(_: str, text: str) -> Precision | None:
    """Return Fabric's mixed precisions as accelerate's; None for true half and double precision.

    Source: Lightning's `_PRECISION_INPUT_STR` and `_PRECISION_INPUT_STR_ALIAS`.
    """
    known: dict[str, Precision] = {
        "16": "fp16",
        "16-mixed": "fp16",
        "bf16": "bf16",
        "bf16-mixed": "bf16",
        "32": "no",
        "32-true": "no",
        "transformer-engine": "fp8",
    }
    return known.get(text)


def parse_rendezvous_timeout(name: str, text: str) -> int | None:
    """Return the timeout in seconds that `k=v,k=v` of --rdzv_conf gives, None when it gives none."""
    pairs = dict(_pair(name, part) for part in text.split(",") if part.strip())
    value = pairs.get("timeout", pairs.get("join_timeout"))
    return None if value is None else parse_count(f"timeout of {name}", value)


def check_backend(name: str, text: str) -> None:
    """Refuse rendezvous that need a server of their own."""
    if text in ("static", "c10d", "c10d-experimental", ""):
        return
    if text.startswith("etcd"):
        raise CommandRefused(
            f"{name} {text} needs an etcd server, and the nodes of a gpulaunch run meet at the main host",
            f"leave {name} and --rdzv_endpoint out",
        )
    raise CommandRefused(
        f"{name} is {text!r}, and gpulaunch knows static and c10d only", f"leave {name} out: it is static"
    )


def check_accelerator(name: str, text: str) -> None:
    """Refuse Fabric's accelerators that gpulaunch does not launch on."""
    if text in ("mps", "tpu"):
        raise CommandRefused(
            f"{name} is {text}, and gpulaunch launches on NVIDIA GPUs and CPUs", f"write {name} cuda"
        )


def parse_variables(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield NAME, VALUE of `A=1,B`, without ALL and NONE; VALUE is None where the local one is meant."""
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if name.strip() and name.upper() not in ("ALL", "NONE", "NIL"):
            yield name.strip(), value if equals else None


READERS: dict[ValueKind, Callable[[str, str], object]] = {
    "nodes": parse_nodes,
    "per_node": parse_per_node,
    "gpus": parse_gpus,
    "node_filters": parse_node_filters,
    "host_slots": parse_host_slots,
    "host_names": parse_host_names,
    "mapping": parse_mapping,
    "precision": parse_precision,
    "fabric_precision": parse_fabric_precision,
}
"""Kinds whose value is one field of the request as it is."""


def _pair(name: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise CommandRefused(
            f"{name} has {text!r}, and takes KEY=VALUE with commas", f"write {name} timeout=900"
        )
    return key.strip(), value.strip()
