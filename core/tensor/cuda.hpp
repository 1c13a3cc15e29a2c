#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>

#include "cohort/tensor/device.hpp"

/// Functions of the CUDA device for the CUDA parts of other modules, without CUDA's own headers. In
/// a build without the toolkit those that take a device or stream throw DeviceError, check_launch()
/// finds nothing wrong, and the others do not exist.
namespace cohort::cuda {

/// The stream's cudaStream_t. Errors: DeviceError for a stream of another device.
[[nodiscard]] void* native_stream(Stream& stream);

/// Fixed properties of a GPU.
struct GpuFacts {
    int index = 0;     ///< among the visible ones
    std::string name;  ///< "NVIDIA H200"
    std::string bus;   ///< PCI address: two devices are the same GPU when host and bus are
    int multiprocessors = 0;
};
/// Errors: DeviceError for another kind of device.
[[nodiscard]] const GpuFacts& gpu_facts(const Device& device);

/// Makes the calling thread use the device's GPU; a thread starts on GPU 0. Calls of the libraries
/// (cuDNN, cuBLASLt, NCCL) and launches come after it. Errors: DeviceError.
void use(const Device& device);
/// As use(device), by GpuFacts::index, for a thread that may outlive the device. Before anything
/// that depends on the thread's GPU, else a context is made on GPU 0 as well.
void use(int gpu);

/// Throws DeviceError unless `result` (a cudaError_t) is cudaSuccess: the error's name and text,
/// the operation, file and line. OutOfMemory when the runtime itself runs out of memory, sizes
/// unknown.
void check(int result, const char* operation,
           std::source_location where = std::source_location::current());

/// After a launch: cudaGetLastError() through check().
void check_launch(const char* kernel, std::source_location where = std::source_location::current());

}  // namespace cohort::cuda
