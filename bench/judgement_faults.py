"""Faults planted in scripts that have none: lint must report each at its line.

A plant is one change of the text that makes one known fault, where the text shows that it would be one.
"""

import ast
import re
from collections.abc import Iterator

from bench.judgement_plants import PlantedFault, Planter, calls, name_of, with_line
from bench.judgement_rank_faults import RANK_PLANTERS

_TRAINED = re.compile(r"AutoModelFor(?:CausalLM|SequenceClassification|Seq2SeqLM|TokenClassification)$")
_OTHER_DEVICES = re.compile(r"device_map|CUDA_VISIBLE_DEVICES|DataParallel\(")


def plant(text: str) -> Iterator[PlantedFault]:
    """Return the script with each fault that can be planted in it."""
    lines = text.split("\n")
    for planter in _PLANTERS:
        yield from planter(text, lines)


def _scaled_clip(text: str, lines: list[str]) -> Iterator[PlantedFault]:
    """Drop the unscale_ above a clip, where nothing may switch the scaler off."""
    if re.search(r"GradScaler\([^)]*enabled", text):
        return
    for index, line in enumerate(lines[:-1]):
        clips = re.search(r"clip_grad_(?:norm|value)_\(", lines[index + 1])
        if clips and re.match(r"\s*(?:grad_)?scaler\.unscale_\(\w+\)\s*(?:#.*)?$", line):
            yield PlantedFault(
                "clip without unscale_", with_line(lines, index, None), index + 1, frozenset({"P116"})
            )


def _plain_backward(text: str, lines: list[str]) -> Iterator[PlantedFault]:
    """Call the loss's own backward under accelerate."""
    off = r'"--mixed_precision"(?s:.){0,200}?default="(?:no|bf16)"|\bmixed_precision ?= ?"(?:no|bf16)"'
    if "deepspeed" in text.lower() or re.search(off, text):
        return
    for index, line in enumerate(lines):
        found = re.match(r"(\s*)accelerator\.backward\((\w+)\)\s*$", line)
        if found:
            changed = with_line(lines, index, f"{found[1]}{found[2]}.backward()")
            yield PlantedFault("loss.backward()", changed, index + 1, frozenset({"P124"}), "fp16")


def _fixed_gpu(_text: str, lines: list[str]) -> Iterator[PlantedFault]:
    """Put a literal where the local rank was."""
    spots = [
        (
            re.compile(r"torch\.cuda\.set_device\((?:args\.|self\.)?(?:ddp_)?local_rank\)"),
            "torch.cuda.set_device(0)",
        ),
        (re.compile(r"torch\.device\(['\"]cuda['\"], (?:args\.)?local_rank\)"), "torch.device('cuda', 0)"),
        (re.compile(r"f['\"]cuda:\{(?:ddp_|args\.)?local_rank\}['\"]"), "'cuda:0'"),
    ]
    for index, line in enumerate(lines):
        for pattern, literal in spots:
            if pattern.search(line) and not line.lstrip().startswith("#"):
                codes = frozenset({"D201", "D202", "D205"})
                yield PlantedFault(
                    "literal GPU", with_line(lines, index, pattern.sub(literal, line)), index + 1, codes
                )


def _visible(text: str, lines: list[str]) -> Iterator[PlantedFault]:
    """Set CUDA_VISIBLE_DEVICES at the head."""
    if "CUDA_VISIBLE_DEVICES" in text:
        return
    for index, line in enumerate(lines):
        if line == "import os":
            changed = with_line(lines, index, f'{line}; os.environ["CUDA_VISIBLE_DEVICES"] = "0"')
            yield PlantedFault("CUDA_VISIBLE_DEVICES", changed, index + 1, frozenset({"D203"}))
            return


def _both_precisions(text: str, lines: list[str]) -> Iterator[PlantedFault]:
    """Switch fp16 and bf16 on in a TrainingArguments call that names neither."""
    for call in calls(text):
        name = name_of(call)
        named = {word.arg for word in call.keywords}
        if name in ("TrainingArguments", "Seq2SeqTrainingArguments") and not named & {"fp16", "bf16", None}:
            changed = _with_keywords(lines, call, "fp16=True, bf16=True")
            if changed:
                yield PlantedFault("fp16 and bf16", changed, _last_line(call), frozenset({"P127"}))


def _device_map(text: str, lines: list[str]) -> Iterator[PlantedFault]:
    """Load the trained model with device_map="auto"."""
    if _OTHER_DEVICES.search(text) or not re.search(r"Trainer\(|accelerator\.prepare\(", text):
        return
    for call in _unconditional_calls(text):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if name_of(call) == "from_pretrained" and isinstance(owner, ast.Name) and _TRAINED.match(owner.id):
            changed = _with_keywords(lines, call, 'device_map="auto"')
            if changed:
                yield PlantedFault('device_map="auto"', changed, _last_line(call), frozenset({"D204"}))
                return


def _unconditional_calls(text: str) -> Iterator[ast.Call]:
    """Yield the calls outside of all branches."""
    try:
        waiting: list[ast.AST] = [ast.parse(text)]
    except SyntaxError:
        return
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call):
            yield node
        branch = isinstance(node, ast.If) and ast.unparse(node.test) != "__name__ == '__main__'"
        waiting += [] if branch else list(ast.iter_child_nodes(node))


def _last_argument(call: ast.Call) -> ast.expr | None:
    arguments: list[ast.expr] = [*call.args, *(word.value for word in call.keywords)]
    return max(arguments, key=lambda each: (each.end_lineno or 0, each.end_col_offset or 0), default=None)


def _last_line(call: ast.Call) -> int:
    """Return the line that keywords are added to."""
    last = _last_argument(call)
    return (last.end_lineno if last else None) or call.lineno


def _with_keywords(lines: list[str], call: ast.Call, keywords: str) -> str:
    """Return the text with keywords after the call's last argument, "" where one line does not do."""
    last = _last_argument(call)
    if last is None or last.end_lineno is None or last.end_col_offset is None:
        return ""
    line = lines[last.end_lineno - 1]
    if not line.isascii():
        return ""
    changed = f"{line[: last.end_col_offset]}, {keywords}{line[last.end_col_offset :]}"
    text = with_line(lines, last.end_lineno - 1, changed)
    return text if next(calls(text), None) is not None else ""


def _without_the_only(
    lines: list[str], removed: str, faulty: str, kind: str, code: str
) -> Iterator[PlantedFault]:
    """Drop a line that has no other of its kind; the fault is where the only `faulty` is then."""
    gone = [index for index, line in enumerate(lines) if re.search(removed, line)]
    spots = [index for index, line in enumerate(lines) if re.search(faulty, line)]
    if len(gone) != 1 or len(spots) != 1 or not re.fullmatch(rf"\s+{removed}\s*(?:#.*)?", lines[gone[0]]):
        return
    before, own, after = (
        lines[gone[0] - 1],
        lines[gone[0]],
        next(filter(str.strip, lines[gone[0] + 1 :]), ""),
    )
    indents = [len(line) - len(line.lstrip()) for line in (own, after)]
    if not before.rstrip().endswith(":") or indents[0] == indents[1]:  # else the block would be empty
        line = spots[0] + 1 - (gone[0] < spots[0])
        yield PlantedFault(kind, with_line(lines, gone[0], None), line, frozenset({code}))


def _same_order(text: str, lines: list[str]) -> Iterator[PlantedFault]:
    """Drop the set_epoch() of the one sampler that shuffles."""
    if re.search(r"shuffle ?= ?False|accelerat|lightning", text, re.IGNORECASE):
        return
    removed, faulty = r"[\w.]*sampler\.set_epoch\(\w+\)", r"DistributedSampler\(\w"
    yield from _without_the_only(lines, removed, faulty, "no set_epoch", "R403")


def _never_updated(text: str, lines: list[str]) -> Iterator[PlantedFault]:
    """Drop the update() of the one scaler, where nothing may switch it off."""
    if not re.search(r"GradScaler\([^)]*enabled|ShardedGradScaler", text):
        removed, faulty = r"(?:\w+\.)?scaler\.update\(\)", r"scaler\.step\(\w"
        yield from _without_the_only(lines, removed, faulty, "no scaler.update()", "P128")


_PLANTERS: tuple[Planter, ...] = (
    *(_scaled_clip, _plain_backward, _fixed_gpu, _visible, _both_precisions, _device_map),
    *(_same_order, _never_updated),
    *RANK_PLANTERS,
)
