"""Variables that a pasted command exports from a file or an array: read, or named as lacking."""

import pytest

from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.parsed_command import Request


@pytest.mark.parametrize(
    "command",
    [
        "cat .env | xargs",
        "grep -v '^#' .env | xargs",
        "xargs < .env",
        "sed '/^#/d' .env",
        "cat .env other.env",
    ],
)
def test_an_export_of_a_file_is_lacking(command: str) -> None:
    for text in (f"export $({command})", f"if [ -f .env ]; then export $({command}); fi"):
        parsed = parse_line(f"{text}\ntorchrun a.py", files={".env": "A=1\nWANDB_B=2\n"}.get)
        assert not parsed.env
        (unknown,) = parsed.unknown
        assert unknown.message == f"export $({command}) sets what gpulaunch cannot see"
        assert "NAME=VALUE torchrun" in str(unknown.fix)


def test_the_words_of_an_array_are_joined_with_a_comma() -> None:
    text = "GPUS=(0 2)\nexport CUDA_VISIBLE_DEVICES\n"
    text += 'CUDA_VISIBLE_DEVICES="$(IFS=,; echo "${GPUS[*]}")"\ntorchrun a.py'
    assert parse_line(text).request == Request(gpus=(0, 2))


@pytest.mark.parametrize(
    ("text", "env"),
    [
        ("export A=1; export -n A", {}),
        ("export -n A=1", {}),
        ("eval export A=1", {"A": "1"}),
        ("eval 'A=1; export A'", {"A": "1"}),
    ],
)
def test_the_shell_decides_what_is_exported(text: str, env: dict[str, str]) -> None:
    assert parse_line(f"{text}\ntorchrun a.py").env == env


def test_what_a_program_prints_for_eval_is_lacking() -> None:
    (unknown,) = parse_line("eval $(cat .env)\ntorchrun a.py").unknown
    assert unknown.message == "eval $(cat .env) sets what gpulaunch cannot see"
