"""The options of `accelerate launch` (1.15)."""

from launcher.engines.command_line.options import (
    FROM_FILTER,
    FROM_GPUS,
    FROM_HOSTS,
    FROM_MAIN,
    FROM_PLAN,
    FROM_PORT,
    FROM_PRECISION,
    FROM_RANKS,
    STATIC_RENDEZVOUS,
    LauncherOption,
    Table,
    each,
    kept,
    owned,
    refused,
)
from launcher.engines.command_line.tables.torchrun import ELASTIC

_SET = "set where the launch has several ranks"
_TPU = "gpulaunch launches on GPUs and CPUs"
_NO_TPU = "leave it out, or use accelerate launch for TPUs"
_AWS = "gpulaunch launches on hosts that it reaches over SSH, not through SageMaker"
_NO_AWS = "leave it out, and name the hosts with --hosts"
_STANDARD = (
    "DeepSpeed's own multi-node launchers are replaced by torch's (deepspeed_multinode_launcher: standard)"
)

GENERAL: tuple[LauncherOption, ...] = (
    owned(
        "--config_file",
        "its sections are taken over, its world and addresses are the plan's",
        sets="config_file",
    ),
    kept("--quiet|-q", values=0),
    owned("--cpu", "read as gpus: none", values=0, sets="on_cpu"),
    owned("--multi_gpu", _SET, values=0),
    owned(
        "--mixed_precision", FROM_PRECISION, kind="precision", sets="precision", choices="no fp16 bf16 fp8"
    ),
    owned("--num_processes", FROM_PLAN, kind="int", sets="total"),
    owned("--num_machines", FROM_HOSTS, kind="int", sets="nodes"),
    owned(
        "--num_cpu_threads_per_process",
        "becomes OMP_NUM_THREADS of each rank",
        kind="int",
        sets="omp_threads",
    ),
    kept("--enable_cpu_affinity", values=0),
    owned("--gpu_ids", FROM_GPUS, kind="gpus", sets="gpus"),
    owned("--same_network", STATIC_RENDEZVOUS, values=0),
    owned("--machine_rank", FROM_RANKS, kind="int", sets="node_rank"),
    owned("--main_process_ip", FROM_MAIN, sets="main_address"),
    owned("--main_process_port", FROM_PORT, kind="int", sets="main_port"),
    *ELASTIC,
    *each(refused, "--tpu --tpu_cluster --tpu_use_sudo", _TPU, _NO_TPU, values=0),
    owned("--no_tpu_cluster", "gpulaunch launches on no TPU", values=0),
    refused("--vm", _TPU, _NO_TPU),
    refused(
        "--env",
        "accelerate sets these variables on TPU pods only",
        "write NAME=VALUE in front of the command, or env: in a run config",
    ),
    owned("--main_training_function", "for notebooks and TPUs only: a script is run from its top"),
    kept("--downcast_bf16", values=0),
    *each(refused, "--aws_access_key_id --aws_secret_access_key", _AWS, _NO_AWS),
    kept("--debug", "a key of the config file", values=0),
    owned("--mpirun_hostfile", "gpulaunch reads the hosts and their slots from it", sets="hostfile"),
)

_DYNAMO = (
    kept(
        "--dynamo_backend",
        choices=(
            "no eager aot_eager inductor aot_ts_nvfuser nvprims_nvfuser cudagraphs ofi fx2trt onnxrt"
            " tensorrt aot_torchxla_trace_once torhchxla_trace_once tvm"
        ),
    ),
    kept("--dynamo_mode", choices="default reduce-overhead max-autotune"),
    *each(kept, "--dynamo_use_fullgraph --dynamo_use_dynamic --dynamo_use_regional_compilation", values=0),
)

_DEEPSPEED = (
    kept("--use_deepspeed", "`distributed_type: DEEPSPEED`", values=0),
    kept("--deepspeed_config_file", "the file travels to every host"),
    owned("--deepspeed_hostfile", "gpulaunch reads the hosts and their slots from it", sets="hostfile"),
    owned("--deepspeed_exclusion_filter", FROM_FILTER, kind="node_filters", sets="exclude"),
    owned("--deepspeed_inclusion_filter", FROM_FILTER, kind="node_filters", sets="include"),
    owned("--deepspeed_multinode_launcher", _STANDARD),
    *each(kept, "--zero_stage --gradient_accumulation_steps", kind="int"),
    *each(kept, "--offload_optimizer_device --offload_param_device --offload_optimizer_nvme_path"),
    *each(kept, "--offload_param_nvme_path --zero3_init_flag --zero3_save_16bit_model"),
    kept("--deepspeed_moe_layer_cls_names"),
    kept("--gradient_clipping", kind="float"),
)

_FSDP = (
    kept("--use_fsdp", "`distributed_type: FSDP`", values=0),
    kept("--fsdp_version", choices="1 2"),
    *each(kept, "--fsdp_offload_params --fsdp_sharding_strategy --fsdp_reshard_after_forward"),
    *each(kept, "--fsdp_auto_wrap_policy --fsdp_transformer_layer_cls_to_wrap --fsdp_backward_prefetch"),
    *each(kept, "--fsdp_state_dict_type --fsdp_forward_prefetch --fsdp_use_orig_params"),
    *each(kept, "--fsdp_cpu_ram_efficient_loading --fsdp_sync_module_states --fsdp_activation_checkpointing"),
    kept("--fsdp_activation_checkpointing_offload"),
    kept("--fsdp_min_num_params", kind="int"),
)

_MEGATRON = (
    kept("--use_megatron_lm", "`distributed_type: MEGATRON_LM`", values=0),
    *each(kept, "--megatron_lm_tp_degree --megatron_lm_decoder_last_pipeline_num_layers", kind="int"),
    *each(kept, "--megatron_lm_pp_degree --megatron_lm_num_micro_batches", kind="int"),
    *each(kept, "--megatron_lm_recompute_num_layers --megatron_lm_expert_model_parallel_size", kind="int"),
    *each(kept, "--megatron_lm_context_parallel_size --megatron_lm_expert_tensor_parallel_size", kind="int"),
    *each(kept, "--megatron_lm_use_custom_fsdp --megatron_lm_no_load_optim --megatron_lm_eod_mask_loss"),
    *each(kept, "--megatron_lm_overlap_cpu_optimizer_d2h_h2d --megatron_lm_no_save_optim"),
    *each(kept, "--megatron_lm_optimizer_cpu_offload --megatron_lm_use_precision_aware_optimizer"),
    *each(kept, "--megatron_lm_sequence_parallelism --megatron_lm_recompute_activations"),
    *each(kept, "--megatron_lm_use_distributed_optimizer --megatron_lm_recompute_granularity"),
    *each(kept, "--megatron_lm_recompute_method --megatron_lm_attention_backend"),
    *each(kept, "--megatron_lm_attention_softmax_in_fp32 --megatron_lm_calculate_per_token_loss"),
    kept("--megatron_lm_use_rotary_position_embeddings"),
    *each(kept, "--megatron_lm_gradient_clipping --megatron_lm_attention_dropout", kind="float"),
    kept("--megatron_lm_hidden_dropout", kind="float"),
)

_FP8 = (
    kept("--fp8_backend", choices="ao te msamp"),
    kept("--fp8_format", choices="HYBRID E4M3 E5M2"),
    kept("--fp8_amax_compute_algo", choices="max most_recent"),
    kept("--fp8_opt_level", choices="O1 O2"),
    kept("--fp8_use_autocast_during_eval", values=0),
    *each(kept, "--fp8_margin --fp8_interval --fp8_amax_history_len", kind="int"),
    *each(kept, "--fp8_override_linear_precision --fp8_enable_fsdp_float8_all_gather --fp8_pad_inner_dim"),
)

_PARALLELISM = (
    kept("--use_parallelism_config", "implied by a section `parallelism_config`", values=0),
    kept("--parallelism_config_cp_backend", choices="torch"),
    kept("--parallelism_config_sp_backend", choices="deepspeed"),
    *each(kept, "--parallelism_config_dp_replicate_size --parallelism_config_dp_shard_size", kind="int"),
    *each(kept, "--parallelism_config_tp_size --parallelism_config_cp_size", kind="int"),
    kept("--parallelism_config_sp_size", kind="int"),
    *each(kept, "--parallelism_config_cp_comm_strategy --parallelism_config_sp_seq_length"),
    *each(kept, "--parallelism_config_sp_seq_length_is_variable --parallelism_config_sp_attn_implementation"),
)

ACCELERATE = Table(
    "accelerate",
    (*GENERAL, *_DYNAMO, *_DEEPSPEED, *_FSDP, *_MEGATRON, *_FP8, *_PARALLELISM),
    abbreviations=False,
)
