"""Rules V301 and V302: keywords that the installed transformers or trl does not take."""

from collections.abc import Iterator

from preflight.script.interpreter.branch_conditions import MAYBE
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import FALSE, NONE, Class, Const, ExternalName
from preflight.script.library_names import root_and_last
from preflight.script.rules.registry import Level, RuleHit, rule

_ARGUMENTS = {
    "evaluation_strategy": "eval_strategy",
    "no_cuda": "use_cpu",
    "fp16_backend": "",
    "half_precision_backend": "",
    "group_by_length": "",
}
"""Removed from TrainingArguments in transformers 5, with what replaces each."""

_OF_CONFIG = frozenset(
    {"max_seq_length", "dataset_text_field", "packing", "dataset_kwargs", "dataset_num_proc"}
    | {"neftune_noise_alpha", "model_init_kwargs", "beta", "loss_type", "label_smoothing"}
    | {"max_length", "max_prompt_length", "max_target_length", "max_completion_length"}
)
"""Keywords of trl's trainers that their configurations alone have from trl 0.13 on."""
_QUANTIZED = ("load_in_8bit", "load_in_4bit")


def _since(known: bool | None) -> Level:  # noqa: FBT001 - a three-valued answer
    return Level.ERROR if known else Level.WARNING


@rule("V301", "trainer", "arguments", "load")
def removed_keyword(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A keyword that transformers 5 (trl 0.16) no longer takes.

    It is a TypeError before the first step: `tokenizer` of a Trainer (processing_class since 4.46),
    `evaluation_strategy`, `no_cuda`, `load_in_8bit` and others.
    Source: reproduced with transformers 5.23.
    """
    call = event.call
    if call is None:
        return
    new = it.target.at_least("transformers", 5)
    if event.name == "trainer" and "tokenizer" in call.kwargs:
        yield from _tokenizer(it, event)
    elif event.name == "arguments":
        for old, instead in _ARGUMENTS.items():
            if old in call.kwargs and not (new is False and old != "evaluation_strategy"):
                fix = f"{instead}=" if instead else f"remove {old}"
                level = Level.INFO if old in call.maybe else _since(new)
                yield RuleHit(call.at(old), f"{old} is gone in transformers 5", fix, level)
    elif event.name == "load" and new is not False and it.attr(event.ref, "library") != Const("unsloth"):
        for old in _QUANTIZED:
            if old in call.kwargs and call.kwargs[old] not in (FALSE, NONE):
                fix = f"quantization_config=BitsAndBytesConfig({old}=True)"
                level = _since(new and MAYBE not in it.contexts)
                yield RuleHit(call.at(old), f"{old} is gone in transformers 5", fix, level)


def _tokenizer(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    call = event.call
    root, last = root_and_last(event.what)
    if call is None or root not in ("transformers", "trl"):
        return
    if last == "PPOTrainer" and it.target.at_least("trl", 0, 12) is not True:
        # The PPOTrainer of before 0.12 has a tokenizer= of its own, and most scripts are written for that.
        if it.target.at_least("trl", 0, 12) is None:
            message = "PPOTrainer(tokenizer=) is a TypeError from trl 0.12 on"
            yield RuleHit(call.at("tokenizer"), message, "processing_class=", Level.INFO)
        return
    if root == "trl":
        gone, old = it.target.at_least("trl", 0, 16), it.target.at_least("trl", 0, 12) is False
    else:
        gone, old = it.target.at_least("transformers", 5), it.target.at_least("transformers", 4, 46) is False
    if not old:
        first = "trl 0.16" if root == "trl" else "transformers 5"
        message = f"{last}(tokenizer=) is deprecated, and a TypeError from {first} on"
        level = Level.INFO if "tokenizer" in call.maybe else _since(gone)
        if _may_take_it(it, event):
            level = Level.INFO
        moved = ", ".join(f"{word}=" for word in call.kwargs if root == "trl" and word in _OF_CONFIG)
        fix = f"processing_class=, and {moved} of {last.removesuffix('Trainer')}Config" if moved else ""
        yield RuleHit(call.at("tokenizer"), message, fix or "processing_class=", level)


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
    if it.target.at_least("transformers", 4, 56) is False:
        yield RuleHit(
            call.at("dtype"), "dtype= is unknown before transformers 4.56", "torch_dtype=", Level.ERROR
        )
