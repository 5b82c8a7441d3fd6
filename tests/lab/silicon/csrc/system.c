/* Start, versions, and how a device handle is found. */
#define _GNU_SOURCE
#include "silicon.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
    nvmlReturn_t code;
    const char *words;
} error_words[] = {
    {0, "Success"},
    {1, "Uninitialized"},
    {2, "Invalid Argument"},
    {3, "Not Supported"},
    {4, "Insufficient Permissions"},
    {5, "Already Initialized"},
    {6, "Not Found"},
    {7, "Insufficient Size"},
    {8, "Insufficient External Power"},
    {9, "Driver Not Loaded"},
    {10, "Timeout"},
    {11, "Interrupt Request Issue"},
    {12, "NVML Shared Library Not Found"},
    {13, "Function Not Found"},
    {14, "Corrupted infoROM"},
    {15, "GPU is lost"},
    {16, "GPU requires reset"},
    {17, "GPU access blocked by the operating system"},
    {18, "Driver/library version mismatch"},
    {19, "In use by another client"},
    {20, "Insufficient Memory"},
    {21, "No data"},
    {22, "The requested vgpu operation is not available on target device, becasue ECC is enabled"},
    {23, "Insufficient Resources"},
    {24, "Requested frequency is not supported"},
    {25, "Argument Version Mismatch"},
    {26, "Requested functionality has been deprecated"},
    {27, "System is not ready for the request"},
    {28, "GPU not found"},
    {29, "Resource not in the proper state"},
};

__attribute__((visibility("default"))) const char *nvmlErrorString(nvmlReturn_t code)
{
    for (size_t i = 0; i < sizeof error_words / sizeof *error_words; i++)
        if (error_words[i].code == code)
            return error_words[i].words;
    return "Unknown Error";
}

static nvmlReturn_t start(void)
{
    nvmlReturn_t said = enter_init("nvmlInit");
    if (said == NVML_SUCCESS)
        init_count_add(1);
    return said;
}

API nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return start();
}

API nvmlInit_v2(void) { return start(); }
API nvmlInit(void) { return start(); }

API nvmlShutdown(void)
{
    ENTER_SYSTEM;
    init_count_add(-1);
    return NVML_SUCCESS;
}

API nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    ENTER_SYSTEM;
    return copy_text(state_system(), "driver_version", version, length);
}

API nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    ENTER_SYSTEM;
    return copy_text(state_system(), "nvml_version", version, length);
}

API nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    ENTER_SYSTEM;
    REQUIRE(version);
    long long number = 0;
    nvmlReturn_t read = number_of(state_system(), "cuda_version", &number);
    *version = (int)number;
    return read;
}

API nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

API nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
    ENTER_SYSTEM;
    REQUIRE(name);
    const char *known = process_name(pid);
    if (known != NULL && *known != '\0') {
        snprintf(name, length, "%s", known);
        return NVML_SUCCESS;
    }
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    int fd = known == NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return NVML_ERROR_NOT_FOUND;
    text[got] = '\0'; /* the first word, up to its NUL */
    snprintf(name, length, "%s", text);
    return NVML_SUCCESS;
}

API nvmlDeviceGetCount_v2(unsigned *count)
{
    ENTER_SYSTEM;
    REQUIRE(count);
    *count = (unsigned)device_count();
    return NVML_SUCCESS;
}

API nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }

static nvmlReturn_t give(const char *function, struct device *device, nvmlDevice_t *out)
{
    if (device == NULL)
        return NVML_ERROR_NOT_FOUND;
    nvmlReturn_t said = enter_handle(function, device);
    if (said == NVML_SUCCESS)
        *out = device;
    return said;
}

API nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out)
{
    ENTER_SYSTEM;
    REQUIRE(out);
    struct device *device = device_at((int)index);
    return device == NULL ? NVML_ERROR_INVALID_ARGUMENT : give(__func__, device, out);
}

API nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *out)
{
    return nvmlDeviceGetHandleByIndex_v2(index, out);
}

static struct device *with_value(const char *key, const char *wanted)
{
    for (int i = 0; i < device_count(); i++) {
        struct device *gpu = device_at(i);
        for (int m = -1; gpu != NULL && m < mig_count(gpu); m++) {
            struct device *device = m < 0 ? gpu : mig_at(gpu, m);
            const char *value = device == NULL ? NULL : lookup(&device->values, key);
            if (value != NULL && strcmp(value, wanted) == 0)
                return device;
        }
    }
    return NULL;
}

API nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out)
{
    ENTER_SYSTEM;
    REQUIRE(uuid);
    REQUIRE(out);
    return give(__func__, with_value("uuid", uuid), out);
}

API nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *out)
{
    ENTER_SYSTEM;
    REQUIRE(serial);
    REQUIRE(out);
    return give(__func__, with_value("serial", serial), out);
}

static int bus_id(const char *text, unsigned parts[3])
{
    if (sscanf(text, "%x:%x:%x", &parts[0], &parts[1], &parts[2]) == 3)
        return 1;
    parts[0] = 0;
    return sscanf(text, "%x:%x", &parts[1], &parts[2]) == 2;
}

API nvmlDeviceGetHandleByPciBusId_v2(const char *wanted, nvmlDevice_t *out)
{
    ENTER_SYSTEM;
    REQUIRE(wanted);
    REQUIRE(out);
    unsigned asked[3], has[3];
    if (!bus_id(wanted, asked))
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < device_count(); i++) {
        struct device *device = device_at(i);
        const char *text = device == NULL ? NULL : lookup(&device->values, "pci_bus_id");
        if (text != NULL && bus_id(text, has) && memcmp(asked, has, sizeof has) == 0)
            return give(__func__, device, out);
    }
    return NVML_ERROR_NOT_FOUND;
}

API nvmlDeviceGetHandleByPciBusId(const char *wanted, nvmlDevice_t *out)
{
    return nvmlDeviceGetHandleByPciBusId_v2(wanted, out);
}

/* The struct of all versions begins alike; only the third has the long bus id at its end. */
struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

static nvmlReturn_t pci(struct device *device, void *out, size_t size)
{
    struct pci_info info = {0};
    const char *text = NULL;
    unsigned parts[3];
    long long number = 0;
    nvmlReturn_t read = text_of(&device->values, "pci_bus_id", &text);
    if (read != NVML_SUCCESS)
        return read;
    if (!bus_id(text, parts))
        return NVML_ERROR_UNKNOWN;
    info.domain = parts[0], info.bus = parts[1], info.device = parts[2];
    if (number_of(&device->values, "pci_device_id", &number) == NVML_SUCCESS)
        info.device_id = (unsigned)number;
    if (number_of(&device->values, "pci_subsystem_id", &number) == NVML_SUCCESS)
        info.subsystem_id = (unsigned)number;
    snprintf(info.bus_id, sizeof info.bus_id, "%08X:%02X:%02X.0", parts[0], parts[1], parts[2]);
    snprintf(info.bus_id_legacy, sizeof info.bus_id_legacy, "%04X:%02X:%02X.0", parts[0] & 0xFFFFU,
             parts[1] & 0xFFU, parts[2] & 0xFFU);
    memcpy(out, &info, size);
    return NVML_SUCCESS;
}

API nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, struct pci_info *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    return pci(handle, out, sizeof *out);
}

API nvmlDeviceGetPciInfo_v2(nvmlDevice_t handle, void *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    return pci(handle, out, offsetof(struct pci_info, bus_id));
}

API nvmlDeviceGetPciInfo(nvmlDevice_t handle, void *out) { return nvmlDeviceGetPciInfo_v2(handle, out); }
