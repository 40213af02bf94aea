/* A libnvidia-ml.so for tests: the calls that the agent makes, over GPUs that live in a file.
 *
 * FAKE_NVML names a file of GPU_SLOTS slots (struct gpu); the tests map the same file, so they
 * see each write and can lose a GPU, revoke the permission, hang a call, or act as somebody else
 * who sets a limit. Signatures and codes: nvml.h of CUDA 13. OLD_DRIVER leaves out what drivers
 * before Ada's time lack. */

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4,
       NOT_FOUND = 6, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, ARGUMENT_VERSION_MISMATCH = 25 };

#define GPU_SLOTS 16

struct gpu {
    char uuid[48];
    uint32_t limit_mw, min_mw, max_mw, default_mw, board_mw, power_mw, temperature_c;
    int32_t margin_k;
    uint32_t clock_mhz, lost, no_permission, hang_ms, no_limits, writes;
    uint64_t energy_mj, events;
};

static struct gpu *gpus;

static int count(void) {
    int n = 0;
    while (n < GPU_SLOTS && gpus[n].uuid[0]) n++;
    return n;
}

static int gone(const struct gpu *gpu) {
    for (uint32_t waited = 0; waited < gpu->hang_ms; waited++) usleep(1000);
    return gpu->lost;
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    const char *path = getenv("FAKE_NVML");
    int file = path ? open(path, O_RDWR) : -1;
    if (file < 0) return DRIVER_NOT_LOADED;
    void *found = mmap(NULL, GPU_SLOTS * sizeof(struct gpu), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (found == MAP_FAILED) return DRIVER_NOT_LOADED;
    gpus = found;
    return OK;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

const char *nvmlErrorString(int code) { (void)code; return "fake"; }

int nvmlDeviceGetCount_v2(unsigned *n) {
    if (!gpus) return UNINITIALIZED;
    *n = (unsigned)count();
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct gpu **gpu) {
    if (!gpus) return UNINITIALIZED;
    if ((int)i >= count()) return INVALID_ARGUMENT;
    if (gpus[i].lost) return GPU_IS_LOST;
    *gpu = &gpus[i];
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct gpu **gpu) {
    if (!gpus) return UNINITIALIZED;
    for (int i = 0; i < count(); i++)
        if (!strcmp(gpus[i].uuid, uuid)) {
            *gpu = &gpus[i];
            return gpus[i].lost ? GPU_IS_LOST : OK;
        }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(struct gpu *gpu, char *text, unsigned length) {
    if (gone(gpu)) return GPU_IS_LOST;
    strncpy(text, gpu->uuid, length);
    return OK;
}

int nvmlDeviceGetPowerManagementLimitConstraints(struct gpu *gpu, unsigned *low, unsigned *high) {
    if (gone(gpu)) return GPU_IS_LOST;
    if (gpu->no_limits) return NOT_SUPPORTED;
    *low = gpu->min_mw;
    *high = gpu->max_mw;
    return OK;
}

#define GETTER(name, type, value)                     \
    int name(struct gpu *gpu, type *out) {            \
        if (gone(gpu)) return GPU_IS_LOST;            \
        if (gpu->no_limits) return NOT_SUPPORTED;     \
        *out = (value);                               \
        return OK;                                    \
    }

GETTER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, gpu->default_mw)
GETTER(nvmlDeviceGetPowerManagementLimit, unsigned, gpu->limit_mw)
/* A limiter out of band (BMC) caps what is enforced. */
GETTER(nvmlDeviceGetEnforcedPowerLimit, unsigned,
       gpu->board_mw && gpu->board_mw < gpu->limit_mw ? gpu->board_mw : gpu->limit_mw)
GETTER(nvmlDeviceGetPowerUsage, unsigned, gpu->power_mw)
GETTER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, gpu->energy_mj)
GETTER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, gpu->events)

int nvmlDeviceGetClockInfo(struct gpu *gpu, int type, unsigned *mhz) {
    (void)type;
    if (gone(gpu)) return GPU_IS_LOST;
    *mhz = gpu->clock_mhz;
    return OK;
}

int nvmlDeviceGetTemperature(struct gpu *gpu, int sensor, unsigned *celsius) {
    (void)sensor;
    if (gone(gpu)) return GPU_IS_LOST;
    *celsius = gpu->temperature_c;
    return OK;
}

#ifndef OLD_DRIVER
struct temperature { unsigned version; int sensor; int celsius; };
struct margin { unsigned version; int kelvin; };

int nvmlDeviceGetTemperatureV(struct gpu *gpu, struct temperature *out) {
    if (out->version != 0x100000C) return ARGUMENT_VERSION_MISMATCH;
    if (gone(gpu)) return GPU_IS_LOST;
    out->celsius = (int)gpu->temperature_c;
    return OK;
}

int nvmlDeviceGetMarginTemperature(struct gpu *gpu, struct margin *out) {
    if (out->version != 0x1000008) return ARGUMENT_VERSION_MISMATCH;
    if (gone(gpu)) return GPU_IS_LOST;
    out->kelvin = gpu->margin_k;
    return OK;
}
#endif

int nvmlDeviceSetPowerManagementLimit(struct gpu *gpu, unsigned mw) {
    if (gone(gpu)) return GPU_IS_LOST;
    if (gpu->no_limits) return NOT_SUPPORTED;
    if (gpu->no_permission) return NO_PERMISSION;
    if (mw < gpu->min_mw || mw > gpu->max_mw) return INVALID_ARGUMENT;
    gpu->limit_mw = mw;
    gpu->writes++;
    return OK;
}
