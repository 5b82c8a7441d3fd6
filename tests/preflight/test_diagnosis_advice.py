"""What to type for a cause: for the version, the scheduler and the container that the log shows."""

import pytest

from preflight.diagnosis.diagnose import diagnose

FRAMES = (
    'Traceback (most recent call last):\n  File "/home/ana/ft/train.py", line 7, in <module>\n    load()\n'
)
SYMBOL = "/opt/venv/lib/flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2E"
GLOO = "[enforce fail at device.cc:13] Gloo connectFullMesh failed with Connection refused"
SOCKET = (
    "torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of"
)
NO_GLIBC = "version `GLIBC_2.34' not found"
NO_GLIBCXX = "version `GLIBCXX_3.4.30' not found (required by /opt/conda/lib/libicu.so)"
USAGE = "usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments:"
REFUSED = "srun: error: Unable to allocate resources:"


@pytest.mark.parametrize(
    ("message", "command"),
    [
        ("ModuleNotFoundError: No module named 'peft.tuners.old'", "python -m pip show peft"),
        ("ModuleNotFoundError: No module named 'google.protobuf'", "pip install protobuf"),
        ("ModuleNotFoundError: No module named 'google.auth.x'", "install google-auth"),
        ("ImportError: tokenizers>=0.21,<0.22 is required, but found 0.19.1", "'tokenizers>=0.21,<0.22'"),
        (f"ImportError: {SYMBOL}", "--force-reinstall --no-deps --no-build-isolation flash-attn"),
        ("AttributeError: module 'random' has no attribute 'seed'", "print(random.__file__)"),
        (f"RuntimeError: {GLOO}", "GLOO_SOCKET_IFNAME"),
        (f"{SOCKET} (node-0, 29512).", "nc -vz node-0 29512"),
        ("wandb.errors.UsageError: api_key not configured (no-tty)", "wandb login"),
        ("wandb.errors.UsageError: Error communicating with wandb process", "WANDB_MODE=offline"),
        ("omegaconf.errors.MissingMandatoryValue: Missing mandatory value: model", "--cfg job"),
        ("pyarrow.lib.ArrowInvalid: Parquet file size is 0 bytes", "-size 0"),
        ("OSError: [Errno 122] Disk quota exceeded", "quota -s"),
        (
            f"ImportError: /lib64/libc.so.6: {NO_GLIBC} (required by /opt/venv/lib/torch/_C.so)",
            "ldd --version",
        ),
        (
            f"ImportError: /lib/libc.so.6: {NO_GLIBC} (required by /.singularity.d/libs/libGL.so)",
            "apptainer exec",
        ),
        (f"ImportError: /usr/lib/libstdc++.so.6: {NO_GLIBCXX}", "LD_LIBRARY_PATH"),
        ("ImportError: /opt/venv/lib/libx.so: file too short", "file /opt/venv/lib/libx.so"),
        ("ImportError: /x;rm${IFS}-r;.so: file too short", "file '/x;rm${IFS}-r;.so'; findmnt"),
        ("ERROR: No matching distribution found for x;rm", "index versions 'x;rm'"),
        ("OSError: [Errno 28] No space left on device: '/x;rm -r'", "df -h '/x;rm -r'"),
        ("ImportError: /opt/lib/libgomp.so.1: cannot allocate memory in static TLS block", "LD_PRELOAD"),
        (f"ImportError: /opt/conda/lib/libstdc++.so.6: {NO_GLIBCXX}", "conda install"),
        ("RuntimeError: Index put requires the source and destination dtypes match", ".to(target.dtype)"),
        ("RuntimeError: Ninja is required to load C++ extensions", "pip install ninja"),
        (
            "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.",
            "MAX_JOBS=1",
        ),
        ("RuntimeError: HIP error: invalid device function", "rocminfo"),
        ("RuntimeError: No CUDA GPUs: Error 34: CUDA driver is a stub library", "unset LD_LIBRARY_PATH"),
        ("RuntimeError: Attempting to deserialize object on a CUDA device but", "map_location='cpu'"),
        ("RuntimeError: Attempting to deserialize object on CUDA device 5 but", "map_location='cpu'"),
    ],
)
def test_a_command_fits_the_exception(message: str, command: str) -> None:
    assert command in diagnose(f"{FRAMES}{message}\n").causes[0].command


@pytest.mark.parametrize(
    ("log", "command"),
    [
        (f"{USAGE} --local-rank=0\n", "LOCAL_RANK"),
        (f"{USAGE} --lrr 3\n", "train.py --help"),
        (f"{REFUSED} Requested node configuration is not available\n", "sinfo -o"),
        ("qsub: Job violates queue and/or server resource limits\n", "qstat"),
        ("srun: error: Protocol authentication error: Invalid authentication credential\n", "unmunge"),
        ("Warning  Failed  4s  kubelet  Error: ErrImagePull\n", "kubectl describe pod"),
        ("An MPI process is aborting\n Reason:     Before MPI_INIT completed\n", "which mpirun"),
        ("error: externally-managed-environment\n", "python3 -m venv"),
        ("ERROR: No matching distribution found for torch==9.9\n", "pip index versions torch"),
        ("UCX  ERROR ibv_reg_mr failed: Cannot allocate memory\n", "ulimit -l unlimited"),
    ],
)
def test_a_command_is_one_of_the_launcher_in_the_log(log: str, command: str) -> None:
    assert command in diagnose(log).causes[0].command
