#pragma once

#include <cudnn.h>

#include <source_location>

#include "cohort/tensor/element.hpp"
#include "core/tensor/cuda_library.hpp"

namespace cohort::cuda {

/// The functions of cuDNN that plans are made and run with.
struct DnnApi {
    COHORT_LIBRARY_FUNCTION(dnn_library, version, cudnnGetVersion);
    COHORT_LIBRARY_FUNCTION(dnn_library, error_text, cudnnGetErrorString);
    COHORT_LIBRARY_FUNCTION(dnn_library, last_error, cudnnGetLastErrorString);
    COHORT_LIBRARY_FUNCTION(dnn_library, create, cudnnCreate);
    COHORT_LIBRARY_FUNCTION(dnn_library, destroy, cudnnDestroy);
    COHORT_LIBRARY_FUNCTION(dnn_library, set_stream, cudnnSetStream);
    COHORT_LIBRARY_FUNCTION(dnn_library, create_descriptor, cudnnBackendCreateDescriptor);
    COHORT_LIBRARY_FUNCTION(dnn_library, destroy_descriptor, cudnnBackendDestroyDescriptor);
    COHORT_LIBRARY_FUNCTION(dnn_library, set_attribute, cudnnBackendSetAttribute);
    COHORT_LIBRARY_FUNCTION(dnn_library, get_attribute, cudnnBackendGetAttribute);
    COHORT_LIBRARY_FUNCTION(dnn_library, finalize, cudnnBackendFinalize);
    COHORT_LIBRARY_FUNCTION(dnn_library, execute, cudnnBackendExecute);
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
