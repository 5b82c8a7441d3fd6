import transformers
def build(model, data, processor):
    trainer_args = dict(
        model=model,
        train_dataset=data,
        tokenizer=processor.feature_extractor,  # expect: V301 warning
    )
    trainer_args["args"] = transformers.TrainingArguments(output_dir="x")
    return transformers.Seq2SeqTrainer(**trainer_args)
