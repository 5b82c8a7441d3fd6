"""What a script writes: files of weights, files that libraries open or write, and folders."""

from dataclasses import replace

from preflight import regex as re
from preflight.script.interpreter import written_files
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import CallModel, Interpreter
from preflight.script.values import Ref, Value
from preflight.script.values.constants import FALSE, NONE, TRUE, UNKNOWN
from preflight.script.values.operations import as_bool, as_text, list_values

_PATHS = (
    *("file", "filename", "filepath", "urlpath", "uri", "name", "store", "path", "fname"),
    *("f", "fp", "dst"),
)
"""Keywords by which libraries take the path of a file."""


def _save(it: Interpreter, call: Call) -> Value:
    """torch.save(weights, f): into a file that is open already, whose path is known where it was opened."""
    target = call.get("f", 1) or call.get("filename", 1)
    thing = it.thing(target) if isinstance(target, Ref) else None
    if thing is None or thing.kind != "file":
        written_files.note_write(it, call, target, "file")
    elif thing.get("replaces") == TRUE:
        path = thing.get("path")
        if any(as_text(item) is None for item in list_values(path)):  # else noted where it was opened
            written_files.note_write(it, call, path, "file", opened=True)
    return NONE


def _make_folder(it: Interpreter, call: Call) -> Value:
    written_files.note_folder(it, call.get("name", 0) or call.get("path", 0) or UNKNOWN, call)
    return NONE


def _writes(position: int) -> CallModel:
    """Return the model of a function that writes the file of this argument."""

    def model(it: Interpreter, call: Call) -> Value:
        written_files.note_result(it, _path(call, position), call)
        return NONE

    return model


def _read(it: Interpreter, call: Call) -> Value:
    written_files.note_read(it, _path(call, 0), call)
    return UNKNOWN


def _path(call: Call, position: int) -> Value:
    given = (call.kwargs[word] for word in _PATHS if word in call.kwargs)
    return call.args[position] if position < len(call.args) else next(given, UNKNOWN)


def _open(it: Interpreter, call: Call) -> Value:
    """h5py.File(path, "w") and the like: a file, written from its start by its mode."""
    return written_files.open_file(it, _path(call, 0), call.get("mode", 1), call)


_DOWNLOADS = ("torchvision.datasets.", "torchaudio.datasets.")
_FETCHES = re.compile(r"torch_geometric\.datasets\.(?!Fake)[A-Z]|ogb\.\w+\.\w*PropPredDataset$")
"""Datasets that download and convert files which they do not find, without an argument for it."""


def _note_download(it: Interpreter, name: str, call: Call) -> None:
    """Send the rules a dataset that downloads its files."""
    if name.startswith(_DOWNLOADS):
        downloads = as_bool(call.get("download") or FALSE)
        if downloads:
            written_files.note_write(
                it, replace(call, place=call.get_place("download")), call.get("root", 0), "download"
            )
        elif downloads is False:
            written_files.note_read(it, call.get("root", 0) or UNKNOWN, call)
    elif _FETCHES.match(name):
        of_name = name.startswith("ogb")
        written_files.note_write(it, call, call.get("root", 1 if of_name else 0), "fetch", opened=True)


def open_by_form(it: Interpreter, name: str, call: Call) -> Value | None:
    """Return the file that a library's open(path, "wb") gives; None of calls that write and open nothing."""
    _note_download(it, name, call)
    last = name.rpartition(".")[2]
    if last in written_files.OF_ADAPTERS:  # StableDiffusionPipeline.save_lora_weights(folder, layers)
        return written_files.note_method(it, last, UNKNOWN, call)
    opens = name.endswith(".open") and written_files.replaces_file(call.get("mode", 1))
    return _open(it, call) if opens else None


def _removes(what: str) -> CallModel:
    """Return the model of a function that stops where another rank has removed, or moved, that before."""

    def model(it: Interpreter, call: Call) -> Value:
        handled = call.get("onerror", 2) or call.get("onexc") or call.get("ignore_errors", 1) or FALSE
        if what != "tree" or as_bool(handled) is False:
            written_files.note_write(it, call, call.get("path", 0) or call.get("src"), what, opened=True)
        return NONE

    return model


def _retrieve(it: Interpreter, call: Call) -> Value:
    """urlretrieve(url, filename): into a file of its own where no name is given."""
    if (path := call.get("filename", 1)) is not None:
        written_files.note_write(it, call, path, "download", opened=True)
    return UNKNOWN


_OPENERS = (
    *("fsspec.open", "smart_open.open", "blobfile.BlobFile", "h5py.File", "gzip.open", "bz2.open"),
    *("lzma.open", "io.open", "codecs.open", "zarr.open", "zarr.open_group", "zarr.open_array"),
    *(f"tensorflow.{name}" for name in ("io.gfile.GFile", "compat.v1.gfile.GFile", "gfile.GFile")),
)
_FIRST = (
    *(f"numpy.{name}" for name in ("save", "savez", "savez_compressed", "savetxt")),
    *("matplotlib.pyplot.savefig", "soundfile.write", "torchaudio.save", "cv2.imwrite", "scipy.io.savemat"),
    *("scipy.io.wavfile.write", "imageio.imwrite", "imageio.mimsave", "imageio.mimwrite"),
    *("imageio.v2.imwrite", "imageio.v2.mimsave", "imageio.v3.imwrite"),
)
"""Functions of libraries that write the file that they are given first."""
_SECOND = (
    *("joblib.dump", "torchvision.utils.save_image", "omegaconf.OmegaConf.save"),
    *(f"shutil.{name}" for name in ("copy", "copy2", "copyfile", "move")),
)
"""Functions that write the file that they are given second."""

_READS = (
    *("numpy.load", "numpy.loadtxt", "safetensors.torch.load_file", "datasets.load_from_disk", "joblib.load"),
    *(f"pandas.read_{kind}" for kind in ("csv", "parquet", "pickle", "json", "feather")),
)
"""Functions that read the file or folder that they are given first."""

CALLS: dict[str, CallModel] = {
    **dict.fromkeys(_READS, _read),
    "torch.save": _save,
    "safetensors.torch.save_file": _save,
    **dict.fromkeys(_OPENERS, _open),
    **dict.fromkeys(_FIRST, _writes(0)),
    **dict.fromkeys(_SECOND, _writes(1)),
    **dict.fromkeys(("os.remove", "os.unlink", "os.rename"), _removes("removal")),
    "shutil.rmtree": _removes("tree"),
    "urllib.request.urlretrieve": _retrieve,
    "os.mkdir": _make_folder,
    "os.makedirs": _make_folder,
}
