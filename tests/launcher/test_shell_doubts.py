"""What a shell would do with a word or a command that a text alone does not decide."""

import pytest

from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.parsed_command import explain_missing_value
from launcher.errors import CommandRefused


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
        ("A=($X $Y); torchrun a.py ${#A[@]}", "${#A[@]}"),
        ("A=($X y); torchrun a.py ${A[1]}", "${A[1]}"),
        ("A=(x $X y); torchrun a.py ${A[-2]}", "${A[-2]}"),
        ("f() { torchrun a.py $2; }; f $X y", "$X"),
        ("f() { torchrun a.py $#; }; f $X y", "$#"),
        ("f() { shift; torchrun a.py $1; }; f $X y", "$@"),
        ("set -- $X y; torchrun a.py ${@:2}", "${@:2}"),
        ("declare -u X=a; torchrun a.py $X", "$X"),
        ("A=([0]=x y); torchrun a.py ${A[0]}", "${A[0]}"),
        ("A=(x y); printf -v A[0] z; torchrun a.py ${A[0]}", "${A[0]}"),
        ("X=1; while getopts x: o -x 2; do X=$OPTARG; done; torchrun a.py $X", "$X"),
        ("X=1; while getopts x: o -x 2; do case $o in x) X=3;; esac; done; torchrun a.py $X", "$X"),
        ("set -u; [ -z $X ] && Y=1; torchrun a.py $Y", "the text has $X"),
        ("set -o nounset; Y=$X; torchrun a.py", "the text has $X"),
        ("set -eo pipefail; false | tee log; torchrun a.py", "false (set -e)"),
        ("set -o errexit -o pipefail; { false; } | cat; torchrun a.py", "{ } (set -e)"),
    ],
)
def test_what_a_text_does_not_decide_is_lacking(text: str, lacking: str) -> None:
    missing = explain_missing_value(parse_line(text))
    assert missing is not None
    assert lacking in missing.message


@pytest.mark.parametrize(
    "text",
    [
        "set -e; false | true; torchrun a.py",
        "set -eu; echo $SLURM_JOB_ID $USER $HOSTNAME; torchrun a.py",
        "set -u; set +u; Y=$X; torchrun a.py",
        "set -u; V=$(hostname); X=${V%%.*}; torchrun a.py",
        "set -u; f() { torchrun a.py ${1:+x}; }; f",
        'A=("$X" "$Y"); torchrun a.py ${#A[@]}',
        'bash -c "PYTHONPATH=$PYTHONPATH:x torchrun a.py"',
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
    assert explain_missing_value(parsed) is None
    assert parsed.program == "a.py"


@pytest.mark.parametrize(
    "text", ['bash -c "x=3; torchrun a.py $x"', 'eval "for x in 3; do torchrun a.py $x; done"']
)
def test_a_shell_inside_does_not_fill_in_what_the_one_around_it_does(text: str) -> None:
    with pytest.raises(CommandRefused, match=r"\$x.*, which has no value"):
        parse_line(text)


def test_a_shell_inside_has_the_words_behind_its_text_as_arguments() -> None:
    parsed = parse_line('bash -e -c \'shift; torchrun a.py $1 "$@" $3\' name "a b" c d')
    assert (parsed.launcher, parsed.args) == ("torchrun", ("c", "c", "d"))
