#include "comm/base/node_processes.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <cerrno>

namespace cohort {

NodeProcesses::NodeProcesses(const RankMap& map, const std::vector<int>& ranks)
    : map_(map), ranks_(ranks) {
    for (const int rank : ranks_) {
        const auto pid = static_cast<pid_t>(map_.ranks[static_cast<std::size_t>(rank)].pid);
        descriptors_.emplace_back(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
    }
}

std::size_t NodeProcesses::index_of(int rank) const noexcept {
    return static_cast<std::size_t>(std::ranges::find(ranks_, rank) - ranks_.begin());
}

bool NodeProcesses::ended(int rank) const {
    if (!knows(rank)) {
        return false;
    }
    if (const FileDescriptor& process = descriptors_[index_of(rank)]; process.valid()) {
        pollfd look{.fd = process.get(), .events = POLLIN, .revents = 0};
        return ::poll(&look, 1, 0) > 0;  // readable from the end of the process on
    }
    const auto pid = static_cast<pid_t>(map_.ranks[static_cast<std::size_t>(rank)].pid);
    return ::kill(pid, 0) != 0 && errno == ESRCH;
}

bool NodeProcesses::kill(int rank) const {
    if (!knows(rank) || !descriptors_[index_of(rank)].valid()) {
        return false;
    }
    const int process = descriptors_[index_of(rank)].get();
    return ::syscall(SYS_pidfd_send_signal, process, SIGKILL, nullptr, 0U) == 0 || errno == ESRCH;
}

}  // namespace cohort
