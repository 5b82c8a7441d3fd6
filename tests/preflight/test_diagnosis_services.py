"""What services (Airflow, Argo, Prefect, Kubernetes, clouds) print around a run, and of how it went."""

import pytest

from preflight.diagnosis.diagnose import diagnose

_COPIED = "[2026-05-12, 03:1{}:01 UTC] {{subprocess.py:93}} INFO - {}\n"
_AIRFLOW = "[2026-05-12, 03:19:01 UTC] {{task.py:14}} INFO - {}\n"
_POOL = "ERROR\t2026-06-11 10:02:11 +0000\tworkerpool0-0\t{}\n"
_SERVICE = "ERROR\t2026-06-11 10:02:12 +0000\tservice\tThe replica workerpool0-0 {}.\n"
_PREFECT = "10:46:21.300 | INFO    | flow_runs.worker - Reported flow run 'x' as crashed: {}.\n"
_EVENT = "  {:8} {:17} 9m  {:18} {}\n"
_CPUS = "0/12 nodes are available: 12 Insufficient nvidia.com/gpu."
_LACKS = _EVENT.format("Warning", "FailedScheduling", "default-scheduler", _CPUS)
_PULL = _EVENT.format("Warning", "Failed", "kubelet", 'Failed to pull image "r.io/train:12": deadline')
_PULLED = _EVENT.format("Normal", "Pulled", "kubelet", 'Successfully pulled image "{}" in 9s')
_STARTED = _EVENT.format("Normal", "Started", "kubelet", "Started container trainer")
_OOM = "CUDA out of memory. Tried to allocate 2.00 GiB. If reserved but unallocated memory is large"
_OOM += " try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
_LEVELED = "2026-05-12 03:1{}:03 {} trainer: {}\n"
_HEAD = 'Traceback (most recent call last):\n  File "/w/t.py", line 3, in {}\n    x = d["k"]\n'
_KEY_ERROR = _HEAD + "KeyError: 'k'\n"
_RUNS = "".join(f"epoch {n} loss 0.{9 - n}\n" for n in range(1, 4))
_NODE = 'time="2026-06-16T03:12:51Z" level=info msg="node changed" new.message="{}" new.phase={}\n'
_DESCRIBED = "Name:         {}\nEvents:\n"
_OCI = 'Error: failed to create containerd task: exec: "train": executable file not found in $PATH'
_ROW = "t-0   0/1     {:18} {:11}   5m\n"
_SACCT = "4411{:8} train  gpu  {:>10}  {} \n"
_POST = 'INFO:     10.0.0.3:4 - "POST /v1/completions HTTP/1.1" {}\n'


@pytest.mark.parametrize(
    ("log", "code"),
    [
        (_COPIED.format(1, "step 9 loss 2.1") + _COPIED.format(2, "[Errno 28] No space left"), "S76"),
        (_COPIED.format(1, "Command exited with return code 1"), "S99"),
        (_AIRFLOW.format("Task exited with return code Negsignal.SIGKILL"), "S70"),
        ("airflow.exceptions.AirflowException: Pod build-9rx returned a failure.\n", "S99"),
        ("airflow.exceptions.AirflowTaskTimeout: Timeout, PID: 128\n", "S95"),
        (_POOL.format("cannot open /gcs/b/m.json: No such file or directory"), "S92"),
        (_SERVICE.format("ran out-of-memory and exited with a non-zero status of 137"), "S77"),
        (_PREFECT.format("Infrastructure exited with non-zero status code 137"), "S70"),
        ("F0611 10:05:40.512001      15 main.go:50] failed to execute component: signal: killed\n", "S70"),
        (_NODE.format("OOMKilled (exit code 137)", "Failed") * 2, "S77"),
        (_NODE.format("Pod was active on the node longer than the specified deadline", "Failed") * 2, "S95"),
        ('Downloading the image.\nexec: "train": executable file not found in $PATH\n', "S111"),
        ('{"exitCode":137,"reason":"OutOfMemoryError: Container killed due to memory usage"}\n', "S77"),
        ('{"status":"FAILED","statusReason":"Host EC2 (instance i-0a1) terminated."}\n', "S96"),
        ("Failed - CapacityError: Unable to provision requested ML compute. Please retry.\n", "S137"),
        (_LEVELED.format(0, "INFO", "step 410 loss 1.9") + _LEVELED.format(1, "ERROR", _OOM), "S20"),
        ("handle_wc] error polling LP CQ with status RETRY EXCEEDED ERROR status number 12\n", "S67"),
        (_EVENT.format("Warning", "Evict", "volcano", "Pod was preempted by job of a queue"), "S96"),
        (_LACKS + _STARTED + _LACKS, "S44"),
        (_PULL + _PULLED.format("istio/proxy:1") + _STARTED, "S111"),
        (_LACKS.replace("0/12", "pod/a 0/12") + _STARTED.replace("Started c", "pod/b Started c"), "S44"),
        (_DESCRIBED.format("t-0") + _LACKS + _DESCRIBED.format("log-0") + _STARTED, "S44"),
        (_EVENT.format("Warning", "Failed", "kubelet", _OCI) + _STARTED, "S111"),
        (_LACKS + _STARTED.replace(" 9m ", " 50m"), "S44"),  # listed in another order
        (_ROW.format("Error", 1) + _ROW.format("Running", "2 (9s ago)") + _ROW.format("Error", 2), "S99"),
        (_SACCT.format("", "FAILED", "1:0") + _SACCT.format(".extern", "COMPLETED", "0:0"), "S119"),
        (
            "".join(
                f"step {n} loss {x} (using best-fit kernel)\n"
                for n, x in enumerate(["2.1", "nan", "nan", "nan"])
            ),
            "S11",
        ),
        (_ROW.format("Evicted", 0), "S96"),
        ("Submitting\ncommand terminated with exit code 100\n", "S119"),  # the failing line itself
        ("stage 1\nusage: run.pl log-file command at utils/run.pl line 26.\n", "S119"),
        (
            "(autoscaler +1m2s) Error: No available node types can fulfill resource request {'GPU': 8.0}.\n",
            "S31",
        ),
        (_KEY_ERROR.format("<module>") + "Command exited with return code 0\n", "S00"),
        (_RUNS + _KEY_ERROR.format("<module>") + "continuing without plots\nTraining finished\n", "S00"),
    ],
)
def test_a_service_says_how_a_run_failed(log: str, code: str) -> None:
    assert [cause.code for cause in diagnose(log).causes][:1] == [code]


@pytest.mark.parametrize(
    "log",
    [
        _COPIED.format(1, "CUDA out of memory at batch 64, trying 32")
        + "".join(_COPIED.format(n, f"epoch {n} loss 0.{n}") for n in (2, 3, 4))
        + _AIRFLOW.format("Marking task as SUCCESS. dag_id=t, task_id=fit"),
        _LACKS + _STARTED,
        _PULL + _PULLED.format("r.io/train:12") + _STARTED,
        _LEVELED.format(1, "ERROR", _OOM + " Retrying with half the batch.")
        + "".join(_LEVELED.format(n, "INFO", f"step {n} loss 1.{n}") for n in (2, 3, 4)),
        "[budget] max_time=4h reached at step 8110, stopping training gracefully\nexit code 0\n",
        "Job was evicted.\nJob terminated.\n\t(1) Normal termination (return value 0)\n",
        "4411_0  train  COMPLETED  0:0\n4411_1  train  COMPLETED  0:0\n",
        _POST.format("400 Bad Request")
        + "ERROR 08-02 11:16:17 [s.py:1] Error in the prompt: too long\n"
        + _POST.format("200 OK"),
        _RUNS + _KEY_ERROR.format("plot") + "Could not plot, continuing without.\nTraining finished\n",
        _NODE.format("", "Succeeded") * 2,
        _NODE.format("OOMKilled (exit code 137)", "Failed")
        + _NODE.format("", "Running")
        + 'time="2026-06-16T04:12:51Z" level=info msg="Updated phase Running -> Succeeded" n=1\n',
        _ROW.format("CrashLoopBackOff", "3 (20s ago)") + _ROW.format("Running", "4 (9s ago)"),
        "".join(f"fold {n}/5 Error 1{n} 0.03\n" for n in range(1, 6)),
        "Epoch 1 COMPLETED 2:31\nTraining COMPLETED 12:45\ngame 1 FAILED 3:5\n",
        _LEVELED.format(1, "ERROR", "no flash-attn, will use sdpa") + _LEVELED.format(2, "INFO", "loaded"),
        _ROW.format("Evicted", 0) + _ROW.format("Running", 0),
        "odd number of lines at tools/score.pl line 112.\nBLEU = 31.2\n",
        "episode 12: Task failed.\nepisode 13: Task succeeded.\nepisode 14: Task failed.\nsuccess: 0.33\n",
        "fitting law 3\n[fit budget 180s exceeded; using best-so-far params (loss=inf)]\n",
    ],
)
def test_what_a_service_says_of_a_run_that_went_well_is_no_failure(log: str) -> None:
    assert diagnose(log).verdict == "benign"


def test_a_job_of_an_array_that_failed_is_not_undone_by_another() -> None:
    log = "[7_0] epoch 1 loss 0.4\n[7_1] epoch 1 loss 0.5\n[7_1] torch.OutOfMemoryError: " + _OOM + "\n"
    log += "[7_0] Training finished\nslurm: 7_0 COMPLETED 0:0\nslurm: 7_1 FAILED 1:0\n"
    assert [cause.code for cause in diagnose(log).causes][:1] == ["S20"]


def test_a_library_that_cannot_allocate_is_not_certainly_for_want_of_memory() -> None:
    found = diagnose("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(h)`\n")
    assert (found.causes[0].code, found.causes[0].confidence) == ("S20", "likely")
