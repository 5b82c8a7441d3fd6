def load(path):
    try:
        return {}[path]
    except KeyError as error:
        raise ValueError(f"no split called {path}") from error
load("train")
