#pragma once

#include <algorithm>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cohort/core/error.hpp"
#include "cohort/layers/kernel.hpp"

namespace cohort {

/// The process's oneDNN CPU engine (immutable) and the calling thread's stream on it.
[[nodiscard]] const dnnl::engine& dnnl_engine();
[[nodiscard]] dnnl::stream& dnnl_stream();

/// Channel block that oneDNN's convolutions like best here: 16, 8, or 1 (row-major).
[[nodiscard]] std::int64_t preferred_channel_block();

/// The instructions for floats that oneDNN is allowed to use here, and so our own loops.
enum class VectorLevel { kSse, kAvx, kAvx2, kAvx512 };
[[nodiscard]] VectorLevel vector_level();

/// Whether oneDNN multiplies bfloat16 by instructions made for it: AMX or AVX-512 BF16.
[[nodiscard]] bool has_bf16_products();

/// What a choice by measurement holds for besides the problem: oneDNN's version, the instructions
/// that it uses, and the processor.
[[nodiscard]] const std::string& kernel_machine();

/// Whether oneDNN's implementation of this name is its reference, which computes element by
/// element.
[[nodiscard]] inline bool is_reference(std::string_view implementation) {
    return implementation.find("ref") != std::string_view::npos;
}

/// Channels of a format in memory: rounded up to whole blocks.
[[nodiscard]] std::int64_t stored_channels(const TensorFormat& format);

[[nodiscard]] constexpr dnnl::memory::data_type dnnl_type(ElementType type) {
    return type == ElementType::kBf16 ? dnnl::memory::data_type::bf16
                                      : dnnl::memory::data_type::f32;
}

/// oneDNN's description of `samples` samples in `format`; rank 1 becomes [N,F], 3 [N,C,H,W]. The
/// padding of blocked formats counts as ordinary channels (of zeros): oneDNN's fast kernels do not
/// take every padded number of channels, and its own padding rules cost time.
[[nodiscard]] dnnl::memory::desc describe(const TensorFormat& format, std::int64_t samples);

/// Wraps memory without owning it.
[[nodiscard]] inline dnnl::memory wrap(const dnnl::memory::desc& desc, const void* data) {
    return {desc, dnnl_engine(), const_cast<void*>(data)};
}

/// Primitive attributes with the scratchpad supplied by the caller.
[[nodiscard]] dnnl::primitive_attr user_scratchpad();

/// oneDNN's generators of code crash where they get no memory for it. To be called before a
/// primitive is made. Errors: DeviceError when this process gets no more address space (ulimit -v).
void require_code_memory();

/// Runs `f`, turning oneDNN's exceptions into DeviceError naming the operation.
template <class F>
decltype(auto) dnnl_checked(std::string_view operation, F&& f) {
    try {
        return f();
    } catch (const dnnl::error& error) {
        fail<DeviceError>({.where = operation,
                           .what = "oneDNN reported status " + std::to_string(error.status) + ": " +
                                   error.what()});
    }
}

/// Runs a primitive on the calling thread. Errors: DeviceError naming the operation.
inline void execute(std::string_view operation, const dnnl::primitive& primitive,
                    const std::unordered_map<int, dnnl::memory>& arguments) {
    dnnl_checked(operation, [&] { primitive.execute(dnnl_stream(), arguments); });
}

/// Primitives of one layer by slice size. `Primitives` has descriptors `forward_scratch` and
/// `backward_scratch`. Reading what was prepared is thread safe.
template <class Primitives>
class PrimitiveCache {
public:
    /// Makes what is missing by `make(samples)`; returns the scratch memory for all these sizes.
    template <class Make>
    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes, Make&& make) {
        KernelMemory memory;
        for (const std::int64_t samples : slice_sizes) {
            auto found = made_.find(samples);
            if (found == made_.end()) {
                found = made_.emplace(samples, make(samples)).first;
            }
            memory.forward_scratch =
                std::max(memory.forward_scratch, found->second.forward_scratch.get_size());
            memory.backward_scratch =
                std::max(memory.backward_scratch, found->second.backward_scratch.get_size());
        }
        return memory;
    }
    [[nodiscard]] const Primitives& at(std::int64_t samples) const { return made_.at(samples); }

private:
    std::map<std::int64_t, Primitives> made_;
};

/// Row-major c[m,n] = op(a) op(b) + beta c by oneDNN, on the calling thread.
/// @param transpose_a, transpose_b  'N' or 'T'  @param lda, ldb, ldc  floats from row to row
/// Errors: DeviceError.
void sgemm(char transpose_a, char transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
           const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
           std::int64_t ldc);

}  // namespace cohort
