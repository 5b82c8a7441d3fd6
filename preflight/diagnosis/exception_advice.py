"""What to do about an exception that no row knows, by its type and Python's own words. One table; pure."""

import re

ANY_ADVICE = "read the message and that line: gpulaunch knows no general cure for it"
# (types or "" for any, words of its message, what usually is wrong and how to see it), of which the first that fits counts.
_ADVICE: tuple[tuple[str, str, str], ...] = (
    ("AttributeError|TypeError", r"'NoneType'|not NoneType\b", "a value is None at that line: what should have made it returned nothing, or was not called"),
    ("AttributeError", r"^module '", "that module has no such name: its version differs from what the script was written for, or a file of the same name hides it"),
    ("AttributeError", r"^'\w*(?:Parallel|DataParallel|FSDP|FullyShardedDataParallel|DeepSpeedEngine)\w*' object", "the wrapper has no such name: ask the model within it (model.module)"),
    ("AttributeError", r"^type object '", "that class has no such name in the installed version: compare it (pip show) with the one that the script's requirements name"),
    ("AttributeError", "", "print the type of the object at that line, and its version's documentation"),
    ("KeyError", r"^'[A-Z][A-Z0-9]*_[A-Z0-9_]+'$", "the mapping at that line lacks the key; where it is os.environ, set the variable for every rank (env: of the run config)"),
    ("KeyError", r"is not in the .{0,80}\bregistry", "nothing registered that name: import the module that does (custom_imports of the config, the package's register_all_modules), spell it as that module does, or install the version that has it"),
    ("KeyError", r"already registered in", "two modules register that name: a copy of the package in the working directory beside the installed one, or the decorator twice"),
    ("KeyError", "", "the mapping at that line lacks the key: print its keys, and compare them with the config, batch or checkpoint that it came from"),
    ("IndexError", r"out of bounds for (?:dimension|axis)", "print the shape of the tensor or array at that line on the rank that failed: a dimension is smaller than the index"),
    ("IndexError", "", "the sequence at that line is shorter than the script expects: print its length, which is 0 where nothing was read"),
    ("FileExistsError", "", "an earlier run left it, or every rank makes it: makedirs(exist_ok=True), or rank 0 alone and a barrier; one /NAME alone is in /dev/shm"),
    ("TypeError", r"not supported between instances of '(?:float|int|str)' and '(?:float|int|str)'", "one of the two is text where a number is wanted: float(...) where it is read; YAML takes 1e-4 for text, and 1.0e-4 for a number"),
    ("UnboundLocalError", "", "the branch that sets this name did not run: a loop over nothing, or a condition that no argument fulfils"),
    ("NameError", "", "the name is spelt otherwise, or its import or definition did not run before that line"),
    ("ZeroDivisionError", "", "a count is 0 at that line: a loader without batches, or fewer samples than ranks times the batch size"),
    ("StopIteration", "", "an iterator was empty or ran out: a loader without batches, another length on this rank, or the parameters() of a replica of nn.DataParallel, empty since torch 1.5 (take the device of an input, or start one process per GPU)"),
    ("SyntaxError", "", "Python cannot parse that line or the end of the one above: a half-done edit or merge, or a file for a newer Python than this one"),
    ("IndentationError|TabError", "", "blanks and tabs of that line do not fit those above it: a half-done edit, or a paste"),
    ("NotImplementedError", "", "the object at that line has no such method for what it is given: its base class says so"),
    ("AssertionError", "", "what that line asserts does not hold: print both sides of it before"),
    ("TypeError", r"unexpected keyword|positional argument|missing \d+ required", "the call at that line does not fit the function's signature: another version of it, or another class"),
    ("TypeError", r"\bmust be (?:a )?\w+, not \w+|\bexpected (?:a )?\w+,? (?:but )?got \w+", "an argument at that line has another type than the function takes: print its type, and convert it before (torch.as_tensor for a list)"),
    ("ImportError", r"^cannot import name", "the module that the message names lacks that name: an older or newer version, a file of the same name, or a circular import"),
    ("ValueError", r"\bchat[_ ]template\b", "this tokenizer has no chat template: take that of the instruct model, or set tokenizer.chat_template to the format that the data has"),
    ("", r"\bpad(?:ding)?[_ ]token\b", "set one before the first batch: tokenizer.pad_token = tokenizer.eos_token, and model.config.pad_token_id to its id"),
    ("UndefinedError", "", "the template reads a name or field that it was not given: print the keys of the one that failed (of a conversation: role, content)"),
    ("TemplateError|TemplateSyntaxError", "", "the chat template refuses a conversation of the data: print the one that failed (roles in turn, each message with role and content)"),
    ("CastError|DatasetGenerationCastError|DatasetGenerationError", "", "the files of the data set differ in their columns or types: load those of one kind (data_files=), or say which they are (features=)"),
    ("ValueError", r"activate truncation and/or padding", "samples of a batch differ in length, or a column holds text: pad in the collator, truncate when tokenizing, and drop that column"),
    ("ValueError", r"^No columns in the dataset match", "the model takes none of these columns: tokenize the data before, or remove_unused_columns=False where a collator does it"),
    ("ValueError", r"did not return a loss", "the batch has no labels: add that column (or a collator that makes it), or take the class of the model for this task"),
    ("ValueError", r"^Hostfile ", "write each host once in the hostfile, as HOST slots=GPUS with nothing else in the line"),
    ("ValueError", r"\bnum_samples=0$", "the data set is empty: print its length, and the paths that it was read from, on every host"),
    ("", r"^Target modules? .{1,2000} not found", "print the names that model.named_modules() yields, or take target_modules='all-linear'"),
    ("ValueError", r"purely quantized models", "add adapters first: get_peft_model(model, LoraConfig(...)), or peft_config= of the trainer"),
    ("ValueError", r"\btrust_remote_code\b", "read the code of that repository, then trust_remote_code=True for the model, the tokenizer and the data set"),
    ("RuntimeError", r"backward through the graph a second time", "a tensor of an earlier step or loss is still in the graph: detach() it, or one backward for the sum of the losses"),
    ("RuntimeError", r"modified by an inplace operation", "torch.autograd.set_detect_anomaly(True) shows which: x = x + y for x += y; where DDP runs a forward twice, broadcast_buffers=False"),
    ("RuntimeError", r"created only for scalar outputs", "reduce the loss to one number before its backward: loss.mean()"),
    ("TypeError", r"is not JSON serializable", "convert it before it is written: .item() or .tolist() for a tensor or an array"),
    ("UnicodeDecodeError", "", "the file is binary or compressed, or text of another encoding: read it with its own reader, or name the encoding (encoding=)"),
    ("JSONDecodeError|ScannerError|ParserError", "", "what was read is not what this parser takes: print its first characters; it is often empty, cut off, or a page that reports an error"),
    ("RuntimeError", r"powers of two when computing in half precision", "run the FFT in float32 (x.float(), outside of autocast): cuFFT takes half precision for sizes of a power of two alone"),
    ("TypeError", r"convert cuda\S* device type tensor to numpy", "tensor.detach().cpu() first: for numbers that are kept, loss.item() where they are made"),
    ("RuntimeError", r"only dense CPU tensors can be pinned", "the dataset or its collator returns tensors of the GPU: return those of the CPU, or pin_memory=False"),
    ("RuntimeError", r"mixed torch\.Tensor and DTensor", "a parameter of a sharded module (FSDP2, tensor parallel) is used outside of it: call that module, or take weight.full_tensor()"),
    ("RuntimeError", r"unsafe to autocast", "binary_cross_entropy_with_logits (BCEWithLogitsLoss) on what is before the sigmoid: autocast may run it"),
    ("RuntimeError", r"does not have a deterministic implementation|CUBLAS_WORKSPACE_CONFIG", "torch.use_deterministic_algorithms(True, warn_only=True), or another operation; for cuBLAS export CUBLAS_WORKSPACE_CONFIG=:4096:8"),
    ("RuntimeError", r"(?i)\bgraph capture\b|\bstream(?: is)? captur|during capture\b", "take that call out of what the CUDA graph records: copies to the CPU (.item(), .cpu(), print), seeds, allocations outside of its pool; run it once before"),
    ("TypeError", r"unsupported ScalarType BFloat16", "tensor.float() before .numpy(): NumPy has no bfloat16"),
    ("RuntimeError", r"^DataLoader timed out", "a sample took longer than the loader's timeout=: a slow or hung disk or download; num_workers=0 shows which"),
    ("RuntimeError", r"[Tt]ensors share memory", "safetensors.torch.save_model(model, FILE), or model.save_pretrained(): they write tied weights once"),
    ("", r"transformer layer class|had unknown keys", "write the name as the installed version has it: print(model) shows its layers, accelerate config writes a file with the keys that it knows"),
    ("TorchRuntimeError", "", "the message's 'got ...Error(' says how: 'no fake impl' wants torch.library.register_fake of that operation; another error comes without torch.compile, too (TORCHDYNAMO_DISABLE=1 shows its line)"),
    ("InvalidBackend", "", "torch._dynamo.list_backends() names those that this environment has"),
    ("RuntimeError", r"CUDAGraphs that has been overwritten", "clone() what is kept of a compiled function's output, or torch.compiler.cudagraph_mark_step_begin() before each step"),
    ("RuntimeError", r"[Ii]nference tensors? ", "torch.no_grad() in place of inference_mode where its tensors go into training, or clone() them outside of it"),
    ("RuntimeError", r"\b(?:on|from)(?: the)? meta device", "model.to_empty(device='cuda') behind the wrapping, then the weights: load a checkpoint, or reset_parameters() of each module"),
    ("RuntimeError", r"Array has been deleted", "an argument in donate_argnums is gone behind the call: continue with what the call returned, or do not donate that one"),
    ("TracerBoolConversionError|ConcretizationTypeError|TracerIntegerConversionError", "", "jnp.where or jax.lax.cond for a branch on a value; static_argnums for an argument that is a setting"),
    ("RuntimeError", r"RNN backward can only be called in training mode", "model.train() before a forward whose backward runs; torch.backends.cudnn.flags(enabled=False) around it where it must be eval()"),
    ("LinAlgError|_LinAlgError|NotPSDError", "", "add more to the diagonal, use float64, and look for NaN, equal or unscaled rows in the matrix of that line"),
    ("CUDARuntimeError", r"invalid argument", "a CUDA call got a size of 0 or less, or memory that was freed or lies on another GPU: CUDA_LAUNCH_BLOCKING=1 shows which call"),
    ("RuntimeError|ValueError|TypeError", r"(?<!batch )\bsizes?\b|\bbatch_size \(\d|\bshapes?\b|dimension", "print the shapes of the tensors or arrays at that line on the rank that failed"),
    ("", r"\benvironment variables?\b", "set the variable that the message names, for every rank (env: of the run config)"),
    ("ValueError", r"unpack", "what is unpacked at that line has another number of parts: print it"),
)  # fmt: skip


def advice_for(name: str, message: str) -> str:
    """Return what usually is wrong where an exception of a type is raised, and how to see it."""
    for types, words, advice in _ADVICE:
        if name in (types or name).split("|") and re.search(words, message):
            return advice
    return ANY_ADVICE
