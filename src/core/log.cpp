#include "core/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>

namespace cohort {
namespace {

struct LogState {
    std::mutex mutex;
    std::function<void()> before_line;
    std::shared_ptr<spdlog::logger> logger;

    LogState() {
        logger = std::make_shared<spdlog::logger>(
            "cohort", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
        logger->set_pattern("%H:%M:%S.%e %^%-5l%$ %v");
    }
};

LogState& state() {
    static LogState instance;
    return instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
    switch (level) {
        case LogLevel::kInfo: return spdlog::level::info;
        case LogLevel::kWarn: return spdlog::level::warn;
        case LogLevel::kError: return spdlog::level::err;
    }
    return spdlog::level::info;
}

}  // namespace

void log_message(LogLevel level, std::string_view message) {
    LogState& log = state();
    const std::scoped_lock lock(log.mutex);
    if (log.before_line) {
        log.before_line();
    }
    log.logger->log(to_spdlog(level), "{}", message);
    log.logger->flush();
}

void set_log_before_line(std::function<void()> hook) {
    LogState& log = state();
    const std::scoped_lock lock(log.mutex);
    log.before_line = std::move(hook);
}

}  // namespace cohort
