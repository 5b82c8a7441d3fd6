"""Disks, open files, checkpoints, the Hub, paths."""

from preflight.diagnosis.signatures.exit_messages import NOT_FOUND_IN_WORDS
from preflight.diagnosis.signatures.model import GENERAL, ROOT, Advice, Signature

# A host of the run's own: this one, a private address, a name without a domain.
_NEAR = r"(?:localhost|\[?::1\]?|\d{1,3}(?:\.\d{1,3}){3}|[A-Za-z][\w-]*(?![\w.-]))"
# A run that has no checkpoint starts without one; a path may hold such words.
_NOT_ANEW = r"(?!.{0,300}(?<![\w/.-])(?:scratch|fresh|anew|beginning|(?i:starting(?! with)|training (?:from(?! a checkpoint)|will|starts|begins)))\b(?!/))"

ROWS: tuple[Signature, ...] = (
    Signature("S122", "too-many-open-files", ROOT,
              r"inotify (?:watch|instance)\w* limit|inotify_(?:add_watch|init1?)\b.{0,120}(?:No space left|Too many open files|ENOSPC|EMFILE|limit)|[Ll]imit for number of file watchers reached",
              "the limit of watched files of this user is reached (inotify), which Linux reports as a full disk",
              "fewer watchers (an editor, a sync, a file-watching server), or a higher limit", "source"),
    Signature("S75", "too-many-open-files", ROOT,
              r"Too many open files|received 0 items of ancdata|\bEMFILE\b|\[Errno 24\]|os error 24\b|\[Errno 23\]|ENFILE|unable to open shared memory object </torch_\S{1,80}> in read-write mode$",
              "the limit of open files is reached", "ulimit -n 65536 before the launch (of ranks that ssh starts at the head of ~/.bashrc on each host);"
              " torch.multiprocessing.set_sharing_strategy('file_system')", "run"),
    Signature("S48", "too-many-open-files", ROOT,
              r"can't start new thread|^(?!.*(?:unable to lock file|\bAccept failed\b)).*(?:fork|[Tt]hread|clone|spawn|exec|BlockingIOError|^(?:sh|bash|/bin/\w+)).{0,160}Resource temporarily unavailable|\[Errno 11\](?!.*unable to lock file)|pthread_create failed|TERM_(?:PROCESS|THREAD)LIMIT\b|fork rejected by pids controller|libgomp: Thread creation failed|OpenBLAS blas_thread_init: pthread_create|failed to create new OS thread|\[WinError 1450\]",
              "the limit of processes and threads of this user or container is reached",
              "fewer DataLoader workers and OMP_NUM_THREADS=1, or a higher limit: ulimit -u, docker run --pids-limit=-1", "run"),
    Signature("S76", "disk-full", ROOT,
              r"(?<!procs' failed: )(?<!cpus' failed: )(?<!mems' failed: )[Nn]o space left on device|Disk quota exceeded|PytorchStreamWriter failed writing|basic_ios::clear: iostream error|[Nn]ot enough (?:free )?(?:disk )?space(?!.{0,100}\b(?:[Bb]uffer|DRAM|SRAM|HBM|VRAM|L1|memory|heap)\b)"
              r"|unexpected pos \d+ vs \d+|\[Errno 122\]|\[Errno 28\]|os error 28\b|os error 122\b|\bENOSPC\b|\bEDQUOT\b|(?:database or )?disk is full|[Dd]isk (?:is )?full\b|\d+ requested and \d+ written|write error: wrote \d+ \w+ instead of"
              r"|kind: StorageFull|There is not enough space on the disk|\[WinError 112\]|write failed: No space|errno ?[=:] ?28\b|[Ii]nsufficient (?:disk )?space(?!.{0,100}\b(?:[Bb]uffer|DRAM|SRAM|HBM|VRAM|L1|memory|heap)\b)|quota (?:has been )?exceeded|exceed(?:ed|s) (?:your|the|disk|storage) quota"
              r"|local storage usage exceed(?:ed|s the)\b|exceeded its local ephemeral storage limit|Usage of EmptyDir volume .{1,80} exceeds the limit|low on resource: ephemeral-storage|ephemeral[- ]storage .{0,60}exceed|file write failed: time|H5F?\w*.{0,80}No space|unable to (?:extend|flush) file.{0,40}space",
              "the disk (or the quota) is full where the run writes", "free space, or move the output, HF_HOME and TMPDIR; where df -h shows room, df -i (inodes) and ulimit -f show what is out", "run"),
    Signature("S93", "storage", ROOT,
              r"Stale (?:NFS )?file handle|\bdeepspeed_(?:py_)?aio_\w+\.cpp:\d+: .{1,400}Assertion `(?:n_completes|static_cast<long long int>\(buffer)|^(?!.{0,160}(?<![\w/.-])(?:UCX|ibv_\w+|mlx5)\b(?!/)).*Input/output error|\[Errno 5\]|\[Errno 116\]|Transport endpoint is not connected|Read-only file system|\[Errno 30\]"
              r"|Remote I/O error|Cannot send after transport endpoint shutdown|\bmount\.(?:nfs\d?|lustre|cifs|ceph|glusterfs|fuse\S{0,12}): (?!timeout set |trying )|\bmount error\(\d+\): |\bfuse(?:rmount3?)?: (?:fuse )?(?:device not found|failed to)|Lustre\w*: .{0,80}(?:error|timed out)|Structure needs cleaning|nfs: server \S+ not responding|unable to lock file, errno|I/O error,? (?:on )?dev |\[Errno 16\] Device or resource busy|Communication error on send|\[Errno (?:19|70|71|74|108|112|117|121|123)\]|\[Errno 1(?:0[47]|1[0-3])\] [^:')]{3,60}: ['\"]?/|EXT4-fs error|^LustreError: |\bnvme nvme\d+: (?:controller is down|I/O \d+ .{0,60}timeout|Removing after probe failure)|\bNFS: .{0,80}\berror\b|metadata I/O error|Error while serializing: I/?[Oo] ?[Ee]rror",
              "the file system failed: an NFS or Lustre server, a mount that went away or turned read-only, a disk",
              "ls and dmesg -T on that host show whether it is back (gpulaunch preflight HOST tries the run's paths): leave the host out until it is, and resume", "known"),
    Signature("S117", "bad-checkpoint", ROOT, r"WeightsUnpickler error: Unsupported (?:global|class)|was not an allowed global by default",
              "the checkpoint holds objects besides tensors, which torch.load has refused by default since torch 2.6 (weights_only=True)",
              "torch.load(FILE, weights_only=False) for a file that you trust, or torch.serialization.add_safe_globals with what the message names;"
              " where a library loads it: its newer release, or TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1", "source"),
    Signature("S85", "bad-checkpoint", ROOT,
              r"Error while deserializing header|PytorchStreamReader failed|invalid load key|\bMetadataIncompleteBuffer\b|[Hh]eader ?[Tt]oo ?[Ll]arge|InvalidHeaderLength|InvalidHeaderDeserialization|[Ii]nvalid header length"
              r"|UnpicklingError|failed finding central directory|unexpected EOF, expected \d+ more bytes|not a ZIP archive|BadZipFile|invalid header or archive is corrupted"
              r"|file_size \d+ .{0,40}corrupt|Ran out of input|is not a valid JSON file|git-lfs\.github\.com/spec|[Cc]heckpoint .{0,60}(?:is |seems |may be )?(?:corrupt|truncated|damaged|incomplete)"
              r"|archive passed at .{1,300} does not contain the valid metadata|[Cc]orrupted? (?:checkpoint|model|weight)|[Ff]ailed to (?:load|read) (?:the )?checkpoint|[Uu]nable to load weights from (?:pytorch |the )?checkpoint|Weights only load failed"
              r"|pickle data was truncated|[Uu]nsupported (?:pickle|global:)|unsupported pickle protocol|magic_number|Invalid magic number; corrupt file|storage has wrong (?:byte )?size|SafetensorError(?!: Error while serializing)"
              r"|expected a checkpoint returned by torch\.save|is not a (?:zip|checkpoint) file|Could not (?:load|open|read) .{0,40}checkpoint|EOFError: Ran out"
              r"|legacy constructor expects device type"
              r"|[Cc]hecksum mismatch|You seem to have cloned a repository without having git-lfs|shape mismatch .{0,20}checkpoint|expected \d+ bytes? .{0,30}got \d+ .{0,40}shard"
              r"|does not (?:appear to )?contain (?:a )?valid checkpoint|universal checkpoint .{0,40}(?:not|missing)|zero_to_fp32.{0,60}Error",
              "the checkpoint is cut off, a Git LFS pointer, or another format", "git lfs pull, or copy it again and compare"
              " sha256; take an earlier checkpoint", "run"),
    Signature("S84", "bad-checkpoint", ROOT,
              r"no file named (?:model\.safetensors|pytorch_model|diffusion_pytorch|tf_model|flax_model|config\.json)|Error no file named|[Cc]an't find '\w+config\.json' at '" + _NOT_ANEW + r"|does not appear to have (?:a file named|files named) (?:config\.json|pytorch_model|model|\('?pytorch|\('?model)"
              r"|(?:pytorch_model|model)\S*\.(?:bin|safetensors|index\.json)\S* .{0,40}(?:not found|does not exist|is missing)|model-\d{5}-of-\d{5}\.safetensors.{0,60}(?:No such|not found)|AssertionError: +assert len\(self\.ckpt_list\)|[Nn]o (?:valid )?checkpoint found in" + _NOT_ANEW + r"|\bAssertionError: metadata is None\b|Can't find a valid checkpoint at" + _NOT_ANEW,
              "the model directory holds no weights, or the directory of a checkpoint does not exist on this host or lacks a part (.metadata)", "copy or download it again; take the checkpoint before it", "run"),
    Signature("S86", "bad-checkpoint", ROOT,
              r"Couldn't instantiate the backend tokenizer|did not match any variant of untagged enum|data did not match any variant"
              r"|(?<!Invalid JSON: )\b(?:EOF while parsing an? \w+ at line|(?:expected|invalid) .{0,40} at line \d+ column \d+)|Can't load tokenizer for '[./]|Unable to load vocabulary from file|not a (?:valid )?(?:sentencepiece|tiktoken) model"
              r"|Internal: .{0,80}(?:sentencepiece|model_proto)|could not parse ModelProto|Error parsing line b|vocab_file.{0,40}NoneType|tokenizer\.(?:json|model).{0,60}(?:corrupt|invalid|No such file)",
              "a file of the tokenizer (tokenizer.json, vocab.json, tokenizer.model) is missing, broken, a Git LFS pointer, or written by a newer tokenizers",
              "copy all of its files again; the same tokenizers version on all hosts", "run"),
    Signature("S88", "bad-checkpoint", ROOT,
              r"Global shape mismatch for loaded \(|on-disk value metadata tree structures do not match|\brestored? .{0,60}(?:pytree|tree) structure .{0,40}(?:not|mis)\w* ?match|\bconsumed \d+ numels out of \d+|CheckpointingException: (?:(?:Array|Object|Tensor|Shard)\w* |Invalid (?:access|sharding) pattern|(?:Missing|Unexpected) keys|Some keys found in the checkpoint|.{1,300}\bdoes not match the checkpoint\b)|size mismatch for [\w.]+: copying a param with shape|with shape torch\.Size\(\[[\d, ]{0,60}\]\) from checkpoint|Size mismatch between saved torch\.Size|Missing key\(s\) in state_dict|Unexpected key\(s\) in state_dict|Error\(s\) in loading state_dict for"
              r"|loaded state dict (?:has a different number|contains a parameter group)|You set `ignore_mismatched_sizes` to `False`|ignore_mismatched_sizes=True",
              "the checkpoint belongs to another model or optimizer, or lacks a part that the script reads", "load it into what it was saved from;"
              " print its keys and compare", "known"),
    Signature("S109", "bad-checkpoint", ROOT,
              r"used a \w+ world size of \d+ but the current|value from checkpoint \(.{1,40}\) is not equal to the input argument|checkpoint .{0,80}(?:saved|trained) (?:with|on|by) (?:a )?(?:different )?(?:number of (?:ranks|GPUs|processes)|world[_ ]size)",
              "the checkpoint was saved by another number of ranks, or another split of the model, than this run has",
              "as many ranks (and the same tensor and pipeline parallelism) as then; DeepSpeed: ds_to_universal.py and"
              " checkpoint: {load_universal: true}; or load the weights alone", "source"),
    Signature("S80", "hf-hub-auth", ROOT,
              r"trying to access a gated repo|GatedRepoError|is a gated repository|Access to model .{0,120} is restricted|Cannot access gated repo|awaiting a review from the repo authors|gated dataset on the Hub",
              "the repository is gated: its licence is not accepted, or this host has no token",
              "accept the licence on the Hub; hf auth login on every host", "run"),
    Signature("S115", "experiment-tracker", ROOT,
              r"\d{3} (?:Client|Server) Error.{0,200}\bapi\.wandb\.ai\b|HTTPS?ConnectionPool\(host='api\.wandb\.ai'|\b[Ww]andb\b.{0,60}(?:api_key not configured|CommError\b|AuthenticationError\b|Service(?:Start|Poll)\w+Error)|^ServicePollForTokenError\b|\bwandb\.\S*UsageError: .{0,200}(?:(?:API|api)[ _-]?key|[Ll]og ?in|[Pp]ermission|[Aa]uthent|[Ee]ntity|communicat|\b40[13]\b)"
              r"|\b[Ww]andb\b.{0,40}Error: .{0,60}(?:[Tt]imed out|deadline exceeded)|\bMlflowException: API request to .{1,300}failed with exception",
              "the tracker of experiments (Weights & Biases, MLflow) ended the run: this host is not logged in to it, has no right to the project, or does not reach its server or its own process",
              "wandb login on every host (WANDB_API_KEY); WANDB_MODE=offline where no host reaches the server, and wandb.init on one rank only", "source"),
    Signature("S138", "local-server", GENERAL,
              rf"HTTPS?ConnectionPool\(host='{_NEAR}', port=\d+\)|Cannot connect to host {_NEAR}:\d+ |ConnectionKey\(host='{_NEAR}'|https?://{_NEAR}\b.{{0,200}}[Cc]onnection refused|[Cc]onnection refused.{{0,100}}https?://{_NEAR}\b|Failed to connect to {_NEAR} port \d|\b[45]\d\d (?:Client|Server) Error: .{{0,80}} url: https?://{_NEAR}\b|^aiohttp\.\S{{1,60}}: [45]\d\d, .{{0,200}}\bhttps?://{_NEAR}\b"
              r"|^(?:urllib3\.\S+|httpx|httpcore)\.\w*Connect\w*: .{0,200}(?:refused|All connection attempts failed)|^(?:openai|anthropic)\.API(?:Connection|Timeout)Error: |The vLLM server can't be reached|vllm_client - Server is not up yet|ConnectionError: Error -?\d+ connecting to \S{1,80}:\d+\. |^ConnectionRefusedError: |URLError: <urlopen error \[Errno 111\]",
              "a server that the run asks does not answer (vLLM, a reward, a tracker, Redis): nothing listens at that address and port, or not yet, or it needs longer than the client waits",
              "start it before the run and wait until it answers; localhost is each rank's own host, so ranks elsewhere need the name of the server's", "known", definitive=False),
    Signature("S81", "hf-hub-auth", ROOT,
              r"(?:401|403|404|407|429) Client Error.{0,200}huggingface|(?:401|403|429) Client Error|Client error '4(?:01|03|04|29)|status client error \(4(?:01|03|29)\b|Invalid credentials in Authorization header|Repository Not Found"
              r"|RepositoryNotFoundError|Revision(?: )?NotFound(?:Error)?|(?<!Local)EntryNotFoundError|Invalid user token|Too Many Requests for url|\(429 Too Many Requests\)|[Tt]oken is required|(?:^|: )[A-Za-z0-9][\w-]*(?:\.\d[\w-]*)*(?:/[\w.-]+)? is not a local folder|LocalTokenNotFoundError|make sure you (?:are authenticated|don't have a local directory|pass a token)"
              r"|You must be authenticated to access|BadRequestError.{0,60}hugging|Invalid username or password|(?:\bdatasets\.exceptions\.|(?<![\w.]))DatasetNotFoundError|doesn't exist on the Hub|token seems invalid|(?:[Nn]ot?|[Nn]eed|[Mm]issing|[Ii]nvalid|[Ee]xpired|[Rr]equired?)\b.{0,60}[Tt]oken.{0,120}(?:huggingface-cli|hf auth) login|[Tt]oken\W.{0,40}(?:[Nn]ot|[Mm]issing|[Ii]nvalid|[Ee]xpired)\b.{0,120}(?:huggingface-cli|hf auth) login|(?:huggingface-cli|hf auth) login`? or by passing|HfHubHTTPError(?!: 50\d )"
              r"|AuthenticationError: .{0,60}API key|\bAn error occurred \((?:40[13]|AccessDenied|InvalidAccessKeyId|ExpiredToken|SignatureDoesNotMatch)\)|google\.api_core\.exceptions\.(?:Forbidden|Unauthorized)|NoCredentialsError|DefaultCredentialsError|HTTP Error 40[13]",
              "the Hub, or another store of files, refused this host: no or a bad token, a private or renamed repository, or too many requests",
              "log in to it on every host (hf auth login); or download once and run offline", "known"),
    Signature("S82", "hf-hub-auth", ROOT,
              r"couldn't connect to 'https?://|^curl: \((?:5|6|7|28|35|52|56|60)\) |LocalEntryNotFoundError|OfflineModeIsEnabled|outgoing traffic has been disabled|Cannot reach https?://|(?:MaxRetryError|ProxyError|SSLError|ConnectError|ConnectTimeout|ReadTimeout|ConnectionError).{0,300}(?:huggingface\.co|hf\.co|hf-mirror)"
              r"|HTTPS?ConnectionPool\(host='(?:huggingface\.co|cdn-lfs\S*|\S*hf\.co|hf-mirror\.com|datasets-server\S*)'|There was a specific connection error when trying to load|cannot find the (?:appropriate snapshot|requested files) in|[Cc]annot find the requested files in the (?:local|disk) cache"
              r"|Offline mode is enabled|An error happened while trying to locate the (?:file|files) on the Hub|Can't load (?:the )?(?:tokenizer for '(?![./])|(?:configuration|config|image processor|feature extractor|model|the model) (?:of|for) ')|Couldn't reach (?:'|https?://|\S+ on the Hub)|ConnectionError: Couldn't|EndpointConnectionError|ClientConnectorError(?!\(ConnectionKey\(host='(?:localhost|\d{1,3}\.))|httpx\.Connect\w+: |URLError: <urlopen error (?!\[Errno 111\])|requests\.exceptions\.(?:ConnectionError|ConnectTimeout|ReadTimeout|SSLError|ProxyError): "
              r"|(?:huggingface\.co|hf\.co).{0,200}(?:timed out|Name or service not known|Temporary failure in name resolution|certificate verify failed|Connection reset|unreachable)|unable to access 'https://huggingface\.co|xet.{0,80}(?:Request error|timed out|failed)|CAS (?:service|client) error(?!.{0,160}status client error \(4(?:01|03|29)\b)|\b50\d Server Error.{0,200}(?:huggingface|hf\.co)|HfHubHTTPError: 50\d |Server error '50\d.{0,80}hugging",
              "the Hub, or another server that files come from, cannot be reached (or offline mode is on), and the file is not on this host",
              "download it first on a host that reaches the server (hf download REPO), or run offline (HF_HUB_OFFLINE=1)", "run"),
    Signature("S83", "missing-file", ROOT, r"Repo id must (?:be in the form|use alphanumeric)|not a valid model identifier|is not a local folder|Incorrect path_or_model_id|HFValidationError",
              "a local model path that does not exist on this host", "copy the model to that host (rsync -a DIR HOST:DIR), or give an absolute path; for the Hub the name is OWNER/NAME", "run"),
    Signature("S87", "unknown-architecture", ROOT, r"does not recognize this architecture|Unrecognized model in|Unrecognized configuration class|Unrecognized processing class|Tokenizer class \w+ does not exist or is not",
              "transformers is too old for this model, or the directory is not a model", "pip install -U transformers", "run"),
    Signature("S92", "missing-file", GENERAL, r"^FileNotFoundError|\bFileNotFoundError\(2, |^\W{0,4}(?:\[Errno 2\] )?No such file|string path to an existing deepspeed config|^(?:\w+\.)*\w+(?:Error|Exception): (?!.{0,300}\b(?:[Cc]onnect|shared object|ssh)).{0,300}: No such file or directory\.?$|\bkind: NotFound, message: \"No such file|\bcannot be found at the path prefix\b|\bstorage: object doesn't exist\b|\bNo S3 objects found under\b|\b(?:[Cc]annot|[Cc]ould not|[Uu]nable to|[Ff]ailed to) (?:open|read) \S{1,200}: No such file or directory\.?$|^lmdb\.Error: .{1,200}: No such file or directory$|\b(?:ba|da|z|k)?sh: (?:line \d+: )?(?:cd: )?\S+: No such file or directory|: line \d+: (?:cd: )?\S+: No such file or directory|(?:can't open (?:input )?file|(?<!OCI runtime )error:)(?! execve\(| pyxis: )(?!.{0,160}\b[Cc]onnect).{0,200}No such file or directory|^NotADirectoryError|^IsADirectoryError|RuntimeError: Parent directory .{1,200} does not exist|RuntimeError: File \S+ cannot be opened|\[WinError [23]\]|^[Ee]rror:? Couldn't find a package\.json file",
              "a path does not exist on this host, no file matches a pattern, or the working directory is another one", "copy it to the host, or make the"
              " directory that the script writes to; use absolute paths or workdir:", "known", definitive=False),
    Signature("S110", "missing-file", GENERAL, NOT_FOUND_IN_WORDS + r"|^(?!nvidia-smi)(?:.{0,160}: )?[^\s=-][^\s=]{0,80}(?<!\\r'): command not found(?:\.\.\.)?$|: command not found: [^\s-]|\bsh: (?:\d+: )?[^\s=-][^\s=]{0,80}: not found$|(?<!\^M): bad interpreter: |Lmod has detected the following error|Unable to locate a modulefile|(?<!['\w-])'[^\s'-][^']{0,160}' is not recognized as (?:an internal or external command|(?:the|a) name of a cmdlet)|EnvironmentNameNotFound|^CondaError: Run 'conda init' before|has not been properly configured to use 'conda activate'|\benv: .{1,80}(?<!\\r\W): No such file or directory|\berror: execve\(\): (?!\S{1,200}/slurm_script:).{1,80}: No such file or directory|\b(?:exit(?:ed|s)?|return(?:ed|s)?)\b.{0,40}\b(?:status|code)[ :=]{1,3}127\b(?!\.)",
              "a program is not in PATH on this host: no environment that holds it is activated, or it is not installed",
              "activate the environment in the script that starts the run (source DIR/bin/activate, module load), or name the program by its full path;"
              " gpulaunch takes python: of hosts.yaml", "known"),
    Signature("S113", "user-exception", GENERAL, r": line \d+: \S{1,80}: (?:unbound variable|parameter (?:null or )?not set)$|: line \d+: (?:\w{1,20}: )?(?:syntax error\b|unexpected EOF while looking for|.{1,80}: not a valid identifier$|.{1,80}: (?:unary|binary) operator expected$)|\bsh: \d+: (?:Syntax error: |\S{1,80}: (?:Bad substitution|bad variable name|parameter not set)$)|: Bad substitution$|\\r\W: (?:command not found|No such file or directory)$|\^M: bad interpreter|^: not found(?:\S{1,80}: \d+:)?$|^': \[Errno 2\] No such file|^: invalid option(?:\S{0,80} )?line \d+: |: (?:line )?\d+: (?:-{1,2}[A-Za-z]\S{0,80}|[A-Za-z][\w.]{0,80}=\S{0,80}): (?:command )?not found$|: command not found: -|'--?[A-Za-z][^']{0,160}' is not recognized as|^\W{0,3}Missing expression after unary operator '--?'",
              "the shell script that starts the run is at fault: it reads a variable that is not set, its syntax is wrong, an argument is where a command should be, or its lines end as on Windows",
              "the line that the message names; bash -n SCRIPT checks the syntax, ${NAME:-default} or an export sets what is missing; start it with"
              " bash where sh is another shell", "known"),
    Signature("S94", "storage", GENERAL, r"^PermissionError|\bPermissionError\(13, |NVMLError_NoPermission\b|^(?:\S{0,80}/)?(?:ba|da|z|k)?sh: (?:line \d+: )?\S{1,160}: Permission denied$|: line \d+: \S{1,160}: Permission denied$|^(?:mkdir|touch|cp|mv|tee|tar|rsync|ln|chmod|cat): .{1,200}: Permission denied$|\[Errno 13\]|\[Errno 1\] Operation not permitted|\[WinError (?:5|32|33)\]",
              "this user may not read or write that path on this host", "change its owner or mode, or use another path", "known"),
)  # fmt: skip

TAKEN_FOR_A_COMMAND = r": (?:-\S+|[\w.]+=\S*): (?:command )?not found$|: command not found: -|'-[^']*' is not recognized as|Missing expression after unary"
"""How a shell says that it took an argument for a command."""
ADVICE: tuple[Advice, ...] = (
    Advice("S122", "", command="sudo sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=1024"),
    Advice("S75", r"\[Errno 23\]|ENFILE|in system", "the whole system's limit of open files is reached", "end what holds them (sudo lsof | awk '{print $1}' | sort | uniq -c | sort -n | tail), or raise fs.file-max", "sudo sysctl fs.file-max=2097152"),
    Advice("S75", r"ancdata", command="torch.multiprocessing.set_sharing_strategy('file_system')"),
    Advice("S75", "", command="ulimit -Hn"),
    Advice("S48", r"OpenBLAS", "", "OPENBLAS_NUM_THREADS=1 and OMP_NUM_THREADS=1 for every rank; ulimit -u, or the container's --pids-limit, is the limit", "export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1"),
    Advice("S48", r"libgomp", command="export OMP_NUM_THREADS=1"),
    Advice("S48", r"WinError", command=""),
    Advice("S48", "", command="ulimit -u; cat /sys/fs/cgroup/pids.max; ps -eLf | wc -l"),
    Advice("S76", r"Usage of EmptyDir volume", "the pod wrote more into an emptyDir than its sizeLimit; where that volume is /dev/shm, more shared memory", "raise the volume's sizeLimit, or write less into it: fewer DataLoader workers, checkpoints on a volume of their own", "kubectl describe pod POD"),
    Advice("S76", r"ephemeral", "the pod filled the disk that it may use on its node", "write to a volume (output, HF_HOME, TMPDIR), or ask for more: resources.limits.ephemeral-storage", "kubectl describe pod POD"),
    Advice("S76", r"WinError", command="Get-PSDrive -PSProvider FileSystem"),
    Advice("S76", r"[Qq]uota|\[Errno 122\]|os error 122", command="quota -s"),
    Advice("S93", r"deepspeed_(?:py_)?aio|\.tensor\.swp\b", "DeepSpeed's offload to NVMe did not read or write a whole tensor: nvme_path is full, or its file system takes no direct I/O", "df -hT NVME_PATH on every host: a local ext4 or xfs with room for all optimizer states; no network or overlay file system", "df -hT NVME_PATH"),
    Advice("S93", r"\bfile lock '|\bfilelock\.", "another process holds the lock of that file, or the file system (NFS) keeps it for one that has ended", "see with ps on every host whether a run still downloads or prepares these data: wait for it; where none does, delete that .lock file; let one rank prepare them first, in a cache on a local disk (HF_HOME)"),
    Advice("S93", r"unable to lock file", "the file system has no locks that HDF5 can take", "HDF5_USE_FILE_LOCKING=FALSE for every rank, where none writes a file that others read", "export HDF5_USE_FILE_LOCKING=FALSE"),
    Advice("S93", r"Read-only file system|\[Errno 30\]", "the run writes to a file system that is mounted read-only: a container's image or mount, or a disk with errors", "let the output, HF_HOME, TMPDIR and TRITON_CACHE_DIR lie on a mount that can be written (docker -v DIR:DIR:rw); on the host dmesg shows a disk with errors"),
    Advice("S93", r"Stale (?:NFS )?file handle|\[Errno 116\]", "a file was replaced or deleted on the server while this host had it open", "start the run again, and write new files beside those that are read; where ls PATH fails, too, mount it anew"),
    Advice("S93", r"Transport endpoint|\[Errno 107\]", "a FUSE mount lost its program (s3fs, gcsfuse, sshfs, GlusterFS)", "fusermount -u DIR, and mount it again on that host; its own log says why it died"),
    Advice("S93", r"fuse(?:rmount3?)?: .{0,10}device not found", "the container has no /dev/fuse", "docker run --device /dev/fuse --cap-add SYS_ADMIN, or mount it on the host"),
    Advice("S93", r"\[Errno 27\]|[Ff]ile size limit|SIGXFSZ", "the limit of a file's size (ulimit -f) is reached", "ulimit -f unlimited before the launch, on that host", "ulimit -f unlimited"),
    Advice("S93", r"\[Errno 16\]", "a process still has a file of that directory open (NFS keeps it as .nfs...)", "lsof PATH names it; delete the directory when all ranks have closed it"),
    Advice("S85", r"invalid load key, 'v'|git-lfs|[Hh]eader ?[Tt]oo ?[Ll]arge|InvalidHeaderLength", "the file is most likely a Git LFS pointer: some lines of text in place of the weights", "git lfs pull in its directory, or hf download REPO; ls -l shows the size"),
    Advice("S85", r"invalid load key, '[<{]'", "the file is a web page or a message of a server, and no checkpoint", "head -c 300 FILE shows it; download it again with the login that the server wants"),
    Advice("S85", r"Ran out of input", "the file is empty", "find DIR -size 0 lists such files: download it again, or take the checkpoint before it (a full disk and a killed save leave empty ones)"),
    Advice("S85", r"unsupported pickle protocol", "a newer Python wrote the file than this one", "read it with the Python that wrote it or a newer one (protocol 5: Python 3.8)"),
    Advice("S85", r"central directory|MetadataIncompleteBuffer|incomplete metadata|pickle data was truncated|unexpected EOF|file_size", "the file is cut off: its save or its download did not end", "resume from the checkpoint before it, or download it again; df -h shows whether the disk was full"),
    Advice("S84", r"[Nn]o (?:valid )?checkpoint found in", command="leave resume_from_checkpoint out of a first start: the output directory holds no checkpoint-N yet"),
    Advice("S84", r"'\w*adapter_config\.json'", "the directory holds no adapter: it is a whole model, or its parent", "AutoModelForCausalLM.from_pretrained(DIR) for a merged model; else name the directory with adapter_config.json (checkpoint-N)"),
    Advice("S84", r"metadata is None|\.metadata|/checkpoint/state_dict_loader\.py:local_step", "the directory of the sharded checkpoint lacks .metadata: its save did not end, or other hosts have their parts", "take the checkpoint before it; save to storage that all hosts share", in_frames=True),
    Advice("S84", r"no file named|files? named", "", "ls DIR on this host: shards alone are merged first (accelerate merge-weights DIR OUT for FSDP, python zero_to_fp32.py . OUT for DeepSpeed), an adapter is loaded onto its base; else copy it again"),
    Advice("S86", r"untagged enum|did not match any variant", "the installed tokenizers is older than the one that wrote tokenizer.json", "upgrade tokenizers and transformers together; only where they are new is the file broken", "python -m pip install -U tokenizers transformers"),
    Advice("S86", r"instantiate the backend tokenizer|sentencepiece or tiktoken", "what converts the tokenizer is not installed, or its files are not in the directory", "install sentencepiece, tiktoken and protobuf; ls DIR must show tokenizer.json or tokenizer.model", "python -m pip install sentencepiece tiktoken protobuf"),
    Advice("S88", r"Missing key\(s\)[^\n]{0,40}\"module\.", command="load into model.module: the model is wrapped (DataParallel, DDP), the checkpoint is of the model within"),
    Advice("S88", r"(?:Unexpected|unexpected) key(?:\(s\))?[^\n]{0,40}\"(module|_orig_mod)\.", command="{key.removeprefix('module.').removeprefix('_orig_mod.'): value for key, value in state.items()}"),
    Advice("S88", r"Unexpected key\(s\)[^\n]{0,4000}\"(?:epoch|iteration|global_step|optimizer\w*|state_dict|model|\w+_state_dict)\"", command="the file holds more than weights: load_state_dict(checkpoint['...']) with one of the keys that are unexpected"),
    Advice("S88", r"(?:embed_tokens|wte|lm_head|word_embeddings|embed_in|embed_out)\.weight: copying", "the model's vocabulary has another size than the checkpoint's: tokens were added before it was saved", "model.resize_token_embeddings(ROWS) before loading, with the first number of the checkpoint's shape"),
    Advice("S88", r"(?:classifier|score|qa_outputs|\bfc)(?:\.\w+)?\.(?:weight|bias): copying", "", "num_labels (the classes) as the checkpoint has it, by the first number of its shape; ignore_mismatched_sizes=True makes that layer anew, untrained"),
    Advice("S88", r"parameter group|different number of parameter", "the optimizer's state was saved for other parameters", "make the optimizer over the same parameters as then (frozen ones, adapters and groups alike) before load_state_dict; else start its state anew, which costs a warm-up"),
    Advice("S88", r"Missing key in checkpoint state_dict", "", "print(FileSystemReader(DIR).read_metadata().state_dict_metadata.keys()) (torch.distributed.checkpoint) shows what it holds: wrappers' prefixes, or an optimizer that was not saved"),
    Advice("S88", r"\bconsumed \d+ numels", "the files of the checkpoint do not add up to the model's parameters: parts are of another save, or the script that joins them is of another DeepSpeed", "take zero_to_fp32.py of the installed deepspeed (python -m deepspeed.utils.zero_to_fp32 DIR OUT), on a checkpoint whose ranks' files are all of one save", "ls -l DIR/global_step*"),
    Advice("S88", r"CheckpointingException: (?:Array|Object|Tensor|Shard)", "the distributed checkpoint lacks a part that this model has", "--finetune and --no-load-optim for a model with a new head; --dist-ckpt-strictness log_all loads what there is and names the rest"),
    Advice("S109", r"DP world size|ZeRO", "", "start as many ranks as then, or convert it once: python -m deepspeed.checkpoint.ds_to_universal --input_folder DIR/global_stepN --output_folder DIR/global_stepN_universal, then checkpoint: {load_universal: true}"),
    Advice("S115", r"[Pp]ermission|\b403\b|[Ff]orbidden", command="wandb login --relogin, with entity= and project= of wandb.init (or WANDB_ENTITY) that this login may write to"),
    Advice("S115", r"[Ww]andb.{0,200}(?:[Kk]ey|[Ll]og ?in|[Pp]ermission|[Aa]uthent|[Ee]ntity|\b40[13]\b)", command="wandb login"),
    Advice("S115", r"[Ww]andb", command="export WANDB_MODE=offline"),
    Advice("S115", r"[Mm]lflow", "MLflow's server does not answer, or refuses this host", "curl -I $MLFLOW_TRACKING_URI on that host; MLFLOW_TRACKING_URI=file:./mlruns for every rank writes to the disk in its place"),
    Advice("S115", r"^(?:comet_ml|neptune|clearml|swanlab|trackio)\.", "the tracker of experiments ended the run", "its API key for every rank (COMET_API_KEY, NEPTUNE_API_TOKEN, CLEARML_API_ACCESS_KEY in env: of the run config), or its offline mode"),
    Advice("S81", r"\b429\b|Too Many Requests|\bSlowDown\b", command="HF_HUB_OFFLINE=1 after one download: each rank of each host asks the server otherwise"),
    Advice("S81", r"\b(?:boto\w*|aio\w*|s3\w*)\b|ExpiredToken", command="aws sts get-caller-identity on every host shows whose credentials it has, and whether they expired"),
    Advice("S81", r"^azure\.|\bazure\.core\.", command="az login, or a SAS token that has not expired, on every host"),
    Advice("S81", r"[Dd]ataset(?:NotFoundError)?\b.{0,40}'([\w.-]+/[\w.-]+)'|huggingface\.co/(?:api/)?datasets/", command="hf auth login && hf download --repo-type dataset REPO"),
    Advice("S81", r"\bgoogle\.|\bgcsfs\b|gs://", command="gcloud auth application-default login, or GOOGLE_APPLICATION_CREDENTIALS=KEY.json, on every host"),
    Advice("S81", r"is not a local folder", "the Hub has no repository of that name that this host may read, and the host no such directory", "write OWNER/NAME as the Hub spells it, or a path that exists on this host (ls -ld PATH); for a private one hf auth login"),
    Advice("S81", r"Revision ?Not ?Found", "the repository has no such revision", "leave revision= out, or take one that git ls-remote https://huggingface.co/OWNER/NAME lists"),
    Advice("S81", r"API key|api[_ ]key", "a service refused its API key", "set its key for every rank (OPENAI_API_KEY, ANTHROPIC_API_KEY, ... in env: of the run config): a key in ~/.bashrc does not reach ranks over SSH"),
    Advice("S81", r"HTTP Error 40[13](?!.{0,200}(?:hugging|hf\.co))", "a server refused a download", "fetch the file by hand (curl -fLO URL with its login or token), and give the run its path; many sites refuse Python's downloader"),
    Advice("S82", r": exit [1-9]\d* \(read\) \{", "the command that webdataset reads a shard through failed: the store refused it or was not reached, or it is not installed", "its own message is above; run the command of the message by hand on that host; a loop of tries in the pipe: outlives a short failure"),
    Advice("S82", r"github|gitlab|^fatal: ", "this host does not reach the server of a Git repository", "clone it on a machine that does and copy it (rsync -a), or export HTTPS_PROXY=http://PROXY:PORT on this host"),
    Advice("S82", r"OfflineModeIsEnabled|Offline mode is enabled|outgoing traffic has been disabled|[Cc]annot find the (?:appropriate snapshot|requested files) in",
           "offline mode is on (HF_HUB_OFFLINE, local_files_only), and this host's cache lacks the file", "HF_HUB_OFFLINE=0 hf download REPO once on this host, into the HF_HOME that the run uses (datasets: --repo-type dataset)"),
    Advice("S82", r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|SSLCertVerification|curl: \(60\)", "this host does not trust the server's certificate: a proxy of the site replaces it, or its CA bundle is old",
           "let REQUESTS_CA_BUNDLE and SSL_CERT_FILE name a bundle with the site's CA (/etc/ssl/certs/ca-certificates.crt), for every rank", "export REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"),
    Advice("S82", r"\bCAS (?:service|client)|\bxet\b", command="export HF_HUB_DISABLE_XET=1"),
    Advice("S82", r"\b50\d (?:Server Error|Bad|Service)|HTTPError: 50\d|Server error '50\d", "the server itself failed: nothing is wrong on this host", "start it again later, or run from what is downloaded (HF_HUB_OFFLINE=1)", ""),
    Advice("S87", r"Unrecognized", command=""),
    Advice("S87", "", command="python -m pip install -U transformers"),
    Advice("S87", r"Unrecognized configuration class", "the Auto class does not take models of this kind", "take the class in architectures of its config.json (AutoModelForImageTextToText for vision, AutoModelForSeq2SeqLM for encoder-decoders); a newer transformers only where that class is new"),
    Advice("S87", r"Unrecognized (?:model in|processing class)", "the directory holds no model (or no processor) that transformers knows: an adapter, a checkpoint of shards, another folder",
           "ls DIR: config.json must have model_type; an adapter is loaded by AutoPeftModelForCausalLM, and a processor's files come from the base model"),
    Advice("S92", r"\bhf://", "the Hub did not give this file: it was moved or renamed, is gated, or the Hub took the requests for too many (datasets says FileNotFoundError then, too)", "hf auth login on every host, revision= with a commit that has it, or hf download before the run in place of streaming", "hf download REPO --repo-type dataset"),
    Advice("S92", r"_(?:doc|sample|shuffle)_(?:idx|index)\.npy", command="an index cache on storage that all hosts share (--data-cache-path): rank 0 builds it on its own host alone"),
    Advice("S92", r"/multiprocessing/synchronize\.py:(?:__setstate__|_rebuild)", "a worker was started anew (spawn) when the locks of its parent were gone: the parent had ended, or something clears /dev/shm", "read what the parent printed above: its own error is the cause; where it has none, keep the Queue, Lock or DataLoader in a variable as long as its workers live", "", in_frames=True),
    Advice("S92", r"binascii\.Error|existing deepspeed config", command="ls -l CONFIG.json on every host: DeepSpeed takes a path that does not exist for a config in base64"),
    Advice("S138", r"^zmq\.", "the process at the other end of a ZeroMQ socket did not answer in time: it failed, or needs longer", "read the log of that process first (a vLLM or SGLang worker, a reward): its own error is the cause; where it has none, a longer time-out (NRL_REFIT_ZMQ_TIMEOUT and its like)"),
    Advice("S138", r"RemoteDisconnected|Remote end closed|Server disconnected", "the server that the run asks ended, or closed the connection within a request", "read that server's log first: its own error or kill is the cause; where it lives, a proxy or a time limit in between closed it"),
    Advice("S138", r"^aiohttp\.\S+: 4\d\d,|\b4\d\d Client Error", "the server that the run asks answered, and refused the request", "its own log says why: a prompt and max_tokens beyond --max-model-len, a model's name that it does not serve, an argument that it does not know, or weights of another shape than its own"),
    Advice("S110", r"CondaError: Run|to use 'conda activate'", command='eval "$(conda shell.bash hook)" && conda activate ENV, in the script that starts the run'),
    Advice("S110", r"Environment(?:Name|Location)NotFound", command="conda env list names those that this host has"),
    Advice("S110", r"modulefile|Lmod has detected", command="module spider NAME lists its versions, and what each wants loaded before"),
    Advice("S113", r"\\r\W|\^M|^(?:: |': )", command="sed -i 's/\\r$//' SCRIPT takes the line ends of Windows away"),
    Advice("S113", r"' is not recognized as|Missing expression after unary", command="write the command in one line: cmd continues a line with ^, PowerShell with `, and neither with \\"),
    Advice("S113", r"[=-]\S{0,80}: (?:command )?not found$|not found: -", command="end the line above that argument with \\ as its last character: a blank or a comment behind it ends the command"),
    Advice("S113", TAKEN_FOR_A_COMMAND, "the command in the start script ends too early: the shell takes an argument of its next line for a command", "end each line of the command but the last as its shell continues one (\\ in sh, ^ in cmd, ` in PowerShell), and with nothing behind that"),
    Advice("S94", r"\b(?:ba|da|z|k)?sh: .{0,20}\S{1,160}: Permission denied|line \d+: \S{1,160}: Permission denied", "the file may not be executed, or its directory not be entered", "chmod +x FILE, or start it with bash or python before its name; a mount with noexec takes only that"),
    Advice("S94", r"/\.(?:cache|triton|config|local)\b|HF_HOME", "the cache lies where this user may not write: another user's home, or files that root made", "HF_HOME (TRITON_CACHE_DIR, XDG_CACHE_HOME) in a directory of this user; files of root: sudo chown -R $(id -u) DIR"),
    Advice("S94", r"\[WinError 32\]", "another process has that file open", "end it (an earlier run, an editor, a virus scanner), or write another file per rank"),
)  # fmt: skip
