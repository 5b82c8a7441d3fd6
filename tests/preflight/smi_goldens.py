"""What recordings of real hosts hold, read by eye; they are not part of this repository."""

from typing import NamedTuple


class Golden(NamedTuple):
    """What a recording says, read by eye: of its last state where it holds several."""

    file: str
    gpus: int
    driver: str | None
    cuda: str | None
    name: str
    capability: tuple[int, int] | None
    used_mib: int
    reserved_mib: int | None
    processes: int | None  # on GPU 0
    compute_mode: str = "default"


H100 = "NVIDIA H100 80GB HBM3"
TURING_SUPER = "NVIDIA GeForce RTX 2080 SUPER"
BLACKWELL = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
GOLDEN = (
    Golden(
        "2xgtx-1080ti_driver-440.82_memory-used-no-process-table.txt",
        2,
        "440.82",
        "10.2",
        "GeForce GTX 108...",
        None,
        10916,
        None,
        0,
    ),
    Golden(
        "2xrtx-2080_driver-590.44.01.xml",
        2,
        "590.44.01",
        "13.1",
        "NVIDIA GeForce RTX 2080",
        (7, 5),
        1,
        406,
        0,
    ),
    Golden(
        "2xrtx-a5000_driver-590.44.01.xml", 2, "590.44.01", "13.1", "NVIDIA RTX A5000", (8, 6), 22437, 450, 1
    ),
    Golden(
        "8xgtx-1080ti_driver-390.25_busy-table.txt",
        8,
        "390.25",
        None,
        "GeForce GTX 108...",
        None,
        10807,
        None,
        1,
    ),
    Golden("8xh100-80gb-hbm3_driver-535.161.08_q.txt", 8, "535.161.08", "12.2", H100, (9, 0), 0, 551, 0),
    Golden("8xh100-80gb-hbm3_driver-550.90.07_table.txt", 8, "550.90.07", "12.4", H100, (9, 0), 1, None, 0),
    Golden(
        "8xrtx-4090_driver-535.154.05_busy_q.txt",
        8,
        "535.154.05",
        "12.2",
        "NVIDIA GeForce RTX 4090",
        (8, 9),
        20328,
        346,
        1,
    ),
    Golden(
        "a100-sxm4-80gb_driver-535.54.03_mig.xml",
        4,
        "535.54.03",
        "12.2",
        "NVIDIA A100-SXM4-80GB",
        (8, 0),
        50,
        869,
        0,
    ),
    Golden(
        "a10_driver-535.129.03_remap-pending_q.txt", 1, "535.129.03", "12.2", "NVIDIA A10", (8, 6), 4, 512, 0
    ),
    Golden("a10g_driver-515.105.01.xml", 1, "515.105.01", "11.7", "NVIDIA A10G", (8, 6), 22, 435, 1),
    Golden("gt-1030_driver-470.74.xml", 1, "470.74", "11.4", "NVIDIA GeForce GT 1030", (6, 1), 875, None, 10),
    Golden(
        "gtx-1070-ti_driver-unknown_v10-trimmed.xml",
        1,
        None,
        None,
        "GeForce GTX 1070 Ti",
        (6, 1),
        42,
        None,
        None,
    ),
    Golden(
        "h100-80gb-hbm3_driver-590.48.01_capture.txt", 1, "590.48.01", "13.1", H100, (9, 0), 19818, 479, 3
    ),
    Golden(
        "h100-80gb-hbm3_driver-590.48.01_mig_capture.txt", 1, "590.48.01", "13.1", H100, (9, 0), 11125, 479, 3
    ),
    Golden("l40s_driver-595.80_capture.txt", 1, "595.80", "13.2", "NVIDIA L40S", (8, 9), 1235, 609, 2),
    Golden("quadro-p2000_driver-525.125.06.xml", 1, "525.125.06", "12.0", "Quadro P2000", (6, 1), 1, 66, 0),
    Golden("quadro-p400_driver-418.43.xml", 1, "418.43", "10.1", "Quadro P400", (6, 1), 0, None, 0),
    Golden(
        "rtx-2080-super_driver-610.57.04_capture.txt",
        1,
        "610.57.04",
        "13.3",
        TURING_SUPER,
        (7, 5),
        815,
        400,
        4,
    ),
    Golden(
        "rtx-2080-super_windows_driver-591.86_capture.txt",
        1,
        "591.86",
        "13.1",
        TURING_SUPER,
        (7, 5),
        1296,
        205,
        12,
    ),
    Golden(
        "rtx-2080-super_windows_driver-610.62_capture.txt",
        1,
        "610.62",
        "13.3",
        TURING_SUPER,
        (7, 5),
        1366,
        205,
        21,
    ),
    Golden(
        "rtx-3060_driver-570.124.04.xml",
        1,
        "570.124.04",
        "12.8",
        "NVIDIA GeForce RTX 3060",
        (8, 6),
        116,
        368,
        0,
    ),
    Golden(
        "rtx-3080_driver-536.40.xml", 1, "536.40", "12.2", "NVIDIA GeForce RTX 3080", (8, 6), 1128, 173, 5
    ),
    Golden(
        "rtx-3080_driver-595.58.03.xml",
        1,
        "595.58.03",
        "13.2",
        "NVIDIA GeForce RTX 3080",
        (8, 6),
        9184,
        397,
        0,
    ),
    Golden(
        "rtx-3090_driver-525.147.05.xml",
        1,
        "525.147.05",
        "12.0",
        "NVIDIA GeForce RTX 3090",
        (8, 6),
        1,
        316,
        0,
    ),
    Golden(
        "rtx-3090_driver-590.44.01.xml", 1, "590.44.01", "13.1", "NVIDIA GeForce RTX 3090", (8, 6), 7, 450, 0
    ),
    Golden(
        "rtx-4000-sff-ada_driver-595.84.xml",
        1,
        "595.84",
        "13.2",
        "NVIDIA RTX 4000 SFF Ada Generation",
        (8, 9),
        3534,
        460,
        4,
    ),
    Golden(
        "rtx-4080-super_driver-595.71.05_capture.txt",
        1,
        "595.71.05",
        "13.2",
        "NVIDIA GeForce RTX 4080 SUPER",
        (8, 9),
        1474,
        434,
        7,
    ),
    Golden(
        "rtx-4090_driver-525.125.06_err-fan_exclusive-process-table.txt",
        1,
        "525.125.06",
        "12.0",
        "NVIDIA GeForce ...",
        None,
        2021,
        None,
        None,
        "exclusive_process",
    ),
    Golden(
        "rtx-pro-6000-maxq-blackwell_driver-590.44.01.xml",
        1,
        "590.44.01",
        "13.1",
        BLACKWELL,
        (12, 0),
        65720,
        637,
        1,
    ),
    Golden("t4_driver-515.105.01.xml", 1, "515.105.01", "11.7", "Tesla T4", (7, 5), 1032, 388, 2),
    Golden(
        "turing-unnamed-graphics-device_driver-418.43.xml",
        1,
        "418.43",
        "10.1",
        "Graphics Device",
        None,
        0,
        None,
        0,
    ),
)
