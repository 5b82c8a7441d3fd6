/* NVLink, C2C, the fabric, MIG, and how GPUs see each other. */
#include "silicon.h"

#include <stdio.h>
#include <string.h>

/* A GPU without NVLink supports none of these calls; on one with links, a link beyond them is a wrong
 * argument. A link is active and without errors unless the profile says otherwise. */
static nvmlReturn_t link_value(struct device *device, unsigned link, const char *what, long long usual,
                               long long *out)
{
    char key[64];
    long long links = 0;
    READ_NUMBER(device, "nvlink.count", links);
    if (link >= (unsigned long long)links)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(key, sizeof key, "nvlink.%u.%s", link, what);
    nvmlReturn_t said = number_of(&device->values, key, out);
    if (said != NVML_ERROR_NOT_SUPPORTED)
        return said;
    *out = usual;
    return NVML_SUCCESS;
}

API nvmlDeviceGetNvLinkState(nvmlDevice_t handle, unsigned link, unsigned *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    long long active = 0;
    nvmlReturn_t said = link_value(handle, link, "active", 1, &active);
    *out = (unsigned)active;
    return said;
}

API nvmlDeviceGetNvLinkVersion(nvmlDevice_t handle, unsigned link, unsigned *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    long long version = 0, unused = 0;
    nvmlReturn_t said = link_value(handle, link, "active", 1, &unused);
    if (said != NVML_SUCCESS)
        return said;
    READ_NUMBER(handle, "nvlink.version", version);
    *out = (unsigned)version;
    return NVML_SUCCESS;
}

/* NVLink 5 has no data-link counters: the driver refuses this call there and counts in field values. */
API nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t handle, unsigned link, unsigned counter,
                                    unsigned long long *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    static const char *const names[] = {"replay", "recovery", "crc_flit", "crc_data", "ecc_data"};
    long long active = 0, count = 0, counters = 1;
    if (counter >= sizeof names / sizeof *names)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t said = link_value(handle, link, "active", 1, &active);
    if (said != NVML_SUCCESS)
        return said;
    number_of(&handle->values, "nvlink.counters", &counters);
    if (!active || !counters)
        return NVML_ERROR_NOT_SUPPORTED;
    said = link_value(handle, link, names[counter], 0, &count);
    *out = (unsigned long long)count;
    return said;
}

API nvmlDeviceGetNvLinkCapability(nvmlDevice_t handle, unsigned link, unsigned capability, unsigned *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    long long active = 0;
    if (capability > 5)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t said = link_value(handle, link, "active", 1, &active);
    *out = capability == 4 ? 0 : 1; /* all but the SLI bridge */
    return said;
}

API nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t handle, unsigned link, unsigned *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    long long type = 0;
    nvmlReturn_t said = link_value(handle, link, "remote_type", 0, &type);
    *out = (unsigned)type;
    return said;
}

API nvmlDeviceGetC2cModeInfoV(nvmlDevice_t handle, unsigned *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    long long enabled = 0;
    READ_NUMBER(handle, "c2c.enabled", enabled);
    *out = (unsigned)enabled;
    return NVML_SUCCESS;
}

/* Fabric: the first form, then the versioned one whose third version adds a summary at its end. */
struct fabric_v1 {
    unsigned char cluster[16];
    nvmlReturn_t status;
    unsigned clique;
    unsigned state;
};

struct fabric_v {
    unsigned version;
    unsigned char cluster[16];
    nvmlReturn_t status;
    unsigned clique;
    unsigned state;
    unsigned health_mask;
    unsigned char summary; /* version 3 */
};

#define FABRIC_V2 0x02000024U
#define FABRIC_V3 0x03000028U

static void cluster_uuid(struct device *device, unsigned char out[16])
{
    const char *text = lookup(&device->values, "fabric.cluster_uuid");
    memset(out, 0, 16);
    for (int i = 0; text != NULL && *text != '\0' && i < 16; text++) {
        unsigned byte = 0;
        if (*text == '-' || sscanf(text, "%2x", &byte) != 1)
            continue;
        out[i++] = (unsigned char)byte;
        if (*++text == '\0')
            break;
    }
}

static nvmlReturn_t fabric(struct device *device, struct fabric_v *out)
{
    long long state = 0, status = 0, clique = 0, mask = 0, summary = 0;
    READ_NUMBER(device, "fabric.state", state);
    number_of(&device->values, "fabric.status", &status);
    number_of(&device->values, "fabric.clique", &clique);
    number_of(&device->values, "fabric.health_mask", &mask);
    number_of(&device->values, "fabric.health_summary", &summary);
    cluster_uuid(device, out->cluster);
    out->state = (unsigned)state;
    out->status = (nvmlReturn_t)status;
    out->clique = (unsigned)clique;
    out->health_mask = (unsigned)mask;
    out->summary = (unsigned char)summary;
    return NVML_SUCCESS;
}

API nvmlDeviceGetGpuFabricInfo(nvmlDevice_t handle, struct fabric_v1 *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    struct fabric_v now = {0};
    nvmlReturn_t said = fabric(handle, &now);
    memcpy(out->cluster, now.cluster, sizeof out->cluster);
    out->status = now.status;
    out->clique = now.clique;
    out->state = now.state;
    return said;
}

API nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t handle, struct fabric_v *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    if (out->version != FABRIC_V2 && out->version != FABRIC_V3)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    struct fabric_v now = {.version = out->version};
    nvmlReturn_t said = fabric(handle, &now);
    if (said == NVML_SUCCESS)
        memcpy(out, &now, out->version == FABRIC_V2 ? offsetof(struct fabric_v, summary) : sizeof now);
    return said;
}

API nvmlDeviceGetMigMode(nvmlDevice_t handle, unsigned *current, unsigned *pending)
{
    ENTER_DEVICE(handle);
    REQUIRE(current);
    REQUIRE(pending);
    long long now = 0, next = 0;
    READ_NUMBER(handle, "mig.enabled", now);
    if (number_of(&handle->values, "mig.pending", &next) != NVML_SUCCESS)
        next = now;
    *current = (unsigned)now;
    *pending = (unsigned)next;
    return NVML_SUCCESS;
}

API nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t handle, unsigned *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    long long unused = 0;
    *out = number_of(&handle->values, "mig.enabled", &unused) == NVML_SUCCESS ? 7 : 0;
    return NVML_SUCCESS;
}

API nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t handle, unsigned index, nvmlDevice_t *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    struct device *mig = handle->parent == NULL ? mig_at(handle, (int)index) : NULL;
    if (mig == NULL)
        return NVML_ERROR_NOT_FOUND;
    *out = mig;
    return NVML_SUCCESS;
}

API nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t handle, nvmlDevice_t *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    if (handle->parent == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = handle->parent;
    return NVML_SUCCESS;
}

API nvmlDeviceIsMigDeviceHandle(nvmlDevice_t handle, unsigned *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    *out = handle->parent != NULL;
    return NVML_SUCCESS;
}

static nvmlReturn_t mig_number(nvmlDevice_t handle, const char *key, unsigned *out)
{
    long long number = 0;
    REQUIRE(out);
    if (handle->parent == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    READ_NUMBER(handle, key, number);
    *out = (unsigned)number;
    return NVML_SUCCESS;
}

API nvmlDeviceGetGpuInstanceId(nvmlDevice_t handle, unsigned *out)
{
    ENTER_DEVICE(handle);
    return mig_number(handle, "gpu_instance", out);
}

API nvmlDeviceGetComputeInstanceId(nvmlDevice_t handle, unsigned *out)
{
    ENTER_DEVICE(handle);
    return mig_number(handle, "compute_instance", out);
}

API nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, unsigned index, unsigned *out)
{
    ENTER_DEVICE(one);
    REQUIRE(out);
    if (device_checked(other) == NULL || index > 4)
        return NVML_ERROR_INVALID_ARGUMENT;
    long long status = 0;
    READ_NUMBER(one, "p2p_status", status);
    *out = (unsigned)status;
    return NVML_SUCCESS;
}

API nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, unsigned *out)
{
    ENTER_DEVICE(one);
    REQUIRE(out);
    if (device_checked(other) == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    long long a = 0, b = 0;
    READ_NUMBER(one, "numa_node", a);
    READ_NUMBER(other, "numa_node", b);
    *out = one == other ? 0 : (a == b ? 40 : 50); /* internal, same node, across the system */
    return NVML_SUCCESS;
}

API nvmlDeviceGetNumaNodeId(nvmlDevice_t handle, unsigned *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    long long node = 0;
    READ_NUMBER(handle, "numa_node", node);
    *out = (unsigned)node;
    return NVML_SUCCESS;
}
