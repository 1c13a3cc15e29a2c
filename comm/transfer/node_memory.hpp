#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cohort/core/file_descriptor.hpp"

namespace cohort {

struct UnmapBytes {
    std::size_t bytes = 0;
    void operator()(std::byte* data) const noexcept;
};

/// Memory that processes of one host share. It has no name in any file system: nothing is left
/// behind, however its users end. One process creates it, the others open it through the creator's
/// descriptor. Movable; the destructor unmaps.
class NodeMemory {
public:
    NodeMemory() = default;
    /// Zeroed. Errors: DeviceError when the host has not enough memory available.
    [[nodiscard]] static NodeMemory create(std::size_t bytes);
    /// @param pid, descriptor  of the creator, who must not have called close_descriptor() yet
    /// Errors: DeviceError, also when `pid` cannot be seen from here.
    [[nodiscard]] static NodeMemory open(std::int64_t pid, int descriptor, std::size_t bytes);

    /// Takes hold of the pages of [offset, offset + bytes) now, near this process, so that no
    /// later access can fail. Errors: DeviceError when memory is short.
    void reserve(std::size_t offset, std::size_t bytes) const;
    /// When all have opened it.
    void close_descriptor() noexcept { descriptor_ = {}; }
    /// Leaves the mapping in place for the rest of the process's life: MPI may still write.
    void leave_mapped() noexcept { static_cast<void>(data_.release()); }

    [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
    [[nodiscard]] int descriptor() const noexcept { return descriptor_.get(); }

private:
    NodeMemory(FileDescriptor descriptor, std::size_t bytes);

    FileDescriptor descriptor_;
    std::unique_ptr<std::byte, UnmapBytes> data_;
};

}  // namespace cohort
