#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cohort/data/hdf5_thread.hpp"
#include "train/run/job_parts.hpp"

namespace cohort {

/// What a run writes at least, bytes.
struct RunBytes {
    std::uint64_t model = 0;
    std::uint64_t checkpoint = 0;  ///< one, with all its shards
    std::uint64_t checkpoints =
        0;  ///< how many there are at a time: those kept, and one in writing
    [[nodiscard]] std::uint64_t all() const noexcept;
};
[[nodiscard]] RunBytes run_bytes(const JobParts& parts);

/// Compares that with the free space of the output folder's file system; results that are there
/// count as far as they will be replaced. What cannot be asked about passes, and a user's quota is
/// not seen. Errors: DiskFullError with figures.
void check_free_space(const TrainOptions& options, const RunBytes& bytes);

/// Calls `write`; as long as it meets a full disk, deletes the oldest checkpoint and calls it
/// again. Deletes nothing when all of them together would not make room for `bytes`.
/// @param newest_too  of a run that is over: the result is worth more than where it could go on
/// Returns whether the newest checkpoint is still there. Errors: those of `write`.
bool write_with_room(const std::string& checkpoints, std::uint64_t bytes, bool newest_too,
                     const std::function<void()>& write);

}  // namespace cohort
