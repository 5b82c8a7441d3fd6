from transformers import GPT2LMHeadModel, Trainer
model = GPT2LMHeadModel.from_pretrained("gpt2-xl")
device_map = {
    0: [0, 1, 2],
    1: [3, 4, 5],
}
model.parallelize(device_map)  # expect: D204 warning
