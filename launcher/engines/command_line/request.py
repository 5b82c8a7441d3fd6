"""What the options of a line ask for, together: fields of Request, and contradictions between them. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from launcher.engines.command_line import values
from launcher.engines.command_line.option_reader import FoundOption
from launcher.engines.command_line.parsed_command import OptionUse, Request
from launcher.errors import CommandRefused

_LOOPBACK = ("", "localhost", "127.0.0.1", "::1", "0.0.0.0")  # noqa: S104 - what lines say, nothing is bound
_NO_GPU = ("", "-1", "NoDevFiles")  # values of CUDA_VISIBLE_DEVICES that hide every GPU
LAST_COUNTS = ("torchrun", "torch.distributed.launch", "accelerate", "deepspeed", "composer")
"""Launchers that take the last of an option that comes again (argparse)."""

_COUNTS = ("nodes", "per_node", "total")


def request_of(found: Iterable[FoundOption]) -> Request:
    """Return what these options ask for. An option whose value is not known yet asks for nothing.

    Raises CommandRefused for values that cannot be read, and for one asked twice with two answers.
    """
    fields: dict[str, Any] = {}
    uses: dict[str, OptionUse] = {}
    for one in found:
        is_known = all(word.is_known for word in one.words) and not _is_blank(one)
        for name, value in (_fields(one) if is_known else _port_alone(one)).items():
            if value is None:
                continue
            before = uses.get(name)
            if before is not None and _gives_way(one.use, before):
                continue
            if before is not None and fields[name] != value and not _replaces(one.use, before):
                raise CommandRefused(
                    f"the line asks for two things: {before.text} and {one.use.text}", "leave one of them out"
                )
            fields[name], uses[name] = value, one.use
    return Request(**fields)


def _replaces(one: OptionUse, before: OptionUse) -> bool:
    """Whether an option counts in place of an earlier one that asks for something else."""
    is_repeated = (before.name, before.owner) == (one.name, one.owner) and one.owner in LAST_COUNTS
    return is_repeated or _gives_way(before, one) or "environment" in (one.owner, before.owner)


def _gives_way(one: OptionUse, other: OptionUse) -> bool:
    """Whether torchrun ignores an option beside another: --master_port beside --rdzv_endpoint."""
    is_static = one.name in ("--master_port", "--master_addr")
    return is_static and one.owner == other.owner and other.name == "--rdzv_endpoint"


def _is_blank(one: FoundOption) -> bool:
    """Whether a count is one that a page leaves to its reader: `--nproc_per_node=N`, `-np NUM_GPUS`."""
    is_count = one.option.fate == "owned" and one.option.kind in ("int", "per_node", "nodes")
    return is_count and all(re.fullmatch(r"[A-Z][A-Z0-9_]{0,40}", word.text) for word in one.words)


def _port_alone(one: FoundOption) -> Mapping[str, Any]:
    """Return the port of `$HOST:29400`, whose host has no value."""
    host, colon, number = one.use.value.rpartition(":")
    if one.option.kind != "endpoint" or not colon or not host or not values.is_number(number):
        return {}
    return {"main_port": values.parse_port(one.use.spelling, number) or None}


def _fields(one: FoundOption) -> Mapping[str, Any]:
    option, name, text = one.option, one.use.spelling, one.use.value
    if option.kind == "endpoint":
        host, number = values.parse_endpoint(name, text)
        return {"main_address": None if host in _LOOPBACK else host, "main_port": number or None}
    if option.sets == "main_address" and text in _LOOPBACK:
        return {}
    if option.name == "CUDA_VISIBLE_DEVICES" and text.strip() in _NO_GPU:
        return {"on_cpu": True}
    if option.kind == "backend":
        values.check_backend(name, text)
        return {}
    if option.kind == "rendezvous_conf":
        return {"rendezvous_timeout": values.parse_rendezvous_timeout(name, text)}
    if option.kind == "accelerator":
        values.check_accelerator(name, text)
        return {"on_cpu": True} if text == "cpu" else {}
    if option.kind == "devices":
        return _devices(name, text)
    if option.kind in ("int", "float") and one.words:
        return _number(one)
    if not option.sets:
        return {}
    if option.values == 0:
        return {option.sets: True}
    reader = values.READERS.get(option.kind)
    return {option.sets: reader(name, text) if reader is not None else text or None}


def _number(one: FoundOption) -> Mapping[str, Any]:
    option, name, text = one.option, one.use.spelling, one.use.value
    if option.kind == "float":
        try:
            float(text)
        except ValueError:
            raise CommandRefused(f"{name} is {text!r}, and takes a number", f"leave {name} out") from None
        return {}
    if option.sets == "main_port":
        return {"main_port": values.parse_port(name, text) or None}
    if option.sets in _COUNTS:  # -1 of DeepSpeed and Fabric: all
        return {option.sets: None if text.strip() == "-1" else values.parse_count(name, text)}
    if option.sets == "node_rank" and text.strip() == "-1":  # DeepSpeed's default
        return {}
    is_signed = values.is_number(text.strip().removeprefix("-"))
    number = int(text) if is_signed and not option.sets else values.parse_whole(name, text)
    return {option.sets: number} if option.sets else {}


def _devices(name: str, text: str) -> Mapping[str, Any]:
    """Fabric: "4" is a count, "0,1" and "1," are indices, "-1" and "auto" are all."""
    if text in ("auto", "-1"):
        return {"per_node": "auto"}
    if "," in text:
        return {"gpus": values.parse_gpus(name, text.strip().removeprefix("[").removesuffix("]").rstrip(","))}
    return {"per_node": values.parse_count(name, text)}


def check_counts(request: Request) -> Request:
    """Return the request with counts that follow from others; raise CommandRefused where they contradict."""
    nodes, per_node, total = request.nodes, request.per_node, request.total
    if isinstance(per_node, int) and nodes and total and nodes * per_node != total:
        raise CommandRefused(
            f"the counts contradict each other: {nodes} nodes with {per_node} processes each are "
            f"{nodes * per_node}, and the line asks for {total} in all",
            "leave one of the three out",
        )
    if nodes and total and total % nodes:
        multiples = dict.fromkeys(str(nodes * max(1, total // nodes + more)) for more in (0, 1))
        raise CommandRefused(
            f"the counts contradict each other: {total} processes cannot be shared equally by {nodes} nodes",
            f"write {' or '.join(multiples)}, or leave both out",
        )
    if nodes is not None and request.node_rank is not None and request.node_rank >= nodes:
        raise CommandRefused(
            f"the line is for node {request.node_rank} of {nodes}, and nodes are counted from 0",
            "leave the rank of the node out: gpulaunch starts all nodes",
        )
    chosen = None if request.gpus is None else len(request.gpus)
    if chosen is not None and isinstance(per_node, int) and per_node > chosen:
        raise CommandRefused(
            f"the line asks for {per_node} processes per node on {chosen} GPU{'s' * (chosen != 1)} "
            f"({', '.join(str(gpu) for gpu in request.gpus or ())}), and two ranks on one GPU cannot train",
            "name as many GPUs as processes, or leave the count out",
        )
    if isinstance(per_node, int) and total and not nodes and total % per_node == 0:
        return replace(request, nodes=total // per_node)
    return request


def widen_localhost(request: Request) -> Request:
    """Return what a line that names only `localhost` asks for: it was typed for one machine, as each host is.

    `--include localhost:0,1` are GPUs, `mpirun -np 4 -H localhost` is a count of processes.
    """
    named = (*request.include, *request.hosts)
    if not named or request.hostfile or any(one.host not in _LOOPBACK for one in named):
        return request
    gpus = next((one.gpus for one in request.include if one.gpus), None)
    slots = next((one.slots for one in request.hosts if one.slots), None)
    per_node = request.per_node or (request.total if request.hosts else None) or slots
    return replace(
        request,
        include=(),
        hosts=(),
        gpus=gpus or request.gpus,
        per_node=per_node,
        total=None if request.hosts else request.total,
    )


def check_hosts(request: Request, hosts: Iterable[str]) -> None:
    """Raise CommandRefused where the line names a host that the launch does not have.

    `hosts` are the names of the launch, in its order; an empty one checks nothing.
    """
    known = tuple(hosts)
    if not known:
        return
    for option, filters in (
        ("include", request.include),
        ("exclude", request.exclude),
        ("host list", request.hosts),
    ):
        for one in filters:
            if one.host not in known:
                raise CommandRefused(
                    f"the line's {option} names {one.host}, which is not in --hosts ({', '.join(known)})",
                    f"add {one.host} to --hosts, or take it out of the line",
                )
