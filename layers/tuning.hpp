#pragma once

#include <map>
#include <string>

#include "cohort/layers/kernel.hpp"

namespace cohort {

/// Remembers which of several implementations was faster, by a text key of the problem: one line
/// that says everything the choice depends on, the processor or GPU and the library's version too.
class TuningCache {
public:
    TuningCache() = default;
    /// @param file  see make_tuning_cache
    explicit TuningCache(std::string file);

    /// The remembered choice: the name of an implementation, without spaces; empty when there is
    /// none.
    [[nodiscard]] std::string find_name(const std::string& key) const {
        const auto found = choices_.find(key);
        return found == choices_.end() ? "" : found->second;
    }
    /// Remembers the choice and adds it to the file: one write at its end, so that ranks may share
    /// the file; of several lines with one key the last counts.
    void remember_name(const std::string& key, const std::string& name);

    /// The same by a number; -1 when there is none.
    [[nodiscard]] int find(const std::string& key) const;
    void remember(const std::string& key, int choice) {
        remember_name(key, std::to_string(choice));
    }

private:
    std::map<std::string, std::string> choices_;
    std::string file_;
};

}  // namespace cohort
