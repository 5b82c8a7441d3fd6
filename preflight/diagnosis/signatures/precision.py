"""Precision, dtypes and gradients."""

from preflight.diagnosis.signatures.cuda_statuses import KERNEL_ASSERTION
from preflight.diagnosis.signatures.model import GENERAL, ROOT, Advice, Signature

_HALVES = r"(?:Half|BFloat16|Float|Double|Int|Long|Short|Char|Byte|Bool|Complex\w+|Float8\w+|UInt\d+)"

ROWS: tuple[Signature, ...] = (
    Signature("S01", "fp16-unscale", ROOT, r"Attempting to unscale FP16 gradients",
              "a trainable parameter is fp16 while an fp16 gradient scaler is on",
              "load the trainable parameters in float32 (dtype=torch.float32) and keep fp16 mixed precision; or bf16"
              " where every GPU has compute capability 8.0. No command-line flag repairs it", "run"),
    Signature("S02", "bf16-scaler", ROOT,
              r"_amp_(?:foreach_)?non_finite_check_and_unscale_?\w*\W+ not implemented for .?BFloat16"
              r"|_amp_update_scale\w*\W+ not implemented for .?BFloat16|fp16 scaler is not compatible with bf16",
              "trainable bf16 parameters under an fp16 gradient scaler (a bf16 checkpoint, TRL with a quantised base)",
              "use bf16 instead of fp16 (GPUs from 8.0 on), or cast the trainable parameters to float32", "thread"),
    Signature("S03", "dtype-mismatch", ROOT,
              r"expected dtype [\w:. ]+ for `(?:end|weight)` but got dtype|Found dtype \w+ but expected \w+",
              "the module was cast after the optimizer made its state (for an evaluation, demo or save), or gradient"
              " and state differ in dtype", "find the .to(dtype)/.half()/.bfloat16() that runs between two steps and"
              " cast a copy.deepcopy(model) instead", "run"),
    Signature("S04", "scaler-misuse", ROOT,
              r"Attempted \w+ but _scale is None|No inf checks were recorded for this optimizer",
              "loss.backward() ran without the scaler, or no parameter got a gradient",
              "accelerator.backward(loss), or scaler.scale(loss).backward(), before each step; print which of the optimizer's parameters have no .grad", "run"),
    Signature("S05", "scaler-misuse", ROOT,
              r"unscale_\(\) has already been called on this optimizer|step\(\) has already been called since the last"
              r" update|unscale_\(\) is being called after step\(\)",
              "clipped twice in a step, or scaler.update() is missing", "one unscale_/clip per optimizer and step; with gradient accumulation clip under `if accelerator.sync_gradients:`", "run"),
    Signature("S27", "missing-module", ROOT,
              r"[Ff]lash[_ -]?[Aa]tt\w*[^:]{0,80}(?:toggled on)?.{0,120}(?:package|library)\b.{0,60}(?:not (?:be )?|n't (?:seem to )?(?:be )?|n't )installed"
              r"|[Ff]lash_?attn\S* (?:is|seems to be|seems) not installed|No module named '?(?:flash_attn|flash_attn_\w+|flash_attention)\b"
              r"|(?:[Pp]lease|[Yy]ou (?:need|must)) install `?flash[-_]attn|[Ff]lash ?[Aa]ttention\S*(?: 2)? is not installed",
              "the package flash-attn is not installed on this host; that says nothing about its GPUs",
              "attn_implementation='sdpa' needs no package; else MAX_JOBS=4 python -m pip install flash-attn --no-build-isolation, with this torch and a toolkit of its CUDA", "run"),
    Signature("S16", "flash-attn-unsupported", ROOT,
              r"FlashAttention(?:-?\d)?(?: forward| backward)? only supports? (?:Ampere|Hopper|Turing|fp16|head)|Flash ?Attention-?\s?\d? has been"
              r" toggled on|FlashAttention only support fp16 and bf16|xFormers (?:was built without|wasn't built|can't load)|No dot product attention (?:backend is available|support for)|flash_attn\S*: undefined symbol|No such operator (?:xformers|flash)\w*::|No operator found for (?:.memory_efficient_attention|this attention)|No (?:viable backend for scaled_dot_product_attention|available kernel\. {1,2}Aborting execution)"
              r"|FlashAttention\w* (?:is )?not supported|FlashAttention backward for head dim|Expected is_sm\d+x?(?: \|\| is_sm\d+x?)* to be true|The current flash attention version|Flash ?Attention(?: [\d.]+)? only supports"
              r"|flash_attn_(?:gpu|cuda|2_cuda)\W.{0,80}(?:cannot open shared object|No module named)"
              r"|FlashAttention-?\d? .{0,80}requires? (?:a )?(?:GPU|compute|CUDA|Ampere)"
              r"|FlashAttention is only supported on (?:CUDA )?devices? with compute"
              r"|does not support Flash ?Attention|head_dim .{0,40}not supported by FlashAttention"
              r"|no backend .{0,60}flash.attention|Cannot use FlashAttention-\d backend"
              r"|[Ff]lash ?[Aa]ttention 2.{0,60}(?:need|require)s? (?:an? )?(?:Ampere|GPU)",
              "FlashAttention 2 needs compute capability 8.0, fp16 or bf16 inputs, and the package built for this torch",
              "attn_implementation='sdpa' (torch's own needs no package, and runs on every GPU)", "run"),
    Signature("S06", "bf16-unsupported", ROOT,
              r"bf16 mixed precision requires PyTorch >= 1\.10|Your setup doesn't support bf16"
              r"|Current CUDA Device does not support bfloat16"
              r"|[Bb][Ff](?:loat)?16 is only supported on GPUs with compute capability"
              r"|[Bb][Ff](?:loat)?16[`'\"]? (?:is |are )?not supported (?:on|by|with) (?:this|your|the current|current|GPU|the)"
              r"|[Tt]ype bf16 is not supported|(?:GPU|[Dd]evice|hardware|card) does(?:n't| not) support [`'\"]?[Bb][Ff](?:loat)?16"
              r"|[Bb][Ff](?:loat)?16 requested,? but|CUBLAS_STATUS_NOT_SUPPORTED.{0,300}CUDA_R_16BF"
              r"|Feature '[^']*bf16[^']*' requires \.target|bf16 requires? (?:an? )?Ampere"
              r"|[Bb][Ff](?:loat)?16 (?:training )?(?:requires|needs) (?:a GPU|GPUs|compute capability|an? Ampere|CUDA)"
              r"|to use bf16,? you need",
              "bf16 on a GPU older than compute capability 8.0, or on a process that sees no GPU",
              "--fp16 for --bf16 on compute capability 7.x (vLLM: --dtype half; Lightning: precision='16-mixed'), float32 where the model overflows in it (T5, Gemma); gpulaunch preflight HOST where the host should have another GPU", "run"),
    Signature("S07", "driver-mismatch", ROOT,
              r"[Ff][Pp]16 [Mm]ixed [Pp]recision requires a (?:GPU|device in)"
              r"|FP16 Mixed precision training with AMP.{0,200}can only be used on (?:CUDA|GPU)"
              r"|Mixed precision training with AMP or APEX .{0,200}can only be used on CUDA"
              r"|fp16 mixed precision requires a GPU|[Tt]ype fp16 is not supported on your device",
              "the config requests fp16, and this process sees no CUDA GPU",
              "gpulaunch preflight HOST: driver, CUDA_VISIBLE_DEVICES and the torch wheel; on CPU use no or bf16", "source"),
    Signature("S10", "precision-conflict", ROOT, r"At most one of fp16 and bf16 can be True",
              "fp16 and bf16 are both set", "keep bf16 where every GPU has compute capability 8.0, else fp16; take the other out of the arguments and of accelerate's or DeepSpeed's config", "source"),
    Signature("S09", "precision-conflict", ROOT, r"AcceleratorState has already been initialized and cannot be changed",
              "two Accelerators with different mixed precision, or TrainingArguments were made before",
              "make one Accelerator, with the precision that the arguments and accelerate's config have; in a notebook restart the kernel before", "run"),
    Signature("S13", "dtype-mismatch", ROOT,
              r"attempting to assign a gradient with dtype|assigned grad has data of a different type",
              "the script assigns p.grad of another dtype", "cast the gradient to p.dtype", "run"),
    Signature("S14", "fp8-unsupported", ROOT,
              r"FP8 is not available on this machine|Using `fp8` precision requires|insufficient for FP8"
              r"|Device compute capability 8\.9 or higher required for FP8|CublasLt version \S+ or higher required for FP8|no FP8-compatible backend was installed"
              r"|fp8 quantization requires compute|type fp8e\w+ not supported in this architecture|torch\._scaled_mm is only supported on CUDA devices with compute capability",
              "fp8 without TransformerEngine, MS-AMP or torchao, or on a GPU below 8.9", "mixed precision bf16: fp8 needs a GPU of compute capability 8.9", "source"),
    Signature("S15", "tf32-unsupported", ROOT, r"--tf32 requires Ampere", "tf32 on a GPU below 8.0", "drop tf32", "run"),
    Signature("S28", "dtype-mismatch", ROOT,
              r"Must flatten tensors with uniform dtype|FSDP (?:reduce-scatter )?expects uniform \w+(?: \w+)? dtype|FSDP expects uniform dtype",
              "FSDP shards parameters of one unit together, and these differ in dtype",
              "load the whole model in one dtype (dtype=torch.bfloat16) before it is wrapped; with a 4-bit base set"
              " bnb_4bit_quant_storage to that dtype; with LoRA cast the adapters to it too", "source"),
    Signature("S29", "user-exception", ROOT,
              r"Must flatten tensors with uniform `?requires_grad`?|uniform `?requires_grad`? when `?use_orig_params",
              "FSDP shards frozen and trained parameters together (LoRA, a frozen encoder), which it cannot without use_orig_params",
              "fsdp_use_orig_params: true (FullyShardedDataParallel(..., use_orig_params=True)), or FSDP2; or a wrap policy that"
              " puts frozen and trained modules into units of their own (peft's fsdp_auto_wrap_policy)", "source"),
    Signature("S46", "user-exception", ROOT,
              r"'status': '(?:NOT_AVAILABLE|INFLIGHT)'.{0,80}'ds?_?numel'|'status': '(?:NOT_AVAILABLE|INFLIGHT)', 'numel'|still have inflight params|not in (?:the )?`?(?:self\.)?__inflight_param_registry"
              r"|tracing error at step \d+: ?(?:$|module|expected|\()|torch\.Size\(\[0\]\) from checkpoint|shape in current model is torch\.Size\(\[0\]\)",
              "DeepSpeed ZeRO-3: a parameter was used while it was not gathered on this rank: ranks or steps took different paths"
              " through the model, a parameter was called outside its module, or weights were loaded into the partitioned model",
              "the same modules in the same order on every rank and step; deepspeed.zero.GatheredParameters around access to"
              " weights; load checkpoints by from_pretrained or the engine; stage3_prefetch_bucket_size: 0 names the module", "thread"),
    Signature("S47", "dtype-mismatch", ROOT,
              r"could not create a primitive descriptor for (?:a|the) \w*(?:convolution|inner product|matmul)|params, grads, exp_avgs, and exp_avg_sqs must have"
              r"|[Ff]unction \w+Backward\d* returned an invalid gradient at index \d+ - expected (?:type|dtype) .{0,60} but got"
              r"|expected (?:input|grad_output|weight) and (?:input|grad_output|weight) to (?:have|be of) (?:the )?same (?:d?type)",
              "a backward pass met tensors of different dtypes: a custom backward, a cast between forward and backward, or"
              " gradients in another dtype than their parameters",
              "cast the result of a custom backward to its input's dtype; loss.float() before backward(); no .to(dtype) on a"
              " module between forward and step", "run"),
    Signature("S08", "dtype-mismatch", ROOT,
              r"mat1 and mat2 (?:must|to) have the same dtype|expected m\w+ and m\w+ to have the same dtype"
              r"|expected scalar type \w+ but (?:found|got)|Input type \((?!torch\.(?:cuda\.)?(?P<kind>\w+)\) and \w+ type \(torch\.(?:cuda\.)?(?P=kind)\)).{0,120}\) and (?:bias|weight) type \(.{0,120}\) should"
              r"|Index put requires the source and destination dtypes match|\"[\w:]+\" not implemented for '" + _HALVES + r"'"
              r"|Expected out tensor to have dtype|self and mat2 must have the same dtype|[Qq]uery,? (?:and )?key,?.{0,20} (?:must|to)"
              r" have the same dtype|to have the same dtype, but|should either all have the same dtype|have (?:the )?same (?:dtype|dtypes|scalar type),? (?:but )?(?:got|found)"
              r"|must have the same scalar type|Expected self\.dtype to be equal to|value cannot be converted to type \S+ without"
              r" overflow|to match query dtype, but got"
              r"|can't be cast to the desired output type|dtype must be either a floating point or complex|Expected (?:tensor for argument|object of)[^,]{0,60}(?:scalar|data) types?"
              r"|expected both vectors to have same dtype|(?:Half|BFloat16|Float) did not match (?:Half|BFloat16|Float)"
              r"|tensor dtypes? (?:mismatch|must match)|dtype mismatch[:,]|mixed dtype \(CPU\): expect|expected input\w* (?:dtype|to have"
              r" dtype) \S+,? but|inputs? (?:dtype|type) .{0,40}does not match (?:weight|parameter)s? dtype"
              r"|[Ee]xpected (?:dtype|data type) \S+ (?:but|, but) got|All input tensors must have the same dtype"
              r"|Tensors must (?:all )?(?:be of|have) (?:the )?(?:same|identical) (?:d?type)|got different dtypes"
              r"|must match except in dimension.{0,1}dtype|should be the same dtype|but got (?:grad_?)?output of dtype",
              "an operation met a dtype that it does not take, mostly a half-precision model fed float32 (or the reverse) outside autocast",
              "run that code under accelerator.autocast(), or cast its inputs to the weights' dtype", "run"),
    Signature("S18", "nan-loss", ROOT,
              r"(?<!\w)(?<!val )(?<!eval )(?<!test )(?<!validation )(?<!if )(?<!when )(?<!if the )(?<!when the )(?:[Tt]rain\w*[_ /])?[Ll]oss(?: value)? (?:is|was|became) (?:nan|NaN|NAN|inf|Inf|infinite)\b(?! \w+ filter)|[Ll]oss is (?:nan|inf|-inf), stopping"
              r"|Current loss scale already at minimum|loss returned in \S+ is (?:nan|NaN|inf)|Detected nan and/or inf values|Minimum loss scale reached|FloatingPointError: Minimum loss\b|grad_scale is too small, exiting|[Mm]odel diverged with loss"
              r"|Loss became infinite or NaN|found (?:NaN|Inf|nan|inf) in (?:local|loss|global)|\bUnexpected result (?:nan|inf)\b|NaN (?:or Inf )?(?:found|detected|encountered) in"
              r" (?:loss|local|grad|the loss|training loss)|[Nn]on-finite loss|(?:[Nn]an|NaN|NAN) (?:loss|grad norm) (?:encountered|detected|occur)(?!.{0,80}\b[Ss]kipp)"
              r"|[Ii]nvalid loss, terminating|loss is not finite|Monitored metric \S*loss\S* = (?:nan|inf) is not finite"
              r"|returned nan values in its \d+th output|found invalid values:\s*tensor\(.{0,40}\bnan"
              r"|[Ll]oss (?:exploded|diverged)\b.{0,40}(?:nan|inf|stop|abort)|reducing loss scale to 0(?:\.0)?$"
              r"|[Tt]raining (?:diverged|has diverged)|[Gg]radients? (?:contain|contains|are|is) (?:nan|NaN|NAN)"
              r"|The loss of the current iteration is (?:nan|NaN|inf)|reducing loss scale to \d(?:\.\d+)?e-\d\d"
              r"|ERROR.{0,60}\bloss\b.{0,20}\b(?:nan|NaN)\b|(?<!\w)(?:[Ss]top(?:p(?:ing|ed))?|[Aa]bort(?:ing|ed)?|[Tt]erminat(?:ing|ed)|[Hh]alt(?:ing|ed)?|[Ee]xit(?:ing|ed)?)\b(?:(?!\b(?:if|when|whenever|once|unless|case)\b).){0,60}\b(?:loss|[Gg]rad\w*(?:[ _]norm)?) (?:is|was|became|has been|turned) (?:now )?(?:nan|NaN|NAN|inf|Inf|[Nn]on-?finite|not finite)\b|\b[Gg]rad\w*[ _]norm (?:is|was|became|has been|turned) (?:nan|NaN|NAN|inf|Inf|[Nn]on-?finite|not finite)\b(?:(?!\b(?:skip|before|not|if)).){0,80}\b(?:stopp|abort|terminat|halt|exit)(?:ing|ed)\b",
              "the loss is NaN or infinite, or the loss scale fell to its minimum: pure fp16 training, a model made for"
              " bf16 in fp16, too high a learning rate, or bad data",
              "float32 parameters with mixed precision (bf16 where the GPUs have it), a lower learning rate; gpulaunch"
              " rehearse names the first bad step", "thread"),
    Signature("S19", "nan-loss", GENERAL,
              r"probability tensor contains either `inf`, `nan`|" + KERNEL_ASSERTION + r"[^`]{0,80}(?:\bcumdist\b|\b_?isnan\b|\b_?isinf\b|\bisfinite\b|\bsum > |\bval >= |0 <= p\d* && p\d* <= 1)"
              r"|Input contains NaN, infinity or a value too large for dtype\('float16'\)|FloatingPointError: invalid value \((?:nan|inf)\) encountered in |AssertionError: tensor\(\[*(?:-?\d[-\d.e+]*, *){0,20}-?(?:nan|inf)\b"
              r"|to satisfy the constraint \w+\(.{0,60}\), but found invalid values",
              "the model's outputs are NaN or infinite: an earlier step broke its weights, or fp16 overflows",
              "bf16 instead of fp16, or float32; look at the losses before this", "thread"),
    Signature("S17", "no-gradient", ROOT, r"element \d+ of (?:tensors|variables) does not require grad",
              "the loss depends on no trained parameter: all are frozen, a detach() or no_grad() is in the way, or reentrant checkpointing runs over"
              " frozen inputs",
              "print the parameters that require gradients; with frozen inputs (LoRA) model.enable_input_require_grads() or"
              " gradient_checkpointing_kwargs={'use_reentrant': False}", "run"),
)  # fmt: skip

ADVICE: tuple[Advice, ...] = (
    Advice("S03", r"Found dtype (?:Long|Int|Short|Byte|Bool|Double) but", "a loss got targets of another dtype than the predictions", "targets.float() before the loss: mse_loss and binary_cross_entropy take neither integers nor float64"),
    Advice("S03", r"Found dtype (?:Half|BFloat16|Float) but", "a loss got predictions and targets of two dtypes", "logits.float() and targets.float() before the loss: in half precision it is also inexact"),
    Advice("S04", r"_scale is None", "", "scaler.scale(loss).backward() in place of loss.backward() (with accelerate accelerator.backward(loss)), before unscale_ and step"),
    Advice("S05", r"step\(\) has already been called|after step\(\)", "scaler.update() is missing between two steps of the optimizer", "scaler.update() once, right behind scaler.step(optimizer)"),
    Advice("S16", r"[Nn]o dot product attention", "TransformerEngine has no attention for these inputs on this GPU: each back end that is installed declines their head sizes, layout, mask or dtype",
           "its debug lines say why each declines; a newer cuDNN or flash-attn takes more, padded batches (bshd, sbhd) more than packed ones (thd)", "export NVTE_DEBUG=1 NVTE_DEBUG_LEVEL=2"),
    Advice("S16", r"/vllm/|\bvllm\b|Cannot use FlashAttention-\d backend", "", "another attention of vLLM: --attention-backend TRITON_ATTN (older versions read VLLM_ATTENTION_BACKEND)", in_frames=True),
    Advice("S16", r"fp16 and bf16", "FlashAttention got float32: the weights were loaded in it, or a module casts to it", "load them with dtype=torch.bfloat16 (torch_dtype= before transformers 4.56), or call the model under autocast; attn_implementation='sdpa' takes float32, too"),
    Advice("S16", r"[Xx]Formers|XFORMERS|xformers|memory_efficient_attention", "the installed xformers was built for another torch, CUDA or Python, or for no GPU", "install the xformers of this torch, or go without: torch's own sdpa needs no package", "python -m xformers.info", in_frames=True),
    Advice("S16", r"flash_attn\w*\.\S{1,80}\.so: undefined symbol", "flash-attn was built for another torch than the installed one", "build it anew against this torch, or take the wheel of its releases for this torch, CUDA, Python and C++ ABI (torch.compiled_with_cxx11_abi()); attn_implementation='sdpa' needs no package"),
    Advice("S16", r"undefined symbol|cannot open shared object", command="python -m pip install --force-reinstall --no-deps --no-cache-dir --no-build-isolation flash-attn"),
    Advice("S16", r"[Nn]o available kernel", command="the warnings above say why each kernel declines; allow another one: sdpa_kernel([..., SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])"),
    Advice("S14", r"CublasLt version", "the cuBLAS that is loaded is older than fp8 on this GPU wants", "a torch of a newer CUDA, in an environment of its own; unset LD_LIBRARY_PATH, where an older cuBLAS is found first; until then mixed precision bf16", "python -m pip list | grep -i cublas"),
    Advice("S14", r"to be installed|was installed", "no package for fp8 is installed", "on GPUs from 8.9 on install one; else mixed precision bf16", "python -m pip install torchao"),
    Advice("S46 S88", r"mixed torch\.Tensor and DTensor", "plain tensors are loaded into parameters that FSDP2 or tensor parallelism has sharded (DTensor)", "load them before fully_shard, or with torch.distributed.checkpoint.state_dict.set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))"),
    Advice("S46 S88", r"torch\.Size\(\[0\]\) from checkpoint", "the checkpoint was saved under ZeRO-3 without gathering its weights, which are empty in it", "convert the engine's own checkpoint: python zero_to_fp32.py . OUTPUT, in its directory; for later ones stage3_gather_16bit_weights_on_model_save: true"),
    Advice("S46 S88", r"current model is torch\.Size\(\[0\]\)", "ZeRO-3 has already partitioned the model that the weights are loaded into", "from_pretrained, or load_state_dict before deepspeed.initialize and outside of zero.Init; else under deepspeed.zero.GatheredParameters(params, modifier_rank=0)"),
    Advice("S47", r"primitive descriptor", "oneDNN has no kernel on this processor for these dtypes or sizes", "on the CPU train in float32 (model.float(), no autocast), input and weights alike"),
    Advice("S08", r"without overflow", "a number is larger than the tensor's half precision holds, mostly a mask of -1e9", "torch.finfo(x.dtype).min in place of that number"),
    Advice("S08", r"\"\w{0,80}(?:cuda|cublas|cusolver)\w{0,80}\" not implemented for '(?:Half|BFloat16)'", "CUDA has no kernel of this operation for half precision", "x.float() before that call, and .to(x.dtype) behind it; under autocast with torch.autocast('cuda', enabled=False) around both"),
    Advice("S08", r"\"\w{0,80}(?:_cpu|KernelImpl|kernel_impl|channels_last)\w{0,80}\" not implemented for '(?:Half|BFloat16)'", "a model in half precision runs on the CPU, which has no such kernel for it", "move model and inputs to the GPU before that call; on the CPU load it in float32 (dtype=torch.float32)"),
    Advice("S08", r"cast to the desired output type", "an operation in place, or with out=, would put a wider dtype into a narrower tensor", "x = x + y in place of x += y, or x.float() where x is made"),
    Advice("S08", r"nll_loss\w{0,60}\W{1,3}not implemented for|'indices'|scalar types?:? Long\b(?!.{0,20}got Long)", "an embedding or a loss over classes got floats, and takes whole numbers", "ids and class labels are int64", "x.long() before that call (targets.long() for a loss)"),
    Advice("S08", r"[Ii]ndex put requires|Expected self\.dtype to be equal to", "values are written into a tensor of another dtype, often one that autocast made", "give them the target's dtype", "target[index] = values.to(target.dtype), as for scatter and index_copy"),
    Advice("S08", r"not implemented for '(?:Bool|Byte|Char|Short|Int|Long)'|floating point or complex", "an operation that takes no integers got some", "make them floats before it", "x.float() before that call"),
    Advice("S08", r"not implemented for 'Float8", "float8 is stored and multiplied (torch._scaled_mm), and has no other arithmetic", "convert it before", "x.to(torch.bfloat16) before that call"),
    Advice("S08", r"\bDouble\b|float64|DoubleTensor", "an operation met float64, as NumPy's and Python's numbers are, beside the model's dtype", "convert it where it comes from", "x = x.float() where the input is made"),
    Advice("S18", r"returned nan values in its", command="the traceback of the forward above it names the line: an eps or a clamp before its sqrt, log, power, norm or division"),
)  # fmt: skip
