#include "evaluation.hpp"

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/data/dataset.hpp"
#include "cohort/model/zoo.hpp"
#include "cohort/train/snapshot.hpp"
#include "cohort/train/trainer.hpp"
#include "train_parts.hpp"

namespace cohort {
namespace {

/// Leaves for_each_batch early; never leaves this file.
struct Abandoned {};

}  // namespace

std::optional<EvaluationReport> evaluate_all(Replica& replica, Loader& loader, std::int64_t batch,
                                             const std::function<bool()>& abandon) {
    const SteadyClock clock;
    const auto start = clock.now();
    BatchResult total;
    try {
        const bool whole = for_each_batch(loader, batch, [&](const LoadedBatch& loaded) {
            if (abandon()) {
                throw Abandoned();
            }
            const BatchResult result = replica.evaluate(view_of(loaded));
            total.loss_sum += result.loss_sum;
            total.correct += result.correct;
            total.samples += result.samples;
        });
        check_invariant(whole, "nobody stops the evaluation's loader");
    } catch (const Abandoned&) {
        return std::nullopt;
    }
    const double count = static_cast<double>(total.samples);
    return EvaluationReport{.accuracy = static_cast<double>(total.correct) / count,
                            .loss = total.loss_sum / count,
                            .samples = total.samples,
                            .seconds = (clock.now() - start).count()};
}

EvaluationReport evaluate_model(const std::string& model_file, const std::string& data,
                                const std::string& group, const std::string& device_name,
                                int threads, std::int64_t batch) {
    if (batch < 1 || threads < 1) {
        fail<UsageError>({.where = "--batch, --threads", .what = "must be >= 1"});
    }
    Hdf5Thread hdf5;
    const ModelFile model = read_model(model_file, hdf5);
    const std::shared_ptr<SampleSource> set = open_dataset(data, group, hdf5);
    if (set->info().sample_shape != model.sample_shape || set->info().classes > model.classes) {
        fail<FileError>({.where = data,
                         .what = "the samples do not fit the model",
                         .expected = to_string(Shape(model.sample_shape)) + ", " +
                                     std::to_string(model.classes) + " classes",
                         .got = to_string(Shape(set->info().sample_shape)) + ", " +
                                std::to_string(set->info().classes) + " classes"});
    }
    const std::unique_ptr<Device> device = make_device(device_name, threads);
    Replica replica(make_model(model.model, Shape(model.sample_shape), model.classes), *device);
    Stream& stream = replica.stream();
    stream.copy(replica.parameters().data(), model.parameters.data(),
                replica.parameters().size_bytes());
    stream.copy(replica.state().data(), model.state.data(), replica.state().size_bytes());
    stream.synchronize();
    LoaderOptions options;
    options.allocator = host_allocator(*device);
    Loader loader(set, options);
    return *evaluate_all(replica, loader, batch, [] { return false; });
}

}  // namespace cohort
