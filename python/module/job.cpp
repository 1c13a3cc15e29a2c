#include "python/module/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "cohort/core/require.hpp"
#include "comm/allreduce/all_reduce.hpp"
#include "core/log.hpp"
#include "core/system/launch_env.hpp"
#include "core/units.hpp"
#include "data/hdf5/store.hpp"
#include "jobs/cli/job_options.hpp"
#include "train/run/option_list.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/run_records.hpp"

namespace cohort {
namespace {

/// Samples that the program has: the job knows their numbers alone.
class NumberedSamples final : public SampleSource {
public:
    explicit NumberedSamples(std::int64_t samples) {
        constexpr std::int64_t kChunk = 4096;
        info_.sample_shape = {1};
        info_.samples = samples;
        info_.chunk_samples = std::min(samples, kChunk);
        info_.classes = 1;
        info_.mean = {0};
        info_.std = {1};
        info_.source = "the program";
        info_.checked = true;
    }
    [[nodiscard]] const SampleSetInfo& info() const override { return info_; }
    [[nodiscard]] RawChunk read_chunk(std::int64_t index) override {
        const std::int64_t first = index * info_.chunk_samples;
        const std::int64_t count = std::min(info_.chunk_samples, info_.samples - first);
        return {.first_sample = first,
                .samples = count,
                .data = std::vector<std::byte>(static_cast<std::size_t>(count)),
                .labels = std::vector<std::int32_t>(static_cast<std::size_t>(count))};
    }

private:
    SampleSetInfo info_;
};

std::string text_of(const NetworkFacts& network) {
    std::string text =
        fmt::format("{}, {} train samples, {} test samples, checksum of frozen values {}",
                    network.name, network.train_samples, network.test_samples, network.fixed);
    for (const auto* tensors : {&network.parameters, &network.state}) {
        for (const NamedTensor& tensor : *tensors) {
            text += fmt::format("; {} {}", tensor.name, to_string(tensor.shape));
        }
    }
    return text;
}

}  // namespace

ProgramJob::ProgramJob(const std::vector<std::string>& arguments) : arguments_(arguments) {
    const LaunchEnv env = read_launch_env();
    check_one_world(env);
    parse({});
    options_ = checked(std::move(options_), env.world_size);
    world_ = std::make_unique<World>(WorldOptions{.servers = options_.servers,
                                                  .stall_limit_s = options_.stall_limit_s,
                                                  .lost_after_s = options_.lost_after_s,
                                                  .chunk_bytes = options_.chunk_bytes,
                                                  .device = options_.device,
                                                  .server_device = options_.server_device});
}

/// The command line of the constructor, then these.
void ProgramJob::parse(const std::vector<std::string>& arguments) {
    CLI::App app("", "join");
    options_ = TrainOptions();
    each_option(options_, DeclareOptions{app});
    std::vector<std::string> all = arguments_;
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::ranges::reverse(all);
    app.parse(std::move(all));
    require(options_.data.empty(), "--data", "none: the program has the samples", options_.data);
    require(options_.device == "auto" || options_.device == "cpu", "--device",
            "cpu, where the program's tensors are", options_.device);
    options_.device = "cpu";
    options_.data = "the program's samples";
    threads_ = std::exchange(options_.threads, 1);  // the program computes
}

void ProgramJob::check_same_network(const NetworkFacts& network) {
    const std::string own = text_of(network);
    std::string all = own;
    static_cast<void>(world_->agree(ExitCode::kDone, all));
    const bool same = world_->rank() != 0 || all == own;
    std::string message =
        same ? ""
             : error_message({.where = network.name,
                              .what = "the ranks train different networks",
                              .expected = "the same one, on the same samples",
                              .got = "\n" + all,
                              .hint = "the same program on all ranks, frozen values from the "
                                      "same seed or file"});
    if (const ExitCode code = world_->agree(same ? ExitCode::kDone : ExitCode::kUsage, message);
        code != ExitCode::kDone) {
        throw Error(code, world_->rank() == 0 ? message : "");
    }
}

/// Parameters, then state; a sum to which the others add nothing.
std::vector<float> ProgramJob::values_of_rank_0(const NetworkFacts& network) const {
    std::vector<float> values;
    for (const auto* tensors : {&network.parameters, &network.state}) {
        for (const NamedTensor& tensor : *tensors) {
            values.insert(values.end(), tensor.values.begin(), tensor.values.end());
        }
    }
    if (world_->size() == 1) {
        return values;
    }
    std::vector<int> members(static_cast<std::size_t>(world_->size()));
    std::iota(members.begin(), members.end(), 0);
    const auto sum = make_all_reduce(*world_, members, static_cast<std::int64_t>(values.size()),
                                     {.algorithm = AllReduceAlgorithm::kOrdered});
    const std::span<float> buffer = sum->begin(0);
    if (world_->rank() == 0) {
        std::ranges::copy(values, buffer.begin());
    } else {
        std::ranges::fill(buffer, 0.0F);
    }
    sum->ready(0, static_cast<std::int64_t>(values.size()));
    sum->finish({});
    if (!sum->wait()) {
        fail<PeerError>({.where = "start", .what = "a rank was lost before the training began"});
    }
    values.assign(buffer.begin(), buffer.end());
    return values;
}

void ProgramJob::start(NetworkFacts network, const std::vector<std::string>& arguments) {
    try {
        prepare(std::move(network), arguments);
    } catch (const Error&) {  // on all ranks, in order
        trainer_.reset();
        world_->finalize();
        throw;
    } catch (const CLI::ParseError&) {  // the same
        world_->finalize();
        throw;
    }
    thread_ = std::thread([this] {
        try {
            outcome_.summary = trainer_->run();
        } catch (...) {
            outcome_.failure = std::current_exception();
        }
        exchange_.close();
    });
}

void ProgramJob::prepare(NetworkFacts network, const std::vector<std::string>& arguments) {
    parse(arguments);
    options_.model = network.name;
    options_ = checked(std::move(options_), world_->size());
    check_same_network(network);
    const std::vector<float> values = values_of_rank_0(network);
    auto from = values.begin();
    for (auto* tensors : {&network.parameters, &network.state}) {
        for (NamedTensor& tensor : *tensors) {
            const auto end = from + static_cast<std::ptrdiff_t>(tensor.values.size());
            std::copy(from, end, tensor.values.begin());
            from = end;
        }
    }
    network_ = {.graph = make_tensor_graph(network.name, network.parameters, network.state),
                .make =
                    [this](Device& device) {
                        return std::make_unique<OfferedModel>(network_.graph, device, exchange_,
                                                              models_++);
                    },
                .evaluates = network.test_samples > 0};
    TrainEnvironment environment;
    environment.stop_requested = [this] { return stop_.load(); };
    const LaunchEnv env = read_launch_env();
    environment.live_line = env.stderr_is_terminal;
    environment.cores = env.cores;
    environment.world = world_.get();
    environment.network = &network_;
    environment.samples = [train = network.train_samples,
                           test = network.test_samples](const std::string& group) {
        return std::make_shared<NumberedSamples>(
            group == "train" ? train : std::max<std::int64_t>(test, 1));
    };
    trainer_ = std::make_unique<Trainer>(options_, environment);
    if (world_->rank() == 0) {
        const RankMap& map = world_->map();
        log_info("{}: {}, {}, mode {}, {} samples per worker and step, budget {}", network.name,
                 counted(map.workers(), "worker"), counted(map.servers, "server"),
                 options_.mode_text(), options_.batch, trainer_->budget_samples());
    }
}

int ProgramJob::threads() const {
    const RankMap& map = world_->map();
    const RankInfo& self = map.ranks[static_cast<std::size_t>(world_->rank())];
    const auto sharing = std::ranges::count_if(map.ranks, [&](const RankInfo& other) {
        return other.role == Role::kWorker && other.node == self.node && other.cores == self.cores;
    });
    return threads_ > 0
               ? threads_
               : std::max(1, read_launch_env().cores / std::max(1, static_cast<int>(sharing)));
}

void ProgramJob::abort(const std::string& reason) {
    world_->abort(static_cast<ExitCode>(EXIT_FAILURE), reason);
}

/// What rank 0 has just written into model.h5, in the layout of the graph; null where it could not,
/// or nothing was trained.
FinalValues ProgramJob::saved_values() const {
    if (!outcome_.summary || world_->rank() != 0 || !outcome_.summary->outputs_saved ||
        !computes_network(options_)) {
        return nullptr;
    }
    Hdf5Thread hdf5;
    const StoreReader reader(RunFolder(options_.out).model, hdf5);
    auto values = std::make_shared<std::vector<float>>();
    for (const auto& [group, layout] : {std::pair("/parameters/", &network_.graph.parameters()),
                                        std::pair("/state/", &network_.graph.state())}) {
        const std::size_t begin = values->size();
        values->resize(begin + static_cast<std::size_t>(layout->total()));
        for (const FlatRange& range : layout->ranges()) {
            std::ranges::copy(reader.get<float>(group + range.name),
                              values->begin() + static_cast<std::ptrdiff_t>(begin) + range.offset);
        }
    }
    return values;
}

/// After it no role of this rank is left.
void ProgramJob::end_training() {
    const bool trained = thread_.joinable();
    if (trained) {
        thread_.join();
    }
    trainer_.reset();
    if (!trained) {
        return;
    }
    FinalValues saved;
    try {
        saved = saved_values();
    } catch (const Error&) {
        outcome_.failure = std::current_exception();
    }
    try {
        final_.share(*world_, saved, outcome_.failure != nullptr);
    } catch (const Error&) {  // on the other ranks
        outcome_.failure = std::current_exception();
    }
}

std::string ProgramJob::finish() {
    end_training();
    std::string summary;
    if (outcome_.summary && world_->rank() == 0) {
        summary = summary_json(*outcome_.summary, options_);
    }
    world_->finalize();
    if (world_->left_mpi()) {
        (void)world_.release();  // MPI may write into it until the process ends
    } else {
        world_.reset();
    }
    if (outcome_.failure) {
        std::rethrow_exception(outcome_.failure);
    }
    return summary;
}

}  // namespace cohort
