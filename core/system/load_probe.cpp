// Files of /proc stay open and are read again from their beginning; the list of the process's
// threads and the host's figures, which cost the kernel most, are read again every second.
#include "core/system/load_probe.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/core/file_descriptor.hpp"
#include "core/system/process_usage.hpp"

namespace cohort {
namespace {

constexpr double kHostEvery = 1;

/// A file that is read repeatedly; empty when it cannot be read.
class ProcFile {
public:
    explicit ProcFile(const std::string& path)
        : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

    /// Its first bytes, up to the buffer's size.
    template <std::size_t Size>
    [[nodiscard]] std::string_view read(std::array<char, Size>& buffer) const {
        const ssize_t got = ::pread(file_.get(), buffer.data(), buffer.size(), 0);
        return got > 0 ? std::string_view(buffer.data(), static_cast<std::size_t>(got))
                       : std::string_view();
    }

private:
    FileDescriptor file_;
};

/// Takes the next number out of a text; 0 when there is none.
std::uint64_t next_number(std::string_view& text) {
    const std::size_t at = text.find_first_of("0123456789");
    std::uint64_t value = 0;
    if (at == std::string_view::npos) {
        text = {};
        return value;
    }
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

std::string_view next_line(std::string_view& text) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
}

/// File with the time for which the cgroup was throttled; version 2 or 1.
std::string cgroup_file() {
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
        const std::size_t colon = line.rfind(':');
        if (line.starts_with("0::")) {
            return "/sys/fs/cgroup" + line.substr(colon + 1) + "/cpu.stat";
        }
        if (line.find("cpu,") != std::string::npos || line.find(":cpu:") != std::string::npos) {
            return "/sys/fs/cgroup/cpu" + line.substr(colon + 1) + "/cpu.stat";
        }
    }
    return {};
}

}  // namespace

struct LoadProbe::Impl {
    void find_threads();
    void read_threads(LoadCounters& counters);
    void read_host();
    void read_network();
    void read_cgroup();

    SteadyClock clock;
    std::map<int, ProcFile> threads;  ///< schedstat by thread
    double runnable_gone_s = 0;       ///< waiting time of threads that have ended
    std::map<int, double> runnable_s;
    ProcFile stat{"/proc/stat"};
    ProcFile network{"/proc/net/dev"};
    ProcFile cgroup{cgroup_file()};
    LoadCounters host;  ///< only the figures of the host and the cgroup
    double host_at_s = -kHostEvery;
    double tick_s = 1 / static_cast<double>(::sysconf(_SC_CLK_TCK));
};

void LoadProbe::Impl::find_threads() {
    std::error_code error;
    std::filesystem::directory_iterator at("/proc/self/task", error);
    if (error) {
        return;
    }
    std::map<int, ProcFile> found;
    for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
        const int thread = std::stoi(at->path().filename());
        if (auto known = threads.extract(thread)) {
            found.insert(std::move(known));
        } else {
            found.emplace(thread, ProcFile(at->path() / "schedstat"));
        }
    }
    for (const auto& [gone, file] : threads) {
        runnable_gone_s += runnable_s[gone];
        runnable_s.erase(gone);
    }
    threads = std::move(found);
}

/// A thread's file has: nanoseconds on a processor, nanoseconds waiting for one, number of time
/// slices.
void LoadProbe::Impl::read_threads(LoadCounters& counters) {
    std::array<char, 128> buffer{};
    counters.runnable_s = runnable_gone_s;
    for (const auto& [thread, file] : threads) {
        std::string_view text = file.read(buffer);
        if (!text.empty()) {
            (void)next_number(text);
            runnable_s[thread] = 1e-9 * static_cast<double>(next_number(text));
        }
        counters.runnable_s += runnable_s[thread];
    }
}

/// "cpu  user nice system idle iowait irq softirq steal guest guest_nice", in ticks; guests are in
/// user and nice too.
void LoadProbe::Impl::read_host() {
    std::array<char, 512> buffer{};
    std::string_view text = stat.read(buffer);
    text = next_line(text);
    std::array<double, 8> seconds{};
    double total = 0;
    for (double& one : seconds) {
        one = tick_s * static_cast<double>(next_number(text));
        total += one;
    }
    constexpr std::size_t kIdle = 3;
    constexpr std::size_t kWaiting = 4;
    constexpr std::size_t kSteal = 7;
    host.host_total_s = total;
    host.host_steal_s = seconds[kSteal];
    host.host_busy_s = total - seconds[kIdle] - seconds[kWaiting] - seconds[kSteal];
}

/// "  eth0: bytes packets errs drop fifo frame compressed multicast bytes ...", after two lines.
void LoadProbe::Impl::read_network() {
    constexpr int kSentColumn = 8;
    std::array<char, 16384> buffer{};
    std::string_view text = network.read(buffer);
    host.host_rx_bytes = host.host_tx_bytes = 0;
    while (!text.empty()) {
        std::string_view line = next_line(text);
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos ||
            line.substr(0, colon).find_first_not_of(" lo") == std::string_view::npos) {
            continue;
        }
        line.remove_prefix(colon + 1);
        host.host_rx_bytes += next_number(line);
        for (int column = 1; column < kSentColumn; ++column) {
            (void)next_number(line);
        }
        host.host_tx_bytes += next_number(line);
    }
}

void LoadProbe::Impl::read_cgroup() {
    std::array<char, 1024> buffer{};
    std::string_view text = cgroup.read(buffer);
    while (!text.empty()) {
        std::string_view line = next_line(text);
        if (line.starts_with("throttled_usec")) {
            host.throttled_s = 1e-6 * static_cast<double>(next_number(line));
        } else if (line.starts_with("throttled_time")) {
            host.throttled_s = 1e-9 * static_cast<double>(next_number(line));
        }
    }
}

LoadProbe::LoadProbe() : impl_(std::make_unique<Impl>()) {
}

LoadProbe::~LoadProbe() = default;

LoadCounters LoadProbe::read() {
    Impl& my = *impl_;
    const double now = my.clock.now().count();
    if (now - my.host_at_s >= kHostEvery) {
        my.host_at_s = now;
        my.find_threads();
        my.read_host();
        my.read_network();
    }
    my.read_cgroup();
    LoadCounters counters = my.host;
    counters.at_s = now;
    counters.host_at_s = my.host_at_s;
    counters.cpu_s = process_cpu_seconds();
    my.read_threads(counters);
    return counters;
}

}  // namespace cohort
