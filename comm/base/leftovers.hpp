#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>

namespace cohort {

/// Removes what Open MPI's jobs that were killed together with mpirun left on this host:
/// memory shared by ranks in /dev/shm, and folders of mpirun and its daemons among temporary files.
/// Returns how many. What cannot be removed stays without a word.
std::size_t remove_leftovers() noexcept;

/// Removes files of this user, named as Open MPI names memory shared by ranks, that nobody has open
/// or mapped (in no container: the kernel is asked, not the list of processes) and that are at
/// least this old. Does nothing in a folder that is not in memory. Returns how many.
std::size_t remove_unused_segments(const std::filesystem::path& folder, std::chrono::seconds age);

/// Removes folders of mpirun and its daemons, of this user and at least this old, when nobody uses
/// a file in them: those below ompi.HOST.USER (Open MPI 4), prterun.HOST.PROCESS.USER and
/// prted.HOST.PROCESS.USER (5). Returns how many.
std::size_t remove_unused_sessions(const std::filesystem::path& folder, std::chrono::seconds age);

}  // namespace cohort
