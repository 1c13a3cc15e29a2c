#include "layers/cuda/dnn/dnn_api.hpp"

#include <array>
#include <string>

#include "cohort/core/error.hpp"
#include "core/source_place.hpp"
#include "layers/cuda/support.hpp"

namespace cohort::cuda {
const DnnApi& dnn() {
    static const DnnApi api;
    return api;
}

void dnn_check(cudnnStatus_t status, const char* operation, std::source_location where) {
    if (status == CUDNN_STATUS_SUCCESS) {
        return;
    }
    std::array<char, 512> details{};
    dnn().last_error(details.data(), details.size() - 1);
    std::string what = dnn().error_text(status);
    if (details[0] != '\0') {
        what += std::string(": ") + details.data();
    }
    fail<DeviceError>({.where = operation, .what = what + " (" + source_place(where) + ")"});
}

}  // namespace cohort::cuda
