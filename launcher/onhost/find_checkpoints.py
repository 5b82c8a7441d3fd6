"""Streamed program: find a script's checkpoints on the host, and the complete ones among them.

Stdlib, >= 3.9.

stdin: one line of JSON, {"base": DIR, "patterns": [GLOB, ...], "age_s": S, "run_dir": DIR}. Only paths that
were written within the last S seconds count, or since the start that has this run directory: older files in
the same place belong to an earlier run.

Answers (answer.py) with {"found": [{"path", "full", "step", "whole", "why"}, ...]}, the last one first,
`path` relative to DIR. Complete means: no temporary name, no file shorter than its own header says, and the
files that transformers, accelerate and torch.distributed.checkpoint write last are present. In other layouts,
each checkpoint must have the files of the one before it.
"""

import fnmatch
import glob
import json
import os
import re
import sys
import time
from typing import Any, Dict, Iterator, List, Sequence

from .answer import print_answer

ENOUGH = 5  # complete ones that are reported
MAX_CHECKPOINTS = 200  # checked at most
MAX_FILES = 20000
MAX_HEADER = 100 << 20
MAX_JSON = 64 << 20
ZIPPED = (".pt", ".pth", ".ckpt", ".bin", ".pkl")
ZIP_END = b"PK\x05\x06"
PICKLE_STOP = b"."
TEMPORARY = re.compile(r"(?:^|[._~-])(?:tmp|temp|partial|incomplete)(?:[._~-]|\d|$)|~$|^\.", re.IGNORECASE)
TRAINER_LAST = "trainer_state.json"
TRAINER = (TRAINER_LAST, "training_args.bin")
ACCELERATE_LAST = "random_states_*.pkl"
RANDOM = ("rng_state*.pth", ACCELERATE_LAST)  # all that a node without rank 0 keeps on its own disk
ACCELERATE = ("scheduler*.bin", "sampler*.bin")  # beside optimizer*.bin
# Lightning writes `epoch=2-val_loss=0.31.ckpt`, and adds a version to a name that is in use.
COUNTER = re.compile(r"(?<![a-z])(?:global_?)?(step|iter|epoch)[a-z]*[=_-]?(\d+)", re.IGNORECASE)
VERSION = re.compile(r"-v\d+(?=\.\w+$|$)")
FRACTION = re.compile(r"\d+\.\d+")
WEIGHTS = ("*.safetensors", "pytorch_model*", "adapter_model*", "model*.bin", "global_step*", "*.distcp")


def main() -> int:
    """Answer the line on stdin."""
    request = json.loads(sys.stdin.readline())
    base = os.path.abspath(os.path.expanduser(request["base"]))
    since = min(time.time() - float(request["age_s"]), start_of(request.get("run_dir") or ""))
    found = list(list_checkpoints(base, request["patterns"], since))
    print_answer({"found": found})
    return 0


def start_of(run_dir: str) -> float:
    """Return when a start began by this host's clock, whatever the way to the host takes; inf: unknown."""
    try:
        with open(os.path.join(run_dir, "state.json")) as file:
            return float(json.load(file)["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return float("inf")


def list_checkpoints(base: str, patterns: List[str], since: float) -> Iterator[Dict[str, Any]]:
    """Yield checkpoints, the last one first, until enough of them are complete."""
    paths = {path for pattern in patterns for path in glob.glob(os.path.join(glob.escape(base), pattern))}
    dated = sorted(((step_of(path), read_change_time(path), path) for path in paths), reverse=True)
    recent = [(step, path) for step, at, path in dated if at >= since][:MAX_CHECKPOINTS]
    whole = 0
    for place, (step, path) in enumerate(recent):
        before = recent[place + 1][1] if place + 1 < len(recent) else ""
        try:
            why = find_defect(path) or find_missing_files(path, before)
        except OSError as error:
            why = "cannot be read: %s" % error.strerror
        name = os.path.relpath(path, base)
        yield {"path": name, "full": path, "step": step, "whole": not why, "why": why}
        whole += not why
        if whole == ENOUGH:
            return


def step_of(path: str) -> int:
    """Return the step, iteration or epoch that a name counts, else its last number; -1: it has none."""
    name = VERSION.sub("", os.path.basename(path))
    named = {counter.lower(): number for counter, number in COUNTER.findall(name)}
    numbers = [named[counter] for counter in ("epoch", "iter", "step") if counter in named]
    numbers = numbers or re.findall(r"\d+", FRACTION.sub("", name)) or re.findall(r"\d+", name)
    return int(numbers[-1][:18]) if numbers else -1


def list_files(path: str) -> List[str]:
    """Return the files of a checkpoint relative to it; [""] if the checkpoint is itself a file."""
    if not os.path.isdir(path):
        return [""]
    found: List[str] = []
    for folder, _, names in os.walk(path):
        found += [os.path.relpath(os.path.join(folder, name), path) for name in names]
        if len(found) > MAX_FILES:
            break
    return sorted(found)


def read_change_time(path: str) -> float:
    """Return the time of the last write to a checkpoint, 0 when it is gone."""
    try:
        files = (os.path.join(path, name) for name in list_files(path) if name)
        return max(os.stat(each).st_mtime for each in (path, *files))
    except OSError:
        return 0.0


def find_defect(path: str) -> str:
    """Return the reason why a checkpoint is incomplete, "" when no defect is found."""
    if TEMPORARY.search(os.path.basename(path)):
        return "has a temporary name"
    names = list_files(path)
    if not names:
        return "is empty"
    for name in names:
        if name and TEMPORARY.search(os.path.basename(name)) and not os.path.basename(name).startswith("."):
            return "holds the temporary file %s" % name
        why = is_truncated(os.path.join(path, name) if name else path)
        if why:
            return "%s %s" % (name, why) if name else why
    return find_missing_parts(names) if names != [""] else ""


def detect_layout(names: List[str]) -> str:
    """Return the library that wrote a checkpoint, "" when its file names do not show it."""
    if has_file(names, TRAINER):
        return "trainer"
    by_accelerate = has_file(names, [ACCELERATE_LAST]) or (
        has_file(names, ["optimizer*.bin"]) and has_file(names, ACCELERATE)
    )
    return "accelerate" if by_accelerate else ""


def find_missing_parts(names: List[str]) -> str:
    """Return the missing part that Trainer or accelerate would have written, "" if there is none."""
    made_by = detect_layout(names)
    if (made_by and not has_file(names, WEIGHTS)) or all(has_file([name], RANDOM) for name in names):
        return "holds no weights"
    if made_by == "trainer" and not has_file(names, [TRAINER_LAST]):
        return "has no %s, which Trainer writes last" % TRAINER_LAST
    if made_by == "accelerate" and not has_file(names, [ACCELERATE_LAST]):
        return "has no %s, which accelerate writes last" % ACCELERATE_LAST
    sharded = {os.path.dirname(name) for name in names if name.endswith(".distcp")}
    listed = {os.path.dirname(name) for name in names if name.endswith(".metadata")}
    if sharded - listed:
        return "has no .metadata, which torch.distributed.checkpoint writes last"
    return ""


def has_file(names: List[str], patterns: Sequence[str]) -> bool:
    """Return whether a file, or its top folder, matches one of these patterns."""
    return any(fnmatch.fnmatch(name.split(os.sep)[0], pattern) for name in names for pattern in patterns)


def find_missing_files(path: str, before: str) -> str:
    """Return the defect of lacking a file that the checkpoint before has, where no layout is known."""
    names = list_files(path)
    if not before or detect_layout(names) or os.path.isdir(path) != os.path.isdir(before):
        return ""
    shapes = {re.sub(r"\d+", "0", name) for name in names}
    gone = [name for name in list_files(before) if re.sub(r"\d+", "0", name) not in shapes]
    return "lacks %s, which %s has" % (gone[0], os.path.basename(before)) if gone else ""


def is_truncated(path: str) -> str:
    """Return the sign that a file was not written to its end, "" when it has none."""
    size = os.path.getsize(path)
    if path.endswith(".safetensors"):
        return "" if size >= read_safetensors_size(path) else "is cut off"
    if path.endswith(ZIPPED):
        return zip_defect(path, size)
    if path.endswith(".json") and size <= MAX_JSON:
        return find_json_defect(path)
    return ""


def read_safetensors_size(path: str) -> int:
    """Return a safetensors file's size by its own header, sys.maxsize where that is incomplete."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= MAX_HEADER:
            return sys.maxsize
        try:
            header = json.loads(file.read(length))
            ends = [
                int(tensor["data_offsets"][1]) for name, tensor in header.items() if name != "__metadata__"
            ]
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            return sys.maxsize
    return 8 + length + max(ends, default=0)


def zip_defect(path: str, size: int) -> str:
    """Return the defect of a file of torch.save: a zip file, whose directory comes last."""
    if not size:
        return "is empty"
    with open(path, "rb") as file:
        zipped = file.read(2) == b"PK"
        file.seek(max(0, size - (66 << 10)))
        end = file.read()
    if zipped:
        return "" if ZIP_END in end else "is cut off"
    stopped = end.endswith(PICKLE_STOP) or not path.endswith(".pkl")  # in other formats the end shows nothing
    return "" if stopped else "is cut off"


def find_json_defect(path: str) -> str:
    """Return the defect of a file with one JSON document, or one per line."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    for candidate in (text, text.rstrip().rpartition("\n")[2]):
        try:
            document = json.loads(candidate)
        except ValueError:
            continue
        return find_lost_shard(path, document) if path.endswith(".index.json") else ""
    return "is empty" if not text.strip() else "is cut off"


def find_lost_shard(path: str, index: Any) -> str:
    """Return a missing shard of a model's index."""
    shards = index.get("weight_map") if isinstance(index, dict) else None
    names = sorted({str(name) for name in shards.values()}) if isinstance(shards, dict) else []
    gone = [name for name in names if not os.path.exists(os.path.join(os.path.dirname(path), name))]
    return "names %s, which does not exist" % gone[0] if gone else ""


if __name__ == "__main__":
    sys.exit(main())
