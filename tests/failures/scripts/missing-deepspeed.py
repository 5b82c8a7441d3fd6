from accelerate import Accelerator, DeepSpeedPlugin
Accelerator(deepspeed_plugin=DeepSpeedPlugin(zero_stage=2))
