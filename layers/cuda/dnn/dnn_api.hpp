#pragma once

#include <cudnn.h>

#include <source_location>

#include "cohort/tensor/element.hpp"

namespace cohort::cuda {

/// The functions of cuDNN that plans are made and run with.
struct DnnApi {
    decltype(&cudnnGetVersion) version = nullptr;
    decltype(&cudnnGetErrorString) error_text = nullptr;
    decltype(&cudnnGetLastErrorString) last_error = nullptr;
    decltype(&cudnnCreate) create = nullptr;
    decltype(&cudnnDestroy) destroy = nullptr;
    decltype(&cudnnSetStream) set_stream = nullptr;
    decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
    decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
    decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
    decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
    decltype(&cudnnBackendFinalize) finalize = nullptr;
    decltype(&cudnnBackendExecute) execute = nullptr;
};

/// Filled at first use. Errors: DeviceError when cuDNN is missing or lacks a function.
[[nodiscard]] const DnnApi& dnn();

/// Throws DeviceError unless `status` is success: cuDNN's words, the operation, file and line.
void dnn_check(cudnnStatus_t status, const char* operation,
               std::source_location where = std::source_location::current());

[[nodiscard]] constexpr cudnnDataType_t dnn_type(ElementType type) noexcept {
    return type == ElementType::kF32    ? CUDNN_DATA_FLOAT
           : type == ElementType::kBf16 ? CUDNN_DATA_BFLOAT16
                                        : CUDNN_DATA_HALF;
}

}  // namespace cohort::cuda
