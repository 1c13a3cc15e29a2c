#include "train/worker/worker_loop.hpp"

#include <fmt/format.h>

#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {

WorkerLoop::WorkerLoop(CommContext comm, JobContext& job, const TrainEnvironment& environment,
                       int worker, AllReduceFactory rounds)
    : context_(comm, job, environment, worker),
      executor_(comm.map.servers > 0 ? make_servers_executor(context_, std::move(rounds))
                                     : make_ring_executor(context_, std::move(rounds))) {
    context_.set_orders([this](const Message& message) { executor_->order(message); });
}

void WorkerLoop::run() {
    const auto said = [this](const Error& error) {
        return fmt::format("{} (worker {}, parameters of version {})", error.what(),
                           context_.worker(), executor_->version());
    };
    try {
        executor_->run();
    } catch (const WorldLost&) {
        throw;
    } catch (const DeviceError& error) {  // a job may go on without it
        throw DeviceError(said(error));
    } catch (const Error& error) {
        throw Error(error.exit_code(), said(error));
    }
    context_.send_final_report();
}

}  // namespace cohort
