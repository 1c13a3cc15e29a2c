#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace cohort {

enum class LogLevel { kInfo, kWarn, kError };

/// Process-wide log on standard error (standard output belongs to results). INFO is for rank 0,
/// WARN and above may come from any rank. Thread safe.
void log_message(LogLevel level, std::string_view message);

/// Draws a line on standard error, a terminal, over the previous live line. The next line of the
/// log wipes it.
void draw_live_line(const std::string& line);

/// Ends the live line, if there is one, when it is destroyed.
class LiveLineGuard {
public:
    LiveLineGuard() = default;
    LiveLineGuard(const LiveLineGuard&) = delete;
    LiveLineGuard& operator=(const LiveLineGuard&) = delete;
    ~LiveLineGuard();
};

template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
    log_message(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
    log_message(LogLevel::kWarn, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
    log_message(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace cohort
