import deepspeed, torch
model = torch.nn.Linear(4, 1)
config = {
    "train_batch_size": 128,
    "train_micro_batch_size_per_gpu": 8,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-3}},
}
engine, opt, _, _ = deepspeed.initialize(model=model, config=config, model_parameters=model.parameters())
for i in range(10):
    loss = engine(torch.randn(8, 4).to(engine.device)).mean()
    engine.backward(loss)
    engine.step()
