"""What FSDP is to wrap, against the classes that the model can be made of."""

from collections.abc import Iterator

from preflight.checks.finding import Problem, Severity
from preflight.checks.registry import cluster_check
from preflight.decide.script_args import read_option_values
from preflight.facts.script import ScriptAnalysis
from preflight.job import Job

_OPTION = "--fsdp_transformer_layer_cls_to_wrap"


@cluster_check("SHARD006", Severity.WARNING)
def fsdp_wraps_classes_that_exist(job: Job, script: ScriptAnalysis | None) -> Iterator[Problem]:
    """The layer classes that FSDP is to wrap exist in the script or in a library.

    A name that no layer of the model has ends every rank when the model is prepared; a config that was
    written for another model names another class. Classes that a checkpoint brings as code of its own
    (trust_remote_code) are not seen, and so this is a warning.

    Fix: the name that the message offers; or leave the key out, and accelerate takes the model's own.
    Source: accelerate utils/dataclasses.py, set_auto_wrap_policy; `_no_split_modules` of transformers.
    """
    named = tuple(_named(job))
    if not named:
        return
    from preflight.checks.layer_class_names import LAYER_CLASSES  # noqa: PLC0415 - only where FSDP wraps by name

    own = () if script is None else script.classes
    for source, name in named:
        if name in LAYER_CLASSES or name in own:
            continue
        from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

        close = get_close_matches(name, (*own, *LAYER_CLASSES), n=1, cutoff=0.7)
        seen = "" if script is not None and script.reads_all else ", as far as it was read,"
        yield Problem(
            f"{source} names {name}, a class of neither the script{seen} nor transformers",
            f"did you mean {close[0]}?"
            if close
            else "leave the key out, and accelerate takes the model's own",
            name,
        )


def _named(job: Job) -> Iterator[tuple[str, str]]:
    """Yield the classes to wrap, each with what names it."""
    config = job.accelerate_config or {}
    section = config.get("fsdp_config")
    key = "fsdp_transformer_layer_cls_to_wrap"
    if config.get("distributed_type") == "FSDP" and isinstance(section, dict):
        policy = str(section.get("fsdp_auto_wrap_policy") or "TRANSFORMER_BASED_WRAP").upper()
        if policy == "TRANSFORMER_BASED_WRAP":
            yield from ((key, name) for name in _split(section.get(key)))
    for option, given in read_option_values(job.args):
        if option == _OPTION:
            yield from ((_OPTION, name) for name in _split(given))


def _split(value: object) -> list[str]:
    """Return the names of a list, or of a text with commas."""
    names = value if isinstance(value, list | tuple) else str(value or "").split(",")
    return [name for each in names if (name := str(each).strip())]
