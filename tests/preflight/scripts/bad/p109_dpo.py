from trl import DPOConfig, DPOTrainer
def main(model, ds):
    cfg = DPOConfig(  # expect: P109 info
        output_dir="o",
        beta=0.1,
    )
    DPOTrainer(model, args=cfg, train_dataset=ds).train()
main(None, None)
