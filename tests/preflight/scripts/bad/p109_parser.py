from trl import SFTConfig, SFTTrainer, TrlParser, ScriptArguments, ModelConfig
def main(s, t, m):
    SFTTrainer(m.model_name_or_path, args=t, train_dataset=None).train()
if __name__ == "__main__":
    parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))
    s, t, m = parser.parse_args_and_config()  # expect: P109 info
    main(s, t, m)
