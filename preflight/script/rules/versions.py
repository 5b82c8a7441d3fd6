"""Rules V301, V302 and V304: keywords and names that the installed libraries do not have."""

import ast
from collections.abc import Iterator

from preflight.script.interpreter.branch_conditions import MAYBE
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.library_names import GONE, root_and_last
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import unparse
from preflight.script.values import Class, Const, ExternalName
from preflight.script.values.constants import FALSE, NONE

_ARGUMENTS = {
    "evaluation_strategy": "eval_strategy",
    "no_cuda": "use_cpu",
    "fp16_backend": "",
    "half_precision_backend": "",
    "group_by_length": "",
}
"""Removed from TrainingArguments in transformers 5, with what replaces each."""
_PLAIN_BEFORE = {
    "overwrite_output_dir": "",
    "warmup_ratio": "warmup_steps",
    "logging_dir": "",
    "save_safetensors": "",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "per_gpu_eval_batch_size": "per_device_eval_batch_size",
    "adafactor": "optim",
    **dict.fromkeys(("include_inputs_for_metrics", "include_tokens_per_second", "dispatch_batches"), ""),
    **dict.fromkeys(("split_batches", "fp16_opt_level", "torchdynamo", "sharded_ddp", "past_index"), ""),
    **dict.fromkeys(("use_mps_device", "use_ipex", "jit_mode_eval", "ray_scope", "tpu_num_cores"), ""),
    **dict.fromkeys(("push_to_hub_model_id", "push_to_hub_organization", "push_to_hub_token"), ""),
}
"""Removed as well; most scripts are of before, which all of its versions run without a word."""
_SINCE = {"evaluation_strategy": (4, 51), "group_by_length": (5, 2)} | dict.fromkeys(
    ("warmup_ratio", "logging_dir"), (5, 15)
)
"""What transformers removed in another version than 5."""

_OF_ACCELERATOR = {
    **dict.fromkeys(("dispatch_batches", "even_batches", "use_seedable_sampler"), "dataloader_config"),
    "logging_dir": "project_dir",
    "fp16": "mixed_precision",
}
"""Removed from Accelerator before accelerate 1.0, with what replaces each."""

_OF_CONFIG = frozenset(
    {"max_seq_length", "dataset_text_field", "packing", "dataset_kwargs", "dataset_num_proc"}
    | {"neftune_noise_alpha", "model_init_kwargs", "beta", "loss_type", "label_smoothing"}
    | {"max_length", "max_prompt_length", "max_target_length", "max_completion_length"}
)
"""Keywords of trl's trainers that their configurations alone have from trl 0.13 on."""
_TRAINERS = frozenset({"SFTTrainer", "DPOTrainer", "ORPOTrainer", "KTOTrainer", "CPOTrainer", "GRPOTrainer"})
_QUANTIZED = ("load_in_8bit", "load_in_4bit")


def _since(known: bool | None) -> Level:  # noqa: FBT001 - a three-valued answer
    return Level.ERROR if known else Level.WARNING


@rule("V301", "trainer", "arguments", "load", "accelerator")
def removed_keyword(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A keyword that later versions of transformers, accelerate or trl refuse.

    It is a TypeError before the first step: `tokenizer` of a Trainer (processing_class since 4.46),
    `evaluation_strategy`, `no_cuda`, `load_in_8bit` and others. The message names the version.
    Source: reproduced with transformers 5.23.
    """
    call = event.call
    if call is None:
        return
    new = it.target.is_at_least("transformers", 5)
    if event.name == "trainer" and "tokenizer" in call.kwargs:
        yield from _tokenizer(it, event)
    elif event.name == "trainer":
        yield from _of_configuration(it, event)
    elif event.name == "accelerator":
        for old in _OF_ACCELERATOR.keys() & call.kwargs if it.target.is_at_least("accelerate", 1) else ():
            message = f"Accelerator({old}=) is gone in accelerate 1"
            yield RuleHit(call.get_place(old), message, f"{_OF_ACCELERATOR[old]}=", Level.ERROR)
    elif event.name == "arguments":
        own = _own_fields(it, event)
        for old, instead in {**_ARGUMENTS, **(_PLAIN_BEFORE if new else {})}.items():
            since = _SINCE.get(old, (5,))
            gone = it.target.is_at_least("transformers", *since)
            if old in call.kwargs and old not in own and gone is not False:
                fix = f"{instead}=" if instead else f"remove {old}"
                level = Level.INFO if old in call.maybe else _since(gone)
                message = f"{old} is gone in transformers {'.'.join(map(str, since))}"
                yield RuleHit(call.get_place(old), message, fix, level)
        renamed = it.target.is_at_least("trl", 0, 20)
        if "max_seq_length" in call.kwargs and _is_of_trl(it, event) and renamed is not False:
            message = "max_seq_length is gone in trl 0.20"
            yield RuleHit(call.get_place("max_seq_length"), message, "max_length=", _since(renamed))
    elif event.name == "load" and new is not False and it.attr(event.ref, "library") != Const("unsloth"):
        for old in _QUANTIZED:
            if old in call.kwargs and call.kwargs[old] not in (FALSE, NONE):
                fix = f"quantization_config=BitsAndBytesConfig({old}=True)"
                level = _since(new and MAYBE not in it.contexts)
                yield RuleHit(call.get_place(old), f"{old} is gone in transformers 5", fix, level)


def _own_fields(it: Interpreter, event: ScriptEvent) -> set[str]:
    """Return the fields that a class of the script adds to those of the library's."""
    cls = it.attr(event.ref, "__class__")
    nodes = [info.node for info in it.mro(cls.key)] if isinstance(cls, Class) else []
    fields = (item.target for node in nodes for item in node.body if isinstance(item, ast.AnnAssign))
    return {field.id for field in fields if isinstance(field, ast.Name)}


def _is_of_trl(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether it is trl's own: unsloth puts classes in their place that still take what trl has dropped."""
    return root_and_last(event.what)[0] == "trl" and "unsloth" not in it.source.text


_FIELDS = {"max_seq_length": "max_length"}  # what a configuration calls it


def _of_configuration(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield what a trainer of trl is given that its configuration takes."""
    call, last = event.call, root_and_last(event.what)[1]
    moved = it.target.is_at_least("trl", 0, 13)
    plain = last in _TRAINERS and _is_of_trl(it, event) and not _may_take_it(it, event)
    for old in call.kwargs if call and plain and moved is not False else ():
        if old in _OF_CONFIG and call:
            message = f"{last}({old}=) is a TypeError from trl 0.13 on"
            fix = f"{_FIELDS.get(old, old)}= of {last.removesuffix('Trainer')}Config"
            yield RuleHit(
                call.get_place(old), message, fix, Level.INFO if old in call.maybe else _since(moved)
            )


def _tokenizer(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    call = event.call
    root, last = root_and_last(event.what)
    if call is None or root not in ("transformers", "trl") or (root == "trl" and not _is_of_trl(it, event)):
        return
    if last == "PPOTrainer" and it.target.is_at_least("trl", 0, 12) is not True:
        # The PPOTrainer of before 0.12 has a tokenizer= of its own, and most scripts are written for that.
        if it.target.is_at_least("trl", 0, 12) is None:
            message = "PPOTrainer(tokenizer=) is a TypeError from trl 0.12 on"
            yield RuleHit(call.get_place("tokenizer"), message, "processing_class=", Level.INFO)
        return
    if root == "trl":
        gone, old = it.target.is_at_least("trl", 0, 16), it.target.is_at_least("trl", 0, 12) is False
    else:
        gone, old = (
            it.target.is_at_least("transformers", 5),
            it.target.is_at_least("transformers", 4, 46) is False,
        )
    if not old:
        first = "trl 0.16" if root == "trl" else "transformers 5"
        message = f"{last}(tokenizer=) is deprecated, and a TypeError from {first} on"
        level = Level.INFO if "tokenizer" in call.maybe else _since(gone)
        if _may_take_it(it, event):
            level = Level.INFO
        moved = ", ".join(
            f"{_FIELDS.get(word, word)}=" for word in call.kwargs if root == "trl" and word in _OF_CONFIG
        )
        fix = f"processing_class=, and {moved} of {last.removesuffix('Trainer')}Config" if moved else ""
        yield RuleHit(call.get_place("tokenizer"), message, fix or "processing_class=", level)


def _may_take_it(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether a class that cannot be read precedes the library's: it may take a tokenizer= itself."""
    cls = it.attr(event.ref, "__class__")
    if not isinstance(cls, Class):
        return False
    bases = [base for info in it.mro(cls.key) for base in info.bases if not isinstance(base, Class)]
    first = bases[0] if bases else NONE
    return not isinstance(first, ExternalName) or not it.library.class_kind(first.name)


@rule("V302", "load")
def keyword_too_new(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """`dtype=` in from_pretrained, with a transformers that only knows torch_dtype.

    Before 4.56 it is passed on to the model's constructor, which refuses it.
    Source: transformers' release notes for 4.56.
    """
    thing, call = it.thing(event.ref), event.call
    if thing is None or call is None or event.what != "dtype":
        return
    if it.target.is_at_least("transformers", 4, 56) is False:
        yield RuleHit(
            call.get_place("dtype"), "dtype= is unknown before transformers 4.56", "torch_dtype=", Level.ERROR
        )


@rule("V304", "import")
def removed_name(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A name is imported that the library no longer has.

    It is an ImportError at once: `AdamW` and others of earlier transformers, and names that peft and torch
    have renamed. An import that the script catches is none.
    Source: reproduced with transformers 5.24, peft 0.21 and torch 2.13.
    """
    package, version, instead = GONE[event.what]
    gone = it.target.is_at_least(package, *version)
    caught = any(
        node.body[0].lineno <= event.place.line <= (node.body[-1].end_lineno or 0)
        for node in it.sources.parser.nodes(it.source.tree)
        if (isinstance(node, ast.Try) and node.handlers)
        or (isinstance(node, ast.With) and "suppress" in unparse(node.items[0]))
    )
    if gone is False or caught or it.tests or MAYBE in it.contexts:
        return
    number = ".".join(map(str, version))
    yield RuleHit(event.place, f"{event.what} is gone in {package} {number}", instead, _since(gone))
