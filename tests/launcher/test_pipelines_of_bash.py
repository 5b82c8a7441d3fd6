"""What a text's pipelines print is predicted as bash prints it, or not at all."""

import random
import shutil
import subprocess

import pytest

from launcher.engines.command_line.parse import parse_line
from launcher.errors import CommandRefused

_VALUES = (
    *("0,1", "0,1,2,3", "", "a b  c", "x:y:z", "7", "h[1-3]", "node-01 node-02", "a/b/c.yaml", "0, 1"),
    *("-n 3", "2,", "A=1;B=2", "a\\\\b", "GPU 0: A\\nGPU 1: B"),
)
_WORDS = ('"$G"', "$G", '"${G:-}"', "${G}", '"${G},9"', '"0,1 2"', "'a,b;c'", "a  b")
_SOURCES = (
    *("echo {}", "echo -n {}", "echo -e {}", "printf {}", 'printf "%s" {}', 'printf "%s\\n" {}', "seq 3"),
    *("seq 0 2 6", "seq -s, 4", "expr 7 / 2", 'printf "%02d" 3', 'printf "%s," a b'),
    *("basename {}", "dirname {}", "basename a/b.yaml .yaml", "cat <<< {}"),
)
_FILTERS = (
    *("tr ',' '\\n'", "tr -cd ','", "tr -d ','", "tr -dc '0-9'", "tr a-c A-C", "tr -s ' '", "tr '\\n' ','"),
    *("tr -c 0-9 _", "tr -d '[:space:]'", "tr abc x", "tr -d '[0-9]'", "tr ',' '\\012'", "wc -l", "wc -w"),
    *("wc -c", "wc -m", "cut -d, -f1", "cut -d , -f 2-", "cut -d' ' -f1", "cut -c1", "cut -d, -f1,2"),
    *("awk -F, '{print NF}'", "awk '{print $1}'", "awk -F: '{print $NF}'", "awk 'NR==1'", "sed 's/,/ /g'"),
    *("sed 's/,.*//'", "sed 's/a/b/'", "sed -n 1p", "sed 's/^/x/'", "head -n 1", "head -1", "tail -1"),
    *("head -c 1", "tail -n +2", "grep -o ','", "grep -c ','", "grep a", "xargs", "sort -u", "rev", "tac"),
)
_FORMS = ("N=$({})", "N=$({})", "N=$(( $({}) + 1 ))")


def _texts(number: int) -> list[str]:
    chance = random.Random(23)
    texts = []
    for _ in range(number):
        source = chance.choice(_SOURCES).replace("{}", chance.choice(_WORDS))
        filters = (chance.choice(_FILTERS) for _ in range(chance.choice((0, 1, 1, 2, 2, 3))))
        form = chance.choice(_FORMS).replace("{}", " | ".join((source, *filters)))
        texts.append(f"G='{chance.choice(_VALUES)}'\n{form}\n")
    return texts


_PROGRAMS = {"bash", *(text.split()[0] for text in (*_SOURCES, *_FILTERS))} - {"echo", "printf"}


@pytest.mark.skipif(not all(map(shutil.which, _PROGRAMS)), reason="bash or a program of pipelines lacks")
def test_a_predicted_output_is_that_of_bash() -> None:
    """Count of ranks and names come of such pipelines: what is not known for sure stays without a value."""
    texts = _texts(250)
    script = "set -f\n" + "".join(f"(N=\n{text}\nprintf %s \"$N\")\nprintf '\\0'\n" for text in texts)
    printed = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False
    ).stdout.split("\0")
    known = 0
    wrong = []
    for text, expected in zip(texts, printed, strict=False):
        try:
            parsed = parse_line(f'{text}torchrun a.py "$N"', {"PWD": "/w", "HOME": "/h"})
        except CommandRefused:
            continue
        if parsed.unknown:
            continue
        known += 1
        if parsed.args != (expected,):
            wrong.append(f"{text!r}: bash {expected!r}, predicted {parsed.args!r}")
    assert not wrong, "\n".join(wrong)
    assert known > 40, known
