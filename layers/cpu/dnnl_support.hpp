#pragma once

#include <oneapi/dnnl/dnnl.hpp>
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

/// Channels of a format in memory: rounded up to whole blocks.
[[nodiscard]] std::int64_t stored_channels(const TensorFormat& format);

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

}  // namespace cohort
