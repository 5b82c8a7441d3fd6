"""Causes by what a raised message is about, whatever its wording: a kind of noun and what is wrong with it.

The rows of the other modules know sentences. These take what none of them names, so a cause that is found by them is
likely and never certain.
"""

from preflight.diagnosis.signatures.model import match_signal, split_branches
from preflight.facts.xid_table import PROGRAM_XIDS, build_xid_pattern

_RAISED = r"^\W{0,4}(?:\w+\.)*(?:\w*(?:Error|Exception)|(?<=\.)error)\b: .{0,240}"
_NOT = r"(?:is|are|was|were|has|have|does|do|could|can) ?(?:not|n't)"
_GPUS = r"(?:NVIDIA |CUDA |cuda |HIP )?(?:GPUs?|[Cc][Uu][Dd][Aa] devices?|accelerators?)"
_LIBRARY = r"(?:cu|Cu|CU)(?:BLAS|DNN|FFT|SOLVER|SPARSE|blas|dnn|fft|solver|sparse)(?:Lt|LT)?"
_CHECKPOINT = r"(?:(?<!utils\.)(?<!radient )(?<!radient_)(?<!ctivation )[Cc]heckpoints?(?!\(\)|:)|ckpt|state[_ ]?dict\w*|[Ss]tate of the optimizer|optimizer states?)"
# Exceptions of clients of services, whose names say what failed; the modules aside whose connections are to other ranks.
_OF_A_CLIENT = r"^(?!torch\.|ray\.|tensorflow\.|jax|asyncio|concurrent|multiprocessing|queue|socket\.|zmq)(?:[a-z]\w{0,60}\.){1,8}\w{0,40}"
_RANK_VARIABLE = r"(?:MASTER_ADDR|MASTER_PORT|LOCAL_RANK|WORLD_SIZE|RANK)"


def _raised(*messages: str) -> str:
    """Return the pattern of an exception whose message holds one of these."""
    return "|".join(_RAISED + branch for message in messages for branch in split_branches(message))


PATTERNS: tuple[tuple[str, str], ...] = (
    ("S138", r"^zmq\.error\.Again\b"),
    ("S48", r"^(?!.*(?:unable to lock file|[Nn][Cc][Cc][Ll]|Error: {3,})).*Resource temporarily unavailable"),
    ("S55", r"\bN[Cc][Cc][Ll] [Ee]rror, "),
    ("S95", match_signal(10, "SIGUSR1") + r"|(?:\b(?:[Rr]eceived|[Cc]aught|[Gg]ot) (?:signal )?SIGUSR[12]\b|\bSIGUSR[12]\b(?!\W{0,4}[=>]|.{0,20}(?:\bwill\b|\bhandler|\bto\b))).{0,160}\b(?:[Ll]eaving|[Ee]xiting|[Qq]uitting|[Ss]topping)\b|^CPU time limit exceeded|^timeout: sending signal [A-Z]+ to command |" + match_signal(24, "SIGXCPU")),
    ("S138", _raised(r"\bRPC call to \w+ timed out")),
    ("S89", r"\bNo solution found when resolving dependencies"),
    ("S54", r"\bStall inspector shutting down"),
    ("S62", r"Ranks? .{0,80}failed to pass monitoredBarrier"),
    ("S58", r"^(?!.{0,200}nvshmem).*Message truncated : received \d+ bytes instead of \d+"),
    ("S112", _raised(
        r"[Bb]atch[ _-]?[Ss]ize\b.{0,100}\b(?:divisible|multiple of)\b",
        r"\bnum_processes\b.{0,60}\b(?:divisible|multiple|match)|\bmatch num_processes\b",
        r"\b(?:[Mm]esh|MESH)\b.{0,80}\b(?:[Ww]orld size|\d+ (?:ranks|devices|processes))\b",
        r"\bbatch\b.{0,60}\bdivisible\b|\b(?:divisible by|equal (?:to )?(?:the number of )?)(?:\d+ )?(?:ranks|GPUs|devices|processes)\b",
        r"\b\d+ ranks and \d+ |\bat least \d+ processes\b|[Bb]atch size\b.{0,60}\bgreater than 0",
        r"\b(?:less|smaller|greater|larger|equal)\b.{0,40}\bworld[ _]size\b",
        r"--ntasks(?:-per-node)?=\d+|\bdevices=\d+\b.{0,200}\bdoes not match",
        r"\b(?:multiple of|divisible by) (?:the )?\w*(?:parallel|world)\w*",
        r"\b(?:divisible by|multiple of) (?:the )?(?:SP|TP|PP|CP|DP|EP|ulysses|ring|tensor|pipeline|sequence|context|expert|data|model)\b.{0,20}\b(?:size|degree|parallel)",
        r"\bDeepSpeed config values that mismatch",
        r"(?:!=|\bmust equal) ?(?:[Ww]orld[ _]?[Ss]ize|WORLD_SIZE)\b|\b(?:[Ww]orld[ _]?[Ss]ize|WORLD_SIZE)\b.{0,20} != ",
        r"\b[Ww]orld[ _]?[Ss]ize\b.{0,120}\b(?:divisible|multiple of|equal|match|greater|larger|less|smaller|exceeds?)\b",
        r"\bdivisible by\b.{0,60}\b(?:[Ww]orld[ _]?[Ss]ize|(?:number of|num_?|n_?)\W?(?:GPUs?|gpus?|devices|processes|ranks|workers|replicas)|parallel(?:ism)?[ _](?:size|degree))",
        r"\bparallel(?:ism)?[ _]?(?:size|degree)s?\b.{0,100}\b(?:[Ww]orld[ _]?[Ss]ize|number of (?:GPUs|devices|processes|ranks)|divisible)\b",
    )),
    ("S31", _raised(
        r"\bdevice_?(?:id|index|indices|ids)?\b.{0,60}\bout of range\b",
        r"\bnot enough (?:GPUs|devices|gpus)\b|\bmore (?:ranks|processes)\b.{0,20}\bthan (?:GPUs|devices)\b",
        r"\b(?:exceeds?|(?:larger|greater|more) than|less than or equal to)\b.{0,30}\b(?:available|visible|number of)\b.{0,12}\b(?:GPUs|gpus|(?<=visible )devices)\b",
        r"\b(?:GPUs|gpus|devices)\b.{0,60}\bbut (?:only|there (?:are|is)(?: only)?) \d+\b",
    )),
    ("S43", r"\bfound two different devices "),
    ("S31", r"\b[Ff]ailed to set (?:the )?(?:current )?device(?: id)?\b"),
    ("S43", _raised(
        r"\bsame (?:CUDA |cuda )?(?:device|GPU)\b",
        r"\bdifferent (?:CUDA |cuda )?(?:devices|GPUs)\b",
        r"\bdevice \d+ does not equal \d+|\bexpected device \S{2,12} but got\b",
        r"\bexpect(?:ed|s)?\b.{0,60}\bto be on (?:the |a )?(?:cpu|CPU|cuda|CUDA|GPU)\b",
        r"\bis on (?:cpu|CPU|cuda|CUDA|GPU|meta)\S{0,5},? but\b",
        r"\b(?:parameters?|buffers?|tensors?|inputs?) on (?:the )?(?:cpu|CPU)\b|\b[Mm]ove (?:the |your )?(?:module|model|tensors?|inputs?) to (?:the )?(?:cuda|CUDA|GPU)\b",
        r"\b(?:must|should|needs? to|expected to|required to)(?: all| always)* be on (?:the |a )?(?:cpu|CPU|cuda|CUDA|GPU)\b",
    )),
    ("S08", _raised(
        r"\bsame (?:d|data |data|scalar )types?\b",
        r"\bdtypes?\b.{0,60} (?:does not|do not|doesn't|don't|should) match\b",
        r"(?<!Buffer )\bdtypes? mismatch",
        r"\b(?:[Mm]ismatch(?:ed|ing)?|different|inconsistent|incompatible)(?: \w+){0,2} (?:d|scalar )types?(?=\b|[A-Z])",
        r"\b[Uu]nsupported (?:\w+ ){0,3}(?:d|scalar )types?\b",
        r"\b(?:expects?|expected|must have|should have|to have)\b.{0,80}(?<!torch\.)\b(?:d|scalar )types?\b.{0,80}\bgot\b",
    )),
    ("S14", _raised(r"\b(?:FP8|fp8|Float8|float8)\b.{0,80}\b(?:not installed|not available|[Cc]ompute [Cc]apability|(?:on|by) (?:this|your|the) (?:GPU|device|hardware)|requires? (?:an? )?(?:GPU|Hopper|Ada|H100|TransformerEngine|transformer[-_ ]engine))", r"\bcompute capability\b.{0,60}\b(?:FP8|fp8)\b")),
    ("S32", _raised(r"\b[Cc]ompute [Cc]apability\b.{0,60}(?:\brequired|\bnot supported|\btoo (?:low|old)|\bor (?:higher|above|newer|greater|later)|>=|\bat least)", r"\b(?:[Rr]equire[sd]?|[Nn]eed(?:s|ed)?|at least|only)\b.{0,60}\b[Cc]ompute [Cc]apability\b")),
    ("S37", _raised(
        rf"\b[Nn]o (?:available |usable |supported |compatible |visible )?{_GPUS}(?: devices?| resources?)*,? (?:is |are |was |were )?(?:available|found|detected|visible)\b",
        rf"\b[Nn]o (?:available|usable|supported|compatible|visible) {_GPUS}\b",
        r"\b(?:GPUs?|CUDA|cuda|[Aa]ccelerator)(?: device| support)? (?:is|are) (?:required|needed) (?:to|for)\b",
        r"\b(?:[Rr]equires?|[Nn]eeds?) (?:an? |at least \S+ )?(?:NVIDIA |CUDA |cuda )?(?:[Cc]apable )?GPUs?(?! (?:with|of|memory))\b",
        rf"\b(?:torch\.cuda|CUDA|cuda|GPU|GPUs)(?: device| support)? {_NOT} (?:available|enabled|found|visible|accessible|detected)\b",
        r"\b(?:CUDA|cuda|GPU) unavailable\b",
        r"\bCPU-only (?:version|build|wheel)\b",
    )),
    ("S103", _raised(
        r"\b(?:torch\.distributed|[Dd]istributed (?:package|environment|backend|process group)|[Pp]rocess group)\b.{0,60}\bnot (?:yet |been )*(?:initialized|initialised|available|set up)\b",
        rf"\b{_RANK_VARIABLE}\b.{{0,40}}\bnot (?:set|found|defined|specified|in os\.environ)\b",
        rf"\b(?:not|[Cc]annot|[Cc]an't|[Mm]issing|[Nn]o) (?:find |get |read )?[`'\"]?{_RANK_VARIABLE}\b",
    )),
    ("S50", _raised(r"\b[Pp]ort\b.{0,40}\b(?:in use|taken|occupied|already used|not free|unavailable)\b")),
    ("S52", _raised(r"\b(?:[Tt]imed out|[Tt]ime-?out)\b.{0,100}\b(?:ranks?|nodes?|peers?|barrier|collective|store|rendezvous|process groups?)\b", r"\b(?:[Bb]arrier|collective|store|rendezvous|process group)\b.{0,80}\b(?:[Tt]imed out|[Tt]ime-?out)\b")),
    ("S49", r"\bDist(?:Network|Store)Error: |\b[Ff]ailed to (?:meet|join|reach|complete) (?:the )?rendezvous\b"),
    ("S17", _raised(r"\bparameters? that requires? (?:a )?grad", r"\b(?:does not|do not|doesn't|don't|[Nn]one of .{0,40}) (?:have )?requires?[ _]grad\b", r"\boptimizer got an empty parameter list", r"\b[Nn]o (?:trainable|learnable) (?:param|weight|layer)")),
    ("S19", _raised(
        r"\b(?:[Nn]a[Nn]s?|NANs?|[Ii]nfs?|non-?finite|not finite|infinite)\b.{0,60}\b(?:values|loss(?:es)?|[Gg]rad(?:ient)?s?|grad[ _]norms?|logits|weights|activations|parameters)\b",
        r"\b(?:[Ll]oss(?:es)?|[Gg]rad(?:ient)?s?|grad[ _]norms?|[Ll]ogits|[Ww]eights|[Aa]ctivations|[Pp]arameters)\b.{0,60}\b(?:[Nn]a[Nn]s?|NANs?|[Ii]nfs?|non-?finite|not finite|infinite)\b",
    )),
    ("S60", _raised(r"\b(?:[Uu]nable|[Ff]ailed|[Cc]ould not|[Cc]annot|[Cc]an't)(?: to)? (?:allocate|create|map|mmap|resize) .{0,30}\bshared memory\b")),
    ("S20", _raised(r"\b(?:[Uu]nable|[Ff]ailed|[Cc]ould not|[Cc]annot|[Cc]an't)(?: to)? allocate .{0,60}\b(?:GPU|CUDA|cuda|device) (?:memory|buffer)", r"\b(?:GPU|device) (?:is )?out of memory\b", r"\b[Ii]nsufficient (?:GPU|device|CUDA) memory\b")),
    ("S20", r"\b[Oo]ut of [Mm]emory: .{0,120}\b(?:DRAM|HBM|VRAM)\b"),
    ("S21", _raised(r"\b(?:[Uu]nable|[Ff]ailed|[Cc]ould not|[Cc]annot|[Cc]an't)(?: to)? (?:allocate|malloc) (?:\S+ ){0,3}(?:bytes|[KMGT]i?B|memory|host|pinned|RAM)\b")),
    ("S109", _raised(r"\bat save time\b.{0,80}\bat load time\b|\b[Cc]heckpoint\b.{0,80}\b(?:by|with|on|for|from) \d+ (?:ranks|GPUs|processes|nodes)\b", rf"\b{_CHECKPOINT}\b.{{0,160}}\b(?:sharded|world[ _]size|number of (?:ranks|processes|GPUs)|parallel (?:size|degree))\b.{{0,80}}\b(?:but|mismatch|differ\w*|not)\b")),
    ("S108", r"^tarfile\.(?:Read|InvalidHeader|TruncatedHeader)Error: "),
    ("S108", r"\bFailed to read file '.{1,200}' with error <class '"),
    ("S108", _raised(
        r"Expected object or value$|\bNot able to read records in the JSON file\b",
        r"\b[Cc]orrupt(?:ed)? (?:jpeg|JPEG|jpg|png|PNG|image|video|audio|gzip|zip|tar|record|data)",
        r"\b(?:[Pp]remature|[Uu]nexpected) end of (?:data|file|stream|archive|JPEG|image)",
        r"\b[Nn]ot a gzip(?:ped)? file|\bFormat not recogni[sz]ed|\bDataLossError\b",
        r"\btruncated file: eof|\bfile signature not found",
        r"\bInvalid data found when processing input|\bdatabase disk image is malformed|\bfile is not a database",
        r"Error -\d while decompressing|CRC-32 check failed|Compressed file ended before|\binvalid gzip header",
    )),
    ("S108", _OF_A_CLIENT + r"(?<!JSON)(?:Corrupt(?:ed)?|Truncated|Malformed|UnidentifiedImage|BadGzip|Parser|EmptyData|InvalidData|DecompressionBomb|Decode|DECORD|Libsndfile)(?:Error|Exception|File)?(?=:|$)"),
    ("S85", _raised(r"\b(?:[Cc]orrupt(?:ed)?|[Tt]runcated|damaged)\b.{0,60}\b(?:checkpoint|file|archive|shard|weights|index)\b", r"\b(?:checkpoint|file|archive|shard|weights|index)\b.{0,60}\b(?:[Cc]orrupt(?:ed)?|[Tt]runcated|damaged)\b")),
    ("S88", _raised(
        r"Can't get attribute '[\w.]{1,80}' on <module '(?!__mp_)",
        rf"\b{_CHECKPOINT}\b.{{0,120}}\b(?:mismatch|(?:does|do) not match|doesn't match|incompatible|not compatible|unexpected key|missing key)",
        rf"\b(?:[Mm]ismatch|(?:does|do) not match|doesn't match|[Ii]ncompatible|[Uu]nexpected keys?|[Mm]issing keys?|not exist|not found|[Mm]issing)\b.{{0,80}}\b(?:loaded |the |in )?{_CHECKPOINT}\b",
    )),
    ("S84", _raised(rf"\b(?:{_CHECKPOINT}|weights file|model weights)\b.{{0,120}}\b(?:not found|does not exist|doesn't exist|do not exist|is missing|are missing|not a valid|invalid)\b", rf"\b(?:[Nn]o|not (?:a|point to a|find(?: any| a)?|contain(?: any| a)?)) (?:valid )?{_CHECKPOINT}\b")),
    # model_type of configurations, CONFIG_MAPPING of transformers/models/auto/configuration_auto.py.
    ("S87", r"\bKeyError: ['\"](?:gptj|gpt_(?:neox?|bigcode|oss)|llama4?|mi[sx]tral3?|qwen[23]\w*|phi[34]\w*|gemma[23]?(?:_\w+)?|mllama|chatglm|deepseek_v\d|olmo[23]?|starcoder2|stablelm|internlm2|exaone\w*|smollm3|dbrx)['\"]"),
    ("S83", _raised(r"['\"`]?/[\w./-]{1,200}['\"`]? (?:does not exist|doesn't exist|could not be found|cannot be found|was not found)\b", r"\b(?:[Pp]ath|[Dd]irectory|[Ff]older|[Ff]ile)\b.{0,160}\b(?:does not exist|doesn't exist|could not be found|cannot be found|was not found)\b")),
    ("S89", _raised(
        r"\bpip3? install\b",
        rf"\b{_NOT} (?:been )?installed\b",
        r"\b(?:do|does) ?(?:not|n't) have \S+ installed\b",
        r"\brequires? (?:an? |the )?\S+ (?:extension|package|library|module|backend|plugin)s?,? (?:which|that|but it) (?:is|are) not available\b",
        r"\bmust (?:be|have \S+) installed\b",
        r"\bneeds? to be installed\b",
        r"\b[Pp]lease (?:re)?(?:install|upgrade) ",
        r"\b[Vv]ersion of `?[\w-]+`?\b.{0,60}\b(?:not compatible|too old|incompatible)\b",
        r"\b[Rr]equires? `?(?:[a-z][\w-]+|PyTorch)`? ?(?:>=|==|<=|<|>) ?v?\d",
    )),
    ("S89", r"^(?:Runtime|Value)?(?:Error|Exception): (?:.{0,120}: )?cannot import name (?!.{0,160}partially initialized)"),
    ("S82", r"^(?:requests|urllib3|httpx|httpcore|aiohttp|http\.client)\.[\w.]*(?:Error|Exception|Timeout\w*|Disconnected|Read)\b(?!.{0,300}\bhttps?://(?:localhost|127\.|0\.0\.0\.0))"),
    ("S81", _OF_A_CLIENT + r"(?:Auth\w{0,20}|Credentials?|Unauthorized|Forbidden|AccessDenied|PermissionDenied|RateLimit|TooManyRequests)(?:Error|Exception)?(?=:|$)"),
    ("S82", r"^fsspec\.exceptions\.FSTimeoutError\b|^ConnectionError: Server Disconnected\b"),
    ("S82", _OF_A_CLIENT + r"(?:Connection(?:Lost|Refused|Reset)?|Connect|Network|Unavailable|DeadlineExceeded|BadGateway|Proxy|Endpoint|HTTPClient|SSLError|ConnectTimeout|ReadTimeout|APITimeout|GatewayTimeout)(?:Error|Exception)?(?=:|$)"),
    ("S82", r"^(?:curl: \(\d+\) |wget: |fatal: |git-lfs: )?.{0,120}(?:[Cc]ould not resolve host: |[Uu]nable to resolve host address)|\bfatal: unable to access 'https?://\S+ (?:Failed|Could not|Connection|OpenSSL|SSL|gnutls)|^error: failed to fetch some objects from "),
    ("S82", _raised(r"\b(?:[Cc]onnection|[Pp]roxy|SSL|TLS|[Cc]ertificate|DNS)\b.{0,60}\b(?:failed|refused|error|timed out|reset|verify)\b.{0,200}\bhttps?://", r"Max retries exceeded|[Ff]ailed to establish a new connection|\bConnect(?:ion)? time-?out on endpoint", r"\bhttps?://\S+.{0,100}\b(?:[Tt]imed out|unreachable|[Cc]onnection (?:refused|reset|aborted|error)|certificate verify failed)\b")),
    ("S81", _raised(r"\bdoes not have \w+\.\w+\.\w+ access\b", r"\b(?:401|403)\b.{0,40}\b(?:Unauthorized|Forbidden)\b", r"\b[Ii]nvalid (?:(?:API |access |user |auth\w* )token|api key|API key|credentials)\b", r"\b[Aa]ccess [Dd]enied\b.{0,80}\b(?:bucket|repo|object|dataset|model)")),
    ("S22", rf"\bCU(?:BLAS|DNN|FFT|SOLVER|SPARSE|RAND)_STATUS_(?!SUCCESS)[A-Z_]{{4,}}|\b{_LIBRARY} (?:runtime |API )?[Ee]rror\b|valid cuDNN algorithm|algorithms available in CuDNN|\[cudnn_frontend\] Error|cuDNN Frontend error|DNN library initialization failed|\b(?:NVJPEG|CUTENSOR|CUSPARSELT)_STATUS_(?!SUCCESS)\w+|\bCU_FILE_(?!SUCCESS)\w+"),
    ("S40", r"\bNVRM: Xid .{0,200}caused by previous Xid (?!" + build_xid_pattern(PROGRAM_XIDS) + r")\d+|\bNVRM: .{0,80}NV_ERR_RESET_REQUIRED|\bNVRM: .{0,80}(?:Heartbeat timed out|\bGSP Timeout)"),
    ("S40", r"\bamdgpu: (?:GPU reset begin|ring \w+ timeout)|\bAER: (?:Multiple )?Uncorrect(?:ed|able) \(Fatal\)"),
    ("S93", r"\[Errno (?:27|61|125)\]|\bFile size limit exceeded *(?:\(core dumped\)|$)|: line \d+: +\d+ File size limit exceeded\b|zsh: file size limit exceeded\b|\b(?:Lustre|ceph|libceph|GPFS|mmfsd?|beegfs|BeeGFS|CIFS|glusterfs)\b\S{0,40}: .{0,160}\b(?:lost|hung|failed|failure|timed out|not responding|disconnect\w*)\b|\bINFO: task \S{1,80}:\d+ blocked for more than|" + match_signal(25, "SIGXFSZ")),
    ("S51", r"\[Errno 99\]"),
    ("S44", r"^(?:srun|salloc): (?:error|fatal): (?!.{0,160}(?:\btasks? \d|CANCELLED|[Tt]erminat|[Kk]illed|[Ee]xited|[Ee]xceeded|[Ss]ignal|x11|aborted|to complete$))|^slurmstepd: error: .{0,80}(?:[Uu]nable to|[Cc]ould not|[Ff]ailed to|[Cc]an't) (?!.{0,160}(?:MESSAGE_TASK_EXIT|x11|TMPDIR|spank))"),
    ("S67", r"\b(?:[Ii][Bb]|RDMA|[Vv]erbs) ?(?:[Ff]ailure|[Ee]rror): |\blibrdmacm: [Ff]atal: "),
    ("S67", r"\bUCX +(?:ERROR|FATAL) (?! *cu[A-Z]\w+\(|.{0,200}\bremote key\b)|NCCL WARN Call to ibv_\w+\(\) returned|\bmlx5_core \S{1,40}: .{0,80}\bfatal\b"),
    ("S115", r"\bwandb: ERROR (?:.{0,100}timed out|Error communicating with wandb process|.{0,60}W&B process|.{0,100}[Pp]ermission)"),  # it may continue without it
    ("S115", r"^(?:mlflow|comet_ml|neptune|clearml|swanlab|trackio)\.(?:\w+\.){0,6}\w{1,60}: "),
    ("S98", r"\b(?:hydra|omegaconf)\.errors\.(?!Instantiation)[A-Z]\w+: |^\W{0,3}Could not override '|^\W{0,3}Key '\S{1,80}' (?:is not in struct|not in '[A-Z]\w{1,80}'$)|\bConfig\w{0,12}Error\(['\"]|^\W{0,3}Missing key \S{1,80}$|Accessing unknown key in a struct|^\W{0,3}In '\S{1,120}': (?:Could not find|Validation error)|^\W{0,3}You must specify '\S{1,80}', e\.g|^\W{0,3}Primary config \w+ '\S{1,120}' not found"),
    ("S33", _raised(r"\b(?:NVSHMEM|CUPTI|nvJitLink|NVRTC|NVML)\b.{0,60}\b(?:failed|[Ee]rror)\b", r"\bCUDA (?:driver )?error: (?!.{0,80}captur)[A-Za-z]")),
    ("S33", r"\bcu(?:da)?(?:Ctx|Event|Stream|Launch|Mem|Module|Graph)[A-Z]\w{1,30}(?:\(\))? failed\b(?!: (?:context is destroyed|invalid device context))"),  # else cleaned up too late
    ("S33", r"\bCUDA_ERROR_(?:NOT_SUPPORTED|NOT_PERMITTED|NOT_FOUND|SHARED_OBJECT_\w+|LAUNCH_TIMEOUT|DEINITIALIZED|TIMEOUT)\b"),
    ("S55", r"\bNCCL operation nccl\w+\(.{0,400}\) failed: (?:in(?:valid|ternal) |unhandled )|\bDistBackendError: |\bNCCL [Ee]rror in:? |\bHCCL function error: "),
    ("S68", r"^torch\._(?:dynamo|inductor)\.(?!exc\.(?:TorchRuntimeError: .{0,40}\bfake tensor|InvalidBackend\b))[\w.]+:? |^triton\.[\w.]*(?:Error|Exception|Failure)\w*:? |BackendCompilerFailed|^(?:Internal)?TorchDynamo\w*Error|InductorError|LoweringException|backend='inductor' raised"),
    ("S21", r"^(?!.{0,160}(?:/dev/shm/|[Mm]emory region|\bret: -12)).*Cannot allocate memory"),  # what errno 12 is about, the caller knows
)  # fmt: skip
"""(code of the row, pattern), tried in this order behind all other rows."""
