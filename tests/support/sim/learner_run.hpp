#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cohort/data/dataset.hpp"
#include "cohort/data/lease.hpp"
#include "cohort/model/replica.hpp"
#include "cohort/model/zoo.hpp"
#include "cohort/optim/optimizer.hpp"
#include "sim/learner/learner.hpp"
#include "sim/learner/learner_pool.hpp"
#include "sim/learner/learner_store.hpp"
#include "support/core/temp_folder.hpp"
#include "support/data/tiny_dataset.hpp"

namespace cohort::test {

inline constexpr std::int64_t kTinyTrain = 300;
inline constexpr std::int64_t kTinyTest = 130;

/// A file with a tiny dataset, one for all tests of a program.
inline const std::string& tiny_file() {
    static const TempFolder folder;
    static const std::string file = [] {
        Hdf5Thread thread;
        write_tiny_dataset(folder.file("tiny.h5"), kTinyTrain, kTinyTest, thread);
        return folder.file("tiny.h5");
    }();
    return file;
}

inline constexpr std::int64_t kBatch = 12;
inline constexpr double kLr = 0.05;

inline LeaseSlice slice(std::int64_t position, std::int64_t count = kBatch,
                        std::uint32_t epoch = 0) {
    return {.epoch = epoch, .position = position, .count = count};
}

inline LearnerOptions tiny_options(const std::string& model = "smallcnn") {
    return {.data = tiny_file(), .network = {.model = model}, .seed = 7};
}

/// Samples of a group of the file, as the learner reads them.
inline SampleMemory tiny_samples(const std::string& group, const AugmentOptions& augment = {}) {
    Hdf5Thread thread;
    const auto set = open_dataset(tiny_file(), group, thread);
    return {*set, augment};
}

inline std::vector<float> parameters_of(const Graph& graph, const Learner::Released& released) {
    const float* first = released->values().get();
    return {first, first + graph.parameters().total()};
}

inline std::vector<float> state_of(const Graph& graph, const Learner::Released& released) {
    const float* first = released->values().get() + graph.parameters().total();
    return {first, first + graph.state().total()};
}

/// One network in this thread, with its optimizer: what a learner's results must be.
class LoneTrainer {
public:
    explicit LoneTrainer(const LearnerOptions& options)
        : train(tiny_samples("train", parse_augment(options.augment, options.seed))),
          device(make_cpu_device(1)),
          replica(make_model(options.network.model, Shape(train.info().sample_shape),
                             train.info().classes),
                  *device, {.deterministic = true}),
          optimizer(make_optimizer({.kind = options.optimizer,
                                    .momentum = options.momentum,
                                    .nesterov = options.nesterov,
                                    .weight_decay = options.weight_decay,
                                    .decoupled = options.optimizer == OptimizerKind::kAdamW},
                                   replica.graph().parameters(), 0,
                                   replica.graph().parameters().total(), *device,
                                   replica.stream())),
          reader(train.info(), {.seed = options.seed}),
          seed(options.seed) {
        replica.initialise(options.seed);
    }

    /// Mean gradient of a slice, then its batch statistics, with the replica's parameters.
    std::vector<float> gradient(const LeaseSlice& slice) {
        SampleBatch batch;
        train.load(reader.samples(slice), slice.epoch, batch);
        result = replica.train_step(batch.view(), seed);
        std::vector<float> all(replica.gradients().begin(), replica.gradients().end());
        all.insert(all.end(), replica.batch_state().begin(), replica.batch_state().end());
        return all;
    }
    /// sum += c g as servers do it: the product rounded, then added.
    static void add(std::vector<float>& sum, const std::vector<float>& gradient,
                    float coefficient) {
        const bool first = sum.empty();
        sum.resize(gradient.size());
        for (std::size_t i = 0; i < sum.size(); ++i) {
            const volatile float product = coefficient * gradient[i];
            sum[i] = first ? product : sum[i] + product;
        }
    }
    /// An update with the parameters' part of `sum`; the rest goes into the running statistics.
    void update(const std::vector<float>& sum, double fraction, double lr) {
        const std::span<const float> all(sum);
        const std::size_t parameters = replica.parameters().size();
        optimizer->update(replica.parameters(), all.first(parameters), fraction, lr);
        fold_batch_statistics(replica.state(), all.subspan(parameters), kBatchNormMomentum,
                              fraction);
    }
    [[nodiscard]] std::vector<float> parameters() {
        return {replica.parameters().begin(), replica.parameters().end()};
    }
    [[nodiscard]] std::vector<float> state() {
        return {replica.state().begin(), replica.state().end()};
    }
    [[nodiscard]] const Graph& graph() const { return replica.graph(); }

    SampleMemory train;
    std::unique_ptr<Device> device;
    Replica replica;
    std::unique_ptr<Optimizer> optimizer;
    SliceReader reader;
    std::uint64_t seed;
    BatchResult result;  ///< of the last gradient
};

/// A push's part in an update.
struct LearnerTerm {
    Learner::WorkId work = 0;
    double coefficient = 1;
    int worker = 0;
    std::int64_t version = 0;  ///< that it was computed on
};

inline double apply(Learner& learner, UpdateOrder update, const std::vector<LearnerTerm>& terms) {
    std::vector<Learner::WorkId> works;
    for (const LearnerTerm& term : terms) {
        works.push_back(term.work);
        update.terms.push_back({.push = {.worker = term.worker},
                                .coefficient = term.coefficient,
                                .version = term.version});
    }
    return learner.apply(update, works);
}

/// A synchronous update of workers that all begin with the current parameters.
inline double synchronous_update(Learner& learner, const std::vector<LeaseSlice>& slices,
                                 std::int64_t version, double fraction) {
    const Learner::Released released = learner.release(0, 0, kLr, false);
    UpdateOrder update{
        .version = version, .fraction = fraction, .learning_rate = kLr, .ask_norm = true};
    std::vector<LearnerTerm> terms;
    double samples = 0;
    for (const LeaseSlice& one : slices) {
        samples += static_cast<double>(one.count);
        update.samples += one.count;
    }
    for (const LeaseSlice& one : slices) {
        const int worker = static_cast<int>(terms.size());
        terms.push_back(
            {.work = learner.start({.worker = worker, .slice = one, .parameters = released}),
             .coefficient = static_cast<double>(one.count) / samples,
             .worker = worker,
             .version = version - 1});
    }
    return apply(learner, std::move(update), terms);
}

/// The same update of that one.
inline void lone_update(LoneTrainer& lone, const std::vector<LeaseSlice>& slices, double fraction) {
    std::vector<float> sum;
    double samples = 0;
    for (const LeaseSlice& one : slices) {
        samples += static_cast<double>(one.count);
    }
    for (const LeaseSlice& one : slices) {
        LoneTrainer::add(sum, lone.gradient(one),
                         static_cast<float>(static_cast<double>(one.count) / samples));
    }
    lone.update(sum, fraction, kLr);
}

}  // namespace cohort::test
