#include "train/run/job_context.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>

#include "cohort/core/error.hpp"
#include "cohort/data/dataset.hpp"
#include "cohort/networks/network.hpp"
#include "core/units.hpp"
#include "sched/session/model_input.hpp"
#include "train/checkpoint/snapshot.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

std::int64_t budget_of(const TrainOptions& options, std::int64_t epoch_samples) {
    if (options.samples > 0) {
        return options.samples;
    }
    const std::int64_t epochs = std::max<std::int64_t>(options.epochs, 1);
    const std::int64_t most = std::numeric_limits<std::int64_t>::max() / epoch_samples;
    if (epochs > most) {
        fail<UsageError>({.where = "--epochs",
                          .what = "that many samples cannot be counted",
                          .expected = fmt::format("<= {}", most),
                          .got = std::to_string(epochs)});
    }
    return epoch_samples * epochs;
}

std::int64_t chosen_reference_batch(const TrainOptions& options, std::int64_t samples,
                                    int workers) {
    require_batch(options.batch, samples, options.data);
    return options.batch * workers;
}

Schedule make_schedule(const TrainOptions& options, std::int64_t budget) {
    std::string text = options.lr_schedule;
    if (options.warmup_samples > 0) {
        text += fmt::format("+warmup:{}", options.warmup_samples);
    }
    const Schedule schedule = Schedule::parse(text);
    return schedule.needs_end() ? schedule.with_end(budget) : schedule;
}

std::shared_ptr<SampleSource> open_samples(const TrainOptions& options, const SampleOpener& samples,
                                           const std::string& group, Hdf5Thread& hdf5) {
    return samples ? samples(group) : open_dataset(options.data, group, hdf5);
}

Graph make_run_model(const TrainOptions& options, const OwnNetwork* network,
                     const SampleSetInfo& train, const SampleSetInfo& test,
                     std::vector<std::string>& news) {
    if (train.sample_shape != test.sample_shape || train.classes != test.classes ||
        train.targets != test.targets || train.tokens() != test.tokens()) {
        fail<FileError>({.where = options.data,
                         .what = "the train and test groups hold different samples",
                         .expected = format_shape(train.sample_shape),
                         .got = format_shape(test.sample_shape)});
    }
    require_target_of(train, options.target_accuracy);
    if (network != nullptr) {
        return network->graph;
    }
    ModelSource source = options;
    if (options.resume && !list_checkpoints(RunFolder(options.out).checkpoints).empty()) {
        source.init.clear();  // the weights are those of the checkpoint
    }
    return make_graph(source, model_input(train), &news, train.vocabulary.get());
}

}  // namespace

std::string set_identity(const SampleSetInfo& set) {
    const std::string labels = set.targets > 0 ? fmt::format("targets of mean {} and std {}",
                                                             fmt::join(set.target_mean, " "),
                                                             fmt::join(set.target_std, " "))
                                               : fmt::format("{} classes", set.classes);
    return fmt::format("{} x [{}] {}, chunks of {}, {}, mean {}, std {}, {}", set.samples,
                       fmt::join(set.sample_shape, ","), word_of(set.type), set.chunk_samples,
                       labels, fmt::join(set.mean, " "), fmt::join(set.std, " "),
                       set.checksum.empty() ? "no checksum" : set.checksum);
}

std::vector<std::pair<std::string, std::string>> run_identity(const TrainOptions& options,
                                                              const SampleSetInfo& train,
                                                              const Graph& graph) {
    std::vector<std::pair<std::string, std::string>> facts{
        {kNetworkFact, network_text(graph)},
        {"dataset", set_identity(train)},
        {"optimizer", std::string(word_of(options.optimizer))},
        {"batch", std::to_string(options.batch)},
        {"seed", std::to_string(options.seed)},
    };
    if (!computes_network(options)) {
        facts.emplace_back("compute", options.compute);
    }
    return facts;
}

std::string arithmetic(const TrainOptions& options, const RankMap& map) {
    if (!options.deterministic || !computes_network(options)) {
        return "";
    }
    if (options.precision == PrecisionChoice::kAuto) {
        return precision_facts(options, map);
    }
    const bool on_cpus = std::ranges::any_of(map.ranks, [](const RankInfo& info) {
        return info.role == Role::kWorker && !info.device.starts_with("cuda");
    });
    return options.precision == PrecisionChoice::kBf16 && on_cpus
               ? fmt::format("{} by oneDNN {}", cpu_isa(), dnnl_version_text())
               : "";
}

std::string precision_facts(const TrainOptions& options, const RankMap& map) {
    std::vector<std::string> found;
    for (const RankInfo& info : map.ranks) {
        if (info.role == Role::kWorker) {
            const bool gpu = info.device.starts_with("cuda");
            const Precision precision =
                precision_on(gpu ? DeviceKind::kCuda : DeviceKind::kCpu, options.precision);
            std::string words = fmt::format("{} on {}", word_of(precision), gpu ? "GPUs" : "CPUs");
            if (std::ranges::find(found, words) == found.end()) {
                found.push_back(std::move(words));
            }
        }
    }
    std::ranges::sort(found);
    return fmt::format("precision {}", fmt::join(found, ", "));
}

std::string device_of_this_rank(std::string_view option, const RankMap& map, int rank) {
    std::string device = device_of_rank(option, map, rank, gpus_for(option));
    if (option == "auto" && device == "cpu" && map.place_in_role(rank) == 0) {
        warn_of_unused_gpus();
    }
    return device;
}

HostAllocator host_allocator(Device& device) {
    return [&device](std::size_t bytes) {
        auto buffer = std::make_shared<Buffer>(device.allocate_host(bytes));
        return std::shared_ptr<void>(buffer, buffer->data());
    };
}

ReplicaOptions replica_options(const Device& device, PrecisionChoice precision, bool deterministic,
                               const std::string& tuning_file) {
    ReplicaOptions options{.deterministic = deterministic,
                           .precision = precision_on(device.kind(), precision)};
    if (!deterministic && !tuning_file.empty()) {
        std::error_code error;  // an error is reported when the file is written
        std::filesystem::create_directories(std::filesystem::path(tuning_file).parent_path(),
                                            error);
        options.tuning_file = tuning_file;
    }
    return options;
}

BatchView view_of(const LoadedBatch& batch) {
    return {.samples = batch.samples().data(),
            .labels = batch.labels().data(),
            .sample_ids = batch.sample_ids().data(),
            .size = batch.size(),
            .epoch = batch.epoch(),
            .targets = batch.targets().data(),
            .tokens = batch.tokens().data(),
            .stored = batch.stored(),
            .serial = batch.serial()};
}

JobContext::JobContext(const TrainOptions& run_options, int workers, const SampleOpener& samples,
                       const OwnNetwork* own_network)
    : options(run_options),
      train_set(open_samples(options, samples, "train", hdf5)),
      test_set(open_samples(options, samples, "test", hdf5)),
      network(own_network),
      graph(make_run_model(options, network, train_set->info(), test_set->info(), model_news)),
      order{.seed = options.seed},
      augment(parse_augment(options.augment, options.seed)),
      optimizer(optimizer_options(options)),
      budget_samples(budget_of(options, train_set->info().samples)),
      schedule(make_schedule(options, budget_samples)),
      reference_batch(chosen_reference_batch(options, train_set->info().samples, workers)) {
}

JobFacts job_facts(const JobContext& parts) {
    const auto parameters = static_cast<double>(parts.graph.parameters().elements());
    const bool learns = computes_network(parts.options);
    return {.parameters = parameters,
            .parameter_bytes = parameters * static_cast<double>(wire_bytes(parts.options.wire)),
            .flops_per_sample = learns ? parts.graph.training_flops_per_sample() : 0,
            .learning_rate = parts.options.lr,
            .momentum = momentum_of(parts.optimizer),
            .local_steps = learns && parts.optimizer.kind == OptimizerKind::kSgd};
}

}  // namespace cohort
