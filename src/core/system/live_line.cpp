#include "core/system/live_line.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "core/log.hpp"

namespace cohort {
namespace {

/// True while a live line is on the terminal. Standard error is one per process, and so is this.
std::atomic<bool> live_line_shown{false};

void wipe_live_line() {
    if (live_line_shown.exchange(false)) {
        std::fputs("\r\033[K", stderr);
    }
}

/// Columns of the terminal behind standard error; 80 when they are not known.
std::size_t terminal_columns() {
    constexpr std::size_t kUsual = 80;
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

}  // namespace

void draw_live_line(const std::string& line) {
    // A wrapped line could not be drawn over: cut the text at the terminal's width.
    const std::string shown = line.substr(0, terminal_columns() - 1);
    live_line_shown = true;
    std::fputs(("\r" + shown + "\033[K").c_str(), stderr);
    std::fflush(stderr);
}

LiveLineGuard::LiveLineGuard(bool on) : on_(on) {
    if (on_) {
        set_log_before_line(wipe_live_line);
    }
}

LiveLineGuard::~LiveLineGuard() {
    if (on_) {
        set_log_before_line(nullptr);
        if (live_line_shown.exchange(false)) {
            std::fputc('\n', stderr);
        }
    }
}

}  // namespace cohort
