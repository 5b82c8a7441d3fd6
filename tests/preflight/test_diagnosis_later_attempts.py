"""Failures that a later attempt, or the program's own end, shows to be over; and twins that are not."""

import pytest

from preflight.diagnosis.diagnose import diagnose

STEPS = "".join(f"step {step} loss {3 - 0.01 * step:.3f} lr 1e-4\n" for step in range(40))
BARS = "".join(f"{at:3}%|#         | {at}/90 [00:{at:02}<10:00,  1.10s/it]\n" for at in range(1, 20))
TRAINING = f"[INFO|trainer.py:2521] 2026-04-06 21:32:45,568 >> ***** Running training *****\n{BARS}"
LOADED = "Loading weights: 100%|##########| 310/310 [00:00<00:00, 588.88it/s]\nscores:  [0.75, 0.98]\nDONE\n"
SERVES = """INFO:     Started server process [1234]
INFO:     Application startup complete.
INFO:     127.0.0.1:5000 - "POST /v1/completions HTTP/1.1" 200 OK
"""
NO_MODULE = """Lmod has detected the following error: The following module(s) are unknown:
"cuda/12.4"

Please check the spelling or version number. Also try "module spider ..."
"""
OUT_OF_MEMORY = """Traceback (most recent call last):
  File "/home/u/train.py", line 40, in <module>
    main()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
"""
PORT = """Traceback (most recent call last):
  File "/opt/serve/server.py", line 12, in <module>
    main()
OSError: [Errno 98] Address already in use
"""
KEYS = """Traceback (most recent call last):
  File "/home/u/train.py", line 12, in <module>
    main()
ValueError: Some keys are not used by the HfArgumentParser: ['booster']
"""
REQUEST = """2025-08-08 04:09:17,236 - src.summaries - ERROR - Error processing problem 31: 400
Traceback (most recent call last):
  File "/home/u/src/client.py", line 280, in generate
    response.raise_for_status()
aiohttp.client_exceptions.ClientResponseError: 400, message='Bad Request', url='http://localhost:8006/v1/chat/completions'
2025-08-08 04:09:18,001 - src.base - INFO - Results saved to ./results/base
"""
SUCCESS = "2025-08-08 05:13:56,097 - __main__ - INFO - Experiment completed successfully\n"
SERVER = "usage: api_server.py [-h]\napi_server.py: error: unrecognized arguments: --max-seq-len 4096\n"
TRAINER = "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: 21\n"
LAUNCHER = """Traceback (most recent call last):
  File "/env/lib/python3.6/site-packages/torch/distributed/launch.py", line 340, in <module>
    main()
subprocess.CalledProcessError: Command '['python', 'train.py', '--lr=1']' returned non-zero exit status 2.
Killing subprocess 27794
"""


@pytest.mark.parametrize(
    "log",
    [
        TRAINER + STEPS,
        TRAINER * 2 + LAUNCHER + STEPS,
        TRAINER + TRAINING,
        KEYS + TRAINING,
        SERVER + SERVES,
        PORT + SERVES,
        NO_MODULE + LOADED,
        REQUEST + SUCCESS,
        "problem 1 of 50\n" + REQUEST * 2 + SUCCESS,
    ],
)
def test_what_a_later_attempt_got_over_is_blamed_for_nothing(log: str) -> None:
    assert diagnose(log).verdict == "benign"


@pytest.mark.parametrize(
    ("log", "code"),
    [
        (TRAINER, "S98"),
        (TRAINER * 2 + LAUNCHER, "S98"),
        (STEPS + TRAINER, "S98"),
        (TRAINER + "step 0 loss 3.0\n", "S98"),
        (TRAINER + BARS, "S98"),  # of another program, as a download
        (TRAINER.replace("train.py", "eval.py") + STEPS[:500], "S98"),
        (TRAINER.replace("train.py", "prepare_data.py") + STEPS[:500], "S98"),
        (TRAINER + STEPS + OUT_OF_MEMORY, "S20"),
        (KEYS, "S98"),
        (KEYS + BARS, "S98"),
        (TRAINING + KEYS, "S98"),
        (KEYS + TRAINING + OUT_OF_MEMORY, "S20"),
        (SERVER, "S98"),
        (SERVER + "INFO:     Started server process [1]\n", "S98"),
        (SERVES + SERVER, "S98"),
        (SERVER + SERVES + OUT_OF_MEMORY, "S20"),
        (PORT, "S50"),
        (SERVES + PORT, "S50"),
        (PORT + STEPS, "S50"),
        (PORT + 'INFO:     127.0.0.1:5000 - "GET /health HTTP/1.1" 200 OK\n', "S50"),
        (PORT + SERVES + PORT, "S50"),
        (NO_MODULE, "S110"),
        (LOADED + NO_MODULE, "S110"),
        (NO_MODULE + LOADED.replace("310/310", "31/310"), "S110"),
        (NO_MODULE + "/var/spool/job1/slurm_script: line 9: python: command not found\n", "S110"),
        (NO_MODULE + LOADED + OUT_OF_MEMORY, "S20"),
        (NO_MODULE + "srun: error: node1: task 0: Exited with exit code 127\n", "S110"),
        (REQUEST, "S138"),
        (SUCCESS + REQUEST, "S138"),
        (REQUEST + SUCCESS.replace("completed successfully", "stopped"), "S138"),
        (REQUEST.replace("Error processing problem 31", "Experiment failed") + SUCCESS, "S138"),
        (REQUEST.replace("ERROR", "FATAL") + SUCCESS, "S138"),
        (REQUEST + SUCCESS.replace("2025-08-08 05:13:56,097 - __main__ - INFO - ", ""), "S138"),
        (REQUEST + SUCCESS + OUT_OF_MEMORY, "S20"),
        (REQUEST + SUCCESS + "srun: error: node1: task 0: Exited with exit code 1\n", "S138"),
        (OUT_OF_MEMORY + SUCCESS, "S20"),
        (
            'yarn run v1.22.19\nerror Couldn\'t find a package.json file in "/w"\ninfo Visit https://yarnpkg.com\n',
            "S92",
        ),
    ],
)
def test_what_nothing_got_over_is_found(log: str, code: str) -> None:
    assert diagnose(log).causes[0].code == code


def test_a_socket_that_nothing_connects_to_any_more_is_no_limit_of_threads() -> None:
    closing = "GPU-1:27 [1] NCCL WARN [Service thread] Accept failed Resource temporarily unavailable"
    assert diagnose(f"{STEPS}{closing}\nRUNANDTIME_STOP 1728672662\n").verdict == "benign"
    spawning = "RuntimeError: thread constructor failed: Resource temporarily unavailable"
    assert diagnose(f"{STEPS}Traceback (most recent call last):\n{spawning}\n").causes[0].code == "S48"
