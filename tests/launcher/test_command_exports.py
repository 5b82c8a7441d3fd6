"""Variables that a pasted command exports from a file or an array: read, or named as lacking."""

import pytest

from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.parsed_command import Request


@pytest.mark.parametrize(
    "text",
    [
        "export $(cat .env | xargs)\ntorchrun a.py",
        "export $(grep -v '^#' .env | xargs)\ntorchrun a.py",
        "export $(grep -Ev '^(#|$)' .env | xargs -d '\\n')\ntorchrun a.py",
        "export $(xargs < .env)\ntorchrun a.py",
        "export $(sed 's/#.*//g' .env | xargs)\ntorchrun a.py",
        "export $(sed -e '/^#/d' .env)\ntorchrun a.py",
        "export $(cat .env | grep -v ^# | tr '\\n' ' ')\ntorchrun a.py",
    ],
)
def test_variables_that_a_file_exports_are_read_or_lacking(text: str) -> None:
    parsed = parse_line(text, files={".env": "# x\nA=1\nB='b c'\nC=$D\n"}.get)
    assert parsed.env == {"A": "1", "B": "b c", "C": "$D"}
    assert [one.message for one in parsed.unknown] == ["the variable C has $D, which has no value"]
    (unknown,) = parse_line(text).unknown
    assert unknown.message.startswith("export $(")
    assert unknown.message.endswith("sets what gpulaunch cannot see")


@pytest.mark.parametrize(
    "command",
    [
        "grep WANDB .env | xargs",
        "grep -v SECRET .env",
        "grep -E '^#' .env",
        "sed 's/^/MY_/' .env",
        "awk -F= '{print $2}' .env",
        "cat .env | tr A-Z a-z",
        "cat .env other.env | xargs",
    ],
)
def test_an_export_of_a_part_of_a_file_is_lacking(command: str) -> None:
    parsed = parse_line(f"export $({command})\ntorchrun a.py", files={".env": "A=1\nWANDB_B=2\n"}.get)
    assert not parsed.env
    assert [one.message for one in parsed.unknown] == [f"export $({command}) sets what gpulaunch cannot see"]


def test_a_file_that_a_condition_guards_is_lacking_only_where_it_exists() -> None:
    text = "if [ -f .env ]; then export $(cat .env | xargs); fi\ntorchrun a.py"
    assert not parse_line(text, files=lambda _: None).unknown
    assert parse_line(text, files={".env": "A=1"}.get).env == {"A": "1"}
    assert len(parse_line(text).unknown) == 1


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
