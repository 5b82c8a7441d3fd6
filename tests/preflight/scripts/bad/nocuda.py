from transformers import Seq2SeqTrainingArguments
args = Seq2SeqTrainingArguments("o", no_cuda=False, predict_with_generate=True)  # expect: V301 warning
