#include "layers/cuda/dnn/dnn_api.hpp"

#include <array>
#include <string>

#include "cohort/core/error.hpp"
#include "core/source_place.hpp"
#include "layers/cuda/support.hpp"

namespace cohort::cuda {
namespace {

DnnApi load() {
    const Library& library = dnn_library();
    DnnApi api;
    library.load(api.version, "cudnnGetVersion");
    library.load(api.error_text, "cudnnGetErrorString");
    library.load(api.last_error, "cudnnGetLastErrorString");
    library.load(api.create, "cudnnCreate");
    library.load(api.destroy, "cudnnDestroy");
    library.load(api.set_stream, "cudnnSetStream");
    library.load(api.create_descriptor, "cudnnBackendCreateDescriptor");
    library.load(api.destroy_descriptor, "cudnnBackendDestroyDescriptor");
    library.load(api.set_attribute, "cudnnBackendSetAttribute");
    library.load(api.get_attribute, "cudnnBackendGetAttribute");
    library.load(api.finalize, "cudnnBackendFinalize");
    library.load(api.execute, "cudnnBackendExecute");
    return api;
}

}  // namespace

const DnnApi& dnn() {
    static const DnnApi api = load();
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
