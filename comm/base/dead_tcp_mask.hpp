#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

/// Connections of this process to other hosts, as masked threads have seen them, by the host's
/// numeric address, as "10.0.0.2". One has ended when that host's kernel has closed it, which it
/// does at the end of the process; a link that is down closes nothing. Empty in a program without
/// cohort_dead_tcp_mask. Thread safe.
class TcpConnections {
public:
    /// The descriptor is a connection to this host; "": to none.
    void seen(int descriptor, const std::string& host) {
        const std::lock_guard lock(mutex_);
        if (host.empty()) {
            hosts_.erase(descriptor);
        } else {
            hosts_[descriptor] = host;
        }
    }
    void ended(int descriptor) { seen(descriptor, ""); }
    /// A connection to one of these addresses was seen and has not ended.
    [[nodiscard]] bool some_live(const std::vector<std::string>& addresses) const {
        const std::lock_guard lock(mutex_);
        return std::ranges::any_of(hosts_, [&](const auto& one) {
            return std::ranges::find(addresses, one.second) != addresses.end();
        });
    }

private:
    mutable std::mutex mutex_;
    std::map<int, std::string> hosts_;  ///< by descriptor
};

/// Of this process.
inline TcpConnections& tcp_connections() {
    static TcpConnections connections;
    return connections;
}

/// Whether this thread does not see connections break: see dead_tcp_mask.cpp.
inline thread_local bool dead_tcp_masked = false;

/// While an object of this class lives, broken TCP connections fall silent for its thread, in a
/// program that is linked with cohort_dead_tcp_mask. For threads that call MPI.
class DeadTcpMask {
public:
    DeadTcpMask() noexcept : before_(std::exchange(dead_tcp_masked, true)) {}
    DeadTcpMask(const DeadTcpMask&) = delete;
    DeadTcpMask& operator=(const DeadTcpMask&) = delete;
    ~DeadTcpMask() { dead_tcp_masked = before_; }

private:
    bool before_;
};

}  // namespace cohort
