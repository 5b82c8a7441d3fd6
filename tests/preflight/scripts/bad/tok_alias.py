import transformers as tf
TrainerCls = tf.Trainer
def go(model, args, tok, use_seq2seq):
    cls = tf.Seq2SeqTrainer if use_seq2seq else TrainerCls
    t = cls(model=model, args=args, tokenizer=tok)  # expect: V301 warning
    t.train()
