"""All script rules: a module that is not in this list judges nothing."""

from importlib import import_module

from preflight.script.rules.registry import RULES as RULES  # noqa: PLC0414 - from this module they are all of them

# fmt: off
_NAMES = (
    "autocast", "autocast_losses", "backward", "checkpoints", "clipped_gradients", "collectives",
    "data_loaders", "data_parallel", "divided_losses", "evaluation_mode", "exchange_arguments", "files",
    "flat_parameters", "gathered_losses", "gathered_metrics", "grad_scaler", "graph_flow", "group_devices",
    "group_order", "half_masks", "kept_graphs", "late_sync", "loader_options", "local_ranks",
    "model_wrappers", "models", "optimizer_targets", "own_stops", "placement", "precision",
    "random_splits", "rank_names", "rendezvous", "resumes", "runners", "scaler_use", "schedules",
    "signatures", "static_graphs", "step_order", "syntax", "tensor_devices", "trainer_arguments",
    "unguarded_starts", "unlike_orders", "unlike_states", "unused_layers", "unwaited_files", "versions",
    "whole_objects", "workers", "wrapper_attributes",
)
# fmt: on
MODULES = tuple(import_module(f"{__package__}.{name}") for name in _NAMES)


def list_rule_codes() -> tuple[str, ...]:
    """Return every rule's code, in order."""
    return tuple(sorted(RULES))


def rule_text(code: str) -> str:
    """Return a rule's title, reason and source."""
    return RULES[code].text


def explain_rule(code: str) -> str:
    """Return a rule's code, title, reason and source."""
    return (
        f"{code}: {rule_text(code).rstrip()}\n\n"
        "Fix: gpulaunch lint SCRIPT names it with each finding.\n"
        f"Silence it on one line with `# gpulaunch: ignore[{code}]`.\n"
    )
