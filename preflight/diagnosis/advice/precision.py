"""Numbers and dtypes: advice by the words of a log."""

from preflight.diagnosis.advice.model import Advice

ROWS: tuple[Advice, ...] = (
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
