// The learner of virtual runs in place of many ranks: synchronous updates of N workers, or of their
// local steps, by the order of their leases.
//
//     learner_reference OUT WORKERS [--data F --model M --batch B --samples S --local-steps H ...]
//
// Writes OUT/model.h5. With N workers of an ssgd or localsgd:H run with servers the result must be
// the same, bit for bit.

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cohort/data/dataset.hpp"
#include "cohort/data/lease.hpp"
#include "cohort/model/zoo.hpp"
#include "data/networks/model_file.hpp"
#include "sched/engine/fire_sum.hpp"
#include "sim/learner/learner.hpp"
#include "sim/learner/learner_store.hpp"

namespace cohort {
namespace {

struct Settings {
    std::string out;
    int workers = 1;
    std::int64_t batch = 64;
    std::int64_t samples = 0;
    double lr = 0.05;
    int local_steps = 0;  ///< 0: gradients
    LearnerOptions learner{.network = {.model = "lenet"}};
};

SampleSetInfo info_of(const std::string& data) {
    Hdf5Thread hdf5;
    return open_dataset(data, "train", hdf5)->info();
}

class Run {
public:
    explicit Run(const Settings& settings)
        : settings_(settings),
          info_(info_of(settings.learner.data)),
          learner_(make_learner(settings.learner)),
          book_(info_, {.seed = settings.learner.seed}, settings.samples) {}

    /// One update; false when no sample is left.
    bool round() {
        const int steps = std::max(settings_.local_steps, 1);
        const Learner::Released released = learner_->release(0, 0, settings_.lr, false);
        std::int64_t samples = 0;
        std::vector<LeasedSlice> leases;
        for (int worker = 0; worker < settings_.workers; ++worker) {
            if (const auto lease = book_.take_slice(settings_.batch * steps)) {
                samples += lease->slice.count;
                leases.push_back(*lease);
            }
        }
        if (leases.empty()) {
            return false;
        }
        const std::int64_t reference = settings_.batch * settings_.workers;
        const Work work = settings_.local_steps > 0 ? Work::kDelta : Work::kGradient;
        Fire fire{.samples = samples, .work = work};
        std::vector<std::int32_t> pieces;
        UpdateOrder update{
            .version = ++version_,
            .fraction = static_cast<double>(samples) / static_cast<double>(reference),
            .learning_rate = settings_.lr,
            .work = work};
        std::vector<Learner::WorkId> works;
        for (const LeasedSlice& lease : leases) {
            fire.pushes.push_back({.ticket = {.samples = lease.slice.count}});
            pieces.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(
                (lease.slice.count + settings_.batch / 2) / settings_.batch, 1)));
            const int worker = static_cast<int>(update.terms.size());
            works.push_back(learner_->start({.worker = worker,
                                             .slice = lease.slice,
                                             .parameters = released,
                                             .work = work,
                                             .steps = pieces.back(),
                                             .lr = settings_.lr}));
            update.terms.push_back({.push = {.worker = worker}, .version = version_ - 1});
        }
        const std::vector<double> coefficients = sum_coefficients(fire, pieces, reference);
        for (std::size_t i = 0; i < coefficients.size(); ++i) {
            update.terms[i].coefficient = coefficients[i];
        }
        learner_->apply(update, works);
        for (const LeasedSlice& lease : leases) {
            if (!book_.mark_applied(lease.id)) {
                throw std::logic_error("a lease was applied twice");
            }
        }
        return true;
    }

    void save() {
        const Graph graph =
            make_model(settings_.learner.network.model, Shape(info_.sample_shape), info_.classes);
        const float* values = learner_->release(0, 0, settings_.lr, false)->values().get();
        const float* state = values + graph.parameters().total();
        std::filesystem::create_directories(settings_.out);
        Hdf5Thread hdf5;
        write_model(settings_.out + "/model.h5",
                    {.graph = graph,
                     .sample_shape = info_.sample_shape,
                     .classes = info_.classes,
                     .mean = info_.mean,
                     .std = info_.std,
                     .parameters = {values, state},
                     .state = {state, state + graph.state().total()}},
                    hdf5);
    }

private:
    const Settings& settings_;
    SampleSetInfo info_;
    std::unique_ptr<Learner> learner_;
    LeaseLedger book_;
    std::int64_t version_ = 0;
};

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
    cohort::Settings settings;
    CLI::App app("The learner of virtual runs in place of many ranks");
    app.add_option("out", settings.out)->required();
    app.add_option("workers", settings.workers)->required();
    app.add_option("--data", settings.learner.data)->required();
    app.add_option("--model", settings.learner.network.model);
    app.add_option("--batch", settings.batch);
    app.add_option("--samples", settings.samples)->required();
    app.add_option("--lr", settings.lr);
    app.add_option("--momentum", settings.learner.momentum);
    app.add_option("--weight-decay", settings.learner.weight_decay);
    app.add_option_function<std::string>("--optimizer", [&](const std::string& word) {
        settings.learner.optimizer = cohort::parse_word<cohort::OptimizerKind>(word, "--optimizer");
    });
    app.add_option("--augment", settings.learner.augment);
    app.add_option("--seed", settings.learner.seed);
    app.add_option("--threads", settings.learner.threads);
    app.add_option("--local-steps", settings.local_steps);
    CLI11_PARSE(app, argc, argv);
    try {
        cohort::Run run(settings);
        while (run.round()) {
        }
        run.save();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "learner_reference: %s\n", error.what());
        return 1;
    }
    return 0;
}
