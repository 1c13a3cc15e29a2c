#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cohort/comm/world.hpp"
#include "cohort/train/trainer.hpp"
#include "python/module/final_values.hpp"
#include "python/module/step_exchange.hpp"

namespace cohort {

/// The network of a job, as the program describes it.
struct NetworkFacts {
    std::string name;                     ///< identifies it in checkpoints
    std::vector<NamedTensor> parameters;  ///< values: those of rank 0 count
    std::vector<NamedTensor> state;       ///< the same
    std::string fixed;                    ///< checksum of what does not travel
    std::int64_t train_samples = 0;
    std::int64_t test_samples = 0;  ///< 0: the program evaluates nothing
};

/// This rank's part of a training job whose steps a program computes. The job's own threads do the
/// rest: the thread of the role runs Trainer::run(), and hands steps over by the exchange.
class ProgramJob {
public:
    /// Starts MPI where a launcher started ranks. Collective. @param arguments  of `cohort train`
    /// Errors: CLI::ParseError, UsageError, PeerError.
    explicit ProgramJob(const std::vector<std::string>& arguments);
    ProgramJob(const ProgramJob&) = delete;
    ProgramJob& operator=(const ProgramJob&) = delete;
    /// Only where may_be_destroyed().
    ~ProgramJob() = default;

    [[nodiscard]] const World& world() const noexcept { return *world_; }
    [[nodiscard]] const TrainOptions& options() const noexcept { return options_; }
    /// With which the program is to compute: --threads, else its share of the cores.
    [[nodiscard]] int threads() const;
    [[nodiscard]] StepExchange& exchange() noexcept { return exchange_; }

    /// Begins to train. Collective. @param arguments  more options, of the optimizer
    /// Errors: as Trainer; UsageError when the ranks have different networks; CLI::ParseError.
    void start(NetworkFacts network, const std::vector<std::string>& arguments);
    /// Asks the job to end with a checkpoint. From any thread.
    void request_stop() noexcept { stop_ = true; }
    /// Waits until the training is over, and ends the ranks' world. Collective. Errors: those of
    /// Trainer::run on rank 0, then one without a text elsewhere.
    /// @return the summary as JSON, on rank 0; else empty
    [[nodiscard]] std::string finish();
    /// After finish(), on every rank: what model.h5 holds; null where nothing was trained.
    [[nodiscard]] const FinalValues& final_values() const noexcept { return final_.values(); }
    /// Once it has started.
    [[nodiscard]] const Graph& graph() const noexcept { return network_.graph; }
    /// Whether no thread of the job runs; in the process that made it.
    [[nodiscard]] bool may_be_destroyed() const noexcept { return !thread_.joinable(); }
    /// Ends the processes of all ranks because of this one.
    [[noreturn]] void abort(const std::string& reason);
    /// Whether a request to stop ended the job, on rank 0.
    [[nodiscard]] bool stopped() const noexcept {
        return outcome_.summary && outcome_.summary->reason == StopReason::kSignal;
    }

private:
    /// Of Trainer::run.
    struct Outcome {
        std::optional<TrainSummary> summary;
        std::exception_ptr failure;
    };

    void prepare(NetworkFacts network, const std::vector<std::string>& arguments);
    void parse(const std::vector<std::string>& arguments);
    [[nodiscard]] std::vector<float> values_of_rank_0(const NetworkFacts& network) const;
    void check_same_network(const NetworkFacts& network);
    void end_training();
    [[nodiscard]] FinalValues saved_values() const;

    std::vector<std::string> arguments_;
    TrainOptions options_;
    int threads_ = 0;
    std::unique_ptr<World> world_;
    StepExchange exchange_;
    OwnNetwork network_;
    std::atomic<int> models_{0};  ///< made so far
    std::unique_ptr<Trainer> trainer_;
    std::atomic<bool> stop_{false};
    Outcome outcome_;
    FinalValuesExchange final_;
    std::thread thread_;
};

}  // namespace cohort
