import ml_collections


def get_config():
    config = ml_collections.ConfigDict()
    config.train = train = ml_collections.ConfigDict()
    train.precision = "bf16"
    return config
