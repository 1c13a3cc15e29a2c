#include "cohort/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "cohort/core/error.hpp"
#include "cohort/networks/network.hpp"
#include "core/log.hpp"
#include "data/file/file_io.hpp"
#include "train/coordinator/coordinator.hpp"
#include "train/coordinator/servers/node_cards.hpp"
#include "train/faults/rank_faults.hpp"
#include "train/mirror/mirror_keeper.hpp"
#include "train/run/job_context.hpp"
#include "train/run/run_folder.hpp"
#include "train/server/server_loop.hpp"
#include "train/worker/worker_loop.hpp"

namespace cohort {
namespace {

/// Cores of this rank: those that it shares with other workers are divided among them.
int share_of_cores(const World& world, int cores) {
    const RankInfo& self = world.map().ranks[static_cast<std::size_t>(world.rank())];
    const auto sharing = std::ranges::count_if(world.map().ranks, [&](const RankInfo& other) {
        return other.role == Role::kWorker && other.node == self.node && other.cores == self.cores;
    });
    return std::max(1, cores / std::max(1, static_cast<int>(sharing)));
}

TrainEnvironment on_this_rank(TrainEnvironment environment, const World& world) {
    environment.cores = share_of_cores(world, environment.cores);
    return environment;
}

/// Small enough that most of the gradient is sent before backward ends, large enough that messages
/// are few.
std::int64_t bucket_bytes(const TrainOptions& options, const Graph& graph) {
    constexpr std::int64_t kBuckets = 8;
    constexpr std::int64_t kLeast = 64 << 10;
    constexpr std::int64_t kMost = 4 << 20;
    const auto gradient = graph.parameters().total() * static_cast<std::int64_t>(sizeof(float));
    return options.bucket_bytes > 0 ? options.bucket_bytes
                                    : std::clamp(gradient / kBuckets, kLeast, kMost);
}

AllReduceOptions ring_options(const TrainOptions& options, const Graph& graph) {
    AllReduceOptions ring{.algorithm = parse_all_reduce(options.all_reduce),
                          .bucket_bytes = bucket_bytes(options, graph),
                          .wire = options.wire};
    if (options.wire == Wire::kF32 && options.deterministic &&
        ring.algorithm == AllReduceAlgorithm::kAuto) {
        ring.algorithm = AllReduceAlgorithm::kOrdered;  // otherwise a measurement would choose
    }
    return ring;
}

void check_sums(const TrainOptions& options, const Device& device) {
    if (parse_all_reduce(options.all_reduce) == AllReduceAlgorithm::kNccl &&
        device.kind() == DeviceKind::kCpu) {
        fail<DeviceError>({.where = "--all-reduce nccl",
                           .what = "this worker has no GPU: " + usable_gpus().detail,
                           .expected = "a GPU of its own for every worker",
                           .hint = "--all-reduce auto"});
    }
}

/// Tells a network with the values that it starts from, where they are given, from others.
std::string network_identity(const Graph& graph) {
    const std::string text = network_text(graph);
    std::uint32_t crc = crc32_of(std::as_bytes(std::span(text)));
    if (const auto* values = start_values(graph)) {
        for (const auto& [name, numbers] : *values) {
            crc = crc32_of(std::as_bytes(std::span(numbers)),
                           crc32_of(std::as_bytes(std::span(name)), crc));
        }
    }
    return fmt::format("network and initial weights {:08x}", crc);
}

/// Collective: FileError on rank 0, an Error without text elsewhere, when a rank has found other
/// data under the name, or builds another network or starts it from other weights.
void check_same_start(World& world, const JobContext& parts) {
    const std::string own = set_identity(parts.train_set->info()) + "; test " +
                            set_identity(parts.test_set->info()) + "; " +
                            network_identity(parts.graph);
    std::string all = own;
    static_cast<void>(world.agree(ExitCode::kDone, all));
    const bool same = world.rank() != 0 || all == own;
    std::string message =
        same ? ""
             : error_message({.where = parts.options.data,
                              .what = "the ranks find different data, networks or initial weights",
                              .expected = "the same files",
                              .got = "\n" + all,
                              .hint = "the same files on all hosts"});
    const ExitCode code = world.agree(same ? ExitCode::kDone : ExitCode::kInput, message);
    if (code != ExitCode::kDone) {
        throw Error(code, world.rank() == 0 ? message : "");
    }
}

}  // namespace

/// This rank's part of a run: its role, and on rank 0 the coordinator beside it.
class Trainer::Run {
public:
    /// Errors: those of Trainer::Trainer.
    Run(const TrainOptions& options, const TrainEnvironment& environment, World& world)
        : world_(world),
          environment_(on_this_rank(environment, world)),
          comm_{world.messenger(), world.operations(), world.map(), &world.membership(),
                world.size() > 1 && options.max_lost != 0 ? environment.mirrors : nullptr},
          parts_(options, world.map().workers(), environment_.samples, environment_.network) {
        if (world.rank() == 0) {
            for (const std::string& news : parts_.model_news) {
                log_info("{}", news);
            }
        }
        if (comm_.mirrors != nullptr) {
            mirrors_.emplace(comm_, *comm_.mirrors);
        }
        (void)NodeCards(world.map(), options.push_tree, 0);  // the hosts can form the groups
        if (world.role() == Role::kServer) {
            server_.emplace(comm_, parts_, world.rank());
        } else {
            worker_.emplace(comm_, parts_, environment_, world.map().worker_of_rank(world.rank()),
                            all_reduce_factory(world, ring_options(parts_.options, parts_.graph)));
            check_sums(parts_.options, worker_->device());
        }
        if (world.rank() == 0) {
            coordinator_.emplace(comm_, parts_, environment_, device());
        }
    }

    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    ~Run() { forget_world(); }
    void forget_world() {
        world_.on_failure({});
        if (!over_) {
            world_.survive({});
        }
    }
    /// The run has ended on this rank. Until all ranks agree that the job is over, one of them may
    /// be lost, and this rank goes on with the others.
    void finish() {
        over_ = true;
        if (comm_.mirrors != nullptr) {
            world_.survive([] { return true; });
        }
    }

    [[nodiscard]] const JobContext& parts() const noexcept { return parts_; }
    [[nodiscard]] std::string device() const {
        return worker_ ? worker_->device().description()
                       : server_->device() + ", applies updates (parameter server)";
    }

    TrainSummary run() {
        const FaultThread faults(
            rank_faults(parse_injections(parts_.options.inject),
                        world_.map().first_rank(world_.rank())),
            [this] { return begun(); }, [this](double pace) { world_.messenger().set_pace(pace); });
        world_.on_failure([this](ExitCode code, const std::string& reason, bool speaks) {
            if (speaks && has_folder()) {
                if (coordinator_) {
                    coordinator_->folder().record_failure(code, reason);
                }
                write_exit_code(parts_.options.out, code, reason);
            }
        });
        if (comm_.mirrors != nullptr) {
            world_.survive([this] { return has_folder() && begun(); });
        }
        if (coordinator_) {
            return coordinate();
        }
        run_role();
        return {};
    }

private:
    TrainSummary coordinate() {
        TrainSummary summary;
        std::exception_ptr failure;
        std::thread coordinator([&] {
            try {
                summary = coordinator_->run();
            } catch (...) {
                failure = std::current_exception();
            }
        });
        try {
            run_role();
        } catch (const WorldLost&) {
            coordinator.join();
            throw;
        } catch (...) {
            coordinator_->cancel(std::current_exception());
            coordinator.join();
            end_job(std::current_exception());
        }
        coordinator.join();
        if (failure) {
            std::rethrow_exception(failure);
        }
        return summary;
    }

    /// The output folder is locked by this run: rank 0 locks it before it sends kBegin to any rank.
    [[nodiscard]] bool has_folder() const {
        return coordinator_ ? coordinator_->folder().owned() : begun();
    }

    /// This rank's role has been told to begin.
    [[nodiscard]] bool begun() const { return worker_ ? worker_->begun() : server_->begun(); }

    void run_role() {
        if (coordinator_) {
            work();
            return;
        }
        try {
            work();
        } catch (const WorldLost&) {
            throw;
        } catch (const DeviceError& error) {
            leave_alone(error.what());
            end_job(std::current_exception());
        } catch (...) {
            end_job(std::current_exception());
        }
    }

    /// Leaves the job like a dead worker after a failure of the device, if the job may lose
    /// workers. Returns otherwise.
    void leave_alone(const char* reason) const {
        if (worker_ && comm_.membership != nullptr && begun() && parts_.options.max_lost != 0) {
            log_error("rank {}: {}; it leaves the job", world_.rank(), reason);
            std::fflush(nullptr);
            std::_Exit(static_cast<int>(ExitCode::kDevice));
        }
    }

    void work() {
        if (server_) {
            server_->run();
        } else {
            worker_->run();
        }
    }

    /// A failed role cannot send its final report, for which the others would wait: ends the whole
    /// job.
    [[noreturn]] void end_job(const std::exception_ptr& failure) {
        if (world_.lost()) {  // it failed because others have gone
            throw WorldLost("the world of this rank has ended");
        }
        if (world_.size() > 1) {
            world_.abort(failure);
        }
        std::rethrow_exception(failure);
    }

    World& world_;
    TrainEnvironment environment_;
    CommContext comm_;
    JobContext parts_;
    std::optional<MirrorKeeper> mirrors_;
    std::optional<ServerLoop> server_;
    std::optional<WorkerLoop> worker_;
    std::optional<Coordinator> coordinator_;
    bool over_ = false;  ///< the run has ended well
};

ExitCode exit_code(const TrainSummary& summary) noexcept {
    if (!summary.outputs_saved) {
        return ExitCode::kInput;
    }
    return summary.reason == StopReason::kSignal ? ExitCode::kRequeue : ExitCode::kDone;
}

Trainer::Trainer(const TrainOptions& options, const TrainEnvironment& environment) {
    if (environment.world == nullptr) {
        own_world_ = std::make_unique<World>(WorldOptions{.alone = true, .device = options.device});
    }
    World& world = own_world_ ? *own_world_ : *environment.world;
    ExitCode code = ExitCode::kDone;
    std::string message;
    try {
        const TrainOptions all = options.modes.empty() ? checked(options, world.size()) : options;
        if (world.rank() == 0) {
            check_run_folder(all);
        }
        run_ = std::make_unique<Run>(all, environment, world);
    } catch (const Error& error) {
        if (world.size() == 1) {
            throw;
        }
        code = error.exit_code();
        message = error.what();
    } catch (const std::bad_alloc&) {
        if (world.size() == 1) {
            throw;
        }
        code = ExitCode::kDevice;
        message = "out of memory";
    }
    if (const ExitCode agreed = world.agree(code, message); agreed != ExitCode::kDone) {
        throw Error(agreed, world.rank() == 0 ? message : "");
    }
    if (world.size() > 1) {
        check_same_start(world, run_->parts());
    }
}

Trainer::~Trainer() = default;

const Graph& Trainer::graph() const noexcept {
    return run_->parts().graph;
}

std::string Trainer::device() const {
    return run_->device();
}

const SampleSetInfo& Trainer::train_info() const noexcept {
    return run_->parts().train_set->info();
}

const SampleSetInfo& Trainer::test_info() const noexcept {
    return run_->parts().test_set->info();
}

std::int64_t Trainer::budget_samples() const noexcept {
    return run_->parts().budget_samples;
}

TrainSummary Trainer::run() {
    try {
        TrainSummary summary = run_->run();
        run_->finish();
        return summary;
    } catch (const WorldLost&) {
        if (run_->parts().options.arch == Architecture::kRing) {
            // MPI may still read and write what a broken ring was summing.
            run_->forget_world();
            static_cast<void>(run_.release());
        }
        throw;
    }
}

}  // namespace cohort
