#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>

#include "cohort/core/error.hpp"
#include "cohort/tensor/device.hpp"
#include "core/log.hpp"
#include "core/tensor/cpu_team.hpp"
#include "core/units.hpp"

namespace cohort {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

class CpuEvent final : public Event {
public:
    [[nodiscard]] bool done() const override { return true; }
    void wait() const override {}
    [[nodiscard]] double seconds_since(const Event& earlier) const override {
        const auto* other = dynamic_cast<const CpuEvent*>(&earlier);
        check_invariant(other != nullptr, "events of two devices compared");
        return std::chrono::duration<double>(at_ - other->at_).count();
    }

private:
    std::chrono::steady_clock::time_point at_ = std::chrono::steady_clock::now();
};

class CpuStream final : public Stream {
public:
    void copy(void* to, const void* from, std::size_t bytes) override {
        if (bytes > 0) {
            std::memcpy(to, from, bytes);
        }
    }
    void fill_zero(void* to, std::size_t bytes) override {
        if (bytes > 0) {
            std::memset(to, 0, bytes);
        }
    }
    [[nodiscard]] std::unique_ptr<Event> record() override { return std::make_unique<CpuEvent>(); }
    void wait_for(const Event& event) override { event.wait(); }
    void synchronize() override {}
};

/// MemAvailable and MemTotal of the host, in bytes.
DeviceMemory host_memory() {
    DeviceMemory memory;
    std::ifstream file("/proc/meminfo");
    std::string key;
    std::string unit;
    std::uint64_t kib = 0;
    while (file >> key >> kib) {
        std::getline(file, unit);
        if (key == "MemTotal:") {
            memory.total_bytes = kib * 1024;
        } else if (key == "MemAvailable:") {
            memory.free_bytes = kib * 1024;
        }
    }
    return memory;
}

[[noreturn]] void fail_memory(std::uint64_t asked, std::uint64_t free, std::string_view where,
                              std::string_view hint) {
    throw OutOfMemory(error_message({.where = where,
                                     .what = "out of memory: asked for " + format_bytes(asked) +
                                             ", " + format_bytes(free) + " available",
                                     .hint = hint}),
                      asked, free);
}

class CpuDevice final : public Device {
public:
    // Every member computes its own slices, so the libraries below must not start threads.
    explicit CpuDevice(int threads) : team_(threads, [] { omp_set_num_threads(1); }) {}

    [[nodiscard]] DeviceKind kind() const override { return DeviceKind::kCpu; }
    [[nodiscard]] std::string description() const override {
        return "cpu: " + std::to_string(team_.size()) +
               (team_.size() == 1 ? " thread, " : " threads, ") + cpu_isa();
    }
    [[nodiscard]] Buffer allocate(std::size_t bytes) override {
        const std::size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
        const std::size_t rounded =
            std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
        check_host_memory(bytes, "cpu", "a smaller --batch");
        void* data = std::aligned_alloc(alignment, rounded);
        if (data == nullptr) {
            fail_memory(rounded, host_memory().free_bytes, "cpu", "a smaller --batch");
        }
        if (alignment == kHugePage) {
            // Streaming through activations is bound by address translation otherwise. Advice
            // only: a kernel without huge pages says no and nothing is lost.
            static_cast<void>(madvise(data, rounded, MADV_HUGEPAGE));
        }
        return {data, bytes, [](void* p) noexcept { std::free(p); }};
    }
    [[nodiscard]] Buffer allocate_host(std::size_t bytes) override { return allocate(bytes); }
    [[nodiscard]] std::unique_ptr<Stream> create_stream() override {
        return std::make_unique<CpuStream>();
    }
    [[nodiscard]] DeviceMemory memory() const override { return host_memory(); }

    ThreadTeam& team() { return team_; }

private:
    ThreadTeam team_;
};

}  // namespace

void check_host_memory(std::uint64_t bytes, std::string_view where, std::string_view hint) {
    constexpr std::uint64_t kSmall = std::uint64_t{256} << 20;
    if (bytes < kSmall) {
        return;
    }
    const std::uint64_t free = host_memory().free_bytes;
    if (free > 0 && bytes > free) {
        fail_memory(bytes, free, where, hint);
    }
}

std::unique_ptr<Device> make_cpu_device(int threads) {
    static std::once_flag said;
    std::call_once(said, [] {
        if (const std::string doubt = cpu_isa_doubt(); !doubt.empty()) {
            log_warn("{}", doubt);
        }
    });
    return std::make_unique<CpuDevice>(threads);
}

ThreadTeam& cpu_team(Device& device) {
    auto* cpu = dynamic_cast<CpuDevice*>(&device);
    if (cpu == nullptr) {
        fail<DeviceError>({.where = "cpu_team",
                           .what = "not a CPU device",
                           .expected = "cpu",
                           .got = device.description()});
    }
    return cpu->team();
}

std::size_t cpu_l2_bytes() {
    constexpr std::size_t kUsual = std::size_t{1} << 20;
    const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes > 0 ? static_cast<std::size_t>(bytes) : kUsual;
}

}  // namespace cohort
