"""What a launch looks like in any text, before a shell reads it."""

from preflight import regex as re

_PROGRAMS = (
    r"(?:torchrun|accelerate|deepspeed|python[\d.]*|mpirun|srun|composer|colossalai"
    r"|swift(?=[ \t]+(?:sft|pt|rlhf)\b)|(?:llamafactory-cli|axolotl)(?=[ \t]+train\b)"
    r"|(?:tune|fabric)(?=[ \t]+run\b))"
)
_RUNNERS = r"(?:(?:uv|poetry|pixi|pdm|pipenv)[ \t]+run[ \t]+(?:-\S+[ \t]+)*|nohup[ \t]+)?"
LAUNCH = rf"(?:[A-Za-z_]\w*=\S*[ \t]+)*{_RUNNERS}{_PROGRAMS}"
LAUNCH_LINE = re.compile(rf"^[ \t]*{LAUNCH}\b", re.MULTILINE)
LAUNCH_INSIDE = re.compile(rf"(?:^|[\s;&|(/!]){_PROGRAMS}\b")
