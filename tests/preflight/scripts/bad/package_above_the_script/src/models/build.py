from transformers import AutoModel
def build_model():
    model = AutoModel.from_pretrained("x")
    return model.half()  # expect: P101 error
