/* Is it well: ECC, remapped rows, retired pages, and the field values that carry the newer facts. */
#include "silicon.h"

#include <stdio.h>
#include <string.h>

API nvmlDeviceGetEccMode(nvmlDevice_t handle, unsigned *current, unsigned *pending)
{
    ENTER_DEVICE(handle);
    REQUIRE(current);
    REQUIRE(pending);
    long long now = 0, next = 0;
    READ_NUMBER(handle, "ecc.enabled", now);
    if (number_of(&handle->values, "ecc.pending", &next) != NVML_SUCCESS)
        next = now;
    *current = (unsigned)now;
    *pending = (unsigned)next;
    return NVML_SUCCESS;
}

API nvmlDeviceGetDefaultEccMode(nvmlDevice_t handle, unsigned *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    long long now = 0;
    READ_NUMBER(handle, "ecc.default", now);
    *out = (unsigned)now;
    return NVML_SUCCESS;
}

static const char *const locations[] = {"l1",      "l2",          "dram", "register",
                                        "texture", "texture_shm", "cbu",  "sram"};
#define LOCATIONS (sizeof locations / sizeof *locations)

static nvmlReturn_t ecc_key(char *key, size_t size, unsigned kind, unsigned counter, const char *place)
{
    if (kind > 1 || counter > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(key, size, "ecc.%s.%s.%s", counter == 0 ? "volatile" : "aggregate",
             kind == 0 ? "corrected" : "uncorrected", place);
    return NVML_SUCCESS;
}

static nvmlReturn_t ecc_at(struct device *device, unsigned kind, unsigned counter, const char *place,
                           unsigned long long *out)
{
    char key[96];
    long long number = 0;
    nvmlReturn_t named = ecc_key(key, sizeof key, kind, counter, place);
    if (named == NVML_SUCCESS)
        named = number_of(&device->values, key, &number);
    *out = (unsigned long long)number;
    return named;
}

/* The total as the profile names it, else the sum of what its places count. */
static nvmlReturn_t ecc_total(struct device *device, unsigned kind, unsigned counter, unsigned long long *out)
{
    unsigned long long sum = 0, part = 0;
    int counted = 0;
    nvmlReturn_t said = ecc_at(device, kind, counter, "total", out);
    if (said != NVML_ERROR_NOT_SUPPORTED)
        return said;
    for (size_t i = 0; i < LOCATIONS; i++)
        if (ecc_at(device, kind, counter, locations[i], &part) == NVML_SUCCESS)
            sum += part, counted = 1;
    *out = sum;
    return counted ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

API nvmlDeviceGetTotalEccErrors(nvmlDevice_t handle, unsigned kind, unsigned counter, unsigned long long *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    return ecc_total(handle, kind, counter, out);
}

API nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t handle, unsigned kind, unsigned counter, unsigned location,
                                    unsigned long long *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    if (location >= LOCATIONS)
        return NVML_ERROR_INVALID_ARGUMENT;
    return ecc_at(handle, kind, counter, locations[location], out);
}

struct ecc_counts {
    unsigned long long l1, l2, memory, registers;
};

API nvmlDeviceGetDetailedEccErrors(nvmlDevice_t handle, unsigned kind, unsigned counter,
                                   struct ecc_counts *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    nvmlReturn_t said = ecc_at(handle, kind, counter, "dram", &out->memory);
    if (said != NVML_SUCCESS)
        return said;
    ecc_at(handle, kind, counter, "l1", &out->l1);
    ecc_at(handle, kind, counter, "l2", &out->l2);
    ecc_at(handle, kind, counter, "register", &out->registers);
    return NVML_SUCCESS;
}

API nvmlDeviceGetRemappedRows(nvmlDevice_t handle, unsigned *correctable, unsigned *uncorrectable,
                              unsigned *pending, unsigned *failed)
{
    ENTER_DEVICE(handle);
    unsigned *const out[] = {correctable, uncorrectable, pending, failed};
    static const char *const keys[] = {"remap.correctable", "remap.uncorrectable", "remap.pending",
                                       "remap.failed"};
    for (int i = 0; i < 4; i++) {
        long long number = 0;
        REQUIRE(out[i]);
        READ_NUMBER(handle, keys[i], number);
        *out[i] = (unsigned)number;
    }
    return NVML_SUCCESS;
}

API nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t handle, unsigned out[5])
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    static const char *const keys[] = {"remap.banks_max", "remap.banks_high", "remap.banks_partial",
                                       "remap.banks_low", "remap.banks_none"};
    for (int i = 0; i < 5; i++) {
        long long number = 0;
        READ_NUMBER(handle, keys[i], number);
        out[i] = (unsigned)number;
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t retired(struct device *device, unsigned cause, unsigned *count,
                            unsigned long long *addresses, unsigned long long *times)
{
    long long pages = 0;
    if (cause > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    REQUIRE(count);
    READ_NUMBER(device, cause == 0 ? "retired.single_bit" : "retired.double_bit", pages);
    unsigned room = *count;
    *count = (unsigned)pages;
    if (pages > 0 && (addresses == NULL || room < (unsigned)pages))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < (unsigned)pages; i++) {
        addresses[i] = 0x10000ULL * (i + 1);
        if (times != NULL)
            times[i] = 0;
    }
    return NVML_SUCCESS;
}

API nvmlDeviceGetRetiredPages(nvmlDevice_t handle, unsigned cause, unsigned *count,
                              unsigned long long *addresses)
{
    ENTER_DEVICE(handle);
    return retired(handle, cause, count, addresses, NULL);
}

API nvmlDeviceGetRetiredPages_v2(nvmlDevice_t handle, unsigned cause, unsigned *count,
                                 unsigned long long *addresses, unsigned long long *times)
{
    ENTER_DEVICE(handle);
    return retired(handle, cause, count, addresses, times);
}

API nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t handle, unsigned *out)
{
    ENTER_DEVICE(handle);
    REQUIRE(out);
    long long pending = 0;
    READ_NUMBER(handle, "retired.pending", pending);
    *out = (unsigned)pending;
    return NVML_SUCCESS;
}

/* nvmlDeviceGetFieldValues: ids of nvml.h, each with its own return code. */

enum value_type { UINT = 1, ULL = 3, SINT = 5 };

struct field_value {
    unsigned field, scope;
    long long timestamp, latency_us;
    unsigned type;
    nvmlReturn_t said;
    union {
        double real;
        unsigned uint;
        unsigned long long ull;
        int sint;
    } value;
};

static const struct {
    unsigned id;
    enum value_type type;
    const char *key;
} fields[] = {
    {1, UINT, "ecc.enabled"},
    {2, UINT, "ecc.pending"},
    {29, UINT, "retired.single_bit"},
    {30, UINT, "retired.double_bit"},
    {31, UINT, "retired.pending"},
    {82, UINT, "temperature.memory_c"},
    {83, ULL, "energy_mj"},
    {91, UINT, "nvlink.count"},
    {142, UINT, "remap.correctable"},
    {143, UINT, "remap.uncorrectable"},
    {144, UINT, "remap.pending"},
    {145, UINT, "remap.failed"},
    {170, UINT, "c2c.links"},
    {185, UINT, "power_average_mw"},
    {186, UINT, "power_instant_mw"},
    {187, UINT, "power_limit_min_mw"},
    {188, UINT, "power_limit_max_mw"},
    {189, UINT, "power_limit_default_mw"},
    {190, UINT, "power_limit_mw"},
    {192, UINT, "power_limit_requested_mw"},
    {193, SINT, "temperature.shutdown_margin_c"},
    {194, SINT, "temperature.slowdown_margin_c"},
    {195, SINT, "temperature.memory_max_margin_c"},
    {196, SINT, "temperature.gpu_max_margin_c"},
    {226, UINT, "reset_required"},
    {227, UINT, "drain_and_reset_recommended"},
    {230, UINT, "recovery_action"},
};

static void put(struct field_value *field, enum value_type type, long long number)
{
    field->type = (unsigned)type;
    field->value.ull = 0;
    if (type == UINT)
        field->value.uint = (unsigned)number;
    else if (type == SINT)
        field->value.sint = (int)number;
    else
        field->value.ull = (unsigned long long)number;
}

/* Fields 3 to 6: corrected and uncorrected, volatile and aggregate totals. */
static nvmlReturn_t ecc_field(struct device *device, struct field_value *field)
{
    unsigned long long count = 0;
    unsigned at = field->field - 3;
    nvmlReturn_t said = ecc_total(device, at & 1U, at >> 1, &count);
    put(field, ULL, (long long)count);
    return said;
}

static nvmlReturn_t answer(struct device *device, struct field_value *field)
{
    char key[64];
    long long number = 0;
    snprintf(key, sizeof key, "field.%u.%u", field->field, field->scope);
    nvmlReturn_t said = number_of(&device->values, key, &number);
    if (said == NVML_ERROR_NOT_SUPPORTED) {
        snprintf(key, sizeof key, "field.%u", field->field);
        said = number_of(&device->values, key, &number);
    }
    if (said != NVML_ERROR_NOT_SUPPORTED) {
        put(field, ULL, number);
        return said;
    }
    if (field->field >= 3 && field->field <= 6)
        return ecc_field(device, field);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (fields[i].id != field->field)
            continue;
        said = number_of(&device->values, fields[i].key, &number);
        put(field, fields[i].type, number);
        return said;
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

API nvmlDeviceGetFieldValues(nvmlDevice_t handle, int count, struct field_value *values)
{
    ENTER_DEVICE(handle);
    REQUIRE(values);
    for (int i = 0; i < count; i++)
        values[i].said = answer(handle, &values[i]);
    return NVML_SUCCESS;
}
