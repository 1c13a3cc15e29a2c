#include <cstdio>

#include "cohort/core/require.hpp"
#include "cohort/sched/job_limits.hpp"
#include "core/log.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"
#include "train/run/control.hpp"

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
        value(app, "--timeout-s", timeout_s_, "Seconds to wait for the job's answer",
              kSecondsLimits);
    }

    ExitCode run(const CommandContext& /*context*/) override {
        require(!out_.empty(), "--out", "the --out folder of a running job", "nothing");
        const ControlReply reply =
            ask_job(out_, CLI::detail::join(words_, " "), Clock::Seconds(timeout_s_));
        if (!reply.accepted) {
            log_error("refused: {}", reply.text);
            return ExitCode::kUsage;
        }
        std::fputs(reply.text.c_str(), stdout);
        return ExitCode::kDone;
    }

private:
    std::vector<std::string> words_;
    std::string out_;
    double timeout_s_ = 20;
};

}  // namespace

void add_ctl_command(const CommandGroup& all) {
    all.add<CtlCommand>("ctl", "Change the mode of a running job, ask how it stands, or stop it");
}

}  // namespace cohort
