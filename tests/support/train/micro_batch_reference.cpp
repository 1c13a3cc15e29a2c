// The reference for training on many ranks: one process computes the gradients of N mini-batches on
// the same parameters, sums them in the order of their leases and applies one update.
//
//     micro_batch_reference OUT WORKERS [--data F --model M --batch B --samples S ...]
//
// Writes OUT/model.h5. With N workers of an ssgd run or a ring the result must be the same, bit for
// bit, when the model has no batch statistics.

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cohort/data/loader.hpp"
#include "cohort/model/replica.hpp"
#include "cohort/optim/optimizer.hpp"
#include "cohort/train/options.hpp"
#include "data/networks/model_file.hpp"
#include "train/run/job_context.hpp"

namespace cohort {
namespace {

/// g += c p as servers and rings do it: the product rounded, then added.
void add_scaled(std::vector<float>& sum, std::span<const float> gradient, float coefficient,
                bool first) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
        const volatile float product = coefficient * gradient[i];
        sum[i] = first ? product : sum[i] + product;
    }
}

class Reference {
public:
    Reference(const TrainOptions& options, int workers)
        : parts_(options, workers),
          device_(make_device("cpu", 1)),
          replica_(parts_.graph, *device_, {.deterministic = true}),
          optimizer_(make_optimizer(parts_.optimizer, parts_.graph.parameters(), 0,
                                    parts_.graph.parameters().total(), *device_,
                                    replica_.stream())),
          loader_(parts_.train_set, {.augment = parts_.augment, .order = parts_.order}),
          book_(parts_.train_set->info(), parts_.order, parts_.budget_samples),
          workers_(workers) {
        replica_.initialise(options.seed);
    }

    void run() {
        while (round()) {
        }
    }

    void save(const std::string& out) {
        const SampleSetInfo& info = parts_.train_set->info();
        const auto copy = [](std::span<const float> from) {
            return std::vector<float>(from.begin(), from.end());
        };
        std::filesystem::create_directories(out);
        write_model(out + "/model.h5",
                    {.graph = parts_.graph,
                     .sample_shape = info.sample_shape,
                     .classes = info.classes,
                     .mean = info.mean,
                     .std = info.std,
                     .target_mean = info.target_mean,
                     .target_std = info.target_std,
                     .parameters = copy(replica_.parameters()),
                     .state = copy(replica_.state())},
                    parts_.hdf5);
    }

private:
    /// One update; false when no sample is left.
    bool round() {
        std::vector<Lease> leases;
        std::int64_t samples = 0;
        for (int worker = 0; worker < workers_; ++worker) {
            if (auto lease = book_.take(parts_.options.batch)) {
                samples += lease->size();
                leases.push_back(std::move(*lease));
            }
        }
        if (leases.empty()) {
            return false;
        }
        const auto total = static_cast<double>(samples);
        std::vector<float> sum(replica_.gradients().size());
        std::vector<float> statistics(replica_.batch_state().size());
        for (const Lease& lease : leases) {
            loader_.submit(lease);
            const LoadedBatch batch = *loader_.next();
            (void)replica_.train_step(view_of(batch), parts_.options.seed);
            const auto coefficient = static_cast<float>(static_cast<double>(lease.size()) / total);
            const bool first = &lease == &leases.front();
            add_scaled(sum, replica_.gradients(), coefficient, first);
            add_scaled(statistics, replica_.batch_state(), coefficient, first);
            if (!book_.mark_applied(lease.id)) {
                throw std::logic_error("a lease was applied twice");
            }
        }
        const double fraction = total / static_cast<double>(parts_.reference_batch);
        optimizer_->update(replica_.parameters(), sum, fraction,
                           parts_.schedule.lr(parts_.options.lr, applied_));
        fold_batch_statistics(replica_.state(), statistics, 0.1, fraction);
        applied_ += samples;
        return true;
    }

    JobContext parts_;
    std::unique_ptr<Device> device_;
    Replica replica_;
    std::unique_ptr<Optimizer> optimizer_;
    Loader loader_;
    LeaseLedger book_;
    int workers_;
    std::int64_t applied_ = 0;
};

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
    cohort::TrainOptions options;
    int workers = 1;
    CLI::App app("One process in place of many workers");
    app.add_option("out", options.out)->required();
    app.add_option("workers", workers)->required();
    app.add_option("--data", options.data)->required();
    app.add_option("--model", options.model);
    app.add_option("--batch", options.batch);
    app.add_option("--samples", options.samples);
    app.add_option("--epochs", options.epochs);
    app.add_option("--lr", options.lr);
    app.add_option("--lr-schedule", options.lr_schedule);
    app.add_option("--momentum", options.momentum);
    app.add_option("--weight-decay", options.weight_decay);
    app.add_option_function<std::string>("--optimizer", [&](const std::string& word) {
        options.optimizer = cohort::parse_word<cohort::OptimizerKind>(word, "--optimizer");
    });
    app.add_option("--augment", options.augment);
    app.add_option("--seed", options.seed);
    CLI11_PARSE(app, argc, argv);
    try {
        cohort::Reference reference(options, workers);
        reference.run();
        reference.save(options.out);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "micro_batch_reference: %s\n", error.what());
        return 1;
    }
    return 0;
}
