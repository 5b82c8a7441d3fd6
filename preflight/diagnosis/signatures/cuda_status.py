"""CUDA's statuses by number, as torch, its predecessors, NCCL and programs print them."""


def cuda_status(*numbers: int) -> str:
    """Return the pattern of these values of cudaError_t (driver_types.h; the older numbers are those before CUDA 10.1)."""
    value = "|".join(map(str, numbers))
    return (
        rf"cuda runtime error \((?:{value})\)|THCudaCheck FAIL .{{1,300}}\berror=(?:{value})\b|[Cc]uda failure (?:{value})\b|CUDA failure (?:{value})\b"
        rf"|(?:CUDA|Cuda|cuda) [Ee]rror:? ?(?:{value})\b(?![.%])|CUDA [Ee]rror code ?=? ?(?:{value})\b|cudaError(?:_t)?[ (:=]{{1,3}}(?:{value})\b|CUresult[ (:=]{{1,3}}(?:{value})\b"
    )
