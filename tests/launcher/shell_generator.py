"""Launch scripts of bash, made at random: every variable has a value, and every loop ends."""

import re
from collections.abc import Callable
from random import Random

_NAMES = ("A", "B", "C", "D")
_TEXTS = (
    *("x", "7", "a b", "", "-2", "run.py", "conf/x.yaml", "a:b", "1e-4", "/d/e.tar.gz", "a,b,c", "Xy", "0"),
    *("--k=v", "a=b", "a\tb"),
)
_VALUES = (
    *("$_V_", "${_V_}", "${_V_:-d e}", "${_V_:+s}", "${_V_-n}", "${_V_%.*}", "${_V_##*/}"),
    *("${_V_%%.*}", "${_V_#*:}", "${_V_//a/b}", "${_V_/b}", "${_V_^^}", "${_V_,,}", "${#_V_}"),
    *("${_V_:1}", "${_V_:0:2}", "$((N + 1))", "$((N * 2 - M))", "$(( N > M ? 1 : 2 ))", "$N", "$#"),
    *('$(echo "$_V_")', '$(basename "/p/q.x" .x)', "$(dirname /p/q/r)", "${L[0]}", "${#L[@]}", "${1:-none}"),
    *("${L[$((N % 2))]}", "$(seq -s, 1 3)", '$(echo "$_V_" | tr a-z A-Z)', '`echo "$B"`'),
    *("${_V_//[ab]/_}", "${_V_%%[0-9]*}", "${_V_//[^a-z]/}", "${_V_#[!x]}", "${!L[@]}", "${L[-1]}"),
    *("$(( ${#_V_} + N ))", "$(( ${NONE:-2} * ${#L[@]} ))", '$(( $(echo "$M") % 3 ))'),
    *('$(printf "%02d" 7)', '$(wc -w <<< "a b")'),
)
_WORDS = (
    *('"${L[@]}"', "$'a\\tb'", "{1..3}", "{x,y}z", "p{1,2}", "{a,b}{1,2}", '\\"e\\"', "'a'\"$_V_\"b"),
    *('"$@"', '"$*"', '"${L[*]}"', '"${L[@]:1}"', "~", "~/x"),
)
_TESTS = (
    *('[ -z "$_V_" ]', '[ "$_V_" = x ]', "[[ $_V_ == x* ]]", '[[ "$_V_" != *b* ]]'),
    *("(( N > M ))", "[ $N -ge 2 ]", "[[ -n $_V_ && $N -lt 3 ]]", '! [ "$_V_" ]', "true", "false"),
    *("[[ $N -eq 1 || $M -eq 1 ]]", '[ "$_V_" = x -o "$N" = 1 ]', 'test -n "$_V_"', "[ ${#L[@]} -gt 1 ]"),
    *("[ -f conf/paths.sh ]", "[ $# -gt 0 ]", "[[ -v _V_ ]]", 'has "$_V_"', '! has "$_V_"'),
)
_SIMPLE = (
    *(
        "_V_=_W_",
        "_V_=_E_",
        "_V_+=_T_",
        '_V_="_E_ _E_"',
        "N=$((N + 1))",
        "((M += 2))",
        "let N*=2",
        "L+=(_W_)",
    ),
    *("L=(_W_ _W_)", "export A_FLAG=_E_", "export B_FLAG; B_FLAG=_T_", "unset B_FLAG", "export N"),
    *('read -r _V_ <<< "a b"', 'IFS=, read -r A B <<< "1,2,3"', "_V_=$(cat <<EOF\nh _E_\nEOF\n)", "shift"),
    *(': "${_V_:=z}"', "set -- _W_ _W_", "f1 _W_ _W_", "f2 _W_ _W_", "source settings.sh", "local_it _W_"),
    'IFS=: read -ra L <<< "a:b c:d"',
    *(
        "printf -v _V_ '%s-%02d' _E_ $N",
        "pushd sub > /dev/null; popd > /dev/null",
        "declare -i K=N+2; _V_=$K",
    ),
    *("mapfile -t L <<< $'p\\nq r'", "parse --gpus _T_ --lr 1 pos", 'set -- "$@" _W_', "_V_=${G-none}"),
)
_BLOCKS = (
    *("if _C_; then\n_B_\nelse\n_B_\nfi", "if _C_ && _C_; then _B_\nelif _C_; then\n_B_\nfi"),
    *("_C_ && _S_", "_C_ || _S_", "_C_ && C=1 || C=2", "( _B_\n)", "{ _B_\n}", 'trap "echo x" EXIT'),
    *("for I in _W_ _W_; do\nD=$I\n_B_\n[ $N -gt 4 ] && break\ndone", "set -euo pipefail; set +eu"),
    "for I in _W_ _W_; do\nD=$I\n_B_\n[[ $I == x ]] && continue\ndone",
    "for ((J_D_ = 0; J_D_ < 2; J_D_++)); do\n_B_\ndone",
    'case "$_V_" in\n x|7) _S_;;\n *.py|a*) _S_ ;;\n *) _B_\n;;\nesac',
    *('for a in "$@"; do\n_B_\ndone', "until (( N >= 4 )); do\n((N++))\n_S_\ndone", "(cd sub; cd ..\n_B_\n)"),
    *('for i in "${!L[@]}"; do\nD="$i:${L[$i]}"\n_S_\ndone', "{ _S_\n} 2> /dev/null"),
    *("while (( N < 5 )); do\n((N++))\n_S_\ndone", "# a comment with ' and \"\n_S_"),
)
_HEAD = """N=1; M=2; A=x; B=; C=a.b.c; D=1; L=(l "m n")
f1() { local A=$1; B="$A$#"; [ $# -gt 1 ] || return 0; C=$2; }
function f2 {
 D="$*"; if [ -z "$1" ]; then return; fi; L+=("$1")
}
parse() {
 while [ $# -gt 0 ]; do
  case $1 in --gpus) G=$2; shift 2;; --lr) shift;; *) D+=$1; shift;; esac
 done
}
has() { D+=h; [ -n "$1" ]; }
local_it() { local N=9 Z=${1:-q}; A_FLAG=$Z; }
"""


def generate_script(random: Random) -> str:
    """Return a script that launches `torchrun a.py` once, in most cases."""
    body = "\n".join(_statement(random, 2) for _ in range(random.randint(1, 5)))
    before = random.choice(("", "", "A_FLAG=$N ", 'B_FLAG="$A" '))
    words = " ".join(_word(random) for _ in range(random.randint(1, 4)))
    return f"{_HEAD}{body}\n{before}torchrun a.py {words}\n"


def _statement(random: Random, depth: int) -> str:
    if depth == 0 or random.random() < 0.5:
        return _filled(random, random.choice(_SIMPLE), depth)
    return _filled(random, random.choice(_BLOCKS), depth)


def _filled(random: Random, form: str, depth: int) -> str:
    """Return a form with what its marks ask for, each place its own."""
    makers: dict[str, Callable[[], str]] = {
        "V": lambda: random.choice(_NAMES),
        "T": lambda: f"'{random.choice(_TEXTS)}'",
        "E": lambda: _filled(random, random.choice(_VALUES), depth),
        "W": lambda: _word(random),
        "C": lambda: _filled(random, random.choice(_TESTS), depth),
        "S": lambda: _filled(random, random.choice(_SIMPLE), depth),
        "B": lambda: "\n".join(_statement(random, depth - 1) for _ in range(random.randint(1, 2))),
        "D": lambda: str(depth),
    }
    return re.sub("_([VTEWCSBD])_", lambda mark: makers[mark[1]](), form)


def _word(random: Random) -> str:
    start, end = random.choice(("", "p-", "p q ")), random.choice(("", "-s", " t"))
    forms = ("_T_", f'"{start}_E_{end}"', "_E_", random.choice(_WORDS), "--o=_E_")
    return _filled(random, random.choices(forms, (5, 5, 4, 4, 1))[0], 0)
