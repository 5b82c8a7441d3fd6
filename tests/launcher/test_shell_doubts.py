"""What a shell would do with a word or a command that a text alone does not decide."""

import pytest

from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.parsed_command import missing_values


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("shopt -s extglob; x=aab; torchrun a.py ${x##+(a)}", "${x##+(a)}"),
        ("x=aab; torchrun a.py ${x/@(a|b)/c}", "${x/@(a|b)/c}"),
        ("torchrun a.py ?", "?"),
        ("torchrun a.py --in ?? out", "??"),
        ("x=~root; torchrun a.py $x", "~root"),
        ("torchrun a.py ~+", "~+"),
        ("x=${DATA:?which}; torchrun a.py", "${DATA:?which}"),
        ('[ -d "${DATA:?}" ]; torchrun a.py', "${DATA:?}"),
        ("A=(${X//,/ }); torchrun a.py ${#A[@]}", "${#A[@]}"),
        ("set -eo pipefail; false | tee log; torchrun a.py", "false (set -e)"),
        ("set -o errexit -o pipefail; { false; } | cat; torchrun a.py", "{ } (set -e)"),
    ],
)
def test_what_a_text_does_not_decide_is_lacking(text: str, lacking: str) -> None:
    missing = missing_values(parse_line(text))
    assert missing is not None
    assert lacking in missing.message


@pytest.mark.parametrize(
    "text",
    [
        "set -e; false | true; torchrun a.py",
        "set -eo pipefail; python prepare.py | tee log; torchrun a.py",
        "set -eo pipefail; if false | true; then exit 1; fi; torchrun a.py",
        "(set -o pipefail); set -e; false | true; torchrun a.py",
        "false && x=${DATA:?which}; torchrun a.py",
        "torchrun a.py ~optimizer",
        "bash -c 'x=3; torchrun a.py $x'",
        'x=3; bash -c "x=4; torchrun a.py $x \\$x"',
    ],
)
def test_what_a_text_decides_lacks_nothing(text: str) -> None:
    parsed = parse_line(text)
    assert missing_values(parsed) is None
    assert parsed.program == "a.py"
