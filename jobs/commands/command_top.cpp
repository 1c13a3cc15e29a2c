#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "cohort/core/output.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"
#include "train/live/run_follower.hpp"
#include "train/live/view_text.hpp"

namespace cohort {
namespace {

constexpr int kLookSeconds = 1;

/// The terminal while a view is drawn on it: the view has a screen of its own, and what was there
/// before comes back when this ends. Signals arrive in wait(), not in handlers.
class LiveScreen {
public:
    LiveScreen() {
        sigemptyset(&signals_);
        for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH}) {
            sigaddset(&signals_, number);
        }
        pthread_sigmask(SIG_BLOCK, &signals_, &before_);
        show();
    }
    LiveScreen(const LiveScreen&) = delete;
    LiveScreen& operator=(const LiveScreen&) = delete;
    ~LiveScreen() {
        hide();
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

    [[nodiscard]] static TextSize size() {
        winsize window{};
        const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0;
        return known ? TextSize{.columns = window.ws_col, .rows = window.ws_row}
                     : TextSize{.columns = 80, .rows = 24};
    }

    static void draw(const std::vector<std::string>& lines) {
        put(fmt::format("\033[H{}\033[K\033[J", fmt::join(lines, "\033[K\r\n")));
    }

    /// Waits until it is time for the next look, or the size has changed. @return false: the user
    /// wants the view to end
    [[nodiscard]] bool wait() const {
        const std::timespec limit{.tv_sec = kLookSeconds, .tv_nsec = 0};
        switch (sigtimedwait(&signals_, nullptr, &limit)) {
            case SIGINT:
            case SIGTERM:
            case SIGHUP: return false;
            case SIGTSTP:
                hide();
                std::raise(SIGSTOP);
                show();
                return true;
            default: return true;
        }
    }

private:
    static void put(const std::string& text) {
        std::fputs(text.c_str(), stdout);
        std::fflush(stdout);
    }
    /// Another screen, without a cursor; and back.
    static void show() { put("\033[?1049h\033[?25l"); }
    static void hide() { put("\033[?25h\033[?1049l"); }

    sigset_t signals_{};
    sigset_t before_{};
};

class TopCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        app.add_option("--out", out_, "The --out folder of a training job; required")
            ->type_name("DIR");
        app.add_flag("--once", once_,
                     "Print the view once; so it is, too, where the output is no terminal");
    }

    ExitCode run(const CommandContext& context) override {
        need(!out_.empty(), "--out", "which job?", "the --out folder of a training job");
        RunFollower follower(out_);
        const bool live = !once_ && context.env.stdout_is_terminal;
        if (live) {
            follow(follower, context.env.colours);
        }
        // After the live view, too: how the job stands stays on the terminal.
        const TextSize size{.columns = LiveScreen::size().columns};
        for (const std::string& line :
             view_text(follower.look(), size, live && context.env.colours)) {
            print_line("{}", line);
        }
        return ExitCode::kDone;
    }

private:
    /// Until the job ends or the user does.
    static void follow(RunFollower& follower, bool colours) {
        const LiveScreen screen;
        do {
            const RunView& view = follower.look();
            if (view.over) {
                return;
            }
            LiveScreen::draw(view_text(view, LiveScreen::size(), colours));
        } while (screen.wait());
    }

    std::string out_;
    bool once_ = false;
};

}  // namespace

void add_top_command(const CommandGroup& all) {
    all.add<TopCommand>("top", "Show how a training job stands, and its workers, as it goes on");
}

}  // namespace cohort
