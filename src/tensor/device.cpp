#include "cohort/tensor/device.hpp"

#include <charconv>
#include <string>

#include "cohort/core/error.hpp"

namespace cohort {

std::unique_ptr<Device> make_device(std::string_view name, int threads) {
    if (name == "cpu" || (name == "auto" && cuda_status().device_count == 0)) {
        return make_cpu_device(threads);
    }
    if (name == "cuda" || name == "auto") {
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
