#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cohort/core/clock.hpp"

namespace cohort {

/// Runs a program several times beside this one, nice'd, each in a process group of its own, so
/// that a terminal's Ctrl-C reaches this process only. They end with this process, however it
/// ends. One thread, which must be the one that lives as long as the program (the kernel ends
/// children with the thread that started them).
class ChildPool {
public:
    /// @param program  path, then words before the arguments of each start; "/proc/self/exe" is
    /// this program, even when its file was replaced
    explicit ChildPool(std::vector<std::string> program) : program_(std::move(program)) {}
    ChildPool(const ChildPool&) = delete;
    ChildPool& operator=(const ChildPool&) = delete;
    /// Ends running processes.
    ~ChildPool();

    /// @param tag  returned when the process ends
    /// @param log  file for the process's output, replaced
    /// Errors: FileError for the log, DeviceError when there can be no more processes.
    void start(std::size_t tag, const std::vector<std::string>& arguments, const std::string& log);
    [[nodiscard]] std::size_t running() const noexcept { return children_.size(); }

    struct Ended {
        std::size_t tag = 0;
        int code = 0;  ///< exit code; 128 and the signal's number
    };
    /// Waits until a process ends, no longer than `most`.
    [[nodiscard]] std::optional<Ended> wait(Clock::Seconds most);
    /// Ends all processes with TERM, after some seconds with KILL, and waits for them.
    void stop();

private:
    struct Child {
        pid_t process = 0;
        std::size_t tag = 0;
    };
    [[nodiscard]] std::optional<Ended> take_ended();

    std::vector<std::string> program_;
    std::vector<Child> children_;
};

}  // namespace cohort
