#include "cohort/tensor/device.hpp"

#include <charconv>
#include <string>

#include "cohort/core/error.hpp"
#include "core/log.hpp"

namespace cohort {
namespace {

/// Of "cuda" and "cuda:INDEX"; -1: another name.
int cuda_index(std::string_view name) noexcept {
    constexpr std::string_view kCuda = "cuda";
    if (name == kCuda) {
        return 0;
    }
    int index = -1;
    if (name.starts_with(kCuda) && name.substr(kCuda.size()).starts_with(':')) {
        const char* end = name.data() + name.size();
        const auto [stop, error] = std::from_chars(name.data() + kCuda.size() + 1, end, index);
        index = error == std::errc{} && stop == end ? index : -1;
    }
    return index;
}

}  // namespace

void warn_of_unused_gpus() {
    const UsableGpus gpus = usable_gpus();
    if (gpus.count == 0 && gpus.reported > 0) {
        log_warn("--device auto takes the CPU: {}", gpus.detail);
    }
}

bool is_device_name(std::string_view name) noexcept {
    return name == "auto" || name == "cpu" || cuda_index(name) >= 0;
}

std::unique_ptr<Device> make_device(std::string_view name, int threads) {
    if (!is_device_name(name)) {
        fail<UsageError>({.where = "--device",
                          .what = "unknown device",
                          .expected = "auto, cpu, cuda or cuda:<index>",
                          .got = name});
    }
    if (name == "auto") {
        if (usable_gpus().count > 0) {
            return make_cuda_device(0);
        }
        warn_of_unused_gpus();
    }
    const int index = cuda_index(name);
    return index >= 0 ? make_cuda_device(index) : make_cpu_device(threads);
}

}  // namespace cohort
