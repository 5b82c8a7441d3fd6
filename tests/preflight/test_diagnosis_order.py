"""Which of several messages is believed: the last run's, an exception's, not what the run survived."""

import pytest

from preflight.diagnosis.diagnose import diagnose
from tests.preflight.diagnosis_logs import STEPS, TYPE_ERROR

BANNER = "Loaded module: python/3.11 for user alice\nStarting the job 12 on node-3 at 08:00:01\n"
SOCKET = "[E socket.cpp:500] [c10d] The server socket has failed to listen on any local network address.\n"
CANCELLED = "slurmstepd: error: *** JOB {} ON node-3 CANCELLED AT 2024-07-09T14:25:08 ***\n"
NO_GIT = """Traceback (most recent call last):
  File "/usr/lib/python3.11/subprocess.py", line 1026, in __init__
    self._execute_child(args)
FileNotFoundError: [Errno 2] No such file or directory: 'git-lfs'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 3, in <module>
    login()
ValueError: no credentials for the model registry
"""
OWN_IMPORT = """Traceback (most recent call last):
  File "train.py", line 1, in <module>
    from utils.general import masks
ImportError: cannot import name 'masks' from 'utils.general' (/home/alice/yolo/utils/general.py)
"""


AGAIN = "the run exited with code 1, restarting the training\n"
OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory\n"
WATCHDOG = (
    "[rank0]:[E] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE,"
    " Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
)
CONFIG = "[INFO] [config.py:958:print]   float16_config ... enabled=True loss_scale=0.0 scale_power=16\n"
NO_TPU = (
    "05:12:08 [I] Unable to initialize backend 'tpu': Failed to open libtpu.so: cannot open shared object"
    " file: No such file or directory\n"
)
GATED = """Traceback (most recent call last):
httpx.HTTPStatusError: Client error '401 Unauthorized' for url 'https://hub.example/a/b/resolve/main/config.json'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
huggingface_hub.errors.GatedRepoError: 401 Client Error.

Access to model a/b is restricted. You must have access to it and be authenticated to access it.
"""


NEVER_CAME = """[1,1]<stderr>:bash: line 1: torchrun: command not found
[1,0]<stderr>:torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients.
"""
REFUSED_TRACKER = """[rank1]: wandb: ERROR Error while calling W&B API: permission denied (<Response [403]>)
[rank1]: loaded
[rank0]: torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 2/3 clients
"""
CLOSED = "torch.distributed.elastic.rendezvous.api.RendezvousClosedError\n"
DUMPS = "[rank1]:[E602 NCCL.cpp:17] Received a dump signal due to a time-out: we will try to write\n"
OUT_OF_STEP = """Traceback (most recent call last):
  File "/opt/torch/distributed/distributed_c10d.py", line 2547, in _tensor_to_object
EOFError: Ran out of input
"""
PIPED = f"""download failed: s3://b/7.tar An error occurred (ExpiredToken) when calling GetObject
{TYPE_ERROR.rpartition("TypeError")[0]}OSError: (('aws s3 cp s3://b/7.tar -',), {{}}): exit 1 (read) {{}}
"""
SOCKET_LOG = (
    "[E socket.cpp:462] [c10d] The server socket has failed to listen on any local network address.\n"
)
LIGHTNING = (
    "/opt/venv/lib/python3.11/site-packages/pytorch_lightning/loops/prediction_loop.py:302: Couldn't infer"
    " the batch indices fetched from your dataloader: `DataLoader`\n"
)
RETRYING = (
    "WARNING:urllib3.connectionpool:Retrying (Retry(total=1)) after connection broken by"
    " 'NewConnectionError('<x>: Failed to establish a new connection: [Errno 113] No route to host')': /api\n"
)
NODE_LOST = """slurmstepd: error: *** STEP 44.0 ON n1 CANCELLED AT 2025-03-01T10:00:00 DUE TO NODE FAILURE ***
srun: error: n2: tasks 4-7: Killed
"""
TWO_RUNS = """\
Traceback (most recent call last):
  File "/home/ana/ft/train.py", line 20, in <module>
    from brain import Brain
  File "/home/ana/ft/brain.py", line 63
    def f(self):
                ^
IndentationError: unindent does not match any outer indentation level
Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/torch/serialization.py", line 1004, in save
    _save(obj)
RuntimeError: ios_base::badbit set: iostream stream error

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/ana/ft/train.py", line 168, in <module>
    torch.save(state, path)
  File "/opt/venv/lib/python3.11/site-packages/torch/serialization.py", line 835, in __exit__
    self.file_like.write_end_of_file()
RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 228062784 vs 228062672
"""
POWERSHELL = """\
uv :
At line:1 char:16
+ uv run python ./train.py --name all_features --epochs
+ ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
    + CategoryInfo          : NotSpecified: (:String) [],
    + FullyQualifiedErrorId : NativeCommandError
A module that was compiled using NumPy 1.x cannot be run
 in NumPy 2.0.2 as it may crash.
C:\\Users\\ana\\ft\\.venv\\lib\\site-packages\\torch\\random.py:
46: UserWarning: Failed to initialize NumPy: _ARRAY_API n
ot found
Traceback (most recent call last):
torch_version:2.0.1+cpu
CUDA_version:None
the arguments of this run, in one line that stdout writes whole: name=all_features epochs=1
  File "C:\\Users\\ana\\ft\\train.py", line 108, in train_all
    with open(saved_model_path + "checkpoints.json", 'w',
 encoding='utf-8') as out:
FileNotFoundError: [Errno 2] No such file or directory: 'o
utput/all_features/model/checkpoints.json'
"""


@pytest.mark.parametrize(
    ("log", "codes"),
    [
        (BANNER + STEPS + TYPE_ERROR + BANNER + STEPS * 2, []),
        (BANNER + STEPS + OOM + BANNER + STEPS + TYPE_ERROR, ["S00", "S20"]),
        (TYPE_ERROR + CANCELLED.format(1) + STEPS * 2 + CANCELLED.format(2), ["S78", "S00"]),
        (SOCKET + "Initialized (rank/world-size) 0/1\n" + CANCELLED.format(7), ["S78", "S50"]),
        (SOCKET + "RuntimeError: The server socket has failed to listen: EADDRINUSE\n", ["S50"]),
        ("Flash Attention 2 only supports torch.float16 and torch.bfloat16 dtypes, but the current dype in"
         " Qwen2ForCausalLM is torch.float32.\n" + TYPE_ERROR, ["S00"]),
        ("Disk quota exceeded while the cache was written\n" + TYPE_ERROR, ["S00", "S76"]),
        (NO_GIT, ["S00"]),
        (OWN_IMPORT, ["S00"]),
        (OWN_IMPORT.replace("/home/alice/yolo", "/opt/venv/lib/python3.11/site-packages"), ["S89"]),
        ("nohup: ignoring input\n" + TYPE_ERROR + "nohup: ignoring input\n" + STEPS * 2, []),
        ("CondaError: Run 'conda init' before 'conda deactivate'\n" + STEPS, []),
        ("".join(TYPE_ERROR.splitlines(keepends=True)[1:]), ["S00"]),
        (CONFIG * 4, []),
        (NO_TPU + STEPS + CANCELLED.format(3), ["S78"]),
        ("Terminated at Fri Apr 25 11:32:20 2025\nExited with exit code 1.\n", ["S99"]),
        ("urllib.error.URLError: <urlopen error [Errno 101] Network is unreachable>\n", ["S82"]),
        (GATED, ["S80", "S81"]),
        (NEVER_CAME, ["S110", "S52"]),
        ("slurmstepd-n2: error: execve(): accelerate: No such file or directory\n", ["S110"]),
        (NEVER_CAME.replace("[1,1]", "[1,0]"), ["S52", "S110"]),
        (REFUSED_TRACKER, ["S52", "S115"]),
        (PIPED, ["S81", "S82"]),
        (SOCKET_LOG + "Test: [10/391]  Loss 0.4760 (0.3579)\n" * 3, []),
        (STEPS + LIGHTNING, []),
        (TWO_RUNS, ["S76", "S00"]),
        (POWERSHELL, ["S92", "S104"]),
        (RETRYING * 2 + TYPE_ERROR, ["S00"]),
        (NODE_LOST, ["S96", "S70"]),
        ("W0409 api.py:719] Received 15 death signal, shutting down workers\n" + CLOSED, ["S78", "S52"]),
        (OUT_OF_STEP, ["S62"]),
        (DUMPS, ["S54"]),
        ("DeepEP timeout check failed: rank = 6, thread = 0, value = 0)\n" * 2, ["S54"]),
        (":0:rocdevice.cpp :3018: aborting with error : HSA_STATUS_ERROR_INVALID_ISA\n", ["S32"]),
    ],
    ids=[
        "a second run that is well", "the second run's own failure", "jobs appended",
        "a socket that was not needed", "a socket that was", "a warning of dtypes",
        "a plain line before an exception", "an exception while one is handled",
        "an own module", "a package's module", "nohup twice", "conda's word",
        "a traceback without its head",
        "a printed config", "a backend that is not there",
        "the scheduler's summary", "no way to a server", "a gated repository",
        "a node that could not come", "a program that srun lacks", "a node that came",
        "a tracker that refused", "a program's exit raised", "ports that were tried",
        "Lightning's warning",
        "two runs, of the last the second exception", "stderr that PowerShell cut, with stdout in between",
        "a client that tried again", "a node that failed",
        "a stopped agent", "ranks out of step", "a dump", "DeepEP's wait", "AMD's code",
    ],
)  # fmt: skip
def test_what_ended_the_run_comes_first(log: str, codes: list[str]) -> None:
    assert [cause.code for cause in diagnose(log).causes] == codes


@pytest.mark.parametrize(
    ("numbers", "code"),
    [
        ((46,), "S30"), ((10, 101), "S31"), ((8, 48, 98, 200, 209, 218), "S32"), ((35, 36, 222), "S35"),
        ((34, 38, 100), "S37"), ((74, 75, 77, 700, 716, 717), "S38"), ((4, 73, 76, 715, 718, 719), "S125"),
        ((39, 72, 214, 220, 226, 714), "S40"), ((30, 304, 805, 806, 807, 808, 809, 999), "S41"),
        ((59, 710), "S123"), ((3,), "S100"), ((7, 701), "S101"),
    ],
)  # fmt: skip
def test_a_number_of_cuda_means_what_its_header_says(numbers: tuple[int, ...], code: str) -> None:
    logs = [
        f"RuntimeError: cuda runtime error ({number}) : see the header at Copy.cu:35\n" for number in numbers
    ]
    assert [[cause.code for cause in diagnose(log).causes] for log in logs] == [[code]] * len(numbers)


def test_of_a_run_that_was_started_again_a_thousand_times_the_last_start_counts() -> None:
    causes = diagnose((TYPE_ERROR + AGAIN) * 1000 + OOM).causes
    assert [(cause.code, cause.evidence[0].line) for cause in causes] == [("S20", 7001), ("S00", 6999)]


def test_a_run_that_is_well_says_how_the_one_before_it_ended() -> None:
    diagnosis = diagnose("nohup: ignoring input\n" + OOM + "nohup: ignoring input\n" + STEPS * 2)
    assert (diagnosis.verdict, diagnosis.causes) == ("benign", ())
    assert [(note.code, note.safe, note.line) for note in diagnosis.warnings] == [("S20", False, 2)]
    assert "up to line 2" in diagnosis.warnings[0].verdict


def test_a_run_that_outlived_its_only_error_says_nothing_of_a_run_before() -> None:
    assert diagnose("nohup: ignoring input\n" + STEPS * 3).warnings == ()


def test_an_exception_that_a_person_quotes_above_a_run_that_is_well_is_none_of_that_run() -> None:
    quote = "The old loader raised TypeError: 'NoneType' object is not iterable, so rows are filtered now.\n"
    steps = "".join(f"epoch {n} loss {3 - n / 10}\n" for n in range(4))
    assert diagnose(quote + steps).verdict == "benign"
    assert diagnose(steps + quote).verdict == "user-exception"


@pytest.mark.parametrize(
    ("times", "behind", "end", "verdict"),
    [
        pytest.param(12, 2, "", "benign", id="Ray's workers outlive it each time"),
        pytest.param(12, 0, "", "local-server", id="nothing is behind the last one"),
        pytest.param(2, 2, "", "local-server", id="too few to say so"),
        pytest.param(12, 1, OOM, "cuda-oom", id="another failure behind the last one"),
        pytest.param(12, 1, "Killed\n", "host-oom-killed", id="a kill behind the last one"),
        pytest.param(12, 1, WATCHDOG, "nccl-timeout-watchdog", id="a warning behind the last one"),
    ],
)
def test_what_workers_outlive_time_and_again_ends_no_run(
    times: int, behind: int, end: str, verdict: str
) -> None:
    frames = ("Traceback (most recent call last):", '  File "/app/reward.py", line 3, in score')
    raised = (
        "requests.exceptions.ReadTimeout: HTTPConnectionPool(host='10.0.0.9', port=8000): Read timed out."
    )
    error = "".join(f"(Worker pid=21) {text}\n" for text in (*frames, raised))
    step = "(Runner pid=15) step:{} - actor/loss:0.12\n"
    log = "".join(step.format(number) + error for number in range(times))
    log += "".join(step.format(times + number) for number in range(behind))
    assert diagnose(log + end).verdict == verdict


_NO_ROWS = """Traceback (most recent call last):
  File "/app/train.py", line 8, in <module>
    main()
ValueError: no rows
"""


def _loop(first: int, last: int, form: str = "step {} loss 0.{}") -> str:
    return "".join(form.format(turn, turn) + "\n" for turn in range(first, last))


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        (_loop(0, 4) + _NO_ROWS + "sample images skipped\n" + _loop(4, 8), "benign"),
        (_loop(0, 4) + "skipping x.jpg\n" + _NO_ROWS + _loop(4, 8), "benign"),
        (
            _loop(0, 4, "{}/8 elbo 0.{}") + _NO_ROWS + "samples skipped\n" + _loop(4, 8, "{}/8 elbo 0.{}"),
            "benign",
        ),
        (_loop(0, 5) + "exit code 143, starting again\nresuming from step 4\n" + _loop(5, 9), "benign"),
        (_loop(0, 4) + _NO_ROWS + _loop(4, 8), "user-exception"),
        (_loop(0, 4) + _NO_ROWS + "sample images skipped\n" + _loop(4, 6), "user-exception"),
        (_NO_ROWS + "sample images skipped\n" + _loop(0, 8), "user-exception"),
        (
            (_loop(0, 4) + "ERROR config failed, continuing with the next one\n" + _NO_ROWS) * 4,
            "user-exception",
        ),
        (_loop(0, 4) + "ERROR: using old weights\n" + _NO_ROWS + _loop(4, 6), "user-exception"),
        (_loop(0, 4) + "skipping the rest, exiting\n" + _NO_ROWS + _loop(4, 8), "user-exception"),
        (_loop(0, 4) + "skipping x.jpg\n" + _NO_ROWS + _loop(0, 9, "shard {} of {}"), "user-exception"),
        (_loop(0, 500) + "skipping x.jpg\n" + _NO_ROWS + _loop(500, 504), "user-exception"),
        (
            "".join(f"ERROR part {turn} skipped\n{_NO_ROWS}{turn} of 9 read\n" for turn in range(6)),
            "user-exception",
        ),
        (
            "ERROR stage finetune failed, continuing\n" + _NO_ROWS + _loop(0, 9, "{} of {} rated"),
            "user-exception",
        ),
        (
            _loop(0, 4) + "Exception in thread Thread-4:\n" + _NO_ROWS + _loop(1, 9, "{} s, queue {}"),
            "user-exception",
        ),
        (_loop(0, 4) + _NO_ROWS + "Falling back to the model of before\nDone.\n", "user-exception"),
        (
            _loop(3, 9, "{0}/99 [00:0{0}, 2.1it/s, loss=1.{1}]")
            + "".join(f"[rank1]: {line}\n" for line in _NO_ROWS.splitlines())
            + _loop(3, 9, "1{0}/99 [00:1{0}, 2.1it/s, loss=1.{1}]"),
            "user-exception",
        ),
        ("Done training epoch 2\nERROR: the index is cut off\n", "unknown"),
    ],
    ids=[
        "below",
        "above",
        "turns",
        "resumed",
        "no words",
        "few",
        "none before",
        "each run",
        "few behind a record",
        "ends",
        "another loop",
        "a buffer full",
        "each turn",
        "a stage",
        "waiting",
        "a shell's echo",
        "a peer",
        "done with an epoch",
    ],
)
def test_steps_behind_an_exception_count_where_the_program_says_that_it_goes_on(
    log: str, verdict: str
) -> None:
    assert diagnose(log).verdict == verdict


@pytest.mark.parametrize(
    ("died", "verdict"),
    [
        ("job.sh: line 14:  2201 Killed                  python train.py", "host-oom-killed"),
        ("job.sh: line 14:  2201 Aborted                 torchrun train.py", "sigabrt"),
        ("Out of memory: Killed process 2211 (python) total-vm:88123412kB", "host-oom-killed"),
        ("job.sh : ligne 14 :  2201 Processus arrêté      python train.py", "host-oom-killed"),
        ("job.sh: Zeile 14: 2201 Speicherzugriffsfehler  (Speicherabzug) python train.py", "segfault"),
        ("srun: error: gpu3: task 2: Out Of Memory", "host-oom-killed"),
        ("train.py: error: unrecognized arguments: --foo", "user-exception"),
        ("/usr/bin/python: No module named accelerate", "missing-module"),
        ("NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.", "gpu-lost"),
        (
            "[E211 04:33:10.1 P.cpp:62] [Rank 5] Watchdog caught collective operation timeout: WorkNCCL(",
            "nccl-timeout-watchdog",
        ),
        ("error: XDG_RUNTIME_DIR not set in the environment.", "benign"),
        ("srun: error: ioctl(TIOCGWINSZ): Inappropriate ioctl for device", "benign"),
        ("job.sh: line 14:  2201 Killed                  nvidia-smi dmon", "benign"),
        ("job.sh: line 14:  2201 Terminated              python monitor.py", "benign"),
    ],
)
def test_what_a_script_prints_behind_what_died_is_no_end(died: str, verdict: str) -> None:
    """Steps that come behind it show that something lived, a helper that was killed among them."""
    assert diagnose(f"{STEPS}{died}\nTraining finished\n").verdict == verdict
    assert diagnose(f"{died}\n{STEPS}Training finished\n").verdict == "benign"


_STUDENT = "".join(f"2026-03-01 11:00:0{n} student {n}/9 kd_loss: 1.{n}\n" for n in range(9))
_FITTED = "Epoch 0: 100%|#| 9/9 [00:30<00:00, 1.9it/s]\n`Trainer.fit` stopped: `max_epochs=1` reached.\n"
_OF_RANK = "".join(f"0: {line}\n" for line in STEPS.splitlines())
_THREAD = """Exception in thread NetStatThr:
Traceback (most recent call last):
  File "/usr/lib/python3.11/threading.py", line 1016, in _bootstrap_inner
    self.run()
BrokenPipeError: [Errno 32] Broken pipe
"""


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        (_NO_ROWS + "Training finished, see results/\n", "user-exception"),
        (_NO_ROWS + "[3/3] evaluate\nloaded ckpt\nFinal accuracy: 0.71\n", "user-exception"),
        (_NO_ROWS + "[2/2] student\n" + _STUDENT + "All done\n", "user-exception"),
        (STEPS + TYPE_ERROR + "[stage 2] from base\n" + STEPS + "Final loss: 0.4\n", "user-exception"),
        (TYPE_ERROR + "Restarting training is disabled\n" + STEPS + "Training finished\n", "user-exception"),
        (STEPS + "FAILED t/a.py::test_b - assert 1\n= 1 failed in 3.1s =\nTraining done\n", "user-exception"),
        (_NO_ROWS + "Worker group FAILED; will restart worker group\n" + _STUDENT + "All done\n", "benign"),
        (_NO_ROWS + "halving batch size to 32\n" + STEPS + "Training finished in 3 s\n", "benign"),
        (STEPS + "ERROR: 100 steps without a finite loss, aborting training\nTraining done\n", "unknown"),
        (STEPS + "parallel: This job failed:\npython train.py --seed 3\nfinal accuracy 0.9\n", "unknown"),
        (STEPS + "Failed: CUDA out of memory. Tried 2.00 GiB\nTraining finished with errors\n", "cuda-oom"),
        (STEPS + "Killed background tensorboard (pid 8812)\nTraining finished\n", "benign"),
        (_FITTED + "[rank: 0] Received SIGTERM: 15\n", "benign"),
        (_FITTED + "Testing: 10%\n" + STEPS + "[rank: 0] Received SIGTERM: 15\n", "terminated"),
        (_FITTED + _THREAD + "model saved\n", "benign"),
        (_FITTED + _THREAD.replace("BrokenPipeError: [Errno 32] B", "ValueError: b"), "user-exception"),
        (_FITTED + "Testing: 10%|# | 1/10 [00:01<00:09, 1.0it/s]\nReceived SIGTERM: 15\n", "terminated"),
        (_NO_ROWS.replace("/app/train.py", "<stdin>") + _STUDENT + "All done\n", "user-exception"),
        ("t.py: error: no --data\n" + _loop(0, 30, "row {} of {}") + "Final loss: 0.4\n", "user-exception"),
        ("srun: error: n4: task 3: Segmentation fault\n" + _OF_RANK, "segfault"),
        ("srun: error: Unable to create step for job 9: busy\n" + _OF_RANK + "0: done in 3 s\n", "benign"),
    ],
)  # fmt: skip
def test_a_later_command_is_no_sign_that_a_script_lived_and_what_comes_when_it_was_done_none_that_it_died(
    log: str, verdict: str
) -> None:
    assert diagnose(log).verdict == verdict
