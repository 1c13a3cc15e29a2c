#pragma once

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

namespace cohort {

enum class LogLevel { kInfo, kWarn, kError };

/// Process-wide log on standard error (standard output belongs to results). INFO is for rank 0,
/// WARN and above may come from any rank. Thread safe.
void log_message(LogLevel level, std::string_view message);

/// Called (under the log's lock) before each line is written, so that a live progress line can
/// be wiped first. Pass nullptr to remove it.
void set_log_before_line(std::function<void()> hook);

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
