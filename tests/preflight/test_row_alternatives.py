"""What to do is that of a row's alternative: what the lines of one row want differs."""

import pytest

from preflight.diagnosis.diagnose import diagnose

FRAMES = (
    'Traceback (most recent call last):\n  File "/home/ana/ft/train.py", line 7, in <module>\n    load()\n'
)
ON_NCCL = "node3:98:141 [2]"
NO_LIBRARY = "cannot open shared object file: No such file or directory"
OTHER_SIZES = "appears not to match sizes of the same param in process 0."
UNFIT = "RuntimeError: Error(s) in loading state_dict for Net:"
FIRST_CALL = "[rank0]:[E ProcessGroupNCCL.cpp:6] [Rank 0] Watchdog caught collective operation timeout"
CRASHED = (
    "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n"
    '  File "/opt/lib/python3.12/site-packages/decord/reader.py", line 5 in get\n'
)


@pytest.mark.parametrize(
    ("log", "advice"),
    [
        (f"{FRAMES}ImportError: /v/libtorch_cuda.so: undefined symbol: ncclMemFree\n", "m.requires('torch')"),
        (f"{FRAMES}OSError: libnccl.so.2: {NO_LIBRARY}\n", "VLLM_NCCL_SO_PATH=FILE"),
        (
            f"{FRAMES}RuntimeError: CUDA error: peer mapping resources exhausted\n",
            "one process per GPU (torchrun",
        ),
        (f"{FRAMES}NotImplementedError: Using RTX 4000 series doesn't support faster\n", "NCCL_IB_DISABLE=1"),
        (f"{ON_NCCL} NCCL WARN Bootstrap : no socket interface found\n", "ip -br addr on every host"),
        (f"{ON_NCCL} NCCL WARN Call to socket failed : Too many open files\n", "ulimit -n 65536"),
        (f"{FRAMES}RuntimeError: Unable to resolve hostname to a (local) address\n", 'getent hosts "$(host'),
        (
            f"{FRAMES}RuntimeError: DDP expects same model across all ranks, but Rank 0\n",
            "named_parameters()",
        ),
        (
            f"{FRAMES}ValueError: output size must be world_size times input tensor size\n",
            "times the elements",
        ),
        (f"{FRAMES}a.DistributedOperationException: inadequate shapes.\n", "pad_across_processes(x, dim=1)"),
        (
            f"{ON_NCCL} NCCL WARN NET/IB: Got completion with status=12 error\n",
            "NCCL_IB_GID_INDEX as show_gids",
        ),
        (f"{ON_NCCL} NCCL WARN NET/OFI OFI fi_getinfo() call failed\n", "fi_info -p efa"),
        (f"{ON_NCCL} NCCL WARN socketStartConnect: Connect to 172.17.0.1<4> failed : x\n", "docker0, usb0"),
        (f"{FRAMES}RuntimeError: Expected to have finished reduction in the prior iteration\n", "DEBUG=INFO"),
        (f"{FRAMES}RuntimeError: Cannot use ReduceOp.AVG with Gloo\n", "dist.get_world_size()"),
        (f"{FRAMES}RuntimeError: No backend type associated with device type cpu\n", "cpu:gloo,cuda:nccl"),
        (f"{ON_NCCL} NCCL WARN No algorithm/protocol available for function\n", "unset NCCL_ALGO"),
        (
            f"{FRAMES}AssertionError: Check batch related parameters. world_size 96 != 4 * 8 * 2\n",
            "96 wants 3",
        ),
        (f"{FRAMES}ValueError: heads (40) must be divisible by parallel size (16).\n", "40 is a multiple of"),
        (f"{FRAMES}RuntimeError: NCCL error in: a.cpp:1, unhandled cuda error\n", "export NCCL_DEBUG=WARN"),
        (f"{FRAMES}RuntimeError: NCCL error in: a.cpp:1, unhandled system error\n", "export NCCL_DEBUG=WARN"),
        ("[Rank 3] Watchdog caught collective operation timeout: Work\n", "gpulaunch stacks RUN"),
        (f"{FIRST_CALL}: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1)\n", "gpulaunch bench HOSTS"),
        ("HCCL: Notify register times out, reason=[x]\n", "HCCL_CONNECT_TIMEOUT=SECONDS"),
        ("ProcessGroupNCCL's watchdog got stuck for 480 seconds\n", "HEARTBEAT_TIMEOUT_SEC only waits"),
        (f"{FRAMES}RuntimeError: ncclRemoteError: a call failed\n", "'oom|xid' on their hosts"),
        (f"{FRAMES}OSError: [Errno 98] Address already in use\n", "ss -ltnp"),
        (
            f"{FRAMES}RuntimeError: The IPv6 network addresses of (n1, 80) cannot be retrieved (gai error\n",
            "getent hosts n1",
        ),
        (f"{FRAMES}RuntimeError: Failed to connect to GCS\n", "ray start --head --port=6379"),
        (f"{FRAMES}OSError: [Errno 99] Cannot assign requested address\n", "ip -br addr lists this host's"),
        (f"{FRAMES}a.RendezvousClosedError\n", "a new --rdzv-id"),
        (
            f"{FRAMES}a.DistStoreError: Timed out after 9 seconds waiting for clients. 1/2 clients joined.\n",
            "WORLD_SIZE, and",
        ),
        (
            f"{FRAMES}ValueError: rendezvous: environment variable RANK expected\n",
            "torchrun --nproc_per_node N",
        ),
        (f"{FRAMES}ValueError: trying to initialize the default process group twice!\n", "is_initialized()"),
        (f"{FRAMES}RuntimeError: You must initialize the accelerate state\n", "PartialState()"),
        ("ana@node2: Permission denied (publickey,password).\n", "ssh-copy-id USER@HOST"),
        ("Host key verification failed.\n", "ssh-keygen -R HOST"),
        ("pdsh@node1: node2: rcmd: socket: Permission denied\n", "export PDSH_RCMD_TYPE=ssh"),
        ("kex_exchange_identification: read: Connection reset by peer\n", "MaxStartups"),
        ("ssh: connect to host node7 port 22: Connection refused\n", "nc -vz node7 22"),
        (f"{FRAMES}RuntimeError: received 0 items of ancdata\n", "set_sharing_strategy('file_system')"),
        (f"{FRAMES}OSError: [Errno 23] Too many open files in system\n", "sysctl fs.file-max"),
        ("OpenBLAS blas_thread_init: pthread_create failed for thread 2\n", "export OPENBLAS_NUM_THREADS=1"),
        (f"{FRAMES}RuntimeError: can't start new thread\n", "cat /sys/fs/cgroup/pids.max"),
        (f"{FRAMES}OSError: [Errno 28] No space left on device: '/o/x'\n", "df -i /o/x"),
        ("Message: The node was low on resource: ephemeral-storage.\n", "limits.ephemeral-storage"),
        (
            f"{FRAMES}BlockingIOError: [Errno 11] unable to lock file, errno = 11\n",
            "export HDF5_USE_FILE_LOCKING",
        ),
        (f"{FRAMES}OSError: [Errno 30] Read-only file system: '/w'\n", "docker -v DIR:DIR:rw"),
        (f"{FRAMES}OSError: [Errno 107] Transport endpoint is not connected: '/w'\n", "fusermount -u DIR"),
        ("fusermount3: fuse device not found\n", "--device /dev/fuse"),
        ("run.sh: line 3: 12 File size limit exceeded(core dumped) python a.py\n", "ulimit -f unlimited"),
        (f"{FRAMES}_pickle.UnpicklingError: invalid load key, 'v'.\n", "git lfs pull"),
        (f"{FRAMES}_pickle.UnpicklingError: invalid load key, '<'.\n", "head -c 300 FILE"),
        (f"{FRAMES}EOFError: Ran out of input\n", "find DIR -size 0"),
        (
            f"{FRAMES}OSError: Error no file named model.safetensors found in directory o\n",
            "merge-weights DIR OUT",
        ),
        (f"{FRAMES}ValueError: Can't find 'adapter_config.json' at 'o'\n", "AutoModelForCausalLM.from_"),
        (
            f"{FRAMES}Exception: data did not match any variant of untagged enum A\n",
            "-U tokenizers transformers",
        ),
        (f"{FRAMES}ValueError: Couldn't instantiate the backend tokenizer\n", "pip install sentencepiece"),
        (
            f"{UNFIT}\n  size mismatch for lm_head.weight: copying a param with shape\n",
            "resize_token_embeddings(",
        ),
        (
            f"{FRAMES}ValueError: loaded state dict contains a parameter group that\n",
            "over the same parameters",
        ),
        (
            f"{FRAMES}x.ZeRORuntimeException: checkpoint used a DP world size of 8 but the current\n",
            "ds_to_universal",
        ),
        (
            f"{FRAMES}mlflow.MlflowException: API request to http://m/ failed with exception\n",
            "MLFLOW_TRACKING_URI=",
        ),
        (f"{FRAMES}openai.AuthenticationError: Incorrect API key provided: x\n", "OPENAI_API_KEY"),
        (f"{FRAMES}urllib.error.HTTPError: HTTP Error 403: Forbidden\n", "curl -fLO URL"),
        (
            f"{FRAMES}datasets.exceptions.DatasetNotFoundError: Dataset 'a/b' doesn't exist\n",
            "--repo-type dataset",
        ),
        (
            f"{FRAMES}huggingface_hub.errors.OfflineModeIsEnabled: Cannot access\n",
            "HF_HUB_OFFLINE=0 hf download",
        ),
        (f"{FRAMES}requests.exceptions.SSLError: certificate verify failed\n", "SSL_CERT_FILE=/etc/ssl"),
        (f"{FRAMES}h.HFValidationError: Repo id must be in the form: '/data/m'.\n", "ls -ld /data/m"),
        (
            f"{FRAMES}ValueError: Unrecognized configuration class <class 'A'>\n",
            "AutoModelForImageTextToText",
        ),
        (
            f"{FRAMES}ValueError: Unrecognized model in o. Should have a `model_type`\n",
            "must have model_type",
        ),
        ("bash: ./run.sh: Permission denied\n", "chmod +x FILE"),
        (f"{FRAMES}PermissionError: [Errno 13] Permission denied: '/r/.cache/a'\n", "HF_HOME"),
        (
            "[n:4] Signal: Segmentation fault (11)\n[n:4] [ 0] /x/libnccl.so.2(ncclMnnvlCheck+0x1)\n",
            "MNNVL_ENABLE=0",
        ),
        ("free(): invalid pointer\nAborted (core dumped)\n", "export PYTHONFAULTHANDLER=1"),
        (CRASHED, "pip show decord"),
        (
            "slurmstepd: error: *** JOB 4 ON n CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n",
            "#SBATCH --time=",
        ),
        ("Job was active longer than specified deadline\n", "activeDeadlineSeconds"),
        (
            "slurmstepd: error: *** STEP 4.0 ON n CANCELLED AT 1 DUE TO NODE FAILURE ***\n",
            "sbatch --exclude=NODE",
        ),
        ("mpirun has detected an attempt to run as root.\n", "--allow-run-as-root"),
        ("The connection to the server localhost:8080 was refused - did\n", "KUBECONFIG"),
        ('Error from server (Forbidden): pods is forbidden: User "a" cannot create\n', "kubectl auth can-i"),
        ("srun: error: cannot find mpi plugin for mpi/pmix\n", "srun --mpi=list"),
        ("docker: permission denied: the Docker daemon socket at unix:///d.sock\n", "usermod -aG docker"),
        ("exec /usr/local/bin/entry.sh: exec format error\n", "--platform linux/amd64"),
        ("docker: Error response from daemon: pull access denied for a/b\n", "docker login"),
        (
            f"{FRAMES}RuntimeError: Engine core initialization failed. See root cause above.\n",
            "EngineCore, pid",
        ),
        (f"{FRAMES}OSError: [Errno 98] attempting to bind on address ('::', 8000): in use\n", ":8000'"),
        (f"{FRAMES}OSError: [Errno 98] attempting to bind on address ('::', 8000): in use\n", "(--port)"),
        ("srun: error: Unable to create step for job 4: More processors requested\n", "srun --overlap"),
        ("Stall inspector shutting down: tensors were submitted by subset\n", "missing ranks"),
        (f"{FRAMES}RuntimeError: Uneven inputs\n", "model.join()"),
        (
            f"{FRAMES}OSError: a-b is not a local folder and is not a valid model identifier\n",
            "OWNER/NAME as",
        ),
        (f"{FRAMES}huggingface_hub.errors.RevisionNotFoundError: 404\n", "git ls-remote"),
        (
            "fatal: unable to access 'https://github.com/a/': Could not resolve host: github.com\n",
            "HTTPS_PROXY",
        ),
        (f"{FRAMES}SafetensorError: Error while deserializing header: incomplete metadata\n", "before it"),
        (f"{UNFIT}\n  size mismatch for classifier.weight: copying a param with shape\n", "num_labels"),
        ("=>> PBS: job killed: walltime 3605 exceeded limit 3600\n", "qsub -l walltime"),
        (
            f"{FRAMES}ValueError: World size (8) is larger than the number of available GPUs\n",
            "tensor_parallel",
        ),
        (
            f"{FRAMES}ValueError: the batch size (10) needs to be a multiple of the processes (4)\n",
            "are 8 and 12",
        ),
        (f"{FRAMES}RuntimeError: Weight update group already initialized.\n", "restart trl vllm-serve"),
        (
            "w2: Permission denied (publickey,password).\npdsh@head: w2: ssh exited with exit code 255\n",
            "onto that host; ssh -o BatchMode=yes HOST true must",
        ),
        ("pdsh@head: w2: rcmd: socket: Permission denied\n", "export PDSH_RCMD_TYPE=ssh"),
        ("pdsh@head: w2: ssh exited with exit code 255\n", "repair access first"),
        (
            f"{FRAMES}RuntimeError: [1]: params[0] in this process with sizes [9] {OTHER_SIZES}\n",
            "named_parameters()",
        ),
        (
            f"{FRAMES}jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8\n",
            "XLA_PYTHON_CLIENT_MEM_FRACTION=.95",
        ),
        (
            f"{FRAMES}CUDAMismatchException: Installed CUDA version 11.8 does not match the version torch\n",
            "DS_SKIP_CUDA_CHECK=1 only where",
        ),
        (
            f"{FRAMES}yaml.scanner.ScannerError: while scanning for the next token\nfound character '\\t'\n",
            "correct that YAML at the line",
        ),
        (f"{FRAMES}filelock._error.Timeout: The file lock '/a.lock' could not be acquired.\n", ".lock file"),
        (f"{FRAMES}RuntimeError: FusedAdam requires cuda extensions\n", "APEX_CUDA_EXT=1"),
        (f"{FRAMES}AttributeError: 'CPUAdam' object has no attribute 'ds_opt_adam'\n", "ds_report"),
        ("^CGracefully stopping... (press Ctrl+C again to force)\n", "stop_grace_period"),
        (f"{FRAMES}OSError: [Errno 36] File name too long: '/scratch/aaaa'\n", "more than 255 bytes"),
        (f"{FRAMES}json.decoder.JSONDecodeError: Expecting value: line 1\n", "what was read is not what"),
    ],
)
def test_advice_is_that_of_the_alternative_of_a_row(log: str, advice: str) -> None:
    cause = diagnose(log).causes[0]

    assert advice in f"{cause.fix} {cause.command}"
