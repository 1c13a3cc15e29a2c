#pragma once

#include <string>

namespace cohort {

/// Draws a line on standard error, a terminal, over the previous live line, while a LiveLineGuard
/// lives.
void draw_live_line(const std::string& line);

/// Keeps log lines and the live line apart while it lives.
class LiveLineGuard {
public:
    /// @param on  false: there is no live line, and the guard does nothing
    explicit LiveLineGuard(bool on);
    LiveLineGuard(const LiveLineGuard&) = delete;
    LiveLineGuard& operator=(const LiveLineGuard&) = delete;
    ~LiveLineGuard();

private:
    bool on_;
};

}  // namespace cohort
