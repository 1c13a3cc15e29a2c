#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cohort/core/clock.hpp"
#include "train/checkpoint/snapshot.hpp"
#include "train/protocol/protocol.hpp"

namespace cohort {

/// A checkpoint under way, in files or in memory: owners of shards report theirs one by one.
struct CheckpointAttempt {
    CheckpointAttempt(std::string name, int shards)
        : path(std::move(name)), parts(static_cast<std::size_t>(shards)) {}

    void saved(const SavedPart& part) {
        const auto index = static_cast<std::size_t>(part.part);
        if (part.checkpoint == path && index < parts.size()) {
            parts[index] = part;
        }
    }
    /// Shards that have not been reported.
    [[nodiscard]] std::vector<int> missing() const {
        std::vector<int> some;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            if (!parts[i]) {
                some.push_back(static_cast<int>(i));
            }
        }
        return some;
    }

    std::string path;
    std::vector<std::optional<SavedPart>> parts;
    std::optional<RunSnapshot> snapshot;  ///< once the update that it is taken of is made
    Clock::Seconds captured_at{0};
};

}  // namespace cohort
