#pragma once

#include <map>
#include <string>

#include "cohort/layers/kernel.hpp"

namespace cohort {

/// Remembers which of several implementations was faster, by a text key of the problem.
class TuningCache {
public:
    /// The remembered choice, or -1.
    [[nodiscard]] int find(const std::string& key) const {
        const auto found = choices_.find(key);
        return found == choices_.end() ? -1 : found->second;
    }
    void remember(const std::string& key, int choice) { choices_[key] = choice; }

private:
    std::map<std::string, int> choices_;
};

}  // namespace cohort
