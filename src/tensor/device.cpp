#include "cohort/tensor/device.hpp"

#include <charconv>
#include <string>

#include "cohort/core/error.hpp"
#include "core/log.hpp"

namespace cohort {

void warn_of_unused_gpus() {
    const UsableGpus gpus = usable_gpus();
    if (gpus.count == 0 && gpus.reported > 0) {
        log_warn("--device auto takes the CPU: {}", gpus.detail);
    }
}

std::unique_ptr<Device> make_device(std::string_view name, int threads) {
    if (name == "auto") {
        if (usable_gpus().count > 0) {
            return make_cuda_device(0);
        }
        warn_of_unused_gpus();
        return make_cpu_device(threads);
    }
    if (name == "cpu") {
        return make_cpu_device(threads);
    }
    if (name == "cuda") {
        return make_cuda_device(0);
    }
    constexpr std::string_view kPrefix = "cuda:";
    if (name.starts_with(kPrefix)) {
        int index = -1;
        const char* end = name.data() + name.size();
        const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, index);
        if (error == std::errc{} && stop == end && index >= 0) {
            return make_cuda_device(index);
        }
    }
    fail<UsageError>({.where = "--device",
                      .what = "unknown device",
                      .expected = "auto, cpu, cuda or cuda:<index>",
                      .got = name});
}

}  // namespace cohort
