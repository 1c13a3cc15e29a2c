// NVML's part of the telemetry. The toolkit need not have its header: the few functions that are
// used are declared here, by their documentation (NVIDIA, "NVML API Reference Guide").
#include "core/tensor/gpu_probe.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/core/resource_use.hpp"
#include "core/tensor/cuda_library.hpp"

namespace cohort {
namespace {

using NvmlDevice = struct NvmlDeviceHandle*;
using Status = int;
constexpr Status kSuccess = 0;
constexpr Status kTooSmall = 7;  // NVML_ERROR_INSUFFICIENT_SIZE

constexpr int kSmClock = 1;                // NVML_CLOCK_SM
constexpr int kChip = 0;                   // NVML_TEMPERATURE_GPU
constexpr int kUncorrected = 1;            // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
constexpr int kCorrected = 0;              // NVML_MEMORY_ERROR_TYPE_CORRECTED
constexpr int kSinceTheDriverStarted = 0;  // NVML_VOLATILE_ECC

/// nvmlProcessUtilizationSample_t: of one process since a moment.
struct ProcessSample {
    unsigned int pid;
    unsigned long long timestamp_us;  // NOLINT(google-runtime-int): as the library has it
    unsigned int sm_percent;
    unsigned int memory_percent;
    unsigned int encoder_percent;
    unsigned int decoder_percent;
};

using Long = unsigned long long;  // NOLINT(google-runtime-int)

struct Nvml {
    Status (*init)() = nullptr;
    Status (*by_bus)(const char*, NvmlDevice*) = nullptr;
    Status (*clock)(NvmlDevice, int, unsigned int*) = nullptr;
    Status (*most_clock)(NvmlDevice, int, unsigned int*) = nullptr;
    Status (*reasons)(NvmlDevice, Long*) = nullptr;
    Status (*temperature)(NvmlDevice, int, unsigned int*) = nullptr;
    Status (*ecc_errors)(NvmlDevice, int, int, Long*) = nullptr;
    Status (*processes)(NvmlDevice, ProcessSample*, unsigned int*, Long) = nullptr;
};

/// Errors: DeviceError where the driver brings no such library.
Nvml load_nvml() {
    const cuda::Library library("NVML", {"libnvidia-ml.so.1"});
    Nvml nvml;
    library.load(nvml.init, "nvmlInit_v2");
    library.load(nvml.by_bus, "nvmlDeviceGetHandleByPciBusId_v2");
    library.load(nvml.clock, "nvmlDeviceGetClockInfo");
    library.load(nvml.most_clock, "nvmlDeviceGetMaxClockInfo");
    library.load(nvml.reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
    library.load(nvml.temperature, "nvmlDeviceGetTemperature");
    library.load(nvml.ecc_errors, "nvmlDeviceGetTotalEccErrors");
    library.load(nvml.processes, "nvmlDeviceGetProcessUtilization");
    return nvml;
}

/// nvmlClocksThrottleReason...: bits of its answer, and what they mean here.
constexpr std::array<std::pair<Long, DeviceLimit>, 5> kReasons{{
    {0x20, DeviceLimit::kThermal},   // SwThermalSlowdown
    {0x40, DeviceLimit::kThermal},   // HwThermalSlowdown
    {0x80, DeviceLimit::kHardware},  // HwPowerBrakeSlowdown
    {0x08, DeviceLimit::kHardware},  // HwSlowdown; with either of the two before it as well
    {0x04, DeviceLimit::kPower},     // SwPowerCap
}};

class NvmlProbe final : public GpuProbe {
public:
    NvmlProbe(const Nvml& nvml, NvmlDevice device) : nvml_(nvml), device_(device) {}

    [[nodiscard]] GpuState read() override {
        GpuState state;
        unsigned int clock = 0;
        unsigned int most = 0;
        if (nvml_.clock(device_, kSmClock, &clock) == kSuccess &&
            nvml_.most_clock(device_, kSmClock, &most) == kSuccess && most > 0) {
            state.clock_share = std::min(1.0, static_cast<double>(clock) / most);
        }
        unsigned int celsius = 0;
        if (nvml_.temperature(device_, kChip, &celsius) == kSuccess) {
            state.celsius = celsius;
        }
        state.others_busy = others_busy();
        state.limits = limits(state.others_busy > 0);
        return state;
    }

private:
    [[nodiscard]] std::uint8_t limits(bool shared) {
        unsigned int found = shared ? bit_of(DeviceLimit::kShared) : 0U;
        Long reasons = 0;
        if (nvml_.reasons(device_, &reasons) == kSuccess) {
            const bool hot = (reasons & 0x60U) != 0;
            for (const auto& [bit, limit] : kReasons) {
                const bool repeats = hot && bit == 0x08;
                found |= (reasons & bit) != 0 && !repeats ? bit_of(limit) : 0U;
            }
        }
        Long all = 0;
        for (const int kind : {kCorrected, kUncorrected}) {
            Long errors = 0;
            all += nvml_.ecc_errors(device_, kind, kSinceTheDriverStarted, &errors) == kSuccess
                       ? errors
                       : 0;
        }
        found |=
            all > std::exchange(errors_, all).value_or(all) ? bit_of(DeviceLimit::kMemory) : 0U;
        return static_cast<std::uint8_t>(found);
    }

    /// A process in a container may not see its own number among those of the host. Then nothing
    /// tells it from others, and nothing is known.
    [[nodiscard]] double others_busy() {
        unsigned int count = 0;
        if (nvml_.processes(device_, nullptr, &count, seen_us_) != kTooSmall || count == 0) {
            return 0;
        }
        std::vector<ProcessSample> samples(count);
        if (nvml_.processes(device_, samples.data(), &count, seen_us_) != kSuccess) {
            return 0;
        }
        samples.resize(std::min<std::size_t>(count, samples.size()));
        bool self = false;
        double percent = 0;
        for (const ProcessSample& sample : samples) {
            seen_us_ = std::max(seen_us_, sample.timestamp_us);
            const bool own = sample.pid == static_cast<unsigned int>(::getpid());
            self = self || own;
            percent += own ? 0 : sample.sm_percent;
        }
        return self ? std::min(1.0, percent / 100) : 0;
    }

    Nvml nvml_;
    NvmlDevice device_;
    std::optional<Long> errors_;  ///< ECC errors at the last reading
    Long seen_us_ = 0;            ///< newest sample of processes, the library's clock
};

}  // namespace

std::unique_ptr<GpuProbe> make_gpu_probe(const std::string& bus) {
    try {
        const Nvml nvml = load_nvml();
        NvmlDevice device = nullptr;
        if (nvml.init() != kSuccess || nvml.by_bus(bus.c_str(), &device) != kSuccess) {
            return nullptr;
        }
        return std::make_unique<NvmlProbe>(nvml, device);
    } catch (const DeviceError&) {  // the job does without
        return nullptr;
    }
}

}  // namespace cohort
