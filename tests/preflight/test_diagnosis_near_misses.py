"""Logs that have a rule's words and are another case: what a rule takes away must not be the cause."""

import pytest

from preflight.diagnosis.diagnose import diagnose
from tests.preflight.diagnosis_logs import STEPS

_HEAD = 'Traceback (most recent call last):\n  File "/w/t.py", line 31, in <module>\n    out = read(x)\n'
_OOM = _HEAD + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
_CANCELLED = "slurmstepd: error: *** JOB 4711 ON n1 CANCELLED AT 2026-03-01T10:00:00 ***\n"
_MISSING = "ModuleNotFoundError: No module named 'x'\n"
_STATUS = "subprocess.CalledProcessError: Command '{}' returned non-zero exit status 255.\n"
_RULE = "=" * 60
_SAMPLES = (
    f"=== completion 1 ===\nSegmentation fault\n{_RULE}\n=== completion 2 ===\nKeyError: 'x'\n{_RULE}\n"
)
_STEPS = "".join(f"step {n} loss {3 - n / 10:.2f}\n" for n in range(4))
_RECORDS = "".join(f'{{"level": "info", "msg": "step {n}", "loss": {3 - n / 10:.1f}}}\n' for n in range(6))
_ERROR = _RECORDS.replace("{", "{{").replace("}", "}}") + '{{"level": "error", "msg": "{}", "error": "{}"}}\n'
_STAMPED = "2026-03-01 10:00:00,000 - trainer - "


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        # An exception while a trainer samples, and the rule of the next report.
        (f"{_STEPS}==== generating samples ====\n{_OOM}{_RULE}\ntrain.py FAILED\n", "cuda-oom"),
        (f"{_STEPS}\n--- Generation at step 500 ---\n\n{_OOM}\n{'-' * 60}\n\n", "cuda-oom"),
        (f"=== starting the response server ===\n{_HEAD}{_MISSING}{_RULE}\n", "missing-module"),
        # A script is done with its data, or an epoch, and not with its training.
        ("Tokenizing the corpus\nDone\n" + _CANCELLED, "terminated"),
        ("reading shards\ndone.\nReceived SIGTERM, leaving\n", "terminated"),
        (_STEPS + "Evaluating\ndone.\n" + _CANCELLED, "terminated"),
        # The signal's name comes first, or is all that a logger says.
        (_STEPS + "2026-03-01 10:00:00,000 [INFO] handler: signal 15 received, saving\n", "terminated"),
        (_STEPS + "WARNING:train:SIGTERM (15) caught, checkpointing and exiting\n", "terminated"),
        (_STEPS + _STAMPED + "WARNING - SIGTERM\n", "terminated"),
        ("JobId=77 JobName=ft\n   JobState=TIMEOUT Reason=TimeLimit Dependency=(null)\n", "time-limit"),
        ("Slurm Job_id=1 Name=a Failed, Run time 00:01:13, TIMEOUT, ExitCode 0\n", "time-limit"),
        (_OOM.replace("memory. Tried", "memory occurred during CUDA graph capture. Tried"), "cuda-oom"),
        # 255 is no hang-up: exit(-1) and ssh leave it.
        (_STATUS.format("['python', 't.py']"), "unknown"),
        (_HEAD + _STATUS.format("ssh 10.0.0.1 hostname"), "ssh-access"),
        ("Error loading adapter: Can't find 'adapter_config.json' at '/c'\n", "bad-checkpoint"),
        (_STEPS + "./run.sh: line 4: 31337 File size limit exceeded (core dumped) python t.py\n", "storage"),
        (_STEPS + "Process Spawn-1 exited: died with <Signals.SIGXFSZ: 25>\n", "storage"),
        (_STEPS + "Killed by signal 1.\n", "sighup"),
        (_STEPS + "Killed by signal 9.\n", "host-oom-killed"),
        ("The command '/bin/sh -c python t.py' returned a non-zero code: 137\n", "host-oom-killed"),
        (f"The command '{'cd /w && ' * 60}python t.py' returned a non-zero code: 1\n", "unknown"),
        (_STEPS + "CUDA out of memory ... ok, leaving\n", "cuda-oom"),
        ("The command '/bin/sh -c python t.py' returned a non-zero code: 1\n", "unknown"),
        ("ERROR: No checkpoint found in /ckpt\n", "bad-checkpoint"),
        # A script's own last words, without a level.
        ("No GPU found, exiting\n", "unknown"),
        ("reading the settings\nHF_TOKEN not set. Exiting.\n", "unknown"),
        ("Not enough GPUs: 2 of 4. Aborting.\n", "unknown"),
        ("Exiting because world size 3 does not divide batch 8\n", "unknown"),
        ("{'text': 'hello', 'label': 1}\n" + _STEPS + _OOM, "cuda-oom"),
        (_STEPS + "skipping batch 7: CUDA out of memory\n" + _OOM, "cuda-oom"),
        # A field of data, and a failure beside it.
        ('ERROR worker: prompt="tell me" failed with CUDA out of memory. Tried 2 GiB\n', "cuda-oom"),
        (_STEPS + "ERROR CUDA out of memory for prompt='hello'\n", "cuda-oom"),
        (_STEPS + "run.sh: line 3: 771 Killed   PROMPT='hi' text='x'\n", "host-oom-killed"),
        (_STEPS + 'cannot write completion: "out/0.json": No space left on device\n', "disk-full"),
        (_STEPS + "could not write text='a.txt': No space left on device...\n", "disk-full"),
        (_STEPS + '{"text": "CUDA out of memory. Tried to allocate 2 GiB", "level": "ERROR"}\n', "cuda-oom"),
        (_STEPS + "prompt='hi' err='CUDA out of memory. Tried to allocate 2.00 GiB'\n", "cuda-oom"),
        (_STEPS + "failed: {'prompt': 'hi', 'note': 'CUDA out of memory. Tried 2.00 GiB'}\n", "cuda-oom"),
        (_STEPS + "{'prompt': 'hi', 'reason': 'CUDA out of memory. Tried 2.00 GiB'}\n", "cuda-oom"),
        # Words of a path, or of what a run lacks.
        (_HEAD + "FileNotFoundError: No checkpoint found in /scratch/me/run1\n", "bad-checkpoint"),
        ("ERROR No checkpoint found in /gpfs/scratch/x, aborting\n", "bad-checkpoint"),
        (_HEAD + "FileNotFoundError: No checkpoint found in out, training cannot resume\n", "bad-checkpoint"),
        (_HEAD + "Exception: wandb library is required but not available\n", "missing-module"),
        ("[ERROR] sentencepiece module is required but not found\n", "missing-module"),
        (_STEPS + "Caught SIGUSR1 to checkpoint; exiting\n", "time-limit"),
        (_STEPS + "INFO trainer: caught signal 15, stopping\n", "terminated"),
        (_STEPS + "INFO | Signal received: SIGTERM\n", "terminated"),
        (_STEPS + "Killed by signal 2.\n", "terminated"),
        (_STEPS + "Killed by signal 11.\n", "segfault"),
        (_ERROR.format("worker dropped out", "MemoryError: a"), "host-oom-killed"),
        (_ERROR.format("sample server dropped us", "OSError: [Errno 28] a"), "disk-full"),
        (_ERROR.format("cannot replace it", "OSError: [Errno 28] a"), "disk-full"),
    ],
)  # fmt: skip
def test_what_a_rule_takes_away_is_not_the_cause(log: str, verdict: str) -> None:
    assert diagnose(log).verdict == verdict


@pytest.mark.parametrize(
    "log",
    [
        f"{_STEPS}----- sample -----\nRuntimeError: CUDA out of memory\n{'-' * 18}\n{STEPS}",
        _STEPS + _SAMPLES + STEPS,
        f"{_STEPS}Training complete.\nlogger: received SIGTERM\n",
        "[info] wandb library is required but not available: logging to files only\n" + _STEPS,
        "SIGUSR1 will be sent 120 s before the limit; the trainer saves, exiting is left to Slurm\n" + _STEPS,
        "Signals: SIGUSR1 = checkpoint and stopping after the step, SIGUSR2 = checkpoint\n" + _STEPS,
        "WARNING:root:SIGTERM handler not set in this thread\n" + _STEPS,
        "[WARNING] trainer: SIGINT stops the run and saves; press twice to leave\n" + _STEPS,
        "On signal 15 received by rank 0 the ranks save together\n" + _STEPS,
        f"{_STEPS}Training finished\nKilled by signal 1.\n",  # ssh, as it leaves
        f"{_STEPS}Training finished\nKilled by signal 15.\n",
        'raises "CUDA out of memory" with a batch of 9999 ... ok\nRan 31 tests in 2.0s\n\nOK\n',
        f"{_STEPS}Saved final model to /out/final\nReceived SIGTERM, exiting\n",
        f"{_STEPS}Treinamento concluído\nReceived SIGTERM\n",
        f"{_STEPS}Saved final model to out\nConnection to gpu1 closed by remote host.\n",
        _OOM + "Ablation: 9 succeeded, 1 failed; results written to ablation.csv\n",
        "[WARNING] SIGTERM, SIGINT: handlers installed\n" + _STEPS,
        "INFO reload: SIGHUP received, configuration reloaded\n" + _STEPS,
        "Can't find 'adapter_config.json' at 'out/last': starting from the base model\n" + _STEPS,
        "No checkpoint found in out/; training from step 0\n" + _STEPS,
        "[loader] shard-0007: file size limit exceeded (2 GiB), split into 3 parts\n" + _STEPS,
        f"{_STEPS}Training complete\nclient: rsync returned a non-zero code: 24, files vanished\n",
        "{'id': 'a7', 'text': 'RuntimeError: CUDA out of memory. Tried to allocate 2 GiB'}\n" + _STEPS,
        "step 1 loss 3.0\nCUDA out of memory with batch 64: halving batch to 32\n" + STEPS,
        _STEPS + "No improvement for 5 epochs, exiting\n",
        _STEPS + "Not enough time left for another epoch; exiting\n",
        _STEPS + "Exiting: all 5 epochs done, nothing missing\n",
        "No new data, nothing to do. Exiting.\n",
        _RECORDS + '{"level": "error", "msg": "sample dropped", "error": "OSError: cut"}\n' + _RECORDS,
        "No checkpoint found in /ckpt, starting from scratch\n" + _STEPS,
        "Can't find a valid checkpoint at /ckpt. Starting fresh.\n" + _STEPS,
        "{'text': 'RuntimeError: CUDA out of memory. Tried to allocate 2 GiB', 'label': 1}\n" + _STEPS,
        'example 6: text="Segmentation fault (core dumped)" label=0 pred=0\n' + _STEPS,
    ],
)
def test_words_of_a_rule_in_another_sense_blame_nothing(log: str) -> None:
    assert diagnose(log).verdict == "benign"


def test_torch_prints_the_same_of_a_file_size_limit_as_of_a_full_disk() -> None:
    message = "RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534\n"
    firm = diagnose(_HEAD + "OSError: [Errno 28] No space left on device\n").causes[0]
    found = diagnose(_HEAD + message).causes[0]
    assert (found.code, found.confidence, firm.confidence) == ("S76", "likely", "certain")
    assert "ulimit -f" in found.fix


@pytest.mark.parametrize(("behind", "confidence"), [(0, "certain"), (40, "likely")])
def test_what_a_thread_raised_long_before_a_job_was_cancelled_is_not_certain(
    behind: int, confidence: str
) -> None:
    made = "".join(f"step {n} loss {3 - n / 100:.3f}\n" for n in range(20 + behind))
    place = made.index("step 19 ")
    raised = "Exception in thread Thread-5:\n" + _HEAD + "OSError: [Errno 28] No space left on device\n"
    found = diagnose(made[:place] + raised + made[place:] + _CANCELLED)
    assert {each.slug: each.confidence for each in found.causes}["disk-full"] == confidence


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/home/aim/ft/listen.py", "S50"),
        ("/data/dash/listen.py", "S50"),
        ("/home/u/lib/dash/listen.py", "S50"),
        ("/opt/venv/lib/python3.11/site-packages/aim/ext/server.py", "S121"),
        ("/usr/lib/python3.11/socketserver.py", "S121"),
        ("/usr/lib64/python3.9/socketserver.py", "S121"),
        ("C:\\Python311\\Lib\\socketserver.py", "S121"),
    ],
)
def test_a_port_is_of_another_server_where_its_package_asked_for_it(path: str, code: str) -> None:
    frame = f'  File "{path}", line 3, in bind\n    self.socket.bind(address)\n'
    assert diagnose(_HEAD + frame + "OSError: [Errno 98] Address already in use\n").causes[0].code == code


@pytest.mark.parametrize(
    "stop",
    [
        "slurmstepd: error: *** JOB 4211 ON n01 CANCELLED AT 2026-11-20T10:00:00 ***",
        "^C\nKeyboardInterrupt",
        "Received 15 death signal, shutting down workers",
        "Received SIGHUP",
        "Received SIGTERM",
    ],
)
def test_a_stop_behind_a_done_training_is_no_failure_and_one_behind_a_stage_is_one(stop: str) -> None:
    steps = "".join(f"step {n} loss {3 - n / 100:.3f}\n" for n in range(20))
    assert diagnose(steps + "Training complete.\n" + stop + "\n").verdict == "benign"
    assert diagnose(steps + "Training complete.\n" + steps + stop + "\n").verdict in ("terminated", "sighup")
    assert diagnose(steps + stop + "\n").verdict in ("terminated", "sighup")
    evaluates = steps + "Training complete.\nStarting evaluation on the test set\n"
    assert diagnose(evaluates + stop + "\n").verdict in ("terminated", "sighup")
    assert diagnose(evaluates + "Evaluation done, F1 0.71\n" + stop + "\n").verdict == "benign"


@pytest.mark.parametrize(
    ("last", "verdict"),
    [
        ("Please set DATA_DIR; it is unset. Exiting.", "unknown"),
        ("The number of GPUs must be 8, got 4. Exiting", "unknown"),
        ("Need 8 GPUs but found 4. Exiting.", "unknown"),
        ("Config file missing. Exit.", "unknown"),
        ("DATA_DIR is unset, so ./data it is. Exiting setup", "benign"),
        ("Health server: not configured, exiting thread", "benign"),
        ("Nothing missing. Exiting.", "benign"),
        ("WARNING signal SIGUSR1 from slurm -> saving checkpoint and exiting", "time-limit"),
        ("SIGUSR1 -> checkpoint and exiting", "benign"),
        ("Could not write the checkpoint, giving up\ndone", "unknown"),
        (
            "Error: the data set has no split 'train'\nwandb: Run summary:\nwandb:   loss 2.7\nwandb: ",
            "unknown",
        ),
        ("Missing option '--data'.", "user-exception"),
        ("No such option: --grad-accum (Possible options: --grad-clip)", "user-exception"),
        ("bash: torchrun: command not found...", "missing-file"),
        ("CUDA out of memory in batch 3; emptied the cache and continued", "benign"),
        ("Generated: The error was CUDA out of memory, so use smaller batches.", "benign"),
        ('Q: why "No space left on device"? A: your disk is full', "benign"),
        ('[eval] prompt: Why do I see "Permission denied (publickey)"?', "benign"),
        ("Answer 3: RuntimeError: CUDA out of memory", "cuda-oom"),
    ],
)
def test_a_last_line_ends_a_run_by_what_it_says(last: str, verdict: str) -> None:
    assert diagnose(f"Loaded a.yaml\nSetting up\n{last}\n").verdict == verdict


_STEP_CANCELLED = "slurmstepd: error: *** STEP 4211.0 ON n1 CANCELLED AT 2026-11-20T10:00:00 ***\n"
_EXITED = "srun: error: n1: task 0: Exited with exit code 1\n"
_ABORTED = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
_TERMINATED = "srun: error: n1: tasks 0-3: Terminated\n"
_RAN = "".join(f"step {n} loss {3 - n / 100:.3f}\n" for n in range(20))
_WENT_ON = "".join(f"step {n} loss {3 - n / 100:.3f}\n" for n in range(20, 40))
_THREAD = "Exception in thread Thread-5:\n" + _HEAD + "OSError: [Errno 28] No space left on device\n"
_LOGGED = "".join(f'{{"level": "info", "msg": "loaded shard {n}"}}\n' for n in range(9))
_RESUMED = f"KeyError: 'x'\nResuming from checkpoint step 10\n{_RAN}Training complete.\n"
_NOT_JOINED = (
    "[rank0]: torch.distributed.DistStoreError: Timed out waiting for clients. 16/24 clients joined.\n"
)
_PIPE = _HEAD.replace("out = read(x)", "{}") + "BrokenPipeError: [Errno 32] Broken pipe\n"


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        # A step that Slurm cancels since a rank called MPI_Abort, and one that a person cancels.
        (_RAN + "MPI_ABORT was invoked on rank 0\n" + _EXITED + _STEP_CANCELLED, "unknown"),
        (_RAN + _STEP_CANCELLED + "MPI_ABORT was invoked on rank 0\n" + _EXITED, "terminated"),
        (_RAN + _ABORTED + _STEP_CANCELLED + _TERMINATED, "terminated"),
        (_RAN + _ABORTED + _EXITED + _TERMINATED, "unknown"),
        (_RAN + "Training complete.\n" + _ABORTED + _STEP_CANCELLED + _TERMINATED, "benign"),
        (_RAN + "Training complete.\n" + _TERMINATED, "benign"),
        (_RAN + "Training complete.\nLoading the test set\n" + _CANCELLED, "terminated"),
        (_RAN + "Training complete.\nTiming: 311 s. Everything ok\n" + _CANCELLED, "benign"),
        (_RAN + "Training complete.\nShutting down workers\n" + _CANCELLED, "benign"),
        # Data among a logger's records, and a failure among them.
        (_LOGGED + '{"id":7,"text":"CUDA out of memory. Tried to allocate 2.00 GiB"}\n' + _LOGGED, "benign"),
        (_LOGGED + '{"id":7,"samples":[{"prompt":"a","completion":"Segmentation fault"}]}\n', "benign"),
        (_LOGGED + '{"text":"torch.OutOfMemoryError: CUDA out of memory.","source":"stderr"}\n', "cuda-oom"),
        (_LOGGED + '{"event":"crash","error":"ValueError: bad lr"}\n', "user-exception"),
        # What models are given, and hosts that are named as its parts are.
        (_RAN + "<|user|> I get RuntimeError: CUDA out of memory. Tried 2 GiB<|end|>\n", "benign"),
        (_RAN + "{'chat': [{'role': 'user', 'content': 'RuntimeError: CUDA out of memory'}]}\n", "benign"),
        (_RAN + "Input: Segmentation fault (core dumped)\nPrediction: crash\n", "benign"),
        (_RAN + "> You may see:\n>   RuntimeError: CUDA out of memory.\n> Then use less.\n", "benign"),
        (_RAN + "If you see this, the node drains:\n" + _CANCELLED, "terminated"),
        (_RAN + "a1: Segmentation fault (core dumped)\n", "segfault"),
        (_RAN + "answer1: bash: line 1:  4411 Killed                  python t.py\n", "host-oom-killed"),
        # A thread's exception long before the end, and right before it.
        (_RAN + _THREAD + _WENT_ON + _CANCELLED.replace(" ***\n", " DUE TO TIME LIMIT ***\n"), "time-limit"),
        (_RAN + _THREAD + _WENT_ON + _OOM, "cuda-oom"),
        (_RAN + _THREAD + "run.sh: line 4: 771 Killed   python t.py\n", "disk-full"),
        # What the script does in place of what failed, and words of something else.
        (_HEAD + "RuntimeError: Triton is old\ntriton failed, running eager\n" + _RAN, "benign"),
        (_HEAD + "KeyError: 'shard'\nskipping short shards\n" + _RAN, "user-exception"),
        (_RAN + _HEAD + _RESUMED, "benign"),
        (_HEAD + _RESUMED, "user-exception"),
        # A reader of the output that ended, and a peer.
        (_RAN + _PIPE.format("print(step)"), "sighup"),
        (_RAN + _PIPE.format("store.get(key)"), "nccl-network"),
        ("+ ulimit -t 3600\n" + _RAN + "run.sh: line 4: 771 Killed   python t.py\n", "time-limit"),
        ("cpu time  (seconds, -t) unlimited\n" + _RAN + "Killed\n", "host-oom-killed"),
        ("w-2: ssh: connect to host w-2 port 22: No route to host\n" + _NOT_JOINED, "ssh-access"),
    ],
)  # fmt: skip
def test_what_is_beside_a_failure_says_what_it_is(log: str, verdict: str) -> None:
    assert diagnose(log).verdict == verdict


_FRAME = '  File "{}", line 7, in {}\n    {}\n'
_PIPED = "Traceback (most recent call last):\n{}BrokenPipeError: [Errno 32] Broken pipe\n"
_SENDS = _FRAME.format("/w/net.py", "send", "self.sock.sendall(data)")
_OF_TQDM = _FRAME.format("/e/site-packages/tqdm/utils.py", "inner", "return func(*args)")
_OF_CLICK = _FRAME.format("/e/site-packages/click/core.py", "invoke", "return ctx.invoke()")
_OF_HANDLER = _FRAME.format("/usr/lib/python3.11/logging/handlers.py", "send", "self.sock.sendall(s)")
_KILLED = "run.sh: line 4: 771 Killed   python t.py\n"
_ON_RANK = "".join(
    f"[rank1]: {line}\n"
    for line in f"{_HEAD}RuntimeError: CUDA error: an illegal memory access was encountered".splitlines()
)
_SHARD_LOST = "".join(f"[rank1]: {line}\n" for line in f"{_RAN}{_HEAD}KeyError: 'shard'".splitlines())
_SHARD_LOST += "[rank0]: shard failed, skipping it\n"
_FROM_5 = "".join(f"[rank0]: step {n} loss {3 - n / 100:.3f}\n" for n in range(5, 20))
_ON_0 = "".join(f"[rank0]: step {n} loss {3 - n / 100:.3f}\n" for n in range(20))


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        # Records that report, though they have a field of a data set's name.
        (_RAN + 'server response: "torch.OutOfMemoryError: CUDA out of memory."\n', "cuda-oom"),
        (_RAN + '{"sample": "a.jpg", "what": "CUDA out of memory.", "traceback": ""}\n', "cuda-oom"),
        ("reading\n[loader] Cannot decode sample='/data/7.tar'\n", "unknown"),
        (_RAN + '{"role": "learner", "rank": 3, "error": "CUDA out of memory. Tried 2 GiB"}\n', "cuda-oom"),
        (_LOGGED + '{"text":"torch.OutOfMemoryError: CUDA out of memory.","hostname":"n1"}\n', "cuda-oom"),
        (_LOGGED + '{"text":"Segmentation fault (core dumped)","local_rank":1}\n', "segfault"),
        (_LOGGED + '{"worker":3,"text":"Segmentation fault (core dumped)"}\n', "segfault"),
        (_LOGGED + '{"text":"torch.OutOfMemoryError: CUDA out of memory.","lineno":3}\n', "cuda-oom"),
        # Hosts that are named as two parts are, and numbered parts.
        (_RAN + "q1: bash: line 1:  44 Killed    python t.py\na1: step 20\n", "host-oom-killed"),
        (_RAN + "gpt1: Segmentation fault (core dumped)\nuser1: connection closed\n", "segfault"),
        (_RAN + "Q1: what is a Segmentation fault (core dumped)?\nQ2: and a bus?\n" + _WENT_ON, "benign"),
        (_RAN + "Prompt1: CUDA error: an illegal memory access was encountered\n" + _WENT_ON, "benign"),
        # What one gets later is behind an error.
        ("ERROR: HF_TOKEN is not set, you will get 401. Exiting.\n", "unknown"),
        ("Unable to open /data/a.bin: you might get this without the mount\n", "unknown"),
        (_RAN + "If you see this, rank 3 failed with:\n  RuntimeError: CUDA out of memory.\n", "cuda-oom"),
        ("Unable to use sdpa: users report Segmentation fault (core dumped)\n" + _RAN, "benign"),
        # srun's words of an end, without the failure that made it.
        (_RAN + _ABORTED, "terminated"),
        (_RAN + "srun: Force Terminated StepId=4211.0\n", "terminated"),
        (_RAN + "ERROR: 3 does not divide 8\n" + _ABORTED + _TERMINATED, "unknown"),
        # What sends, and is no print: its caller is a bar, a command line, or a logger.
        (_RAN + _PIPED.format(_OF_TQDM + _SENDS), "nccl-network"),
        (_RAN + _PIPED.format(_OF_CLICK + _SENDS), "nccl-network"),
        (_RAN + _PIPED.format(_OF_HANDLER), "nccl-network"),
        (_RAN + _PIPED.format(_SENDS + _OF_TQDM), "sighup"),
        # Talk of a limit of CPU time.
        ("# ulimit -t 3600 is for the login node\n" + _RAN + _KILLED, "host-oom-killed"),
        ("help: set ulimit -t 0 for no limit\n" + _RAN + _KILLED, "host-oom-killed"),
        # A done training whose process ends, and one that does something else.
        *((f"{_RAN}Training complete.\n{word}\n{_CANCELLED}", "benign") for word in (
            "Quitting.", "Skipping the test set", "Freeing memory", "Joining the workers",
            "Ending the session", "Missing keys: []", "Unloading modules", "Finalizing", "Idling",
            "Keeping the pod alive", "Ring 0 closed", "Learning rate at the end: 0.0",
            "Deactivating the environment", "Pausing until the job ends",
        )),
        *((f"{_RAN}Training complete.\n{word}\n{_CANCELLED}", "terminated") for word in (
            "Decoding the test set", "Unpacking it", "Generating samples", "Quantizing to int8",
            "computing FID", "Converting the checkpoint",
        )),
        # Another rank's words below a traceback.
        (_SHARD_LOST + _ON_0.replace("[rank0]", "[rank1]"), "user-exception"),
        # An error that a script handled, before it was done.
        ("Error: no token found, downloading without it\nDone.\n", "benign"),
        # Values that a script replaces, and a host that is left out.
        ("Invalid value for 'prefetch': None, using 2\n" + _RAN + _KILLED, "host-oom-killed"),
        ("Missing argument 'seed', drawing one\n" + _RAN + _KILLED, "host-oom-killed"),
        ("w-2: ssh: connect to host w-2 port 22: Connection refused\n" + _RAN + _OOM, "cuda-oom"),
    ],
)  # fmt: skip
def test_what_only_looks_like_an_example_or_an_end_is_none(log: str, verdict: str) -> None:
    assert diagnose(log).verdict == verdict


def test_a_server_of_the_standard_library_has_the_port_on_windows_too() -> None:
    frame = _FRAME.format(r"C:\Users\x\anaconda3\lib\socketserver.py", "server_bind", "self.socket.bind(a)")
    log = f"Traceback (most recent call last):\n{frame}OSError: [Errno 98] Address already in use\n"
    assert diagnose(log).causes[0].code == "S121"


def test_a_rank_that_failed_in_a_run_that_was_started_again_and_done_is_not_certain() -> None:
    assert diagnose(f"{_ON_0}{_ON_RANK}{_FROM_5}done\n").causes[0].confidence == "likely"
    assert diagnose(f"{_ON_0}{_ON_RANK}").causes[0].confidence == "certain"
