"""Commands of public READMEs and documentation pages, each with what it asks for.

The lines are facts about these projects, shortened to what a launcher sees; the sources are named.
"""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.engines.command_line.parse import parse_command, parse_line
from launcher.engines.command_line.parsed_command import HostFilter, ParsedCommand, Request, require_values
from launcher.errors import CommandRefused


def _rows(name: str) -> list[dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where PyYAML has it
    rows: list[dict[str, Any]] = yaml.load(Path(__file__).with_name(name).read_text("utf-8"), Loader=loader)
    return rows


COMMANDS = _rows("public_commands.yaml")
TEXTS = _rows("public_texts.yaml")
SCRIPTS = _rows("public_scripts.yaml")
KNOWN = {"HOME": "/home/ana", "PWD": "/home/ana/w", "USER": "ana", "EPOCHSECONDS": "1700000000"}
PROJECTS = (
    *("trl", "axolotl", "LLaMA-Factory", "torchtitan", "nanoGPT", "DeepSpeedExamples", "accelerate"),
    *("Lightning", "diffusers", "open_clip", "fairseq", "Megatron-LM"),
)


def written(value: object) -> object:
    """Return a value of a request as the file writes it."""
    if isinstance(value, HostFilter):
        return value.host + (":" + ",".join(map(str, value.gpus)) if value.gpus else "")
    return [written(one) for one in value] if isinstance(value, tuple) else value


def seen(parsed: ParsedCommand) -> Mapping[str, object]:
    """Return everything that a record says, without what is empty."""
    plain = Request()
    requested = {
        field.name: written(getattr(parsed.request, field.name))
        for field in fields(Request)
        if getattr(parsed.request, field.name) != getattr(plain, field.name)
    }
    said = {
        "request": requested,
        "env": parsed.env,
        "kept": " ".join(parsed.kept_words()),
        "prefix": parsed.prefix,
        "python": parsed.python,
        "directory": parsed.directory,
        "local_rank_option": parsed.local_rank_option,
        "dropped": [sentence.partition(":")[0] for sentence in parsed.dropped],
        "remarks": list(parsed.remarks),
    }
    return {
        "launcher": parsed.launcher,
        "program": f"{parsed.program_kind} {parsed.program}",
        "args": list(parsed.args),
        **{name: value for name, value in said.items() if value},
    }


def test_sixty_commands_of_twelve_projects() -> None:
    assert len(COMMANDS) >= 60
    assert set(PROJECTS) <= {command["source"].split()[0] for command in COMMANDS}
    assert len({command["line"] for command in COMMANDS}) == len(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command["line"].splitlines()[-1][:70])
def test_a_public_command_is_understood(command: dict[str, Any]) -> None:
    expected = {name: value for name, value in command.items() if name not in ("source", "line", "plan")}
    if "refused" in expected:
        with pytest.raises(CommandRefused) as caught:
            require_values(parse_line(command["line"]))
        assert caught.value.message == expected["refused"]
        return
    parsed = parse_line(command["line"])
    assert seen(parsed) == expected
    for use in parsed.owned:
        if use.position >= 0:
            words = parsed.words[use.position : use.position + use.width]
            assert words[0].startswith(use.spelling)
    if all("$" not in word and "<" not in word and "{" not in word for word in parsed.words):
        again = parse_command(parsed.words)  # as a shell would have split the line
        assert again.request == parsed.request or parsed.env
        assert again.args == parsed.args


def outcome(text: str) -> Mapping[str, object]:
    """Return what becomes of a text: a launch, or a refusal and its remedy."""
    try:
        return seen(require_values(parse_line(text, KNOWN)))
    except CommandRefused as refused:
        return {"refused": refused.message, "fix": refused.fix}


def test_texts_of_thirty_projects_are_read_as_a_person_reads_them() -> None:
    """Blocks of READMEs, documentation and scripts as they stand there, without most arguments."""
    projects = {text["source"].split()[0] for text in TEXTS}
    assert len(TEXTS) >= 150
    assert len(projects) >= 28
    assert not projects & set(PROJECTS)
    check_outcomes(TEXTS)
    assert sum("refused" in text for text in TEXTS) < len(TEXTS) * 0.6


def test_scripts_are_read_as_a_shell_reads_them() -> None:
    """Launch scripts with conditions, files in place, arguments, arrays and what follows the launch."""
    assert len(SCRIPTS) >= 300
    check_outcomes(SCRIPTS)
    assert sum("refused" in text for text in SCRIPTS) < len(SCRIPTS) * 0.32


def check_outcomes(texts: list[dict[str, Any]]) -> None:
    said = ("source", "text")
    expected = [{name: value for name, value in text.items() if name not in said} for text in texts]
    assert [outcome(text["text"]) for text in texts] == expected
