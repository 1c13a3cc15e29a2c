#pragma once

#include <cstring>
#include <map>
#include <string>

#include "cohort/tensor/element.hpp"
#include "core/tensor/cuda/elements.cuh"

/// The libraries that stand in for cuDNN and cuBLASLt: what they share.
namespace cohort::on_cpu {

/// Functions by name; a library's file fills in its own.
using Functions = std::map<std::string, void*>;
void add_dnn(Functions& functions);
void add_blas(Functions& functions);
void add_rnn(Functions& functions);

/// One element as a number, and back.
inline double read(const void* data, ElementType type, std::int64_t index) {
    double value = 0;
    cuda::with_type(type, [&](auto zero) {
        using T = decltype(zero);
        value = static_cast<double>(cuda::to_float(static_cast<const T*>(data)[index]));
    });
    return value;
}
inline void write(void* data, ElementType type, std::int64_t index, double value) {
    cuda::with_type(type, [&](auto zero) {
        using T = decltype(zero);
        static_cast<T*>(data)[index] = cuda::from_float<T>(static_cast<float>(value));
    });
}

/// Workspace is written over, so that a test sees when it is shared with something that lives.
inline void spoil(void* workspace, std::size_t bytes) {
    std::memset(workspace, 0xFF, bytes);
}

}  // namespace cohort::on_cpu
