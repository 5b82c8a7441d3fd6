from transformers import AutoModelForCausalLM
AutoModelForCausalLM.from_pretrained('model')
