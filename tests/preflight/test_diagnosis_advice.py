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
NO_FILE = "[Errno 2] No such file or directory:"
NO_DLL = "Could not find module 'd:\\\\env\\\\dgl\\\\dgl.dll' (or one of its dependencies)."
FULL = "CUDA out of memory. Tried to allocate 1 GiB"
WANTED = "CUDA out of memory. Tried to allocate 17 GiB"
OF_24 = "(GPU 0; 24 GiB total capacity;"
OLD_PTXAS = "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'"
ASSERTED = "k.cu:8: f: block: [0,0,0], thread: [8,0,0] Assertion `t >= 0 && t < n_classes` failed."
NEWER = "GPU 0 has a total capacity of 24 GiB of which 1.1 GiB is free."
UNFIT = "RuntimeError: Error(s) in loading state_dict for Net:"
COMMAND = "subprocess.CalledProcessError: Command '['/opt/bin/python', '-u', 'tools/train.py', '--x']'"
NO_LIBRARY = "cannot open shared object file: No such file or directory"
NVSHMEM_CUT = "/b/nvshmem/boot.cpp:99: Message truncated : received 58 bytes instead of 8"
ON_NCCL = "node3:98:141 [2]"
ON_WINDOWS = FRAMES.replace("/home/ana", "C:\\ana").replace("/", "\\")
USAGE = "usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments:"
REFUSED = "srun: error: Unable to allocate resources:"


@pytest.mark.parametrize(
    ("message", "command"),
    [
        ("ModuleNotFoundError: No module named 'peft.tuners.old'", "python -m pip show peft"),
        ("ImportError: pip install -U bitsandbytes is needed", "pip install bitsandbytes"),
        ("AttributeError: module 'torch' has no attribute 'amp'", "python -m pip show torch"),
        ("ModuleNotFoundError: No module named 'google.protobuf'", "pip install protobuf"),
        ("ModuleNotFoundError: No module named 'google.auth.x'", "install google-auth"),
        ("ImportError: tokenizers>=0.21,<0.22 is required, but found 0.19.1", "'tokenizers>=0.21,<0.22'"),
        (f"ImportError: {SYMBOL}", "--no-deps --no-cache-dir --no-build-isolation flash-attn"),
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
        ("RuntimeError: CUDA error: invalid device function", "torch.cuda.get_arch_list()"),
        ("RuntimeError: expected scalar type Double but found Float", "x.float()"),
        ("RuntimeError: set the environment variable CUDA_DEVICE_MAX_CONNECTIONS to 1", "MAX_CONNECTIONS=1"),
        ("RuntimeError: Parent directory ~/ckpt/run1 does not exist.", "mkdir -p ~/ckpt/run1"),
        (f"FileNotFoundError: {NO_FILE} '/data/my set/a.pkl'", "ls -ld '/data/my set'"),
        (f"FileNotFoundError: {NO_FILE} 'logs/rank1.log'", "mkdir -p"),
        (f"FileNotFoundError: {NO_FILE} '/d/cache/ab_doc_idx.npy'", "storage that all hosts share"),
        ("ModuleNotFoundError: No module named 'amp_C'", "APEX_CUDA_EXT=1 python -m pip install"),
        ("ImportError: cannot import name 'Qwen9' from 'transformers.models.qwen9'", "pip show transformers"),
        ("ValueError: environment variable 'START_METHOD' to 'spawn', please", "START_METHOD=spawn"),
        (f"FileNotFoundError: {NO_DLL}", 'dumpbin /dependents "dgl.dll"'),
        (
            f"RuntimeError: {FULL} {OF_24} 1 GiB already allocated; 8 MiB free; 1.5 GiB reserved in",
            "who holds 22.5 of the 24.0",
        ),
        (
            f"RuntimeError: {FULL} {OF_24} 8 GiB already allocated; 8 MiB free; 23 GiB reserved in",
            "expandable_segments",
        ),
        (
            f"torch.OutOfMemoryError: {FULL} {NEWER} this process has 3 GiB memory in use.",
            "who holds 19.9 of",
        ),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (389x10 and 8x128)", "in_features=10"),
        ("RuntimeError: expected input[8, 4, 64, 64] to have 3 channels, but got 4 channels", "4 channels"),
        (f'{UNFIT} Missing key(s) in state_dict: "module.fc.weight"', "into model.module"),
        (f'{UNFIT} Unexpected key(s) in state_dict: "_orig_mod.fc.weight"', "removeprefix('_orig_mod.')"),
        (f'{UNFIT} Unexpected key(s) in state_dict: "epoch", "net_state_dict"', "checkpoint['...']"),
        ("AttributeError: module 'hydra' has no attribute 'main'", "--force-reinstall hydra-core"),
        ("wandb.errors.CommError: Error 403: permission denied", "entity="),
        ("botocore.exceptions.NoCredentialsError: Unable to locate credentials", "aws sts"),
        ("azure.core.exceptions.ClientAuthenticationError: Server failed to authenticate", "az login"),
        ("google.auth.exceptions.DefaultCredentialsError: none were found.", "gcloud auth"),
        ("HTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/api/a", "OFFLINE=1"),
        ("pandas.errors.ParserError: Error tokenizing data. C error: Expected 3 fields", "on_bad_lines"),
        (
            "HfHubHTTPError: 401 Client Error for url: https://huggingface.co/api/models/gpt2/revision/main",
            "gpt2",
        ),
        ("ValueError: No valid checkpoint found in output directory (out)", "leave resume_from"),
        (f"triton.runtime.errors.PTXASError: codegen error\n{OLD_PTXAS}", "TRITON_PTXAS_PATH="),
        ("RuntimeError: makeDeviceForHostname(): unsupported gloo device", "torch>=2.10"),
        ("RuntimeError: attention.cu:7: cuDNN Error: [cudnn_frontend] Error: No plans", "cudnn_sdp(False)"),
        ("RuntimeError: fused_attn.cu:7: cuDNN Error: [cudnn_frontend] Error: No plans", "FUSED_ATTN=0"),
        ("Exception: No dot product attention support for the provided inputs!", "NVTE_DEBUG=1"),
        ("ValueError: we now require users to upgrade torch to at least v2.6", "'torch>=2.6'"),
        ("RuntimeError: Data error: CAS service error : IO Error: Timer expired", "HF_HUB_DISABLE_XET=1"),
        ("RuntimeError: Data error: CAS service error : (429 Too Many Requests), domain: x", "OFFLINE=1"),
        (f"OSError: libavutil.so.60: {NO_LIBRARY}", "ffmpeg"),
    ],
)
def test_a_command_fits_the_exception(message: str, command: str) -> None:
    assert command in diagnose(f"{FRAMES}{message}\n").causes[0].command


@pytest.mark.parametrize(("held", "said"), [(23, "holds 23.0 of 24.0 GiB"), (21, "whether others hold some")])
def test_a_full_gpu_is_blamed_on_others_only_where_they_may_hold_some(held: int, said: str) -> None:
    message = f"torch.OutOfMemoryError: {FULL}. {NEWER} this process has {held} GiB memory in use."
    assert said in diagnose(f"{FRAMES}{message}\n").causes[0].cause


@pytest.mark.parametrize(
    "message",
    [
        "ValueError: expected environment variable DATA_ROOT to be set",
        f"RuntimeError: {FULL} {OF_24} 5 GiB already allocated)",
        f"RuntimeError: {FULL} {OF_24} 22 GiB already allocated; 8 MiB free; 23 GiB reserved in",
        f"RuntimeError: {FULL}. {NEWER} this process has 22 GiB memory in use. 15 GiB is allocated by",
        f"RuntimeError: {WANTED} {OF_24} 8 GiB already allocated; 9 GiB free; 15 GiB reserved in",
        "ValueError: set the environment variable TOKEN_OF_SITE to your key",
        "ValueError: set the environment variable DATA_ROOT to a directory",
        "RuntimeError: the environment variable LOCAL_RANK as launchers set it",
        'OSError: [WinError 126] Error loading "C:\\x\\$(reboot).dll" or one of its dependencies.',
        'OSError: [WinError 126] Error loading "C:\\x\\`reboot`.dll" or one of its dependencies.',
    ],
)
def test_words_of_a_sentence_are_no_command(message: str) -> None:
    assert not diagnose(f"{FRAMES}{message}\n").causes[0].command


def test_what_an_isolated_build_lacks_is_not_of_the_environment() -> None:
    frames = FRAMES.replace("/home/ana/ft", "/tmp/pip-build-env-7/overlay/lib/python3.11/site-packages")
    log = f"{frames}ModuleNotFoundError: No module named 'torch'\n"
    assert "--no-build-isolation" in diagnose(log).causes[0].command


def test_hyphens_are_the_mistake_only_where_torchrun_does_not_know_an_option_of_its_own() -> None:
    for said in (
        "argument --nproc-per-node/--nproc_per_node: expected one argument",
        "unrecognized arguments: --num-gpus",
    ):
        assert not diagnose(f"torchrun: error: {said}\n").causes[0].command


@pytest.mark.parametrize(
    ("log", "command"),
    [
        (f"{USAGE} --local-rank=0\n", "LOCAL_RANK"),
        (f"{USAGE} --warm 3\n", "train.py --help"),
        (f"{USAGE} --lrr 3\n", "write --lr instead of --lrr"),
        (
            "t.py: error: argument -o/--opt: invalid choice: 'adamm' (choose from 'adam', 'sgd')\n",
            "--opt adam ",
        ),
        (f"{USAGE} --nproc_per_node 2\n", "belong before the script"),
        ("torchrun: error: unrecognized arguments: --nproc-per-node=1\n", "as _ (--nproc_per_node)"),
        (f"{ON_WINDOWS}RuntimeError: Distributed package doesn't have NCCL built in\n", "(WSL)"),
        ("Could not override 'trainer.gpus'.\nKey 'gpus' is not in struct\n", "+KEY=VALUE"),
        (
            "k.cu:8: f: block: [0,0,0], thread: [8,0,0] Assertion `t >= 0 && t < n_classes` failed.\n",
            "labels",
        ),
        ("E external/xla/cuda_blas.cc:188] failed to create cublas handle: resource\n", "XLA_PYTHON"),
        (f"{REFUSED} Requested node configuration is not available\n", "sinfo -o"),
        ("qsub: Job violates queue and/or server resource limits\n", "qstat"),
        ("srun: error: Protocol authentication error: Invalid authentication credential\n", "unmunge"),
        ("Warning  Failed  4s  kubelet  Error: ErrImagePull\n", "kubectl describe pod"),
        ("An MPI process is aborting\n Reason:     Before MPI_INIT completed\n", "which mpirun"),
        ("error: externally-managed-environment\n", "python3 -m venv"),
        ("There are not enough slots available in the system to satisfy the 8 slots\n", "-H HOST:SLOTS"),
        ("ERROR: No matching distribution found for torch==9.9\n", "pip index versions torch"),
        ("slurmstepd-n1: error: *** JOB 1495 ON n1 CANCELLED AT 2026-04-28T15:07:03 ***\n", "sacct -j 1495"),
        (f"{COMMAND} returned non-zero exit status 2.\n", "python tools/train.py --help"),
        ("ABORT!!! Out of all 4 trainers, the trainer process with rank=[3] was aborted\n", "workerlog.3"),
        ("Error: No such option: --resum Did you mean --resume?\n", "write --resume instead of --resum"),
        ("The Kernel crashed while executing code in the current cell\n", "nbconvert --to script"),
        ("run.sh: line 9: --lr: command not found\n", "end the line above"),
        (
            'docker: Error: could not select device driver "" with capabilities: [[gpu]].\n',
            "docker run --rm --gpus",
        ),
        ("run.sh: 9: data.size=3: not found\n", "end the line above"),
        ("'--lr' is not recognized as an internal or external command,\n", "in one line"),
        ("Missing expression after unary operator '--'.\n", "in one line"),
        ("CondaError: Run 'conda init' before 'conda activate'\n", "conda shell.bash hook"),
        ("EnvironmentNameNotFound: Could not find conda environment: trian\n", "conda env list"),
        ("run.py: error: unrecognized arguments: --nproc-per-node=2\n", "as _ (--nproc_per_node)"),
        ("launch.py: error: argument --nproc_per_node: invalid int value: ''\n", "is empty"),
        ("t.py: error: argument --n: invalid int value: '{n_gpus}'\n", "in place of {n_gpus}"),
        ("t.py: error: argument --n: invalid int value: '0.9'\n", "a value that int() takes"),
        ("Reason: AlgorithmError: ExecuteUserScriptError: ExitCode 1\n", "aws logs tail"),
        ("The replica workerpool0-0 exited with a non-zero status of 1.\n", "gcloud ai custom-jobs"),
        ("An issue was found when verifying a stable environment for the notebook launcher.\n", "restart"),
        ("UCX  ERROR ibv_reg_mr failed: Cannot allocate memory\n", "ulimit -l unlimited"),
        ("jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes\n", "jax.checkpoint"),
        ("ValueError: No available memory for the cache blocks.\n", "gpu_memory_utilization"),
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction.\n",
            "--mem-fraction-static",
        ),
        ("ERROR: LoadError: Out of GPU memory trying to allocate 8.141 GiB\n", "CUDA.reclaim()"),
        (f"{OLD_PTXAS}\n", "TRITON_PTXAS_PATH="),
        ("/usr/bin/ld: cannot find -lcuda: No such file or directory\n", "LIBRARY_PATH="),
        (f"{ON_NCCL} init.cc:9 NCCL WARN Cuda failure 1 'invalid argument'\n", "CUMEM_ENABLE=0"),
        (f"{ON_NCCL} transport/nvls.cc:9 NCCL WARN Cuda failure 1 'invalid argument'\n", "NVLS_ENABLE=0"),
        ("Memory access fault by GPU node-1 (Agent handle: 0x7) on address (nil).\n", "AMD_SERIALIZE"),
        (f"a.cu:7: nvshmem setup connections failed\n{NVSHMEM_CUT}\n", "IBGDA=0"),
    ],
)
def test_a_command_is_one_of_the_launcher_in_the_log(log: str, command: str) -> None:
    assert command in diagnose(log).causes[0].command


@pytest.mark.parametrize(
    ("message", "fix"),
    [
        ("SyntaxError: invalid syntax", "cannot parse"),
        ("ValueError: no batch size is given", "no general cure"),
        ("ValueError: could not broadcast input array from shape (3,) into shape (4,)", "print the shapes"),
        ("RuntimeError: sizes are powers of two when computing in half precision", "FFT in float32"),
        ("TypeError: '<=' not supported between instances of 'float' and 'str'", "1.0e-4 for a number"),
        ("RuntimeError: Array has been deleted with shape=float32[8].", "donate_argnums"),
        ("RuntimeError: Inference tensors cannot be saved for backward.", "no_grad"),
        ("RuntimeError: FSDP parameters should be materialized from meta device before", "to_empty"),
        ("jax.errors.TracerBoolConversionError: Attempted boolean conversion", "jax.lax.cond"),
        ("cupy.cuda.CUDARuntimeError: cudaErrorInvalidValue: invalid argument", "CUDA_LAUNCH_BLOCKING=1"),
        ("KeyError: 'SLURM_PROCID'", "os.environ"),
        ("TypeError: embedding(): argument 'indices' must be Tensor, not list", "another type"),
        ("IndexError: index 2 is out of bounds for dimension 0 with size 2", "print the shape"),
        ("ValueError: the environment variable ROOT_OF_DATA is not set", "for every rank"),
        ("StopIteration: Caught StopIteration in replica 0 on device 0.", "nn.DataParallel"),
        ("KeyboardInterrupt", "where to look"),
        ("ValueError: Cannot use chat template functions because none is set", "chat_template to the format"),
        ("ValueError: the tokenizer does not have a padding token.", "tokenizer.eos_token"),
        ("jinja2.exceptions.TemplateError: roles must alternate", "roles in turn"),
        ("jinja2.exceptions.UndefinedError: 'dict object' has no attribute 'role'", "print the keys"),
        ("FileExistsError: [Errno 17] File exists: '/000000_locals'", "/dev/shm"),
        ("datasets.exceptions.DatasetGenerationCastError: An error occurred", "data_files="),
        ("ValueError: you should probably activate truncation and/or padding", "pad in the collator"),
        ("ValueError: No columns in the dataset match the model's forward", "remove_unused_columns=False"),
        ("ValueError: The model did not return a loss from the inputs", "no labels"),
        ("ValueError: num_samples should be positive, but got num_samples=0", "data set is empty"),
        ("ValueError: Target modules {'q'} not found in the base model.", "named_modules"),
        ("ValueError: You cannot fine-tune purely quantized models.", "get_peft_model"),
        ("ValueError: set the option `trust_remote_code=True`", "read the code"),
        ("RuntimeError: Trying to backward through the graph a second time", "detach()"),
        ("RuntimeError: a variable has been modified by an inplace operation", "set_detect_anomaly"),
        ("RuntimeError: grad can be implicitly created only for scalar outputs", "loss.mean()"),
        ("TypeError: Object of type Tensor is not JSON serializable", ".tolist()"),
        ("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff", "encoding="),
        ("ValueError: Expected input batch_size (64) to match target batch_size (32).", "print the shapes"),
        ("KeyError: 'Net is not in the models registry'", "registered that name"),
        ("KeyError: 'Net is already registered in models'", "two modules register"),
        ("KeyError: \"Override 'local-rank' not found in: ['seed']\"", "torchrun"),
        ("RuntimeError: Dataset scripts are no longer supported, but found own.py", "'datasets<4'"),
        (f"OSError: libnvrtc.so.13: {NO_LIBRARY}", "torchcodec from torch's"),
        ("RuntimeError: HIP error: invalid device function", "unset where it names another"),
        ("AttributeError: type object 'Trainer' has no attribute 'add_args'", "installed version"),
    ],
)
def test_advice_fits_the_type_of_an_exception(message: str, fix: str) -> None:
    assert fix in diagnose(f"{FRAMES}{message}\n").causes[0].fix


def test_ranks_that_wait_in_different_calls_are_named_beside_each_other() -> None:
    waits = (
        "[Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={1}, OpType=ALLREDUCE, T"
    )
    alike, apart = (
        "\n".join(
            f"[rank{rank}]:[E ProcessGroupNCCL.cpp:6] {waits.format(rank, number)}"
            for rank, number in enumerate(numbers)
        )
        for numbers in ((7, 7), (7, 8))
    )
    assert diagnose(alike).causes[0].command == ""
    assert "rank 0 waits in ALLREDUCE 7, rank 1 waits in ALLREDUCE 8" in diagnose(apart).causes[0].command


def test_a_closed_terminal_ends_torchrun_under_nohup_too() -> None:
    log = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 161 got signal: 1\n"

    assert "nohup does not hold" in diagnose(log).causes[0].fix


def test_a_line_that_a_library_executes_is_not_the_users() -> None:
    log = (
        "RuntimeError  Traceback (most recent call last)\nCell In[8], line 1\n----> 1 trainer.train()\n\n"
        "File <string>:36, in train(self)\n\nRuntimeError: no two GPUs\n"
    )

    assert diagnose(log).causes[0].location == "Cell In[8]:1"
