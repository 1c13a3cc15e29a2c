#pragma once

#include <string>

namespace cohort {

/// Draws a line on standard error, a terminal, over the last one, while a LiveLineGuard lives.
void draw_live_line(const std::string& line);

/// Keeps log lines and the live line apart while it lives.
class LiveLineGuard {
public:
    /// @param on false: there is no live line and nothing to do
    explicit LiveLineGuard(bool on);
    LiveLineGuard(const LiveLineGuard&) = delete;
    LiveLineGuard& operator=(const LiveLineGuard&) = delete;
    ~LiveLineGuard();

private:
    bool on_;
};

}  // namespace cohort
