#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "cohort/comm/operations.hpp"

namespace cohort {

/// What the coordinator waits for: a named wait with the ranks that are missing, if anything.
class RunWait {
public:
    /// @param board  outlives it
    explicit RunWait(OperationBoard& board) : board_(board) {}

    /// Waits from now on for the ranks that set_awaited() names.
    void begin(std::string_view name, std::uint64_t sequence, WaitLimit limit = WaitLimit::kFatal);
    void set_awaited(std::vector<int> ranks);
    /// Somebody is still working on it.
    void renew();
    void end() { wait_.reset(); }
    /// Waits for the update after `version` as long as it is awaited from somebody.
    void watch_update(std::vector<int> awaited, std::int64_t version);

private:
    OperationBoard& board_;
    std::mutex mutex_;  ///< of awaited_, which other threads read
    std::vector<int> awaited_;
    std::optional<OperationBoard::Wait> wait_;
    std::int64_t version_ = -1;  ///< of watch_update()
};

}  // namespace cohort
