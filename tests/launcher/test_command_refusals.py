"""Texts that do not decide what runs: each is refused, with the reason and the way out."""

import re
from pathlib import Path

import pytest

from launcher.config.hostfile import read_hostfile
from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.parsed_command import require_values
from launcher.engines.command_line.shell.expansions import expand_braces
from launcher.engines.command_line.shell.replay_limits import Replays
from launcher.errors import BadInput, CommandRefused

LAUNCH = "torchrun --nproc_per_node 2 a.py $X"


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        (f"if [ -d d ]; then {LAUNCH}; fi", "loop or condition (if)", "bash SCRIPT"),
        ("srun -w n[4-1] python a.py", "takes names of hosts", "a,b"),
        (f"for X in 1 2; do {LAUNCH}; done", "2 commands, torchrun a.py with 1: 1; 2: 2", "--launch 1"),
        (
            "for L in 1 2; do for S in 3 4 5 6; do torchrun a.py --lr $L --s $S --x; done; done",
            "8 commands, torchrun a.py with 1: --lr 1 --s 3; 2: --lr 1 --s 4; 3: --lr 1 --s 5; 4",
            "--launch 1 (launch: 1 in a run config)",
        ),
        ("export A=1; python a.py; A=2; python a.py", "1: A=1 python a.py; 2: A=2 python a.py", "--launch 1"),
        (
            "python a.py; cd d; python a.py --eval",
            "python a.py with 1: nothing more; 2: --eval",
            "--launch 1",
        ),
        (
            "make x; bash y.sh; torchrun a.py",
            "3 commands, 1: make x; 2: bash y.sh; 3: torchrun",
            "--launch 3",
        ),
        ("make x; make y", "2 commands, 1: make x; 2: make y", "paste the command that trains"),
        ("torchrun a.py $((5 & 1 == 1))", "which has no value", "write a value"),
        ("torchrun a.py $(echo 0,1 | tr --delete , | wc -c)", "which has no value", "write a value"),
        (
            'services:\n  a:\n    entrypoint: ["./e.sh"]\n    command: torchrun a.py\n',
            "2 commands, 1: ./e.sh torchrun a.py",
            "--launch",
        ),
        ("N=2; torchrun a.py $((++N))", "which has no value", "write a value"),
        ("torchrun a.py $((1 << 70))", "which has no value", "write a value"),
        ("torchrun a.py $((5 << 63))", "which has no value", "write a value"),
        ("torchrun a.py $(seq -w 8 10)", "$(seq -w 8 10), which has no value", "write a value"),
        ("torchrun a.py $((! 3 < 7))", "which has no value", "write a value"),
        ("torchrun a.py $((-2 ** 2))", "which has no value", "write a value"),
        ("torchrun a.py $(( (1 +\n-2 ** 2) ))", "which has no value", "write a value"),
        ("if ! { torchrun a.py; }; then torchrun b.py; fi", "loop or condition (if)", "bash SCRIPT"),
        (
            "make x; python a.py",
            "1: make x; 2: python a.py",
            "--launch 2 (launch: 2 in a run config); do what",
        ),
        (
            "make fast\n[ -z $M ] && exit 1\nsrun ./fast",
            "2 commands, 1: make fast; 2: srun ./fast",
            "choose one",
        ),
        ("FROM python:3.12", "starts with FROM, and a shell expects the name of a program", "paste it"),
        (
            f"X={'a' * 199}\n[[ $X =~ a*a*a*a*a*a*b ]] && torchrun a.py",
            "loop or condition ([[)",
            "one launch",
        ),
        (f"[ -d d ] && {LAUNCH}", "loop or condition ([)", "bash SCRIPT"),
        (f"[[ -d d ]] && {{ {LAUNCH}; }}", "loop or condition ({)", "bash SCRIPT"),
        (f"case $X in a) {LAUNCH};; esac", "loop or condition (case)", "bash SCRIPT"),
        (f"X=1; if [ -d d ]; then X=2; fi; {LAUNCH}", "$X (set in a condition), which", "write a value"),
        (
            'X=(1); if [ -d d ]; then X+=(2); fi; torchrun a.py "${X[@]}"',
            "$X (set in a condition), which",
            "write a value",
        ),
        (f"if [ -d d ]; then cd d; fi; {LAUNCH}", "loop or condition (if)", "bash SCRIPT"),
        (
            f"if [ -d d ]; then export Y=2; fi; X=1; {LAUNCH}",
            "variable Y has $Y (set in a condition)",
            "write a value",
        ),
        (
            "for i in 0 2; do CUDA_VISIBLE_DEVICES=$i,$((i+1)) torchrun --node_rank=$i a.py & done; wait",
            "on 2 nodes, each with another CUDA_VISIBLE_DEVICES",
            "on one host --gpus 0,1,2,3 takes all",
        ),
        (
            "A=1 torchrun --nnodes 2 --node_rank=0 a.py\nA=2 torchrun --nnodes 2 --node_rank=1 a.py",
            "on 2 nodes, each with another A",
            "env: in hosts.yaml",
        ),
        (
            "NPROC_PER_NODE=1 NODE_RANK=0 swift sft\nNPROC_PER_NODE=2 NODE_RANK=1 swift sft",
            "on 2 nodes, each with another number of ranks",
            "each GPU gets a rank",
        ),
        ("torchrun a.py $1 ${2}", "$1, ${2}, arguments of a script", "SCRIPT ARGUMENTS"),
        ("torchrun a.py ${1:?Usage: x}", "${1:?Usage: x}, an argument of a script", "SCRIPT ARGUMENTS"),
        (
            "until torchrun a.py; do sleep 9; done\ntorchrun b.py",
            "launch again until it ends",
            "--restarts N",
        ),
        ("if torchrun a.py && torchrun b.py; then echo; fi", "loop or condition (if)", "bash SCRIPT"),
        ("if ! srun torchrun a.py; then exit 1; fi\ntorchrun b.py", "2 commands, 1: srun", "--launch 1"),
        ("if x\n" * 20_000 + LAUNCH, "more than 100 conditions within each other", "launch alone"),
        ("torchrun a.py <<EOF\ny\nEOF", "gives torchrun its input in place", "launch alone"),
        (
            "A:\n  B: 1\nC:\n  # d\n  --untie: true\n  --layers: 6",
            "file of settings",
            "the command that reads it",
        ),
        ("a: b\nt:\n  pad: <|end|>\nlr: 1", "file of settings", "the command that reads it"),
        ("T:\n  S: (1, 2)\n  L: [\n    'a']", "file of settings", "the command that reads it"),
        ('{\n  "a": {\n    "b": 1\n  }\n}', "file of settings", "the command that reads it"),
        ("torchrun a.py\n--x: what it is", "the command ends before --x:", "take the comment out"),
        ("A = 1\nB = 2\n./train.sh", "to a shell A is a program", "write A=1"),
        ("S=logs/${1:?x}.sbatch\nsbatch $S", "sbatch submits a script", "the command that is in the script"),
        (
            "cat > c.yaml <<EOF\na: 1\nEOF\ntorchrun a.py --c=c.yaml",
            "reads c.yaml, which the text writes, and it is not written yet",
            "write it as the text does",
        ),
        (
            "echo h slots=2 > hosts\ndeepspeed --hostfile hosts a.py",
            "reads hosts, which the text writes",
            "write it as the text does",
        ),
        ("python prepare.py | torchrun a.py", "pipes into torchrun", "leave the pipe out"),
        ("curl URL | python a.py", "pipes into python", "leave the pipe out"),
        ("while true; do echo a; done\nf() {\n f\n}\nf\ntorchrun a.py", "do not end soon", "bash SCRIPT"),
        ("i=0; while [ $i -lt 1 ]; do N=1; done; torchrun a.py", "do not end soon", "bash SCRIPT"),
        (
            "for n in 1 2 3; do [ -d d ] && break; X=$n; done\ntorchrun a.py $X",
            "$X (set in a condition)",
            "value",
        ),
        ("if [ -d d ]; then source e.sh; fi\ntorchrun a.py", "loop or condition (if)", "bash SCRIPT"),
        (
            "if [ -d d ]; then uv run torchrun b.py; fi; torchrun a.py",
            "loop or condition (if)",
            "bash SCRIPT",
        ),
        ("n=0\nwhile [ $n -lt 2 ]; do\ntorchrun a.py $n\nn=$((n + 1))\ndone", "2 commands", "--launch 1"),
        ("command -v gcc > /dev/null || (echo no; exit 1;)", "no command", "paste it"),
        ("if [ -d d ]; then python b.py; fi; python a.py", "loop or condition (if)", "bash SCRIPT"),
        ('if [ -z "$TOKEN" ]; then echo no; exit 1; fi\ntorchrun a.py', "ends with exit 1", "a value"),
        ("torchrun $(which fit) x=1", "$(which fit), a path", "--no_python fit"),
        ("python -m paddle.distributed.launch a.py", "not torch's", "bash SCRIPT"),
        ("torchrun a.py [--args]", "[--args], which has no value", "write a value"),
        (
            "M=<Path to it (for example /m)>\ntorchrun a.py $M",
            "<Path to it (for example /m)>",
            "write a value",
        ),
        ("M=<PATH> (such as /m)\ntorchrun a.py $M", "<PATH>, which has no value", "write a value"),
        ("source <(curl URL)\ntorchrun a.py", "source <(curl URL) sets what", "bash SCRIPT"),
        (
            "N=1; while (( N < M )); do (( N *= 2 )); done\ntorchrun a.py $N",
            "$N (set in a condition)",
            "value",
        ),
        ("mpirun $OPTS --map-by=$M torchrun a.py", "mpirun has $OPTS, which has no value", "export it"),
        ("env -u RANK", "no program to start", "write the command"),
        ("torchrun a.py < data.txt", "reads data.txt as its input", "as an argument"),
        (
            "P=1\ntorchrun --master_port $((P++)) a.py $P",
            "$P (set in $((P++))), which has no",
            "write a value",
        ),
        (
            "readonly X=1\nX=2\ntorchrun a.py $X",
            "X is readonly, and the text sets it again",
            "take readonly or",
        ),
        ('torchrun a.py --out "runs/{{ name }}" --template "{{ x }}"', "has runs/{{ name }}", "write a"),
        ("D='<some dir>'\nO=\"--a $D/x\"\ntorchrun a.py $O", "has <some dir>, which has no", "write a"),
        ("grep -q a b && X=1\ntorchrun a.py ${X:-2}", "$X (set in a condition)", "value"),
        ("torchrun a.py $(seq 1 20000 | wc -l)", "$(seq 1 20000 | wc -l), which", "value"),
        *(
            (f"set -- a b; L=(a b); X=1\n{text}", f"{name} (set in a condition)", "value")
            for name, text in (
                ("$@", 'if grep -q a b; then set -- "$@" c; fi\ntorchrun a.py "$@"'),
                ("$@", "grep -q a b && shift\ntorchrun a.py $2"),
                ("$@", "while shift; do :; done\ntorchrun a.py $1"),
                ("$@", 'shift $((NONE))\ntorchrun a.py "$@"'),
                ("$@", 'for f in *; do set -- "$@" $f; shift; done\ntorchrun a.py ${@: -1} $1'),
                ("$X", "for X in *.py; do :; done\ntorchrun a.py $X"),
                ("$X", "for ((X = 0; X < NONE; X++)); do :; done\ntorchrun a.py $X"),
                ("$NCCL_DEBUG", "if grep -q a b; then declare -x NCCL_DEBUG=1; fi\ntorchrun a.py"),
            )
        ),
        *(
            (f"f() {{ torchrun a.py; }}\nif grep -q a b; then {text}; fi\n{call}", "(if)", "bash SCRIPT")
            for text, call in (
                ("f() { torchrun b.py; }", "f"),
                ("unset -f f", "f"),
                ("alias f='torchrun b.py'", "f"),
                ("alias torchrun='torchrun --nproc_per_node 2'", "f"),
            )
        ),
        *(
            (text, f"has {shown}", "value")  # what is not read
            for shown, text in (
                ("${L[@]}", 'L=(a b); if grep -q a b; then L[1]=c; fi\ntorchrun a.py "${L[@]}"'),
                ("${L[0]}", 'L=(a b); L[5]=c\ntorchrun a.py "${L[0]}"'),
                ("${L[0]}", 'L=($(ls)); L[1]=c\ntorchrun a.py "${L[0]}"'),
                ("${T[k]:-1}", "declare -A T=([$HOSTNAME]=v)\ntorchrun a.py ${T[k]:-1}"),
                ("${#T[@]}", "declare -A T; T[$(date)]=v\ntorchrun a.py ${#T[@]}"),
                ("${T[a]}", "declare -A T=([a]=1); grep -q a b && T[a]=2\ntorchrun a.py ${T[a]}"),
                ("${T[$HOSTNAME]}", "declare -A T=([a]=1)\ntorchrun a.py ${T[$HOSTNAME]}"),
                ("${T[b]:=2}", "declare -A T=([a]=1)\ntorchrun a.py ${T[b]:=2}"),
                ("${T[b]}", "set -u; declare -A T=([a]=1)\ntorchrun a.py ${T[b]}"),
                ("${T[b]}", 'set -u; declare -A T=([a]=1)\nif [ "${T[b]}" = 1 ]; then :; fi\ntorchrun a.py'),
                ("$((T[b]))", "declare -A T=([b]=$HOSTNAME)\ntorchrun a.py $((T[b]))"),
                ("${T[@]}", "declare -A T=([a]=$X); ((T[a]++))\ntorchrun a.py ${T[@]}"),
                ("$OPTIND", "set -- -n 4; while getopts n: o; do N=1; done\ntorchrun a.py $OPTIND"),
                ("$o", "f() { while getopts n: o; do :; done; }\nf -n 4; torchrun a.py $o"),
                ("$X", "v=12; [[ $v =~ ^[0-9]+$ ]] && X=1\ntorchrun a.py $X"),
                ("$X", "read X <<< 'a\\\\b'\ntorchrun a.py $X"),
                ("$X", "shopt -s nocasematch; v=A; [[ $v =~ a ]] && X=1\ntorchrun a.py $X"),
                ("$X", "[[ a < b ]] && X=1\ntorchrun a.py $X"),
                ("$((1 << 2))", "torchrun a.py $((1 << 2))"),
                ("$(echo a,b | cut -d, -f1)", "torchrun a.py $(echo a,b | cut -d, -f1)"),
                ("$(f)", "f() { echo a; return 1; }\ntorchrun a.py $(f)"),
                ("$1", 'set -u; f() { torchrun a.py "x$1"; }; f'),
                ("${V/a}", "set -u\nX=${V/a}\ntorchrun a.py"),
                ("$(N)", "include x.mk\nN ?= 2\nt:\n\ttorchrun a.py $(N)\n"),
            )
        ),
        ("declare -n R=X; X=1; R=2; torchrun a.py $X", "$X (declare -n)", "value"),
        ("torchrun a.py ${HOSTNAME:-a}", "${HOSTNAME:-a}, which has no value", "value"),
        ("torchrun a.py ${BASH_REMATCH[0]:-a}", "${BASH_REMATCH[0]:-a}, which has no value", "value"),
        ("torchrun a.py $(cd d; echo $?)", "$(cd d; echo $?), which has no value", "value"),
        ("mkdir d && command -v g && X=1\ntorchrun a.py ${X:-2}", "$X (set in a condition)", "value"),
        ("while read i; do [ -z $i ] && X=1; done < l; torchrun a.py ${X:-2}", "$X (set in", "value"),
        ("seq 3 | while read i; do [ $i = 3 ] && torchrun a.py; done", "or condition (while)", "bash"),
        ("if [ $SKY_NODE_RANK = 0 ]; then torchrun a.py; else torchrun b.py; fi", "(if)", "bash SCRIPT"),
        ("[ $JOB_COMPLETION_INDEX = 0 ] && X=1; torchrun a.py ${X:-2}", "$X (set in", "value"),
        ("false | true; torchrun a.py $?", "the line has $?, which", "value"),
        ("X=$(a b); torchrun a.py $?", "the line has $?, which has no value", "value"),
        ("declare -i X\nX=$(nproc)\ntorchrun a.py $X", "$(($(nproc))), which has no value", "write a value"),
    ],
)
def test_what_the_text_does_not_decide_is_refused(text: str, message: str, fix: str) -> None:
    with pytest.raises(CommandRefused) as caught:
        require_values(parse_line(text))
    assert message in caught.value.message
    assert fix in caught.value.fix


@pytest.mark.parametrize("line", ["b slots=two", f"b slots={'9' * 5000}", "b:", "b 4"])
def test_a_hostfile_is_refused_with_the_line_of_its_mistake(tmp_path: Path, line: str) -> None:
    (tmp_path / "hosts").write_text(f"a slots=2\n{line}\n")
    with pytest.raises(BadInput, match=":2: expected HOST slots=N"):
        read_hostfile(str(tmp_path / "hosts"))


def test_braces_that_make_more_words_than_a_command_can_have_stay_as_they_are() -> None:
    assert expand_braces("{1..1000}") == tuple(map(str, range(1, 1001)))
    assert expand_braces("{a,b}{1..500}")[499:501] == ("a500", "b1")
    for word in ("{1..1001}", "{a,b}{1..501}"):
        assert expand_braces(word) == (word,)


@pytest.mark.parametrize(("rounds", "length"), [(1000, 1), (1, 400_000), (2, 200_000)])
def test_loops_and_functions_are_read_until_their_limits(rounds: int, length: int) -> None:
    replays = Replays(str)
    for _ in range(rounds):
        replays.count("x" * length)
    with pytest.raises(CommandRefused, match="do not end soon"):
        replays.count("x")


_SPAWNING = "python a.py --dist-url tcp://a:1 --multiprocessing-distributed"


@pytest.mark.parametrize(
    ("text", "said", "fix"),
    [
        (
            "for i in 0 1 2; do python a.py --rank $i --world-size 3 --gpu $i & done; wait",
            "starts the 3 ranks of one training itself, each with its --rank and --gpu",
            "gpulaunch run --hosts A --gpus 3 -- torchrun a.py --world-size 3",
        ),
        (
            "for i in 0 1; do CUDA_VISIBLE_DEVICES=$i python a.py --local_rank=$i & done",
            "each with its CUDA_VISIBLE_DEVICES and --local_rank",
            "--gpus 2 -- python -m torch.distributed.launch a.py",
        ),
        (
            "RANK=0 LOCAL_RANK=0 python -m a &\nRANK=1 LOCAL_RANK=1 python -m a",
            "each with its RANK and LOCAL_RANK",
            "-- torchrun -m a",
        ),
        (
            "ssh -p 22 b 'cd d; torchrun --node_rank 1 a.py' &\ntorchrun --node_rank 0 a.py",
            "on several hosts by ssh",
            "run --hosts localhost,b -- 'cd d; torchrun a.py'",
        ),
        (
            "ssh -E log a torchrun --node_rank 0 a.py\nssh -E log b torchrun --node_rank 1 a.py",
            "on several hosts by ssh",
            "run --hosts a,b -- 'torchrun a.py'",
        ),
        (
            "for h in a b; do sudo ssh $h torchrun --node_rank 1 a.py & done",
            "on several hosts by ssh",
            "run --hosts a,b -- 'torchrun a.py'",
        ),
        ("clush -bw n[1-2] uptime", "on hosts of its own", "leave it out, and write --hosts A,B"),
        ("pssh -h h.txt -i torchrun a.py", "of its own", '--hosts "$(paste -sd, h.txt)" -- \'torchrun a.py'),
        ('pssh -H "n1 n2" -i torchrun a.py', "of its own", "--hosts n1,n2 -- 'torchrun a.py'"),
        ("pdsh -w n[1-2] torchrun a.py", "of its own", "--hosts 'n[1-2]' -- 'torchrun a.py'"),
        ("--nproc_per_node=2 a.py", "an option: its program is missing", "write torchrun in front of it"),
        ("--num_gpus 2 a.py", "an option: its program is missing", "write deepspeed in front of it"),
        ("--mixed_precision fp16 a.py", "program is missing", "write accelerate launch in front of it"),
        ("--lr 1e-3", "an option: its program is missing", "paste it from torchrun"),
        ("torchrun --nodes=2 a.py", "has no option --nodes", "did you mean --nnodes?"),
        ("torchrun --gpus 4 a.py", "has no option --gpus", "did you mean --nproc_per_node?"),
        ("accelerate launch --nodes 2 a.py", "has no option --nodes", "did you mean --num_machines?"),
        ("accelerate launch --nproc_per_node 2 a.py", "has no option", "did you mean --num_processes?"),
        ("deepspeed --nnodes 2 a.py", "has no option --nnodes", "did you mean --num_nodes?"),
        ("composer --nodes 2 a.py", "has no option --nodes", "leave out others"),
        ('X = ["torchrun", "a.py"]', "gives X a list as Python has it", "the words of the list alone"),
        ('{"cmd": "torchrun a.py --lr 1"}', "starts with {cmd:", "run --hosts A,B -- torchrun a.py --lr 1"),
        (
            "".join(f"Node {at}:\n{_SPAWNING} --world-size=2 --rank {at} d\n" for at in range(2)),
            "starts the 2 nodes of one training itself, each with its --rank",
            "gpulaunch run --hosts A,B -- torchrun a.py --dist-url env:// d",
        ),
        (
            "gcloud compute ssh vm --zone a --command 'cd app && torchrun --nproc_per_node=8 a.py'",
            "a scheduler of its own",
            "-- 'cd app && torchrun --nproc_per_node=8 a.py'",
        ),
        (
            "while read -r h; do ssh -n $h 'torchrun --nnodes 2 --node_rank 1 a.py' & done < hosts",
            "once for each node, and does not say them all (while)",
            "--hosts A,B -- 'torchrun --nnodes 2 a.py'; of hosts in a file: --hosts \"$(paste -sd, FILE)\"",
        ),
        (
            "for i in $(seq $N); do srun -N1 -w ${n[$i]} torchrun --node_rank=$i --nnodes 2 a.py & done",
            "once for each node, and does not say them all (for)",
            "--hosts A,B -- 'torchrun --nnodes 2 a.py'",
        ),
        ("while read h; do ssh $h hostname; torchrun a.py; done < hosts", "condition (while)", "bash SCRIPT"),
        # no ranks of one training, and no one launch
        ("python a.py --gpu 0 &\npython a.py --gpu 1", "has 2 commands", "choose one: --launch 1"),
        ("python a.py --rank 0 &\npython a.py --rank 2", "has 2 commands", "choose one: --launch 1"),
        ("python a.py --rank 0 &\npython b.py --rank 1", "has 2 commands", "choose one: --launch 1"),
        ("ssh a torchrun a.py &\ntorchrun b.py", "has 2 commands", "choose one: --launch 1"),
    ],
)
def test_what_to_type_names_the_words_of_the_text(text: str, said: str, fix: str) -> None:
    with pytest.raises(CommandRefused, match=re.escape(said)) as caught:
        parse_line(text)
    assert fix in caught.value.fix
