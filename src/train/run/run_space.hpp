#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cohort/data/hdf5_thread.hpp"
#include "train/run/job_parts.hpp"

namespace cohort {

/// Least number of bytes that a run writes.
struct RunBytes {
    std::uint64_t model = 0;
    std::uint64_t checkpoint = 0;  ///< one checkpoint with all its shards
    std::uint64_t checkpoints =
        0;  ///< number of checkpoints at a time: those kept, and one being written
    [[nodiscard]] std::uint64_t all() const noexcept;
};
[[nodiscard]] RunBytes run_bytes(const JobParts& parts);

/// Compares these bytes with the free space of the output folder's file system; existing results
/// count as free if they will be replaced. Passes when the free space is not known; a user's quota
/// is not checked. Errors: DiskFullError with figures.
void check_free_space(const TrainOptions& options, const RunBytes& bytes);

/// Calls `write`; as long as the disk is full, deletes the oldest checkpoint and calls `write`
/// again. Deletes nothing when all checkpoints together would not free `bytes`. @param newest_too
/// deletes the newest checkpoint too: for a finished run, whose result is worth more Returns
/// whether the newest checkpoint still exists. Errors: those of `write`.
bool write_with_room(const std::string& checkpoints, std::uint64_t bytes, bool newest_too,
                     const std::function<void()>& write);

}  // namespace cohort
