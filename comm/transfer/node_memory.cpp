#include "comm/transfer/node_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/units.hpp"

namespace cohort {
namespace {

constexpr std::string_view kWhere = "memory shared by the ranks of a host";

[[noreturn]] void fail_memory(const std::string& what, const std::string& got,
                              const std::string& hint) {
    fail<DeviceError>({.where = kWhere, .what = what, .got = got, .hint = hint});
}

/// What the kernel says could be allocated without swapping; 0 when it does not say.
std::uint64_t available_bytes() {
    std::ifstream file("/proc/meminfo");
    std::string name;
    std::uint64_t kib = 0;
    std::string unit;
    while (file >> name >> kib) {
        std::getline(file, unit);
        if (name == "MemAvailable:") {
            return kib * 1024;
        }
    }
    return 0;
}

}  // namespace

void UnmapBytes::operator()(std::byte* data) const noexcept {
    munmap(data, bytes);
}

NodeMemory::NodeMemory(FileDescriptor file, std::size_t bytes) : descriptor_(std::move(file)) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor(), 0);
    if (data == MAP_FAILED) {
        fail_memory("it cannot be mapped", errno_text(errno), "fewer ranks per host");
    }
    data_ = {static_cast<std::byte*>(data), UnmapBytes{bytes}};
}

NodeMemory NodeMemory::create(std::size_t bytes) {
    const std::uint64_t available = available_bytes();
    if (available != 0 && available < bytes) {
        fail_memory(
            "the host is short of memory",
            format_bytes(available) + " available where " + format_bytes(bytes) + " are needed",
            "fewer ranks per host or a smaller model");
    }
    FileDescriptor file(memfd_create("cohort", MFD_CLOEXEC));
    if (!file.valid()) {
        fail_memory("it cannot be created", errno_text(errno),
                    "--all-reduce mpi, --node-staging off");
    }
    if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
        fail_memory("it cannot be made as large as needed", errno_text(errno),
                    "fewer ranks per host or a smaller model");
    }
    return {std::move(file), bytes};
}

NodeMemory NodeMemory::open(std::int64_t pid, int descriptor, std::size_t bytes) {
    const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
    FileDescriptor own(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!own.valid()) {
        fail_memory("that of process " + std::to_string(pid) + " cannot be opened",
                    errno_text(errno),
                    "ranks of one host in one process namespace, --all-reduce mpi, "
                    "--node-staging off");
    }
    return {std::move(own), bytes};
}

void NodeMemory::reserve(std::size_t offset, std::size_t bytes) const {
    int error = EINTR;
    while (error == EINTR) {
        error =
            posix_fallocate(descriptor(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
    }
    if (error != 0) {
        fail_memory("the host is short of memory", errno_text(error),
                    "fewer ranks per host or a smaller model");
    }
    // The page table's entries too, so that the first round does not pay for them.
    for (std::size_t at = offset; at < offset + bytes; at += 4096) {
        auto* byte = reinterpret_cast<volatile std::byte*>(data() + at);
        *byte = *byte;
    }
}

}  // namespace cohort
