#include "train/run/evaluation.hpp"

#include <fmt/ranges.h>

#include <utility>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/data/dataset.hpp"
#include "cohort/train/trainer.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "data/networks/model_file.hpp"
#include "train/run/job_context.hpp"

namespace cohort {
namespace {

/// Leaves for_each_batch early; never leaves this file.
struct Abandoned {};

/// A set with another normalisation: that of the model which looks at it, where it has one.
class NormalisedFor final : public SampleSource {
public:
    NormalisedFor(std::unique_ptr<SampleSource> set, const ModelFile& model)
        : set_(std::move(set)), info_(set_->info()) {
        if (!model.mean.empty()) {
            info_.mean = model.mean;
            info_.std = model.std;
        }
        info_.target_mean = model.target_mean;
        info_.target_std = model.target_std;
    }
    [[nodiscard]] const SampleSetInfo& info() const override { return info_; }
    [[nodiscard]] std::string where() const override { return set_->where(); }
    [[nodiscard]] RawChunk read_chunk(std::int64_t index) override {
        return set_->read_chunk(index);
    }

private:
    std::unique_ptr<SampleSource> set_;
    SampleSetInfo info_;
};

/// Opens the set and checks that the model can take it.
std::shared_ptr<SampleSource> open_for(const ModelFile& model, const std::string& data,
                                       const std::string& group, Hdf5Thread& hdf5) {
    std::unique_ptr<SampleSource> set = open_dataset(data, group, hdf5);
    const SampleSetInfo& info = set->info();
    if (info.sample_shape != model.sample_shape || info.classes > model.classes ||
        info.targets != model.targets() || info.tokens() != model.tokens) {
        const auto text = [](const auto& one, bool tokens, std::int64_t targets) {
            return fmt::format("{}, {}", to_string(Shape(one.sample_shape)),
                               targets > 0 ? counted(targets, "target")
                               : tokens    ? fmt::format("{} different tokens", one.classes)
                                           : fmt::format("{} classes", one.classes));
        };
        fail<FileError>(
            {.where = data,
             .what = "the samples do not fit the model",
             .expected = text(model, model.tokens, model.targets()),
             .got = text(info, info.tokens(), info.targets),
             .hint = info.targets > 0 && model.targets() == 0
                         ? "the model.h5 of a regression, or what `cohort export` made of it: "
                           "another ONNX file does not say how targets are standardised"
                         : ""});
    }
    if (info.vocabulary && model.vocabulary && info.vocabulary->text != model.vocabulary->text) {
        fail<FileError>({.where = data,
                         .what = "the text has another vocabulary than the model",
                         .expected = "the one that the model was trained with",
                         .got = fmt::format("another of {} tokens", info.classes),
                         .hint = "the data set of the training run"});
    }
    if (!model.mean.empty() && (info.mean != model.mean || info.std != model.std)) {
        log_info("normalised with the model's mean {} and std {}; the dataset's are {} and {}",
                 fmt::join(model.mean, " "), fmt::join(model.std, " "), fmt::join(info.mean, " "),
                 fmt::join(info.std, " "));
    }
    if (info.target_mean != model.target_mean || info.target_std != model.target_std) {
        log_info(
            "targets standardised with the model's mean {} and std {}; the dataset's are {} and {}",
            fmt::join(model.target_mean, " "), fmt::join(model.target_std, " "),
            fmt::join(info.target_mean, " "), fmt::join(info.target_std, " "));
    }
    if (!info.checked) {
        log_info("{}: without checksums: what is read is unverified", set->where());
    }
    return std::make_shared<NormalisedFor>(std::move(set), model);
}

}  // namespace

void load_model(const ModelFile& model, TrainableModel& replica) {
    Stream& stream = replica.stream();
    stream.copy(replica.parameters().data(), model.parameters.data(),
                replica.parameters().size_bytes());
    stream.copy(replica.state().data(), model.state.data(), replica.state().size_bytes());
    stream.synchronize();
}

std::optional<BatchResult> evaluate_range(TrainableModel& replica, Loader& loader,
                                          std::int64_t begin, std::int64_t end, std::int64_t batch,
                                          const std::function<bool()>& abandon,
                                          const std::function<void(std::int64_t)>& progress) {
    BatchResult total;
    try {
        const bool whole = for_each_batch(
            loader, begin, end, batch,
            [&](const LoadedBatch& loaded) {
                if (abandon()) {
                    throw Abandoned();
                }
                const BatchResult result = replica.evaluate(view_of(loaded));
                total.loss_sum += result.loss_sum;
                total.correct += result.correct;
                total.samples += result.samples;
                if (progress) {
                    progress(total.samples);
                }
            },
            abandon);
        return whole ? std::optional(total) : std::nullopt;
    } catch (const Abandoned&) {
        return std::nullopt;
    }
}

EvaluationReport evaluation_report(const BatchResult& sums, double seconds) {
    const double count = static_cast<double>(sums.samples);
    return {.accuracy = sums.correct / count,
            .loss = sums.loss_sum / count,
            .samples = sums.samples,
            .seconds = seconds};
}

std::optional<EvaluationReport> evaluate_all(TrainableModel& replica, Loader& loader,
                                             std::int64_t batch,
                                             const std::function<bool()>& abandon) {
    const SteadyClock clock;
    const auto start = clock.now();
    const std::optional<BatchResult> sums =
        evaluate_range(replica, loader, 0, loader.info().samples, batch, abandon);
    if (!sums) {
        return std::nullopt;
    }
    return evaluation_report(*sums, (clock.now() - start).count());
}

EvaluationReport evaluate_model(const std::string& model_file, const std::string& data,
                                const std::string& group, const std::string& device_name,
                                int threads, std::int64_t batch, PrecisionChoice precision,
                                const std::string& tuning_file) {
    if (batch < 1 || threads < 1) {
        fail<UsageError>({.where = "--batch, --threads", .what = "must be >= 1"});
    }
    Hdf5Thread hdf5;
    const ModelFile model = read_trained(model_file, hdf5);
    const std::shared_ptr<SampleSource> set = open_for(model, data, group, hdf5);
    const std::unique_ptr<Device> device = make_device(device_name, threads);
    Replica replica(model.graph, *device, replica_options(*device, precision, false, tuning_file));
    load_model(model, replica);
    LoaderOptions options;
    options.allocator = host_allocator(*device);
    Loader loader(set, options);
    EvaluationReport report = *evaluate_all(replica, loader, batch, [] { return false; });
    report.task = set->info().task();
    return report;
}

}  // namespace cohort
