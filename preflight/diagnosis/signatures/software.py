"""Packages, renamed arguments, compilers."""

from preflight.diagnosis.signatures.model import ROOT, Advice, Signature

# Keyword arguments that transformers, trl, peft, accelerate, datasets and Lightning renamed or took away.
_GONE = (
    "tokenizer|evaluation_strategy|no_cuda|use_mps_device|fp16_backend|half_precision_backend|group_by_length|load_in_[48]bit|dtype|torch_dtype"
    "|max_seq_length|processing_class|eval_strategy|dataset_text_field|packing|eval_packing|overwrite_output_dir|logging_dir|use_auth_token"
    "|per_gpu_\\w+|push_to_hub_\\w+|include_inputs_for_metrics|jit_mode_eval|use_ipex|tpu_num_cores|past_index|sharded_ddp|xpu_backend"
    "|save_safetensors|safe_serialization|use_flash_attention_2|attn_implementation|num_items_in_batch|max_prompt_length|neftune_noise_alpha"
    "|dataset_num_proc|dispatch_batches|split_batches|ignore_verifications|gpus|progress_bar_refresh_rate|checkpoint_callback"
    "|weights_summary|distributed_backend|amp_backend|replace_sampler_ddp|tpu_cores|ipus|auto_select_gpus|activation_checkpointing"
)
# What belongs to a library of training: an argument that its constructor does not take was renamed or taken away.
_THEIRS = r"(?:\w*Trainer|\w*TrainingArguments|(?:SFT|DPO|PPO|GRPO|KTO|ORPO|CPO|Reward|Lora|Peft|BitsAndBytes|GPTQ)Config|Accelerator|DataLoaderConfiguration)"

ROWS: tuple[Signature, ...] = (
    Signature("S104", "package-conflict", ROOT,
              r"_ARRAY_API not found|cannot allocate memory in static TLS block|\b[Nn]eeds NumPy [\d.]+ or (?:less|greater)|numpy\.(?:dtype|core\.multiarray)\S* (?:size changed|failed to import)|MKL_THREADING_LAYER=\S+ is incompatible|MKL FATAL ERROR|OMP: Error #15: |compiled using NumPy 1\.x cannot be run|RuntimeError: Numpy is not available|was removed in the NumPy 2|module compiled against A[BP]I version \w+ but"
              r"|Descriptors (?:cannot|should)(?: not)? be created directly|incompatible Protobuf Gencode/Runtime|'MessageFactory' object has no attribute 'GetPrototype'"
              r"|load\(\) missing 1 required positional argument: 'Loader'|AttributeError: module '(?:lib|collections|inspect|asyncio|fractions|pkgutil)' has no attribute|'MatmulLtState' object has no attribute|operator torchvision::\w+ does not exist|Couldn't load custom C\+\+ ops|were compiled with different CUDA \w*|require users to upgrade torch to at least|Unable to convert function return value to a Python type! The signature was \(\) -> handle",
              "two packages of this environment do not fit together: one was built for another NumPy, protobuf or torch than the one that is installed",
              "install the two in versions made for each other: the traceback's last import names the one, its message mostly the other", "known"),
    Signature("S128", "inductor-compile", ROOT, r"torch\._dynamo\.exc\.(?:Unsupported|UserError|FailOnRecompileLimitHit|CondOpArgsMismatchError|UserErrorType|RecompileError)|\bGuardOnDataDependentSymNode\b",
              "torch.compile cannot trace this code of the script as one graph: a branch on a tensor's value, a call that it does not know, or too many"
              " recompilations, where fullgraph=True or an export allows no break",
              "the lines below the message say which code and why; drop fullgraph=True, or put that code into a function under torch.compiler.disable", "run"),
    Signature("S68", "inductor-compile", ROOT,
              r"InvalidCxxCompiler|^(?:gcc|g\+\+|cc1plus|c\+\+|nvcc|clang\+{0,2}): (?:fatal )?error: (?!Killed)|Error: \S{0,200}/torch(?:inductor|_extensions)[_/]\S{1,200}\.so: |libcuda\.so cannot found|type object 'BackendConfig' has no attribute|cannot import name '(?:AttrsDescriptor|triton_key)'|No working C\+\+ compiler found|CppCompileError|C\+\+ compile error"
              r"|triton\.(?:compiler|runtime)\.\S*[Ee]rror\w*|\bmodule 'triton[\w.]*' has no attribute '|PassManager::run failed|ptxas.{0,200}fatal|Cannot find a working triton|Failed to find C compiler"
              r"|\bCalledProcessError: Command '\['[^']{0,300}(?:gcc|g\+\+|/cc|/c\+\+|clang|nvcc|hipcc|\bcl)(?:\.exe|\.EXE)?',"
              r"|Triton Error \[CUDA\](?!: (?:out of mem|an illegal|device kernel image))|No such file or directory: '\S*(?:ptxas|gcc|g\+\+|clang|nvcc|cuobjdump)'|Internal Triton PTX codegen error(?!:?\s*$)|`?ptxas`? (?:failed|died)|PTXASError|TritonMissing|Cannot find (?:a )?ptxas|triton.{0,60}not found;? install"
              r"|\.(?:cuh?|c|cc|cpp|cxx|h|hpp)(?:\(\d{1,7}\)|:\d{1,7}:\d{1,5}): (?:fatal |catastrophic )?error(?: C\d{4})?: |NoValidChoicesError|SubprocException|torch/_inductor/\S+\.(?:cpp|h|py):\d+.{0,80} error:|/usr/bin/ld: cannot find -l(?:cuda|nvrtc|gomp|omp)"
              r"|Command '?\[?'?\S*(?:gcc|g\+\+|cc1plus|clang\+?\+?|ptxas|ninja|c\+\+)'?,? .{0,4000}(?:returned non-zero|died with)|fatal error: \S+\.(?:h|hpp|cuh): No such file|Python\.h: No such file"
              r"|triton/?\S*compiler\S* .{0,80}(?:error|failed)|OutOfResources: out of resource|out of resource: shared memory|CompilationError: at \d+:\d+|MLIR.{0,40}(?:failed|error)|LLVM ERROR: (?!Failed to infer result type)|torch\.compile .{0,60}(?:failed|not supported|requires)|\bUnexpected (?:optimization option|type of attr) \S{1,120}, (?:known options are|should be)"
              r"|(?:\b\d+ )?\berrors? detected in the compilation of \"|RuntimeError: Compiler: \S+ is not found|Python 3\.1\d\+ not yet supported for torch\.compile|Dynamo is not supported on Python|Windows not yet supported for torch\.compile|Error building extension '|Ninja is required to load C\+\+ extensions|error compiling objects for extension|^error: command '\S*(?:gcc|g\+\+|nvcc|cc1plus|clang\+?\+?)\S*' failed"
              r"|CUDA_HOME (?:environment variable is not set|does not exist)|Unable to JIT load the \w+ op|MissingCUDAException|CUDAMismatchException|Installed CUDA version [\d.]+ does not match the version torch(?!.{0,160}accepting this combination)|detected CUDA version \([\d.]+\) mismatches|compiled with a version of Cuda that does not match",
              "torch.compile (or a just-in-time build) could not build or start a kernel: no C++ compiler, no headers or libcuda, a fault of Triton, or an error in the code that is built",
              "install what the message names: g++, python3-dev, ninja, the CUDA toolkit; where it names none of them, train without torch.compile"
              " (TORCHDYNAMO_DISABLE=1)", "run"),
    Signature("S130", "user-exception", ROOT,
              r"Unrecognized (?:CachingAllocator option|key '[^']{0,80}' in \w{1,20} allocator config)|Error parsing CachingAllocator settings|CachingAllocator option \S{1,60} (?:too|must|should)"
              r"|Expected a single True/False argument for \w{1,40}|Unknown allocator backend, options are",
              "torch does not know a setting in PYTORCH_CUDA_ALLOC_CONF (PYTORCH_ALLOC_CONF): misspelt, with a bad value, or of another version of torch",
              "KEY:VALUE with commas between, such as expandable_segments:True,max_split_size_mb:128; or unset the variable", "run"),
    Signature("S90", "deprecated-tokenizer-arg", ROOT,
              r"got an unexpected keyword argument ['\"]?(?:" + _GONE + r")\b|\b" + _THEIRS + r"(?:\.__init__)?\(\) got an unexpected keyword argument|unexpected keyword arguments?:? .{0,40}(?:tokenizer|evaluation_strategy|max_seq_length|no_cuda)"
              r"|the following arguments are (?:deprecated|removed|no longer supported): .{0,80}(?:tokenizer|evaluation_strategy)|unrecognized arguments: .{0,400}--(?:evaluation_strategy|no_cuda|tokenizer|max_seq_length|eval_strategy|overwrite_output_dir)\b"
              r"|(?:Trainer|SFTTrainer|DPOTrainer)\S* (?:no longer|does not) (?:accepts?|takes?|supports?) .?tokenizer|[`']?(?:tokenizer|evaluation_strategy|use_auth_token)[`']? (?:has been|was|is) removed"
              r"|Some specified arguments are not used by the HfArgumentParser: .{0,200}--(?:evaluation_strategy|no_cuda|max_seq_length|tokenizer)",
              "the installed transformers or trl no longer (or not yet) takes this keyword",
              "tokenizer -> processing_class, evaluation_strategy -> eval_strategy, max_seq_length -> max_length, no_cuda ->"
              " use_cpu, load_in_8bit -> quantization_config, dtype -> torch_dtype below 4.56", "run"),
    Signature("S65", "broken-interpreter", ROOT,
              r"No module named '(?:encodings|codecs|abc|site)'$|Fatal Python error: (?:init_?fs_?encoding|Failed to import (?:encodings|the site) module|init_import_site)|Fatal Python error: Py_Initialize: (?:[Uu]nable|can't)"
              r"|Could not find platform (?:in)?dependent libraries <|AssertionError: SRE module mismatch|Consider setting \$PYTHONHOME to <prefix>",
              "the Python interpreter does not find a standard library of its own version: PYTHONHOME or PYTHONPATH names another"
              " one, or the installation is incomplete",
              "remove PYTHONHOME and PYTHONPATH from env: of the run config and from the start-up files of the host; else install"
              " the environment again", "run"),
    Signature("S91", "missing-module", ROOT,
              r"[Rr]equires (?:the latest version of )?`?bitsandbytes|CUDA Setup failed despite|^Could not load bitsandbytes native library: |CUDA SETUP: (?:Setup Failed|CUDA detection failed)|[Bb]its[Aa]nd[Bb]ytes.{0,120}(?:not|isn't) (?:installed|available|compiled)|The installed version of bitsandbytes was compiled without GPU support"
              r"|libbitsandbytes_\w+\.so.{0,60}(?:No such file|cannot open|undefined)|undefined symbol: c(?:get_managed_ptr|quantize|dequantize|adam32bit)\w*|'NoneType' object has no attribute 'c(?:de)?(?:quantize_|get_managed|adam|lion|gemm_|igemm)\w*|Using `bitsandbytes` \S+ quantization requires|CPU-only version of bitsandbytes|the information from python -m bitsandbytes|Could not find module \S?.{0,240}libbitsandbytes",
              "bitsandbytes is missing or built for another CUDA", "upgrade it in the run's environment, whose torch must see the GPU: python -m bitsandbytes says what it finds (builds for AMD and Intel GPUs are in 0.50)", "run"),
    Signature("S89", "missing-module", ROOT,
              r"ModuleNotFoundError: |ImportError: (?!.{0,300}(?:partially initialized|attempted relative|circular import|cannot import name|\b(?:\d+|one|two|four|eight) (?:GPU|node|rank|process)))(?=\S*\s*$|.{0,300}(?:[Ii]nstall|[Rr]equir|[Ff]ound|[Mm]odule|[Ll]ibrar|[Pp]ackag|[Vv]ersion|[Dd]epend|[Ii]mport|\.so\b|[Ss]ymbol|DLL|[Cc]ompil|[Aa]vailab|[Ss]upport|[Bb]ackend|needs? \S+ \d|[<>=]=|[Ll]oad|[Ii]niti|[Mm]agic|[Rr]egist|[Cc]annot|[Cc]ould not|[Uu]nable|[Mm]issing|[Uu]pgrade|[Uu]pdate|[Ii]ncompatib|[Bb]uilt|[Pp]resent|https?:|needed (?:by|for|to)|(?:[Nn]eed|have|get) \S+ (?:for|from|to) ))|ImportError: No module named|: No module named ['\"]?[\w.]+['\"]?$|PackageNotFoundError|DistributionNotFound|is not available => install it using|\bappropriate backend to handle uri\b|Backend \W\w+\W is not one of available backends|Error: \w+ is not available\. Make sure (?:it is|you have it) installed|(?:\bERROR\b|(?:[Ee]rror|Exception|Exit): ).{0,120}\b(?:module|package|library) is required but (?:is )?not (?:installed|available|found)\b|is not installed => run"
              r"|ImportError: .{0,200}(?:requires? the|is not installed|not installed|but was not found|requires? `|is required|[Pp]lease install|pip install|install it)"
              r"|RuntimeError: \w+Callback requires \w+|RuntimeError: launcher '\w+' not installed|requires \w+ to be installed|is not installed\. ?(?:Please|Run|Try|You)|ImportError: cannot import name (?!.{0,160}partially initialized)(?!.{0,160} \((?!.{0,160}(?:-packages|/lib/python3))/(?:home|root|work\w*|data|mnt|scratch|Users)/.{1,160}\.py\))|library but it was not found in your environment"
              r"|ImportError: \S+\.so\S*: |undefined symbol: _Z\w+|(?:[Ee]rror|[Ee]xception|[Ff]ailed to (?:load|import)|dlopen)\b.{0,400}(?<!libtpu\.so: )cannot open shared object file: No such file or directory|Unable to load NCCL library|ImportError: DLL load failed|\[WinError (?:126|127|182|193|1114)\]|Could not find module \S.{1,240}\.dll\b|OSError: \w+ library not found|version `(?:GLIBC|GLIBCXX|CXXABI)\w*_[\d.]+' not found"
              r"|^cannot import name (?!.{0,160}partially initialized)|^No module named ['\"]|^(?:/\S{1,300}/)?lib[\w+.-]{1,60}\.so[.\d]*: cannot open shared object file|is required for a normal functioning of this module|requires? (?:at least )?\w+(?:[<>=!]=?|>=) ?[\d.]+,? (?!but you have \S+ \S+ which is incompatible).{0,60}(?:but|found|is required)"
              r"|VersionConflict|pkg_resources\.\S+Error|[Tt]his (?:example|script) requires (?!(?:at least )?(?:\w+ )?(?:GPUs?|CUDA|cuda|devices?|nodes?|process|rank|arg)\w*\b)"
              r"|symbol lookup error: |No matching distribution found for|^error: externally-managed-environment|PackagesNotFoundError|module '\w+' has no attribute '__version__'|AttributeError: module '(?:torch|distutils|transformers|numpy|peft|accelerate|datasets|pyarrow|PIL\.Image|np)[\w.]*' has no attribute(?! '_cuda_)|AttributeError: module '(?:flash_attn|xformers|bitsandbytes|deepspeed|vllm|trl|diffusers|jax|jaxlib|flax|optax|tensorflow|keras|scipy|sklearn|pandas|pytorch_lightning|tokenizers|safetensors|timm|transformer_engine|cv2|onnx|onnxruntime)(?:\.[\w.]+)?' has no attribute",
              "a package is missing in the environment of this host, or of another version",
              "install it in the interpreter that hosts.yaml names (python:), the same on all hosts", "run"),
    Signature("S105", "user-exception", ROOT,
              r"^RecursionError\b|maximum recursion depth exceeded|Cannot recover from stack overflow",
              "the code calls itself without an end; in a dataset it is often a __getitem__ that tries another sample when one cannot be read, and"
              " none can",
              "read what the first failing call met (a path, a format): print it, and raise after a few tries", "known"),
    Signature("S106", "user-exception", ROOT,
              r"[Cc](?:an't|annot) pickle (?!.{0,200}tokenizer is)|Can't get (?:local object|attribute '\w+' on <module '__(?:mp_main__|main__' \(built-in))|attempt has been made to start a new process before|refusing to serialize non-leaf tensor|^RuntimeError: context has already been set",
              "worker processes or ranks are started anew (spawn): what they get must be importable by name, and importing the script must not start them",
              "put the start under if __name__ == '__main__':; functions of a module instead of lambdas and local ones (collate_fn, worker_init_fn,"
              " the function given to spawn); set_start_method once", "known"),
    Signature("S107", "user-exception", ROOT,
              r"stack expects each tensor to be equal size|Trying to resize storage that is not resizable",
              "the samples of one batch differ in size, and the DataLoader's default collate_fn stacks only equal ones",
              "a collate_fn that pads, or a dataset that crops or resizes; num_workers=0 and batch_size=1 print the sizes", "known"),
    Signature("S108", "bad-data", ROOT,
              r"image file is truncated|broken PNG file|cannot identify image file|broken data stream when reading image|moov atom not found|ArrowInvalid: .{0,80}(?:JSON parse error|[Cc]orrupt|magic bytes|file size is 0 bytes)|cannot mmap an empty file",
              "a file of the data set is cut off, empty, or not what its name says",
              "find it: open every file once with the reader that failed, and copy or download it again", "known"),
    Signature("S98", "user-exception", ROOT,
              r"not used by the HfArgumentParser|^ *(?:Unknown command line flag '|flag --\w+=.{1,200}: Flag --\w+ must )|\bconfig file at \S+ had unknown keys|\bUnknown flags? in XLA_FLAGS|Unsupported nproc_per_node value|: error: (?:unrecognized arguments|the following arguments are required|argument \S+: |ambiguous option|one of the arguments|invalid choice)|^\S{1,80}\.py: error: \S|^[Uu]nknown option:? -|^ERROR: (?:The function received no value for|Could not consume arg)|^\W{0,3}Error: (?:unrecognized arguments: |No such (?:option|command)|Missing (?:argument|option|command|parameter)|Invalid value for |Got unexpected extra argument|Option '?--?\S{1,60} requires an argument)|^(?:No such option: -|No such command '[^']{1,80}'\.?(?: |$)|Missing (?:argument|option) '[-A-Z\[][^']{0,80}'(?:\.|$)|Invalid value for '[-A-Z\[][^']{0,80}': )",
              "the command line, or the configuration, is not what the script takes",
              "change the argument that the message names: python SCRIPT --help shows what the script takes", "run"),
)  # fmt: skip

ADVICE: tuple[Advice, ...] = (
    Advice("S104", r"Expected 88 from C header, got 96", "", "numpy below 2, or a newer build of the package that the traceback's last import names", "python -m pip install 'numpy<2'"),
    Advice("S104", r"Expected 96 from C header|but this version of numpy is 0x(?!2)", "a package was built for a newer NumPy than the installed one", "a newer numpy, or an older build of the package that the traceback's last import names", "python -m pip install -U numpy"),
    Advice("S104", r"multiarray failed to import", "", "numpy below 2, or a newer build of the package that the traceback's last import names", "python -m pip install 'numpy<2'"),
    Advice("S104", r"[Nn]eeds NumPy", "", "the numpy that the message names, or a newer numba"),
    Advice("S104", r"MKL_THREADING_LAYER", "MKL was to take Intel's threads, and GNU's OpenMP is already loaded", "set it for every rank, or import numpy before torch", "export MKL_THREADING_LAYER=GNU"),
    Advice("S104", r"OMP: Error #15", "one process loaded OpenMP twice: from packages of pip and of conda, or of unlike builds", "packages of one source in a new environment (all of pip, or all of conda-forge); KMP_DUPLICATE_LIB_OK=TRUE lets it run, and may change results"),
    Advice("S104", r"argument: 'Loader'", "PyYAML 6 takes yaml.load only with a Loader", "yaml.safe_load(FILE) in place of yaml.load(FILE); where a package calls it, a newer version of that"),
    Advice("S104", r"module 'lib' has no", "pyOpenSSL is older than the installed cryptography", "upgrade the two together", "python -m pip install -U pyopenssl cryptography"),
    Advice("S104", r"module 'pkgutil' has no", "pip or setuptools are older than Python 3.12", "upgrade them in this environment, or make a new one", "python -m pip install -U pip setuptools"),
    Advice("S104", r"module '(?:collections|inspect|asyncio|fractions)' has no", "a package is older than this Python, whose standard library no longer has that name", "upgrade the package whose file the traceback ends in; else an older Python for this environment"),
    Advice("S104", r"MatmulLtState", "", "upgrade the two together", "python -m pip install -U peft bitsandbytes"),
    Advice("S104", r"UnsupportedClassVersion", "the Java that runs is older than the one that these classes were built for", "let JAVA_HOME name a newer one for every process: class file version 61 is Java 17, 65 is Java 21", "java -version"),
    Advice("S104", r"require users to upgrade torch", "the installed transformers reads .bin and .pt files with torch 2.6 or newer alone (CVE-2025-32434), and this torch is older", "a newer torch; weights as safetensors need none, but optimizer.pt, scheduler.pt and rng_state.pth of a checkpoint do", "python -m pip install -U 'torch>=2.6' torchvision --index-url URL"),
    Advice("S104", r"static TLS block", command="export LD_PRELOAD=FILE with the library of the message, or import its package before all others"),
    Advice("S104", r"torchvision|custom C\+\+ ops", command="python -m pip install --force-reinstall torch torchvision --index-url URL"),
    Advice("S128", r"[Rr]ecompil", "torch.compile compiled the same code anew too often: sizes, numbers or objects differ at each call", "torch._dynamo.mark_dynamic(x, DIM), or torch.compile(dynamic=True), for sizes that vary; pass a number that changes as a tensor", "export TORCH_LOGS=recompiles"),
    Advice("S68", r"AttrsDescriptor|triton_key|BackendConfig", "the installed Triton is of another version than this torch wants", "install the triton that pip check names; packages that pull in another one come after", "python -m pip check"),
    Advice("S68", r"module 'triton[\w.]*' has no attribute '", "the installed Triton is older or newer than the one that the kernel's package was written for", "the torch that this package names, with the Triton that comes with it; or a release of the package for this torch", "python -m pip check; python -m pip show torch triton"),
    Advice("S68", r"Unexpected (?:optimization option|type of attr)", "an option that is given to torch.compile is of another version of torch", "torch._inductor.list_options() has those of this torch: take the option out, or install the torch that the package which gives it (unsloth, vLLM) names"),
    Advice("S68", r"working triton|TritonMissing", "torch.compile finds no Triton, or an older one than this torch wants", "install the version that torch names (python -m pip show torch), on Windows triton-windows; else train without torch.compile"),
    Advice("S68", r"C\+\+\d\d or later compatible compiler is required", "the extension is built for an older C++ than this torch's headers take (C++20 since torch 2.14)", "a release of that package for this torch, or -std=c++20 where its setup.py says -std=c++17 (g++ 10 or newer); else an older torch", "grep -rn 'std=c++' setup.py; g++ --version"),
    Advice("S68", r"unsupported GNU version|Microsoft Visual Studio version", "the C++ compiler is newer than this CUDA toolkit takes", "build with the newest that the message allows (CC=gcc-N CXX=g++-N, NVCC_PREPEND_FLAGS='-ccbin g++-N'), or with a newer toolkit", "ls /usr/bin/g++-*; nvcc --version"),
    Advice("S68", r"fatal error: (?:cuda|cu|nccl|nv|thrust)\S*: No such", "the CUDA toolkit that builds is not whole: it lacks headers", "install the toolkit of torch's CUDA version with its libraries (of conda cuda-toolkit, not cuda-nvcc alone), and set CUDA_HOME", "nvcc --version; ls $CUDA_HOME/include"),
    Advice("S68", r"CUDAMismatch|C(?:UDA|uda) (?:version .{1,40}mismatches|.{0,60}does not match) the version", "the CUDA toolkit of this host is of another version than the one that torch was built for, so its nvcc builds no extension", "a toolkit of torch's version beside it, or a torch for this toolkit's; DS_SKIP_CUDA_CHECK=1 only where the two differ in the minor number"),
    Advice("S68", r"CMake Error", "CMake could not configure the native part of a package: the lines below say what it lacks", "install that with its headers (of cuDNN: nvidia-cudnn-cu12 with CUDNN_PATH, or a libcudnn9-dev), then install the package with pip's --no-build-isolation -v"),
    Advice("S68", r"Triton Error \[CUDA\]: invalid argument", "CUDA refused the launch of a Triton kernel: no blocks at all (an empty batch, an expert without tokens), more than 65,535 of them in y or z, or the Triton of another release", "print the shapes at that line; the torch, with its Triton, that the kernel's package names", "python -m pip show torch triton"),
    Advice("S68", r"libcuda\.so cannot found", "Triton does not find the driver's libcuda.so.1", "sudo ldconfig where the driver is installed; else TRITON_LIBCUDA_PATH=DIRECTORY (of WSL /usr/lib/wsl/lib)", "ldconfig -p | grep libcuda.so"),
    Advice("S68", r"Python\.h: No such", command="sudo apt install python3-dev"),
    Advice("S68", r"[Nn]inja is required|ninja not being installed|\bninja\b.{0,40}not found|No such file or directory: '\S*ninja'", command="python -m pip install ninja"),
    Advice("S68", r"\bninja\b.{0,4000}non-zero|ninja: build stopped", command="rm -r ~/.cache/torch_extensions, then MAX_JOBS=1: the compiler's first error is above this message"),
    Advice("S68", r"CUDA_HOME|No such file or directory: '\S*nvcc'|CUDA version|MissingCUDA", command="install the CUDA toolkit of torch's CUDA version, and set CUDA_HOME"),
    Advice("S68", r"No such file or directory: '/(?!usr/bin/)\S{1,200}/(?:gcc|g\+\+|clang)", command="unset CC CXX, or let them name a compiler of this host (env: of the run config)"),
    Advice("S68", r"C(?:\+\+)? compiler|CxxCompiler|No such file or directory: '\S*(?:gcc|g\+\+|clang)'|Compiler: \S+ is not found", command="sudo apt install g++"),
    Advice("S68", r"^triton\.compiler\.errors\.CompilationError(?!(?s:.*)(?:_inductor|_dynamo))", command="correct the @triton.jit function, or take another version of its package: line and column count from its def, and the last line names the fault"),
    Advice("S68", r"cannot find -lcuda\b", command="export LIBRARY_PATH=/usr/local/cuda/lib64/stubs"),
    Advice("S68", r"Triton Error|_inductor|_dynamo|inductor|[Tt]riton", command="export TORCHDYNAMO_DISABLE=1"),
    Advice("S65", "", command="unset PYTHONHOME PYTHONPATH"),
    Advice("S91", r"requires Accelerate", "transformers loads quantised weights with accelerate, which is missing or too old", "", "python -m pip install -U accelerate"),
    Advice("S91", r"", command="python -m pip install -U bitsandbytes"),
    Advice("S89", r"module '(?:numpy|np)' has no attribute '(?:float|int|bool|object|str|complex)'", "NumPy 1.24 took its aliases of Python's own types away", "float, int and bool in place of np.float, np.int and np.bool; where the traceback ends in a package, a newer version of that"),
    Advice("S89", r"'PIL\.Image' has no attribute", "Pillow 10 took that name away", "Image.LANCZOS in place of Image.ANTIALIAS; where the traceback ends in a package, a newer version of that", "python -m pip install 'pillow<10'"),
    Advice("S89", r"No module named '_(?:lzma|bz2|ctypes|sqlite3|ssl|hashlib|tkinter|curses|readline)'", "this Python was built without that part of its standard library, which pip cannot add",
           "take another Python for the environment (the distribution's, conda's, uv's), or install the library's -dev package and build it again"),
    Advice("S89", r"\blib(?:GL|SM|Xext|Xrender|gthread-2\.0)\.so[.\d]*: cannot open", "the OpenCV with windows is installed, and this host or image has no graphics libraries",
           "take the build without windows; or sudo apt install libgl1 libglib2.0-0", "python -m pip uninstall -y opencv-python && python -m pip install opencv-python-headless"),
    Advice("S89", r"DLL load failed", "Windows cannot load a library of that module, or one that it needs", "Microsoft's Visual C++ Redistributable, then that package again, in a build for this Python and torch"),
    Advice("S89", r"\b[Bb]ackends?\b.{0,30}(?:handle uri|available)", "torchaudio has no reader for that file: none is installed, or none for its format", "soundfile for WAV and FLAC, torchcodec and ffmpeg for MP3", "python -m pip install soundfile"),
    Advice("S108", r"Could not convert .{1,400} tried to convert|changed from \w+ to \w+", "a column of the data holds values of two types", "make them of one type in the file, or name it: load_dataset(..., features=Features(...))", ""),
    Advice("S108", r"Error tokenizing data", command="read_csv(..., on_bad_lines='warn') names the lines with more fields than the first: another sep=, or an open quote"),
    Advice("S108", "", command="find DIR -type f -size 0 lists empty files"),
    Advice("S98", r"XLA_FLAGS", command="take that flag out of XLA_FLAGS (env: of the run config): the installed jaxlib does not know it"),
    Advice("S98", r"\b(?:hydra|omegaconf)\.errors\.|in struct|Missing key |unknown key in a struct|Could not override|You must specify|Primary config", command="python SCRIPT --cfg job shows the config; KEY=VALUE sets a key of it, +KEY=VALUE adds one"),
    Advice("S98", r"error: .{0,80}--local[-_]rank", command='read LOCAL_RANK from the environment, or add_argument("--local-rank", "--local_rank", type=int)'),
    Advice("S98", r"(?:torchrun|\b(?:run|launch)\.py): error: unrecognized arguments: (?:.{0,80} )?--(?:nproc-per|node-rank|rdzv-|master-|max-restarts|monitor-interval|start-method|log-dir|no-python|run-path)", command="write its - as _ (--nproc_per_node), which every torchrun takes: torch before 2.0 knows no other"),
    Advice("S98", r"(?<!launch)\.py: error: unrecognized arguments: .{0,80}(?:torch\.distributed|--(?:nproc|nnodes|node|rdzv|master|use|standalone|num_(?:processes|machines)|main_process|multi_gpu)[\w-]*)\b", command="the launcher's options belong before the script: torchrun --nproc_per_node N SCRIPT ARGUMENTS"),
    Advice("S00", r"Weight update group already initialized", command="restart trl vllm-serve: it keeps the group of a client that crashed"),
)  # fmt: skip
