from safetensors.torch import load_file
load_file('model.safetensors')
