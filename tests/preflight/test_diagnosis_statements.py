"""A program that states what it lacks continues without it; what raises, reports or ends by it does not."""

import pytest

from preflight.diagnosis.diagnose import diagnose

_ABOVE, _BEHIND = "Loading config\nUsing device: cuda:0\n", "Building model\nLoading base.pt\nCompiling\n"


def _first(log: str) -> tuple[str, str]:
    causes = diagnose(log).causes
    return (causes[0].code, causes[0].confidence) if causes else ("", "")


_STATED = [
    "Flash attention 2 is not installed",
    "`flash-attn` package not found, consider installing: No module named 'flash_attn'.",
    "The installed version of bitsandbytes was compiled without GPU support.",
    "'NoneType' object has no attribute 'cadam32bit_grad_fp32'",
    "TensorBoard could not bind to port 6006, it was already in use",
    "Port 6006 is in use, trying 6007",
    "Address already in use, trying another port",
    "error: XDG_RUNTIME_DIR not set in the environment.",
]


@pytest.mark.parametrize("said", _STATED)
@pytest.mark.parametrize("behind", ["step 1 loss 2.0\nstep 2 loss 1.9\nstep 3 loss 1.8\n", _BEHIND])
def test_what_a_program_states_and_continues_without_is_not_blamed(said: str, behind: str) -> None:
    assert _first(f"{_ABOVE}{said}\n{behind}") == ("", "")


def test_a_package_that_is_replaced_is_not_blamed() -> None:
    assert _first(f"{_ABOVE}No module named 'apex'; using the default optimizer\n{_BEHIND}") == ("", "")


@pytest.mark.parametrize(
    ("log", "code"),
    [
        (f"{_ABOVE}Flash attention 2 is not installed\nsrun: error: n1: task 0: Killed\n", "S27"),
        (f"{_ABOVE}ModuleNotFoundError: No module named 'flash_attn'\n{_BEHIND}", "S27"),
        (f"{_ABOVE}/usr/bin/python3: No module named accelerate\n", "S89"),
        (f"{_ABOVE}ERROR: TensorBoard could not bind to port 6006, it was in use\n{_BEHIND}", "S121"),
        ("Found no NVIDIA driver on your system. Please check that you\nhave a GPU and a driver\n", "S37"),
        ('daemon: could not select device driver "" with capabilities: [[gpu]].\n\nRun a\n', "S37"),
        ("OSError: [Errno 98] Address already in use\nclosing\nbye\nend\n", "S50"),
        ("bind: Address already in use\n", "S50"),
    ],
)  # fmt: skip
def test_what_raises_reports_or_ends_is_blamed(log: str, code: str) -> None:
    assert _first(log)[0] == code


def test_a_count_that_a_script_requires_is_not_a_package() -> None:
    assert _first(f"{_ABOVE}ERROR: This script requires at least 2 GPUs, found 1\n")[0] == "S119"
    assert (
        _first(f"{_ABOVE}ImportError: This example requires a source install of transformers\n")[0] == "S89"
    )


def test_a_side_program_that_the_host_lacks_did_not_end_the_run() -> None:
    missed = "/job/slurm_script: line 4: nvidia-smi: command not found\n"
    assert _first(f"{missed}{_ABOVE}{_BEHIND}")[1] in ("", "possible")
    assert _first(missed) == ("S37", "certain")


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("[1]+  Killed                  nohup python train.py > out.log 2>&1", "S70"),
        ("[2]-  Killed                  CUDA_VISIBLE_DEVICES=1 python train.py", "S70"),
        ("./run.sh: line 3: 812 Abort trap: 6           python train.py", "S69"),
        ("Terminated: 15", "S78"),
    ],
)
def test_a_shell_names_the_signal(ending: str, code: str) -> None:
    assert _first(f"step 1 loss 2.0\nstep 2 loss 1.9\n{ending}\n")[0] == code


@pytest.mark.parametrize(
    "log",
    [
        "[1]+  Running                 nohup python train.py &\nstep 1 loss 2\nstep 2 loss 1\n",
        "[1]+  Killed   python a.py\nstep 1 loss 2.0\nstep 2 loss 1.9\nstep 3 loss 1.8\nTraining complete\n",
    ],
)
def test_jobs_of_a_shell_that_continue_are_healthy(log: str) -> None:
    assert _first(log) == ("", "")


@pytest.mark.parametrize(
    "said",
    [
        "Unknown command line flag 'lr'. Did you mean: lo ?",
        "flag --dir=None: Flag --dir must have a value other than None.",
    ],
)
def test_flags_that_absl_refuses_are_named(said: str) -> None:
    cause = diagnose(f"FATAL Flags parsing error:\n  {said}\nPass --helpfull to see help on flags.\n").causes[
        0
    ]
    assert cause.code == "S98"
    assert cause.cause.endswith(said)


def test_a_path_that_lacks_at_a_start_is_the_last_word_of_it() -> None:
    for said in ("Config file configs/a.yaml does not exist!", "Dataset directory /data/imagenet not found."):
        assert _first(f"{_ABOVE}{said}\n")[1] == "possible"
        assert _first(f"{_ABOVE}step 1 loss 2.0\nstep 2 loss 1.9\nstep 3 loss 1.8\n{said}\n") == ("", "")
        assert _first(f"{_ABOVE}{said}\nusing the defaults\n{_BEHIND}") == ("", "")


def _steps(name: str, *values: str) -> str:
    return "".join(f"step={at} {name}={value} acc=0.1\n" for at, value in enumerate(values, start=1))


def test_an_objective_that_stays_nan_is_lost() -> None:
    for name in ("L", "avg_L", "mse", "elbo", "kl"):
        assert _first(_steps(name, "0.3", "0.2", "0.2", *["nan"] * 5)) == ("S11", "likely")


@pytest.mark.parametrize(
    "log",
    [
        _steps("L", *["nan"] * 9),
        _steps("L", "0.3", "0.2", "0.2", *["nan"] * 4),
        _steps("L", "0.3", "0.2", "0.2", *["nan"] * 5, "0.2"),
        _steps("auc", "0.3", "0.2", "0.2", *["nan"] * 5),
        _steps("L", "0.3", "0.2", "0.2", *["nan"] * 5) + "step=9 loss=0.2\nstep=10 loss=0.1\n",
        "L=0.3\nL=0.2\nL=0.1\n" + "L=nan\n" * 6,
    ],
)
def test_an_objective_that_was_none_or_recovers_is_healthy(log: str) -> None:
    assert _first(log) == ("", "")


def test_a_rank_that_gave_no_nccl_id_is_not_a_node_that_never_joined() -> None:
    said = (
        "DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0]"
        " via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout"
    )
    cause = diagnose(f"{_ABOVE}{said}\n").causes[0]
    assert cause.code == "S49"
    assert "NCCL's id" in cause.cause
    assert "rank 0's log" in cause.fix


_PTH = """Error processing line 1 of /v/lib/python3.11/site-packages/distutils-precedence.pth:

  Traceback (most recent call last):
    File "<frozen site>", line 195, in addpackage
    File "<string>", line 1, in <module>
  ModuleNotFoundError: No module named '_distutils_hack'

Remainder of file ignored
"""
_CUSTOMIZED = (
    "Error in sitecustomize; set PYTHONVERBOSE for traceback:\n"
    "ModuleNotFoundError: No module named 'coverage'\n"
)


@pytest.mark.parametrize("ignored", [_PTH, _CUSTOMIZED])
def test_what_python_ignores_of_its_start_files_is_not_blamed(ignored: str) -> None:
    raised = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    import apex\n'
    assert _first(f"{ignored}{_ABOVE}{_BEHIND}") == ("", "")
    assert _first(f"{ignored}step 1 loss 2.0\nstep 2 loss 1.9\n") == ("", "")
    cause = diagnose(f"{ignored}{raised}ModuleNotFoundError: No module named 'apex'\n").causes[0]
    assert (cause.code, cause.evidence[0].text) == ("S89", "ModuleNotFoundError: No module named 'apex'")
