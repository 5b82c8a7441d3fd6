"""A plan as people and programs read it. What is shown is the very object that runs."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from launcher.config.node_sets import fold_hosts
from launcher.engines.base import RUN_DIR
from launcher.host_checks.merged_findings import merge_findings
from launcher.host_checks.render_json import encode_merged_finding
from launcher.planning.plan import Change, NodePlan, Plan
from launcher.text import count_noun, group_alike, sanitize
from preflight import regex as re
from preflight.decide.decision import DecisionReason
from preflight.facts.json_codec import encode
from preflight.facts.redaction import redact_env, redact_file, redact_text, redact_value, redact_words

PLAN_SCHEMA = "gpulaunch.plan/1"

_RUN_DIR_VARIABLE = "$RUN_DIR"
_MOST_NODES = 16  # nodes of a plan that are printed each for itself
_PLAIN_WORD = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def render_plan(plan: Plan, *, show_secrets: bool = False, verbose: bool = False) -> str:
    """Return the plan for people: what was changed and why, then each host's ranks and command.

    `verbose`: with the environment of each command; who wants to see secrets wants to see it, too. Of many
    nodes that differ in their numbers and GPUs' UUIDs alone, the first is printed.
    """
    groups = _alike_nodes(plan.nodes)
    shown = replace(plan, nodes=tuple(group[0] for group in groups))
    shown = shown if show_secrets else redact_plan(shown)
    lines = _lines(shown, groups, plan.world_size, verbose=verbose or show_secrets)
    return "\n".join(sanitize(line, keep_lines=False) for line in lines) + "\n"


def encode_plan(plan: Plan, *, show_secrets: bool = False) -> dict[str, Any]:
    """Return the plan as plain JSON types, schema gpulaunch.plan/1. Secrets are hidden, unless asked for."""
    plan = plan if show_secrets else redact_plan(plan)
    data: dict[str, Any] = {
        "schema": PLAN_SCHEMA,
        "run_id": plan.run_id,
        "job": plan.job_name,
        "world_size": plan.world_size,
        "engine": plan.engine,
        "main_address": plan.main_address,
        "main_port": plan.main_port,
        "mixed_precision": plan.precision.mixed_precision,
        "hang_timeout_s": plan.hang_timeout_s,
        "changes": encode(plan.changes),
        "reasons": encode(plan.reasons),
        "nodes": [_encode_node(node) for node in plan.nodes],
        "findings": [encode_merged_finding(each) for each in merge_findings(plan.findings)],
    }
    return data


def redact_plan(plan: Plan) -> Plan:
    """Return the plan as it may be shown and kept: without secrets, by their names and by their look."""
    return replace(
        plan,
        nodes=tuple(
            replace(
                node,
                argv=redact_words(node.argv),
                env=redact_env(node.env),
                files=tuple((name, redact_file(name, text)) for name, text in node.files),
                notes=tuple(redact_text(note) for note in node.notes),
            )
            for node in plan.nodes
        ),
        changes=tuple(map(redact_change, plan.changes)),
        reasons=tuple(replace(each, text=redact_text(each.text)) for each in plan.reasons),
    )


def redact_change(change: Change) -> Change:
    """Return a change without secrets."""
    old, new = (redact_value(change.field, value) for value in (change.old, change.new))
    return Change(change.field, old, new, redact_text(change.why))


def change_text(change: Change) -> str:
    """Return a change as `what old -> new: why`."""
    old, new = change.old or "(none)", change.new or "(dropped)"
    return f"{change.field} {old} -> {new}: {change.why}"


def format_command(node: NodePlan) -> str:
    """Return the node's command for a shell; `$RUN_DIR` is its run directory on the host."""
    env = [f"{name}={_quote(value)}" for name, value in sorted(node.env.items())]
    return " ".join([*env, _command(node)])


def _command(node: NodePlan) -> str:
    return " ".join(_quote(word) for word in node.argv)


def _lines(
    plan: Plan, groups: list[tuple[NodePlan, ...]], world_size: int, *, verbose: bool
) -> Iterator[str]:
    """Yield the lines of a plan whose nodes are the first of each group."""
    ranks, hosts = count_noun(world_size, "rank"), count_noun(sum(map(len, groups)), "host")
    name = f"{plan.job_name}: " if plan.job_name else ""
    yield f"{name}{ranks} on {hosts}, mixed precision {plan.precision.mixed_precision}"
    if plan.opens_port:
        yield f"main address {plan.main_address}, main port {plan.main_port}, run {plan.run_id}"
    if plan.changes:
        yield ""
        yield "Changed:"
        yield from (f"  {change_text(change)}" for change in plan.changes)
    yield ""
    yield "Because:"
    names = {node.host for group in groups for node in group}
    yield from (f"  {text} [{source}]" for text, source in _merged_reasons(plan.reasons, names))
    for node, group in zip(plan.nodes, groups, strict=True):
        yield ""
        yield from _node_lines(node, verbose=verbose)
        if len(group) > 1:
            others = fold_hosts(each.host for each in group[1:])
            more = count_noun(len(group) - 1, "more host")
            yield f"  and so on {more}, each with its own ranks and GPUs: {others}"


def _alike_nodes(nodes: Sequence[NodePlan]) -> list[tuple[NodePlan, ...]]:
    """Group the nodes that read alike but for their numbers; few nodes are groups of their own."""
    if len(nodes) <= _MOST_NODES:
        return [(node,) for node in nodes]

    def kind(node: NodePlan) -> object:
        number = str(node.node_rank)
        argv = tuple("" if word == number else word.removesuffix(f"={number}") for word in node.argv)
        slots = tuple((slot.gpu_index, slot.gpu_name) for slot in node.ranks.slots)
        gpus = ",".join(node.gpus)
        env = tuple(sorted((name, "" if value == gpus else value) for name, value in node.env.items()))
        return (argv, slots, env, node.cwd, node.unset, node.ranks.single_gpu_visible)  # the notes follow

    return list(group_alike((kind(node), node) for node in nodes).values())


def _merged_reasons(reasons: Sequence[DecisionReason], names: set[str]) -> Iterator[tuple[str, str]]:
    """Yield text and source of reasons; one that several hosts have alike is one for all of them."""
    merged: dict[tuple[str, str], list[str]] = {}
    for reason in reasons:
        host, space, rest = reason.text.partition(" ")
        own = space and host in names
        key = (rest, reason.source) if own else (reason.text, reason.source)
        merged.setdefault(key, []).extend([host] if own else [])
    for (words, source), hosts in merged.items():
        text = re.sub("^has ", "have ", words) if len(hosts) > 1 else words
        yield (f"{fold_hosts(hosts)} {text}" if hosts else text), source


def _node_lines(node: NodePlan, *, verbose: bool) -> Iterator[str]:
    where = f", in {node.cwd}" if node.cwd else ""
    yield f"{node.host}: node {node.node_rank}{where}"
    for slot in node.ranks.slots:
        rank = f"rank {node.first_rank + slot.local_rank} (local {slot.local_rank})"
        if slot.gpu_uuid is None:
            yield f"  {rank}: CPU"
        else:
            yield f"  {rank}: GPU {slot.gpu_index} {slot.gpu_name} {slot.gpu_uuid}"
    if node.ranks.single_gpu_visible:
        yield "  each rank sees its own GPU only"
    yield f"  $ {format_command(node) if verbose else _command(node)}"
    yield from (f"  {note}" for note in node.notes)
    if verbose:
        yield f"  removed from the environment: {' '.join(node.unset)}"
    else:
        names = count_noun(len(node.env), "variable")
        yield f"  environment: {names} set, {len(node.unset)} removed (-v shows them)"


def _encode_node(node: NodePlan) -> dict[str, Any]:
    data: dict[str, Any] = encode(node)
    data["env"] = dict(sorted(node.env.items()))
    data["files"] = dict(node.files)
    data["command"] = format_command(node)
    return data


def _quote(word: str) -> str:
    """Quote for a shell, but leave `$RUN_DIR` where the host fills in its run directory."""
    if RUN_DIR in word and _PLAIN_WORD.fullmatch(word.replace(RUN_DIR, "")):
        return f'"{word.replace(RUN_DIR, _RUN_DIR_VARIABLE)}"'
    return shlex.quote(word)
