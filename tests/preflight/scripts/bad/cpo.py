import torch
from transformers import AutoModelForCausalLM, HfArgumentParser
from trl import ModelConfig, ScriptArguments
from trl.experimental.cpo import CPOConfig, CPOTrainer
if __name__ == "__main__":
    parser = HfArgumentParser((ScriptArguments, CPOConfig, ModelConfig))
    script_args, training_args, model_args = parser.parse_args_into_dataclasses()
    model = AutoModelForCausalLM.from_pretrained(model_args.model_name_or_path)
    model.half()  # expect: P102 warning
    trainer = CPOTrainer(model, args=training_args)
    trainer.train()
