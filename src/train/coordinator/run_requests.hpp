#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cohort/core/clock.hpp"
#include "sched/session/training_session.hpp"
#include "train/coordinator/control_server.hpp"
#include "train/coordinator/run_reporter.hpp"
#include "train/protocol/comm_context.hpp"

namespace cohort {

/// Carries out what people ask of a run (`cohort ctl`): its status, another mode, to stop.
class RunRequests {
public:
    /// All of them outlive it. @param stop  ends the run after a checkpoint
    /// @param servers  answers what is asked of servers
    RunRequests(const RankMap& map, TrainingSession& session, ModeConsultation& consultation,
                const RunReporter& reporter, std::function<void()> stop,
                std::function<std::string(const std::string& words)> servers);

    /// Requests are taken from now on. A folder that cannot be made is logged: then there are none.
    void open();
    /// Answers what has been asked, once in a while.
    void look(Clock::Seconds now) {
        if (server_) {
            server_->look(now);
        }
    }

private:
    /// @return the answer. Errors: UsageError.
    [[nodiscard]] std::string answer(const std::string& words);
    [[nodiscard]] std::string status() const;
    [[nodiscard]] std::string status_json() const;

    const RankMap& map_;
    TrainingSession& session_;
    ModeConsultation& consultation_;
    const RunReporter& reporter_;
    std::function<void()> stop_;
    std::function<std::string(const std::string& words)> servers_;
    std::optional<ControlServer> server_;
};

}  // namespace cohort
