#include "core/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

#include "core/log_name.hpp"

namespace cohort {
namespace {

/// True while a live line is on the terminal. Standard error is one per process, and so is this.
std::atomic<bool> live_line_shown{false};

void end_live_line(const char* how) {
    if (live_line_shown.exchange(false)) {
        std::fputs(how, stderr);
    }
}

struct LogState {
    std::mutex mutex;
    std::string name;  ///< see set_log_name
};
LogState& log_state() {
    static LogState state;
    return state;
}

/// Columns of the terminal behind standard error; 80 when they are not known.
std::size_t terminal_columns() {
    constexpr std::size_t kUsual = 80;
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

std::shared_ptr<spdlog::logger> make_logger() {
    auto logger = std::make_shared<spdlog::logger>(
        "cohort", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    logger->set_pattern("%H:%M:%S.%e %^%-5l%$ %v");
    return logger;
}

}  // namespace

void log_message(LogLevel level, std::string_view message) {
    constexpr std::array kLevels{spdlog::level::info, spdlog::level::warn, spdlog::level::err};
    static const std::shared_ptr<spdlog::logger> logger = make_logger();
    LogState& state = log_state();
    const std::scoped_lock lock(state.mutex);
    end_live_line("\r\033[K");
    logger->log(kLevels.at(static_cast<std::size_t>(level)), "{}{}", state.name, message);
    logger->flush();
}

void set_log_name(std::string name) {
    LogState& state = log_state();
    const std::scoped_lock lock(state.mutex);
    state.name = std::move(name);
}

void draw_live_line(const std::string& line) {
    // A wrapped line could not be drawn over: cut the text at the terminal's width.
    const std::string shown = line.substr(0, terminal_columns() - 1);
    live_line_shown = true;
    std::fputs(("\r" + shown + "\033[K").c_str(), stderr);
    std::fflush(stderr);
}

LiveLineGuard::~LiveLineGuard() {
    end_live_line("\n");
}

}  // namespace cohort
