#pragma once

#include <cstddef>
#include <cstdint>

namespace cohort {

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

    NodeMemory(NodeMemory&& other) noexcept;
    NodeMemory& operator=(NodeMemory&& other) noexcept;
    NodeMemory(const NodeMemory&) = delete;
    NodeMemory& operator=(const NodeMemory&) = delete;
    ~NodeMemory();

    /// Takes hold of the pages of [offset, offset + bytes) now, near this process, so that no
    /// later access can fail. Errors: DeviceError when memory is short.
    void reserve(std::size_t offset, std::size_t bytes);
    /// When all have opened it.
    void close_descriptor() noexcept;
    /// Leaves the mapping in place for the rest of the process's life: MPI may still write.
    void leave_mapped() noexcept;

    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

private:
    NodeMemory(int descriptor, std::size_t bytes);

    int descriptor_ = -1;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace cohort
