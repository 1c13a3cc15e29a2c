#pragma once

#include <utility>

namespace cohort {

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
