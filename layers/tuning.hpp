#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "cohort/core/clock.hpp"
#include "cohort/layers/kernel.hpp"
#include "core/system/unforked_file.hpp"

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
    friend class MeasuringTurn;

    /// Takes over the whole lines of the file. @return those that are no choices
    std::size_t read_file();
    /// The same, where the file's size has changed since.
    void read_news();

    std::map<std::string, std::string> choices_;
    std::string file_;
    std::uintmax_t size_ = 0;   ///< bytes of the file when it was read
    bool cut_ = false;          ///< its last line had no end
    Clock::Seconds waited_{0};  ///< for other processes that measure, in all
};

/// The right to measure: of the processes that share the file of choices the one with its lock
/// (flock) has it. The other processes sleep until they find their choice in the file, or get the
/// lock. So the ranks of a host measure each choice once, and not beside each other. Two turns in
/// one process wait for each other too: turns must not be nested.
class MeasuringTurn {
public:
    /// Longer than first starts were seen to measure on CPUs, a quarter of the time after which a
    /// job warns that it waits for a rank (`--stall-limit-s`).
    static constexpr Clock::Seconds kPatience{15};

    /// Reads what other processes have added to the file; waits until the file has another choice
    /// of `key` than the cache had, or until this process gets the lock. All turns of a cache wait
    /// `patience` together: a process that is frozen or slow does not stop the others for longer.
    /// Turns without a file, or on a file system without locks, do not wait.
    MeasuringTurn(TuningCache& cache, const std::string& key, Clock::Seconds patience = kPatience);

    /// Whether other processes that want to measure wait for this one.
    [[nodiscard]] bool has_lock() const noexcept { return file_.valid(); }

private:
    UnforkedFile file_;
};

}  // namespace cohort
