from .load import load_model
def build(name):
    return load_model(name)
