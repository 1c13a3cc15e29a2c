#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "cohort/core/require.hpp"
#include "cohort/sched/job_limits.hpp"
#include "core/log.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"
#include "train/run/control.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

class CtlCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        app.add_option("request", words_,
                       "mode MODE: goes on in that mode; status: mode, progress and workers; "
                       "servers: where the parameters are; servers 1:3: divides them so among "
                       "servers; servers capacity: as measured; stop: ends the run after a "
                       "checkpoint")
            ->type_name("WORDS");
        app.add_option("--out", out_, "The --out folder of the running job; required")
            ->type_name("DIR");
        app.add_flag("--json", json_, "status: one JSON object in a line");
        value(app, "--watch", watch_s_,
              "status: again after so many seconds, until the job has ended; 0: once",
              kSecondsLimits)
            ->type_name("SECONDS");
        value(app, "--timeout-s", timeout_s_, "Seconds to wait for the job's answer",
              kSecondsLimits);
    }

    ExitCode run(const CommandContext& /*context*/) override {
        require(!out_.empty(), "--out", "the --out folder of a running job", "nothing");
        const std::string words = CLI::detail::join(words_, " ");
        const bool status = words == "status";
        require(status || !json_, "--json", "the request status", "'" + words + "'");
        require(status || watch_s_ == 0, "--watch", "the request status", "'" + words + "'");
        const std::string request = json_ ? "status json" : words;
        const ExitCode code = ask(request);
        return code == ExitCode::kDone && watch_s_ > 0 ? watch(request) : code;
    }

private:
    [[nodiscard]] ExitCode ask(const std::string& request) const {
        const ControlReply reply = ask_job(out_, request, Clock::Seconds(timeout_s_));
        if (!reply.accepted) {
            log_error("refused: {}", reply.text);
            return ExitCode::kUsage;
        }
        std::fputs(reply.text.c_str(), stdout);
        std::fflush(stdout);
        return ExitCode::kDone;
    }

    /// Until the job has ended, which is no error here, or nobody reads any more.
    [[nodiscard]] ExitCode watch(const std::string& request) const {
        const std::string folder = RunFolder(out_).control;
        while (std::ferror(stdout) == 0) {
            std::this_thread::sleep_for(Clock::Seconds(watch_s_));
            try {
                if (!json_) {
                    std::puts("");
                }
                if (const ExitCode code = ask(request); code != ExitCode::kDone) {
                    return code;
                }
            } catch (const Error&) {
                if (std::filesystem::exists(folder + "/run")) {
                    throw;  // it still runs, and does not answer
                }
                log_info("the job in {} has ended", out_);
                return ExitCode::kDone;
            }
        }
        return ExitCode::kDone;
    }

    std::vector<std::string> words_;
    std::string out_;
    double timeout_s_ = 20;
    double watch_s_ = 0;
    bool json_ = false;
};

}  // namespace

void add_ctl_command(const CommandGroup& all) {
    all.add<CtlCommand>("ctl", "Change the mode of a running job, ask how it stands, or stop it");
}

}  // namespace cohort
