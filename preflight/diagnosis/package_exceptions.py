"""Classes of exceptions whose name says what failed only in the package that they are of. Pure."""

from preflight.diagnosis.tracebacks import ParsedException

_HUB = frozenset({
    "huggingface_hub", "transformers", "datasets", "diffusers", "evaluate", "peft", "sentence_transformers", "tokenizers",
})  # fmt: skip
_AWS = frozenset({"botocore", "boto3", "aiobotocore", "aioboto3", "s3fs"})
_OWNERS = {
    **dict.fromkeys(
        ("RepositoryNotFoundError", "RevisionNotFoundError", "EntryNotFoundError", "LocalEntryNotFoundError",
         "GatedRepoError", "HfHubHTTPError", "HFValidationError", "LocalTokenNotFoundError", "OfflineModeIsEnabled"),
        _HUB,
    ),
    **dict.fromkeys(("NoCredentialsError", "EndpointConnectionError"), _AWS),
    "DefaultCredentialsError": frozenset({"google"}),
    "ClientConnectorError": frozenset({"aiohttp"}),
    "UnpicklingError": frozenset({"_pickle", "pickle", "cloudpickle", "dill", "torch"}),
    "SafetensorError": frozenset({"safetensors", "safetensors_rust"}),
    "BadZipFile": frozenset({"zipfile"}),
}  # fmt: skip


def is_of_another_package(raised: ParsedException) -> bool:
    """Whether a package of its own names a class as a well-known one is named; Python prints no module of a script's own."""
    owners = _OWNERS.get(raised.name)
    return owners is not None and "." in raised.type and raised.type.partition(".")[0] not in owners


def words_of(raised: ParsedException) -> str:
    """Return type and message as they are looked up in the table: of another package's class the message alone counts."""
    return f"Exception: {raised.message or raised.below}" if is_of_another_package(raised) else raised.text
