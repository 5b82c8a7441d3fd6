/* What a GPU is and does now: names, modes, memory, load, clocks, heat, power, PCIe. */
#include "silicon.h"

#include <stdio.h>
#include <string.h>

#define GET_TEXT(function, key)                                                                              \
    API function(nvmlDevice_t handle, char *out, unsigned length)                                            \
    {                                                                                                        \
        ENTER_DEVICE(handle);                                                                                \
        return copy_text(&handle->values, key, out, length);                                                 \
    }

#define GET_UINT(function, key)                                                                              \
    API function(nvmlDevice_t handle, unsigned *out)                                                         \
    {                                                                                                        \
        ENTER_DEVICE(handle);                                                                                \
        REQUIRE(out);                                                                                        \
        long long number = 0;                                                                                \
        READ_NUMBER(handle, key, number);                                                                    \
        *out = (unsigned)number;                                                                             \
        return NVML_SUCCESS;                                                                                 \
    }

#define GET_PAIR(function, first_key, second_key)                                                            \
    API function(nvmlDevice_t handle, unsigned *first, unsigned *second)                                     \
    {                                                                                                        \
        ENTER_DEVICE(handle);                                                                                \
        REQUIRE(first);                                                                                      \
        REQUIRE(second);                                                                                     \
        long long one = 0, two = 0;                                                                          \
        READ_NUMBER(handle, first_key, one);                                                                 \
        READ_NUMBER(handle, second_key, two);                                                                \
        *first = (unsigned)one;                                                                              \
        *second = (unsigned)two;                                                                             \
        return NVML_SUCCESS;                                                                                 \
    }

#define GET_ULL(function, key)                                                                               \
    API function(nvmlDevice_t handle, unsigned long long *out)                                               \
    {                                                                                                        \
        ENTER_DEVICE(handle);                                                                                \
        REQUIRE(out);                                                                                        \
        long long number = 0;                                                                                \
        READ_NUMBER(handle, key, number);                                                                    \
        *out = (unsigned long long)number;                                                                   \
        return NVML_SUCCESS;                                                                                 \
    }

GET_TEXT(nvmlDeviceGetName, "name")
GET_TEXT(nvmlDeviceGetUUID, "uuid")
GET_TEXT(nvmlDeviceGetSerial, "serial")
GET_TEXT(nvmlDeviceGetVbiosVersion, "vbios_version")
GET_TEXT(nvmlDeviceGetBoardPartNumber, "board_part_number")
GET_TEXT(nvmlDeviceGetInforomImageVersion, "inforom_version")

GET_UINT(nvmlDeviceGetMinorNumber, "minor_number")
GET_UINT(nvmlDeviceGetBoardId, "board_id")
GET_UINT(nvmlDeviceGetMultiGpuBoard, "multi_gpu_board")
GET_UINT(nvmlDeviceGetBrand, "brand")
GET_UINT(nvmlDeviceGetArchitecture, "architecture")
GET_UINT(nvmlDeviceGetNumGpuCores, "cores")
GET_UINT(nvmlDeviceGetMemoryBusWidth, "memory_bus_width")
GET_UINT(nvmlDeviceGetPersistenceMode, "persistence_mode")
GET_UINT(nvmlDeviceGetDisplayMode, "display_mode")
GET_UINT(nvmlDeviceGetDisplayActive, "display_active")
GET_UINT(nvmlDeviceGetComputeMode, "compute_mode")
GET_UINT(nvmlDeviceGetAccountingMode, "accounting_mode")
GET_UINT(nvmlDeviceGetFanSpeed, "fan_percent")
GET_UINT(nvmlDeviceGetNumFans, "fans")
GET_UINT(nvmlDeviceGetPerformanceState, "performance_state")
GET_UINT(nvmlDeviceGetPowerState, "performance_state")
GET_UINT(nvmlDeviceGetPowerManagementMode, "power_management")
GET_UINT(nvmlDeviceGetPowerManagementLimit, "power_limit_requested_mw")
GET_UINT(nvmlDeviceGetPowerManagementDefaultLimit, "power_limit_default_mw")
GET_UINT(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw")
GET_UINT(nvmlDeviceGetPowerUsage, "power_mw")
GET_UINT(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.generation")
GET_UINT(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.generation_max")
GET_UINT(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie.generation_device_max")
GET_UINT(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width")
GET_UINT(nvmlDeviceGetMaxPcieLinkWidth, "pcie.width_max")
GET_UINT(nvmlDeviceGetPcieReplayCounter, "pcie.replays")

GET_PAIR(nvmlDeviceGetPowerManagementLimitConstraints, "power_limit_min_mw", "power_limit_max_mw")
GET_PAIR(nvmlDeviceGetEncoderUtilization, "utilization.encoder", "utilization.period_us")
GET_PAIR(nvmlDeviceGetDecoderUtilization, "utilization.decoder", "utilization.period_us")
GET_PAIR(nvmlDeviceGetJpgUtilization, "utilization.jpeg", "utilization.period_us")
GET_PAIR(nvmlDeviceGetOfaUtilization, "utilization.ofa", "utilization.period_us")
GET_PAIR(nvmlDeviceGetCudaComputeCapability, "capability.major", "capability.minor")

GET_ULL(nvmlDeviceGetTotalEnergyConsumption, "energy_mj")
GET_ULL(nvmlDeviceGetCurrentClocksThrottleReasons, "throttle_reasons")
GET_ULL(nvmlDeviceGetCurrentClocksEventReasons, "throttle_reasons")
GET_ULL(nvmlDeviceGetSupportedClocksThrottleReasons, "throttle_supported")
GET_ULL(nvmlDeviceGetSupportedClocksEventReasons, "throttle_supported")

API nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    *out = (unsigned)handle->index;
    return NVML_SUCCESS;
}

API nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t handle, char *out)
{
    ENTER_DEVICE(handle);
    return copy_text(&handle->values, "gsp_firmware", out, 64);
}

struct utilization {
    unsigned gpu, memory;
};

API nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, struct utilization *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    long long gpu = 0, memory = 0;
    READ_NUMBER(handle, "utilization.gpu", gpu);
    READ_NUMBER(handle, "utilization.memory", memory);
    out->gpu = (unsigned)gpu;
    out->memory = (unsigned)memory;
    return NVML_SUCCESS;
}

struct memory_v1 {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

#define MEMORY_V2 0x02000028U

static nvmlReturn_t memory(struct device *device, struct memory_v2 *out)
{
    long long total = 0, reserved = 0, used = 0, unused = 0;
    READ_NUMBER(device, "memory.total_mib", total);
    READ_NUMBER(device, "memory.used_mib", used);
    nvmlReturn_t told = number_of(&device->values, "memory.reserved_mib", &reserved);
    if (told != NVML_SUCCESS)
        reserved = 0;
    if (number_of(&device->values, "memory.free_mib", &unused) != NVML_SUCCESS)
        unused = total - reserved - used;
    unsigned long long live = live_bytes(device);
    unsigned long long unused_bytes = (unsigned long long)unused * MIB;
    out->total = (unsigned long long)total * MIB;
    out->reserved = (unsigned long long)reserved * MIB;
    out->used = (unsigned long long)used * MIB + live;
    out->free = unused_bytes > live ? unused_bytes - live : 0;
    return NVML_SUCCESS;
}

/* The first version has no word for the driver's reserve and counts it as used. */
API nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, struct memory_v1 *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    struct memory_v2 now = {0};
    nvmlReturn_t read = memory(handle, &now);
    if (read != NVML_SUCCESS)
        return read;
    out->total = now.total;
    out->free = now.free;
    out->used = now.used + now.reserved;
    return NVML_SUCCESS;
}

API nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, struct memory_v2 *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    if (out->version != MEMORY_V2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return memory(handle, out);
}

struct bar1 {
    unsigned long long total, free, used;
};

API nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t handle, struct bar1 *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    long long total = 0, used = 0;
    READ_NUMBER(handle, "bar1.total_mib", total);
    READ_NUMBER(handle, "bar1.used_mib", used);
    out->total = (unsigned long long)total * MIB;
    out->used = (unsigned long long)used * MIB;
    out->free = out->total - out->used;
    return NVML_SUCCESS;
}

static nvmlReturn_t clock_of(struct device *device, const char *prefix, unsigned type, unsigned *out)
{
    static const char *const names[] = {"graphics", "sm", "memory", "video"};
    char key[64];
    long long number = 0;
    if (type >= sizeof names / sizeof *names || out == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(key, sizeof key, "%s.%s_mhz", prefix, names[type]);
    READ_NUMBER(device, key, number);
    *out = (unsigned)number;
    return NVML_SUCCESS;
}

API nvmlDeviceGetClockInfo(nvmlDevice_t handle, unsigned type, unsigned *out)
{
    ENTER_DEVICE(handle);
    return clock_of(handle, "clock", type, out);
}

API nvmlDeviceGetMaxClockInfo(nvmlDevice_t handle, unsigned type, unsigned *out)
{
    ENTER_DEVICE(handle);
    return clock_of(handle, "clock_max", type, out);
}

API nvmlDeviceGetApplicationsClock(nvmlDevice_t handle, unsigned type, unsigned *out)
{
    ENTER_DEVICE(handle);
    return clock_of(handle, "clock_application", type, out);
}

API nvmlDeviceGetClock(nvmlDevice_t handle, unsigned type, unsigned id, unsigned *out)
{
    ENTER_DEVICE(handle);
    static const char *const prefixes[] = {"clock", "clock_application", "clock_default", "clock_boost"};
    if (id >= sizeof prefixes / sizeof *prefixes)
        return NVML_ERROR_INVALID_ARGUMENT;
    return clock_of(handle, prefixes[id], type, out);
}

static nvmlReturn_t temperature(struct device *device, unsigned sensor, long long *out)
{
    if (sensor != 0) /* NVML_TEMPERATURE_GPU is the only sensor there is */
        return NVML_ERROR_INVALID_ARGUMENT;
    return number_of(&device->values, "temperature.gpu_c", out);
}

API nvmlDeviceGetTemperature(nvmlDevice_t handle, unsigned sensor, unsigned *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    long long degrees = 0;
    nvmlReturn_t read = temperature(handle, sensor, &degrees);
    *out = (unsigned)degrees;
    return read;
}

struct temperature_v1 {
    unsigned version, sensor;
    int temperature;
};

API nvmlDeviceGetTemperatureV(nvmlDevice_t handle, struct temperature_v1 *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    if (out->version != 0x100000CU)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    long long degrees = 0;
    nvmlReturn_t read = temperature(handle, out->sensor, &degrees);
    out->temperature = (int)degrees;
    return read;
}

struct margin_v1 {
    unsigned version;
    int margin;
};

API nvmlDeviceGetMarginTemperature(nvmlDevice_t handle, struct margin_v1 *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    if (out->version != 0x1000008U)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    long long degrees = 0;
    READ_NUMBER(handle, "temperature.margin_c", degrees);
    out->margin = (int)degrees;
    return NVML_SUCCESS;
}

API nvmlDeviceGetTemperatureThreshold(nvmlDevice_t handle, unsigned which, unsigned *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    static const char *const keys[] = {
        "temperature.shutdown_c",     "temperature.slowdown_c",     "temperature.memory_max_c",
        "temperature.gpu_max_c",      "temperature.acoustic_min_c", "temperature.acoustic_c",
        "temperature.acoustic_max_c",
    };
    if (which >= sizeof keys / sizeof *keys)
        return NVML_ERROR_INVALID_ARGUMENT;
    long long degrees = 0;
    READ_NUMBER(handle, keys[which], degrees);
    *out = (unsigned)degrees;
    return NVML_SUCCESS;
}
